// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters in memory of the caller's choice: by address, by dma-buf, in groups.
#include "ktap.hpp"
#include "udmabuf.hpp"
#include "verbs.hpp"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tally/comp_cntr.h>
#include <unistd.h>

using namespace rdma;

namespace {

struct Page {
	size_t size = sysconf(_SC_PAGESIZE) * 4;
	void *p;

	// Of a file, or nobody else's.
	explicit Page(int fd = -1)
	    : p(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0))
	{
		if (p == MAP_FAILED)
			fail("mmap");
	}
	~Page() { munmap(p, size); }
	Page(const Page &) = delete;
	volatile uint64_t *word(size_t off) { return reinterpret_cast<volatile uint64_t *>(at(off)); }
	void *at(size_t off) { return static_cast<char *>(p) + off; }
};

tally_memory va(void *addr) { return {TALLY_MEMORY_VA, -1, addr, 0}; }

tally_memory dmabuf(int fd, uint64_t offset, void *addr = nullptr)
{
	return {TALLY_MEMORY_DMABUF, fd, addr, offset};
}

ibv_comp_cntr *create(Context &c, tally_memory comp, tally_memory err,
		      ibv_comp_cntr_type type = IBV_COMP_CNTR_TYPE_WRS)
{
	tally_comp_cntr_init_attr a{};
	a.type = type;
	a.comp = comp;
	a.err = err;
	errno = 0;
	return tally_create_comp_cntr(c.get(), &a);
}

void attach(ibv_qp *qp, ibv_comp_cntr *k, uint32_t ops)
{
	ibv_qp_attach_comp_cntr_attr a{};
	a.op_mask = ops;
	must(ibv_qp_attach_comp_cntr(qp, k, &a), "attach");
}

void write_some(Pair &p, int n)
{
	ibv_sge sge = p.a.mem->sge(0, 8);
	for (int i = 0; i < n; i++)
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, 0)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
}

KTEST(memory, "a counter by virtual address counts in the caller's words")
{
	Context c;
	Page page;
	ibv_comp_cntr *k = create(c, va(page.at(24)), va(page.at(4096 + 8)));
	ASSERT_NE(k, nullptr) << strerror(errno);
	{
		Pair p(c, {}, false);
		attach(p.a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
		p.connect();
		write_some(p, 5);
		EXPECT_TRUE(eventually([&] { return *page.word(24) == 5; }));
		must(to_err(p.a.qp.get()), "err");
		write_some(p, 2);
		EXPECT_TRUE(eventually([&] { return *page.word(4096 + 8) == 2; }));
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
	EXPECT_EQ(*page.word(24), 5u) << "the last count stays";
}

KTEST(memory, "creation sets the caller's words to 0 and touches nothing beside them")
{
	Context c;
	Page page;
	memset(page.p, 0xee, page.size);
	ibv_comp_cntr *k = create(c, va(page.at(64)), va(page.at(72)));
	ASSERT_NE(k, nullptr) << strerror(errno);
	EXPECT_EQ(*page.word(56), 0xeeeeeeeeeeeeeeeeull);
	EXPECT_EQ(*page.word(64), 0u);
	EXPECT_EQ(*page.word(72), 0u);
	EXPECT_EQ(*page.word(80), 0xeeeeeeeeeeeeeeeeull);
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(memory, "a word that is not aligned to 8 bytes is refused with EINVAL")
{
	Context c;
	Page page;
	EXPECT_EQ(create(c, va(page.at(4)), va(page.at(16))), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(create(c, va(page.at(0)), va(page.at(17))), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

KTEST(memory, "two counts in one word are refused with EINVAL, and so is one count without the other")
{
	Context c;
	Page page;
	EXPECT_EQ(create(c, va(page.at(8)), va(page.at(8))), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(create(c, va(page.at(8)), {}), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

KTEST(memory, "memory that is not there, or may not be written, is refused with EFAULT")
{
	Context c;
	Page page;
	char *gone = static_cast<char *>(mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	EXPECT_EQ(create(c, va(gone), va(gone + 8)), nullptr);
	EXPECT_EQ(errno, EFAULT);
	mprotect(gone, 8192, PROT_READ);
	EXPECT_EQ(create(c, va(gone), va(gone + 8)), nullptr);
	EXPECT_EQ(errno, EFAULT);
	munmap(gone, 8192);
	EXPECT_EQ(create(c, va(gone), va(gone + 8)), nullptr);
	EXPECT_EQ(errno, EFAULT);
}

KTEST(memory, "the words go on counting when the caller unmaps them, as another mapping of them shows")
{
	Context c;
	ibv_comp_cntr *k;
	Pair p(c, {}, false);
	const int fd = memfd_create("words", 0);
	ASSERT_EQ(ftruncate(fd, sysconf(_SC_PAGESIZE)), 0);
	Page kept(fd);
	{
		Page page(fd);
		k = create(c, va(page.at(0)), va(page.at(8)));
		ASSERT_NE(k, nullptr);
		attach(p.a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
		p.connect();
	}
	close(fd);
	write_some(p, 10);
	EXPECT_TRUE(eventually([&] { return *kept.word(0) == 10; })) << *kept.word(0);
	must(to_err(p.a.qp.get()), "err");
	write_some(p, 2);
	EXPECT_TRUE(eventually([&] { return *kept.word(8) == 2; })) << *kept.word(8);
	p.a.qp.reset();
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
	EXPECT_EQ(*kept.word(0), 10u);
}

KTEST(memory, "a counter of the library's is read without a system call, from words that move as the device counts")
{
	Context c;
	ibv_comp_cntr_init_attr a{};
	ibv_comp_cntr *k = ibv_create_comp_cntr(c.get(), &a);
	ASSERT_NE(k, nullptr);
	tally_comp_cntr_words words{};
	ASSERT_EQ(tally_get_comp_cntr_words(k, &words), 0);
	const volatile uint64_t *comp = words.comp, *err = words.err;
	EXPECT_EQ(*comp, 0u);
	EXPECT_EQ(*err, 0u);
	{
		Pair p(c, {}, false);
		attach(p.a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
		p.connect();
		write_some(p, 3);
		EXPECT_TRUE(eventually([&] { return *comp == 3; })) << *comp;
		must(to_err(p.a.qp.get()), "err");
		write_some(p, 2);
		EXPECT_TRUE(eventually([&] { return *err == 2; })) << *err;
	}
	// A child that cannot ask the device, and is killed at any system call but read, write and exit: where there is
	// seccomp, which our debug kernel has not.
	const pid_t child = fork();
	if (!child) {
		uint64_t v = 0, e = 0;
		close(c.get()->cmd_fd);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) && errno != EINVAL)
			_exit(2);
		const bool right = !ibv_read_comp_cntr(k, &v) && !ibv_read_err_comp_cntr(k, &e) && v == 3 && e == 2;
		syscall(SYS_exit, right ? 0 : 1);
	}
	int status = -1;
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(memory, "another process sees the count move in shared memory")
{
	Context c;
	Page page;
	ibv_comp_cntr *k = create(c, va(page.at(0)), va(page.at(8)));
	ASSERT_NE(k, nullptr);
	const pid_t child = fork();
	if (!child)
		_exit(eventually([&] { return *page.word(0) == 3; }) ? 0 : 1);
	{
		Pair p(c, {}, false);
		attach(p.a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
		p.connect();
		write_some(p, 3);
		int status = -1;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(memory, "a counter in a dma-buf counts there, also after the file is closed")
{
	NEED_UDMABUF;
	Context c;
	UDmabuf buf;
	ibv_comp_cntr *k = create(c, dmabuf(buf.fd, 4096, buf.map + 4096), dmabuf(buf.fd, 8192, buf.map + 8192));
	ASSERT_NE(k, nullptr) << strerror(errno);
	close(buf.fd);
	buf.fd = -1;
	{
		Pair p(c, {}, false);
		attach(p.a.qp.get(), k, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
		p.connect();
		write_some(p, 4);
		EXPECT_TRUE(eventually([&] { return *buf.word(4096) == 4; }));
		uint64_t v = 0;
		EXPECT_EQ(ibv_read_comp_cntr(k, &v), 0);
		EXPECT_EQ(v, 4u);
		must(to_err(p.a.qp.get()), "err");
		write_some(p, 1);
		EXPECT_TRUE(eventually([&] { return *buf.word(8192) == 1; }));
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(memory, "a dma-buf that this process has not mapped is read through the kernel")
{
	NEED_UDMABUF;
	Context c;
	UDmabuf buf;
	ibv_comp_cntr *k = create(c, dmabuf(buf.fd, 0), dmabuf(buf.fd, 8));
	ASSERT_NE(k, nullptr) << strerror(errno);
	must(ibv_set_comp_cntr(k, 99), "set");
	uint64_t v = 0;
	EXPECT_EQ(ibv_read_comp_cntr(k, &v), 0);
	EXPECT_EQ(v, 99u);
	EXPECT_EQ(*buf.word(0), 99u);
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(memory, "a dma-buf offset that is not aligned or past its end is refused with EINVAL")
{
	NEED_UDMABUF;
	Context c;
	UDmabuf buf;
	EXPECT_EQ(create(c, dmabuf(buf.fd, 4), dmabuf(buf.fd, 16)), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(create(c, dmabuf(buf.fd, buf.size), dmabuf(buf.fd, 16)), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(create(c, dmabuf(buf.fd, ~7ull), dmabuf(buf.fd, 16)), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

KTEST(memory, "a file that is no dma-buf is refused")
{
	Context c;
	EXPECT_EQ(create(c, dmabuf(-1, 0), dmabuf(-1, 8)), nullptr);
	EXPECT_EQ(errno, EBADF);
	const int null = open("/dev/null", O_RDWR);
	EXPECT_EQ(create(c, dmabuf(null, 0), dmabuf(null, 8)), nullptr);
	EXPECT_TRUE(errno == EINVAL || errno == EBADF) << errno;
	close(null);
}

KTEST(memory, "the counters of a group lie side by side and are read in one pass")
{
	Context c;
	tally_comp_cntr_group_attr a{};
	a.num = 4;
	tally_comp_cntr_group *g = tally_create_comp_cntr_group(c.get(), &a);
	ASSERT_NE(g, nullptr) << strerror(errno);
	EXPECT_EQ(tally_comp_cntr_group_size(g), 4u);
	for (uint32_t i = 0; i < 4; i++)
		must(ibv_inc_comp_cntr(tally_comp_cntr_group_at(g, i), 10 + i), "inc");
	must(ibv_inc_err_comp_cntr(tally_comp_cntr_group_at(g, 2), 1), "inc_err");
	tally_comp_cntr_value v[4];
	must(tally_read_comp_cntr_group(g, 0, 4, v), "read group");
	uint32_t stride = 0;
	const tally_comp_cntr_value *words = tally_comp_cntr_group_words(g, &stride);
	ASSERT_NE(words, nullptr);
	for (uint32_t i = 0; i < 4; i++) {
		EXPECT_EQ(v[i].comp, 10 + i);
		EXPECT_EQ(v[i].err, i == 2);
		auto *w = reinterpret_cast<const tally_comp_cntr_value *>(
		    reinterpret_cast<const char *>(words) + i * stride);
		EXPECT_EQ(w->comp, 10 + i);
	}
	EXPECT_EQ(tally_read_comp_cntr_group(g, 1, 4, v), EINVAL);
	EXPECT_EQ(tally_comp_cntr_group_at(g, 4), nullptr);
	EXPECT_EQ(tally_destroy_comp_cntr_group(g), 0);
}

KTEST(memory, "a group in a dma-buf counts for several QPs")
{
	NEED_UDMABUF;
	Context c;
	UDmabuf buf;
	tally_comp_cntr_group_attr a{};
	a.num = 3;
	a.stride = 64;
	a.memory = dmabuf(buf.fd, 1024, buf.map + 1024);
	tally_comp_cntr_group *g = tally_create_comp_cntr_group(c.get(), &a);
	ASSERT_NE(g, nullptr) << strerror(errno);
	{
		std::vector<std::unique_ptr<Pair>> pairs;
		for (uint32_t i = 0; i < 3; i++) {
			auto &p = pairs.emplace_back(std::make_unique<Pair>(c, QpOptions{}, false, 65536));
			attach(p->a.qp.get(), tally_comp_cntr_group_at(g, i),
			       IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
			p->connect();
			write_some(*p, static_cast<int>(i) + 1);
		}
		for (size_t i = 0; i < 3; i++)
			EXPECT_TRUE(eventually([&] { return *buf.word(1024 + 64 * i) == i + 1; }));
		EXPECT_EQ(tally_destroy_comp_cntr_group(g), EBUSY);
	}
	EXPECT_EQ(tally_destroy_comp_cntr_group(g), 0);
}

} // namespace
