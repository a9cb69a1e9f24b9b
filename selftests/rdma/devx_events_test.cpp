// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Event channels: what is told of objects that commands have made, once, in order, and nothing else.
#include "devx_queues.hpp"
#include "ktap.hpp"

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

using namespace rdma;
using devx::Node;
using devx::Rmp;

namespace {

enum Event : uint16_t {
	COMP = 0x0,
	SRQ_LAST_WQE = 0x13,
	SRQ_RQ_LIMIT = 0x14,
	CQ_ERROR = 0x4,
	WQ_ACCESS_ERROR = 0x11,
	PORT_CHANGE = 0x9,
	DCT_DRAINED = 0x1c,
};

struct ChannelDeleter {
	void operator()(mlx5dv_devx_event_channel *ch) const { mlx5dv_devx_destroy_event_channel(ch); }
};

// What a read gives: the program's name for the subscription and, with data, the device's description.
struct Told {
	uint64_t cookie = 0;
	uint8_t eqe[64]{};

	uint8_t type() const { return eqe[1]; }
	// Bytes 32 and on are the event's own.
	uint32_t word(size_t offset) const
	{
		uint32_t w;
		std::memcpy(&w, eqe + 32 + offset, 4);
		return be32toh(w);
	}
};

class Channel {
      public:
	explicit Channel(const Context &c, bool data = false)
	    : data_(data), ch_(mlx5dv_devx_create_event_channel(
			       c.get(), data ? mlx5dv_devx_create_event_channel_flags{}
					     : MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA))
	{
		if (!ch_)
			fail("create_event_channel");
		must(fcntl(fd(), F_SETFL, O_NONBLOCK), "fcntl");
	}
	int fd() const { return ch_->fd; }
	mlx5dv_devx_event_channel *get() const { return ch_.get(); }
	int subscribe(const devx::Obj &obj, std::vector<uint16_t> events, uint64_t cookie)
	{
		return mlx5dv_devx_subscribe_devx_event(get(), obj.get(), static_cast<uint16_t>(events.size() * 2),
							events.data(), cookie);
	}
	bool readable(int ms = 0) const
	{
		pollfd p{fd(), POLLIN, 0};
		return ::poll(&p, 1, ms) == 1;
	}
	// The next event: 0, or what read(2) says.
	int next(Told &t) const
	{
		t = {};
		const ssize_t n = read(fd(), &t, sizeof(t));
		if (n < 0)
			return errno;
		EXPECT_EQ(n, data_ ? 72 : 8);
		return 0;
	}
	void expect(uint64_t cookie) const
	{
		Told t;
		EXPECT_TRUE(readable(1000));
		EXPECT_EQ(next(t), 0);
		EXPECT_EQ(t.cookie, cookie);
	}
	void expect_nothing() const
	{
		Told t;
		EXPECT_FALSE(readable());
		EXPECT_EQ(next(t), EAGAIN);
	}

      private:
	bool data_;
	std::unique_ptr<mlx5dv_devx_event_channel, ChannelDeleter> ch_;
};

KTEST(devx_events, "a program is told once that a queue pair's last receive is taken, and gets its own name for it")
{
	Context c;
	Channel ch(c);
	devx::Base b(c);
	Rmp rmp(c, b.pdn);
	devx::QpShape s;
	s.rmpn = rmp.number;
	devx::Qp q(c, b.pdn, b.scq, b.rcq, s), other(c, b.pdn, b.scq, b.rcq, s);

	must(ch.subscribe(q.obj, {SRQ_LAST_WQE}, 0xfeed'0000'0000'0001), "subscribe");
	must(ch.subscribe(other.obj, {SRQ_LAST_WQE}, 2), "subscribe");
	q.connect(q.number);
	ch.expect_nothing();
	EXPECT_EQ(q.to(devx::TO_ERR_QP), devx::OK);
	ch.expect(0xfeed'0000'0000'0001);
	ch.expect_nothing();
	// Again, after a reset.
	EXPECT_EQ(q.to(devx::TO_RST_QP), devx::OK);
	q.connect(q.number);
	EXPECT_EQ(q.to(devx::TO_ERR_QP), devx::OK);
	ch.expect(0xfeed'0000'0000'0001);
	ch.expect_nothing();
}

KTEST(devx_events, "with data, an event says what happened to which object")
{
	Context c;
	Channel ch(c, true);
	Node a(c), b(c);
	Rmp rmp(c, a.pdn, {devx::Form::cyclic});
	devx::Dct dct(c, a.pdn, a.rcq, rmp);
	Told t;

	must(ch.subscribe(a.scq.obj, {COMP}, 1), "subscribe");
	must(ch.subscribe(b.qp.obj, {WQ_ACCESS_ERROR, SRQ_LAST_WQE}, 2), "subscribe");
	must(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 3), "subscribe");
	must(ch.subscribe(dct.obj, {DCT_DRAINED}, 4), "subscribe");
	a.qp.connect(b.qp.number);
	b.qp.connect(a.qp.number);
	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), b.mem.addr(), b.mem.rkey());
	EXPECT_EQ(a.sent(), 0);
	ch.expect_nothing();
	a.scq.arm();
	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), b.mem.addr(), b.mem.rkey());
	EXPECT_EQ(a.sent(), 0);
	ASSERT_TRUE(ch.readable(1000));
	ASSERT_EQ(ch.next(t), 0);
	EXPECT_EQ(t.cookie, 1u);
	EXPECT_EQ(t.type(), COMP);
	EXPECT_EQ(t.word(24), a.scq.number);

	a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), b.mem.addr(), b.mem.rkey() ^ 0x100);
	EXPECT_EQ(a.sent(), MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_TRUE(ch.readable(1000));
	ASSERT_EQ(ch.next(t), 0);
	EXPECT_EQ(t.cookie, 2u);
	EXPECT_EQ(t.type(), WQ_ACCESS_ERROR);
	EXPECT_EQ(t.word(24), b.qp.number);
	EXPECT_EQ(t.eqe[32 + 20], 0);

	auto limit = Rmp::limit(rmp.number, 1);
	EXPECT_EQ(devx::modify(rmp.obj, limit), devx::OK);
	ASSERT_EQ(ch.next(t), 0);
	EXPECT_EQ(t.cookie, 3u);
	EXPECT_EQ(t.type(), SRQ_RQ_LIMIT);
	EXPECT_EQ(t.word(24), rmp.number);
	EXPECT_EQ(t.eqe[32 + 20], 1);

	EXPECT_EQ(dct.drain(), devx::OK);
	ASSERT_EQ(ch.next(t), 0);
	EXPECT_EQ(t.cookie, 4u);
	EXPECT_EQ(t.type(), DCT_DRAINED);
	EXPECT_EQ(t.word(24), dct.number);
	ch.expect_nothing();
}

KTEST(devx_events, "a CQ that a command has told to wait for several completions is told of then, or after the time")
{
	Context c;
	Channel ch(c);
	Node a(c);
	auto moderate = [&](unsigned select, unsigned count, unsigned usecs) {
		devx::Mailbox m(devx::MODIFY_CQ, DEVX_ST_SZ_BYTES(modify_cq_in));
		m.names(a.scq.number);
		DEVX_SET(modify_cq_in, m.in.data(), field_select, select);
		DEVX_SET(modify_cq_in, m.in.data(), cqc.cq_max_count, count);
		DEVX_SET(modify_cq_in, m.in.data(), cqc.cq_period, usecs);
		EXPECT_EQ(devx::modify(a.scq.obj, m), devx::OK);
	};
	auto write = [&] {
		a.qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, a.mem.sge(0, 8), a.mem.addr(100), a.mem.rkey());
		EXPECT_EQ(a.sent(), 0);
	};
	enum { period = 1, count = 2 };

	must(ch.subscribe(a.scq.obj, {COMP}, 9), "subscribe");
	a.qp.connect(a.qp.number);
	moderate(period | count, 3, 4000);
	EXPECT_EQ(a.scq.field([](const void *q) { return DEVX_GET(query_cq_out, q, cqc.cq_max_count); }), 3u);
	EXPECT_EQ(a.scq.field([](const void *q) { return DEVX_GET(query_cq_out, q, cqc.cq_period); }), 4000u);
	// The time.
	a.scq.arm();
	write();
	ch.expect(9);
	// The number.
	moderate(count, 2, 0);
	EXPECT_EQ(a.scq.field([](const void *q) { return DEVX_GET(query_cq_out, q, cqc.cq_period); }), 4000u);
	a.scq.arm();
	write();
	write();
	ch.expect(9);
	// Neither.
	moderate(period | count, 0, 0);
	a.scq.arm();
	write();
	ch.expect(9);
	ch.expect_nothing();
}

KTEST(devx_events, "events are told in the order in which they happen, to each channel that wants them")
{
	Context c;
	Channel one(c), two(c, true);
	devx::Base b(c);
	std::vector<std::unique_ptr<Rmp>> rmps;
	for (uint64_t i = 0; i < 8; i++) {
		rmps.push_back(std::make_unique<Rmp>(c, b.pdn));
		must(one.subscribe(rmps[i]->obj, {SRQ_RQ_LIMIT}, i), "subscribe");
		must(two.subscribe(rmps[i]->obj, {SRQ_RQ_LIMIT}, 100 + i), "subscribe");
	}
	for (uint64_t i : {5, 2, 7, 0, 2, 2}) {
		auto m = Rmp::limit(rmps[i]->number, 1);
		EXPECT_EQ(devx::modify(rmps[i]->obj, m), devx::OK);
	}
	// Without data, what has not been read is not told again.
	for (uint64_t i : {5, 2, 7, 0})
		one.expect(i);
	one.expect_nothing();
	Told t;
	for (uint64_t i : {5, 2, 7, 0, 2, 2}) {
		ASSERT_EQ(two.next(t), 0);
		EXPECT_EQ(t.cookie, 100 + i);
	}
	two.expect_nothing();
}

KTEST(devx_events, "an eventfd is signaled in place of the channel")
{
	Context c;
	Channel ch(c);
	devx::Base b(c);
	Rmp rmp(c, b.pdn);
	const int fd = eventfd(0, EFD_NONBLOCK);
	uint64_t count = 0;

	ASSERT_GE(fd, 0);
	must(mlx5dv_devx_subscribe_devx_event_fd(ch.get(), fd, rmp.obj.get(), SRQ_RQ_LIMIT), "subscribe_fd");
	auto m = Rmp::limit(rmp.number, 1);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
	EXPECT_EQ(read(fd, &count, 8), 8);
	EXPECT_EQ(count, 3u);
	ch.expect_nothing();
	EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(ch.get(), ch.fd(), rmp.obj.get(), SRQ_RQ_LIMIT), EINVAL);
	EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(ch.get(), 9999, rmp.obj.get(), SRQ_RQ_LIMIT), EBADF);
	// The eventfd lives as long as the subscription.
	close(fd);
	EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
}

KTEST(devx_events, "an event outlives its object, a subscription does not")
{
	for (bool data : {false, true}) {
		Context c;
		Channel ch(c, data);
		devx::Base b(c);
		for (uint64_t i = 0; i < 20; i++) {
			Rmp rmp(c, b.pdn);
			must(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT, COMP}, i), "subscribe");
			auto m = Rmp::limit(rmp.number, 1);
			if (i % 2) {
				EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
			}
		}
		for (uint64_t i = 1; i < 10; i += 2)
			ch.expect(i);
		// The rest goes with the channel.
		EXPECT_TRUE(ch.readable());
	}
}

KTEST(devx_events, "an object goes on when its channel is closed")
{
	Context c;
	devx::Base b(c);
	Rmp rmp(c, b.pdn);
	auto m = Rmp::limit(rmp.number, 1);
	for (bool data : {false, true}) {
		Channel stays(c, data);
		must(stays.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 7), "subscribe");
		{
			Channel goes(c, data);
			must(goes.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 8), "subscribe");
			EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
		}
		stays.expect(7);
		EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
		stays.expect(7);
	}
	EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
}

KTEST(devx_events, "what cannot be subscribed to is refused as a whole")
{
	Context c;
	Channel ch(c);
	devx::Base b(c);
	Rmp rmp(c, b.pdn);

	EXPECT_EQ(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT, PORT_CHANGE}, 1), EINVAL);
	EXPECT_EQ(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT, 0x1234}, 1), EINVAL);
	EXPECT_EQ(ch.subscribe(rmp.obj, {}, 1), EINVAL);
	EXPECT_EQ(ch.subscribe(rmp.obj, std::vector<uint16_t>(65, SRQ_RQ_LIMIT), 1), EINVAL);
	EXPECT_EQ(ch.subscribe(devx::Obj(), {PORT_CHANGE}, 1), EINVAL);
	auto m = Rmp::limit(rmp.number, 1);
	EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
	ch.expect_nothing();
}

KTEST(devx_events, "an object takes so many subscriptions, of all channels together, and what it refuses changes nothing")
{
	Context c;
	Channel ch(c), data(c, true);
	devx::Base b(c);
	Rmp rmp(c, b.pdn), other(c, b.pdn);
	auto m = Rmp::limit(rmp.number, 1);

	for (uint64_t i = 0; i < 63; i++)
		must(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, i), "subscribe");
	EXPECT_EQ(data.subscribe(rmp.obj, {SRQ_RQ_LIMIT, COMP}, 100), ENOSPC);
	{
		Channel goes(c);
		must(goes.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 101), "subscribe");
		EXPECT_EQ(data.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 102), ENOSPC);
	}
	must(data.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 103), "subscribe");
	EXPECT_EQ(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 104), ENOSPC);
	must(ch.subscribe(other.obj, {SRQ_RQ_LIMIT}, 105), "subscribe");

	EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
	for (uint64_t i = 0; i < 63; i++)
		ch.expect(i);
	ch.expect_nothing();
	data.expect(103);
	data.expect_nothing();
}

KTEST(devx_events, "a reader without room gets no part of an event, and may come again")
{
	Context c;
	for (bool data : {false, true}) {
		Channel ch(c, data);
		devx::Base b(c);
		Rmp rmp(c, b.pdn);
		uint8_t buf[71];

		must(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 3), "subscribe");
		auto m = Rmp::limit(rmp.number, 1);
		EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
		EXPECT_EQ(read(ch.fd(), buf, data ? 71 : 7), -1);
		EXPECT_EQ(errno, EINVAL);
		ch.expect(3);
	}
}

KTEST(devx_events, "a reader who waits is woken by the event")
{
	Context c;
	Channel ch(c);
	devx::Base b(c);
	Rmp rmp(c, b.pdn);

	must(fcntl(ch.fd(), F_SETFL, 0), "fcntl");
	must(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 5), "subscribe");
	std::thread later([&] {
		std::this_thread::sleep_for(50ms);
		auto m = Rmp::limit(rmp.number, 1);
		EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
	});
	Told t;
	EXPECT_EQ(ch.next(t), 0);
	EXPECT_EQ(t.cookie, 5u);
	later.join();
}

KTEST(devx_events, "a channel that nobody reads keeps some thousand events, and then says that others are lost")
{
	Context c;
	Channel ch(c, true);
	devx::Base b(c);
	Rmp rmp(c, b.pdn);
	Told t;
	unsigned kept = 0;

	must(ch.subscribe(rmp.obj, {SRQ_RQ_LIMIT}, 5), "subscribe");
	auto m = Rmp::limit(rmp.number, 1);
	for (int i = 0; i < 5000; i++)
		ASSERT_EQ(devx::modify(rmp.obj, m), devx::OK);
	EXPECT_EQ(ch.next(t), EOVERFLOW);
	while (ch.readable() && ch.next(t) == 0)
		kept++;
	EXPECT_EQ(kept, 4096u);
	EXPECT_EQ(devx::modify(rmp.obj, m), devx::OK);
	ch.expect(5);
	ch.expect_nothing();
}

} // namespace
