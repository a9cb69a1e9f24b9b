// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "world.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace world {

// What a poster may do inside his doorbell, and the engine in one turn.
constexpr hca_budget poster_budget = {32, 64 * 1024};
constexpr hca_budget engine_budget = {64, 256 * 1024};

static std::unique_ptr<u64[]> shared_memory(size_t bytes)
{
	return std::make_unique<u64[]>((bytes + 7) / 8);
}

// ---- keys ----

Key::Key(Device &dev, Memory &memory, const KeyOptions &o)
    : dev_(dev), memory_(memory), offset_(o.offset)
{
	size_t block = size_t{1} << memory.shift();
	size_t length = std::min(o.length, memory.size() - o.offset);
	u32 index;

	if (hca_table_reserve(&dev.hca()->mkeys, &index))
		hca_port_bug("no key is left");
	if (o.repeat > 1) {
		for (u32 i = 0; i < o.repeat; i++)
			blocks_.insert(blocks_.end(), memory.blocks().begin(), memory.blocks().end());
		length = blocks_.size() * block;
	} else if (length) {
		for (size_t b = o.offset / block; b <= (o.offset + length - 1) / block; b++)
			blocks_.push_back(memory.blocks()[b]);
	}
	hca_.key = index << 8 | 0x5a;
	hca_.pdn = o.pdn;
	hca_.access = o.access;
	hca_.invalidate_ok = o.invalidate_ok;
	hca_.block_shift = memory.shift();
	hca_.iova = o.iova.value_or((1ull << 40) + o.offset);
	hca_.length = length;
	hca_.first_offset = o.offset & (block - 1);
	hca_.blocks = blocks_.data();
	hca_mkey_publish(dev.hca(), &hca_);
}

Key::~Key()
{
	kill();
}

void Key::kill()
{
	if (dead_)
		return;
	dead_ = true;
	hca_mkey_unpublish(dev_.hca(), &hca_);
	synchronize_rcu();
	hca_table_release(&dev_.hca()->mkeys, hca_.key >> 8);
	/* Who comes after the grace period finds no memory. */
	std::fill(blocks_.begin(), blocks_.end(), nullptr);
}

IndirectKey::IndirectKey(Device &dev, const IndirectOptions &o) : dev_(dev), entries_(2 * o.max_entries)
{
	u32 index;

	if (hca_table_reserve(&dev.hca()->mkeys, &index))
		hca_port_bug("no key is left");
	hca_.key = index << 8 | o.variant;
	hca_.pdn = o.pdn;
	hca_.invalidate_ok = o.invalidate_ok;
	hca_.indirect = &indirect_;
	hca_indirect_config cfg{};
	cfg.max_entries = o.max_entries;
	cfg.room = entries_.data();
	cfg.variant = o.variant;
	cfg.access = HCA_ACCESS_LOCAL_READ;
	cfg.free = true;
	cfg.qpn = HCA_ANY_QPN;
	if (hca_indirect_init(&indirect_, &cfg))
		hca_port_bug("a key without entries is refused");
	hca_mkey_publish(dev.hca(), &hca_);
}

IndirectKey::~IndirectKey()
{
	kill();
}

void IndirectKey::kill()
{
	if (dead_)
		return;
	dead_ = true;
	hca_mkey_unpublish(dev_.hca(), &hca_);
	synchronize_rcu();
	hca_table_release(&dev_.hca()->mkeys, hca_.key >> 8);
	entries_ = {};
}

// ---- completion queues ----

Cq::Ring::Ring(u32 n, u32 size) : entries(n), cqe_size(size), buf(shared_memory(size_t{n} * size))
{
	for (u32 i = 0; i < n; i++)
		at(i)->op_own = HCA_CQE_INVALID << 4 | 1;
}

hca_cqe *Cq::Ring::at(u32 index) const
{
	auto *bytes = reinterpret_cast<u8 *>(buf.get());
	return reinterpret_cast<hca_cqe *>(bytes + size_t{index & (entries - 1)} * cqe_size + cqe_size -
					   HCA_CQE_SIZE);
}

bool Cq::Ring::is_software_owned(u32 index) const
{
	u8 op_own = __atomic_load_n(&at(index)->op_own, __ATOMIC_ACQUIRE);
	return op_own >> 4 != HCA_CQE_INVALID && (op_own & 1) == !!(index & entries);
}

void Cq::moderate(u16 count, u64 ns)
{
	hca_cq_moderate(hca(), count, ns);
	World::assert_outside();
}

void Cq::timer()
{
	hca_cq_timer(hca());
	World::assert_outside();
}

void Cq::start_at(u32 index)
{
	/* Entries hold what the last round left there. */
	for (u32 i = index; i != index + ring_.entries; i++)
		ring_.at(i)->op_own = static_cast<u8>(HCA_CQE_REQ << 4 | !(i & ring_.entries));
	ci_ = index;
	publish_consumer_index();
	hca()->pi = hca()->ci = hca()->solicited_pi = index;
}

Cq::Cq(Device &dev, u32 entries, u32 cqe_size) : dev_(dev), ring_(entries, cqe_size)
{
	shell_.owner = this;
	hca_cq_init(hca(), dev.hca(), ring_.buf.get(), entries, cqe_size, dbrec_);
}

std::optional<Wc> Cq::peek()
{
	if (!ring_.is_software_owned(ci_))
		return {};
	hca_cqe e = *ring_.at(ci_++);
	u32 sop_qpn = be32_to_cpu(e.sop_drop_qpn);
	Wc wc{};
	wc.opcode = e.op_own >> 4;
	wc.send_op = static_cast<u8>(sop_qpn >> 24);
	wc.qpn = sop_qpn & 0xffffff;
	wc.src_qpn = be32_to_cpu(e.flags_rqpn) & 0xffffff;
	wc.header = static_cast<u8>(be32_to_cpu(e.flags_rqpn) >> 24);
	wc.user_index = be32_to_cpu(e.srqn_uidx) & 0xffffff;
	wc.byte_cnt = be32_to_cpu(e.byte_cnt);
	wc.imm = be32_to_cpu(e.imm_inval_pkey);
	wc.index = be16_to_cpu(e.wqe_counter);
	if (!wc.ok()) {
		wc.syndrome = e.syndrome;
		wc.vendor_err = e.vendor_err_synd;
	} else {
		wc.timestamp = be64_to_cpu(e.timestamp);
	}
	return wc;
}

void Cq::publish_consumer_index()
{
	__atomic_store_n(&dbrec_[HCA_DBREC_CQ_CI], cpu_to_be32(ci_ & 0xffffff), __ATOMIC_RELEASE);
}

std::optional<Wc> Cq::poll()
{
	auto wc = peek();
	if (wc)
		publish_consumer_index();
	return wc;
}

std::vector<Wc> Cq::poll_all()
{
	std::vector<Wc> all;
	while (auto wc = poll())
		all.push_back(*wc);
	return all;
}

void Cq::arm(bool solicited_only)
{
	set_arm_record((arm_sn_ & 3) << 28 | (solicited_only ? HCA_CQ_ARM_SOLICITED : 0) |
		       (ci_ & HCA_CQ_ARM_CI_MASK));
	hca_cq_arm(hca());
	World::assert_outside();
}

int Cq::resize(u32 entries, u32 cqe_size)
{
	Ring fresh(entries, cqe_size);
	int err = hca_cq_resize(hca(), fresh.buf.get(), entries, cqe_size);

	World::assert_outside();
	if (err)
		return err;
	/* Completions not yet taken move on by one, for the resize CQE takes an index, too. */
	u32 i = ci_;
	for (; ring_.is_software_owned(i) && ring_.at(i)->op_own >> 4 != HCA_CQE_RESIZE; i++) {
		hca_cqe *to = fresh.at(i + 1);
		*to = *ring_.at(i);
		to->op_own = static_cast<u8>((to->op_own & ~1) | !!((i + 1) & entries));
	}
	if (!ring_.is_software_owned(i))
		hca_port_bug("no resize CQE in the old ring");
	ci_++;
	ring_ = std::move(fresh);
	publish_consumer_index();
	return 0;
}

// ---- shared receive queues ----

Srq::Srq(Device &dev, u32 entries, u8 wqe_shift, u32 pdn, hca_srq_form form)
    : entries_(entries), shift_(wqe_shift), form_(form), buf_(shared_memory(size_t{entries} << wqe_shift)), dev_(dev),
      tail_(static_cast<u16>(entries - 1))
{
	shell_.owner = this;
	/* Where nothing is linked, all would lead to the first one. */
	for (u32 i = 0; i < entries; i++)
		set_next(static_cast<u16>(i), form == HCA_SRQ_LINKED ? static_cast<u16>((i + 1) & (entries - 1)) : 0);
	hca_srq_init(hca(), dev.hca(), pdn, buf_.get(), entries, wqe_shift, form, &dbrec_);
}

void Srq::set_next(u16 index, u16 next)
{
	reinterpret_cast<hca_wqe_srq_next *>(wqe(index))->next_wqe_index = cpu_to_be16(next);
}

static void write_scatter(u8 *to, u8 *end, std::span<const Sge> list)
{
	for (auto &s : list) {
		auto d = data_segment(s);
		std::memcpy(to, &d, sizeof(d));
		to += sizeof(d);
	}
	if (to < end) {
		hca_wqe_data stop{0, cpu_to_be32(HCA_INVALID_LKEY), 0};
		std::memcpy(to, &stop, sizeof(stop));
	}
}

u16 Srq::post(std::span<const Sge> list)
{
	const bool linked = form_ == HCA_SRQ_LINKED;
	if (linked && head_ == tail_)
		hca_port_bug("the SRQ is full");
	u16 index = head_;
	auto *next = reinterpret_cast<hca_wqe_srq_next *>(wqe(index));
	head_ = linked ? be16_to_cpu(next->next_wqe_index) : static_cast<u16>(index + 1);
	write_scatter(wqe(index) + (form_ == HCA_SRQ_BARE ? 0 : sizeof(*next)), wqe(index) + (size_t{1} << shift_),
		      list);
	smp_wmb();
	set_posted_record(++posted_ & 0xffff);
	return index;
}

void Srq::free_wqe(u16 index)
{
	set_next(tail_, index);
	tail_ = index;
}

// ---- counters ----

Counter::Counter(Device &dev, bool bytes)
{
	shell_.owner = this;
	hca()->dev = dev.hca();
	hca()->comp = &comp_;
	hca()->err = &err_;
	hca()->bytes = bytes;
}

// ---- queue pairs ----

Qp::Qp(Device &dev, const QpOptions &o) : dev_(dev), options_(o)
{
	hca_qp_config cfg{};

	if (o.srq)
		options_.rq_entries = 0;
	sq_buf_ = options_.sq_slots ? shared_memory(size_t{options_.sq_slots} * HCA_WQE_BB) : nullptr;
	rq_buf_ = options_.rq_entries ? shared_memory(size_t{options_.rq_entries} << o.rq_wqe_shift) : nullptr;
	if (hca_table_reserve(&dev.hca()->qps, &cfg.qpn))
		hca_port_bug("no QP number is left");
	cfg.pdn = o.pdn;
	cfg.type = o.type;
	cfg.user_index = o.user_index;
	cfg.all_signaled = o.all_signaled;
	cfg.send_cq = o.send_cq->hca();
	cfg.recv_cq = (o.recv_cq ? o.recv_cq : o.send_cq)->hca();
	cfg.srq = o.srq ? o.srq->hca() : nullptr;
	cfg.sq_buf = sq_buf_.get();
	cfg.sq_slots = options_.sq_slots;
	cfg.rq_buf = rq_buf_.get();
	cfg.rq_entries = options_.rq_entries;
	cfg.rq_wqe_shift = o.rq_wqe_shift;
	cfg.dbrec = dbrec_;
	cfg.key = o.key;
	cfg.xrcdn = o.xrcdn;
	cfg.streams = o.streams;
	shell_.owner = this;
	hca_qp_init(hca(), dev.hca(), &cfg);
	hca_qp_publish(hca());
}

Qp::~Qp()
{
	destroy();
}

void Qp::destroy()
{
	if (destroyed_)
		return;
	destroyed_ = true;
	dev_.world().forget(*this);
	hca_qp_unpublish(hca());
	synchronize_rcu();
	dev_.world().forget(*this);
	hca_qp_attr reset{};
	reset.mask = HCA_ATTR_STATE;
	reset.state = HCA_QPS_RESET;
	hca_qp_modify(hca(), state(), &reset);
	hca_table_release(&dev_.hca()->qps, qpn());
}

u16 Qp::stage(const Wqe &wqe)
{
	u16 index = sq_pi_;
	auto bytes = wqe.bytes(index, qpn());
	size_t ring = size_t{options_.sq_slots} * HCA_WQE_BB;
	size_t at = size_t{index} * HCA_WQE_BB % ring;
	size_t first = std::min(bytes.size(), ring - at);

	std::memcpy(sq_ring() + at, bytes.data(), first);
	std::memcpy(sq_ring(), bytes.data() + first, bytes.size() - first);
	sq_pi_ = static_cast<u16>(sq_pi_ + wqe.slots());
	return index;
}

void Qp::ring()
{
	set_sq_record(sq_pi_);
	if (run(poster_budget.wqes, poster_budget.bytes) == HCA_RUN_MORE)
		dev_.world().kicked(*this);
}

u16 Qp::post_recv(std::span<const Sge> list)
{
	u16 index = rq_pi_++;
	size_t size = size_t{1} << options_.rq_wqe_shift;
	u8 *wqe = rq_ring() + (index & (options_.rq_entries - 1)) * size;

	write_scatter(wqe, wqe + size, list);
	set_rq_record(rq_pi_);
	return index;
}

void Qp::modify(const hca_qp_attr &attr)
{
	if (int err = hca_qp_modify(hca(), hca()->state, &attr))
		throw std::system_error(-err, std::generic_category(), "hca_qp_modify");
	World::assert_outside();
	if (attr.mask & HCA_ATTR_STATE && attr.state == HCA_QPS_RESET) {
		sq_pi_ = rq_pi_ = 0;
		dbrec_[0] = dbrec_[1] = 0;
	}
	if (attr.mask & HCA_ATTR_STATE && (attr.state == HCA_QPS_RTS || attr.state == HCA_QPS_SQD))
		dev_.world().kicked(*this);
}

void Qp::to_init(const ConnectOptions &o)
{
	hca_qp_attr a{};
	a.mask = HCA_ATTR_STATE | HCA_ATTR_ACCESS;
	a.state = HCA_QPS_INIT;
	a.access = o.access;
	modify(a);
}

void Qp::to_rtr(Qp &peer, const ConnectOptions &o)
{
	hca_qp_attr a{};
	a.mask = HCA_ATTR_STATE | HCA_ATTR_DEST_QPN | HCA_ATTR_MTU | HCA_ATTR_RNR_TIMER |
		 HCA_ATTR_MAX_DEST_RD_ATOMIC | HCA_ATTR_RQ_PSN | HCA_ATTR_ROUTE;
	a.state = HCA_QPS_RTR;
	a.dest_qpn = peer.qpn();
	a.mtu = o.mtu;
	a.rnr_timer = o.rnr_timer;
	a.max_dest_rd_atomic = o.max_dest_rd_atomic;
	a.rq_psn = o.rq_psn;
	remote = &peer.device();
	modify(a);
}

void Qp::to_rts(const ConnectOptions &o)
{
	hca_qp_attr a{};
	a.mask = HCA_ATTR_STATE | HCA_ATTR_RNR_RETRY | HCA_ATTR_RETRY_CNT | HCA_ATTR_TIMEOUT | HCA_ATTR_SQ_PSN;
	a.state = HCA_QPS_RTS;
	a.rnr_retry = o.rnr_retry;
	a.retry_cnt = o.retry_cnt;
	a.timeout = o.timeout;
	a.sq_psn = o.sq_psn;
	modify(a);
}

void Qp::connect(Qp &peer, const ConnectOptions &o)
{
	to_init(o);
	to_rtr(peer, o);
	to_rts(o);
}

void Qp::start(const ConnectOptions &o)
{
	hca_qp_attr a{};

	a.mask = HCA_ATTR_STATE | HCA_ATTR_ACCESS;
	if (options_.type == HCA_QP_UD)
		a.mask |= HCA_ATTR_QKEY;
	a.state = HCA_QPS_INIT;
	a.access = o.access;
	a.qkey = o.qkey;
	modify(a);
	a = {};
	a.mask = HCA_ATTR_STATE | HCA_ATTR_MTU | HCA_ATTR_RNR_TIMER | HCA_ATTR_MAX_DEST_RD_ATOMIC;
	a.state = HCA_QPS_RTR;
	a.mtu = o.mtu;
	a.rnr_timer = o.rnr_timer;
	a.max_dest_rd_atomic = o.max_dest_rd_atomic;
	modify(a);
	if (options_.type != HCA_QP_DCT)
		to_rts(o);
}

hca_run Qp::run(u32 wqes, u32 bytes)
{
	hca_budget b{wqes, bytes};
	hca_run r = hca_qp_run(hca(), &b);

	World::assert_outside();
	return r;
}

void Qp::timer()
{
	hca_qp_timer(hca());
	World::assert_outside();
}

int Qp::attach(Counter &c, u32 classes)
{
	int ret = hca_qp_attach(hca(), c.hca(), classes);

	World::assert_outside();
	return ret;
}

// ---- devices ----

Device::Device(World &world) : world_(world), number_(world.next_device())
{
	hca_dev *d = hca();

	shell_.owner = this;
	d->ops = &World::ops;
	d->stats = &stats_;
	d->fabric_gen = world.fabric_gen();
	/* Key 0x400 would look like the start of a pattern. */
	if (hca_table_init(&d->mkeys, 16, 65536) || hca_table_init(&d->qps, 2, 65536))
		hca_port_bug("no memory for a device");
}

Device::~Device()
{
	hca_table_destroy(&hca()->mkeys);
	hca_table_destroy(&hca()->qps);
}

void Device::set_up(bool up)
{
	WRITE_ONCE(up_, up);
	world_.fabric_changed();
}

void Srq::make_xrc(u32 number, u32 xrcdn, Cq &cq, u32 user_index)
{
	number_ = number;
	hca()->cq = cq.hca();
	hca()->xrcdn = xrcdn;
	hca()->user_index = user_index;
	dev_.world().xrc_srqs[{dev_.hca(), number}] = hca();
}

Device *World::device_at(const u8 *gid)
{
	for (auto &d : devices_)
		if (gid[0] != 0xff && gid[15] == d.number())
			return d.is_up() ? &d : nullptr;
	return nullptr;
}

// ---- the driver's side ----

const hca_ops World::ops = {
	.cq_event =
	    [](hca_cq *cq) {
		    Cq *c = Shell<hca_cq, Cq>::of(cq);
		    c->device().world().told({Told::CqEvent, c});
	    },
	.cq_timer =
	    [](hca_cq *cq, u64 ns) {
		    Cq *c = Shell<hca_cq, Cq>::of(cq);
		    c->device().world().timer_set(*c, ns);
	    },
	.cq_error =
	    [](hca_cq *cq) {
		    Cq *c = Shell<hca_cq, Cq>::of(cq);
		    c->device().world().told({Told::CqError, c});
	    },
	.srq_limit =
	    [](hca_srq *srq) {
		    auto *dev = Shell<hca_dev, Device>::of(srq->dev);
		    dev->world().told({Told::SrqLimit, Shell<hca_srq, Srq>::of(srq)});
	    },
	.qp_event =
	    [](hca_qp *qp, hca_event event) {
		    Qp *q = Shell<hca_qp, Qp>::of(qp);
		    q->device().world().told({Told::QpEvent, q, event});
	    },
	.kick =
	    [](hca_qp *qp) {
		    Qp *q = Shell<hca_qp, Qp>::of(qp);
		    q->device().world().kicked(*q);
	    },
	.timer =
	    [](hca_qp *qp, u64 ns) {
		    Qp *q = Shell<hca_qp, Qp>::of(qp);
		    q->device().world().timer_set(*q, ns);
	    },
	.route = [](hca_qp *qp) -> hca_dev * {
		Device *remote = Shell<hca_qp, Qp>::of(qp)->remote;
		BUG_ON(!rcu_read_lock_held());
		return remote && remote->is_up() ? remote->hca() : nullptr;
	},
	.route_av = [](hca_qp *qp, const hca_av *av) -> hca_dev * {
		Device *d = Shell<hca_qp, Qp>::of(qp)->device().world().device_at(av->gid);
		BUG_ON(!rcu_read_lock_held());
		return d ? d->hca() : nullptr;
	},
	/* The world's devices stay until its end. */
	.is_there =
	    [](const hca_dev *dev) {
		    BUG_ON(!rcu_read_lock_held());
		    return dev != nullptr;
	    },
	.multicast =
	    [](hca_qp *qp, const hca_av *av, void (*deliver)(hca_qp *, void *), void *arg) {
		    auto &groups = Shell<hca_qp, Qp>::of(qp)->device().world().groups;
		    BUG_ON(!rcu_read_lock_held());
		    if (av->gid[0] != 0xff)
			    return false;
		    for (auto [at, end] = groups.equal_range(av->gid[15]); at != end; ++at)
			    deliver(at->second->hca(), arg);
		    return true;
	    },
	.fill_grh =
	    [](hca_qp *qp, const hca_av *av, u32 bytes, u8 *grh) {
		    std::memset(grh, 0, HCA_GRH_BYTES);
		    grh[0] = 0x60;
		    grh[4] = static_cast<u8>(bytes >> 8);
		    grh[5] = static_cast<u8>(bytes);
		    grh[7] = av->hop_limit;
		    grh[23] = Shell<hca_qp, Qp>::of(qp)->device().number();
		    std::memcpy(grh + 24, av->gid, 16);
		    /* The world's devices have one address. */
		    return (av->flow >> 20 & 0xff) == 0;
	    },
	.xrc_srq = [](hca_dev *dev, u32 srqn, u32 xrcdn) -> hca_srq * {
		auto &all = Shell<hca_dev, Device>::of(dev)->world().xrc_srqs;
		auto at = all.find({dev, srqn});
		BUG_ON(!rcu_read_lock_held());
		return at != all.end() && at->second->xrcdn == xrcdn ? at->second : nullptr;
	},
	.counter_event =
	    [](hca_counter *counter) {
		    auto *dev = Shell<hca_dev, Device>::of(counter->dev);
		    dev->world().told({Told::CounterEvent, Shell<hca_counter, Counter>::of(counter)});
	    },
};

World::World() : allocations_before_(hca_port_live_allocations()) {}

World::~World()
{
	qps_.clear();
	srqs_.clear();
	cqs_.clear();
	counters_.clear();
	indirect_.clear();
	keys_.clear();
	memories_.clear();
	devices_.clear();
	if (hca_port_live_allocations() != allocations_before_)
		hca_port_bug("the device leaks memory");
}

void World::assert_outside()
{
	if (hca_port_locks_held() || rcu_read_lock_held())
		hca_port_bug("a call came back with locks held");
}

void World::told(const Event &e)
{
	if (on_event)
		on_event(e);
	std::lock_guard l(lock_);
	events_.push_back(e);
}

void World::kicked(Qp &qp)
{
	std::lock_guard l(lock_);
	if (!qp.is_destroyed() && std::find(kicks_.begin(), kicks_.end(), &qp) == kicks_.end())
		kicks_.push_back(&qp);
}

void World::timer_set(Qp &qp, u64 ns)
{
	std::lock_guard l(lock_);
	if (!qp.is_destroyed())
		timers_[&qp] = now_ + ns;
}

void World::timer_set(Cq &cq, u64 ns)
{
	std::lock_guard l(lock_);
	cq_timers_[&cq] = now_ + ns;
}

void World::forget(Qp &qp)
{
	std::lock_guard l(lock_);
	std::erase(kicks_, &qp);
	timers_.erase(&qp);
}

bool World::is_kicked(const Qp &qp)
{
	std::lock_guard l(lock_);
	return std::find(kicks_.begin(), kicks_.end(), &qp) != kicks_.end();
}

bool World::run_one()
{
	Qp *qp;
	{
		std::lock_guard l(lock_);
		if (kicks_.empty())
			return false;
		qp = kicks_.front();
		kicks_.pop_front();
	}
	if (qp->run(engine_budget.wqes, engine_budget.bytes) == HCA_RUN_MORE)
		kicked(*qp);
	return true;
}

void World::settle(u64 turns)
{
	while (turns-- && run_one())
		;
}

std::optional<u64> World::timer_of(const Qp &qp)
{
	std::lock_guard l(lock_);
	auto it = timers_.find(const_cast<Qp *>(&qp));
	if (it == timers_.end())
		return {};
	return it->second - now_;
}

std::optional<u64> World::timer_of(const Cq &cq)
{
	std::lock_guard l(lock_);
	auto it = cq_timers_.find(const_cast<Cq *>(&cq));
	if (it == cq_timers_.end())
		return {};
	return it->second - now_;
}

void World::advance(u64 ns, u64 turns)
{
	u64 end = now_ + ns;

	for (;;) {
		Qp *qp = nullptr;
		Cq *cq = nullptr;
		{
			std::lock_guard l(lock_);
			auto sooner = [](auto &a, auto &b) { return a.second < b.second; };
			auto due = std::min_element(timers_.begin(), timers_.end(), sooner);
			auto cq_due = std::min_element(cq_timers_.begin(), cq_timers_.end(), sooner);
			u64 at = due == timers_.end() ? ~0ull : due->second;
			u64 cq_at = cq_due == cq_timers_.end() ? ~0ull : cq_due->second;

			if (std::min(at, cq_at) > end) {
				now_ = end;
				break;
			}
			now_ = std::min(at, cq_at);
			if (cq_at < at) {
				cq = cq_due->first;
				cq_timers_.erase(cq_due);
			} else {
				qp = due->first;
				timers_.erase(due);
			}
		}
		if (cq) {
			cq->timer();
			continue;
		}
		qp->timer();
		kicked(*qp);
		settle(turns);
	}
	settle(turns);
}

void World::fabric_changed()
{
	u32 next = READ_ONCE(fabric_gen_) + 1;

	__atomic_store_n(&fabric_gen_, next ? next : 1, __ATOMIC_RELEASE);
	synchronize_rcu();
}

std::vector<Event> World::take_events()
{
	std::lock_guard l(lock_);
	return std::exchange(events_, {});
}

size_t World::count_events(const Event &e)
{
	std::lock_guard l(lock_);
	return static_cast<size_t>(std::count(events_.begin(), events_.end(), e));
}

std::optional<std::string> World::damage() const
{
	size_t n = 0;
	for (auto &m : memories_) {
		if (auto at = m.difference())
			return "memory " + std::to_string(n) + " at byte " + std::to_string(*at);
		n++;
	}
	return {};
}

} // namespace world
