// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory regions: of dma-bufs, with addresses of their own, and those that change.
#include "ktap.hpp"
#include "udmabuf.hpp"
#include "verbs.hpp"

#include <linux/dma-heap.h>

using namespace rdma;

namespace {

Mr reg_dmabuf(ibv_pd *pd, int fd, uint64_t offset, size_t length, uint64_t iova, int access = all_access)
{
	return own<Mr>(ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access), "reg_dmabuf_mr");
}

// Writes from a's buffer to an address at b; says how it ended.
ibv_wc_status write_to(Pair &p, uint64_t addr, uint32_t rkey, size_t len)
{
	ibv_sge sge = p.a.mem->sge(0, len);

	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(addr, rkey).post(p.a.qp.get());
	return expect_wc(p.a.scq.get()).status;
}

std::vector<uint8_t> first_bytes(const Memory &m, size_t len) { return {m.data(), m.data() + len}; }

std::vector<uint8_t> bytes_at(const void *p, size_t len)
{
	auto *b = static_cast<const uint8_t *>(p);
	return {b, b + len};
}

KTEST(region, "a dma-buf is written and read like any memory, from any byte on")
{
	NEED_UDMABUF;
	Context c;
	Pair p(c);
	UDmabuf buf;
	constexpr size_t offset = 4096 + 100, len = 20000;
	constexpr uint64_t iova = 0x7000'0000'0000 + offset;
	Mr mr = reg_dmabuf(p.b.pd.get(), buf.fd, offset, len, iova);

	p.a.mem->pattern(1);
	ASSERT_EQ(write_to(p, iova, mr->rkey, len), IBV_WC_SUCCESS);
	EXPECT_EQ(bytes_at(buf.map + offset, len), first_bytes(*p.a.mem, len));
	EXPECT_EQ(buf.map[offset - 1], 0);
	EXPECT_EQ(buf.map[offset + len], 0);

	// And as the local buffer of a receive and of a read's source.
	std::memset(buf.map, 0, buf.size);
	post_recv(p.b.qp.get(), {{iova + 5, 9000, mr->lkey}});
	ibv_sge sge = p.a.mem->sge(0, 9000);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ASSERT_EQ(expect_wc(p.b.rcq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(bytes_at(buf.map + offset + 5, 9000), first_bytes(*p.a.mem, 9000));
	std::vector<uint8_t> sent = first_bytes(*p.a.mem, 9000);
	p.a.mem->fill(0);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(iova + 5, mr->rkey).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(first_bytes(*p.a.mem, 9000), sent);
}

KTEST(region, "a dma-buf stays while the region is there, without its descriptor")
{
	NEED_UDMABUF;
	Context c;
	Pair p(c);
	UDmabuf buf;
	Mr mr = reg_dmabuf(p.b.pd.get(), buf.fd, 0, buf.size, 0);

	close(buf.fd);
	buf.fd = -1;
	p.a.mem->pattern(2);
	ASSERT_EQ(write_to(p, 4090, mr->rkey, 100), IBV_WC_SUCCESS);
	EXPECT_EQ(bytes_at(buf.map + 4090, 100), first_bytes(*p.a.mem, 100));
}

KTEST(region, "a dma-buf's region ends where it was told to, with an access error behind")
{
	NEED_UDMABUF;
	Context c;
	Pair p(c);
	UDmabuf buf;
	Mr mr = reg_dmabuf(p.b.pd.get(), buf.fd, 0, 5000, 0);

	EXPECT_EQ(write_to(p, 4990, mr->rkey, 11), IBV_WC_REM_ACCESS_ERR);
	for (size_t i = 0; i < buf.size; i++)
		ASSERT_EQ(buf.map[i], 0) << "byte " << i;
}

KTEST(region, "what is no dma-buf, or not within one, is refused")
{
	NEED_UDMABUF;
	Context c;
	Pd pd = alloc_pd(c);
	UDmabuf buf;
	const int null = open("/dev/null", O_RDWR);

	errno = 0;
	EXPECT_EQ(ibv_reg_dmabuf_mr(pd.get(), 0, 4096, 0, -1, all_access), nullptr);
	EXPECT_EQ(errno, EBADF);
	errno = 0;
	EXPECT_EQ(ibv_reg_dmabuf_mr(pd.get(), 0, 4096, 0, null, all_access), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(ibv_reg_dmabuf_mr(pd.get(), 0, buf.size + 1, 0, buf.fd, all_access), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(ibv_reg_dmabuf_mr(pd.get(), buf.size, 4096, 0, buf.fd, all_access), nullptr);
	EXPECT_EQ(errno, EINVAL);
	close(null);
}

// A dma-buf of zeroes whose descriptor is for reading only.
int read_only_dmabuf(size_t size)
{
	dma_heap_allocation_data d{};
	const int heap = open("/dev/dma_heap/system", O_RDONLY);

	d.len = size;
	d.fd_flags = O_RDONLY | O_CLOEXEC;
	const int err = ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &d) ? errno : 0;
	close(heap);
	must(err, "DMA_HEAP_IOCTL_ALLOC");
	return static_cast<int>(d.fd);
}

KTEST(region, "a dma-buf that may only be read is refused for writing, and read")
{
	NEED_EXPORTER("/dev/dma_heap/system");
	Context c;
	Pair p(c);
	const int fd = read_only_dmabuf(65536);

	for (int access : {+IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, all_access}) {
		errno = 0;
		EXPECT_EQ(ibv_reg_dmabuf_mr(p.b.pd.get(), 0, 65536, 0, fd, access), nullptr);
		EXPECT_EQ(errno, EACCES);
	}
	Mr mr = reg_dmabuf(p.b.pd.get(), fd, 100, 20000, 100, IBV_ACCESS_REMOTE_READ);
	close(fd);
	p.a.mem->pattern(1);
	std::vector<uint8_t> after = first_bytes(*p.a.mem, p.a.mem->size());
	std::fill_n(after.begin() + 7, 20000, uint8_t{0});
	ibv_sge sge = p.a.mem->sge(7, 20000);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(100, mr->rkey).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(first_bytes(*p.a.mem, p.a.mem->size()) == after);
	EXPECT_EQ(write_to(p, 100, mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
}

KTEST(region, "one with an address of its own is reached there and nowhere else")
{
	Context c;
	Pair p(c);
	constexpr uint64_t iova = 0x1234'5000;
	Mr mr = own<Mr>(ibv_reg_mr_iova(p.b.pd.get(), p.b.mem->data(), 8192, iova, all_access), "reg_mr_iova");

	p.a.mem->pattern(3);
	ASSERT_EQ(write_to(p, iova + 4000, mr->rkey, 200), IBV_WC_SUCCESS);
	EXPECT_EQ(bytes_at(p.b.mem->data() + 4000, 200), first_bytes(*p.a.mem, 200));
	EXPECT_EQ(write_to(p, p.b.mem->addr(), mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
}

KTEST(region, "rereg_mr moves a region to other memory")
{
	Context c;
	Pair p(c);
	Memory other(p.b.pd.get(), 16384);
	ibv_mr *mr = p.b.mem->mr();

	p.a.mem->pattern(4);
	must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data() + 10, 9000, 0), "rereg_mr");
	ASSERT_EQ(write_to(p, other.addr(10), mr->rkey, 9000), IBV_WC_SUCCESS);
	EXPECT_EQ(bytes_at(other.data() + 10, 9000), first_bytes(*p.a.mem, 9000));
	EXPECT_EQ(p.b.mem->data()[0], 0);
	EXPECT_EQ(write_to(p, p.b.mem->addr(), mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
}

KTEST(region, "rereg_mr takes a right away and gives it back")
{
	Context c;
	{
		Pair p(c);
		ibv_mr *mr = p.b.mem->mr();

		must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), "rereg_mr");
		EXPECT_EQ(write_to(p, p.b.mem->addr(), mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
	}
	Pair p(c);
	ibv_mr *mr = p.b.mem->mr();

	must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), "rereg_mr");
	must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, all_access), "rereg_mr");
	EXPECT_EQ(write_to(p, p.b.mem->addr(), mr->rkey, 8), IBV_WC_SUCCESS);
}

KTEST(region, "rereg_mr gives a region to another protection domain")
{
	Context c;
	Pair p(c), q(c);
	ibv_mr *mr = p.b.mem->mr();

	must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, q.b.pd.get(), nullptr, 0, 0), "rereg_mr");
	EXPECT_EQ(write_to(p, p.b.mem->addr(), mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(write_to(q, p.b.mem->addr(), mr->rkey, 8), IBV_WC_SUCCESS);
	// The domain it left can go, the one that has it cannot.
	EXPECT_EQ(ibv_dealloc_pd(q.b.pd.get()), EBUSY);
	must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, p.b.pd.get(), nullptr, 0, 0), "rereg_mr back");
}

KTEST(region, "one whose rereg_mr fails is as it was")
{
	Context c;
	Pair p(c);
	ibv_mr *mr = p.b.mem->mr();
	void *hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	p.a.mem->pattern(5);
	EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, hole, 4096, 0), 0);
	// Atomics for others need writing for oneself.
	EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_ATOMIC), 0);
	EXPECT_EQ(write_to(p, p.b.mem->addr(), mr->rkey, 64), IBV_WC_SUCCESS);
	EXPECT_EQ(first_bytes(*p.b.mem, 64), first_bytes(*p.a.mem, 64));
	munmap(hole, 4096);
}

KTEST(region, "its memory may be unmapped, requests go on into the pages that were there")
{
	Context c;
	Pair p(c);
	void *map = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	Mr mr = own<Mr>(ibv_reg_mr(p.b.pd.get(), map, 4096, all_access), "reg_mr");
	const auto addr = reinterpret_cast<uintptr_t>(map);

	munmap(map, 4096);
	p.a.mem->pattern(6);
	EXPECT_EQ(write_to(p, addr, mr->rkey, 4096), IBV_WC_SUCCESS);
	const auto sent = first_bytes(*p.a.mem, 4096);
	p.a.mem->fill(0);
	ibv_sge sge = p.a.mem->sge(0, 4096);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(addr, mr->rkey).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(first_bytes(*p.a.mem, 4096), sent);
}

KTEST(region, "the null region takes whatever arrives, anywhere, and what is sent from it are zeroes")
{
	Context c;
	Pair p(c);
	Mr null_a = own<Mr>(ibv_alloc_null_mr(p.a.pd.get()), "alloc_null_mr");
	Mr null_b = own<Mr>(ibv_alloc_null_mr(p.b.pd.get()), "alloc_null_mr");

	// Only the bytes in the middle are wanted.
	p.a.mem->pattern(7);
	post_recv(p.b.qp.get(), {{0xdead'beef'0000, 3000, null_b->lkey}, p.b.mem->sge(0, 500), {1, 10000, null_b->lkey}});
	ibv_sge sge = p.a.mem->sge(0, 9000);
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	const ibv_wc wc = expect_wc(p.b.rcq.get());
	ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, 9000u);
	EXPECT_EQ(bytes_at(p.b.mem->data(), 500), bytes_at(p.a.mem->data() + 3000, 500));
	EXPECT_EQ(p.b.mem->data()[500], 0);

	ibv_sge zeroes{~0ull - 5000, 400, null_a->lkey};
	Wr(IBV_WR_RDMA_WRITE, {&zeroes, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(first_bytes(*p.b.mem, 400), std::vector<uint8_t>(400));
	EXPECT_EQ(bytes_at(p.b.mem->data() + 400, 100), bytes_at(p.a.mem->data() + 3400, 100));

	// It is for the own side only.
	EXPECT_EQ(write_to(p, 0, null_b->lkey, 8), IBV_WC_REM_ACCESS_ERR);
}

} // namespace
