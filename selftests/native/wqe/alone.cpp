// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every builder, for compilers that have nothing but <tally/wqe.hpp>.
#include <tally/wqe.hpp>

#if defined(__CUDA__) && defined(__clang__)
#define DEVICE __attribute__((host, device))
#elif defined(__CUDACC__)
#define DEVICE __host__ __device__
#else
#define DEVICE
#endif

using namespace tally::wqe;

// What comes from outside, so that nothing is known when this is compiled.
struct arguments {
	remote peer;
	data piece;
	pieces list;
	inline_bytes bytes;
	const stride *strides;
	const av_seg *path;
	uint64_t value, other;
	uint32_t key, count;
};

template <class Place> static DEVICE uint32_t all(const Place &at, const header &h, const arguments &a)
{
	const xrc to_xrc{a.key};
	const ud to_ud{a.path, a.key, a.count};
	const dc to_dc{a.path, a.key, a.value, 3};
	uint32_t units = 0;

	units += build(at, h, nop{});
	units += build(at, h, send{a.piece});
	units += build(at, h, send{a.bytes, to_ud});
	units += build(at, h, send{nothing{}, to_dc});
	units += build(at, h, send_imm{a.key, a.list, to_xrc});
	units += build(at, h, send_inval{a.key, a.list});
	units += build(at, h, rdma_write{a.peer, a.piece, to_dc});
	units += build(at, h, rdma_write_imm{a.key, a.peer, a.bytes});
	units += build(at, h, rdma_read{a.peer, a.list});
	units += build(at, h, compare_swap{a.peer, a.value, a.other, a.piece, to_xrc});
	units += build(at, h, fetch_add{a.peer, a.value, a.piece});
	units += build(at, h, copy{{a.value, a.key}, {a.other, a.key}, a.value, {a.other, a.key}});
	units += build(at, h, local_inval{a.key});
	units += build(at, h, register_list{a.key, local_write, a.list});
	units += build(at, h, register_interleaved{a.key, remote_read, a.count, a.strides, a.count});
	units += build(at, h, register_from_memory{a.key, remote_atomic, a.value, a.piece});
	units += build_raw(at, h.index, a.bytes.bytes);
	return units;
}

DEVICE uint32_t write_to_ring(const ring &at, const header &h, const arguments &a)
{
	return all(at, h, a);
}

DEVICE uint32_t write_to_memory(const linear &at, const header &h, const arguments &a)
{
	return all(at, h, a);
}
