// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Send WQEs as user space writes them: segments of 16 bytes, everything big-endian.
#pragma once

#include <cstring>
#include <hca.hpp>
#include <span>
#include <vector>

namespace world {

struct Sge {
	u64 addr = 0;
	u32 len = 0;
	u32 key = 0;
};

inline hca_wqe_data data_segment(const Sge &s)
{
	return {.byte_count = cpu_to_be32(s.len), .lkey = cpu_to_be32(s.key), .addr = cpu_to_be64(s.addr)};
}

// A pattern's piece, as mlx5dv_wr_mr_interleaved() has it.
struct Block {
	u64 addr = 0;
	u16 bytes = 0;
	u16 skip = 0;
	u32 key = 0;
};

struct UmrOptions {
	u32 access = HCA_MKEY_LOCAL_WRITE | HCA_MKEY_REMOTE_READ | HCA_MKEY_REMOTE_WRITE | HCA_MKEY_ATOMIC;
	u8 flags = HCA_UMR_INLINE;
	u64 mask = HCA_UMR_FREE | HCA_UMR_MKEY | HCA_UMR_LEN | HCA_UMR_LOCAL_WRITE | HCA_UMR_REMOTE_READ |
		   HCA_UMR_REMOTE_WRITE | HCA_UMR_ATOMIC;
	int variant = -1; // default: as the key has it
	u32 qpn = HCA_ANY_QPN;
	u64 start = 0;
	bool free = false;
	long long length = -1; // default: the sum
	int octowords = -1;    // default: what there is
};

class Wqe {
public:
	explicit Wqe(u8 opcode) : opcode_(opcode), bytes_(sizeof(hca_wqe_ctrl)) {}

	static Wqe nop() { return Wqe(HCA_OPCODE_NOP); }
	static Wqe send() { return Wqe(HCA_OPCODE_SEND); }
	static Wqe send_imm(u32 imm) { return Wqe(HCA_OPCODE_SEND_IMM).imm(imm); }
	static Wqe send_inval(u32 key) { return Wqe(HCA_OPCODE_SEND_INVAL).imm(key); }
	static Wqe local_inval(u32 key) { return Wqe(HCA_OPCODE_LOCAL_INVAL).imm(key); }
	static Wqe write(u64 addr, u32 rkey) { return Wqe(HCA_OPCODE_RDMA_WRITE).remote(addr, rkey); }
	static Wqe write_imm(u64 addr, u32 rkey, u32 imm)
	{
		return Wqe(HCA_OPCODE_RDMA_WRITE_IMM).remote(addr, rkey).imm(imm);
	}
	static Wqe read(u64 addr, u32 rkey) { return Wqe(HCA_OPCODE_RDMA_READ).remote(addr, rkey); }
	static Wqe fetch_add(u64 addr, u32 rkey, u64 add)
	{
		return Wqe(HCA_OPCODE_ATOMIC_FA).remote(addr, rkey).atomic(add, 0);
	}
	static Wqe compare_swap(u64 addr, u32 rkey, u64 compare, u64 swap)
	{
		return Wqe(HCA_OPCODE_ATOMIC_CS).remote(addr, rkey).atomic(swap, compare);
	}

	// To a device of the world, whose GID ends with its number: a datagram's or a DC request's address.
	Wqe &to(u8 device, u32 qpn, u64 key, bool extended = true)
	{
		hca_wqe_av av{};
		av.key = cpu_to_be64(key);
		av.dqp = cpu_to_be32(qpn | (extended ? HCA_AV_EXTENDED : 0));
		av.rgid[15] = device;
		return append(&av, sizeof(av)), *this;
	}
	Wqe &to_group(u8 group, u32 qkey)
	{
		hca_wqe_av av{};
		av.key = cpu_to_be64(u64{qkey} << 32);
		av.dqp = cpu_to_be32(0xffffff | HCA_AV_EXTENDED);
		av.rgid[0] = 0xff;
		av.rgid[15] = group;
		return append(&av, sizeof(av)), *this;
	}
	Wqe &to_srq(u32 srqn)
	{
		hca_wqe_xrc xrc{};
		xrc.srqn = cpu_to_be32(srqn);
		return append(&xrc, sizeof(xrc)), *this;
	}
	Wqe &stream(u16 id) { return stream_ = id, *this; }

	// Both as data segments say it: length 0 is HCA_MMO_MAX.
	static Wqe memcpy(const Sge &from, const Sge &to)
	{
		return Wqe(HCA_OPCODE_MMO).opmod(HCA_MMO_DMA).segment(hca_wqe_mmo{}).sge(from).sge(to);
	}

	static Wqe umr(u32 key, const UmrOptions &o, u64 length, u32 octowords)
	{
		hca_wqe_umr umr{};
		hca_wqe_mkey mk{};
		umr.flags = o.flags;
		umr.klm_octowords = cpu_to_be16(static_cast<u16>(o.octowords < 0 ? octowords : o.octowords));
		umr.mkey_mask = cpu_to_be64(o.mask);
		mk.free = o.free ? HCA_MKEY_FREE : 0;
		mk.access_flags = static_cast<u8>(o.access);
		mk.qpn_mkey = cpu_to_be32(o.qpn << 8 | (o.variant < 0 ? key & 0xff : static_cast<u32>(o.variant)));
		mk.start_addr = cpu_to_be64(o.start);
		mk.len = cpu_to_be64(o.length < 0 ? length : static_cast<u64>(o.length));
		Wqe w = Wqe(HCA_OPCODE_UMR).imm(key);
		w.append(&umr, sizeof(umr));
		w.append(&mk, sizeof(mk));
		return w;
	}
	static hca_klm klm(const Sge &s)
	{
		return {.byte_count = cpu_to_be32(s.len), .key = cpu_to_be32(s.key), .addr = cpu_to_be64(s.addr)};
	}
	static Wqe umr_list(u32 key, std::span<const Sge> list, const UmrOptions &o = {})
	{
		u64 total = 0;
		for (auto &s : list)
			total += s.len;
		u32 units = static_cast<u32>((list.size() + 3) / 4 * 4);
		Wqe w = umr(key, o, total, units);
		for (auto &s : list)
			w.segment(klm(s));
		w.bytes_.resize(w.bytes_.size() + (units - list.size()) * 16);
		return w;
	}
	static Wqe umr_pattern(u32 key, u32 repeat, std::span<const Block> blocks, const UmrOptions &o = {})
	{
		u64 round = 0;
		for (auto &b : blocks)
			round += b.bytes;
		u32 units = static_cast<u32>((blocks.size() + 1 + 3) / 4 * 4);
		Wqe w = umr(key, o, round * repeat, units);
		w.segment(hca_repeat{.byte_count = cpu_to_be32(static_cast<u32>(round)),
				     .op = cpu_to_be32(HCA_REPEAT_OP),
				     .repeat_count = cpu_to_be32(repeat),
				     .rsvd = 0,
				     .num_entries = cpu_to_be16(static_cast<u16>(blocks.size()))});
		for (auto &b : blocks)
			w.segment(hca_repeat_entry{.stride = cpu_to_be16(static_cast<u16>(b.bytes + b.skip)),
						   .byte_count = cpu_to_be16(b.bytes),
						   .key = cpu_to_be32(b.key),
						   .addr = cpu_to_be64(b.addr)});
		w.bytes_.resize(w.bytes_.size() + (units - blocks.size() - 1) * 16);
		return w;
	}
	// Entries in memory that @where names; @length is of what they describe.
	static Wqe umr_by_pointer(u32 key, const Sge &where, u64 length, UmrOptions o = {})
	{
		o.flags &= static_cast<u8>(~HCA_UMR_INLINE);
		Wqe w = umr(key, o, length, where.len / 16);
		return w.sge(where);
	}
	// IBV_WR_LOCAL_INV as libmlx5 posts it.
	static Wqe umr_free(u32 key)
	{
		return umr(key,
			   {.flags = HCA_UMR_OFFSET | HCA_UMR_INLINE | HCA_UMR_CHECK_QPN,
			    .mask = HCA_UMR_FREE | HCA_UMR_MKEY | HCA_UMR_QPN, .variant = 0, .free = true},
			   0, 0);
	}

	Wqe &remote(u64 addr, u32 rkey)
	{
		return segment(hca_wqe_raddr{cpu_to_be64(addr), cpu_to_be32(rkey), 0});
	}
	Wqe &atomic(u64 swap_add, u64 compare)
	{
		return segment(hca_wqe_atomic{cpu_to_be64(swap_add), cpu_to_be64(compare)});
	}
	Wqe &sge(const Sge &s) { return segment(data_segment(s)); }
	Wqe &sges(std::span<const Sge> list)
	{
		for (auto &s : list)
			sge(s);
		return *this;
	}
	Wqe &inline_data(std::span<const u8> data)
	{
		__be32 count = cpu_to_be32(HCA_INLINE_SEG | static_cast<u32>(data.size()));
		append(&count, sizeof(count));
		append(data.data(), data.size());
		bytes_.resize((bytes_.size() + 15) / 16 * 16);
		return *this;
	}
	Wqe &raw(std::span<const u8> data)
	{
		append(data.data(), data.size());
		return *this;
	}
	Wqe &imm(u32 value) { return imm_ = value, *this; }
	Wqe &signaled(bool on = true) { return signaled_ = on, *this; }
	Wqe &opmod(u8 value) { return opmod_ = value, *this; }
	Wqe &solicited() { return solicited_ = true, *this; }
	// What the control segment says instead of the truth.
	Wqe &claim_ds(u8 ds) { return ds_ = ds, *this; }
	Wqe &claim_qpn(u32 qpn) { return qpn_ = qpn, *this; }
	Wqe &opcode(u8 op) { return opcode_ = op, *this; }

	u32 slots() const { return static_cast<u32>((bytes_.size() + HCA_WQE_BB - 1) / HCA_WQE_BB); }

	// With its control segment, for the slot @index of QP @qpn.
	std::vector<u8> bytes(u16 index, u32 qpn) const
	{
		auto b = bytes_;
		u32 ds = ds_ < 0 ? static_cast<u32>(bytes_.size() / 16) : static_cast<u32>(ds_);
		u8 flags = static_cast<u8>((signaled_ ? HCA_WQE_CQ_UPDATE : 0) |
					   (solicited_ ? HCA_WQE_SOLICITED : 0));
		hca_wqe_ctrl ctrl{};
		ctrl.opmod_idx_opcode = cpu_to_be32(u32{opmod_} << 24 | u32{index} << 8 | opcode_);
		ctrl.qpn_ds = cpu_to_be32((qpn_ < 0 ? qpn : static_cast<u32>(qpn_)) << 8 | ds);
		ctrl.fm_ce_se = flags;
		ctrl.stream[0] = static_cast<u8>(stream_ >> 8);
		ctrl.stream[1] = static_cast<u8>(stream_);
		ctrl.imm = cpu_to_be32(imm_);
		std::memcpy(b.data(), &ctrl, sizeof(ctrl));
		return b;
	}

private:
	void append(const void *p, size_t n)
	{
		auto *from = static_cast<const u8 *>(p);
		bytes_.insert(bytes_.end(), from, from + n);
	}
	template <class T> Wqe &segment(const T &t)
	{
		static_assert(sizeof(T) == 16);
		append(&t, sizeof(t));
		return *this;
	}

	u8 opcode_;
	u8 opmod_ = 0;
	bool signaled_ = true;
	bool solicited_ = false;
	u32 imm_ = 0;
	u16 stream_ = 0;
	int ds_ = -1;
	long qpn_ = -1;
	std::vector<u8> bytes_;
};

} // namespace world
