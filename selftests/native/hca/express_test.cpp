// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Plain requests go a shorter way than others; nobody may be able to tell by what comes of them.
#include "pair.hpp"

#include <random>

using namespace world;

namespace {

constexpr u32 sender_classes = 1u << HCA_CLASS_SEND | 1u << HCA_CLASS_WRITE | 1u << HCA_CLASS_READ;
constexpr u32 receiver_classes = 1u << HCA_CLASS_RECV | 1u << HCA_CLASS_REMOTE_WRITE | 1u << HCA_CLASS_REMOTE_READ;

struct Way : Pair {
	Way(const PairOptions &o, bool bytes)
	    : Pair(o), sent(w.add_counter(da, bytes)), arrived(w.add_counter(db, bytes))
	{
		EXPECT_EQ(a.attach(sent, sender_classes), 0);
		EXPECT_EQ(b.attach(arrived, receiver_classes), 0);
		b.connect(a, o.b);
		a.connect(b, o.a);
		w.settle();
		ma.accept(0, ma.size());
		mb.accept(0, mb.size());
	}
	~Way()
	{
		ma.accept(0, ma.size());
		mb.accept(0, mb.size());
	}
	Counter &sent, &arrived;
};

// Two worlds that differ in one thing: what is posted in the second has an empty piece more, and is not plain.
class BothWays {
public:
	explicit BothWays(u32 seed)
	    : rng_(seed), options_(choose()), bytes_(one_in(2)), plain(options_, bytes_), other(options_, bytes_)
	{
	}

	void receives()
	{
		for (u32 n = rng_() % 4; n; n--) {
			u32 len = length(), off = offset(len);
			for (Way *way : {&plain, &other}) {
				Sge s = way->kb.sge(off, len);
				if (way->srq)
					way->srq->post(s);
				else
					way->b.post_recv(s);
			}
			if (++posted_ >= 24)
				break;
		}
	}

	void requests()
	{
		u32 num = 1 + rng_() % 5;
		for (u32 i = 0; i < num; i++) {
			u32 op = rng_() % 3, len = length(), from = offset(len), to = offset(len);
			bool wrong_local = one_in(60), wrong_remote = one_in(60), too_far = one_in(60);
			bool in_line = op != 1 && len <= 12 && one_in(2), signaled = one_in(2), solicited = one_in(2);
			for (Way *way : {&plain, &other}) {
				u64 raddr = way->kb.addr(too_far ? way->mb.size() - len + 1 : to);
				u32 rkey = way->kb.key() + wrong_remote;
				Wqe wqe = op == 0   ? Wqe::write(raddr, rkey)
					  : op == 1 ? Wqe::read(raddr, rkey)
						    : Wqe::send();
				Sge s = way->ka.sge(from, len);
				s.key += wrong_local;
				if (in_line)
					wqe.inline_data(way->ma.read(from, len));
				else
					wqe.sge(s);
				if (way == &other)
					wqe.sge({});
				if (solicited)
					wqe.solicited();
				way->a.stage(wqe.signaled(signaled));
			}
		}
		for (Way *way : {&plain, &other}) {
			way->a.ring();
			way->w.settle();
			/* An RNR timer. */
			way->w.advance(1000000000);
		}
	}

	void compare()
	{
		for (auto [x, y] : {std::pair(&plain.ca, &other.ca), std::pair(&plain.cb, &other.cb)}) {
			if (keep_cqes_)
				break;
			auto got = x->poll_all(), wanted = y->poll_all();
			ASSERT_EQ(got.size(), wanted.size());
			for (size_t i = 0; i < got.size(); i++)
				same(got[i], wanted[i]);
		}
		EXPECT_EQ(plain.sent.comp(), other.sent.comp());
		EXPECT_EQ(plain.sent.err(), other.sent.err());
		EXPECT_EQ(plain.arrived.comp(), other.arrived.comp());
		EXPECT_EQ(plain.arrived.err(), other.arrived.err());
		EXPECT_EQ(plain.a.state(), other.a.state());
		EXPECT_EQ(plain.b.state(), other.b.state());
		EXPECT_EQ(plain.a.hca()->sq.psn, other.a.hca()->sq.psn);
		EXPECT_EQ(plain.b.hca()->rq.psn, other.b.hca()->rq.psn);
		EXPECT_EQ(plain.ma.read(0, plain.ma.size()), other.ma.read(0, other.ma.size()));
		EXPECT_EQ(plain.mb.read(0, plain.mb.size()), other.mb.read(0, other.mb.size()));
		for (int i = 0; i < HCA_STAT_COUNT; i++) {
			EXPECT_EQ(plain.da.stat(hca_stat(i)), other.da.stat(hca_stat(i))) << "statistic " << i;
			EXPECT_EQ(plain.db.stat(hca_stat(i)), other.db.stat(hca_stat(i))) << "statistic " << i;
		}
	}

	bool failed() { return plain.a.state() == HCA_QPS_ERR && plain.b.state() == HCA_QPS_ERR; }

private:
	bool one_in(u32 n) { return rng_() % n == 0; }
	PairOptions choose()
	{
		PairOptions o{.two_devices = one_in(2), .connect = false, .memory = 80 * 1024};
		o.block_shift = one_in(2) ? 12 : 22;
		o.beside = one_in(2) ? 1 : 2;
		o.srq = one_in(3);
		/* Such a CQ overruns when nobody polls. */
		keep_cqes_ = one_in(6);
		o.cq_entries = keep_cqes_ ? 16 : 256;
		o.qp.all_signaled = one_in(4);
		if (one_in(8))
			o.b.access &= static_cast<u8>(~(one_in(2) ? HCA_ACCESS_REMOTE_READ : HCA_ACCESS_REMOTE_WRITE));
		if (one_in(16))
			o.b.max_dest_rd_atomic = 0;
		o.a.mtu = o.b.mtu = one_in(2) ? 256 : 4096;
		o.a.sq_psn = o.b.rq_psn = one_in(4) ? 0xfffffa : 7;
		return o;
	}
	u32 length()
	{
		static const u32 some[] = {0, 1, 3, 4, 7, 8, 8, 8, 9, 12, 13, 16, 64, 255, 1000, 4096, 5000, 40000, 70000};
		return some[rng_() % std::size(some)];
	}
	u32 offset(u32 len)
	{
		u32 off = rng_() % (80 * 1024 - len);
		return one_in(2) ? off & ~7u : off;
	}
	static void same(const Wc &x, const Wc &y)
	{
		EXPECT_EQ(int{x.opcode}, int{y.opcode});
		EXPECT_EQ(int{x.syndrome}, int{y.syndrome});
		EXPECT_EQ(int{x.vendor_err}, int{y.vendor_err});
		EXPECT_EQ(int{x.send_op}, int{y.send_op});
		EXPECT_EQ(x.qpn, y.qpn);
		EXPECT_EQ(x.src_qpn, y.src_qpn);
		EXPECT_EQ(x.user_index, y.user_index);
		EXPECT_EQ(x.byte_cnt, y.byte_cnt);
		EXPECT_EQ(x.index, y.index);
	}

	std::mt19937 rng_;
	bool keep_cqes_ = false;
	PairOptions options_;
	bool bytes_;
	u32 posted_ = 0;

public:
	Way plain, other;
};

} // namespace

TEST(Express, ARequestEndsTheSameWhicheverWayItGoes)
{
	for (u32 seed = 0; seed < 120 && !HasFailure(); seed++) {
		SCOPED_TRACE(testing::Message() << "seed " << seed);
		BothWays both(seed);
		for (u32 i = 0; i < 12 && !both.failed() && !HasFailure(); i++) {
			both.receives();
			both.requests();
			both.compare();
		}
	}
}

TEST(Express, APlainRequestIsNotCopiedOutOfTheRing)
{
	Pair p;
	/* The first message to come is an event of its own. */
	p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)).signaled(false));
	for (int op = 0; op < 4; op++) {
		hca_wqe &copy = p.a.hca()->sq.wqe;
		copy.size = 0;
		p.b.post_recv(p.kb.sge(64, 16));
		switch (op) {
		case 0:
			p.post(Wqe::write(p.kb.addr(), p.kb.key()).sge(p.ka.sge(0, 8)));
			break;
		case 1:
			p.post(Wqe::write(p.kb.addr(), p.kb.key()).inline_data(pattern(12, 5)));
			break;
		case 2:
			p.post(Wqe::read(p.kb.addr(), p.kb.key()).sge(p.ka.sge(32, 2000)));
			break;
		case 3:
			p.post(Wqe::send().sge(p.ka.sge(0, 8)));
			break;
		}
		EXPECT_TRUE(one(p.ca).ok());
		EXPECT_EQ(copy.size, 0) << "request " << op;
	}
	p.ma.accept(32, 2000);
	p.mb.accept(0, 80);
}

TEST(Express, AQueueOfBothKindsKeepsItsOrder)
{
	Pair p;
	p.mb.write(0, Bytes(8, 0));
	u16 first = 0;
	for (u32 i = 0; i < 40; i++) {
		u16 index = i % 3 == 2 ? p.a.stage(Wqe::fetch_add(p.kb.addr(), p.kb.key(), 1).sge(p.ka.sge(8 * i, 8)))
				       : p.a.stage(Wqe::read(p.kb.addr(), p.kb.key()).sge(p.ka.sge(8 * i, 8)));
		if (!i)
			first = index;
	}
	p.a.ring();
	p.w.settle();
	u64 added = 0;
	for (u32 i = 0; i < 40; i++) {
		Bytes got = p.ma.read(8 * i, 8);
		u64 value;
		std::memcpy(&value, got.data(), 8);
		EXPECT_EQ(value, added) << "request " << i;
		added += i % 3 == 2;
		auto wc = p.ca.poll();
		ASSERT_TRUE(wc);
		EXPECT_TRUE(wc->ok());
		EXPECT_EQ(wc->index, static_cast<u16>(first + i));
	}
	p.ma.accept(0, 8 * 40);
	p.mb.accept(0, 8);
}
