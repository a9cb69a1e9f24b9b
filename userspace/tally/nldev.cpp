// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "nldev.hpp"
#include "failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <fmt/format.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_netlink.h>

namespace tally::cli {
namespace {

struct message_deleter {
	void operator()(nl_msg *message) const noexcept { nlmsg_free(message); }
};
using message = std::unique_ptr<nl_msg, message_deleter>;

message request(int command, int flags = 0)
{
	message msg{nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_REQUEST | flags)};
	if (!msg)
		throw failure(exit_status::failed, errno_text(ENOMEM));
	return msg;
}

void put(nl_msg *msg, int attribute, const std::string &text)
{
	if (nla_put_string(msg, attribute, text.c_str()))
		throw failure(exit_status::usage, fmt::format("{}: too long", text));
}

void put(nl_msg *msg, int attribute, std::uint32_t number)
{
	if (nla_put_u32(msg, attribute, number))
		throw failure(exit_status::failed, errno_text(ENOMEM));
}

std::string text_of(const nlattr *attribute)
{
	if (!attribute)
		return {};
	const auto *from = static_cast<const char *>(nla_data(attribute));
	return {from, strnlen(from, static_cast<std::size_t>(nla_len(attribute)))};
}

std::uint64_t number_of(nlattr *attribute)
{
	switch (attribute ? nla_len(attribute) : 0) {
	case 1:
		return nla_get_u8(attribute);
	case 4:
		return nla_get_u32(attribute);
	case 8:
		return nla_get_u64(attribute);
	default:
		return 0;
	}
}

// enum ib_port_state
std::string state_name(std::uint64_t state)
{
	static constexpr std::array names{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
	return state < names.size() ? names[state] : fmt::format("{}", state);
}

// enum rdma_driver_id
std::string driver_name(std::uint64_t id)
{
	static constexpr std::array names{"unknown", "mlx5", "mlx4",  "cxgb3",	"cxgb4", "mthca", "bnxt_re",
					  "ocrdma",  "nes",  "irdma", "pvrdma", "qedr",	 "hns",	  "usnic",
					  "rxe",     "hfi1", "qib",   "efa",	"siw",	 "erdma"};
	return id < names.size() ? names[id] : fmt::format("driver {}", id);
}

// What goes on while an answer is read; callbacks of C cannot throw, so an exception waits here.
struct exchange {
	const std::function<void(nlattr **)> &receive;
	int err = 0;
	bool done = false;
	std::exception_ptr thrown;
};

int on_valid(nl_msg *msg, void *argument)
{
	auto &ex = *static_cast<exchange *>(argument);
	std::array<nlattr *, RDMA_NLDEV_ATTR_MAX> attrs{};
	if (nlmsg_parse(nlmsg_hdr(msg), 0, attrs.data(), attrs.size() - 1, nullptr) >= 0) {
		try {
			ex.receive(attrs.data());
		} catch (...) {
			ex.thrown = std::current_exception();
		}
	}
	ex.done = !(nlmsg_hdr(msg)->nlmsg_flags & NLM_F_MULTI);
	return NL_OK;
}

int on_finish(nl_msg *, void *argument)
{
	static_cast<exchange *>(argument)->done = true;
	return NL_STOP;
}

int on_error(sockaddr_nl *, nlmsgerr *answer, void *argument)
{
	auto &ex = *static_cast<exchange *>(argument);
	ex.err = -answer->error;
	ex.done = true;
	return NL_STOP;
}

[[noreturn]] void throw_link_error(int err, const std::string &text, const std::string &hint)
{
	const auto status = err == EPERM || err == EACCES ? exit_status::no_permission :
			    err == ENODEV		  ? exit_status::no_device :
							    exit_status::failed;
	throw failure(status, fmt::format("{}: {}{}", text, errno_text(err), hint));
}

} // namespace

void nldev::closer::operator()(nl_sock *socket) const noexcept
{
	nl_socket_free(socket);
}

nldev::nldev() : socket_(nl_socket_alloc())
{
	if (!socket_)
		throw failure(exit_status::failed, errno_text(ENOMEM));
	if (nl_connect(socket_.get(), NETLINK_RDMA) < 0)
		throw failure(exit_status::no_device, "this kernel has no RDMA support loaded (module ib_core)");
	nl_socket_disable_auto_ack(socket_.get());
	nl_socket_disable_seq_check(socket_.get());
}

int nldev::ask(nl_msg *request, const receiver &receive)
{
	exchange ex{.receive = receive, .err = 0, .done = false, .thrown = nullptr};
	std::unique_ptr<nl_cb, decltype([](nl_cb *cb) { nl_cb_put(cb); })> callbacks{nl_cb_alloc(NL_CB_DEFAULT)};
	if (!callbacks)
		return ENOMEM;
	nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, on_valid, &ex);
	nl_cb_set(callbacks.get(), NL_CB_FINISH, NL_CB_CUSTOM, on_finish, &ex);
	nl_cb_set(callbacks.get(), NL_CB_ACK, NL_CB_CUSTOM, on_finish, &ex);
	nl_cb_err(callbacks.get(), NL_CB_CUSTOM, on_error, &ex);

	if (nl_send_auto(socket_.get(), request) < 0)
		return EIO;
	while (!ex.done)
		if (nl_recvmsgs(socket_.get(), callbacks.get()) < 0 && !ex.done)
			return EIO;
	if (ex.thrown)
		std::rethrow_exception(ex.thrown);
	return ex.err;
}

void nldev::read_ports(rdma_device &device)
{
	auto msg = request(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP);
	put(msg.get(), RDMA_NLDEV_ATTR_DEV_INDEX, device.index);
	ask(msg.get(), [&](attributes attrs) {
		if (number_of(attrs[RDMA_NLDEV_ATTR_DEV_INDEX]) != device.index)
			return;
		device.ports.push_back(
			{.index = static_cast<std::uint32_t>(number_of(attrs[RDMA_NLDEV_ATTR_PORT_INDEX])),
			 .state = state_name(number_of(attrs[RDMA_NLDEV_ATTR_PORT_STATE])),
			 .netdev = text_of(attrs[RDMA_NLDEV_ATTR_NDEV_NAME])});
	});
}

void nldev::read_driver(rdma_device &device)
{
	auto msg = request(RDMA_NLDEV_CMD_GET_CHARDEV);
	put(msg.get(), RDMA_NLDEV_ATTR_DEV_INDEX, device.index);
	put(msg.get(), RDMA_NLDEV_ATTR_CHARDEV_TYPE, std::string("uverbs"));
	ask(msg.get(), [&](attributes attrs) {
		if (attrs[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID])
			device.driver = driver_name(number_of(attrs[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID]));
	});
}

std::vector<rdma_device> nldev::devices()
{
	std::vector<rdma_device> found;
	auto msg = request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	const int err = ask(msg.get(), [&](attributes attrs) {
		if (!attrs[RDMA_NLDEV_ATTR_DEV_INDEX] || !attrs[RDMA_NLDEV_ATTR_DEV_NAME])
			return;
		rdma_device device;
		device.index = static_cast<std::uint32_t>(number_of(attrs[RDMA_NLDEV_ATTR_DEV_INDEX]));
		device.name = text_of(attrs[RDMA_NLDEV_ATTR_DEV_NAME]);
		device.firmware = text_of(attrs[RDMA_NLDEV_ATTR_FW_VERSION]);
		found.push_back(std::move(device));
	});
	if (err)
		throw failure(exit_status::failed,
			      fmt::format("the kernel does not tell its RDMA devices: {}", errno_text(err)));

	for (auto &device : found) {
		read_ports(device);
		read_driver(device);
	}
	std::ranges::sort(found, {}, &rdma_device::name);
	return found;
}

void nldev::add_link(const std::string &name, const std::string &type, const std::string &netdev)
{
	auto msg = request(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);
	put(msg.get(), RDMA_NLDEV_ATTR_DEV_NAME, name);
	put(msg.get(), RDMA_NLDEV_ATTR_LINK_TYPE, type);
	put(msg.get(), RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
	const int err = ask(msg.get(), [](attributes) {});
	if (!err)
		return;
	const auto hint = err == ENODEV ? fmt::format(" (is there a network device {}?)", netdev) :
			  err == EINVAL ? fmt::format(" (is the module for link type {} there, and can it use {}?)",
						      type, netdev) :
					  std::string();
	throw_link_error(err, fmt::format("cannot add {} on {}", name, netdev), hint);
}

void nldev::delete_link(const std::string &name)
{
	const auto all = devices();
	const auto device = std::ranges::find(all, name, &rdma_device::name);
	if (device == all.end())
		throw failure(exit_status::no_device, fmt::format("there is no RDMA device {}", name));

	auto msg = request(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);
	put(msg.get(), RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	const int err = ask(msg.get(), [](attributes) {});
	if (err)
		throw_link_error(err, fmt::format("cannot delete {}", name),
				 err == EINVAL ? " (it has not been added as a link)" : "");
}

} // namespace tally::cli
