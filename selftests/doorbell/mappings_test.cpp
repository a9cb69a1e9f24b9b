// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What may be done with a UAR page's mapping, and what not.
#include <csignal>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "../rdma/devx.hpp"
#include "../rdma/ktap.hpp"
#include "ringer.hpp"

using namespace rdma;

namespace {

void still_rings(Ringer &r)
{
	r.post();
	r.ring();
	EXPECT_TRUE(r.completes());
}

// In a child: how it ends.
int status_of(const std::function<void()> &body)
{
	pid_t child = fork();
	int status = -1;

	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		body();
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	return status;
}

KTEST(mapping, "anything but one whole shared writable page is refused")
{
	Context c;
	int fd = c.get()->cmd_fd;
	const auto expect = [&](int error, std::size_t size, int prot, int flags, off_t offset) {
		errno = 0;
		void *p = mmap(nullptr, size, prot, flags, fd, offset);
		EXPECT_EQ(p, MAP_FAILED);
		EXPECT_EQ(errno, error) << size << " " << prot << " " << flags << " " << offset;
		if (p != MAP_FAILED)
			munmap(p, size);
	};

	expect(EINVAL, 8192, PROT_WRITE, MAP_SHARED, 0);
	expect(EINVAL, 4096, PROT_WRITE, MAP_PRIVATE, 0);
	expect(EPERM, 4096, PROT_READ, MAP_SHARED, 0);
	expect(EINVAL, 4096, PROT_WRITE, MAP_SHARED, 255 * 4096);
}

KTEST(mapping, "a page can be mapped twice and rung through either mapping")
{
	Context c;
	Ringer r(c);
	auto *p = static_cast<char *>(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, r.page_offset()));

	ASSERT_NE(p, MAP_FAILED) << std::strerror(errno);
	r.post();
	*reinterpret_cast<volatile std::uint64_t *>(p + (r.reg() - r.page())) = r.word();
	EXPECT_TRUE(r.completes());
	ASSERT_EQ(munmap(p, 4096), 0);
	still_rings(r);
}

KTEST(mapping, "it does not move")
{
	Context c;
	Ringer r(c);
	void *elsewhere = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(mremap(r.page(), 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), MAP_FAILED);
		EXPECT_EQ(mremap(r.page(), 4096, 8192, MREMAP_MAYMOVE), MAP_FAILED);
		still_rings(r);
		// In polled mode, too.
		for (int k = 0; k < 5000; k++)
			still_rings(r);
	}
}

KTEST(mapping, "a child does not inherit it, and the parent keeps it")
{
	Context c;
	Ringer r(c);
	int status = status_of([&] { r.ring(); });

	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	EXPECT_NE(madvise(r.page(), 4096, MADV_DOFORK), 0);
	still_rings(r);
}

KTEST(mapping, "a child that maps the page itself rings with its parent")
{
	Context c;
	Ringer r(c);
	int status = status_of([&] {
		auto *p = static_cast<volatile char *>(
			mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, r.page_offset()));
		if (p == MAP_FAILED)
			_exit(1);
		for (int i = 0; i < 20000; i++)
			*reinterpret_cast<volatile std::uint64_t *>(p + 0x800) = 0;
	});

	EXPECT_EQ(status, 0);
	still_rings(r);
}

KTEST(mapping, "protection can be changed and changed back")
{
	Context c;
	Ringer r(c);

	ASSERT_EQ(mprotect(r.page(), 4096, PROT_NONE), 0);
	EXPECT_TRUE(WIFSIGNALED(status_of([&] { r.ring(); })));
	ASSERT_EQ(mprotect(r.page(), 4096, PROT_READ | PROT_WRITE), 0);
	still_rings(r);
}

KTEST(mapping, "there can be sixteen of a page, and one that is gone makes room")
{
	Context c;
	Ringer r(c);
	std::vector<void *> more;
	const auto map = [&] {
		errno = 0;
		return mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, r.page_offset());
	};
	const auto is_full = [&] { return map() == MAP_FAILED && errno == ENOMEM; };

	// The library has one.
	for (int i = 1; i < 16; i++) {
		more.push_back(map());
		ASSERT_NE(more.back(), MAP_FAILED) << std::strerror(errno) << " " << i;
	}
	EXPECT_TRUE(is_full());
	// Neither copies that are refused count, nor a child that has none.
	EXPECT_EQ(mremap(more[0], 4096, 8192, MREMAP_MAYMOVE), MAP_FAILED);
	EXPECT_EQ(status_of([] {}), 0);
	EXPECT_EQ(status_of([&] { _exit(!is_full()); }), 0);
	EXPECT_TRUE(is_full());
	// All of them are zapped when polling ends.
	for (int round = 0; round < 3; round++) {
		for (void *p : more)
			asm volatile("lock addq $1, (%0)" ::"r"(static_cast<char *>(p) + 0x800) : "memory");
		still_rings(r);
	}
	for (void *p : more) {
		ASSERT_EQ(munmap(p, 4096), 0);
		p = map();
		ASSERT_NE(p, MAP_FAILED) << std::strerror(errno);
		EXPECT_TRUE(is_full());
		ASSERT_EQ(munmap(p, 4096), 0);
		p = map();
		ASSERT_NE(p, MAP_FAILED) << std::strerror(errno);
	}
	still_rings(r);
}

KTEST(mapping, "a context has 256 pages")
{
	Context c;
	std::vector<devx::Uar> registers;
	std::set<void *> pages;

	// Two registers on each page; a few pages are the library's own.
	while (auto *uar = mlx5dv_devx_alloc_uar(c.get(), MLX5DV_UAR_ALLOC_TYPE_BF)) {
		registers.emplace_back(uar);
		pages.insert(uar->base_addr);
		*static_cast<volatile std::uint64_t *>(uar->reg_addr) = 0;
	}
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_GT(pages.size(), 250u);
	EXPECT_LE(pages.size(), 256u);
}

KTEST(mapping, "it can be unmapped and mapped anew while the device is in use")
{
	Context c;
	Ringer r(c);

	for (int i = 0; i < 200; i++) {
		void *p = mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, r.page_offset());

		ASSERT_NE(p, MAP_FAILED) << std::strerror(errno) << " " << i;
		static_cast<volatile char *>(p)[0x800] = 1;
		still_rings(r);
		ASSERT_EQ(munmap(p, 4096), 0);
	}
}

} // namespace
