// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What each class of work adds: class x success, error, flush x WRS, BYTES x signaled, unsignaled.
#include "ktap.hpp"
#include "verbs.hpp"

#include <atomic>
#include <rdma/tally-abi.h>
#include <tally/verbs.h>
#include <thread>

using namespace rdma;

namespace {

constexpr size_t payload = 1000, payload_words = payload / sizeof(uint64_t);
constexpr uint32_t bad_key = 0xdeadbe00;

struct CounterDeleter {
	void operator()(ibv_comp_cntr *c) const { EXPECT_EQ(ibv_destroy_comp_cntr(c), 0); }
};
using Counter = std::unique_ptr<ibv_comp_cntr, CounterDeleter>;

Counter create(Context &c, ibv_comp_cntr_type type)
{
	ibv_comp_cntr_init_attr attr{};
	attr.type = type;
	ibv_comp_cntr *cntr = ibv_create_comp_cntr(c.get(), &attr);
	if (!cntr)
		fail("create_comp_cntr");
	return Counter(cntr);
}

uint64_t value(const Counter &c)
{
	uint64_t v = ~0ull;
	must(ibv_read_comp_cntr(c.get(), &v), "read");
	return v;
}

uint64_t errors(const Counter &c)
{
	uint64_t v = ~0ull;
	must(ibv_read_err_comp_cntr(c.get(), &v), "read_err");
	return v;
}

void attach(ibv_qp *qp, const Counter &c, uint32_t ops)
{
	ibv_qp_attach_comp_cntr_attr attr{};
	attr.op_mask = ops;
	must(ibv_qp_attach_comp_cntr(qp, c.get(), &attr), "attach");
}

// How one class of work is made to happen.
struct Class {
	const char *name;
	uint32_t bit;
	bool remote; // counted at the responder
	bool receive;
	ibv_wr_opcode op;
	size_t bytes;
};

const Class classes[] = {
    {"SEND", IBV_QP_ATTACH_COMP_CNTR_OP_SEND, false, false, IBV_WR_SEND, payload},
    {"SEND with immediate", IBV_QP_ATTACH_COMP_CNTR_OP_SEND, false, false, IBV_WR_SEND_WITH_IMM, payload},
    {"receive by SEND", IBV_QP_ATTACH_COMP_CNTR_OP_RECV, true, true, IBV_WR_SEND, payload},
    {"receive by WRITE with immediate", IBV_QP_ATTACH_COMP_CNTR_OP_RECV, true, true,
     IBV_WR_RDMA_WRITE_WITH_IMM, payload},
    {"RDMA WRITE", IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE, false, false, IBV_WR_RDMA_WRITE, payload},
    {"RDMA WRITE with immediate", IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE, false, false,
     IBV_WR_RDMA_WRITE_WITH_IMM, payload},
    {"incoming RDMA WRITE", IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, true, false, IBV_WR_RDMA_WRITE,
     payload},
    {"incoming RDMA WRITE with immediate", IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, true, false,
     IBV_WR_RDMA_WRITE_WITH_IMM, payload},
    {"RDMA READ", IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ, false, false, IBV_WR_RDMA_READ, payload},
    {"incoming RDMA READ", IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, true, false, IBV_WR_RDMA_READ,
     payload},
    {"compare-and-swap", TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC, false, false, IBV_WR_ATOMIC_CMP_AND_SWP, 8},
    {"fetch-and-add", TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC, false, false, IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
    {"incoming atomic", TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC, true, false, IBV_WR_ATOMIC_FETCH_AND_ADD,
     8},
};

bool takes_receive(ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool is_send(ibv_wr_opcode op) { return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM; }

void post(Pair &p, const Class &k, bool signaled, uint32_t lkey, uint32_t rkey)
{
	ibv_sge sge{p.a.mem->addr(), static_cast<uint32_t>(k.bytes), lkey};
	Wr wr(k.op, {&sge, 1}, 7, signaled ? IBV_SEND_SIGNALED : 0);
	if (k.bytes == 8)
		wr.atomic(p.b.mem->addr(), rkey, 1, 2);
	else
		wr.remote(p.b.mem->addr(), rkey);
	wr.post(p.a.qp.get());
}

struct Counted {
	Context ctx;
	Counter counter;
	Pair pair;

	Counted(const Class &k, ibv_comp_cntr_type type, const QpOptions &o = {})
	    : counter(create(ctx, type)), pair(ctx, o, false)
	{
		pair.init();
		attach(k.remote ? pair.b.qp.get() : pair.a.qp.get(), counter, k.bit);
		pair.ready();
	}
};

void success(const Class &k, ibv_comp_cntr_type type, bool signaled)
{
	constexpr unsigned times = 5;
	Counted t(k, type);
	const uint64_t each = type == IBV_COMP_CNTR_TYPE_BYTES ? k.bytes : 1;

	for (unsigned i = 0; i < times; i++) {
		if (takes_receive(k.op))
			post_recv(t.pair.b.qp.get(), {t.pair.b.mem->sge(0, payload)});
		post(t.pair, k, signaled, t.pair.a.mem->lkey(), t.pair.b.mem->rkey());
	}
	EXPECT_TRUE(eventually([&] { return value(t.counter) == times * each; }))
	    << "count is " << value(t.counter);
	for (unsigned i = 0; signaled && i < times; i++)
		EXPECT_EQ(expect_wc(t.pair.a.scq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(empty(t.pair.a.scq.get()));
	EXPECT_EQ(value(t.counter), times * each);
	EXPECT_EQ(errors(t.counter), 0u);
}

// The operation itself fails, once: a key nobody has, at the place that makes this class fail.
void error(const Class &k, ibv_comp_cntr_type type, bool signaled)
{
	Counted t(k, type);
	uint32_t lkey = t.pair.a.mem->lkey(), rkey = t.pair.b.mem->rkey();

	if (k.receive) {
		// A receive fails by its own buffer; one that only carries an immediate by the flush.
		ibv_sge bad{t.pair.b.mem->addr(), payload, bad_key};
		post_recv(t.pair.b.qp.get(), {bad});
		if (!is_send(k.op))
			rkey = bad_key;
	} else if (is_send(k.op)) {
		lkey = bad_key;
	} else {
		rkey = bad_key;
		if (takes_receive(k.op))
			post_recv(t.pair.b.qp.get(), {t.pair.b.mem->sge(0, payload)});
	}
	post(t.pair, k, signaled, lkey, rkey);
	EXPECT_NE(expect_wc(t.pair.a.scq.get()).status, IBV_WC_SUCCESS) << "errors always make a completion";
	EXPECT_TRUE(eventually([&] { return errors(t.counter) == 1; })) << "errors: " << errors(t.counter);
	EXPECT_EQ(value(t.counter), 0u);
}

void flush(const Class &k, ibv_comp_cntr_type type, bool signaled)
{
	constexpr unsigned times = 3;
	Counted t(k, type);

	if (k.receive) {
		for (unsigned i = 0; i < times; i++)
			post_recv(t.pair.b.qp.get(), {t.pair.b.mem->sge(0, payload)});
		must(to_err(t.pair.b.qp.get()), "to_err");
	} else {
		must(to_err(t.pair.a.qp.get()), "to_err");
		for (unsigned i = 0; i < times; i++)
			post(t.pair, k, signaled, t.pair.a.mem->lkey(), t.pair.b.mem->rkey());
	}
	ibv_cq *cq = k.receive ? t.pair.b.rcq.get() : t.pair.a.scq.get();
	for (unsigned i = 0; i < times; i++)
		EXPECT_EQ(expect_wc(cq).status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(eventually([&] { return errors(t.counter) == times; })) << "errors: " << errors(t.counter);
	EXPECT_EQ(value(t.counter), 0u);
}

KTESTS
{
	for (const Class &k : classes) {
		for (auto type : {IBV_COMP_CNTR_TYPE_WRS, IBV_COMP_CNTR_TYPE_BYTES}) {
			for (bool sig : {true, false}) {
				const std::string how = std::string(sig ? "signaled " : "unsignaled ") + k.name;
				const bool bytes = type == IBV_COMP_CNTR_TYPE_BYTES;
				const std::string what =
				    bytes ? "a BYTES counter" : "a WRS counter";

				ktap::add("count",
					  how + " that succeeds adds " +
					      (bytes ? "its payload's length to " : "1 to ") + what,
					  [=, &k] { success(k, type, sig); }, __FILE__, __LINE__);
				ktap::add("count", how + " that fails adds 1 to the error count of " + what,
					  [=, &k] { error(k, type, sig); }, __FILE__, __LINE__);
				if (!k.remote || k.receive)
					ktap::add("count",
						  how + " that is flushed adds 1 to the error count of " + what,
						  [=, &k] { flush(k, type, sig); }, __FILE__, __LINE__);
			}
		}
	}
}

KTEST(count, "WRITE with immediate counts at the responder as an incoming WRITE and as a receive")
{
	Context c;
	Counter writes = create(c, IBV_COMP_CNTR_TYPE_BYTES), recvs = create(c, IBV_COMP_CNTR_TYPE_WRS);
	Pair p(c, {}, false);
	p.init();
	attach(p.b.qp.get(), writes, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE);
	attach(p.b.qp.get(), recvs, IBV_QP_ATTACH_COMP_CNTR_OP_RECV);
	p.ready();
	post_recv(p.b.qp.get(), {});
	ibv_sge sge = p.a.mem->sge(0, 77);
	Wr(IBV_WR_RDMA_WRITE_WITH_IMM, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.b.rcq.get()).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_TRUE(eventually([&] { return value(writes) == 77 && value(recvs) == 1; }));
}

KTEST(count, "a receive taken from an SRQ counts for the QP it was taken by")
{
	Context c;
	Pd pd = alloc_pd(c);
	ibv_srq_init_attr sa{};
	sa.attr.max_wr = 16;
	sa.attr.max_sge = 1;
	Srq srq = own<Srq>(ibv_create_srq(pd.get(), &sa), "create_srq");
	Memory mem(pd.get(), 4096);
	Counter counter = create(c, IBV_COMP_CNTR_TYPE_WRS);
	QpOptions o;
	o.srq = srq.get();
	Pair p(c, o, false);
	p.init();
	attach(p.b.qp.get(), counter, IBV_QP_ATTACH_COMP_CNTR_OP_RECV);
	p.ready();
	for (int i = 0; i < 4; i++)
		post_srq_recv(srq.get(), {mem.sge(0, 512)}, i);
	ibv_sge sge = p.a.mem->sge(0, 100);
	for (int i = 0; i < 4; i++)
		Wr(IBV_WR_SEND, {&sge, 1}).post(p.a.qp.get());
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(expect_wc(p.b.rcq.get()).status, IBV_WC_SUCCESS);
	EXPECT_TRUE(eventually([&] { return value(counter) == 4; }));
	EXPECT_EQ(errors(counter), 0u);
	p.b.qp.reset();
}

KTEST(count, "one counter on many QPs adds them all up")
{
	Context c;
	Counter counter = create(c, IBV_COMP_CNTR_TYPE_WRS);
	std::vector<std::unique_ptr<Pair>> pairs;
	for (int i = 0; i < 8; i++) {
		auto &p = pairs.emplace_back(std::make_unique<Pair>(c, QpOptions{}, false, 65536));
		p->init();
		attach(p->a.qp.get(), counter, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
		p->ready();
	}
	for (int round = 0; round < 10; round++)
		for (auto &p : pairs) {
			ibv_sge sge = p->a.mem->sge(0, 64);
			Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, 0)
			    .remote(p->b.mem->addr(), p->b.mem->rkey())
			    .post(p->a.qp.get());
		}
	EXPECT_TRUE(eventually([&] { return value(counter) == 80; })) << value(counter);
}

KTEST(count, "counters with disjoint masks on one QP count only their own classes")
{
	Context c;
	Counter writes = create(c, IBV_COMP_CNTR_TYPE_WRS), reads = create(c, IBV_COMP_CNTR_TYPE_WRS);
	Pair p(c, {}, false);
	p.init();
	attach(p.a.qp.get(), writes, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
	attach(p.a.qp.get(), reads, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ);
	p.ready();
	ibv_sge sge = p.a.mem->sge(0, 64);
	for (int i = 0; i < 3; i++)
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, 0)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
	for (int i = 0; i < 2; i++)
		Wr(IBV_WR_RDMA_READ, {&sge, 1}, 0, 0)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
	EXPECT_TRUE(eventually([&] { return value(writes) == 3 && value(reads) == 2; }));
}

// One thread posts; another one, as soon as it sees the count, looks for the CQE once, and at the payload.
void expect_seen_by_reader(const char *name)
{
	const Class &k = *std::find_if(std::begin(classes), std::end(classes),
				       [&](const Class &x) { return std::string(name) == x.name; });
	constexpr uint64_t rounds = 1000;
	Counted t(k, IBV_COMP_CNTR_TYPE_WRS);
	ibv_cq *cq = k.receive ? t.pair.b.rcq.get() : t.pair.a.scq.get();
	auto *from = reinterpret_cast<uint64_t *>(t.pair.a.mem->data());
	auto *to = reinterpret_cast<volatile uint64_t *>(t.pair.b.mem->data());
	std::atomic<uint64_t> seen{0};

	std::jthread reader([&](std::stop_token stop) {
		for (uint64_t round = 1; round <= rounds; seen = round++) {
			while (value(t.counter) < round)
				if (stop.stop_requested())
					return;
			ibv_wc wc{};
			const int n = ibv_poll_cq(cq, 1, &wc);
			const uint64_t payload = to[payload_words - 1];
			EXPECT_EQ(n, 1) << "no CQE in round " << round;
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
			EXPECT_EQ(payload, round);
			if (n != 1 || payload != round)
				return;
		}
	});
	for (uint64_t round = 1; round <= rounds; round++) {
		from[payload_words - 1] = round;
		if (takes_receive(k.op))
			post_recv(t.pair.b.qp.get(), {t.pair.b.mem->sge(0, payload)});
		post(t.pair, k, true, t.pair.a.mem->lkey(), t.pair.b.mem->rkey());
		if (k.receive) // whose room in the queue is needed
			expect_wc(t.pair.a.scq.get());
		ASSERT_TRUE(eventually([&] { return seen == round; }, 5s)) << round;
	}
}

KTEST(count, "a reader who sees the count of receives in another thread sees the payload and the CQE at its first look")
{
	expect_seen_by_reader("receive by SEND");
}

KTEST(count, "so does a reader of the count of RDMA WRITEs, at the requester")
{
	expect_seen_by_reader("RDMA WRITE");
}

KTEST(count, "a reader who sees the count sees the payload of every counted operation, and their CQEs")
{
	Context c;
	Counter counter = create(c, IBV_COMP_CNTR_TYPE_WRS);
	QpOptions o;
	o.max_send = 128;
	Pair p(c, o, false);
	p.init();
	attach(p.b.qp.get(), counter, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE);
	p.ready();
	auto *from = reinterpret_cast<uint64_t *>(p.a.mem->data());
	auto *to = reinterpret_cast<volatile uint64_t *>(p.b.mem->data());
	for (uint64_t round = 1; round <= 200; round++) {
		from[0] = round;
		ibv_sge sge = p.a.mem->sge(0, 8);
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, round)
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
		ASSERT_TRUE(eventually([&] { return value(counter) == round; }));
		ASSERT_EQ(to[0], round);
		ASSERT_EQ(expect_wc(p.a.scq.get()).wr_id, round);
	}
}

KTEST(count, "RESET keeps a QP's counters")
{
	Context c;
	Counter counter = create(c, IBV_COMP_CNTR_TYPE_WRS);
	Pair p(c, {}, false);
	p.init();
	attach(p.a.qp.get(), counter, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
	p.ready();
	for (int i = 0; i < 2; i++) {
		ibv_sge sge = p.a.mem->sge(0, 8);
		Wr(IBV_WR_RDMA_WRITE, {&sge, 1})
		    .remote(p.b.mem->addr(), p.b.mem->rkey())
		    .post(p.a.qp.get());
		EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
		must(to_reset(p.a.qp.get()), "reset a");
		must(to_reset(p.b.qp.get()), "reset b");
		p.connect();
	}
	EXPECT_EQ(value(counter), 2u);
}

} // namespace
