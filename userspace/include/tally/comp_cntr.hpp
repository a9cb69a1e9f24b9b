// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion counters in C++20: the functions of tally/verbs.h and tally/comp_cntr.h as types that own what they
// create.
//
//	auto done = tally::comp_cntr::create(*context).value();
//	done.attach(*qp, tally::op::rdma_write).value();
//	... post 100 writes ...
//	auto waited = done.wait(100, {.timeout = std::chrono::seconds(1)});
//	if (waited.error() == std::errc::timed_out) ...
//
// Errors are those of the C functions, as std::error_code in a tally::result.  Thread safety is that of the C
// functions too: everything may be called from any thread, but destruction and moves must not race with use.
#pragma once

#include <tally/comp_cntr.h>
#include <tally/result.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace tally {

// Kinds of operations that can be counted; combine them with |.
enum class op : std::uint32_t {
	none = 0,
	send = IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
	recv = IBV_QP_ATTACH_COMP_CNTR_OP_RECV,
	rdma_read = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
	remote_rdma_read = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
	rdma_write = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
	remote_rdma_write = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE,
	atomic = TALLY_QP_ATTACH_COMP_CNTR_OP_ATOMIC,
	remote_atomic = TALLY_QP_ATTACH_COMP_CNTR_OP_REMOTE_ATOMIC,
	memcpy = TALLY_QP_ATTACH_COMP_CNTR_OP_MEMCPY,
	umr = TALLY_QP_ATTACH_COMP_CNTR_OP_UMR,
};

namespace detail {

constexpr std::uint32_t bits(op ops) noexcept
{
	return static_cast<std::uint32_t>(ops);
}

} // namespace detail

constexpr op operator|(op a, op b) noexcept
{
	return static_cast<op>(detail::bits(a) | detail::bits(b));
}

constexpr op operator&(op a, op b) noexcept
{
	return static_cast<op>(detail::bits(a) & detail::bits(b));
}

enum class counts {
	operations, // a success adds 1
	bytes,	    // a success adds the length of its payload
};

// The two counts of one counter.
struct comp_cntr_value {
	std::uint64_t comp = 0;
	std::uint64_t err = 0;

	friend constexpr bool operator==(const comp_cntr_value &, const comp_cntr_value &) noexcept = default;
};

// What a device can count.
struct comp_cntr_caps {
	std::uint64_t max_value = 0;
	std::uint32_t max_counters = 0;
	op ops = op::none;
};

inline result<comp_cntr_caps> query_comp_cntr_caps(ibv_context &context)
{
	ibv_comp_cntr_caps caps{};
	if (const int err = ibv_query_comp_cntr_caps(&context, &caps))
		return error_of(err);
	return comp_cntr_caps{caps.max_value, caps.max_counters, static_cast<op>(caps.supported_qp_attach_ops)};
}

// How long to wait, and the error count that is no surprise.
struct wait_options {
	std::optional<std::chrono::nanoseconds> timeout = std::nullopt; // none: for ever; zero: only look
	std::uint64_t err_seen = 0;
};

// What is waited for on one of several counters.
struct wait_target {
	std::uint64_t value = 0;
	std::uint64_t err_seen = 0;
};

namespace detail {

inline result<void> done(int err)
{
	return err ? result<void>(error_of(err)) : result<void>();
}

inline std::uint64_t timeout_ns(std::optional<std::chrono::nanoseconds> timeout) noexcept
{
	if (!timeout)
		return TALLY_COMP_CNTR_WAIT_FOREVER;
	return timeout->count() > 0 ? static_cast<std::uint64_t>(timeout->count()) : 0;
}

inline tally_memory at_address(void *address) noexcept
{
	tally_memory memory{};
	memory.type = TALLY_MEMORY_VA;
	memory.fd = -1;
	memory.addr = address;
	return memory;
}

inline ibv_comp_cntr_type type_of(counts what) noexcept
{
	return what == counts::bytes ? IBV_COMP_CNTR_TYPE_BYTES : IBV_COMP_CNTR_TYPE_WRS;
}

} // namespace detail

// Part of a dma-buf, for counts that others watch.
struct dmabuf_memory {
	int fd = -1;
	std::uint64_t offset = 0;
	void *mapped = nullptr; // where this process sees the same place, if it does

	operator tally_memory() const noexcept
	{
		tally_memory memory{};
		memory.type = TALLY_MEMORY_DMABUF;
		memory.fd = fd;
		memory.addr = mapped;
		memory.offset = offset;
		return memory;
	}
};

// A counter that someone else owns: all that can be done with it short of destroying it.
class comp_cntr_ref {
    public:
	explicit comp_cntr_ref(ibv_comp_cntr *cntr) noexcept : cntr_(cntr) {}

	ibv_comp_cntr *get() const noexcept { return cntr_; }

	// One acquire load: what was counted is visible.
	result<std::uint64_t> read() const { return one(ibv_read_comp_cntr); }
	result<std::uint64_t> read_err() const { return one(ibv_read_err_comp_cntr); }

	result<void> set(std::uint64_t value) { return detail::done(ibv_set_comp_cntr(cntr_, value)); }
	result<void> set_err(std::uint64_t value) { return detail::done(ibv_set_err_comp_cntr(cntr_, value)); }
	result<void> inc(std::uint64_t amount = 1) { return detail::done(ibv_inc_comp_cntr(cntr_, amount)); }
	result<void> inc_err(std::uint64_t amount = 1) { return detail::done(ibv_inc_err_comp_cntr(cntr_, amount)); }

	// Counts these operations of a queue pair from now on; it has to be in RESET or INIT.
	result<void> attach(ibv_qp &qp, op ops)
	{
		ibv_qp_attach_comp_cntr_attr attr{};
		attr.op_mask = detail::bits(ops);
		return detail::done(ibv_qp_attach_comp_cntr(&qp, cntr_, &attr));
	}

	// Sleeps until the completion count has reached the target.  std::errc::io_error: the error count moved;
	// timed_out; interrupted.
	result<void> wait(std::uint64_t target, wait_options options = {}) const
	{
		return detail::done(
			tally_wait_comp_cntr(cntr_, target, options.err_seen, detail::timeout_ns(options.timeout)));
	}

	// Fires the eventfd once when the target is reached, and, given the known error count, when that moves.
	result<void> notify(int eventfd, std::uint64_t target,
			    std::optional<std::uint64_t> err_seen = std::nullopt) const
	{
		const std::uint64_t seen = err_seen.value_or(0);
		return detail::done(tally_notify_comp_cntr(cntr_, target, err_seen ? &seen : nullptr, eventfd));
	}

	// Where the counts are, for those who watch by themselves.
	result<tally_comp_cntr_words> words() const
	{
		tally_comp_cntr_words words{};
		if (const int err = tally_get_comp_cntr_words(cntr_, &words))
			return error_of(err);
		return words;
	}

    protected:
	ibv_comp_cntr *cntr_;

    private:
	result<std::uint64_t> one(int (*read_it)(ibv_comp_cntr *, std::uint64_t *)) const
	{
		std::uint64_t value = 0;
		if (const int err = read_it(cntr_, &value))
			return error_of(err);
		return value;
	}
};

// A counter.  Its end destroys it; one that a queue pair still holds cannot be destroyed and lives on, so end the
// queue pairs first, or look at what destroy() says.
class comp_cntr : public comp_cntr_ref {
    public:
	static result<comp_cntr> create(ibv_context &context, counts what = counts::operations)
	{
		ibv_comp_cntr_init_attr attr{};
		attr.type = detail::type_of(what);
		return adopt(ibv_create_comp_cntr(&context, &attr));
	}

	// Counts in two words of the caller, which stay his and must outlive the counter.
	static result<comp_cntr> create_at(ibv_context &context, std::uint64_t &comp, std::uint64_t &err,
					   counts what = counts::operations)
	{
		return create_at(context, detail::at_address(&comp), detail::at_address(&err), what);
	}

	static result<comp_cntr> create_at(ibv_context &context, const tally_memory &comp, const tally_memory &err,
					   counts what = counts::operations)
	{
		tally_comp_cntr_init_attr attr{};
		attr.type = detail::type_of(what);
		attr.comp = comp;
		attr.err = err;
		return adopt(tally_create_comp_cntr(&context, &attr));
	}

	// Takes over a counter that was created with the C API.
	explicit comp_cntr(ibv_comp_cntr *owned) noexcept : comp_cntr_ref(owned) {}

	comp_cntr(comp_cntr &&other) noexcept : comp_cntr_ref(other.release()) {}

	comp_cntr &operator=(comp_cntr &&other) noexcept
	{
		if (this != &other) {
			end();
			cntr_ = other.release();
		}
		return *this;
	}

	~comp_cntr() { end(); }

	// Destroys it now.  std::errc::device_or_resource_busy: a queue pair holds it, and this goes on owning it.
	result<void> destroy()
	{
		const int err = cntr_ ? ibv_destroy_comp_cntr(cntr_) : 0;
		if (!err)
			cntr_ = nullptr;
		return detail::done(err);
	}

	// Leaves it to the caller.
	ibv_comp_cntr *release() noexcept { return std::exchange(cntr_, nullptr); }

    private:
	static result<comp_cntr> adopt(ibv_comp_cntr *cntr)
	{
		return cntr ? result<comp_cntr>(comp_cntr(cntr)) : result<comp_cntr>(error_of(errno));
	}

	void end() noexcept
	{
		if (cntr_)
			ibv_destroy_comp_cntr(cntr_);
		cntr_ = nullptr;
	}
};

struct group_options {
	counts what = counts::operations;
	std::uint32_t stride = 0; // bytes from one counter to the next; 0: side by side
	tally_memory memory{};	  // by default the library's
};

// Counters side by side in one piece of memory, read and waited for together.
class comp_cntr_group {
    public:
	static result<comp_cntr_group> create(ibv_context &context, std::uint32_t size,
					      const group_options &options = {})
	{
		tally_comp_cntr_group_attr attr{};
		attr.type = detail::type_of(options.what);
		attr.num = size;
		attr.stride = options.stride;
		attr.memory = options.memory;
		auto *group = tally_create_comp_cntr_group(&context, &attr);
		if (!group)
			return error_of(errno);
		return comp_cntr_group(group);
	}

	// In an array of the caller, which stays his and must outlive the group.
	static result<comp_cntr_group> create(ibv_context &context, std::span<tally_comp_cntr_value> memory,
					      counts what = counts::operations)
	{
		return create(context, static_cast<std::uint32_t>(memory.size()),
			      {.what = what,
			       .stride = sizeof(tally_comp_cntr_value),
			       .memory = detail::at_address(memory.data())});
	}

	tally_comp_cntr_group *get() const noexcept { return group_.get(); }

	std::uint32_t size() const noexcept { return tally_comp_cntr_group_size(group_.get()); }

	// One of them.  Of a place that does not exist or whose counter is destroyed get() is null: not to be used.
	comp_cntr_ref operator[](std::uint32_t index) const noexcept
	{
		return comp_cntr_ref(tally_comp_cntr_group_at(group_.get(), index));
	}

	// As many as there is room for, from the first one on.  No snapshot: each value is read for itself.
	result<void> read(std::span<tally_comp_cntr_value> values, std::uint32_t first = 0) const
	{
		return detail::done(tally_read_comp_cntr_group(
			group_.get(), first, static_cast<std::uint32_t>(values.size()), values.data()));
	}

	// One target for each counter from the first one on, TALLY_COMP_CNTR_WAIT_MAX at most.
	result<void> wait_all(std::span<const wait_target> targets,
			      std::optional<std::chrono::nanoseconds> timeout = std::nullopt,
			      std::uint32_t first = 0) const
	{
		return detail::done(wait(targets, 0, timeout, first, nullptr));
	}

	result<std::uint32_t> wait_any(std::span<const wait_target> targets,
				       std::optional<std::chrono::nanoseconds> timeout = std::nullopt,
				       std::uint32_t first = 0) const
	{
		std::uint32_t index = 0;
		if (const int err = wait(targets, TALLY_COMP_CNTR_WAIT_ANY, timeout, first, &index))
			return error_of(err);
		return first + index;
	}

	// Destroys it now.  std::errc::device_or_resource_busy: queue pairs hold some of the counters.
	result<void> destroy()
	{
		const int err = group_ ? tally_destroy_comp_cntr_group(group_.get()) : 0;
		if (!err)
			(void)group_.release();
		return detail::done(err);
	}

    private:
	struct destroyer {
		void operator()(tally_comp_cntr_group *group) const noexcept { tally_destroy_comp_cntr_group(group); }
	};

	explicit comp_cntr_group(tally_comp_cntr_group *group) noexcept : group_(group) {}

	int wait(std::span<const wait_target> targets, std::uint32_t flags,
		 std::optional<std::chrono::nanoseconds> timeout, std::uint32_t first, std::uint32_t *index) const;

	std::unique_ptr<tally_comp_cntr_group, destroyer> group_;
};

namespace detail {

// The targets as the C API takes them.
class target_array {
    public:
	explicit target_array(std::span<const wait_target> targets) noexcept
		: size_(static_cast<std::uint32_t>(std::min(targets.size(), targets_.size() + 1)))
	{
		for (std::size_t i = 0; i < std::min(targets.size(), targets_.size()); ++i) {
			targets_[i].value = targets[i].value;
			targets_[i].err_seen = targets[i].err_seen;
		}
	}

	const tally_comp_cntr_target *data() const noexcept { return targets_.data(); }

	// One more than there may be, if there were too many: the C API refuses that.
	std::uint32_t size() const noexcept { return size_; }

    private:
	std::array<tally_comp_cntr_target, TALLY_COMP_CNTR_WAIT_MAX> targets_{};
	std::uint32_t size_;
};

inline int wait_for(std::span<const comp_cntr_ref> cntrs, std::span<const wait_target> targets, std::uint32_t flags,
		    std::optional<std::chrono::nanoseconds> timeout, std::uint32_t *index)
{
	std::array<ibv_comp_cntr *, TALLY_COMP_CNTR_WAIT_MAX> handles{};
	if (cntrs.size() != targets.size() || cntrs.size() > handles.size())
		return EINVAL;
	std::transform(cntrs.begin(), cntrs.end(), handles.begin(), [](const comp_cntr_ref &c) { return c.get(); });
	const target_array array(targets);
	return tally_wait_comp_cntrs(handles.data(), array.data(), array.size(), flags, timeout_ns(timeout), index);
}

} // namespace detail

inline int comp_cntr_group::wait(std::span<const wait_target> targets, std::uint32_t flags,
				 std::optional<std::chrono::nanoseconds> timeout, std::uint32_t first,
				 std::uint32_t *index) const
{
	const detail::target_array array(targets);
	return tally_wait_comp_cntr_group(group_.get(), first, array.size(), array.data(), flags,
					  detail::timeout_ns(timeout), index);
}

// Sleeps until all of the counters have reached their targets.  std::errc::io_error: an error count moved.
inline result<void> wait_all(std::span<const comp_cntr_ref> cntrs, std::span<const wait_target> targets,
			     std::optional<std::chrono::nanoseconds> timeout = std::nullopt)
{
	return detail::done(detail::wait_for(cntrs, targets, 0, timeout, nullptr));
}

// Sleeps until one of them has, and says which.
inline result<std::size_t> wait_any(std::span<const comp_cntr_ref> cntrs, std::span<const wait_target> targets,
				    std::optional<std::chrono::nanoseconds> timeout = std::nullopt)
{
	std::uint32_t index = 0;
	if (const int err = detail::wait_for(cntrs, targets, TALLY_COMP_CNTR_WAIT_ANY, timeout, &index))
		return error_of(err);
	return std::size_t{index};
}

} // namespace tally
