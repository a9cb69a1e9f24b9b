// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A dma-buf without a device that exports one.
#pragma once

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "verbs.hpp"

namespace rdma {

// A dma-buf over anonymous memory, and a mapping of it.
struct UDmabuf {
	int fd = -1;
	size_t size = 65536;
	char *map = nullptr;
	UDmabuf()
	{
		int mem = memfd_create("words", MFD_ALLOW_SEALING);
		if (mem < 0 || ftruncate(mem, size) || fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK))
			fail("memfd");
		int dev = open("/dev/udmabuf", O_RDWR);
		if (dev < 0)
			fail("/dev/udmabuf");
		udmabuf_create u{};
		u.memfd = mem;
		u.size = size;
		fd = ioctl(dev, UDMABUF_CREATE, &u);
		const int err = errno;
		close(dev);
		map = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0));
		close(mem);
		if (fd < 0)
			fail("UDMABUF_CREATE", err);
	}
	~UDmabuf()
	{
		munmap(map, size);
		if (fd >= 0)
			close(fd);
	}
	volatile uint64_t *word(size_t off) { return reinterpret_cast<volatile uint64_t *>(map + off); }
};

// Debian's 6.1 has no exporter of these, and neither need the kernel of a host that is no virtual machine of ours.
inline bool may_lack_udmabuf()
{
	const char *kernel = std::getenv("TALLY_KERNEL");
	return !kernel || !std::strcmp(kernel, "6.1");
}

#define NEED_EXPORTER(file)                                                                                  \
	if (access(file, F_OK)) {                                                                            \
		if (!may_lack_udmabuf())                                                                     \
			FAIL() << "this kernel should have " file;                                           \
		GTEST_SKIP() << "this kernel has no " file;                                                  \
	}                                                                                                    \
	static_assert(true)
#define NEED_UDMABUF NEED_EXPORTER("/dev/udmabuf")

} // namespace rdma
