// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Work requests posted by libmlx5's builders and by ours, for callgrind to count: only the posting is collected, the
// doorbell included.
//
//	valgrind --tool=callgrind --collect-atstart=no tally_bench builders ...
#include "bench.hpp"
#include "../../rdma/dv.hpp"

#include <tally/mlx5.h>
#include <tally/work_queue.hpp>
#include <valgrind/callgrind.h>

namespace bench {

using namespace rdma;
using namespace tally;

namespace {

constexpr uint64_t send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
constexpr uint64_t dv_ops = MLX5DV_QP_EX_WITH_MEMCPY | MLX5DV_QP_EX_WITH_MR_INTERLEAVED;
constexpr uint32_t bytes = 64, entries = 3, rounds = 4;
constexpr int layout_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

struct Bed {
	Pair p;
	Mkey key;
	Memory scratch;
	mlx5dv_mr_interleaved theirs[entries];
	wqe::stride ours[entries];

	static QpOptions options()
	{
		QpOptions o = dv_options(dv_ops, send_ops);
		o.max_inline = 512;
		return o;
	}
	explicit Bed(Context &c) : p(c, options()), key(p.a.pd.get()), scratch(p.a.pd.get(), 4096)
	{
		for (uint32_t i = 0; i < entries; i++) {
			theirs[i] = {p.a.mem->addr(i * 4096), 64, 64, p.a.mem->lkey()};
			ours[i] = {p.a.mem->addr(i * 4096), 64, 64, p.a.mem->lkey()};
		}
	}
	ibv_qp &qp() { return *p.a.qp; }
	uint64_t to() const { return p.b.mem->addr(); }
	uint32_t rkey() const { return p.b.mem->rkey(); }
	uint64_t from() const { return p.a.mem->addr(); }
	uint64_t here() const { return p.a.mem->addr(65536); }
	uint32_t lkey() const { return p.a.mem->lkey(); }

	// The last of a batch is signaled; all are done when it is.
	void finish()
	{
		const ibv_wc wc = expect_wc(p.a.scq.get());
		if (wc.status != IBV_WC_SUCCESS)
			fail(std::string("a request: ") + ibv_wc_status_str(wc.status), EIO);
	}
};

enum class What { write, memcpy, interleaved };

// Not inlined into each other, so that each loop is compiled for its request as a program's would be.
template <What W> void by_verbs(Bed &b, ibv_qp_ex *ex, mlx5dv_qp_ex *dv, unsigned batch)
{
	CALLGRIND_TOGGLE_COLLECT;
	ibv_wr_start(ex);
	for (unsigned i = 0; i < batch; i++) {
		ex->wr_id = i;
		ex->wr_flags = i + 1 == batch ? IBV_SEND_SIGNALED : 0;
		if constexpr (W == What::write) {
			ibv_wr_rdma_write(ex, b.rkey(), b.to());
			ibv_wr_set_sge(ex, b.lkey(), b.from(), bytes);
		} else if constexpr (W == What::memcpy) {
			mlx5dv_wr_memcpy(dv, b.lkey(), b.here(), b.lkey(), b.from(), bytes);
		} else {
			ex->wr_flags |= IBV_SEND_INLINE;
			mlx5dv_wr_mr_interleaved(dv, b.key.get(), layout_access, rounds, entries, b.theirs);
		}
	}
	const int err = ibv_wr_complete(ex);
	CALLGRIND_TOGGLE_COLLECT;
	must(err, "ibv_wr_complete");
}

template <What W> void by_work_queue(Bed &b, work_queue &wq, unsigned batch)
{
	const wqe::copy::end scratch{b.scratch.addr(), b.scratch.lkey()};
	bool posted = true;

	CALLGRIND_TOGGLE_COLLECT;
	for (unsigned i = 0; i < batch; i++) {
		const uint8_t flags = i + 1 == batch ? wqe::signaled : 0;
		if constexpr (W == What::write)
			posted &= bool(wq.post(
				wqe::rdma_write{wqe::remote{b.to(), b.rkey()}, wqe::data{b.from(), bytes, b.lkey()}},
				flags));
		else if constexpr (W == What::memcpy)
			posted &= bool(
				wq.post(wqe::copy({b.here(), b.lkey()}, {b.from(), b.lkey()}, bytes, scratch), flags));
		else
			posted &= bool(
				wq.post(wqe::register_interleaved(b.key.lkey(), wqe::local_write | wqe::remote_write,
								  rounds, b.ours, entries),
					flags));
	}
	wq.ring();
	CALLGRIND_TOGGLE_COLLECT;
	if (!posted)
		fail("work_queue::post", ENOSPC);
}

// What callgrind has collected since the last time goes to a file of its own, under this name.
void dump(const std::string &name)
{
	const char *s = name.c_str(); // it must outlive the statement that the macro is
	CALLGRIND_DUMP_STATS_AT(s);
}

template <What W> void count(Bed &b, const std::string &what, unsigned batch, unsigned batches)
{
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(&b.qp());
	mlx5dv_qp_ex *dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
	for (unsigned i = 0; i < batches; i++) {
		by_verbs<W>(b, ex, dv, batch);
		b.finish();
	}
	dump(fmt::format("{} mlx5 {}", what, batch));

	dv = tally_mlx5dv_qp_ex_from_qp(&b.qp(), send_ops, dv_ops);
	if (!dv)
		fail("tally_mlx5dv_qp_ex_from_qp");
	ex = tally_ibv_qp_ex_from_mlx5dv_qp_ex(dv);
	for (unsigned i = 0; i < batches; i++) {
		by_verbs<W>(b, ex, dv, batch);
		b.finish();
	}
	dump(fmt::format("{} qp_ex {}", what, batch));

	work_queue wq = work_queue::over(b.qp()).value();
	for (unsigned i = 0; i < batches; i++) {
		by_work_queue<W>(b, wq, batch);
		b.finish();
		wq.all_completed();
	}
	dump(fmt::format("{} work_queue {}", what, batch));
}

template <What W> void count_both(Context &c, const std::string &what, unsigned batches)
{
	for (unsigned batch : {1u, 16u}) {
		Bed b(c);
		count<W>(b, what, batch, batches);
	}
}

} // namespace

void builders(Context &c, unsigned batches)
{
	count_both<What::write>(c, "write", batches);
	count_both<What::memcpy>(c, "memcpy", batches);
	count_both<What::interleaved>(c, "interleaved", batches);
	say("doorbells", batches);
}

} // namespace bench
