// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// WQEs that tally/wqe.hpp builds, on their way to a device: through mlx5dv_wr_raw_wqe() and work_queue, to a QP and to
// a DCT.
#include "dc.hpp"
#include "layouts.hpp"

#include <array>
#include <endian.h>
#include <tally/work_queue.hpp>

using namespace rdma;
using namespace tally;

namespace {

constexpr uint64_t raw_ops = layout_ops | MLX5DV_QP_EX_WITH_MEMCPY | MLX5DV_QP_EX_WITH_RAW_WQE;
constexpr uint32_t imm = 0x89abcdef;

// A WQE of its own, for mlx5dv_wr_raw_wqe().
struct Wqe {
	alignas(wqe::block_bytes) uint8_t bytes[wqe::blocks_of(wqe::max_units) * wqe::block_bytes] = {};

	wqe::ctrl_seg &ctrl() { return *reinterpret_cast<wqe::ctrl_seg *>(bytes); }
};

template <class Request> Wqe built(const ibv_qp *qp, const Request &request, uint8_t flags = wqe::signaled)
{
	Wqe w;
	if (!wqe::build(wqe::linear{w.bytes}, {.qpn = qp->qp_num, .index = 0, .flags = flags}, request))
		fail("build", EINVAL);
	return w;
}

void post_raw(ibv_qp *qp, const Wqe &w, uint64_t id = 0)
{
	must(post(qp, [&](ibv_qp_ex *e, mlx5dv_qp_ex *d) {
		e->wr_id = id;
		mlx5dv_wr_raw_wqe(d, w.bytes);
	}), "raw");
}

// How one ended.
ibv_wc_status raw(ibv_qp *qp, ibv_cq *cq, const Wqe &w)
{
	static uint64_t id;
	post_raw(qp, w, ++id);
	const ibv_wc wc = expect_wc(cq);
	EXPECT_EQ(wc.wr_id, id);
	EXPECT_EQ(wc.qp_num, qp->qp_num);
	if (wc.status == IBV_WC_SUCCESS) {
		EXPECT_EQ(wc.opcode, IBV_WC_DRIVER2);
	}
	return wc.status;
}

// ---- ways to the other side ----

// Between two QPs, raw.
struct RawRc : Pair {
	static constexpr wqe::connected to{};
	Memory &near = *a.mem, &far = *b.mem;
	ibv_pd *near_pd = a.pd.get(), *far_pd = b.pd.get();
	ibv_cq *received = b.rcq.get();

	explicit RawRc(Context &ctx) : Pair(ctx, dv_options(raw_ops)) {}
	template <class Request> ibv_wc_status operator()(const Request &r)
	{
		return raw(a.qp.get(), a.scq.get(), built(a.qp.get(), r));
	}
	void receive(ibv_sge into) { post_recv(b.qp.get(), {into}); }
};

// From a DCI to a DCT.
struct Dc {
	Context &c;
	Dct target;
	Dci initiator;
	const wqe::dc to;
	Memory &near = initiator.mem, &far = target.mem;
	ibv_pd *near_pd = initiator.pd.get(), *far_pd = target.pd.get();
	ibv_cq *received = target.cq.get();

	explicit Dc(Context &ctx, bool streams = false)
	    : c(ctx), target(ctx), initiator(ctx, MLX5DV_QP_EX_WITH_MEMCPY | MLX5DV_QP_EX_WITH_RAW_WQE, streams),
	      to{path_of(*initiator.ah).value(), target.qp->qp_num, dc_key}
	{
		target.start(c);
	}
	void receive(ibv_sge into) { post_srq_recv(target.srq.get(), {into}); }
};

struct RawDc : Dc {
	using Dc::Dc;
	template <class Request> ibv_wc_status operator()(const Request &r)
	{
		return raw(initiator.qp.get(), initiator.cq.get(), built(initiator.qp.get(), r));
	}
};

struct QueuedDc : Dc {
	work_queue wq = work_queue::over(*initiator.qp).value();

	using Dc::Dc;
	template <class Request> ibv_wc_status operator()(const Request &r)
	{
		if (!wq.post(r, wqe::signaled))
			fail("post", EINVAL);
		wq.ring();
		const ibv_wc wc = expect_wc(initiator.cq.get());
		wq.all_completed();
		EXPECT_EQ(wc.qp_num, initiator.qp->qp_num);
		return wc.status;
	}
};

// ---- what goes over them ----

wqe::data data_of(const Memory &m, size_t at, size_t length)
{
	return {m.addr(at), static_cast<uint32_t>(length), m.lkey()};
}
wqe::remote remote_of(const Memory &m, size_t at) { return {m.addr(at), m.rkey()}; }
wqe::copy::end end_of(const Memory &m, size_t at) { return {m.addr(at), m.lkey()}; }

// Of one piece of memory, of several, and from the WQE itself.
struct Payloads {
	static constexpr size_t long_one = 90000;
	std::array<wqe::data, 3> list;
	std::array<uint8_t, 60> bytes;

	explicit Payloads(const Memory &m) : list{data_of(m, 1, 13), data_of(m, 5000, 7001), data_of(m, 90000, 1)}
	{
		for (size_t i = 0; i < bytes.size(); i++)
			bytes[i] = static_cast<uint8_t>(7 * i + 1);
	}
	wqe::pieces pieces() const { return {list.data(), static_cast<uint32_t>(list.size())}; }
	wqe::inline_bytes inlined() const { return {bytes.data(), static_cast<uint32_t>(bytes.size())}; }
	Pieces sges() const
	{
		Pieces l;
		for (const wqe::data &d : list)
			l.push_back({d.addr, d.length, d.lkey});
		return l;
	}
	Bytes gathered() const { return joined(sges()); }
};

template <class Way> void patterns(const Way &way)
{
	way.near.pattern(1);
	way.far.pattern(2);
}

template <class Way> void writes(Way &way)
{
	patterns(way);
	const Payloads p(way.near);
	Picture far(way.far);

	const auto expect_written = [&](const auto &payload, size_t at, std::span<const uint8_t> data) {
		far.scatter({way.far.sge(at, data.size())}, data);
		EXPECT_EQ(way(wqe::rdma_write{remote_of(way.far, at), payload, way.to}), IBV_WC_SUCCESS);
		EXPECT_TRUE(far.matches());
	};
	expect_written(data_of(way.near, 3, p.long_one), 1001, way.near.bytes().subspan(3, p.long_one));
	expect_written(p.pieces(), 7, p.gathered());
	expect_written(p.inlined(), 200000, p.bytes);
	expect_written(wqe::nothing{}, 0, {});
	EXPECT_TRUE(empty(way.received));
}

template <class Way> void writes_with_immediate(Way &way)
{
	patterns(way);
	Picture far(way.far);

	way.receive(way.far.sge(0, 0));
	far.scatter({way.far.sge(1001, 5000)}, way.near.bytes().subspan(3, 5000));
	EXPECT_EQ(way(wqe::rdma_write_imm{imm, remote_of(way.far, 1001), data_of(way.near, 3, 5000), way.to}),
		  IBV_WC_SUCCESS);
	const ibv_wc wc = expect_wc(way.received);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.byte_len, 5000u);
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
	EXPECT_EQ(be32toh(wc.imm_data), imm);
	EXPECT_TRUE(far.matches());
}

// Posts what must arrive as @data; the completion of its receive.
template <class Way, class Request> ibv_wc expect_sent(Way &way, const Request &r, std::span<const uint8_t> data)
{
	Picture far(way.far);
	const ibv_sge into = way.far.sge(100001, 100000);

	way.receive(into);
	far.scatter({into}, data);
	EXPECT_EQ(way(r), IBV_WC_SUCCESS);
	const ibv_wc wc = expect_wc(way.received);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, data.size());
	EXPECT_TRUE(far.matches());
	return wc;
}

template <class Way> void sends(Way &way)
{
	patterns(way);
	const Payloads p(way.near);

	EXPECT_FALSE(expect_sent(way, wqe::send{data_of(way.near, 3, p.long_one), way.to},
				 way.near.bytes().subspan(3, p.long_one)).wc_flags & IBV_WC_WITH_IMM);
	expect_sent(way, wqe::send{p.pieces(), way.to}, p.gathered());
	expect_sent(way, wqe::send{p.inlined(), way.to}, p.bytes);
	const ibv_wc wc = expect_sent(way, wqe::send_imm{imm, p.pieces(), way.to}, p.gathered());
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
	EXPECT_EQ(be32toh(wc.imm_data), imm);
	expect_sent(way, wqe::send_imm{imm, wqe::nothing{}, way.to}, {});
}

template <class Way> void sends_with_invalidate(Way &way)
{
	Mkey k(way.far_pd, 16, MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE);
	const auto write_to_key = [&] {
		return way(wqe::rdma_write{wqe::remote{0, k.rkey()}, data_of(way.near, 0, 8), way.to});
	};

	patterns(way);
	register_for(way.c, way.far_pd, k, {way.far.sge(0, 64)});
	EXPECT_EQ(write_to_key(), IBV_WC_SUCCESS);
	EXPECT_TRUE(std::equal(way.far.data(), way.far.data() + 8, way.near.data()));
	const ibv_wc wc = expect_sent(way, wqe::send_inval{k.rkey(), data_of(way.near, 3, 5000), way.to},
				      way.near.bytes().subspan(3, 5000));
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	EXPECT_EQ(wc.invalidated_rkey, k.rkey());
	way.near.pattern(3);
	const Picture far(way.far);
	EXPECT_EQ(write_to_key(), IBV_WC_REM_ACCESS_ERR);
	EXPECT_TRUE(far.matches());
}

template <class Way> void reads(Way &way)
{
	patterns(way);
	const Payloads p(way.near);
	Picture near(way.near);

	near.scatter({way.near.sge(100000, p.long_one)}, way.far.bytes().subspan(11, p.long_one));
	EXPECT_EQ(way(wqe::rdma_read{remote_of(way.far, 11), data_of(way.near, 100000, p.long_one), way.to}), IBV_WC_SUCCESS);
	EXPECT_TRUE(near.matches());
	near.scatter(p.sges(), way.far.bytes().subspan(4097));
	EXPECT_EQ(way(wqe::rdma_read{remote_of(way.far, 4097), p.pieces(), way.to}), IBV_WC_SUCCESS);
	EXPECT_TRUE(near.matches());
}

template <class Way> void atomics(Way &way)
{
	constexpr uint64_t start = 0x1122334455667788, add = 0x0102030405060708, swapped = 0x99aabbccddeeff00;
	uint64_t word = start;

	patterns(way);
	std::memcpy(way.far.data() + 4096, &word, sizeof(word));
	Picture near(way.near), far(way.far);
	const auto expect_atomic = [&](const auto &request, uint64_t then) {
		const auto bytes = [](const uint64_t &w) { return std::span(reinterpret_cast<const uint8_t *>(&w), sizeof(w)); };
		near.scatter({way.near.sge(77, 8)}, bytes(word));
		far.scatter({way.far.sge(4096, 8)}, bytes(then));
		EXPECT_EQ(way(request), IBV_WC_SUCCESS);
		EXPECT_TRUE(near.matches());
		EXPECT_TRUE(far.matches());
		word = then;
	};
	const wqe::remote there = remote_of(way.far, 4096);
	const wqe::data here = data_of(way.near, 77, 8);
	expect_atomic(wqe::fetch_add{there, add, here, way.to}, start + add);
	expect_atomic(wqe::compare_swap{there, start, swapped, here, way.to}, start + add);
	expect_atomic(wqe::compare_swap{there, start + add, swapped, here, way.to}, swapped);
}

template <class Way> void copies(Way &way)
{
	patterns(way);
	Memory to(way.near_pd, 1 << 17), scratch(way.near_pd, 4096);
	Picture after(to);
	const Picture far(way.far);

	after.scatter({to.sge(13, 90000)}, way.near.bytes().subspan(5, 90000));
	EXPECT_EQ(way(wqe::copy(end_of(to, 13), end_of(way.near, 5), 90000, end_of(scratch, 0))), IBV_WC_SUCCESS);
	EXPECT_TRUE(after.matches());
	EXPECT_TRUE(far.matches());
}

template <class Way> void nops(Way &way)
{
	patterns(way);
	const Picture near(way.near), far(way.far);

	EXPECT_EQ(way(wqe::nop{}), IBV_WC_SUCCESS);
	EXPECT_TRUE(near.matches());
	EXPECT_TRUE(far.matches());
}

template <class Way> void add(const char *suite, const std::string &how)
{
	const struct {
		const char *sentence;
		void (*body)(Way &);
	} tests[] = {
	    {"WRITEs put their payload there", writes<Way>},
	    {"WRITE with immediate puts it there and completes a receive", writes_with_immediate<Way>},
	    {"SENDs fill receives, with immediate and without", sends<Way>},
	    {"SEND with invalidate frees a key", sends_with_invalidate<Way>},
	    {"READs bring what is there", reads<Way>},
	    {"atomics change a word and bring what it was", atomics<Way>},
	    {"a copy goes within the host", copies<Way>},
	    {"a NOP completes and does nothing", nops<Way>},
	};
	for (const auto &t : tests)
		ktap::add(suite, how + ": " + t.sentence, [body = t.body] {
			Context c;
			Way way(c);
			body(way);
		}, __FILE__, __LINE__);
}

KTESTS
{
	add<RawRc>("raw_wqe", "built by tally/wqe.hpp, to a QP");
	add<RawDc>("raw_wqe", "built by tally/wqe.hpp, from a DCI to a DCT");
	add<QueuedDc>("work_queue", "posted on a DCI, to a DCT");
}

// ---- what only some do ----

KTEST(raw_wqe, "built by tally/wqe.hpp, to a QP: UMRs give a key a list or a pattern, also from memory, and free it")
{
	constexpr uint8_t rights = wqe::local_write;
	Context c;
	RawRc way(c);
	Mkey k(way.near_pd);
	Memory entries(way.near_pd, 4096);
	const Payloads p(way.near);
	const uint32_t lkey = way.near.lkey();
	const wqe::stride strides[] = {{way.near.addr(3), 10, 6, lkey}, {way.near.addr(5000), 300, 7, lkey}};
	const Blocks blocks = {{way.near.addr(3), 10, 6, lkey}, {way.near.addr(5000), 300, 7, lkey}};
	const auto write = [&](size_t n) {
		return way(wqe::rdma_write{remote_of(way.far, 9), wqe::data{0, static_cast<uint32_t>(n), k.lkey()}});
	};
	const auto expect_registered = [&](const auto &request, const Pieces &l) {
		patterns(way);
		Picture far(way.far);
		far.scatter({way.far.sge(9, sum(l))}, joined(l));
		EXPECT_EQ(way(request), IBV_WC_SUCCESS);
		EXPECT_EQ(write(sum(l)), IBV_WC_SUCCESS);
		EXPECT_TRUE(far.matches());
	};

	expect_registered(wqe::register_list(k.lkey(), rights, p.pieces()), p.sges());
	expect_registered(wqe::register_interleaved(k.lkey(), rights, 20, strides, 2), pieces_of(20, blocks));
	const wqe::data_seg two[4] = {{1000, lkey, way.near.addr(30000)}, {77, lkey, way.near.addr(11)}};
	std::memcpy(entries.data(), two, sizeof(two));
	expect_registered(wqe::register_from_memory(k.lkey(), rights, 1077, data_of(entries, 0, sizeof(two))),
			  {way.near.sge(30000, 1000), way.near.sge(11, 77)});
	EXPECT_EQ(way(wqe::local_inval(k.lkey())), IBV_WC_SUCCESS);
	const Picture far(way.far);
	way.near.pattern(3);
	EXPECT_EQ(write(8), IBV_WC_LOC_PROT_ERR);
	EXPECT_TRUE(far.matches());
}

KTEST(raw_wqe, "an invalidation that has an opcode of its own frees a key, too")
{
	Context c;
	RawRc way(c);
	Mkey k(way.near_pd);
	Wqe w = built(way.a.qp.get(), wqe::nop{});
	const auto write = [&] { return way(wqe::rdma_write{remote_of(way.far, 9), wqe::data{0, 8, k.lkey()}}); };

	register_list(way.a, k, {way.near.sge(0, 8)});
	EXPECT_EQ(write(), IBV_WC_SUCCESS);
	w.ctrl().opmod_index_opcode = MLX5_OPCODE_LOCAL_INVAL;
	w.ctrl().imm = k.lkey();
	EXPECT_EQ(raw(way.a.qp.get(), way.a.scq.get(), w), IBV_WC_SUCCESS);
	EXPECT_EQ(write(), IBV_WC_LOC_PROT_ERR);
}

KTEST(raw_wqe, "an opcode that the device does not know is a local QP operation error, and what is behind it is flushed")
{
	constexpr std::array known = {0x00, 0x01, 0x08, 0x09, 0x0a, 0x0b, 0x10, 0x11, 0x12, 0x1b, 0x25, 0x2f};
	Context c;
	RawRc way(c);
	ibv_qp *qp = way.a.qp.get();
	ibv_cq *cq = way.a.scq.get();

	patterns(way);
	const Picture near(way.near), far(way.far);
	for (int op = 0; op < 0x100; op++) {
		if (std::find(known.begin(), known.end(), op) != known.end())
			continue;
		SCOPED_TRACE(op);
		Wqe w = built(qp, wqe::rdma_write{remote_of(way.far, 0), data_of(way.near, 0, 64)});
		w.ctrl().opmod_index_opcode = static_cast<uint32_t>(op);
		ASSERT_EQ(raw(qp, cq, w), IBV_WC_LOC_QP_OP_ERR);
		ASSERT_EQ(state_of(qp), IBV_QPS_ERR);
		ASSERT_EQ(raw(qp, cq, built(qp, wqe::nop{})), IBV_WC_WR_FLUSH_ERR);
		must(to_reset(qp), "reset");
		must(to_reset(way.b.qp.get()), "reset");
		way.connect();
	}
	EXPECT_TRUE(near.matches());
	EXPECT_TRUE(far.matches());
}

KTEST(raw_wqe, "so is one of another QP's number")
{
	Context c;
	RawRc way(c);
	patterns(way);
	const Picture far(way.far);
	EXPECT_EQ(raw(way.a.qp.get(), way.a.scq.get(),
		      built(way.b.qp.get(), wqe::rdma_write{remote_of(way.far, 0), data_of(way.near, 0, 64)})),
		  IBV_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(far.matches());
}

// Says that the QP cannot do it, and changes nothing.
template <class Way, class Request> void expect_not_sent(const char *what, Request build)
{
	SCOPED_TRACE(what);
	Context c;
	Way way(c);
	patterns(way);
	const Picture near(way.near), far(way.far);
	EXPECT_EQ(way(build(way)), IBV_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(near.matches());
	EXPECT_TRUE(far.matches());
}

struct RawUc : Pair {
	Memory &near = *a.mem, &far = *b.mem;

	explicit RawUc(Context &ctx) : Pair(ctx, dv_options(MLX5DV_QP_EX_WITH_RAW_WQE, IBV_QP_EX_WITH_SEND, IBV_QPT_UC)) {}
	template <class Request> ibv_wc_status operator()(const Request &r)
	{
		return raw(a.qp.get(), a.scq.get(), built(a.qp.get(), r));
	}
};

KTEST(raw_wqe, "so is what the QP's type cannot do: most on UC, UMRs on a DCI")
{
	const auto near = [](auto &way) { return data_of(way.near, 0, 8); };
	const auto far = [](auto &way) { return remote_of(way.far, 0); };

	expect_not_sent<RawUc>("READ", [&](RawUc &way) { return wqe::rdma_read{far(way), near(way)}; });
	expect_not_sent<RawUc>("invalidation", [&](RawUc &way) { return wqe::send_inval{1, near(way)}; });
	expect_not_sent<RawUc>("compare and swap", [&](RawUc &way) { return wqe::compare_swap{far(way), 0, 1, near(way)}; });
	expect_not_sent<RawUc>("fetch and add", [&](RawUc &way) { return wqe::fetch_add{far(way), 1, near(way)}; });
	expect_not_sent<RawUc>("copy", [](RawUc &way) {
		return wqe::copy(end_of(way.near, 0), end_of(way.near, 64), 8, end_of(way.near, 128));
	});
	expect_not_sent<RawDc>("list", [](RawDc &) { return wqe::register_list(1, 0, {nullptr, 0}); });
	expect_not_sent<RawDc>("freeing a key", [](RawDc &) { return wqe::local_inval(1); });
}

KTEST(work_queue, "posted on a DCI: inline WRITEs to a DCT go round the ring")
{
	Context c;
	QueuedDc way(c);
	const uint32_t ring = way.wq.memory().count;
	uint32_t blocks = 0;

	way.near.pattern(1);
	for (uint32_t i = 0; blocks < 3 * ring; i++) {
		const uint32_t length = 1 + i * 37 % 300;
		const wqe::rdma_write request{remote_of(way.far, 1), wqe::inline_bytes{way.near.data() + i, length}, way.to};
		way.far.fill(0);
		Picture far(way.far);
		far.scatter({way.far.sge(1, length)}, way.near.bytes().subspan(i, length));
		ASSERT_EQ(way(request), IBV_WC_SUCCESS);
		ASSERT_TRUE(far.matches()) << i;
		blocks += wqe::blocks_of(request.units());
	}
}

KTEST(work_queue, "posted on a DCI: a wrong access key, or no such DCT, is a remote error, and nothing is written")
{
	Context c;
	for (bool wrong_key : {false, true}) {
		QueuedDc way(c);
		patterns(way);
		const Picture far(way.far);
		wqe::dc to = way.to;
		if (wrong_key)
			to.access_key++;
		else
			to.dctn = 0xfffff0;
		EXPECT_EQ(way(wqe::rdma_write{remote_of(way.far, 0), data_of(way.near, 0, 64), to}),
			  wrong_key ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR);
		EXPECT_TRUE(far.matches());
	}
}

KTEST(work_queue, "posted on a DCI: an error stops the stream that the request names")
{
	Context c;
	QueuedDc way(c, true);
	patterns(way);
	Picture far(way.far);
	const auto write = [&](uint16_t stream, size_t at, uint32_t wrong = 0) {
		wqe::dc to = way.to;
		to.stream = stream;
		return way(wqe::rdma_write{wqe::remote{way.far.addr(at), way.far.rkey() ^ wrong}, data_of(way.near, at, 64), to});
	};
	const auto arrives = [&](size_t at) { far.scatter({way.far.sge(at, 64)}, way.near.bytes().subspan(at, 64)); };

	EXPECT_EQ(write(2, 0, 0x100 << 12), IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(write(2, 100), IBV_WC_WR_FLUSH_ERR);
	arrives(200);
	EXPECT_EQ(write(1, 200), IBV_WC_SUCCESS);
	EXPECT_TRUE(far.matches());
	must(mlx5dv_dci_stream_id_reset(way.initiator.qp.get(), 2), "dci_stream_id_reset");
	arrives(300);
	EXPECT_EQ(write(2, 300), IBV_WC_SUCCESS);
	EXPECT_TRUE(far.matches());
}

} // namespace
