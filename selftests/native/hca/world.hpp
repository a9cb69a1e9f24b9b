// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A world for the virtual HCA: devices, and processes that use them as libmlx5 does.
//
// Everything that a driver and user space would do is here: memory, rings and doorbell records, posting, polling,
// arming; a driver's list of QPs that want to run; timers on a virtual clock.  Nothing happens by itself:
// doorbells run the queue in the caller, settle() runs what was kicked, advance() moves the clock.  The same
// calls lead to the same result.
//
// The world's own bookkeeping is locked, so that tests may use different QPs in different threads.
#pragma once

#include "memory.hpp"
#include "wqe.hpp"

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace world {

class World;
class Device;
class Cq;
class Srq;
class Qp;
class Counter;

// A C object of the HCA and who owns it.
template <class T, class Owner> struct Shell {
	T hca{};
	Owner *owner = nullptr;

	static Owner *of(const T *hca)
	{
		static_assert(std::is_standard_layout_v<Shell>);
		return reinterpret_cast<const Shell *>(hca)->owner;
	}
};

constexpr u8 all_access = HCA_ACCESS_LOCAL_READ | HCA_ACCESS_LOCAL_WRITE | HCA_ACCESS_REMOTE_READ |
			  HCA_ACCESS_REMOTE_WRITE | HCA_ACCESS_REMOTE_ATOMIC;

// ---- what the device told its driver ----

enum class Told { CqEvent, CqError, SrqLimit, QpEvent, CounterEvent };

struct Event {
	Told what;
	const void *who; // the Cq, Srq, Qp or Counter
	int detail = 0;	 // enum hca_event of a QpEvent
	bool operator==(const Event &) const = default;
};

// ---- memory keys ----

struct KeyOptions {
	size_t offset = 0;
	size_t length = ~size_t{0}; // to the memory's end
	u8 access = all_access;
	u32 pdn = 1;
	std::optional<u64> iova{}; // default: as if the memory were at 2^40
	bool invalidate_ok = false;
	u32 repeat = 1; // the whole memory so many times over, as one long region
};

class Key {
public:
	Key(Device &dev, Memory &memory, const KeyOptions &options);
	~Key();
	Key(const Key &) = delete;

	u32 key() const { return hca_.key; }
	u64 addr(u64 off = 0) const { return hca_.iova + off; }
	Sge sge(u64 off, u32 len) const { return {addr(off), len, key()}; }
	size_t length() const { return hca_.length; }
	Memory &memory() const { return memory_; }
	size_t offset() const { return offset_; }
	u8 access() const { return hca_.access; }
	bool is_free() const { return hca_.free; }
	bool is_dead() const { return dead_; }

	// Deregister: accesses fail from here on, and the memory is no longer touched.
	void kill();

private:
	Device &dev_;
	Memory &memory_;
	size_t offset_;
	bool dead_ = false;
	std::vector<u8 *> blocks_;
	hca_mkey hca_{};
};

struct IndirectOptions {
	u32 max_entries = 64;
	u32 pdn = 1;
	u8 variant = 0;
	bool invalidate_ok = false;
};

// A key that work requests give a layout.
class IndirectKey {
public:
	IndirectKey(Device &dev, const IndirectOptions &options);
	~IndirectKey();
	IndirectKey(const IndirectKey &) = delete;

	u32 key() const { return hca_.key; }
	// The same with the variant it has now.
	u32 current_key() const { return (hca_.key & ~0xffu) | layout().variant; }
	const hca_layout &layout() const { return indirect_.layouts[indirect_.seq & 1]; }
	Sge sge(u64 addr, u32 len) const { return {addr, len, current_key()}; }
	void kill();

private:
	Device &dev_;
	bool dead_ = false;
	std::vector<hca_entry> entries_;
	hca_indirect indirect_{};
	hca_mkey hca_{};
};

// ---- completion queues ----

struct Wc {
	u8 opcode = HCA_CQE_INVALID;
	u8 syndrome = 0;
	u8 vendor_err = 0;
	u8 send_op = 0;
	u32 qpn = 0;
	u32 src_qpn = 0;
	u8 header = 0; // what a datagram's header is
	u32 user_index = 0;
	u32 byte_cnt = 0;
	u32 imm = 0;
	u16 index = 0; // of the WQE
	u64 timestamp = 0;

	bool ok() const { return opcode != HCA_CQE_REQ_ERR && opcode != HCA_CQE_RESP_ERR; }
	bool is_send() const { return opcode == HCA_CQE_REQ || opcode == HCA_CQE_REQ_ERR; }
};

class Cq {
public:
	Cq(Device &dev, u32 entries, u32 cqe_size = 64);
	Cq(const Cq &) = delete;

	// Takes the next completion, without telling the device.
	std::optional<Wc> peek();
	// The same, and tells it.
	std::optional<Wc> poll();
	std::vector<Wc> poll_all();
	void publish_consumer_index();
	void arm(bool solicited_only = false);
	// The process has taken the event.
	void take_event() { arm_sn_++; }
	// 0, or the error; on success the process goes on in the new ring.
	int resize(u32 entries, u32 cqe_size = 64);
	void moderate(u16 count, u64 ns);
	void timer();

	// As if so many completions had come and gone.
	void start_at(u32 index);
	u32 consumer_index() const { return ci_; }
	void set_consumer_index_record(u32 value) { WRITE_ONCE(dbrec_[HCA_DBREC_CQ_CI], cpu_to_be32(value)); }
	void set_arm_record(u32 value) { WRITE_ONCE(dbrec_[HCA_DBREC_CQ_ARM], cpu_to_be32(value)); }
	hca_cq *hca() { return &shell_.hca; }
	Device &device() { return dev_; }

private:
	struct Ring {
		u32 entries;
		u32 cqe_size;
		std::unique_ptr<u64[]> buf;
		Ring(u32 n, u32 size);
		hca_cqe *at(u32 index) const;
		bool is_software_owned(u32 index) const;
	};

	Device &dev_;
	Ring ring_;
	__be32 dbrec_[2] = {};
	u32 ci_ = 0;
	u32 arm_sn_ = 0;
	Shell<hca_cq, Cq> shell_;
};

// ---- shared receive queues ----

class Srq {
public:
	Srq(Device &dev, u32 entries, u8 wqe_shift = 6, u32 pdn = 1, hca_srq_form form = HCA_SRQ_LINKED);
	Srq(const Srq &) = delete;

	// Index of the WQE, as completions have it; the queue is not full.
	u16 post(std::span<const Sge> list);
	u16 post(const Sge &s) { return post(std::span(&s, 1)); }
	// A receive completed: its WQE may be used again. Of a linked queue.
	void free_wqe(u16 index);

	u8 *wqe(u16 index)
	{
		return reinterpret_cast<u8 *>(buf_.get()) + (size_t{index & (entries_ - 1)} << shift_);
	}
	void set_next(u16 index, u16 next);
	void set_posted_record(u32 value)
	{
		ever_posted_ += static_cast<u16>(value - be32_to_cpu(dbrec_));
		WRITE_ONCE(dbrec_, cpu_to_be32(value));
	}
	// What the device can have taken at most, going by the record.
	u64 ever_posted() const { return ever_posted_; }
	u32 entries() const { return entries_; }
	u8 shift() const { return shift_; }
	// What arrives in it over XRC makes completions there.
	void make_xrc(u32 number, u32 xrcdn, Cq &cq, u32 user_index);
	u32 number() const { return number_; }
	hca_srq *hca() { return &shell_.hca; }

private:
	u32 entries_;
	u8 shift_;
	hca_srq_form form_;
	std::unique_ptr<u64[]> buf_;
	__be32 dbrec_ = 0;
	Device &dev_;
	u32 number_ = 0;
	u16 head_ = 0;
	u16 tail_;
	u32 posted_ = 0;
	u64 ever_posted_ = 0;
	Shell<hca_srq, Srq> shell_;
};

// ---- completion counters ----

class Counter {
public:
	explicit Counter(Device &dev, bool bytes = false);
	Counter(const Counter &) = delete;

	u64 comp() const { return __atomic_load_n(&comp_, __ATOMIC_ACQUIRE); }
	u64 err() const { return __atomic_load_n(&err_, __ATOMIC_ACQUIRE); }
	void set(u64 comp, u64 err = 0) { comp_ = comp, err_ = err; }
	hca_counter *hca() { return &shell_.hca; }

private:
	u64 comp_ = 0;
	u64 err_ = 0;
	Shell<hca_counter, Counter> shell_;
};

// ---- queue pairs ----

struct QpOptions {
	Cq *send_cq = nullptr;
	Cq *recv_cq = nullptr; // default: the send CQ
	Srq *srq = nullptr;
	u32 sq_slots = 64;
	u32 rq_entries = 64;
	u8 rq_wqe_shift = 6;
	u32 pdn = 1;
	bool all_signaled = false;
	u32 user_index = 0x00abcdef;
	u8 type = HCA_QP_RC;
	u64 key = 0;	 // of a DCT
	u32 xrcdn = 0;	 // of an XRC target
	u16 streams = 0; // of a DCI
};

struct ConnectOptions {
	u8 access = all_access;
	u32 mtu = 1024;
	u8 rnr_timer = 12;
	u8 rnr_retry = 3;
	u8 retry_cnt = 3;
	u8 timeout = 8;
	u8 max_dest_rd_atomic = 16;
	u32 sq_psn = 0x000100;
	u32 rq_psn = 0x000100;
	u32 qkey = 0x1ee;
};

class Qp {
public:
	Qp(Device &dev, const QpOptions &options);
	~Qp();
	Qp(const Qp &) = delete;

	u32 qpn() const { return shell_.hca.qpn; }
	u8 state() const { return READ_ONCE(shell_.hca.state); }
	hca_qp *hca() { return &shell_.hca; }
	Device &device() { return dev_; }

	// Writes the WQE; nothing is seen of it before ring().  Index of its first slot.
	u16 stage(const Wqe &wqe);
	// The doorbell: record, then store; the queue runs in the caller within a poster's budget.
	void ring();
	u16 post(const Wqe &wqe)
	{
		u16 index = stage(wqe);
		ring();
		return index;
	}
	u16 post_recv(std::span<const Sge> list);
	u16 post_recv(const Sge &s) { return post_recv(std::span(&s, 1)); }
	u16 post_recv() { return post_recv(std::span<const Sge>{}); }

	// As the device's driver does it; RESET forgets what the process has posted as well.
	void modify(const hca_qp_attr &attr);
	void to(u8 state)
	{
		hca_qp_attr a{};
		a.mask = HCA_ATTR_STATE;
		a.state = state;
		modify(a);
	}
	void to_init(const ConnectOptions &o = {});
	void to_rtr(Qp &peer, const ConnectOptions &o = {});
	void to_rts(const ConnectOptions &o = {});
	void connect(Qp &peer, const ConnectOptions &o = {});
	// To RTS, of types that have no peer of their own.
	void start(const ConnectOptions &o = {});

	hca_run run(u32 wqes, u32 bytes);
	void timer();
	int attach(Counter &c, u32 classes);
	// No peer finds it any more, and its owner runs it no more.
	void destroy();
	bool is_destroyed() const { return destroyed_; }

	Device *remote = nullptr; // who has the remote address
	u8 *sq_ring() { return reinterpret_cast<u8 *>(sq_buf_.get()); }
	u8 *rq_ring() { return reinterpret_cast<u8 *>(rq_buf_.get()); }
	u32 sq_slots() const { return options_.sq_slots; }
	const QpOptions &options() const { return options_; }
	u16 producer_index() const { return sq_pi_; }
	void set_sq_record(u32 v) { set_record(HCA_DBREC_SQ, v); }
	void set_rq_record(u32 v) { set_record(HCA_DBREC_RQ, v); }
	// What the device can have completed at most, going by the records.
	u64 ever_posted() const { return ever_posted_; }

private:
	void set_record(int which, u32 value)
	{
		ever_posted_ += static_cast<u16>(value - be32_to_cpu(dbrec_[which]));
		__atomic_store_n(&dbrec_[which], cpu_to_be32(value), __ATOMIC_RELEASE);
	}

	Device &dev_;
	QpOptions options_;
	std::unique_ptr<u64[]> sq_buf_;
	std::unique_ptr<u64[]> rq_buf_;
	__be32 dbrec_[2] = {};
	u16 sq_pi_ = 0;
	u16 rq_pi_ = 0;
	u64 ever_posted_ = 0;
	bool destroyed_ = false;
	Shell<hca_qp, Qp> shell_;
};

// ---- devices and the world ----

class Device {
public:
	explicit Device(World &world);
	~Device();
	Device(const Device &) = delete;

	World &world() { return world_; }
	hca_dev *hca() { return &shell_.hca; }
	u64 stat(hca_stat which) const { return __atomic_load_n(&stats_.v[which], __ATOMIC_RELAXED); }
	// What its GID ends with.
	u8 number() const { return number_; }
	// Link state: a device that is down answers nobody.
	void set_up(bool up);
	bool is_up() const { return READ_ONCE(up_); }

private:
	World &world_;
	u8 number_;
	bool up_ = true;
	hca_stats stats_{};
	Shell<hca_dev, Device> shell_;
};

class World {
public:
	World();
	~World();
	World(const World &) = delete;

	Device &add_device() { return devices_.emplace_back(*this); }
	Memory &add_memory(size_t size, u8 block_shift = 12, u32 beside = 1)
	{
		return memories_.emplace_back(size, block_shift, ++seed_, beside);
	}
	Key &add_key(Device &d, Memory &m, const KeyOptions &o = {}) { return keys_.emplace_back(d, m, o); }
	IndirectKey &add_indirect(Device &d, const IndirectOptions &o = {}) { return indirect_.emplace_back(d, o); }
	Cq &add_cq(Device &d, u32 entries = 256, u32 cqe_size = 64)
	{
		return cqs_.emplace_back(d, entries, cqe_size);
	}
	Srq &add_srq(Device &d, u32 entries = 64, u8 shift = 6, u32 pdn = 1, hca_srq_form form = HCA_SRQ_LINKED)
	{
		return srqs_.emplace_back(d, entries, shift, pdn, form);
	}
	Counter &add_counter(Device &d, bool bytes = false) { return counters_.emplace_back(d, bytes); }
	Qp &add_qp(Device &d, const QpOptions &o) { return qps_.emplace_back(d, o); }

	// Run what was kicked until nothing is left, or for so many turns.
	void settle(u64 turns = ~0ull);
	// One QP that was kicked; false if there is none.
	bool run_one();
	bool is_kicked(const Qp &qp);
	// Move the clock, with every timer on the way, each followed by so many turns.
	void advance(u64 ns, u64 turns = ~0ull);
	u64 now() const { return now_; }
	// When the QP's timer goes off, from now.
	std::optional<u64> timer_of(const Qp &qp);
	std::optional<u64> timer_of(const Cq &cq);
	// Routes may have changed.
	void fabric_changed();
	u32 *fabric_gen() { return &fabric_gen_; }
	u8 next_device() { return ++num_devices_; }
	Device *device_at(const u8 *gid);
	// XRC SRQs by device and number.
	std::map<std::pair<hca_dev *, u32>, hca_srq *> xrc_srqs;
	// Who has joined a multicast group.
	std::multimap<u8, Qp *> groups;

	std::vector<Event> take_events();
	size_t count_events(const Event &e);

	// Called inside the device, with its locks held.
	std::function<void(const Event &)> on_event;

	// Where a memory holds what it must not, else nothing.
	std::optional<std::string> damage() const;

	static const hca_ops ops;
	static void assert_outside();

	void told(const Event &e);
	void kicked(Qp &qp);
	void timer_set(Qp &qp, u64 ns);
	void timer_set(Cq &cq, u64 ns);
	void forget(Qp &qp);

private:
	std::mutex lock_; // everything below that changes while tests run
	std::vector<Event> events_;
	std::deque<Qp *> kicks_;
	std::map<Qp *, u64> timers_;
	std::map<Cq *, u64> cq_timers_;
	u64 now_ = 0;
	u32 fabric_gen_ = 1;
	u8 num_devices_ = 0;
	u32 seed_ = 0;
	long allocations_before_;
	// in the order of construction; destroyed backwards
	std::list<Device> devices_;
	std::list<Memory> memories_;
	std::list<Key> keys_;
	std::list<IndirectKey> indirect_;
	std::list<Counter> counters_;
	std::list<Cq> cqs_;
	std::list<Srq> srqs_;
	std::list<Qp> qps_;
};

} // namespace world
