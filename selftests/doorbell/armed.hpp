// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A CQ with a channel that is armed by hand, as libmlx5 arms one.
#pragma once

#include <poll.h>

#include "ringer.hpp"

namespace rdma {

struct Armed {
	Context c;
	Channel channel = own<Channel>(ibv_create_comp_channel(c.get()), "comp_channel");
	Ringer r{c, channel.get()};
	std::uint32_t sn = 0;

	explicit Armed(const std::string &device = device_name()) : c(device) {}

	// The arm record, and the word for the register.
	std::uint64_t record()
	{
		std::uint32_t high = htobe32((sn++ & 3) << 28 | (r.taken() & 0xffffff)), low = htobe32(r.dv_cq().cqn);

		reinterpret_cast<volatile std::uint32_t *>(r.dv_cq().dbrec)[1] = high;
		_mm_sfence();
		return std::uint64_t(low) << 32 | high;
	}
	char *uar() { return static_cast<char *>(r.dv_cq().cq_uar); }
	static void store(char *uar, std::uint64_t word) { *reinterpret_cast<volatile std::uint64_t *>(uar + 0x20) = word; }
	bool event(int ms)
	{
		pollfd p = {channel->fd, POLLIN, 0};

		if (::poll(&p, 1, ms) != 1)
			return false;
		ibv_cq *cq;
		void *context;
		must(ibv_get_cq_event(channel.get(), &cq, &context), "get_cq_event");
		ibv_ack_cq_events(cq, 1);
		return cq == r.cq();
	}
	void complete_one()
	{
		r.post();
		r.ring();
		if (!r.completes())
			fail("no completion", ETIMEDOUT);
	}
};

// Somebody else who completes a request shortly after each time that the CQ is armed.
class Answered : public Armed {
      public:
	using Armed::Armed;

	// Arms with a store to the page at @uar: the event is on its way from then on.
	void arm(char *uar)
	{
		const std::uint64_t word = record();

		asked_++;
		store(uar, word);
	}
	void arm() { arm(uar()); }
	// Nobody answers any more.
	void hang_up() { other_ = {}; }

      private:
	void answer(const std::stop_token &stop)
	{
		for (unsigned answered = 0; !stop.stop_requested();) {
			if (asked_ == answered)
				continue;
			// Most often he waits by then.
			for (auto until = std::chrono::steady_clock::now() + 20us; std::chrono::steady_clock::now() < until;)
				;
			r.post();
			r.ring();
			answered++;
		}
	}
	std::atomic<unsigned> asked_ = 0;
	std::jthread other_{[this](const std::stop_token &stop) { answer(stop); }};
};

} // namespace rdma
