// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RC operations move the right bytes, and nothing else.
#include "ktap.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <unistd.h>

using namespace rdma;

namespace {

constexpr uint8_t canary = 0xa5;

bool all(std::span<const uint8_t> bytes, uint8_t v)
{
	return std::all_of(bytes.begin(), bytes.end(), [v](uint8_t b) { return b == v; });
}

// Checks that [off, off + len) of @to equals @from and everything else is the canary.
void expect_bytes(const Memory &to, size_t off, std::span<const uint8_t> from)
{
	EXPECT_TRUE(all(to.bytes().first(off), canary)) << "bytes before the destination were touched";
	EXPECT_TRUE(std::equal(from.begin(), from.end(), to.bytes().begin() + off));
	EXPECT_TRUE(all(to.bytes().subspan(off + from.size()), canary))
	    << "bytes after the destination were touched";
}

const size_t sizes[] = {0, 1, 7, 8, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 65537, 300001};
const size_t offsets[] = {0, 1, 13, 4090};

KTESTS
{
	for (size_t size : sizes) {
		const std::string bytes = std::to_string(size) + " bytes";

		ktap::add("operations", "RDMA WRITE moves " + bytes + " at any alignment and no others", [=] {
			Context c;
			Pair p(c);
			p.a.mem->pattern(1);
			for (size_t off : offsets) {
				p.b.mem->fill(canary);
				ibv_sge sge = p.a.mem->sge(off / 2, size);
				Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, off)
				    .remote(p.b.mem->addr(off), p.b.mem->rkey())
				    .post(p.a.qp.get());
				ibv_wc wc = expect_wc(p.a.scq.get());
				EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
				EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
				EXPECT_EQ(wc.wr_id, off);
				EXPECT_EQ(wc.qp_num, p.a.qp->qp_num);
				expect_bytes(*p.b.mem, off, p.a.mem->bytes().subspan(off / 2, size));
			}
		}, __FILE__, __LINE__);

		ktap::add("operations", "RDMA READ moves " + bytes + " at any alignment and no others", [=] {
			Context c;
			Pair p(c);
			p.b.mem->pattern(2);
			for (size_t off : offsets) {
				p.a.mem->fill(canary);
				ibv_sge sge = p.a.mem->sge(off, size);
				Wr(IBV_WR_RDMA_READ, {&sge, 1}, off)
				    .remote(p.b.mem->addr(off / 2), p.b.mem->rkey())
				    .post(p.a.qp.get());
				ibv_wc wc = expect_wc(p.a.scq.get());
				EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
				EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
				EXPECT_EQ(wc.byte_len, size);
				expect_bytes(*p.a.mem, off, p.b.mem->bytes().subspan(off / 2, size));
			}
		}, __FILE__, __LINE__);

		ktap::add("operations", "SEND moves " + bytes + " and reports them to the receiver", [=] {
			Context c;
			Pair p(c);
			p.a.mem->pattern(3);
			for (size_t off : offsets) {
				p.b.mem->fill(canary);
				post_recv(p.b.qp.get(), {p.b.mem->sge(off, size + 10)}, 99);
				ibv_sge sge = p.a.mem->sge(off / 2, size);
				Wr(IBV_WR_SEND, {&sge, 1}, off).post(p.a.qp.get());
				ibv_wc wc = expect_wc(p.b.rcq.get());
				EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
				EXPECT_EQ(wc.opcode, IBV_WC_RECV);
				EXPECT_EQ(wc.byte_len, size);
				EXPECT_EQ(wc.wr_id, 99u);
				EXPECT_EQ(wc.src_qp, p.a.qp->qp_num);
				EXPECT_EQ(expect_wc(p.a.scq.get()).opcode, IBV_WC_SEND);
				expect_bytes(*p.b.mem, off, p.a.mem->bytes().subspan(off / 2, size));
			}
		}, __FILE__, __LINE__);
	}
}

KTEST(operations, "a gather list of 16 pieces is concatenated and a scatter list of 16 takes it apart")
{
	Context c;
	QpOptions o;
	o.max_sge = 16;
	Pair p(c, o);
	p.a.mem->pattern(4);
	p.b.mem->fill(canary);
	std::vector<ibv_sge> from, to;
	std::vector<uint8_t> expected;
	for (size_t i = 0; i < 16; i++) {
		const size_t len = 1 + i * 333, off = i * 8000 + i;
		from.push_back(p.a.mem->sge(off, len));
		auto piece = p.a.mem->bytes().subspan(off, len);
		expected.insert(expected.end(), piece.begin(), piece.end());
	}
	for (size_t i = 0; i < 16; i++)
		to.push_back(p.b.mem->sge(i * 9000 + 3, 2600));
	post_recv(p.b.qp.get(), to);
	Wr(IBV_WR_SEND, from).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(expect_wc(p.b.rcq.get()).byte_len, expected.size());
	for (size_t i = 0, at = 0; at < expected.size(); i++) {
		const size_t n = std::min<size_t>(2600, expected.size() - at);
		EXPECT_TRUE(std::equal(expected.begin() + at, expected.begin() + at + n,
				       p.b.mem->bytes().begin() + i * 9000 + 3))
		    << "piece " << i;
		at += n;
	}
}

KTEST(operations, "inline data is taken when the request is posted, of every size up to the limit")
{
	Context c;
	QpOptions o;
	o.max_inline = 200;
	Pair p(c, o);
	for (size_t size = 0; size <= 200; size++) {
		p.a.mem->pattern(static_cast<unsigned>(size));
		std::vector<uint8_t> expected(p.a.mem->data(), p.a.mem->data() + size);
		p.b.mem->fill(canary);
		ibv_sge sge{p.a.mem->addr(), static_cast<uint32_t>(size), 0};
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE)
		    .remote(p.b.mem->addr(5), p.b.mem->rkey())
		    .post(p.a.qp.get());
		p.a.mem->fill(0);
		ASSERT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
		expect_bytes(*p.b.mem, 5, expected);
	}
}

KTEST(operations, "immediate data reaches the receiver, with SEND and with WRITE")
{
	Context c;
	Pair p(c);
	ibv_sge sge = p.a.mem->sge(0, 10);
	post_recv(p.b.qp.get(), {p.b.mem->sge(0, 10)});
	Wr(IBV_WR_SEND_WITH_IMM, {&sge, 1}).imm(htobe32(0x12345678)).post(p.a.qp.get());
	ibv_wc wc = expect_wc(p.b.rcq.get());
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
	EXPECT_EQ(be32toh(wc.imm_data), 0x12345678u);

	post_recv(p.b.qp.get(), {});
	Wr(IBV_WR_RDMA_WRITE_WITH_IMM, {&sge, 1})
	    .remote(p.b.mem->addr(), p.b.mem->rkey())
	    .imm(htobe32(0x9abcdef0))
	    .post(p.a.qp.get());
	wc = expect_wc(p.b.rcq.get());
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.byte_len, 10u);
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
	EXPECT_EQ(be32toh(wc.imm_data), 0x9abcdef0u);
}

KTEST(operations, "compare-and-swap swaps only on equality and returns the old value")
{
	Context c;
	Pair p(c);
	auto *word = reinterpret_cast<volatile uint64_t *>(p.b.mem->data() + 64);
	auto *old = reinterpret_cast<volatile uint64_t *>(p.a.mem->data());
	*word = 10;
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_ATOMIC_CMP_AND_SWP, {&sge, 1}).atomic(p.b.mem->addr(64), p.b.mem->rkey(), 10, 77).post(p.a.qp.get());
	ibv_wc wc = expect_wc(p.a.scq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_COMP_SWAP);
	EXPECT_EQ(*old, 10u);
	EXPECT_EQ(*word, 77u);
	Wr(IBV_WR_ATOMIC_CMP_AND_SWP, {&sge, 1}).atomic(p.b.mem->addr(64), p.b.mem->rkey(), 10, 5).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(*old, 77u);
	EXPECT_EQ(*word, 77u);
}

KTEST(operations, "fetch-and-add adds, wraps, and returns the old value")
{
	Context c;
	Pair p(c);
	auto *word = reinterpret_cast<volatile uint64_t *>(p.b.mem->data());
	auto *old = reinterpret_cast<volatile uint64_t *>(p.a.mem->data());
	*word = ~0ull;
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_ATOMIC_FETCH_AND_ADD, {&sge, 1}).atomic(p.b.mem->addr(), p.b.mem->rkey(), 3).post(p.a.qp.get());
	ibv_wc wc = expect_wc(p.a.scq.get());
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_FETCH_ADD);
	EXPECT_EQ(*old, ~0ull);
	EXPECT_EQ(*word, 2u);
}

KTEST(operations, "requests complete in the order they were posted")
{
	Context c;
	Pair p(c);
	ibv_sge big = p.a.mem->sge(0, 500000), small = p.a.mem->sge(0, 1);
	for (uint64_t i = 0; i < 20; i++)
		Wr(i % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, {i % 2 ? &big : &small, 1}, i)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
	for (uint64_t i = 0; i < 20; i++)
		EXPECT_EQ(expect_wc(p.a.scq.get()).wr_id, i);
}

// A large region of little memory: the same pages again and again.
struct Repeated {
	static constexpr size_t size = 1ull << 30;
	size_t period;
	char *p;
	Mr mr;

	Repeated(ibv_pd *pd, size_t bytes) : period(bytes)
	{
		const int fd = memfd_create("repeated", 0);
		if (fd < 0 || ftruncate(fd, static_cast<off_t>(period)))
			fail("memfd");
		p = static_cast<char *>(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		for (size_t at = 0; at < size; at += period)
			if (mmap(p + at, period, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
			    MAP_FAILED)
				fail("mmap");
		close(fd);
		mr = own<Mr>(ibv_reg_mr(pd, p, size, all_access), "reg_mr");
	}
	~Repeated()
	{
		mr.reset();
		munmap(p, size);
	}
};

KTEST(operations, "a message of 1 GiB arrives, to its last byte")
{
	Context c;
	Pd pd = alloc_pd(c);
	Cq cq = create_cq(c);
	// The periods differ, so that each part of the destination is written from several of the source.
	Repeated from(pd.get(), 1 << 20), to(pd.get(), 32 << 20);
	for (size_t i = 0; i < from.period; i++)
		from.p[i] = static_cast<char>(i * 31 + (i >> 8));
	QpOptions o;
	o.timeout = 20;
	Qp a = create_qp(pd.get(), cq.get(), cq.get(), o), b = create_qp(pd.get(), cq.get(), cq.get(), o);
	for (auto [x, y] : {std::pair{a.get(), b.get()}, {b.get(), a.get()}}) {
		must(to_init(x, o), "init");
		must(to_rtr(x, c, c.gid(), y->qp_num, o), "rtr");
		must(to_rts(x, o), "rts");
	}
	ibv_sge sge{reinterpret_cast<uintptr_t>(from.p), Repeated::size, from.mr->lkey};
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(reinterpret_cast<uintptr_t>(to.p), to.mr->rkey).post(a.get());
	auto wc = poll(cq.get(), 120s);
	ASSERT_TRUE(wc.has_value());
	EXPECT_EQ(wc->status, IBV_WC_SUCCESS);
	for (size_t at = 0; at < to.period; at += from.period)
		ASSERT_EQ(std::memcmp(to.p + at, from.p, from.period), 0) << "at " << at;

	sge.length = Repeated::size;
	ibv_sge two[] = {sge, {sge.addr, 1, sge.lkey}};
	Wr(IBV_WR_RDMA_WRITE, two).remote(reinterpret_cast<uintptr_t>(to.p), to.mr->rkey).post(a.get());
	EXPECT_EQ(expect_wc(cq.get()).status, IBV_WC_LOC_LEN_ERR) << "one byte more than a message may have";
}

KTEST(operations, "a queue of 4096 requests and one of 4096 receives fill and drain, twice round the ring")
{
	Context c;
	QpOptions o;
	o.max_send = o.max_recv = 4096;
	Pd pd = alloc_pd(c);
	Cq scq = create_cq(c, 4096), rcq = create_cq(c, 4096);
	Memory mem(pd.get(), 4096);
	Qp a = create_qp(pd.get(), scq.get(), scq.get(), o), b = create_qp(pd.get(), rcq.get(), rcq.get(), o);
	for (auto [x, y] : {std::pair{a.get(), b.get()}, {b.get(), a.get()}}) {
		must(to_init(x, o), "init");
		must(to_rtr(x, c, c.gid(), y->qp_num, o), "rtr");
		must(to_rts(x, o), "rts");
	}
	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 4096; i++)
			post_recv(b.get(), {mem.sge(0, 64)}, i);
		ibv_sge sge = mem.sge(64, 8);
		for (uint64_t i = 0; i < 4096; i++)
			Wr(IBV_WR_SEND, {&sge, 1}, i).post(a.get());
		for (uint64_t i = 0; i < 4096; i++) {
			ASSERT_EQ(expect_wc(rcq.get()).wr_id, i);
			ASSERT_EQ(expect_wc(scq.get()).wr_id, i);
		}
	}
}

KTEST(operations, "two devices on two addresses exchange messages")
{
	const char *other = std::getenv("TALLY_DEVICE2");
	ASSERT_NE(other, nullptr) << "name a second device in TALLY_DEVICE2";
	Context c, d(other);
	End a(c), b(d);
	must(to_init(a.qp.get()), "init");
	must(to_init(b.qp.get()), "init");
	must(to_rtr(a.qp.get(), c, d.gid(), b.qp->qp_num), "rtr");
	must(to_rtr(b.qp.get(), d, c.gid(), a.qp->qp_num), "rtr");
	must(to_rts(a.qp.get()), "rts");
	must(to_rts(b.qp.get()), "rts");
	a.mem->pattern(9);
	ibv_sge sge = a.mem->sge(0, 100000);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(b.mem->addr(), b.mem->rkey()).post(a.qp.get());
	EXPECT_EQ(expect_wc(a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(a.mem->data(), b.mem->data(), 100000), 0);
	post_recv(a.qp.get(), {a.mem->sge(200000, 100)});
	sge = b.mem->sge(0, 100);
	Wr(IBV_WR_SEND, {&sge, 1}).post(b.qp.get());
	EXPECT_EQ(expect_wc(a.rcq.get()).status, IBV_WC_SUCCESS);
}

} // namespace
