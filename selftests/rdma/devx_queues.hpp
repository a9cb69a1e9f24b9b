// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queues made by commands, driven by hand: WQEs, doorbell records, doorbells and CQEs are the test's own.
#pragma once

#include "devx.hpp"

#include <atomic>
#include <endian.h>

namespace rdma::devx {

struct CqOptions {
	unsigned log_size = 6;
	bool collapsed = false;
	bool ignore_overrun = false;
	bool large = false; // 128-byte entries
};

// A completion queue: entries and doorbell record in one buffer.
class Queue {
      public:
	static constexpr size_t records = 64; // where the entries begin
	const Context &c;
	CqOptions o;
	Buffer buf;
	Umem umem;
	Uar uar;
	Obj obj;
	uint32_t number = 0;
	uint32_t ci = 0;
	uint32_t sn = 0;

	explicit Queue(const Context &ctx, const CqOptions &opt = {})
	    : c(ctx), o(opt), buf(records + entry_size(opt) * (size_t{1} << opt.log_size)),
	      umem(ctx, buf.data(), buf.size()), uar(alloc_uar(ctx))
	{
		std::memset(buf.data() + records, MLX5_CQE_INVALID << 4, buf.size() - records);
		Mailbox m = request();
		obj = create(c, m, "CREATE_CQ");
		number = m.number();
	}
	static size_t entry_size(const CqOptions &o) { return o.large ? 128 : 64; }

	Mailbox request() const
	{
		Mailbox m(CREATE_CQ, DEVX_ST_SZ_BYTES(create_cq_in));
		void *in = m.in.data();
		DEVX_SET(create_cq_in, in, cqc.log_cq_size, o.log_size);
		DEVX_SET(create_cq_in, in, cqc.cqe_sz, o.large);
		DEVX_SET(create_cq_in, in, cqc.cc, o.collapsed);
		DEVX_SET(create_cq_in, in, cqc.oi, o.ignore_overrun);
		DEVX_SET(create_cq_in, in, cqc.uar_page, uar->page_id);
		DEVX_SET(create_cq_in, in, cqc.c_eqn, eqn(c));
		DEVX_SET(create_cq_in, in, cqc.dbr_umem_id, umem.id());
		DEVX_SET64(create_cq_in, in, cqc.dbr_addr, 0);
		DEVX_SET(create_cq_in, in, cq_umem_id, umem.id());
		DEVX_SET64(create_cq_in, in, cq_umem_offset, records);
		return m;
	}
	volatile mlx5_cqe64 *entry(uint32_t index) const
	{
		const size_t place = o.collapsed ? 0 : index & ((1u << o.log_size) - 1);
		return reinterpret_cast<volatile mlx5_cqe64 *>(buf.data() + records + place * entry_size(o) +
							       (entry_size(o) - 64));
	}
	// The next entry, for as long as nothing overwrites it; nullptr after a while without one.
	volatile mlx5_cqe64 *next(std::chrono::milliseconds patience = 5s)
	{
		volatile mlx5_cqe64 *e = entry(ci);
		const auto end = std::chrono::steady_clock::now() + patience;
		const uint8_t owner = ci >> o.log_size & 1;
		while (e->op_own >> 4 == MLX5_CQE_INVALID || (e->op_own & 1) != owner)
			if (std::chrono::steady_clock::now() > end)
				return nullptr;
		std::atomic_thread_fence(std::memory_order_acquire);
		ci++;
		return e;
	}
	void consumed()
	{
		std::atomic_thread_fence(std::memory_order_release);
		*reinterpret_cast<volatile uint32_t *>(buf.data()) = htobe32(ci & 0xffffff);
	}
	// For the next completion; once more only after the event of the last time.
	void arm()
	{
		const uint32_t word = (sn++ & 3) << 28 | (ci & 0xffffff);
		reinterpret_cast<volatile uint32_t *>(buf.data())[1] = htobe32(word);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		*reinterpret_cast<volatile uint64_t *>(static_cast<char *>(uar->base_addr) + 0x20) =
		    htobe64(static_cast<uint64_t>(word) << 32 | number);
	}
	uint32_t field(uint32_t (*get)(const void *))
	{
		Mailbox m(QUERY_CQ, 16, DEVX_ST_SZ_BYTES(query_cq_out));
		m.names(number);
		must(query(obj, m), "QUERY_CQ");
		return get(m.out.data());
	}
};

// Service types.
enum : unsigned { RC = 0, UC = 1, UD = 2, XRC = 3, DCI = 5 };

struct QpShape {
	unsigned log_sq = 6;
	unsigned log_rq = 4;
	unsigned log_stride = 0; // 16 bytes << this
	unsigned type = RC;
	uint32_t rmpn = 0;	 // receives come from there
	uint32_t qkey = 0;	 // of UD
};

// A queue pair in memory of its own: receives, then sends, then the doorbell record.
class Qp {
      public:
	const Context &c;
	QpShape shape;
	Queue *scq, *rcq;
	uint32_t pdn;
	Buffer buf;
	Umem umem;
	Uar uar;
	Obj obj;
	uint32_t number = 0;
	uint16_t posted = 0, received = 0;

	Qp(const Context &ctx, uint32_t pd, Queue &send, Queue &recv, const QpShape &s = {})
	    : c(ctx), shape(s), scq(&send), rcq(&recv), pdn(pd), buf(record_offset(s) + 64),
	      umem(ctx, buf.data(), buf.size()), uar(alloc_uar(ctx, MLX5DV_UAR_ALLOC_TYPE_BF))
	{
		Mailbox m = request();
		obj = create(c, m, "CREATE_QP");
		number = m.number();
	}
	static size_t rq_bytes(const QpShape &s)
	{
		return s.rmpn || s.type == DCI ? 0 : size_t{16} << (s.log_rq + s.log_stride);
	}
	static size_t record_offset(const QpShape &s) { return rq_bytes(s) + (size_t{64} << s.log_sq); }

	Mailbox request() const
	{
		Mailbox m(CREATE_QP, DEVX_ST_SZ_BYTES(create_qp_in));
		void *in = m.in.data();
		DEVX_SET(create_qp_in, in, qpc.st, shape.type);
		DEVX_SET(create_qp_in, in, qpc.pm_state, 3);
		DEVX_SET(create_qp_in, in, qpc.pd, pdn);
		DEVX_SET(create_qp_in, in, qpc.log_sq_size, shape.log_sq);
		DEVX_SET(create_qp_in, in, qpc.log_rq_size, shape.log_rq);
		DEVX_SET(create_qp_in, in, qpc.log_rq_stride, shape.log_stride);
		DEVX_SET(create_qp_in, in, qpc.uar_page, uar->page_id);
		DEVX_SET(create_qp_in, in, qpc.user_index, 0xabc);
		DEVX_SET(create_qp_in, in, qpc.cqn_snd, scq->number);
		DEVX_SET(create_qp_in, in, qpc.cqn_rcv, rcq->number);
		DEVX_SET(create_qp_in, in, qpc.dbr_umem_id, umem.id());
		DEVX_SET64(create_qp_in, in, qpc.dbr_addr, record_offset(shape));
		DEVX_SET(create_qp_in, in, wq_umem_id, umem.id());
		if (shape.rmpn) {
			DEVX_SET(create_qp_in, in, qpc.rq_type, 1);
			DEVX_SET(create_qp_in, in, qpc.srqn, shape.rmpn);
		}
		return m;
	}
	Mailbox rst2init(bool access = true) const
	{
		Mailbox m(RST2INIT_QP, DEVX_ST_SZ_BYTES(create_qp_in));
		m.names(number);
		DEVX_SET(create_qp_in, m.in.data(), qpc.primary.vhca_port_num, 1);
		DEVX_SET(create_qp_in, m.in.data(), qpc.rre, access);
		DEVX_SET(create_qp_in, m.in.data(), qpc.rwe, access);
		DEVX_SET(create_qp_in, m.in.data(), qpc.rae, access);
		DEVX_SET(create_qp_in, m.in.data(), qpc.q_key, shape.qkey);
		return m;
	}
	Mailbox init2rtr(uint32_t peer) const
	{
		Mailbox m(INIT2RTR_QP, DEVX_ST_SZ_BYTES(create_qp_in));
		const ibv_gid gid = c.gid();
		void *in = m.in.data();
		m.names(number);
		DEVX_SET(create_qp_in, in, qpc.mtu, IBV_MTU_1024);
		DEVX_SET(create_qp_in, in, qpc.log_msg_max, 30);
		DEVX_SET(create_qp_in, in, qpc.remote_qpn, peer);
		DEVX_SET(create_qp_in, in, qpc.log_rra_max, 4);
		DEVX_SET(create_qp_in, in, qpc.min_rnr_nak, 1);
		DEVX_SET(create_qp_in, in, qpc.primary.vhca_port_num, 1);
		DEVX_SET(create_qp_in, in, qpc.primary.src_addr_index, c.gid_index());
		DEVX_SET(create_qp_in, in, qpc.primary.hop_limit, 64);
		std::memcpy(reinterpret_cast<char *>(in) + DEVX_BYTE_OFF(create_qp_in, qpc.primary.rgid_rip), gid.raw, 16);
		return m;
	}
	Mailbox rtr2rts() const
	{
		Mailbox m(RTR2RTS_QP, DEVX_ST_SZ_BYTES(create_qp_in));
		m.names(number);
		DEVX_SET(create_qp_in, m.in.data(), qpc.retry_count, 7);
		DEVX_SET(create_qp_in, m.in.data(), qpc.rnr_retry, 7);
		DEVX_SET(create_qp_in, m.in.data(), qpc.log_sra_max, 4);
		DEVX_SET(create_qp_in, m.in.data(), qpc.primary.ack_timeout, 8);
		return m;
	}
	int apply(Mailbox m) const { return devx::modify(obj, m); }
	int to(Opcode op) const
	{
		Mailbox m(op, 16);
		return apply(m.names(number));
	}
	void connect(uint32_t peer) const
	{
		must(apply(rst2init()), "RST2INIT");
		must(apply(init2rtr(peer)), "INIT2RTR");
		must(apply(rtr2rts()), "RTR2RTS");
	}
	Mailbox looked_at() const
	{
		Mailbox m(QUERY_QP, 16, DEVX_ST_SZ_BYTES(query_qp_out));
		m.names(number);
		must(devx::query(obj, m), "QUERY_QP");
		return m;
	}
	uint32_t state() const { return DEVX_GET(query_qp_out, looked_at().out.data(), qpc.state); }

	volatile uint32_t *record() const
	{
		return reinterpret_cast<volatile uint32_t *>(buf.data() + record_offset(shape));
	}
	// Control, address (for UD and DC), remote address (for a WRITE or READ), data.
	void write_wqe(uint8_t opcode, const ibv_sge &local, uint64_t raddr = 0, uint32_t rkey = 0, uint32_t imm = 0,
		       const mlx5_wqe_av *av = nullptr)
	{
		std::vector<uint8_t> wqe;
		auto add = [&](const void *p, size_t n) {
			wqe.insert(wqe.end(), static_cast<const uint8_t *>(p), static_cast<const uint8_t *>(p) + n);
		};
		mlx5_wqe_ctrl_seg ctrl{};
		mlx5_wqe_raddr_seg r{};
		mlx5_wqe_data_seg d{};

		ctrl.opmod_idx_opcode = htobe32(static_cast<uint32_t>(posted) << 8 | opcode);
		ctrl.qpn_ds = htobe32(number << 8 | (2 + (av ? 3 : 0) + (rkey ? 1 : 0)));
		ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
		ctrl.imm = htobe32(imm);
		r.raddr = htobe64(raddr);
		r.rkey = htobe32(rkey);
		mlx5dv_set_data_seg(&d, local.length, local.lkey, local.addr);
		add(&ctrl, 16);
		if (av)
			add(av, sizeof(*av));
		if (rkey)
			add(&r, 16);
		add(&d, 16);
		const size_t ring = size_t{64} << shape.log_sq;
		for (size_t k = 0; k < wqe.size(); k += 16)
			std::memcpy(buf.data() + rq_bytes(shape) + (posted * size_t{64} + k) % ring, wqe.data() + k, 16);
		std::memcpy(&last_, &ctrl, 8);
		posted = static_cast<uint16_t>(posted + (wqe.size() + 63) / 64);
	}
	void ring() const
	{
		std::atomic_thread_fence(std::memory_order_release);
		record()[MLX5_SND_DBR] = htobe32(posted);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		*reinterpret_cast<volatile uint64_t *>(uar->reg_addr) = last_;
	}
	void post_recv(const ibv_sge &sge)
	{
		const size_t stride = size_t{16} << shape.log_stride;
		uint8_t *at = buf.data() + (received & ((1u << shape.log_rq) - 1)) * stride;
		mlx5_wqe_data_seg d{};
		mlx5dv_set_data_seg(&d, sge.length, sge.lkey, sge.addr);
		std::memcpy(at, &d, 16);
		if (stride > 16) {
			mlx5dv_set_data_seg(&d, 0, 0x100, 0);
			std::memcpy(at + 16, &d, 16);
		}
		received++;
		std::atomic_thread_fence(std::memory_order_release);
		record()[MLX5_RCV_DBR] = htobe32(received);
	}

      private:
	uint64_t last_ = 0;
};

enum class Form { linked, cyclic, bare };

struct RmpShape {
	Form form = Form::linked;
	unsigned log_size = 4;
	unsigned log_stride = 6; // bytes
};

// A memory pool of receives: WQEs, then the doorbell record.
class Rmp {
      public:
	const Context &c;
	RmpShape shape;
	uint32_t pdn;
	Buffer buf;
	Umem umem;
	Obj obj;
	uint32_t number = 0;
	uint16_t posted = 0;

	Rmp(const Context &ctx, uint32_t pd, const RmpShape &s = {})
	    : c(ctx), shape(s), pdn(pd), buf(record_offset(s) + 64), umem(ctx, buf.data(), buf.size())
	{
		Mailbox m = request();
		obj = create(c, m, "CREATE_RMP");
		number = m.number();
		for (unsigned i = 0; shape.form == Form::linked && i < 1u << shape.log_size; i++)
			link(i, i + 1);
	}
	static size_t record_offset(const RmpShape &s) { return size_t{1} << (s.log_size + s.log_stride); }

	Mailbox request() const
	{
		Mailbox m(CREATE_RMP, DEVX_ST_SZ_BYTES(rmp_mailbox));
		void *in = m.in.data();
		DEVX_SET(rmp_mailbox, in, rmpc.state, 1);
		DEVX_SET(rmp_mailbox, in, rmpc.basic_cyclic_rcv_wqe, shape.form == Form::bare);
		DEVX_SET(rmp_mailbox, in, rmpc.wq.wq_type, shape.form != Form::linked);
		DEVX_SET(rmp_mailbox, in, rmpc.wq.pd, pdn);
		DEVX_SET(rmp_mailbox, in, rmpc.wq.log_wq_sz, shape.log_size);
		DEVX_SET(rmp_mailbox, in, rmpc.wq.log_wq_stride, shape.log_stride);
		DEVX_SET(rmp_mailbox, in, rmpc.wq.dbr_umem_id, umem.id());
		DEVX_SET64(rmp_mailbox, in, rmpc.wq.dbr_addr, record_offset(shape));
		DEVX_SET(rmp_mailbox, in, rmpc.wq.wq_umem_id, umem.id());
		return m;
	}
	// In the order of places, whichever form; the caller does not overtake the queue.
	void post(const ibv_sge &sge)
	{
		uint8_t *at = wqe(posted) + (shape.form == Form::bare ? 0 : 16);
		mlx5_wqe_data_seg d{};
		mlx5dv_set_data_seg(&d, sge.length, sge.lkey, sge.addr);
		std::memcpy(at, &d, 16);
		if (at + 16 < wqe(posted) + (size_t{1} << shape.log_stride)) {
			mlx5dv_set_data_seg(&d, 0, 0x100, 0);
			std::memcpy(at + 16, &d, 16);
		}
		posted++;
		std::atomic_thread_fence(std::memory_order_release);
		*reinterpret_cast<volatile uint32_t *>(buf.data() + record_offset(shape)) = htobe32(posted);
	}
	Mailbox looked_at() const
	{
		Mailbox m(QUERY_RMP, 16, DEVX_ST_SZ_BYTES(rmp_mailbox));
		m.names(number);
		must(devx::query(obj, m), "QUERY_RMP");
		return m;
	}
	static Mailbox limit(uint32_t rmpn, uint32_t lwm)
	{
		Mailbox m(MODIFY_RMP, DEVX_ST_SZ_BYTES(rmp_mailbox));
		m.names(rmpn);
		DEVX_SET(rmp_mailbox, m.in.data(), rmp_state, 1);
		DEVX_SET(rmp_mailbox, m.in.data(), change_lwm, 1);
		DEVX_SET(rmp_mailbox, m.in.data(), rmpc.state, 1);
		DEVX_SET(rmp_mailbox, m.in.data(), rmpc.wq.lwm, lwm);
		return m;
	}

      private:
	uint8_t *wqe(unsigned i) const
	{
		return buf.data() + (size_t{i & ((1u << shape.log_size) - 1)} << shape.log_stride);
	}
	void link(unsigned i, unsigned next)
	{
		const uint16_t index = htobe16(static_cast<uint16_t>(next & ((1u << shape.log_size) - 1)));
		std::memcpy(wqe(i) + 2, &index, 2);
	}
};

// A target of DC, whose receives come from a pool.
class Dct {
      public:
	static constexpr uint64_t key = 0x1122334455667788;
	const Context &c;
	uint32_t pdn, cqn, rmpn;
	Obj obj;
	uint32_t number = 0;

	Dct(const Context &ctx, uint32_t pd, const Queue &cq, const Rmp &rmp)
	    : c(ctx), pdn(pd), cqn(cq.number), rmpn(rmp.number)
	{
		Mailbox m = request();
		obj = create(c, m, "CREATE_DCT");
		number = m.number();
	}
	Mailbox request() const
	{
		Mailbox m(CREATE_DCT, DEVX_ST_SZ_BYTES(dct_mailbox));
		void *in = m.in.data();
		DEVX_SET(dct_mailbox, in, dctc.pd, pdn);
		DEVX_SET(dct_mailbox, in, dctc.cqn, cqn);
		DEVX_SET(dct_mailbox, in, dctc.srqn, rmpn);
		DEVX_SET(dct_mailbox, in, dctc.user_index, 0xdc7);
		DEVX_SET(dct_mailbox, in, dctc.rre, 1);
		DEVX_SET(dct_mailbox, in, dctc.rwe, 1);
		DEVX_SET(dct_mailbox, in, dctc.rae, 1);
		DEVX_SET(dct_mailbox, in, dctc.min_rnr_nak, 1);
		DEVX_SET64(dct_mailbox, in, dctc.dc_access_key, key);
		DEVX_SET(dct_mailbox, in, dctc.mtu, IBV_MTU_1024);
		DEVX_SET(dct_mailbox, in, dctc.port, 1);
		DEVX_SET(dct_mailbox, in, dctc.my_addr_index, c.gid_index());
		DEVX_SET(dct_mailbox, in, dctc.hop_limit, 64);
		return m;
	}
	Mailbox looked_at() const
	{
		Mailbox m(QUERY_DCT, 16, DEVX_ST_SZ_BYTES(dct_mailbox));
		m.names(number);
		must(devx::query(obj, m), "QUERY_DCT");
		return m;
	}
	int drain() const
	{
		Mailbox m(DRAIN_DCT, 16);
		return devx::modify(obj, m.names(number));
	}
};

inline uint32_t pdn_of(ibv_pd *pd)
{
	mlx5dv_pd dv{};
	mlx5dv_obj obj{};
	obj.pd = {pd, &dv};
	must(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), "mlx5dv_init_obj");
	return dv.pdn;
}

// Memory, a domain and two CQs.
struct Base {
	Pd pd;
	uint32_t pdn;
	Memory mem;
	Queue scq, rcq;

	explicit Base(const Context &c)
	    : pd(rdma::alloc_pd(c)), pdn(pdn_of(pd.get())), mem(pd.get(), 1 << 18), scq(c), rcq(c)
	{
	}
};

// With a QP, of whatever type.
struct Node : Base {
	Qp qp;

	explicit Node(const Context &c, const QpShape &s = {}) : Base(c), qp(c, pdn, scq, rcq, s) {}
	uint8_t sent()
	{
		qp.ring();
		auto *cqe = scq.next();
		if (!cqe)
			fail("no completion", ETIMEDOUT);
		scq.consumed();
		return cqe->op_own >> 4 == MLX5_CQE_REQ ? 0 : reinterpret_cast<volatile mlx5_err_cqe *>(cqe)->syndrome;
	}
};

// Where a request to @qpn goes, with @key as Q_Key or as DC access key.
class Address {
      public:
	Address(const Context &c, ibv_pd *pd)
	{
		ibv_ah_attr a = address(c, c.gid());
		ah_ = own<Ah>(ibv_create_ah(pd, &a), "create_ah");
		mlx5dv_ah dv{};
		mlx5dv_obj obj{};
		obj.ah = {ah_.get(), &dv};
		must(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), "mlx5dv_init_obj");
		av_ = *dv.av;
	}
	const mlx5_wqe_av *to(uint32_t qpn, uint64_t key, bool dc)
	{
		if (dc) {
			av_.key.dc_key = htobe64(key);
		} else {
			av_.key.qkey.qkey = htobe32(static_cast<uint32_t>(key));
			av_.key.qkey.reserved = 0;
		}
		av_.dqp_dct = htobe32(qpn | MLX5_EXTENDED_UD_AV);
		return &av_;
	}

      private:
	Ah ah_;
	mlx5_wqe_av av_{};
};

// An initiator of DC.
struct Initiator : Node {
	Address where;

	explicit Initiator(const Context &c) : Node(c, {6, 0, 0, DCI}), where(c, pd.get())
	{
		must(qp.apply(qp.rst2init()), "RST2INIT");
		must(qp.apply(qp.init2rtr(0)), "INIT2RTR");
		must(qp.apply(qp.rtr2rts()), "RTR2RTS");
		mem.pattern(1);
	}
	// Writes from here to the same place there; the syndrome.
	uint8_t write(uint32_t dctn, const Memory &to, size_t at, size_t len, uint64_t key = Dct::key)
	{
		qp.write_wqe(MLX5_OPCODE_RDMA_WRITE, mem.sge(at, len), to.addr(at), to.rkey(), 0,
			     where.to(dctn, key, true));
		return sent();
	}
};

} // namespace rdma::devx
