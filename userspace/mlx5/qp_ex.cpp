// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ibv_wr_*() and mlx5dv_wr_*() with WQEs of our making, which libmlx5 posts as raw ones.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <tally/mlx5.h>
#include <tally/work_queue.hpp>
#include <tally/wqe.hpp>

#define TALLY_API extern "C" __attribute__((visibility("default")))

namespace tally {
namespace {

struct handle;

// What the program sees.
struct faces {
	ibv_qp_ex qp;
	mlx5dv_qp_ex dv;
	handle *owner;
};

struct mr_end {
	void operator()(ibv_mr *mr) const { ibv_dereg_mr(mr); }
};

// Units between the control segment and the rest of a request.  Where there are some, the second of two setters
// completes the request.
std::uint32_t address_units(ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return wqe::xrc::units;
	case IBV_QPT_UD:
		return wqe::ud::units;
	case IBV_QPT_DRIVER:
		return wqe::dc::units;
	default:
		return 0;
	}
}

// Belongs to whoever holds libmlx5's lock of the send queue, which is held from start to complete or abort.
struct handle {
	faces face{};

	// Set when it is made: libmlx5's own, and what the queue pair can.
	ibv_qp_ex *theirs = nullptr;
	mlx5dv_qp_ex *their_dv = nullptr;
	const wqe::be32 *record = nullptr; // of the send queue
	std::uint32_t max_sge = 0, max_inline = 0;
	std::uint64_t max_copy = 0;
	std::uint8_t always = 0; // flags of every request, of sq_sig_all
	std::uint32_t address = 0;
	alignas(64) std::uint8_t scratch[64]; // for the device, during copies
	std::unique_ptr<ibv_mr, mr_end> scratch_mr;

	// The batch: the first error; the fence that the next request needs, and needed at the start; and what the
	// doorbell record will say.
	int err = 0;
	std::uint8_t next_fence = 0, fence_at_start = 0;
	std::uint32_t used = 0;
	// Where the record was after our last batch.  If it is elsewhere, libmlx5 has posted, perhaps an UMR.
	std::uint32_t left_at = 0;

	// The request under construction.
	alignas(64) std::uint8_t bytes[wqe::block_bytes * 16];
	wqe::writer<wqe::linear> writer{wqe::linear{bytes}};
	wqe::opcode opcode = wqe::op_nop;
	std::uint32_t imm = 0;
	std::uint64_t wr_id = 0;
	std::uint16_t stream = 0;
	std::uint8_t flags = 0;
	int setters = 0;

	static handle &of(ibv_qp_ex *qp) { return *reinterpret_cast<faces *>(qp)->owner; }
	static handle &of(mlx5dv_qp_ex *dv)
	{
		return *reinterpret_cast<faces *>(reinterpret_cast<char *>(dv) - offsetof(faces, dv))->owner;
	}

	void fail(int e)
	{
		if (!err)
			err = e;
	}

	// The flags that the program wants and the fences ask for.
	std::uint8_t take_flags(bool fences_next)
	{
		const unsigned wanted = face.qp.wr_flags;
		std::uint8_t taken = always;

		if (wanted & IBV_SEND_SIGNALED)
			taken |= wqe::signaled;
		if (wanted & IBV_SEND_SOLICITED)
			taken |= wqe::solicited;
		taken |= wanted & IBV_SEND_FENCE ? static_cast<std::uint8_t>(wqe::strong_fence) : next_fence;
		next_fence = fences_next ? wqe::small_fence : 0;
		return taken;
	}

	void post(std::uint64_t id, const void *wqe, std::uint32_t units)
	{
		theirs->wr_id = id;
		their_dv->wr_raw_wqe(their_dv, wqe);
		used += wqe::blocks_of(units);
	}

	// A request that no setter completes.
	template <class Request> void whole(const Request &request)
	{
		if (err)
			return;
		const std::uint32_t units = wqe::build(
			wqe::linear{bytes},
			{.qpn = face.qp.qp_base.qp_num, .index = 0, .flags = take_flags(Request::fences_next)},
			request);
		if (!units)
			return fail(EINVAL);
		post(face.qp.wr_id, bytes, units);
	}

	// One that setters complete.
	void begin(wqe::opcode op, std::uint32_t number = 0)
	{
		writer = wqe::writer<wqe::linear>(wqe::linear{bytes});
		for (std::uint32_t i = 0; i < address; i++)
			writer.put(wqe::data_seg{});
		opcode = op;
		imm = number;
		wr_id = face.qp.wr_id;
		flags = take_flags(false);
		stream = 0;
		setters = address ? 2 : 1;
	}

	void set()
	{
		if (--setters || err)
			return;
		writer.put_ctrl({.opmod_index_opcode = opcode,
				 .qpn_units = face.qp.qp_base.qp_num << 8 | writer.units(),
				 .signature_stream_fm_ce_se = std::uint32_t{stream} << 8 | flags,
				 .imm = imm});
		post(wr_id, bytes, writer.units());
	}

	template <class Payload> void set_payload(const Payload &payload)
	{
		if (writer.units() + payload.units() <= wqe::max_units)
			payload.put(writer);
		else
			fail(ENOMEM);
		set();
	}

	template <class To> void set_address(const To &to)
	{
		wqe::writer<wqe::linear> first(wqe::linear{bytes});

		to.put(first);
		stream = to.stream;
		set();
	}

	// The address vector of a handle; nullptr and an error if there is none.
	const wqe::av_seg *path(ibv_ah *ah)
	{
		const auto found = path_of(*ah);

		if (!found)
			fail(found.error().value());
		return found.value_or(nullptr);
	}
};

// The batch.

void start(ibv_qp_ex *qp)
{
	handle &h = handle::of(qp);

	h.theirs->wr_start(h.theirs);
	h.err = 0;
	h.used = h.record->host() & 0xffff;
	if (h.used != h.left_at)
		h.next_fence = wqe::small_fence;
	h.fence_at_start = h.next_fence;
}

void abort_batch(ibv_qp_ex *qp)
{
	handle &h = handle::of(qp);

	h.next_fence = h.fence_at_start;
	h.theirs->wr_abort(h.theirs);
}

int complete(ibv_qp_ex *qp)
{
	handle &h = handle::of(qp);

	if (const int err = h.err) {
		abort_batch(qp);
		return err;
	}
	// Before the call, with whose end the lock ends.  Should it fail, the record stays behind, and the next start
	// takes that for a reason to fence.
	h.left_at = h.used & 0xffff;
	return h.theirs->wr_complete(h.theirs);
}

// Builders.

void send(ibv_qp_ex *qp)
{
	handle::of(qp).begin(wqe::op_send);
}

void send_imm(ibv_qp_ex *qp, __be32 imm)
{
	handle::of(qp).begin(wqe::op_send_imm, be32toh(imm));
}

void send_inv(ibv_qp_ex *qp, std::uint32_t rkey)
{
	handle::of(qp).begin(wqe::op_send_inval, rkey);
}

void rdma(ibv_qp_ex *qp, wqe::opcode op, std::uint32_t rkey, std::uint64_t addr, std::uint32_t imm = 0)
{
	handle &h = handle::of(qp);

	h.begin(op, imm);
	wqe::remote{addr, rkey}.put(h.writer);
}

void rdma_write(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr)
{
	rdma(qp, wqe::op_rdma_write, rkey, addr);
}

void rdma_write_imm(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr, __be32 imm)
{
	rdma(qp, wqe::op_rdma_write_imm, rkey, addr, be32toh(imm));
}

void rdma_read(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr)
{
	rdma(qp, wqe::op_rdma_read, rkey, addr);
}

void compare_swap(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr, std::uint64_t compare, std::uint64_t swap)
{
	rdma(qp, wqe::op_atomic_cs, rkey, addr);
	handle::of(qp).writer.put(wqe::atomic_seg{.swap_add = swap, .compare = compare});
}

void fetch_add(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr, std::uint64_t add)
{
	rdma(qp, wqe::op_atomic_fa, rkey, addr);
	handle::of(qp).writer.put(wqe::atomic_seg{.swap_add = add, .compare = {}});
}

void local_inv(ibv_qp_ex *qp, std::uint32_t rkey)
{
	handle::of(qp).whole(wqe::local_inval(rkey));
}

// Whether an UMR can go into a WQE of this queue pair; @entries of 16 bytes.
bool umr_fits(handle &h, std::uint32_t access, std::uint32_t entries)
{
	if (!(h.face.qp.wr_flags & IBV_SEND_INLINE))
		h.fail(EOPNOTSUPP);
	else if (access & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			    IBV_ACCESS_REMOTE_ATOMIC))
		h.fail(EINVAL);
	else if (entries > (h.max_inline + sizeof(mlx5_wqe_inl_data_seg)) / wqe::unit_bytes)
		h.fail(ENOMEM);
	return !h.err;
}

std::uint8_t rights_of(std::uint32_t access)
{
	return static_cast<std::uint8_t>((access & IBV_ACCESS_LOCAL_WRITE ? wqe::local_write : 0) |
					 (access & IBV_ACCESS_REMOTE_READ ? wqe::remote_read : 0) |
					 (access & IBV_ACCESS_REMOTE_WRITE ? wqe::remote_write : 0) |
					 (access & IBV_ACCESS_REMOTE_ATOMIC ? wqe::remote_atomic : 0));
}

void mr_list(mlx5dv_qp_ex *dv, mlx5dv_mkey *mkey, std::uint32_t access, std::uint16_t count, ibv_sge *sges)
{
	handle &h = handle::of(dv);
	wqe::data list[wqe::max_umr_pieces];

	if (count > wqe::max_umr_pieces)
		return h.fail(ENOMEM);
	if (!umr_fits(h, access, count))
		return;
	for (std::uint32_t i = 0; i < count; i++)
		list[i] = {sges[i].addr, sges[i].length, sges[i].lkey};
	h.whole(wqe::register_list(mkey->lkey, rights_of(access), {list, count}));
}

void mr_interleaved(mlx5dv_qp_ex *dv, mlx5dv_mkey *mkey, std::uint32_t access, std::uint32_t repeat,
		    std::uint16_t count, mlx5dv_mr_interleaved *data)
{
	handle &h = handle::of(dv);
	wqe::stride list[wqe::max_umr_strides];

	if (count > wqe::max_umr_strides)
		return h.fail(ENOMEM);
	if (!umr_fits(h, access, count + 1u))
		return;
	for (std::uint32_t i = 0; i < count; i++)
		list[i] = {data[i].addr, data[i].bytes_count, data[i].bytes_skip, data[i].lkey};
	h.whole(wqe::register_interleaved(mkey->lkey, rights_of(access), repeat, list, count));
}

void memcpy_wr(mlx5dv_qp_ex *dv, std::uint32_t to_lkey, std::uint64_t to, std::uint32_t from_lkey, std::uint64_t from,
	       std::size_t length)
{
	handle &h = handle::of(dv);

	if (length > h.max_copy)
		return h.fail(EINVAL);
	h.whole(wqe::copy({to, to_lkey}, {from, from_lkey}, length,
			  {reinterpret_cast<std::uintptr_t>(h.scratch), h.scratch_mr->lkey}));
}

void raw_wqe(mlx5dv_qp_ex *dv, const void *wqe)
{
	handle &h = handle::of(dv);

	if (h.err)
		return;
	const auto &ctrl = *static_cast<const wqe::ctrl_seg *>(wqe);
	h.next_fence = wqe::fence_behind_raw(ctrl, h.next_fence);
	h.post(h.face.qp.wr_id, wqe, ctrl.qpn_units.host() & wqe::max_units);
}

// Setters.

void set_sge(ibv_qp_ex *qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length)
{
	handle &h = handle::of(qp);

	if (length > wqe::max_piece)
		h.fail(EINVAL);
	h.set_payload(wqe::data{addr, length, lkey});
}

void set_sge_list(ibv_qp_ex *qp, std::size_t count, const ibv_sge *sges)
{
	handle &h = handle::of(qp);
	wqe::data list[wqe::max_units];

	if (count > h.max_sge || count > wqe::max_units) {
		h.fail(ENOMEM);
		count = 0;
	}
	for (std::size_t i = 0; i < count; i++) {
		if (sges[i].length > wqe::max_piece)
			h.fail(EINVAL);
		list[i] = {sges[i].addr, sges[i].length, sges[i].lkey};
	}
	h.set_payload(wqe::pieces{list, static_cast<std::uint32_t>(count)});
}

void set_inline_data(ibv_qp_ex *qp, void *addr, std::size_t length)
{
	handle &h = handle::of(qp);

	if (length > h.max_inline) {
		h.fail(ENOMEM);
		length = 0;
	}
	h.set_payload(wqe::inline_bytes{addr, static_cast<std::uint32_t>(length)});
}

void set_inline_data_list(ibv_qp_ex *qp, std::size_t count, const ibv_data_buf *list)
{
	handle &h = handle::of(qp);
	std::uint8_t all[wqe::max_units * wqe::unit_bytes];
	std::size_t length = 0;

	for (std::size_t i = 0; i < count; i++) {
		if (list[i].length > h.max_inline - length) {
			h.fail(ENOMEM);
			length = 0;
			break;
		}
		std::memcpy(all + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	h.set_payload(wqe::inline_bytes{all, static_cast<std::uint32_t>(length)});
}

void set_ud_addr(ibv_qp_ex *qp, ibv_ah *ah, std::uint32_t qpn, std::uint32_t qkey)
{
	handle &h = handle::of(qp);

	if (const wqe::av_seg *path = h.path(ah))
		h.set_address(wqe::ud{path, qpn, qkey});
}

void set_xrc_srqn(ibv_qp_ex *qp, std::uint32_t srqn)
{
	handle::of(qp).set_address(wqe::xrc{srqn});
}

void set_dc_addr_stream(mlx5dv_qp_ex *dv, ibv_ah *ah, std::uint32_t dctn, std::uint64_t key, std::uint16_t stream)
{
	handle &h = handle::of(dv);

	if (const wqe::av_seg *path = h.path(ah))
		h.set_address(wqe::dc{path, dctn, key, stream});
}

void set_dc_addr(mlx5dv_qp_ex *dv, ibv_ah *ah, std::uint32_t dctn, std::uint64_t key)
{
	set_dc_addr_stream(dv, ah, dctn, key, 0);
}

// Making a handle.

// Takes ours where the program wants it and libmlx5, which knows types and devices, has it too.
template <class Function>
bool offer(std::uint64_t &wanted, std::uint64_t flag, Function *&place, Function *theirs, Function *ours)
{
	if (!(wanted & flag))
		return true;
	wanted &= ~flag;
	place = ours;
	return theirs;
}

bool offer_all(handle &h, std::uint64_t ops, std::uint64_t dv_ops)
{
	ibv_qp_ex &q = h.face.qp;
	mlx5dv_qp_ex &d = h.face.dv;
	const ibv_qp_ex &t = *h.theirs;
	const mlx5dv_qp_ex &td = *h.their_dv;

	return offer(ops, IBV_QP_EX_WITH_SEND, q.wr_send, t.wr_send, send) &&
	       offer(ops, IBV_QP_EX_WITH_SEND_WITH_IMM, q.wr_send_imm, t.wr_send_imm, send_imm) &&
	       offer(ops, IBV_QP_EX_WITH_SEND_WITH_INV, q.wr_send_inv, t.wr_send_inv, send_inv) &&
	       offer(ops, IBV_QP_EX_WITH_RDMA_WRITE, q.wr_rdma_write, t.wr_rdma_write, rdma_write) &&
	       offer(ops, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, q.wr_rdma_write_imm, t.wr_rdma_write_imm,
		     rdma_write_imm) &&
	       offer(ops, IBV_QP_EX_WITH_RDMA_READ, q.wr_rdma_read, t.wr_rdma_read, rdma_read) &&
	       offer(ops, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, q.wr_atomic_cmp_swp, t.wr_atomic_cmp_swp, compare_swap) &&
	       offer(ops, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, q.wr_atomic_fetch_add, t.wr_atomic_fetch_add,
		     fetch_add) &&
	       offer(ops, IBV_QP_EX_WITH_LOCAL_INV, q.wr_local_inv, t.wr_local_inv, local_inv) &&
	       offer(dv_ops, MLX5DV_QP_EX_WITH_MR_LIST, d.wr_mr_list, td.wr_mr_list, mr_list) &&
	       offer(dv_ops, MLX5DV_QP_EX_WITH_MR_INTERLEAVED, d.wr_mr_interleaved, td.wr_mr_interleaved,
		     mr_interleaved) &&
	       offer(dv_ops, MLX5DV_QP_EX_WITH_MEMCPY, d.wr_memcpy, td.wr_memcpy, memcpy_wr) &&
	       offer(dv_ops, MLX5DV_QP_EX_WITH_RAW_WQE, d.wr_raw_wqe, td.wr_raw_wqe, raw_wqe) && !ops && !dv_ops;
}

void add_setters(handle &h)
{
	ibv_qp_ex &q = h.face.qp;

	q.wr_start = start;
	q.wr_complete = complete;
	q.wr_abort = abort_batch;
	q.wr_set_sge = set_sge;
	q.wr_set_sge_list = set_sge_list;
	q.wr_set_inline_data = set_inline_data;
	q.wr_set_inline_data_list = set_inline_data_list;
	if (q.qp_base.qp_type == IBV_QPT_UD)
		q.wr_set_ud_addr = set_ud_addr;
	if (q.qp_base.qp_type == IBV_QPT_XRC_SEND)
		q.wr_set_xrc_srqn = set_xrc_srqn;
	if (h.their_dv->wr_set_dc_addr) {
		h.face.dv.wr_set_dc_addr = set_dc_addr;
		h.face.dv.wr_set_dc_addr_stream = set_dc_addr_stream;
	}
}

// What copies need.
int prepare_copies(handle &h, ibv_qp &qp)
{
	mlx5dv_context device{};

	device.comp_mask = MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH;
	if (mlx5dv_query_device(qp.context, &device) || !(device.comp_mask & MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH) ||
	    !device.max_wr_memcpy_length)
		return ENOTSUP;
	h.max_copy = device.max_wr_memcpy_length;
	h.scratch_mr.reset(ibv_reg_mr(qp.pd, h.scratch, sizeof(h.scratch), IBV_ACCESS_LOCAL_WRITE));
	return h.scratch_mr ? 0 : errno;
}

int make(ibv_qp &qp, std::uint64_t ops, std::uint64_t dv_ops, handle &h)
{
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};
	mlx5dv_qp parts{};
	mlx5dv_obj object{};

	if (!mlx5dv_is_supported(qp.context->device))
		return ENOTSUP;
	h.theirs = ibv_qp_to_qp_ex(&qp);
	if (!h.theirs)
		return ENOTSUP;
	h.their_dv = mlx5dv_qp_ex_from_ibv_qp_ex(h.theirs);
	if (!h.their_dv->wr_raw_wqe)
		return ENOTSUP;

	ibv_qp &base = h.face.qp.qp_base;
	base.context = qp.context;
	base.qp_context = qp.qp_context;
	base.pd = qp.pd;
	base.send_cq = qp.send_cq;
	base.recv_cq = qp.recv_cq;
	base.srq = qp.srq;
	base.handle = qp.handle;
	base.qp_num = qp.qp_num;
	base.state = qp.state;
	base.qp_type = qp.qp_type;
	h.face.owner = &h;
	h.address = address_units(qp.qp_type);
	if (!offer_all(h, ops, dv_ops))
		return ENOTSUP;
	add_setters(h);

	object.qp.in = &qp;
	object.qp.out = &parts;
	if (const int err = mlx5dv_init_obj(&object, MLX5DV_OBJ_QP))
		return err;
	h.record = reinterpret_cast<const wqe::be32 *>(&parts.dbrec[MLX5_SND_DBR]);
	if (const int err = ibv_query_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init))
		return err;
	// What came before may have been an UMR: no record is like this one.
	h.left_at = attr.qp_state == IBV_QPS_RESET ? 0 : UINT32_MAX;
	h.max_sge = attr.cap.max_send_sge;
	h.max_inline = init.cap.max_inline_data;
	h.always = init.sq_sig_all ? wqe::signaled : 0;
	return dv_ops & MLX5DV_QP_EX_WITH_MEMCPY ? prepare_copies(h, qp) : 0;
}

} // namespace
} // namespace tally

TALLY_API mlx5dv_qp_ex *tally_mlx5dv_qp_ex_from_qp(ibv_qp *qp, std::uint64_t send_ops_flags,
						   std::uint64_t dv_send_ops_flags)
{
	std::unique_ptr<tally::handle> made(new (std::nothrow) tally::handle);
	const int err = made ? tally::make(*qp, send_ops_flags, dv_send_ops_flags, *made) : ENOMEM;

	if (err) {
		errno = err;
		return nullptr;
	}
	return &made.release()->face.dv;
}

TALLY_API ibv_qp_ex *tally_ibv_qp_ex_from_mlx5dv_qp_ex(mlx5dv_qp_ex *qp)
{
	return &tally::handle::of(qp).face.qp;
}

TALLY_API void tally_destroy_mlx5dv_qp_ex(mlx5dv_qp_ex *qp)
{
	if (qp)
		delete &tally::handle::of(qp);
}
