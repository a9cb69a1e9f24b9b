// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Verbs objects for tests: owned, with failures turned into test failures at the place of use.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <infiniband/verbs.h>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <vector>

namespace rdma {

using namespace std::chrono_literals;

[[noreturn]] inline void fail(const std::string &what, int err = errno)
{
	throw std::system_error(err, std::generic_category(), what);
}

// The device under test: --gtest_... aside, TALLY_DEVICE names it.
inline std::string device_name()
{
	const char *name = std::getenv("TALLY_DEVICE");
	return name ? name : "tally0";
}

template <auto Free> struct Deleter {
	template <class T> void operator()(T *p) const { Free(p); }
};

class Context {
      public:
	explicit Context(const std::string &name = device_name())
	{
		int n = 0;
		ibv_device **list = ibv_get_device_list(&n);
		for (int i = 0; list && i < n; i++)
			if (name == ibv_get_device_name(list[i]))
				ctx_.reset(ibv_open_device(list[i]));
		if (list)
			ibv_free_device_list(list);
		if (!ctx_)
			fail("open " + name, ENODEV);
		if (int err = ibv_query_port(ctx_.get(), 1, &port_))
			fail("query_port", err);
		gid_index_ = find_gid();
	}
	ibv_context *get() const { return ctx_.get(); }
	// What the device's folder in sysfs says.
	std::string attribute(const char *file) const
	{
		std::ifstream f(std::string(ctx_->device->ibdev_path) + "/" + file);
		std::string line;
		std::getline(f, line);
		return line;
	}
	// Ours, which can do all that is tested here.
	bool is_tally() const { return attribute("node_desc").starts_with("tally "); }
	const ibv_port_attr &port() const { return port_; }
	int gid_index() const { return gid_index_; }
	ibv_gid gid() const
	{
		ibv_gid g;
		if (ibv_query_gid(get(), 1, gid_index_, &g))
			fail("query_gid");
		return g;
	}

      private:
	// The IPv4 address, else the first address.
	int find_gid() const
	{
		int first = -1;
		for (int i = 0; i < port_.gid_tbl_len; i++) {
			ibv_gid_entry e;
			if (ibv_query_gid_ex(get(), 1, i, &e, 0) || e.gid_type != IBV_GID_TYPE_ROCE_V2)
				continue;
			static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
			if (!std::memcmp(e.gid.raw, v4, sizeof(v4)))
				return i;
			if (first < 0)
				first = i;
		}
		if (first < 0)
			fail("no RoCE v2 GID", ENOENT);
		return first;
	}

	std::unique_ptr<ibv_context, Deleter<ibv_close_device>> ctx_;
	ibv_port_attr port_{};
	int gid_index_ = 0;
};

using Pd = std::unique_ptr<ibv_pd, Deleter<ibv_dealloc_pd>>;
using Cq = std::unique_ptr<ibv_cq, Deleter<ibv_destroy_cq>>;
using Qp = std::unique_ptr<ibv_qp, Deleter<ibv_destroy_qp>>;
using Srq = std::unique_ptr<ibv_srq, Deleter<ibv_destroy_srq>>;
using Mr = std::unique_ptr<ibv_mr, Deleter<ibv_dereg_mr>>;
using Ah = std::unique_ptr<ibv_ah, Deleter<ibv_destroy_ah>>;
using Mw = std::unique_ptr<ibv_mw, Deleter<ibv_dealloc_mw>>;
using Channel = std::unique_ptr<ibv_comp_channel, Deleter<ibv_destroy_comp_channel>>;

template <class P, class T> P own(T *p, const char *what)
{
	if (!p)
		fail(what);
	return P(p);
}

inline Pd alloc_pd(const Context &c) { return own<Pd>(ibv_alloc_pd(c.get()), "alloc_pd"); }

inline Cq create_cq(const Context &c, int entries = 256, ibv_comp_channel *channel = nullptr)
{
	return own<Cq>(ibv_create_cq(c.get(), entries, nullptr, channel, 0), "create_cq");
}

inline Srq create_srq(ibv_pd *pd, uint32_t entries = 64, uint32_t sges = 4)
{
	ibv_srq_init_attr a{};
	a.attr.max_wr = entries;
	a.attr.max_sge = sges;
	return own<Srq>(ibv_create_srq(pd, &a), "create_srq");
}

constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_ATOMIC;

// Page-aligned memory with a region over it.
class Memory {
      public:
	Memory(ibv_pd *pd, size_t size, int access = all_access) : size_(size)
	{
		p_ = static_cast<uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		if (p_ == MAP_FAILED)
			fail("mmap");
		ibv_mr *mr = ibv_reg_mr(pd, p_, size, access);
		if (!mr) {
			int err = errno;
			munmap(p_, size_);
			fail("reg_mr", err);
		}
		mr_.reset(mr);
	}
	~Memory()
	{
		mr_.reset();
		munmap(p_, size_);
	}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	uint8_t *data() const { return p_; }
	uint64_t addr(size_t off = 0) const { return reinterpret_cast<uintptr_t>(p_) + off; }
	size_t size() const { return size_; }
	ibv_mr *mr() const { return mr_.get(); }
	void dereg() { mr_.reset(); }
	uint32_t lkey() const { return lkey_ ? lkey_ : mr_->lkey; }
	uint32_t rkey() const { return mr_->rkey; }
	std::span<uint8_t> bytes() const { return {p_, size_}; }
	void fill(uint8_t v) { std::memset(p_, v, size_); }
	void pattern(unsigned seed)
	{
		for (size_t i = 0; i < size_; i++)
			p_[i] = static_cast<uint8_t>((i * 131) ^ (i >> 8) ^ seed);
	}
	ibv_sge sge(size_t off, size_t len) const
	{
		return {addr(off), static_cast<uint32_t>(len), lkey()};
	}

      private:
	uint8_t *p_;
	size_t size_;
	uint32_t lkey_ = 0;
	Mr mr_;
};

struct QpOptions;
using QpMaker = Qp (*)(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpOptions &o);

struct QpOptions {
	ibv_qp_type type = IBV_QPT_RC;
	uint64_t send_ops = 0, dv_ops = 0; // for makers that take them, see dv.hpp
	QpMaker make = nullptr;
	int max_send = 64;
	int max_recv = 64;
	int max_sge = 4;
	int max_inline = 64;
	bool all_signaled = false;
	ibv_srq *srq = nullptr;
	unsigned access = all_access & ~IBV_ACCESS_LOCAL_WRITE;
	uint8_t rnr_timer = 1; // 10 us
	uint8_t rnr_retry = 7;
	uint8_t retry_cnt = 1;
	uint8_t timeout = 8; // 1 ms
	uint8_t dest_rd_atomic = 16;
	ibv_mtu mtu = IBV_MTU_1024;
	uint32_t qkey = 0x1ee7;
};

inline Qp create_qp(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpOptions &o = {})
{
	if (o.make)
		return o.make(pd, send_cq, recv_cq, o);
	ibv_qp_init_attr a{};
	a.send_cq = send_cq;
	a.recv_cq = recv_cq;
	a.srq = o.srq;
	a.cap.max_send_wr = o.max_send;
	a.cap.max_recv_wr = o.srq ? 0 : o.max_recv;
	a.cap.max_send_sge = o.max_sge;
	a.cap.max_recv_sge = o.srq ? 0 : o.max_sge;
	a.cap.max_inline_data = o.max_inline;
	a.qp_type = o.type;
	a.sq_sig_all = o.all_signaled;
	return own<Qp>(ibv_create_qp(pd, &a), "create_qp");
}

inline int to_reset(ibv_qp *qp)
{
	ibv_qp_attr a{};
	a.qp_state = IBV_QPS_RESET;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

inline int to_init(ibv_qp *qp, const QpOptions &o = {})
{
	ibv_qp_attr a{};
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = o.access;
	a.qkey = o.qkey;
	// A type of the driver's own is a DCI, which serves nobody.
	const int own = o.type == IBV_QPT_UD ? IBV_QP_QKEY : o.type == IBV_QPT_DRIVER ? 0 : IBV_QP_ACCESS_FLAGS;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | own);
}

// To where @dgid is.
inline ibv_ah_attr address(const Context &c, const ibv_gid &dgid)
{
	ibv_ah_attr a{};
	a.is_global = 1;
	a.grh.dgid = dgid;
	a.grh.sgid_index = static_cast<uint8_t>(c.gid_index());
	a.grh.hop_limit = 64;
	a.port_num = 1;
	return a;
}

inline int to_rtr(ibv_qp *qp, const Context &c, const ibv_gid &dgid, uint32_t dest_qpn, const QpOptions &o = {},
		  uint32_t psn = 0)
{
	ibv_qp_attr a{};
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = o.mtu;
	a.dest_qp_num = dest_qpn;
	a.rq_psn = psn;
	a.max_dest_rd_atomic = o.dest_rd_atomic;
	a.min_rnr_timer = o.rnr_timer;
	a.ah_attr = address(c, dgid);
	int mask = IBV_QP_STATE;
	if (o.type != IBV_QPT_UD)
		mask |= IBV_QP_PATH_MTU;
	if (o.type != IBV_QPT_UD && o.type != IBV_QPT_DRIVER)
		mask |= IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (o.type == IBV_QPT_RC || o.type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &a, mask);
}

inline int to_rts(ibv_qp *qp, const QpOptions &o = {}, uint32_t psn = 0)
{
	ibv_qp_attr a{};
	a.qp_state = IBV_QPS_RTS;
	a.timeout = o.timeout;
	a.retry_cnt = o.retry_cnt;
	a.rnr_retry = o.rnr_retry;
	a.sq_psn = psn;
	a.max_rd_atomic = 16;
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (o.type != IBV_QPT_UD && o.type != IBV_QPT_UC)
		mask |= IBV_QP_TIMEOUT;
	if (o.type == IBV_QPT_RC || o.type == IBV_QPT_XRC_SEND || o.type == IBV_QPT_DRIVER)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &a, mask);
}

inline int to_err(ibv_qp *qp)
{
	ibv_qp_attr a{};
	a.qp_state = IBV_QPS_ERR;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

inline ibv_qp_state state_of(ibv_qp *qp)
{
	ibv_qp_attr a{};
	ibv_qp_init_attr i{};
	if (int err = ibv_query_qp(qp, &a, IBV_QP_STATE, &i))
		fail("query_qp", err);
	return a.qp_state;
}

// Waits for a condition that another thread, process or the device makes true.
inline bool eventually(const std::function<bool()> &cond, std::chrono::milliseconds limit = 20s)
{
	auto end = std::chrono::steady_clock::now() + limit;
	do {
		if (cond())
			return true;
	} while (std::chrono::steady_clock::now() < end);
	return cond();
}

inline std::optional<ibv_wc> poll(ibv_cq *cq, std::chrono::milliseconds limit = 20s)
{
	ibv_wc wc{};
	int n = 0;
	eventually([&] { return (n = ibv_poll_cq(cq, 1, &wc)) != 0; }, limit);
	if (n < 0)
		fail("poll_cq", EIO);
	return n ? std::optional(wc) : std::nullopt;
}

// One completion, which must come.
inline ibv_wc expect_wc(ibv_cq *cq)
{
	auto wc = poll(cq);
	if (!wc)
		fail("no completion", ETIMEDOUT);
	return *wc;
}

inline bool empty(ibv_cq *cq)
{
	ibv_wc wc;
	return ibv_poll_cq(cq, 1, &wc) == 0;
}

struct Wr : ibv_send_wr {
	Wr(ibv_wr_opcode op, std::span<ibv_sge> sges, uint64_t id = 0, unsigned flags = IBV_SEND_SIGNALED)
	    : ibv_send_wr{}
	{
		wr_id = id;
		sg_list = sges.data();
		num_sge = static_cast<int>(sges.size());
		opcode = op;
		send_flags = flags;
	}
	Wr &remote(uint64_t addr, uint32_t rkey)
	{
		wr.rdma.remote_addr = addr;
		wr.rdma.rkey = rkey;
		return *this;
	}
	Wr &atomic(uint64_t addr, uint32_t rkey, uint64_t compare_add, uint64_t swap = 0)
	{
		wr.atomic.remote_addr = addr;
		wr.atomic.rkey = rkey;
		wr.atomic.compare_add = compare_add;
		wr.atomic.swap = swap;
		return *this;
	}
	Wr &imm(uint32_t value)
	{
		imm_data = value;
		return *this;
	}
	Wr &invalidate(uint32_t rkey)
	{
		invalidate_rkey = rkey;
		return *this;
	}
	Wr &to(ibv_ah *ah, uint32_t qpn, uint32_t qkey)
	{
		wr.ud = {ah, qpn, qkey};
		return *this;
	}
	Wr &to_srq(uint32_t srqn)
	{
		qp_type.xrc.remote_srqn = srqn;
		return *this;
	}
	void post(ibv_qp *qp)
	{
		ibv_send_wr *bad = nullptr;
		if (int err = ibv_post_send(qp, this, &bad))
			fail("post_send", err);
	}
};

inline void post_recv(ibv_qp *qp, std::vector<ibv_sge> sges, uint64_t id = 0)
{
	ibv_recv_wr wr{}, *bad = nullptr;
	wr.wr_id = id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	if (int err = ibv_post_recv(qp, &wr, &bad))
		fail("post_recv", err);
}

inline void post_srq_recv(ibv_srq *srq, std::vector<ibv_sge> sges, uint64_t id = 0)
{
	ibv_recv_wr wr{}, *bad = nullptr;
	wr.wr_id = id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	if (int err = ibv_post_srq_recv(srq, &wr, &bad))
		fail("post_srq_recv", err);
}

inline void must(int err, const char *what)
{
	if (err)
		fail(what, err);
}

// A QP that is its own peer.
inline void connect_to_itself(ibv_qp *qp, const Context &c, const QpOptions &o = {})
{
	must(to_init(qp, o), "init");
	must(to_rtr(qp, c, c.gid(), qp->qp_num, o), "rtr");
	must(to_rts(qp, o), "rts");
}

// One end of a connection: a QP with CQs and a buffer of its own.
struct End {
	Pd pd;
	Cq scq, rcq;
	std::unique_ptr<Memory> mem;
	Qp qp;

	End(const Context &c, const QpOptions &o = {}, size_t bytes = 1 << 20, int cq_entries = 256)
	    : pd(alloc_pd(c)), scq(create_cq(c, cq_entries)), rcq(create_cq(c, cq_entries)),
	      mem(std::make_unique<Memory>(pd.get(), bytes))
	{
		qp = create_qp(pd.get(), scq.get(), rcq.get(), o);
	}
};

// Two connected QPs on one device: a requests, b responds.
struct Pair {
	Context &c;
	QpOptions o;
	End a, b;

	explicit Pair(Context &ctx, const QpOptions &opt = {}, bool connected = true, size_t bytes = 1 << 20)
	    : c(ctx), o(opt), a(ctx, requester_options(opt), bytes), b(ctx, opt, bytes)
	{
		if (connected)
			connect();
	}
	void init()
	{
		must(to_init(a.qp.get(), o), "init a");
		must(to_init(b.qp.get(), o), "init b");
	}
	void ready()
	{
		must(to_rtr(a.qp.get(), c, c.gid(), b.qp->qp_num, o), "rtr a");
		must(to_rtr(b.qp.get(), c, c.gid(), a.qp->qp_num, o), "rtr b");
		must(to_rts(a.qp.get(), o), "rts a");
		must(to_rts(b.qp.get(), o), "rts b");
	}
	void connect()
	{
		init();
		ready();
	}

      private:
	// An SRQ, where there is one, is the responder's.
	static QpOptions requester_options(QpOptions o)
	{
		o.srq = nullptr;
		return o;
	}
};

} // namespace rdma
