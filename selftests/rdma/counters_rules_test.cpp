// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Creating, attaching, changing and destroying completion counters.
#include "ktap.hpp"
#include "verbs.hpp"

#include <atomic>
#include <rdma/tally-abi.h>
#include <tally/verbs.h>
#include <thread>

using namespace rdma;

namespace {

ibv_comp_cntr *try_create(Context &c, uint32_t comp_mask = 0, int type = 0, uint32_t flags = 0)
{
	ibv_comp_cntr_init_attr attr{};
	attr.comp_mask = comp_mask;
	attr.type = static_cast<ibv_comp_cntr_type>(type);
	attr.flags = flags;
	errno = 0;
	return ibv_create_comp_cntr(c.get(), &attr);
}

ibv_comp_cntr *create(Context &c)
{
	ibv_comp_cntr *cntr = try_create(c);
	if (!cntr)
		fail("create_comp_cntr");
	return cntr;
}

int attach(ibv_qp *qp, ibv_comp_cntr *cntr, uint32_t ops, uint32_t comp_mask = 0)
{
	ibv_qp_attach_comp_cntr_attr attr{};
	attr.op_mask = ops;
	attr.comp_mask = comp_mask;
	return ibv_qp_attach_comp_cntr(qp, cntr, &attr);
}

uint64_t value(ibv_comp_cntr *c)
{
	uint64_t v = ~0ull;
	must(ibv_read_comp_cntr(c, &v), "read");
	return v;
}

uint64_t errors(ibv_comp_cntr *c)
{
	uint64_t v = ~0ull;
	must(ibv_read_err_comp_cntr(c, &v), "read_err");
	return v;
}

void write_once(Pair &p)
{
	ibv_sge sge = p.a.mem->sge(0, 8);
	Wr(IBV_WR_RDMA_WRITE, {&sge, 1}).remote(p.b.mem->addr(), p.b.mem->rkey()).post(p.a.qp.get());
	EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
}

ibv_comp_cntr_caps caps(Context &c)
{
	ibv_comp_cntr_caps caps{};
	must(ibv_query_comp_cntr_caps(c.get(), &caps), "query_comp_cntr_caps");
	return caps;
}

constexpr uint32_t write_op = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
constexpr uint32_t read_op = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ;

KTEST(rules, "the capabilities name all upstream classes, 64-bit values and at least 65536 counters")
{
	Context c;
	ibv_comp_cntr_caps k = caps(c);
	EXPECT_EQ(k.max_value, ~0ull);
	EXPECT_GE(k.max_counters, 65536u);
	EXPECT_EQ(k.supported_qp_attach_ops & 0x3f, 0x3fu);
	EXPECT_TRUE(k.supported_qp_attach_ops & TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC);
	EXPECT_TRUE(k.supported_qp_attach_ops & TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC);
}

KTEST(rules, "a new counter reads 0 and 0")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	EXPECT_EQ(k->context, c.get());
	EXPECT_EQ(value(k), 0u);
	EXPECT_EQ(errors(k), 0u);
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "creation with a comp_mask fails with EINVAL")
{
	Context c;
	EXPECT_EQ(try_create(c, 1), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

KTEST(rules, "creation with flags fails with EINVAL")
{
	Context c;
	EXPECT_EQ(try_create(c, 0, 0, 1), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

KTEST(rules, "creation of an unknown type fails with ENOTSUP")
{
	Context c;
	EXPECT_EQ(try_create(c, 0, 2), nullptr);
	EXPECT_EQ(errno, ENOTSUP);
}

KTEST(rules, "a device without counters answers ENOTSUP")
{
	const char *other = std::getenv("TALLY_PLAIN_DEVICE");
	ASSERT_NE(other, nullptr) << "name a device without counters in TALLY_PLAIN_DEVICE";
	Context c(other);
	EXPECT_EQ(try_create(c), nullptr);
	EXPECT_EQ(errno, ENOTSUP);
	ibv_comp_cntr_caps k{};
	EXPECT_EQ(ibv_query_comp_cntr_caps(c.get(), &k), ENOTSUP);
}

KTEST(rules, "max_counters counters can be made, the next one fails with ENOMEM, and all go away again")
{
	Context c;
	const uint32_t max = caps(c).max_counters;
	std::vector<ibv_comp_cntr *> all;
	all.reserve(max);
	ibv_comp_cntr *k;
	while (all.size() <= max && (k = try_create(c)))
		all.push_back(k);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(all.size(), max);
	for (ibv_comp_cntr *one : all)
		ASSERT_EQ(ibv_destroy_comp_cntr(one), 0);
	k = try_create(c);
	ASSERT_NE(k, nullptr);
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "attaching works in RESET and in INIT")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), 0);
		must(to_init(p.a.qp.get()), "init");
		EXPECT_EQ(attach(p.a.qp.get(), k, read_op), 0);
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "attaching to a QP in RTR, RTS, or ERR fails with EINVAL")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		p.init();
		must(to_rtr(p.a.qp.get(), c, c.gid(), p.b.qp->qp_num), "rtr");
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), EINVAL);
		must(to_rts(p.a.qp.get()), "rts");
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), EINVAL);
		must(to_err(p.a.qp.get()), "err");
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), EINVAL);
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "attaching with a comp_mask, or without operations, fails with EINVAL")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op, 1), EINVAL);
		EXPECT_EQ(attach(p.a.qp.get(), k, 0), EINVAL);
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "attaching an operation that the device does not count fails with ENOTSUP and attaches nothing")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op | 1u << 31), ENOTSUP);
		EXPECT_EQ(attach(p.a.qp.get(), k, 1u << 10), ENOTSUP);
		EXPECT_EQ(ibv_destroy_comp_cntr(k), 0) << "nothing may hold the counter";
	}
}

KTEST(rules, "a (QP, operation) pair has one counter: a second attach fails with EBUSY")
{
	Context c;
	ibv_comp_cntr *k = create(c), *other = create(c);
	{
		Pair p(c, {}, false);
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), 0);
		EXPECT_EQ(attach(p.a.qp.get(), other, write_op), EBUSY);
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), EBUSY);
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
	EXPECT_EQ(ibv_destroy_comp_cntr(other), 0);
}

KTEST(rules, "an attach that overlaps in one operation attaches none of the others")
{
	Context c;
	ibv_comp_cntr *k = create(c), *other = create(c);
	{
		Pair p(c, {}, false);
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), 0);
		EXPECT_EQ(attach(p.a.qp.get(), other, write_op | read_op), EBUSY);
		EXPECT_EQ(ibv_destroy_comp_cntr(other), 0) << "nothing may hold the other counter";
		p.connect();
		write_once(p);
		EXPECT_EQ(value(k), 1u) << "the first attachment works on";
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "the same operation on two QPs may have the same counter")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		EXPECT_EQ(attach(p.a.qp.get(), k, write_op), 0);
		EXPECT_EQ(attach(p.b.qp.get(), k, write_op), 0);
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "destroying an attached counter fails with EBUSY, and it goes on working")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		must(attach(p.a.qp.get(), k, write_op), "attach");
		p.connect();
		write_once(p);
		EXPECT_EQ(ibv_destroy_comp_cntr(k), EBUSY);
		write_once(p);
		EXPECT_EQ(value(k), 2u);
	}
	EXPECT_EQ(value(k), 2u) << "destroying the QP leaves the values";
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "a counter on two QPs can be destroyed after the last of them, not after the first")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	Pair p(c, {}, false);
	must(attach(p.a.qp.get(), k, write_op), "attach");
	must(attach(p.b.qp.get(), k, write_op), "attach");
	p.a.qp.reset();
	EXPECT_EQ(ibv_destroy_comp_cntr(k), EBUSY);
	p.b.qp.reset();
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "set and inc change the value they name and not the other")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	EXPECT_EQ(ibv_set_comp_cntr(k, 100), 0);
	EXPECT_EQ(ibv_set_err_comp_cntr(k, 7), 0);
	EXPECT_EQ(value(k), 100u);
	EXPECT_EQ(errors(k), 7u);
	EXPECT_EQ(ibv_inc_comp_cntr(k, 23), 0);
	EXPECT_EQ(ibv_inc_err_comp_cntr(k, 3), 0);
	EXPECT_EQ(value(k), 123u);
	EXPECT_EQ(errors(k), 10u);
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "inc in one thread and the device, in a stream of another's, count at the same time and lose nothing")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	{
		Pair p(c, {}, false);
		must(attach(p.a.qp.get(), k, write_op), "attach");
		p.connect();
		std::atomic<uint64_t> added{0};
		std::atomic<int> err{0};
		std::jthread adder([&](std::stop_token stop) {
			for (; !stop.stop_requested() && !err; added += !err)
				err = ibv_inc_comp_cntr(k, 1);
		});
		// An adder that starts late finds a stream all the same.
		uint64_t written = 0;
		ibv_sge sge = p.a.mem->sge(0, 8);
		eventually([&] {
			for (int i = 0; i < 50; i++)
				Wr(IBV_WR_RDMA_WRITE, {&sge, 1}, 0, i == 49 ? IBV_SEND_SIGNALED : 0)
				    .remote(p.b.mem->addr(), p.b.mem->rkey())
				    .post(p.a.qp.get());
			EXPECT_EQ(expect_wc(p.a.scq.get()).status, IBV_WC_SUCCESS);
			written += 50;
			return err || (written >= 10000 && added >= 2000);
		});
		adder.request_stop();
		adder.join();
		EXPECT_EQ(err, 0);
		EXPECT_GE(added, 2000u);
		EXPECT_TRUE(eventually([&] { return value(k) == written + added; }, 1s))
		    << value(k) << " of " << written << " + " << added;
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "the increment that passes max_value wraps through zero, by hand and by the device")
{
	Context c;
	ibv_comp_cntr *k = create(c);
	must(ibv_set_comp_cntr(k, caps(c).max_value), "set");
	must(ibv_inc_comp_cntr(k, 2), "inc");
	EXPECT_EQ(value(k), 1u);
	must(ibv_set_comp_cntr(k, caps(c).max_value), "set");
	{
		Pair p(c, {}, false);
		must(attach(p.a.qp.get(), k, write_op), "attach");
		p.connect();
		write_once(p);
		EXPECT_TRUE(eventually([&] { return value(k) == 0; })) << value(k);
	}
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
}

KTEST(rules, "counters of two contexts do not mix: a foreign counter cannot be attached")
{
	Context c, d;
	// Whatever the number of its handle names in the other context.
	ibv_comp_cntr *k = create(c), *same = create(d);
	Pair p(d, {}, false);
	EXPECT_EQ(k->handle, same->handle);
	EXPECT_EQ(attach(p.a.qp.get(), k, write_op), EINVAL);
	EXPECT_EQ(attach(p.a.qp.get(), same, write_op), 0);
	p.a.qp.reset();
	EXPECT_EQ(ibv_destroy_comp_cntr(k), 0);
	EXPECT_EQ(ibv_destroy_comp_cntr(same), 0);
}

} // namespace
