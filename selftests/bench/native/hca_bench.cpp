// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Time that the device and the builders take on this CPU. What begins with "hca/" and its plain counterpart, "memcpy/"
// or "loop/", move the same bytes of the same memory. items_per_second counts requests.
#include "builders.hpp"
#include "link.hpp"

#include <benchmark/benchmark.h>

using namespace bench;
namespace wqe = tally::wqe;

namespace {

constexpr u32 batch = 16;
constexpr LinkOptions pages{.block_shift = 12};
// Pages that lie side by side, as those do that a process has got at once.
constexpr LinkOptions runs{.block_shift = 12, .beside = 16};
// Where a request's own cost does not count any more: what is left are the copying and the turns of 64 KiB.
constexpr u32 long_bytes = 1024 * 1024;
constexpr LinkOptions long_memory{.memory = 2 * size_t{long_bytes}};

void executed(benchmark::State &state, u32 requests, u64 bytes)
{
	state.SetItemsProcessed(state.iterations() * requests);
	state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * requests * bytes));
}

// @what makes the request; so many go with one doorbell.
template <class What>
void requests(benchmark::State &state, u32 at_once, u64 bytes, What &&what, const LinkOptions &options = {})
{
	Link link(options);

	link.fill_receives(8);
	link.fill(what(link));
	for (auto _ : state)
		link.run(at_once);
	executed(state, at_once, bytes);
}

void write_8(benchmark::State &s)
{
	requests(s, 1, 8, [](Link &l) { return l.write(8); });
}
void write_8_batch(benchmark::State &s)
{
	requests(s, batch, 8, [](Link &l) { return l.write(8); });
}
void write_8_uncounted(benchmark::State &s)
{
	requests(s, batch, 8, [](Link &l) { return l.write(8); }, {.counters = false});
}
void send_8(benchmark::State &s)
{
	requests(s, 1, 8, [](Link &l) { return l.send(8); });
}
void send_8_batch(benchmark::State &s)
{
	requests(s, batch, 8, [](Link &l) { return l.send(8); });
}
void read_8(benchmark::State &s)
{
	requests(s, 1, 8, [](Link &l) { return l.read(8); });
}
void read_8_batch(benchmark::State &s)
{
	requests(s, batch, 8, [](Link &l) { return l.read(8); });
}
void atomic(benchmark::State &s)
{
	requests(s, 1, 8, [](Link &l) { return l.fetch_add(); });
}
void write_64k(benchmark::State &s)
{
	requests(s, 1, large, [](Link &l) { return l.write(large); });
}
void write_64k_pages(benchmark::State &s)
{
	requests(s, 1, large, [](Link &l) { return l.write(large); }, pages);
}
void write_64k_runs(benchmark::State &s)
{
	requests(s, 1, large, [](Link &l) { return l.write(large); }, runs);
}
void gather_64(benchmark::State &s)
{
	requests(s, 1, large, [](Link &l) { return l.gather(64); });
}
void gather_4k(benchmark::State &s)
{
	requests(s, 1, large, [](Link &l) { return l.gather(4096); });
}
void write_1m(benchmark::State &s)
{
	requests(s, 1, long_bytes, [](Link &l) { return l.write(long_bytes); }, long_memory);
}
void gather_4k_1m(benchmark::State &s)
{
	requests(s, 1, long_bytes, [](Link &l) { return l.gather(4096, long_bytes); }, long_memory);
}
void gather_list(benchmark::State &s)
{
	requests(s, 1, large, [](Link &l) { return l.gather_list(32); });
}
void counter(benchmark::State &s)
{
	Link link;

	for (auto _ : s)
		hca_count(link.requester(), HCA_CLASS_WRITE, HCA_SYND_OK, 8);
	executed(s, 1, 8);
}

// ---- the same without a device ----

[[gnu::noinline]] void copy_blocks(u8 *to, const u8 *from, size_t block, size_t stride, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++)
		std::memcpy(to + i * block, from + i * stride, block);
}

// A block whose size the compiler knows.
[[gnu::noinline]] void copy_blocks_of_64(u8 *to, const u8 *from, size_t stride, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++)
		std::memcpy(to + i * 64, from + i * stride, 64);
}

// The same by general registers, all that code of a kernel has.
[[gnu::noinline]] void copy_blocks_by_words(u8 *to, const u8 *from, size_t stride, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++)
		for (size_t k = 0; k < 64; k += sizeof(u64)) {
			u64 word;

			asm volatile("mov %1, %0" : "=r"(word) : "m"(*(const u64 *)(from + i * stride + k)));
			asm volatile("mov %1, %0" : "=m"(*(u64 *)(to + i * 64 + k)) : "r"(word));
		}
}

// What two queues, a CQ and two counters that others use, too, cost at least.
void locked(benchmark::State &s)
{
	std::array<spinlock_t, 3> locks{};
	std::array<u64, 2> counters{};

	spin_lock_init(&locks[0]);
	spin_lock_init(&locks[1]);
	spin_lock_init(&locks[2]);
	for (auto _ : s) {
		for (auto &lock : locks)
			spin_lock(&lock);
		for (auto lock = locks.rbegin(); lock != locks.rend(); ++lock)
			spin_unlock(&*lock);
		for (auto &counter : counters)
			hca_fetch_add64(&counter, 1);
	}
	executed(s, 1, 0);
}

void plain_memcpy(benchmark::State &s, const LinkOptions &options, size_t bytes)
{
	Link link(options);

	for (auto _ : s) {
		std::memcpy(link.remote(), link.local(), bytes);
		benchmark::ClobberMemory();
	}
	executed(s, 1, bytes);
}
void memcpy_64k(benchmark::State &s)
{
	plain_memcpy(s, {}, large);
}
void memcpy_1m(benchmark::State &s)
{
	plain_memcpy(s, long_memory, long_bytes);
}

void memcpy_64k_pages(benchmark::State &s)
{
	Link link(pages);

	for (auto _ : s) {
		for (size_t at = 0; at < large; at += 4096)
			std::memcpy(link.remote(at), link.local(at), 4096);
		benchmark::ClobberMemory();
	}
	executed(s, 1, large);
}

void loop(benchmark::State &s, size_t block, const LinkOptions &options = {}, size_t bytes = large)
{
	Link link(options);

	for (auto _ : s) {
		copy_blocks(link.remote(), link.local(), block, 2 * block, bytes / block);
		benchmark::ClobberMemory();
	}
	executed(s, 1, bytes);
}
void loop_64(benchmark::State &s)
{
	loop(s, 64);
}
void loop_64_fixed(benchmark::State &s)
{
	Link link;

	for (auto _ : s) {
		copy_blocks_of_64(link.remote(), link.local(), 128, large / 64);
		benchmark::ClobberMemory();
	}
	executed(s, 1, large);
}
void loop_64_words(benchmark::State &s)
{
	Link link;

	for (auto _ : s) {
		copy_blocks_by_words(link.remote(), link.local(), 128, large / 64);
		benchmark::ClobberMemory();
	}
	executed(s, 1, large);
}
void loop_4k(benchmark::State &s)
{
	loop(s, 4096);
}
// A copy without the device, then a request of 8 bytes: what a request costs after so many bytes have gone through the
// CPU's first cache, where nothing of it is left.
template <class Copy> void before_a_write(benchmark::State &s, Copy &&copy)
{
	Link link;

	link.fill(link.write(8));
	for (auto _ : s) {
		copy(link);
		benchmark::ClobberMemory();
		link.run(1);
	}
	executed(s, 1, large);
}
void memcpy_64k_write_8(benchmark::State &s)
{
	before_a_write(s, [](Link &l) { std::memcpy(l.remote(), l.local(), large); });
}
void loop_4k_write_8(benchmark::State &s)
{
	before_a_write(s, [](Link &l) { copy_blocks(l.remote(), l.local(), 4096, 8192, large / 4096); });
}
void loop_4k_1m(benchmark::State &s)
{
	loop(s, 4096, long_memory, long_bytes);
}
void loop_list(benchmark::State &s)
{
	loop(s, large / 32);
}

// ---- builders ----

template <class Post> void builds(benchmark::State &state, Post &&post)
{
	PlainQueue plain;

	for (auto _ : state) {
		for (u32 i = 0; i < batch; i++)
			post(plain.queue());
		ring(plain.queue());
	}
	executed(state, batch, 0);
}

const wqe::remote peer{0x7f0000001000, 0x1234};
const wqe::data piece{0x7f0000002000, 8, 0x5678};
const wqe::copy::end end{0x7f0000003000, 0x9abc};
const wqe::stride strides[3] = {{0x1000, 64, 64, 1}, {0x2000, 64, 64, 2}, {0x3000, 64, 64, 3}};

void build_one(benchmark::State &state)
{
	alignas(64) u8 block[wqe::block_bytes];

	for (auto _ : state) {
		build_write(block, 0x123456, 7, peer, piece);
		benchmark::ClobberMemory();
	}
	executed(state, 1, 0);
}
void post_writes(benchmark::State &s)
{
	builds(s, [](auto &q) { post_write(q, peer, piece); });
}
void post_copies(benchmark::State &s)
{
	builds(s, [](auto &q) { post_copy(q, end, end, 4096, end); });
}
void post_patterns(benchmark::State &s)
{
	builds(s, [](auto &q) { post_interleaved(q, 0x300, 10, strides, 3); });
}

} // namespace

BENCHMARK(write_8)->Name("hca/write_8");
BENCHMARK(locked)->Name("plain/locked");
BENCHMARK(write_8_batch)->Name("hca/write_8_batch");
BENCHMARK(write_8_uncounted)->Name("hca/write_8_batch_uncounted");
BENCHMARK(send_8)->Name("hca/send_8");
BENCHMARK(send_8_batch)->Name("hca/send_8_batch");
BENCHMARK(read_8)->Name("hca/read_8");
BENCHMARK(read_8_batch)->Name("hca/read_8_batch");
BENCHMARK(atomic)->Name("hca/atomic");
BENCHMARK(counter)->Name("hca/counter");
BENCHMARK(write_64k)->Name("hca/write_64k");
BENCHMARK(memcpy_64k)->Name("memcpy/64k");
BENCHMARK(memcpy_64k_write_8)->Name("memcpy/64k_write_8");
BENCHMARK(write_64k_pages)->Name("hca/write_64k_pages");
BENCHMARK(write_64k_runs)->Name("hca/write_64k_runs");
BENCHMARK(memcpy_64k_pages)->Name("memcpy/64k_pages");
BENCHMARK(gather_64)->Name("hca/gather_64");
BENCHMARK(loop_64)->Name("loop/gather_64");
BENCHMARK(loop_64_fixed)->Name("loop/gather_64_fixed");
BENCHMARK(loop_64_words)->Name("loop/gather_64_words");
BENCHMARK(gather_4k)->Name("hca/gather_4k");
BENCHMARK(loop_4k)->Name("loop/gather_4k");
BENCHMARK(loop_4k_write_8)->Name("loop/gather_4k_write_8");
BENCHMARK(write_1m)->Name("hca/write_1m");
BENCHMARK(memcpy_1m)->Name("memcpy/1m");
BENCHMARK(gather_4k_1m)->Name("hca/gather_4k_1m");
BENCHMARK(loop_4k_1m)->Name("loop/gather_4k_1m");
BENCHMARK(gather_list)->Name("hca/gather_list");
BENCHMARK(loop_list)->Name("loop/gather_list");
BENCHMARK(build_one)->Name("builder/write");
BENCHMARK(post_writes)->Name("work_queue/write");
BENCHMARK(post_copies)->Name("work_queue/memcpy");
BENCHMARK(post_patterns)->Name("work_queue/interleaved_3");

BENCHMARK_MAIN();
