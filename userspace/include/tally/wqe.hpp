// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// mlx5 send work queue entries: their layouts, and builders that write them.
//
// For whoever posts by himself: a CPU without libmlx5 on the path, an accelerator, a program that has no C library.
// Needs only the compiler's own <stdint.h>: nothing here allocates, calls, throws or keeps state, and everything is
// usable in device code of CUDA.
//
// A WQE is made of units of 16 bytes in blocks of 64: a control segment (one unit), then the segments that its opcode
// asks for.  No segment lies across the end of a block, so a WQE needs to be in one piece only block by block: a
// "place" says where each block is, and a WQE goes through the end of a ring without being cut by hand.
//
//	const wqe::ring at{sq, blocks - 1, index};
//	const uint32_t units = wqe::build(at, {.qpn = qpn, .index = index, .flags = wqe::signaled},
//					  wqe::rdma_write{wqe::remote{raddr, rkey}, wqe::data{addr, length, lkey}});
//	index += wqe::blocks_of(units);
//
// All values are in the byte order of the host, lengths in bytes.  What is reserved is written as 0.
#pragma once

#include <stdint.h>

#if defined(__CUDA__) && defined(__clang__)
#define TALLY_WQE_FN __attribute__((host, device, always_inline)) inline
#elif defined(__CUDACC__)
#define TALLY_WQE_FN __host__ __device__ __forceinline__
#else
#define TALLY_WQE_FN __attribute__((always_inline)) inline
#endif

// The memory of a queue has no type of its own.
#define TALLY_WQE_SEGMENT __attribute__((may_alias))

namespace tally::wqe {

inline constexpr uint32_t unit_bytes = 16;
inline constexpr uint32_t block_bytes = 64;
// What the control segment can say, in units.  The QP's own limit, from its max_send_sge and max_inline_data, is lower.
inline constexpr uint32_t max_units = 63;
// A data segment says how many bytes in 31 bits.
inline constexpr uint32_t max_piece = (uint32_t{1} << 31) - 1;
// Longest copy, in bytes, which its data segments say as 0.  A device may do less: max_wr_memcpy_length of struct
// mlx5dv_context.
inline constexpr uint64_t max_copy = uint64_t{1} << 31;
// Entries of an UMR that fit into a WQE of max_units.
inline constexpr uint32_t max_umr_pieces = 52;
inline constexpr uint32_t max_umr_strides = 51;

// How many blocks a WQE of so many units takes in the ring.
TALLY_WQE_FN constexpr uint32_t blocks_of(uint32_t units)
{
	return (units + 3) / 4;
}

// A number as the device reads it.
template <class T> class big_endian {
    public:
	big_endian() = default;
	TALLY_WQE_FN constexpr big_endian(T host) : raw_(swapped(host)) {}
	TALLY_WQE_FN constexpr T host() const { return swapped(raw_); }
	TALLY_WQE_FN constexpr T raw() const { return raw_; }

    private:
	static TALLY_WQE_FN constexpr uint16_t swapped(uint16_t v) { return static_cast<uint16_t>(v << 8 | v >> 8); }
	static TALLY_WQE_FN constexpr uint32_t swapped(uint32_t v)
	{
		return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24;
	}
	static TALLY_WQE_FN constexpr uint64_t swapped(uint64_t v)
	{
		return uint64_t{swapped(static_cast<uint32_t>(v))} << 32 | swapped(static_cast<uint32_t>(v >> 32));
	}

	T raw_;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are swapped");

using be16 = big_endian<uint16_t>;
using be32 = big_endian<uint32_t>;
using be64 = big_endian<uint64_t>;

// Segments, in the words of the device.

struct TALLY_WQE_SEGMENT ctrl_seg {
	be32 opmod_index_opcode;	// 8, 16 and 8 bits
	be32 qpn_units;			// 24 and 8 bits, of which the lower 6 count
	be32 signature_stream_fm_ce_se; // 8, 16 and 8 bits
	be32 imm;			// immediate data, the key to invalidate, or the mkey of an UMR
};

struct TALLY_WQE_SEGMENT data_seg { // and an entry of an UMR's list (KLM)
	be32 byte_count;
	be32 lkey;
	be64 addr;
};

struct TALLY_WQE_SEGMENT raddr_seg {
	be64 addr;
	be32 rkey;
	be32 reserved;
};

struct TALLY_WQE_SEGMENT atomic_seg {
	be64 swap_add;
	be64 compare;
};

struct TALLY_WQE_SEGMENT inline_seg { // more bytes follow, without a gap
	be32 byte_count;	      // with inline_bit
	uint8_t bytes[12];
};

struct TALLY_WQE_SEGMENT xrc_seg {
	be32 srqn;
	be32 reserved[3];
};

// Address vector of UD and DC.  What lies behind the first 12 bytes comes from an address handle.
struct TALLY_WQE_SEGMENT av_seg {
	be64 key;    // DC: the access key; UD: the Q_Key in the upper half
	be32 number; // of the DCT or the QP, with av_extended
	uint8_t stat_rate_sl;
	uint8_t fl_mlid;
	be16 rlid;
	uint8_t reserved[4];
	uint8_t rmac[6];
	uint8_t tclass;
	uint8_t hop_limit;
	be32 grh_gid_fl;
	uint8_t rgid[16];
};

struct TALLY_WQE_SEGMENT umr_ctrl_seg {
	uint8_t flags;
	uint8_t reserved0[3];
	be16 klm_units; // of the list, in units of 16 bytes, a multiple of 4
	be16 translation_offset;
	be64 mkey_mask; // which fields of the mkey change
	uint8_t reserved1[32];
};

struct TALLY_WQE_SEGMENT mkey_seg {
	uint8_t free;
	uint8_t reserved0;
	uint8_t access;
	uint8_t sf;
	be32 qpn_tag; // the QP that may use it, or any_qp; and the mkey's lower 8 bits
	be32 reserved1;
	be32 flags_pd;
	be64 start;
	be64 length;
	be32 bsf_units;
	be32 reserved2[4];
	be32 translation_units;
	uint8_t reserved3[3];
	uint8_t log_page_size;
	be32 reserved4;
};

struct TALLY_WQE_SEGMENT repeat_seg { // in front of the entries of an interleaved UMR
	be32 byte_count;	      // of one repetition, skipped bytes not counted
	be32 op;		      // repeat_op
	be32 repeat_count;
	be16 reserved;
	be16 entries;
};

struct TALLY_WQE_SEGMENT stride_seg {
	be16 stride;	 // from one repetition to the next, in bytes
	be16 byte_count; // of that, data
	be32 lkey;
	be64 addr;
};

struct TALLY_WQE_SEGMENT mmo_seg {
	be32 control;
	be32 lkey; // of memory that the device may scribble on
	be64 addr;
};

static_assert(sizeof(ctrl_seg) == 16 && sizeof(data_seg) == 16 && sizeof(raddr_seg) == 16);
static_assert(sizeof(atomic_seg) == 16 && sizeof(inline_seg) == 16 && sizeof(xrc_seg) == 16);
static_assert(sizeof(av_seg) == 48 && sizeof(umr_ctrl_seg) == 48 && sizeof(mkey_seg) == 64);
static_assert(sizeof(repeat_seg) == 16 && sizeof(stride_seg) == 16 && sizeof(mmo_seg) == 16);

enum opcode : uint8_t {
	op_nop = 0x00,
	op_send_inval = 0x01,
	op_rdma_write = 0x08,
	op_rdma_write_imm = 0x09,
	op_send = 0x0a,
	op_send_imm = 0x0b,
	op_rdma_read = 0x10,
	op_atomic_cs = 0x11,
	op_atomic_fa = 0x12,
	op_umr = 0x25,
	op_mmo = 0x2f,
};

// Flags of a request, to be combined; at most one of the fences.
enum flag : uint8_t {
	signaled = 2 << 2,
	solicited = 1 << 1,    // with SEND and RDMA WRITE with immediate
	small_fence = 1 << 5,  // behind an UMR: waits until this QP's UMRs before it are done
	strong_fence = 4 << 5, // IBV_SEND_FENCE: waits until this QP's READs, atomics and copies before it are done
};

// Rights on an mkey.  Local read is always there.
enum access : uint8_t {
	local_write = 1 << 3,
	remote_read = 1 << 4,
	remote_write = 1 << 5,
	remote_atomic = 1 << 6,
};

inline constexpr uint32_t inline_bit = uint32_t{1} << 31;
inline constexpr uint32_t av_extended = uint32_t{1} << 31;
inline constexpr uint8_t mmo_dma = 1; // opmod of op_mmo
inline constexpr uint32_t repeat_op = 0x400;
inline constexpr uint32_t any_qp = 0xffffff00;
inline constexpr uint8_t mkey_free = 1 << 6;

enum umr_flag : uint8_t {
	umr_check_qpn = 1 << 3,
	umr_translation_offset = 1 << 4,
	umr_inline = 1 << 7,
};

enum umr_mask : uint32_t {
	umr_mask_length = 1 << 0,
	umr_mask_mkey = 1 << 13,
	umr_mask_qpn = 1 << 14,
	umr_mask_access = 0xf << 18, // the four of enum access
	umr_mask_free = 1 << 29,
};

// Places: where the n-th block of a WQE is.

struct linear {
	void *base; // 64 bytes for each block

	TALLY_WQE_FN void *block(uint32_t n) const { return static_cast<uint8_t *>(base) + n * block_bytes; }
};

struct ring {
	void *base;
	uint32_t mask;	// blocks of the ring, a power of two, minus 1
	uint32_t index; // of the WQE's first block; counts on beyond the ring

	TALLY_WQE_FN void *block(uint32_t n) const
	{
		return static_cast<uint8_t *>(base) + uint64_t{(index + n) & mask} * block_bytes;
	}
};

// What all requests have in common.
struct header {
	uint32_t qpn;
	uint16_t index; // of the WQE's first block, modulo 2^16: the device compares
	uint8_t flags = 0;
};

// Puts segments one behind the other, from the second unit on.
template <class Place> class writer {
    public:
	TALLY_WQE_FN explicit writer(Place place) : place_(place), units_(1) {}

	template <class Segment> TALLY_WQE_FN void put(const Segment &segment)
	{
		static_assert(sizeof(Segment) % unit_bytes == 0 && sizeof(Segment) <= block_bytes);
		*static_cast<Segment *>(at(units_)) = segment;
		units_ += sizeof(Segment) / unit_bytes;
	}

	// Zero units up to a whole block.
	TALLY_WQE_FN void pad()
	{
		while (units_ % 4)
			put(data_seg{});
	}

	TALLY_WQE_FN void put_ctrl(const ctrl_seg &ctrl) const { *static_cast<ctrl_seg *>(at(0)) = ctrl; }

	TALLY_WQE_FN uint32_t units() const { return units_; }

    private:
	TALLY_WQE_FN void *at(uint32_t unit) const
	{
		return static_cast<uint8_t *>(place_.block(unit / 4)) + unit % 4 * unit_bytes;
	}

	Place place_;
	uint32_t units_;
};

// Parts of requests.

// Memory of this side; length 0 leaves the piece away, max_piece at most.
struct data {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;

	TALLY_WQE_FN uint32_t units() const { return 1; }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		if (length)
			w.put(data_seg{.byte_count = length, .lkey = lkey, .addr = addr});
	}
};

// Several of them.
struct pieces {
	const data *list;
	uint32_t count;

	// More than there can be is as bad as too many.
	TALLY_WQE_FN uint32_t units() const { return count < max_units ? count : max_units; }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		for (uint32_t i = 0; i < count; i++)
			list[i].put(w);
	}
};

// Bytes that travel in the WQE itself; the QP's max_inline_data at most.
struct inline_bytes {
	const void *bytes;
	uint32_t length;

	TALLY_WQE_FN uint32_t units() const
	{
		return length ? static_cast<uint32_t>((uint64_t{length} - 1 + sizeof(be32)) / unit_bytes + 1) : 0;
	}
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		const auto *from = static_cast<const uint8_t *>(bytes);
		uint32_t left = length;

		if (!left)
			return;
		inline_seg first{};
		first.byte_count = inline_bit | left;
		const uint32_t head = left < sizeof(first.bytes) ? left : sizeof(first.bytes);
		for (uint32_t i = 0; i < head; i++)
			first.bytes[i] = from[i];
		w.put(first);
		for (from += head, left -= head; left >= unit_bytes; from += unit_bytes, left -= unit_bytes)
			w.put(*reinterpret_cast<const unit *>(from));
		if (left) {
			unit last{};
			for (uint32_t i = 0; i < left; i++)
				last.bytes[i] = from[i];
			w.put(last);
		}
	}

    private:
	struct TALLY_WQE_SEGMENT unit {
		uint8_t bytes[unit_bytes];
	};
};

// An empty message.
struct nothing {
	TALLY_WQE_FN uint32_t units() const { return 0; }
	template <class W> TALLY_WQE_FN void put(W &) const {}
};

// Memory of the other side.
struct remote {
	uint64_t addr;
	uint32_t rkey;

	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		w.put(raddr_seg{.addr = addr, .rkey = rkey, .reserved = {}});
	}
};

// Whom a request goes to.

// RC and UC: the QP knows.
struct connected {
	static constexpr uint32_t units = 0;
	static constexpr uint16_t stream = 0;
	template <class W> TALLY_WQE_FN void put(W &) const {}
};

// XRC: a shared receive queue of the peer.
struct xrc {
	uint32_t srqn;

	static constexpr uint32_t units = 1;
	static constexpr uint16_t stream = 0;
	template <class W> TALLY_WQE_FN void put(W &w) const { w.put(xrc_seg{.srqn = srqn, .reserved = {}}); }
};

// UD: a QP, by an address handle.  @path is what mlx5dv_init_obj() gives for the handle (struct mlx5dv_ah, av).
struct ud {
	const av_seg *path;
	uint32_t qpn;
	uint32_t qkey;

	static constexpr uint32_t units = 3;
	static constexpr uint16_t stream = 0;
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		av_seg av = *path;

		av.key = uint64_t{qkey} << 32 | (av.key.host() & UINT32_MAX);
		av.number = qpn | av_extended;
		w.put(av);
	}
};

// DC: a target, by an address handle, its number and its access key; on one of the initiator's streams.
struct dc {
	const av_seg *path;
	uint32_t dctn;
	uint64_t access_key;
	uint16_t stream = 0;

	static constexpr uint32_t units = 3;
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		av_seg av = *path;

		av.key = access_key;
		av.number = av.number.host() | dctn | av_extended;
		w.put(av);
	}
};

// Requests.  Each says how many units it takes at most, whether its arguments can be said in a WQE, what stands in the
// control segment, and whether the request behind it has to carry small_fence.

struct request_base {
	static constexpr uint8_t opmod = 0;
	static constexpr uint16_t stream = 0;
	static constexpr bool fences_next = false;
	TALLY_WQE_FN uint32_t imm() const { return 0; }
	TALLY_WQE_FN bool valid() const { return true; }
};

struct nop : request_base {
	static constexpr opcode op = op_nop;
	TALLY_WQE_FN uint32_t units() const { return 1; }
	template <class W> TALLY_WQE_FN void put(W &) const {}
};

namespace detail {

template <opcode Op, class Payload, class To> struct message : request_base {
	static constexpr opcode op = Op;
	Payload payload;
	To to;
	uint16_t stream = to.stream;

	TALLY_WQE_FN message(const Payload &p, const To &t) : payload(p), to(t) {}
	TALLY_WQE_FN uint32_t units() const { return 1 + To::units + payload.units(); }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		to.put(w);
		payload.put(w);
	}
};

template <opcode Op, class Payload, class To> struct transfer : message<Op, Payload, To> {
	remote peer;

	TALLY_WQE_FN transfer(const remote &r, const Payload &p, const To &t) : message<Op, Payload, To>(p, t), peer(r)
	{
	}
	TALLY_WQE_FN uint32_t units() const { return message<Op, Payload, To>::units() + 1; }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		this->to.put(w);
		peer.put(w);
		this->payload.put(w);
	}
};

template <opcode Op, class Payload, class To> struct atomic : transfer<Op, Payload, To> {
	uint64_t swap_add, compare;

	TALLY_WQE_FN atomic(const remote &r, uint64_t swap_add_value, uint64_t compare_value, const Payload &p,
			    const To &t)
		: transfer<Op, Payload, To>(r, p, t), swap_add(swap_add_value), compare(compare_value)
	{
	}
	TALLY_WQE_FN uint32_t units() const { return transfer<Op, Payload, To>::units() + 1; }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		this->to.put(w);
		this->peer.put(w);
		w.put(atomic_seg{.swap_add = swap_add, .compare = compare});
		this->payload.put(w);
	}
};

// One with a number in the control segment.
template <class Base> struct with_imm : Base {
	uint32_t value;

	template <class... Args> TALLY_WQE_FN with_imm(uint32_t v, const Args &...args) : Base(args...), value(v) {}
	TALLY_WQE_FN uint32_t imm() const { return value; }
};

} // namespace detail

// SEND of @payload: data, pieces, inline_bytes or nothing.
template <class Payload, class To = connected> struct send : detail::message<op_send, Payload, To> {
	TALLY_WQE_FN explicit send(const Payload &p, const To &to = {}) : detail::message<op_send, Payload, To>(p, to)
	{
	}
};

template <class Payload, class To = connected>
struct send_imm : detail::with_imm<detail::message<op_send_imm, Payload, To>> {
	TALLY_WQE_FN send_imm(uint32_t imm, const Payload &p, const To &to = {})
		: detail::with_imm<detail::message<op_send_imm, Payload, To>>(imm, p, to)
	{
	}
};

// SEND that invalidates @rkey of the peer.
template <class Payload, class To = connected>
struct send_inval : detail::with_imm<detail::message<op_send_inval, Payload, To>> {
	TALLY_WQE_FN send_inval(uint32_t rkey, const Payload &p, const To &to = {})
		: detail::with_imm<detail::message<op_send_inval, Payload, To>>(rkey, p, to)
	{
	}
};

template <class Payload, class To = connected> struct rdma_write : detail::transfer<op_rdma_write, Payload, To> {
	TALLY_WQE_FN rdma_write(const remote &r, const Payload &p, const To &to = {})
		: detail::transfer<op_rdma_write, Payload, To>(r, p, to)
	{
	}
};

template <class Payload, class To = connected>
struct rdma_write_imm : detail::with_imm<detail::transfer<op_rdma_write_imm, Payload, To>> {
	TALLY_WQE_FN rdma_write_imm(uint32_t imm, const remote &r, const Payload &p, const To &to = {})
		: detail::with_imm<detail::transfer<op_rdma_write_imm, Payload, To>>(imm, r, p, to)
	{
	}
};

// Not with inline_bytes.
template <class Payload, class To = connected> struct rdma_read : detail::transfer<op_rdma_read, Payload, To> {
	TALLY_WQE_FN rdma_read(const remote &r, const Payload &p, const To &to = {})
		: detail::transfer<op_rdma_read, Payload, To>(r, p, to)
	{
	}
};

// Atomics on 8 bytes; the old value goes to @result, 8 bytes.
template <class To = connected> struct compare_swap : detail::atomic<op_atomic_cs, data, To> {
	TALLY_WQE_FN compare_swap(const remote &r, uint64_t compare, uint64_t swap, const data &result,
				  const To &to = {})
		: detail::atomic<op_atomic_cs, data, To>(r, swap, compare, result, to)
	{
	}
};

template <class To = connected> struct fetch_add : detail::atomic<op_atomic_fa, data, To> {
	TALLY_WQE_FN fetch_add(const remote &r, uint64_t add, const data &result, const To &to = {})
		: detail::atomic<op_atomic_fa, data, To>(r, add, 0, result, to)
	{
	}
};

// What mlx5dv_wr_memcpy() posts: a copy within the host, 1 to max_copy bytes.  @scratch names 64 bytes of memory, with
// local write, that nobody looks at.
struct copy : request_base {
	static constexpr opcode op = op_mmo;
	static constexpr uint8_t opmod = mmo_dma;

	struct end {
		uint64_t addr;
		uint32_t lkey;
	};
	end to, from, scratch;
	uint64_t length;

	TALLY_WQE_FN copy(const end &t, const end &f, uint64_t bytes, const end &s)
		: to(t), from(f), scratch(s), length(bytes)
	{
	}
	TALLY_WQE_FN bool valid() const { return length - 1 < max_copy; }
	TALLY_WQE_FN uint32_t units() const { return 4; }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		const uint32_t count = static_cast<uint32_t>(length & (max_copy - 1));

		w.put(mmo_seg{.control = {}, .lkey = scratch.lkey, .addr = scratch.addr});
		w.put(data_seg{.byte_count = count, .lkey = from.lkey, .addr = from.addr});
		w.put(data_seg{.byte_count = count, .lkey = to.lkey, .addr = to.addr});
	}
};

// Requests on an mkey.  Its lkey is what names it.

namespace detail {

struct umr : request_base {
	static constexpr opcode op = op_umr;
	static constexpr bool fences_next = true;
	uint32_t mkey;

	TALLY_WQE_FN explicit umr(uint32_t key) : mkey(key) {}
	TALLY_WQE_FN uint32_t imm() const { return mkey; }

    protected:
	static constexpr uint32_t head_units = 8;

	template <class W>
	TALLY_WQE_FN void put_layout(W &w, uint8_t flags, uint32_t klm_units, uint8_t access, uint64_t length) const
	{
		umr_ctrl_seg ctrl{};
		mkey_seg key{};

		ctrl.flags = flags;
		ctrl.klm_units = static_cast<uint16_t>((klm_units + 3) & ~3u);
		ctrl.mkey_mask = umr_mask_free | umr_mask_mkey | umr_mask_access | umr_mask_length;
		key.access = access;
		key.qpn_tag = any_qp | (mkey & 0xff);
		key.length = length;
		w.put(ctrl);
		w.put(key);
	}
};

} // namespace detail

// IBV_WR_LOCAL_INV: the mkey answers with errors until it is registered again.
struct local_inval : detail::umr {
	TALLY_WQE_FN explicit local_inval(uint32_t key) : umr(key) {}
	TALLY_WQE_FN uint32_t units() const { return head_units; }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		umr_ctrl_seg ctrl{};
		mkey_seg key{};

		ctrl.flags = umr_inline | umr_translation_offset | umr_check_qpn;
		ctrl.mkey_mask = umr_mask_free | umr_mask_mkey | umr_mask_qpn;
		key.free = mkey_free;
		key.qpn_tag = any_qp;
		w.put(ctrl);
		w.put(key);
	}
};

// mlx5dv_wr_mr_list(): the mkey is these pieces, one behind the other, from address 0 on.  max_umr_pieces at most.
struct register_list : detail::umr {
	uint8_t rights; // enum access
	pieces layout;

	TALLY_WQE_FN register_list(uint32_t key, uint8_t access, const pieces &p) : umr(key), rights(access), layout(p)
	{
	}
	TALLY_WQE_FN bool valid() const { return layout.count <= max_umr_pieces; }
	TALLY_WQE_FN uint32_t units() const { return head_units + ((layout.count + 3) & ~3u); }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		uint64_t length = 0;

		for (uint32_t i = 0; i < layout.count; i++)
			length += layout.list[i].length;
		this->put_layout(w, umr_inline, layout.count, rights, length);
		for (uint32_t i = 0; i < layout.count; i++) {
			const data &d = layout.list[i];
			w.put(data_seg{.byte_count = d.length, .lkey = d.lkey, .addr = d.addr});
		}
		w.pad();
	}
};

// One entry of a pattern: @bytes of data, then @skip bytes left out; together less than 2^16.
struct stride {
	uint64_t addr;
	uint32_t bytes;
	uint32_t skip;
	uint32_t lkey;
};

// mlx5dv_wr_mr_interleaved(): the mkey is the entries' data in turn, all of it @repeat times, from address 0 on.
// max_umr_strides at most.
struct register_interleaved : detail::umr {
	uint8_t rights; // enum access
	uint32_t repeat;
	const stride *list;
	uint32_t count;

	TALLY_WQE_FN register_interleaved(uint32_t key, uint8_t access, uint32_t times, const stride *entries,
					  uint32_t n)
		: umr(key), rights(access), repeat(times), list(entries), count(n)
	{
	}
	TALLY_WQE_FN bool valid() const
	{
		uint64_t beyond = count > max_umr_strides;

		for (uint32_t i = 0; !beyond && i < count; i++)
			beyond = (uint64_t{list[i].bytes} + list[i].skip) >> 16;
		return !beyond;
	}
	TALLY_WQE_FN uint32_t units() const { return head_units + ((count + 1 + 3) & ~3u); }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		uint32_t length = 0;

		for (uint32_t i = 0; i < count; i++)
			length += list[i].bytes;
		this->put_layout(w, umr_inline, count + 1, rights, uint64_t{length} * repeat);
		w.put(repeat_seg{.byte_count = length,
				 .op = repeat_op,
				 .repeat_count = repeat,
				 .reserved = {},
				 .entries = static_cast<uint16_t>(count)});
		for (uint32_t i = 0; i < count; i++) {
			const stride &s = list[i];
			w.put(stride_seg{.stride = static_cast<uint16_t>(s.bytes + s.skip),
					 .byte_count = static_cast<uint16_t>(s.bytes),
					 .lkey = s.lkey,
					 .addr = s.addr});
		}
		w.pad();
	}
};

// The same with a list in memory instead of in the WQE, for layouts of more entries than a WQE has room for.  @list is
// where it is: entries of 16 bytes (data_seg; or repeat_seg and stride_seg), padded with zeros to a multiple of 64
// bytes, which @list.length includes (1 MiB - 64 at most).  It must stay until the request is done.
struct register_from_memory : detail::umr {
	uint8_t rights; // enum access
	uint64_t bytes; // length of the mkey
	data list;

	TALLY_WQE_FN register_from_memory(uint32_t key, uint8_t access, uint64_t length, const data &entries)
		: umr(key), rights(access), bytes(length), list(entries)
	{
	}
	TALLY_WQE_FN bool valid() const
	{
		return list.length && list.length % block_bytes == 0 && list.length / unit_bytes <= UINT16_MAX;
	}
	TALLY_WQE_FN uint32_t units() const { return head_units + 1; }
	template <class W> TALLY_WQE_FN void put(W &w) const
	{
		this->put_layout(w, 0, list.length / unit_bytes, rights, bytes);
		list.put(w);
	}
};

// Writes @request and returns its length in units; 0 if it cannot be said in a WQE, and then nothing is written.  The
// caller has seen to it that there is room for request.units().
template <class Place, class Request>
TALLY_WQE_FN uint32_t build(const Place &place, const header &h, const Request &request)
{
	if (request.units() > max_units || !request.valid())
		return 0;
	writer<Place> w(place);
	request.put(w);
	w.put_ctrl({.opmod_index_opcode = uint32_t{Request::opmod} << 24 | uint32_t{h.index} << 8 | Request::op,
		    .qpn_units = h.qpn << 8 | w.units(),
		    .signature_stream_fm_ce_se = uint32_t{request.stream} << 8 | h.flags,
		    .imm = request.imm()});
	return w.units();
}

// The fence that the request behind a WQE of the caller's making has to carry, where the one in its place had to carry
// @owed: an UMR is to be waited for, and who waits himself has done so for the others.
TALLY_WQE_FN uint8_t fence_behind_raw(const ctrl_seg &ctrl, uint8_t owed)
{
	constexpr uint32_t fences = 7 << 5;

	if ((ctrl.opmod_index_opcode.host() & 0xff) == op_umr)
		return small_fence;
	return ctrl.signature_stream_fm_ce_se.host() & fences ? 0 : owed;
}

// A WQE that the caller wrote whole, as mlx5dv_wr_raw_wqe() takes it: copies it, and writes the index of its new place.
// Returns its length in units; 0 if it says that it has none.
template <class Place> TALLY_WQE_FN uint32_t build_raw(const Place &place, uint16_t index, const void *wqe)
{
	const auto *from = static_cast<const data_seg *>(wqe);
	ctrl_seg ctrl = *static_cast<const ctrl_seg *>(wqe);
	const uint32_t units = ctrl.qpn_units.host() & max_units;
	writer<Place> w(place);

	if (!units)
		return 0;
	for (uint32_t i = 1; i < units; i++)
		w.put(from[i]);
	ctrl.opmod_index_opcode = (ctrl.opmod_index_opcode.host() & 0xff0000ff) | uint32_t{index} << 8;
	w.put_ctrl(ctrl);
	return units;
}

} // namespace tally::wqe
