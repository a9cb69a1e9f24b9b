// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The RDMA devices of this machine as the kernel tells them over netlink.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct nl_sock;
struct nl_msg;
struct nlattr;

namespace tally::cli {

struct rdma_port {
	std::uint32_t index = 0;
	std::string state;  // DOWN, INIT, ARMED, ACTIVE, ...
	std::string netdev; // empty: none
};

struct rdma_device {
	std::uint32_t index = 0;
	std::string name;
	std::string firmware;
	std::string driver; // by the id its uverbs interface has; empty: no such interface
	std::vector<rdma_port> ports;
};

class nldev {
    public:
	// Throws failure, as all of it does.
	nldev();

	std::vector<rdma_device> devices();
	void add_link(const std::string &name, const std::string &type, const std::string &netdev);
	void delete_link(const std::string &name);

    private:
	using attributes = nlattr **; // by number
	using receiver = std::function<void(attributes)>;

	// Sends a request and hands each answer to the receiver; 0 or the errno value that the kernel answered.
	int ask(nl_msg *request, const receiver &receive);

	void read_ports(rdma_device &device);
	void read_driver(rdma_device &device);

	struct closer {
		void operator()(nl_sock *socket) const noexcept;
	};
	std::unique_ptr<nl_sock, closer> socket_;
};

} // namespace tally::cli
