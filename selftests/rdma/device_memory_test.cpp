// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory on the device: reached by requests through a region, by the CPU through the library's copies.
#include "ktap.hpp"
#include "verbs.hpp"

#include <sys/mman.h>
#include <unistd.h>

using namespace rdma;

namespace {

using Dm = std::unique_ptr<ibv_dm, Deleter<ibv_free_dm>>;

constexpr int dm_access = all_access | IBV_ACCESS_ZERO_BASED;

Dm alloc_dm(const Context &c, size_t length, uint32_t log_align = 0)
{
	ibv_alloc_dm_attr a{};
	a.length = length;
	a.log_align_req = log_align;
	return own<Dm>(ibv_alloc_dm(c.get(), &a), "alloc_dm");
}

bool can_alloc_dm(const Context &c, size_t length, uint32_t log_align = 0)
{
	ibv_alloc_dm_attr a{};
	a.length = length;
	a.log_align_req = log_align;
	return bool(Dm(ibv_alloc_dm(c.get(), &a)));
}

Mr reg_dm(ibv_pd *pd, ibv_dm *dm, size_t offset, size_t length)
{
	return own<Mr>(ibv_reg_dm_mr(pd, dm, offset, length, dm_access), "reg_dm_mr");
}

size_t max_dm_size(const Context &c)
{
	ibv_device_attr_ex a{};
	must(ibv_query_device_ex(c.get(), nullptr, &a), "query_device_ex");
	return a.max_dm_size;
}

std::vector<uint8_t> read_dm(ibv_dm *dm, size_t offset, size_t length)
{
	std::vector<uint8_t> v(length);
	must(ibv_memcpy_from_dm(v.data(), dm, offset, length), "memcpy_from_dm");
	return v;
}

KTEST(device_memory, "is zero at first, and the CPU reads what it has written")
{
	Context c;
	Dm dm = alloc_dm(c, 10000);
	const std::vector<uint8_t> data(400, 0x5a);

	EXPECT_EQ(read_dm(dm.get(), 0, 10000), std::vector<uint8_t>(10000));
	must(ibv_memcpy_to_dm(dm.get(), 9600, data.data(), data.size()), "memcpy_to_dm");
	EXPECT_EQ(read_dm(dm.get(), 9600, 400), data);
	EXPECT_EQ(read_dm(dm.get(), 0, 9600), std::vector<uint8_t>(9600));
}

KTEST(device_memory, "is written, read and counted up by a peer, within the part that is a region")
{
	Context c;
	Pair p(c);
	constexpr size_t offset = 4000, len = 20000;
	Dm dm = alloc_dm(c, 65536);
	Mr mr = reg_dm(p.b.pd.get(), dm.get(), offset, len);
	ibv_sge sge = p.a.mem->sge(0, len);

	p.a.mem->pattern(1);
	const std::vector<uint8_t> sent(p.a.mem->data(), p.a.mem->data() + len);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(0, mr->rkey).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(read_dm(dm.get(), offset, len), sent);
	EXPECT_EQ(read_dm(dm.get(), 0, offset), std::vector<uint8_t>(offset));

	p.a.mem->fill(0);
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(0, mr->rkey).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(std::vector<uint8_t>(p.a.mem->data(), p.a.mem->data() + len), sent);

	const uint64_t seven = 7;
	must(ibv_memcpy_to_dm(dm.get(), offset + 8, &seven, 8), "memcpy_to_dm");
	ibv_sge word = p.a.mem->sge(0, 8);
	Wr(IBV_WR_ATOMIC_FETCH_AND_ADD, {&word, 1}).atomic(8, mr->rkey, 3).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	uint64_t now = 0;
	must(ibv_memcpy_from_dm(&now, dm.get(), offset + 8, 8), "memcpy_from_dm");
	EXPECT_EQ(now, 10u);

	ibv_sge more = p.a.mem->sge(0, 4);
	Wr(IBV_WR_RDMA_WRITE, {&more, 1}).remote(len - 3, mr->rkey).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_REM_ACCESS_ERR);
}

KTEST(device_memory, "is sent from and received into like any memory")
{
	Context c;
	Pair p(c);
	Dm from = alloc_dm(c, 8192), to = alloc_dm(c, 8192);
	Mr from_mr = reg_dm(p.a.pd.get(), from.get(), 0, 8192), to_mr = reg_dm(p.b.pd.get(), to.get(), 0, 8192);
	const std::vector<uint8_t> data(8192, 0x17);

	must(ibv_memcpy_to_dm(from.get(), 0, data.data(), data.size()), "memcpy_to_dm");
	post_recv(p.b.qp.get(), {{0, 8192, to_mr->lkey}});
	ibv_sge sge{0, 8192, from_mr->lkey};
	Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	ASSERT_EQ(expect_wc(p.b.rcq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(read_dm(to.get(), 0, 8192), data);
}

KTEST(device_memory, "of no size, too large or aligned to more than a page is refused")
{
	Context c;
	const size_t max = max_dm_size(c);

	EXPECT_TRUE(can_alloc_dm(c, max));
	EXPECT_TRUE(can_alloc_dm(c, 1, 12));
	EXPECT_FALSE(can_alloc_dm(c, max + 1));
	EXPECT_FALSE(can_alloc_dm(c, 0));
	EXPECT_FALSE(can_alloc_dm(c, 64, 13));
}

KTEST(device_memory, "runs out, and is there again when it has been freed")
{
	Context c;
	const size_t max = max_dm_size(c);
	std::vector<Dm> all;

	while (all.size() < 1000) {
		ibv_alloc_dm_attr a{};
		a.length = max;
		Dm dm(ibv_alloc_dm(c.get(), &a));
		if (!dm)
			break;
		all.push_back(std::move(dm));
	}
	EXPECT_GE(all.size(), 4u);
	EXPECT_LT(all.size(), 1000u);
	all.pop_back();
	EXPECT_TRUE(can_alloc_dm(c, max));
	all.clear();
	EXPECT_TRUE(can_alloc_dm(c, max));
}

KTEST(device_memory, "cannot be freed while a region is in it, nor registered beyond its end or with an address")
{
	Context c;
	Pd pd = alloc_pd(c);
	Dm dm = alloc_dm(c, 4096);
	{
		Mr mr = reg_dm(pd.get(), dm.get(), 0, 4096);
		EXPECT_EQ(ibv_free_dm(dm.get()), EBUSY);
	}
	errno = 0;
	EXPECT_EQ(ibv_reg_dm_mr(pd.get(), dm.get(), 4, 4096, dm_access), nullptr);
	EXPECT_EQ(errno, EINVAL);
	errno = 0;
	EXPECT_EQ(ibv_reg_dm_mr(pd.get(), dm.get(), 0, 4096, all_access), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

KTEST(device_memory, "is the same in whoever imports it, and stays mapped there when it is freed")
{
	Context c;
	Dm dm = alloc_dm(c, 4096);
	ibv_context *other = ibv_import_device(dup(c.get()->cmd_fd));
	ASSERT_NE(other, nullptr);
	ibv_dm *same = ibv_import_dm(other, dm->handle);
	ASSERT_NE(same, nullptr);

	const uint64_t word = 0x0123'4567'89ab'cdef;
	uint64_t seen = 0;
	must(ibv_memcpy_to_dm(dm.get(), 800, &word, 8), "memcpy_to_dm");
	dm.reset();
	must(ibv_memcpy_from_dm(&seen, same, 800, 8), "memcpy_from_dm");
	EXPECT_EQ(seen, word);
	// What comes after it is not what the mapping shows.
	Dm next = alloc_dm(c, 4096);
	EXPECT_EQ(read_dm(next.get(), 0, 4096), std::vector<uint8_t>(4096));
	ibv_unimport_dm(same);
	ibv_close_device(other);
}

KTEST(device_memory, "that nobody has allocated cannot be mapped, nor a part of what somebody has")
{
	Context c;
	Dm dm = alloc_dm(c, 8192);
	const off_t first = (8ul << 8) * 4096; // the command, and index 0

	EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, first), MAP_FAILED);
	EXPECT_EQ(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, c.get()->cmd_fd, first), MAP_FAILED);
	EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, first + 4096), MAP_FAILED);
	EXPECT_EQ(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, first + 8 * 4096),
		  MAP_FAILED);
	void *map = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, c.get()->cmd_fd, first);
	ASSERT_NE(map, MAP_FAILED);

	const uint64_t word = 42;
	must(ibv_memcpy_to_dm(dm.get(), 4096, &word, 8), "memcpy_to_dm");
	EXPECT_EQ(*reinterpret_cast<uint64_t *>(static_cast<uint8_t *>(map) + 4096), 42u);
	munmap(map, 8192);
}

} // namespace
