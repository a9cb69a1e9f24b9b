# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
MAKEFLAGS += --no-print-directory

KERNEL ?= 6.12
FILE ?=
export FILE
DESTDIR ?=
PREFIX ?= /usr/local

ifneq ($(words $(subst :, ,$(subst %, ,$(CURDIR)))),1)
$(error The modules cannot be built in "$(CURDIR)": no space, colon or percent sign may be in that path)
endif

.PHONY: all
all: userspace modules ## build the library, the command and the modules

.PHONY: help
help: ## show this
	@echo "Tally: an RDMA adapter made of software, with completion counters"
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22
	@echo
	@echo "  KERNEL=6.12|6.1|debug|running|all  what 'modules' builds for (default: 6.12)"
	@echo "  DEBUG_INFO=1                       has the distribution kernels' modules built with debug information"
	@echo "  FILE=...                           what 'demo' copies (default: 64 MiB, made for it)"
	@echo "  DESTDIR=, PREFIX=/usr/local        where 'install' puts the library and the command"

.PHONY: deps
deps: ## install the Debian packages that everything here needs
	@tools/deps

.PHONY: userspace
userspace: deps ## build the library and the command in build/bin, build/lib
	@test -e build/cmake/build.ninja || \
		cmake -S . -B build/cmake -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX='$(PREFIX)'
	@cmake --build build/cmake

.PHONY: everything
everything: userspace ## build what only 'bench' and 'check-debug' run, too
	@cmake --build build/cmake --target tally_bench hca_bench rdma_failslab

.PHONY: modules
modules: deps ## build the modules in build/kmod/KERNEL
	@tools/kmod $(KERNEL)

.PHONY: sparse
sparse: deps ## check the modules' sources with sparse
	@tools/kmod --sparse 6.12 6.1

.PHONY: load
load: ## load the modules into the running kernel (root)
	@tools/kmod running
	@tools/load

.PHONY: unload
unload: ## unload them (root)
	@tools/load --unload

.PHONY: demo
demo: deps ## boot a VM and move a file by RDMA there
	@$(MAKE) modules KERNEL=6.12
	@$(MAKE) userspace
	@tools/demo

.PHONY: check
check: deps ## run all tests but those on the debug kernel
	@tools/check check

.PHONY: check-debug
check-debug: debug-kernel ## run the tests that the debug kernel watches
	@tools/check check-debug

.PHONY: conformance
conformance: deps ## run all of rdma-core's tests on tally0 and rxe0, write Documentation/conformance.md
	@$(MAKE) modules KERNEL=6.12
	@tools/conformance

.PHONY: bench
bench: deps ## measure tally0 beside rxe0 and memcpy, write Documentation/performance.md (forty minutes, idle machine)
	@$(MAKE) modules KERNEL=6.12
	@$(MAKE) everything
	@tools/bench

.PHONY: debug-kernel
debug-kernel: deps ## build the debug kernel (once; kept outside this folder)
	@tools/vm/debug-kernel

.PHONY: fuzz
fuzz: userspace ## run each fuzzer for ten minutes
	@tools/fuzz 600

.PHONY: install
install: userspace ## install the library and the command
	@DESTDIR='$(DESTDIR)' cmake --install build/cmake --prefix '$(PREFIX)'
	@test -n '$(DESTDIR)' || test "$$(id -u)" != 0 || /sbin/ldconfig

.PHONY: clean
clean: ## remove what was built here
	rm -rf build
