// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// READ, WRITE, atomics and copies between memory of any layout: lists, patterns, and keys of such keys.
#include "layouts.hpp"

using namespace rdma;

namespace {

// Several slices of the device's.
constexpr size_t length = 150000;

QpOptions options() { return dv_options(layout_ops | MLX5DV_QP_EX_WITH_MEMCPY); }

// Memory, what lays it out, and the keys for that.
struct Side {
	const End &end;
	Memory &mem;
	Mkey key{end.pd.get()}, below{end.pd.get()};

	Side(const End &e, Memory &m) : end(e), mem(m) {}
};

// Bytes that are one behind the other at a key's address, and where each of them is.
struct Laid {
	uint64_t addr;
	uint32_t lkey, rkey;
	Pieces pieces;

	Laid(const Mkey &k, Pieces l, uint64_t at = 0) : addr(at), lkey(k.lkey()), rkey(k.rkey()), pieces(std::move(l)) {}
	Laid(const Memory &m, size_t at, size_t len)
	    : addr(m.addr(at)), lkey(m.lkey()), rkey(m.rkey()), pieces{m.sge(at, len)}
	{
	}
	ibv_sge sge() const { return {addr, static_cast<uint32_t>(sum(pieces)), lkey}; }
};

Laid list(const Side &s, const Pieces &l)
{
	register_list(s.end, s.key, l);
	return {s.key, l};
}

Laid pattern(const Side &s, uint32_t rounds, const Blocks &b)
{
	register_pattern(s.end, s.key, rounds, b);
	return {s.key, pieces_of(rounds, b)};
}

// @len bytes of @l from @at on.
Pieces part(const Pieces &l, size_t at, size_t len)
{
	Pieces some;
	for (const ibv_sge &s : l) {
		const size_t skip = std::min<size_t>(at, s.length), n = std::min<size_t>(len, s.length - skip);
		if (n)
			some.push_back({s.addr + skip, static_cast<uint32_t>(n), s.lkey});
		at -= skip;
		len -= n;
	}
	return some;
}

// A list of two pieces of a pattern: what is behind @at of it, then what is before.
Laid exchanged(const Side &s, uint32_t rounds, const Blocks &b, size_t at)
{
	const Pieces l = pieces_of(rounds, b);
	const size_t n = sum(l);

	register_pattern(s.end, s.below, rounds, b);
	register_list(s.end, s.key, {s.below.sge(at, n - at), s.below.sge(0, at)});
	Pieces all = part(l, at, n - at);
	for (const ibv_sge &p : part(l, 0, at))
		all.push_back(p);
	return {s.key, all};
}

// What a request moves between.
const struct Shape {
	const char *name;
	Laid (*lay)(const Side &s);
} shapes[] = {
    {"a region", [](const Side &s) { return Laid(s.mem, 5, length); }},
    {"a list",
     [](const Side &s) {
	     return list(s, {s.mem.sge(1, 13), s.mem.sge(4090, 4111), s.mem.sge(20000, 1), s.mem.sge(100001, 70000),
			     s.mem.sge(300007, 75875)});
     }},
    {"a pattern", [](const Side &s) { return pattern(s, 300, {{s.mem.addr(77), 500, 123, s.mem.lkey()}}); }},
    {"a pattern of several entries",
     [](const Side &s) {
	     return pattern(s, 300, {{s.mem.addr(1), 10, 6, s.mem.lkey()},
				     {s.mem.addr(8000), 3, 0, s.mem.lkey()},
				     {s.mem.addr(100000), 487, 13, s.mem.lkey()}});
     }},
    {"a list of pieces of a pattern",
     [](const Side &s) { return exchanged(s, 300, {{s.mem.addr(77), 500, 123, s.mem.lkey()}}, 70001); }},
};

using Request = void (*)(const Pair &p, const Laid &from, const Laid &to);

void read(const Pair &p, const Laid &from, const Laid &to)
{
	ibv_sge sge = to.sge();
	Wr(IBV_WR_RDMA_READ, {&sge, 1}).remote(from.addr, from.rkey).post(p.a.qp.get());
}

void write(const Pair &p, const Laid &from, const Laid &to)
{
	ibv_sge sge = from.sge();
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(to.addr, to.rkey).post(p.a.qp.get());
}

void copy(const Pair &p, const Laid &from, const Laid &to)
{
	must(post(p.a.qp.get(), [&](ibv_qp_ex *, mlx5dv_qp_ex *d) {
		mlx5dv_wr_memcpy(d, to.lkey, to.addr, from.lkey, from.addr, sum(to.pieces));
	}), "memcpy");
}

void expect_moved(const Pair &p, Request request, const Side &source, const Laid &from, const Side &sink, const Laid &to)
{
	ASSERT_EQ(sum(from.pieces), length);
	ASSERT_EQ(sum(to.pieces), length);
	const Picture before(source.mem);
	Picture after(sink.mem);
	after.scatter(to.pieces, joined(from.pieces));
	request(p, from, to);
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(after.matches());
	EXPECT_TRUE(before.matches());
}

// From one shape to all of them.
void expect_moved_from(const Shape &shape, Request request)
{
	Context c;
	Pair p(c, options());
	Memory mine(p.a.pd.get(), 1 << 20);
	const Side source(request == read ? p.b : p.a, request == read ? *p.b.mem : *p.a.mem);
	const Side sink(request == write ? p.b : p.a, request == write ? *p.b.mem : mine);
	const Laid from = shape.lay(source);

	for (const Shape &s : shapes) {
		SCOPED_TRACE(s.name);
		source.mem.pattern(1);
		sink.mem.pattern(2);
		expect_moved(p, request, source, from, sink, s.lay(sink));
	}
}

KTESTS
{
	for (const Shape &s : shapes) {
		const std::string end = std::string(s.name) + ", for memory of any shape";
		ktap::add("layouts", "READ takes from " + end, [&s] { expect_moved_from(s, read); }, __FILE__, __LINE__);
		ktap::add("layouts", "WRITE takes from " + end, [&s] { expect_moved_from(s, write); }, __FILE__, __LINE__);
		ktap::add("layouts", "mlx5dv_wr_memcpy() takes from " + end, [&s] { expect_moved_from(s, copy); }, __FILE__,
			  __LINE__);
	}
}

// ---- what READ and copies are refused ----

// It must fail, and change nothing.
void expect_refused(const Pair &p, Request request, const Laid &from, const Laid &to, const Memory &sink,
		    ibv_wc_status status)
{
	const Picture before(sink);
	request(p, from, to);
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, status);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_ERR);
	EXPECT_TRUE(before.matches()) << "a request that fails has written";
}

Blocks blocks_of_10(const Memory &m) { return {{m.addr(), 10, 5, m.lkey()}}; }

// READ through a pattern of 100 bytes, with these rights, from @at on; the pattern is at the near end or at the far one.
void expect_read_refused(bool near, uint32_t access, uint64_t at)
{
	Context c;
	Pair p(c, options());
	const Side s(near ? p.a : p.b, near ? *p.a.mem : *p.b.mem);
	p.b.mem->pattern(1);
	register_pattern(s.end, s.key, 10, blocks_of_10(s.mem), access);
	const Laid laid(s.key, {{0, 100, 0}}, at), region(near ? *p.b.mem : *p.a.mem, 0, 100);
	if (near)
		expect_refused(p, read, region, laid, *p.a.mem, IBV_WC_LOC_PROT_ERR);
	else
		expect_refused(p, read, laid, region, *p.a.mem, IBV_WC_REM_ACCESS_ERR);
}

KTEST(layouts, "READ finds nothing behind a pattern's last round, at either end")
{
	for (bool near : {false, true})
		expect_read_refused(near, all_access, 1);
}

KTEST(layouts, "READ needs a pattern's remote read at the far end, and its local write at the near one")
{
	for (bool near : {false, true})
		expect_read_refused(near, all_access & ~(near ? IBV_ACCESS_LOCAL_WRITE : IBV_ACCESS_REMOTE_READ), 0);
}

KTEST(layouts, "a copy past a layout's end, the source's or the destination's, is a local protection error")
{
	Context c;
	for (bool source : {false, true}) {
		Pair p(c, options());
		Memory other(p.a.pd.get(), 1 << 20);
		const Side s(p.a, source ? *p.a.mem : other);
		p.a.mem->pattern(1);
		list(s, {s.mem.sge(0, 60000), s.mem.sge(100000, 40000)});
		const Laid beyond(s.key, {{0, 100000, 0}}, 1), region(source ? other : *p.a.mem, 0, 100000);
		if (source)
			expect_refused(p, copy, beyond, region, other, IBV_WC_LOC_PROT_ERR);
		else
			expect_refused(p, copy, region, beyond, other, IBV_WC_LOC_PROT_ERR);
	}
}

KTEST(layouts, "a copy goes to no layout without local write, nor to one with such a piece, and from any")
{
	Context c;
	const uint32_t no_write = IBV_ACCESS_REMOTE_READ;
	for (bool below : {false, true}) {
		Pair p(c, options());
		Memory readable(p.a.pd.get(), 4096, no_write), other(p.a.pd.get(), 1 << 20);
		const Side s(p.a, other);
		const Pieces l = {other.sge(10, 100000), below ? readable.sge(0, 50) : other.sge(200000, 50)};
		p.a.mem->pattern(1);
		register_list(s.end, s.key, l, below ? all_access : no_write);
		const Laid laid(s.key, l);

		// Back is allowed.
		other.pattern(2);
		readable.pattern(3);
		const Laid region(*p.a.mem, 3, sum(l));
		Picture mine(*p.a.mem);
		mine.scatter(region.pieces, joined(l));
		copy(p, laid, region);
		EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
		EXPECT_TRUE(mine.matches());

		p.a.mem->pattern(4);
		const Picture before(readable);
		expect_refused(p, copy, region, laid, other, IBV_WC_LOC_PROT_ERR);
		EXPECT_TRUE(before.matches());
	}
}

// ---- atomics ----

constexpr uint64_t first_value = 0x1122334455667788, second_value = 0x99aabbccddeeff00;

std::span<const uint8_t> bytes_of(const uint64_t &word)
{
	return {reinterpret_cast<const uint8_t *>(&word), sizeof(word)};
}

// Both that there are, as one that would change a word of @first_value to one of @second_value.
const struct Atomic {
	const char *name;
	ibv_wr_opcode op;
	uint64_t compare_add, swap;
} atomics[] = {
    {"compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, first_value, second_value},
    {"fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, second_value - first_value, 0},
};

void post_atomic(const Pair &p, const Atomic &a, uint64_t addr, uint32_t rkey, ibv_sge result)
{
	Wr(a.op, {&result, 1}).atomic(addr, rkey, a.compare_add, a.swap).post(p.a.qp.get());
}

// A word at an aligned address of a key, in one piece of memory.
const struct Word {
	const char *name;
	Laid (*lay)(const Side &s);
	uint64_t addr; // of the key
	size_t at;     // in memory
} words[] = {
    {"in a list's second piece", [](const Side &s) { return list(s, {s.mem.sge(100, 16), s.mem.sge(4096, 24)}); }, 24,
     4104},
    {"in a pattern's block",
     [](const Side &s) { return pattern(s, 50, {{s.mem.addr(64), 16, 8, s.mem.lkey()}}); }, 16 * 30 + 8,
     64 + 24 * 30 + 8},
    {"in the second entry of a pattern",
     [](const Side &s) {
	     return pattern(s, 50, {{s.mem.addr(1), 8, 1, s.mem.lkey()}, {s.mem.addr(8192), 8, 32, s.mem.lkey()}});
     },
     16 * 49 + 8, 8192 + 40 * 49},
    {"behind a list of pieces of a pattern",
     [](const Side &s) { return exchanged(s, 50, {{s.mem.addr(64), 16, 8, s.mem.lkey()}}, 32); }, 16 * 47,
     64 + 24 * 49},
};

// Where the old value goes: memory in which its bytes are apart, but for one.
const Shape results[] = {
    {"a region", [](const Side &s) { return Laid(s.mem, 3, 8); }},
    {"a list", [](const Side &s) { return list(s, {s.mem.sge(100, 1), s.mem.sge(4093, 5), s.mem.sge(9, 2)}); }},
    {"a pattern", [](const Side &s) { return pattern(s, 8, {{s.mem.addr(4090), 1, 2, s.mem.lkey()}}); }},
    {"a pattern of several entries",
     [](const Side &s) {
	     return pattern(s, 2, {{s.mem.addr(1), 3, 4, s.mem.lkey()}, {s.mem.addr(501), 1, 0, s.mem.lkey()}});
     }},
    {"a list of pieces of a pattern",
     [](const Side &s) { return exchanged(s, 4, {{s.mem.addr(7), 2, 3, s.mem.lkey()}}, 3); }},
};

void expect_atomic(const Pair &p, const Atomic &a, const Word &w, const Side &far, const Side &near, const Shape &r)
{
	p.a.mem->pattern(1);
	p.b.mem->pattern(2);
	std::memcpy(far.mem.data() + w.at, &first_value, sizeof(first_value));
	const Laid result = r.lay(near);
	Picture here(near.mem), there(far.mem);
	here.scatter(result.pieces, bytes_of(first_value));
	there.scatter({far.mem.sge(w.at, 8)}, bytes_of(second_value));
	post_atomic(p, a, w.addr, far.key.rkey(), result.sge());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(there.matches());
	EXPECT_TRUE(here.matches());
}

void expect_word(const Atomic &a, const Word &w)
{
	Context c;
	Pair p(c, options());
	const Side far(p.b, *p.b.mem), near(p.a, *p.a.mem);

	w.lay(far);
	for (const Shape &r : results) {
		SCOPED_TRACE(r.name);
		expect_atomic(p, a, w, far, near, r);
	}
}

KTEST(layouts, "compare and swap leaves a word behind a key that has another value, and says which")
{
	Context c;
	Pair p(c, options());
	const Side far(p.b, *p.b.mem), near(p.a, *p.a.mem);
	const Word &w = words[1];

	w.lay(far);
	const Laid result = results[2].lay(near);
	p.b.mem->pattern(2);
	std::memcpy(p.b.mem->data() + w.at, &second_value, sizeof(second_value));
	const Picture there(*p.b.mem);
	Picture here(*p.a.mem);
	here.scatter(result.pieces, bytes_of(second_value));
	post_atomic(p, atomics[0], w.addr, far.key.rkey(), result.sge());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(there.matches());
	EXPECT_TRUE(here.matches());
}

// An address of a key at which an atomic finds no word.
const struct NoWord {
	const char *name;
	Laid (*lay)(const Side &s);
	uint64_t addr;
	ibv_wc_status status;
} no_words[] = {
    {"a word in two pieces of a list", [](const Side &s) { return list(s, {s.mem.sge(64, 12), s.mem.sge(4096, 12)}); },
     8, IBV_WC_REM_INV_REQ_ERR},
    {"a word in two pieces that are neighbours",
     [](const Side &s) { return list(s, {s.mem.sge(64, 12), s.mem.sge(76, 12)}); }, 8, IBV_WC_REM_INV_REQ_ERR},
    {"a word in two blocks of a pattern",
     [](const Side &s) { return pattern(s, 10, {{s.mem.addr(64), 12, 4, s.mem.lkey()}}); }, 8, IBV_WC_REM_INV_REQ_ERR},
    {"a word in the blocks of two entries",
     [](const Side &s) {
	     return pattern(s, 10, {{s.mem.addr(64), 4, 4, s.mem.lkey()}, {s.mem.addr(512), 4, 4, s.mem.lkey()}});
     },
     8, IBV_WC_REM_INV_REQ_ERR},
    {"a word in two pieces of a list of one pattern's block",
     [](const Side &s) { return exchanged(s, 1, {{s.mem.addr(64), 20, 0, s.mem.lkey()}}, 8); }, 8,
     IBV_WC_REM_INV_REQ_ERR},
    {"memory that is not aligned at an address that is",
     [](const Side &s) { return list(s, {s.mem.sge(68, 16)}); }, 0, IBV_WC_REM_INV_REQ_ERR},
    {"memory that is aligned at an address that is not",
     [](const Side &s) { return list(s, {s.mem.sge(0, 4), s.mem.sge(64, 16)}); }, 4, IBV_WC_REM_INV_REQ_ERR},
    {"a word that a pattern's end cuts",
     [](const Side &s) { return pattern(s, 3, {{s.mem.addr(64), 12, 4, s.mem.lkey()}}); }, 32, IBV_WC_REM_ACCESS_ERR},
};

void expect_no_word(const Atomic &a, const NoWord &w)
{
	Context c;
	Pair p(c, options());
	const Side far(p.b, *p.b.mem);

	p.a.mem->pattern(1);
	p.b.mem->pattern(2);
	w.lay(far);
	const Picture here(*p.a.mem), there(*p.b.mem);
	post_atomic(p, a, w.addr, far.key.rkey(), p.a.mem->sge(0, 8));
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, w.status);
	EXPECT_EQ(state_of(p.a.qp.get()), IBV_QPS_ERR);
	EXPECT_EQ(state_of(p.b.qp.get()), IBV_QPS_ERR);
	EXPECT_TRUE(there.matches());
	EXPECT_TRUE(here.matches());
}

KTESTS
{
	for (const Atomic &a : atomics) {
		const std::string name = a.name;
		for (const Word &w : words)
			ktap::add("layouts", name + " reaches a word " + w.name + ", and its old value memory of any shape",
				  [&a, &w] { expect_word(a, w); }, __FILE__, __LINE__);
		for (const NoWord &w : no_words)
			ktap::add("layouts", name + " is refused where it finds " + w.name,
				  [&a, &w] { expect_no_word(a, w); }, __FILE__, __LINE__);
	}
}

KTEST(layouts, "an atomic whose old value has no room behind a key changes nothing")
{
	Context c;
	for (bool writable : {false, true})
		for (const Atomic &a : atomics) {
			SCOPED_TRACE(a.name);
			Pair p(c, options());
			Mkey k(p.a.pd.get());
			p.b.mem->pattern(2);
			register_pattern(p.a, k, writable ? 7 : 8, {{p.a.mem->addr(), 1, 1, p.a.mem->lkey()}},
					 writable ? all_access : IBV_ACCESS_REMOTE_READ);
			std::memcpy(p.b.mem->data() + 64, &first_value, sizeof(first_value));
			const Picture here(*p.a.mem), there(*p.b.mem);
			post_atomic(p, a, p.b.mem->addr(64), p.b.mem->rkey(), k.sge(0, 8));
			EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_LOC_PROT_ERR);
			EXPECT_EQ(state_of(p.b.qp.get()), IBV_QPS_RTS);
			EXPECT_TRUE(there.matches());
			EXPECT_TRUE(here.matches());
		}
}

} // namespace
