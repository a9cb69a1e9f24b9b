// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The paths that must not grow, each taken many times while callgrind looks: its part of the profile is named
// "PATH REQUESTS". tools/instructions runs this and does the sums.
#include "builders.hpp"
#include "link.hpp"

#include <cstdio>
#include <valgrind/callgrind.h>

using namespace bench;
namespace wqe = tally::wqe;

namespace {

constexpr u32 times = 1024;
constexpr u32 batch = 16;

// @step does @requests at a time.
template <class Step> void count(const char *path, u32 requests, Step &&step)
{
	char name[64];

	/* Once around every ring, so that what is done only in the beginning is behind. */
	for (u32 i = 0; i < 2 * times; i += requests)
		step();
	CALLGRIND_TOGGLE_COLLECT;
	for (u32 i = 0; i < times; i += requests)
		step();
	CALLGRIND_TOGGLE_COLLECT;
	std::snprintf(name, sizeof(name), "%s %u", path, times);
	CALLGRIND_DUMP_STATS_AT(name);
}

void count_device()
{
	Link link;

	link.fill(link.write(8));
	count("hca/write_8", 1, [&] { link.run(1); });
	count("hca/write_8_batch", batch, [&] { link.run(batch); });
	link.fill_receives(8);
	link.fill(link.send(8));
	count("hca/send_8", 1, [&] { link.run(1); });
	link.fill(link.read(8));
	count("hca/read_8", 1, [&] { link.run(1); });
	link.fill(link.fetch_add());
	count("hca/atomic", 1, [&] { link.run(1); });
	link.fill(link.write(large));
	count("hca/write_64k", 1, [&] { link.run(1); });
	link.fill(link.gather(64));
	count("hca/gather_64", 1, [&] { link.run(1); });
	link.fill(link.gather(4096));
	count("hca/gather_4k", 1, [&] { link.run(1); });
	link.fill(link.gather_list(32));
	count("hca/gather_list", 1, [&] { link.run(1); });
	count("hca/counter", 1, [&] { hca_count(link.requester(), HCA_CLASS_WRITE, HCA_SYND_OK, 8); });

	Link pages({.block_shift = 12});
	pages.fill(pages.write(large));
	count("hca/write_64k_pages", 1, [&] { pages.run(1); });

	Link runs({.block_shift = 12, .beside = 16});
	runs.fill(runs.write(large));
	count("hca/write_64k_runs", 1, [&] { runs.run(1); });
}

void count_builders()
{
	const wqe::remote peer{0x7f0000001000, 0x1234};
	const wqe::data data{0x7f0000002000, 8, 0x5678};
	const wqe::copy::end end{0x7f0000003000, 0x9abc};
	const wqe::stride list[3] = {{0x1000, 64, 64, 1}, {0x2000, 64, 64, 2}, {0x3000, 64, 64, 3}};
	alignas(64) u8 block[wqe::block_bytes];
	u64 eight = 0;
	PlainQueue plain;
	auto &q = plain.queue();

	count("builder/write", 1, [&] { build_write(block, 0x123456, 7, peer, data); });
	count("work_queue/write", 1, [&] { post_write(q, peer, data), ring(q); });
	count("work_queue/write_batch", batch, [&] {
		for (u32 i = 0; i < batch; i++)
			post_write(q, peer, data);
		ring(q);
	});
	count("work_queue/write_inline_8", 1, [&] { post_write_inline(q, peer, &eight, 8), ring(q); });
	count("work_queue/send", 1, [&] { post_send(q, data), ring(q); });
	count("work_queue/fetch_add", 1, [&] { post_fetch_add(q, peer, 1, data), ring(q); });
	count("work_queue/memcpy", 1, [&] { post_copy(q, end, end, 4096, end), ring(q); });
	count("work_queue/interleaved_3", 1, [&] { post_interleaved(q, 0x300, 10, list, 3), ring(q); });
}

} // namespace

int main()
{
	std::printf("compiler: gcc %s\n", __VERSION__);
	count_device();
	count_builders();
	return 0;
}
