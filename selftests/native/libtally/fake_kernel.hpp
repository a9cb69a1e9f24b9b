// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A kernel for the library under test: takes the commands of the ioctl ABI apart as strictly as the real one does,
// and keeps counters.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tally/comp_cntr.h>
#include <utility>
#include <vector>

#include "uverbs_transport.hpp"

namespace tally::test {

// A counter as the fake kernel has it.
struct kernel_counter {
	std::uint64_t own_comp = 0, own_err = 0; // where the counts are without buffers
	std::uint64_t *comp = &own_comp;
	std::uint64_t *err = &own_err;
	tally_comp_cntr_type type = TALLY_COMP_CNTR_TYPE_WRS;
	std::optional<std::array<ib_uverbs_buffer_desc, 2>> buffers;
	int attached = 0;

	kernel_counter() = default;
	kernel_counter(const kernel_counter &) = delete;
	kernel_counter &operator=(const kernel_counter &) = delete;
};

struct notification {
	std::uint32_t handle;
	int fd;
	std::uint64_t target;
	std::optional<std::uint64_t> err_seen;
};

class fake_kernel {
    public:
	fake_kernel();
	~fake_kernel();
	fake_kernel(const fake_kernel &) = delete;
	fake_kernel &operator=(const fake_kernel &) = delete;

	// What this kernel and its device can do.
	std::uint32_t driver_id = 1; // RDMA_DRIVER_MLX5
	bool counters = true;
	bool extensions = true;
	std::uint32_t max_counters = 65536;
	std::uint32_t ops = 0x3f;

	// Commands answer so instead of being carried out: by object and method.
	std::map<std::pair<std::uint16_t, std::uint16_t>, int> failures;
	// Creation with buffers answers so, as when no page may be pinned.
	int buffer_failure = 0;
	// What a wait that has to sleep answers, and which place it gives.
	int wait_answer = ETIMEDOUT;
	std::uint32_t wait_index = 0;

	// What has happened.
	std::map<std::uint32_t, kernel_counter> alive;
	std::vector<std::pair<std::uint16_t, std::uint16_t>> commands;
	std::vector<notification> notifications;
	std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> attachments; // QP and bit to counter
	std::set<std::uint32_t> busy_qps;					      // beyond INIT
	std::vector<std::uint32_t> waited_handles;
	std::vector<tally_comp_cntr_target> waited_targets;
	std::uint64_t waited_timeout = 0;
	std::uint32_t waited_flags = 0;
	int cmd_fd = -1;

	std::size_t calls(std::uint16_t object, std::uint16_t method) const;
	// Ends a queue pair: it lets go of its counters.
	void destroy_qp(std::uint32_t qp);

	// A context on this kernel, and a queue pair of it.
	ibv_context *context() { return &context_; }
	ibv_qp make_qp(std::uint32_t handle);

    private:
	struct attributes;

	static int entry(int fd, ib_uverbs_ioctl_hdr *command);
	int run(ib_uverbs_ioctl_hdr *command);
	int query_caps(attributes &a);
	int attach(attributes &a);
	int create(attributes &a);
	int destroy(attributes &a);
	int modify(attributes &a);
	int read(attributes &a);
	int wait(attributes &a);
	int notify(attributes &a);
	kernel_counter *find(std::uint64_t handle);

	ibv_device device_{};
	ibv_context context_{};
	std::uint32_t next_handle_ = 7;
	uverbs::transport former_;
};

inline constexpr std::uint16_t device_object = UVERBS_OBJECT_DEVICE;
inline constexpr std::uint16_t counter_object = UVERBS_OBJECT_COMP_CNTR;
inline constexpr std::uint16_t qp_object = UVERBS_OBJECT_QP;

} // namespace tally::test
