// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Three acts of the demo: what work requests can do beside moving one piece of memory.  Everything is waited for by
// completion counters; no completion queue is polled.
//
// usage: demo_layouts [FIRST]   FIRST numbers the acts from there and leaves the plan to the caller; TALLY_DEVICE
// chooses the device (tally0 if unset).
#include "../rdma/verbs.hpp"

#include <cstdio>
#include <exception>
#include <infiniband/mlx5dv.h>
#include <tally/comp_cntr.hpp>

using namespace rdma;
using namespace std::chrono_literals;

namespace {

void must(int err, const char *what)
{
	if (err)
		fail(what, err);
}

struct MkeyDeleter {
	void operator()(mlx5dv_mkey *key) const { mlx5dv_destroy_mkey(key); }
};

// One side: memory, a key without a layout, and a counter for all that its queue pair does or that is done to it.
struct Side {
	Pd pd;
	Cq cq;
	Memory memory;
	std::unique_ptr<mlx5dv_mkey, MkeyDeleter> key;
	tally::comp_cntr done, arrived;
	Qp qp;
	uint64_t posted = 0, heard = 0;

	explicit Side(Context &c)
	    : pd(alloc_pd(c)), cq(create_cq(c)), memory(pd.get(), 64 * 1024),
	      done(tally::comp_cntr::create(*c.get()).value()), arrived(tally::comp_cntr::create(*c.get()).value())
	{
		mlx5dv_mkey_init_attr mkey{};
		mkey.pd = pd.get();
		mkey.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
		mkey.max_entries = 8;
		key.reset(mlx5dv_create_mkey(&mkey));
		if (!key)
			fail("mlx5dv_create_mkey");

		ibv_qp_init_attr_ex a{};
		a.send_cq = a.recv_cq = cq.get();
		a.cap = {64, 64, 4, 4, 256};
		a.qp_type = IBV_QPT_RC;
		a.pd = pd.get();
		a.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
		mlx5dv_qp_init_attr dv{};
		dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
		dv.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MEMCPY;
		qp = own<Qp>(mlx5dv_create_qp(c.get(), &a, &dv), "mlx5dv_create_qp");
		done.attach(*qp, tally::op::send | tally::op::rdma_write | tally::op::memcpy | tally::op::umr).value();
		arrived.attach(*qp, tally::op::recv | tally::op::remote_rdma_write).value();
	}
	void connect(Context &c, const Side &peer)
	{
		must(to_init(qp.get()), "init");
		must(to_rtr(qp.get(), c, c.gid(), peer.qp->qp_num), "rtr");
		must(to_rts(qp.get()), "rts");
	}
	ibv_qp_ex *ex() const { return ibv_qp_to_qp_ex(qp.get()); }
	mlx5dv_qp_ex *dv() const { return mlx5dv_qp_ex_from_ibv_qp_ex(ex()); }

	// Posts what @build says, so many requests, and sleeps until they are done.
	template <class F> void run(unsigned requests, F &&build)
	{
		ibv_wr_start(ex());
		ex()->wr_id = 1;
		build();
		must(ibv_wr_complete(ex()), "ibv_wr_complete");
		posted += requests;
		done.wait(posted, {.timeout = 20s}).value();
	}
	// Sleeps until so many more operations of the peer have arrived.
	void expect(unsigned operations)
	{
		heard += operations;
		arrived.wait(heard, {.timeout = 20s}).value();
	}
};

// Rows of letters, "." for zero.
void show(const char *title, const uint8_t *p, unsigned rows, unsigned columns)
{
	std::printf("# %s\n", title);
	for (unsigned r = 0; r < rows; r++) {
		std::printf("#     ");
		for (unsigned i = 0; i < columns; i++) {
			uint8_t byte = p[r * columns + i];
			std::putchar(byte ? byte : '.');
		}
		std::putchar('\n');
	}
}

int tests = 0, failed = 0;

void verdict(bool good, const char *sentence)
{
	std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++tests, sentence);
	failed += !good;
}

constexpr unsigned rows = 6, columns = 40, width = 8;

// A block of a matrix's columns, gathered by a key that repeats, in one RDMA WRITE.
void gather(Side &a, Side &b)
{
	uint8_t *matrix = a.memory.data(), *block = b.memory.data();
	for (unsigned i = 0; i < rows * columns; i++)
		matrix[i] = static_cast<uint8_t>((i / columns % 2 ? 'a' : 'A') + i % columns % 26);
	show("before: a matrix here, of which the peer shall get columns 10 to 17", matrix, rows, columns);
	show("        the peer's memory", block, rows, width);

	a.run(1, [&] {
		mlx5dv_mr_interleaved piece{};
		piece.addr = a.memory.addr(10);
		piece.bytes_count = width;
		piece.bytes_skip = columns - width;
		piece.lkey = a.memory.lkey();
		a.ex()->wr_flags = IBV_SEND_INLINE;
		mlx5dv_wr_mr_interleaved(a.dv(), a.key.get(), IBV_ACCESS_LOCAL_WRITE, rows, 1, &piece);
	});
	a.run(1, [&] {
		a.ex()->wr_flags = 0;
		ibv_wr_rdma_write(a.ex(), b.memory.rkey(), b.memory.addr());
		ibv_wr_set_sge(a.ex(), a.key->lkey, 0, rows * width);
	});
	b.expect(1);

	show("after:  the peer's memory, written by one request", block, rows, width);
	bool good = true;
	for (unsigned r = 0; r < rows; r++)
		good &= !std::memcmp(block + r * width, matrix + r * columns + 10, width);
	verdict(good && !block[rows * width], "a column block is gathered and written in one RDMA WRITE");
}

// A list of pieces that an incoming WRITE fills one after the other.
void scatter(Side &a, Side &b)
{
	std::memset(b.memory.data(), 0, 256);
	const char text[] = "headerPAYLOADtrailer";
	std::memcpy(a.memory.data(), text, sizeof(text));
	show("before: one message here", a.memory.data(), 1, 20);
	show("        the peer's memory", b.memory.data(), 3, 32);

	b.run(1, [&] {
		ibv_sge pieces[] = {b.memory.sge(4, 6), b.memory.sge(32 + 12, 7), b.memory.sge(64 + 20, 7)};
		b.ex()->wr_flags = IBV_SEND_INLINE;
		mlx5dv_wr_mr_list(b.dv(), b.key.get(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 3, pieces);
	});
	a.run(1, [&] {
		a.ex()->wr_flags = 0;
		ibv_wr_rdma_write(a.ex(), b.key->rkey, 0);
		ibv_wr_set_sge(a.ex(), a.memory.lkey(), a.memory.addr(), 20);
	});
	b.expect(1);

	show("after:  the peer's memory, where the list says", b.memory.data(), 3, 32);
	std::vector<uint8_t> want(96);
	std::memcpy(&want[4], text, 6);
	std::memcpy(&want[32 + 12], text + 6, 7);
	std::memcpy(&want[64 + 20], text + 13, 7);
	verdict(!std::memcmp(want.data(), b.memory.data(), want.size()), "an incoming WRITE is scattered by a list");
}

// A copy within the host, and a SEND of what was copied, in one go.
void copy(Side &a, Side &b)
{
	uint8_t *from = a.memory.data(), *to = from + 1024;
	std::memset(from, 0, 2048);
	std::memset(b.memory.data(), 0, 256);
	std::memcpy(from, "copied by the device, then sent", 31);
	show("before: the source", from, 1, 32);
	show("        the destination, here", to, 1, 32);
	show("        the peer's memory", b.memory.data(), 1, 32);

	ibv_sge sge = b.memory.sge(0, 32);
	ibv_recv_wr recv{}, *bad;
	recv.sg_list = &sge;
	recv.num_sge = 1;
	must(ibv_post_recv(b.qp.get(), &recv, &bad), "ibv_post_recv");
	a.run(2, [&] {
		a.ex()->wr_flags = 0;
		mlx5dv_wr_memcpy(a.dv(), a.memory.lkey(), a.memory.addr(1024), a.memory.lkey(), a.memory.addr(), 32);
		a.ex()->wr_flags = IBV_SEND_FENCE;
		ibv_wr_send(a.ex());
		ibv_wr_set_sge(a.ex(), a.memory.lkey(), a.memory.addr(1024), 32);
	});
	b.expect(1);

	show("after:  the destination", to, 1, 32);
	show("        the peer's memory", b.memory.data(), 1, 32);
	verdict(!std::memcmp(from, to, 32) && !std::memcmp(from, b.memory.data(), 32),
		"a fenced SEND behind a copy carries what was copied");
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc > 1)
		tests = std::atoi(argv[1]) - 1;
	else
		std::printf("1..3\n");
	Context c;
	Side a(c), b(c);
	a.connect(c, b);
	b.connect(c, a);
	gather(a, b);
	scatter(a, b);
	copy(a, b);
	return failed ? 1 : 0;
} catch (const std::exception &e) {
	std::printf("Bail out! %s\n", e.what());
	return 1;
}
