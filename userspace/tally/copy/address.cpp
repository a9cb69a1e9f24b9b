// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "address.hpp"
#include "failure.hpp"
#include "interrupt.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace tally::cli {
namespace {

using addresses = std::unique_ptr<addrinfo, decltype([](addrinfo *list) { freeaddrinfo(list); })>;

addresses resolve(const host_port &address, int flags)
{
	addrinfo hints{};
	hints.ai_family = AF_UNSPEC;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = flags;
	addrinfo *found = nullptr;
	const int err = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), address.port.c_str(), &hints,
				    &found);
	if (err)
		throw failure(exit_status::connection,
			      fmt::format("{}:{}: {}", address.host, address.port, gai_strerror(err)));
	return addresses{found};
}

std::string name_of(const sockaddr_storage &address, socklen_t length)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	if (getnameinfo(reinterpret_cast<const sockaddr *>(&address), length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return "?";
	// An IPv4 peer of a socket that takes both.
	constexpr std::string_view mapped = "::ffff:";
	std::string_view name(host);
	if (address.ss_family == AF_INET6 && name.starts_with(mapped) &&
	    IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr))
		name.remove_prefix(mapped.size());
	return name.find(':') != name.npos ? fmt::format("[{}]:{}", name, port) : fmt::format("{}:{}", name, port);
}

void set(int socket, int level, int option, int value)
{
	setsockopt(socket, level, option, &value, sizeof(value));
}

// A peer whose machine is gone says nothing; after some seconds of silence the kernel asks.
void notice_dead_peer(int socket)
{
	set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
	set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
	set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
	set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

// Waits for a socket in slices, so that a signal is seen.  False: not in time.
bool wait_for(int socket, short events, std::chrono::milliseconds patience)
{
	constexpr std::chrono::milliseconds slice{200};
	for (std::chrono::milliseconds waited{0}; waited < patience; waited += slice) {
		pollfd wanted{.fd = socket, .events = events, .revents = 0};
		const int ready = poll(&wanted, 1, static_cast<int>(slice.count()));
		throw_if_interrupted();
		if (ready > 0)
			return true;
	}
	return false;
}

// 0 or the errno value.
int connect_one(int socket, const addrinfo &to, std::chrono::milliseconds patience)
{
	if (!connect(socket, to.ai_addr, to.ai_addrlen))
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (!wait_for(socket, POLLOUT, patience))
		return ETIMEDOUT;
	int err = 0;
	socklen_t length = sizeof(err);
	return getsockopt(socket, SOL_SOCKET, SO_ERROR, &err, &length) ? errno : err;
}

void set_blocking(int socket)
{
	// Messages are short and sockets have buffers; send() may as well block.
	const int flags = fcntl(socket, F_GETFL);
	fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
}

} // namespace

host_port parse_address(const std::string &text)
{
	host_port address{.host = text, .port = default_port};
	if (!text.empty() && text.front() == '[') {
		const auto end = text.find(']');
		const auto rest = end == std::string::npos ? std::string("?") : text.substr(end + 1);
		if (!rest.empty() && rest.front() != ':')
			throw failure(exit_status::usage,
				      fmt::format("{}: an address is HOST:PORT or [IPv6]:PORT", text));
		address.host = text.substr(1, end - 1);
		if (!rest.empty())
			address.port = rest.substr(1);
	} else if (const auto colon = text.rfind(':'); colon != std::string::npos && text.find(':') == colon) {
		address.host = text.substr(0, colon);
		address.port = text.substr(colon + 1);
	} // else a host, or a bare IPv6 address
	if (address.port.empty())
		throw failure(exit_status::usage, fmt::format("{}: the port is missing", text));
	return address;
}

listener listen_at(const host_port &address)
{
	const auto found = resolve(address, AI_PASSIVE);
	std::vector<const addrinfo *> candidates;
	for (const auto *one = found.get(); one; one = one->ai_next)
		candidates.push_back(one);
	// All addresses are those of IPv6, which take IPv4 too; where there is no IPv6, those of IPv4.
	const bool any = address.host.empty();
	if (any)
		std::ranges::stable_partition(candidates, [](auto *one) { return one->ai_family == AF_INET6; });

	int err = 0;
	for (const auto *one : candidates) {
		unique_fd socket(
			::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
		if (socket) {
			set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
			if (any && one->ai_family == AF_INET6)
				set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
			if (!bind(socket.get(), one->ai_addr, one->ai_addrlen) && !listen(socket.get(), 4)) {
				sockaddr_storage bound{};
				socklen_t length = sizeof(bound);
				getsockname(socket.get(), reinterpret_cast<sockaddr *>(&bound), &length);
				return {.socket = std::move(socket), .address = name_of(bound, length)};
			}
		}
		err = errno;
	}
	throw failure(exit_status::connection,
		      fmt::format("cannot listen at {}:{}: {}", address.host, address.port, errno_text(err)));
}

accepted accept_from(const listener &listener)
{
	for (;;) {
		if (!wait_for(listener.socket.get(), POLLIN, std::chrono::hours(1)))
			continue;
		sockaddr_storage from{};
		socklen_t length = sizeof(from);
		unique_fd socket(
			accept4(listener.socket.get(), reinterpret_cast<sockaddr *>(&from), &length, SOCK_CLOEXEC));
		if (socket) {
			notice_dead_peer(socket.get());
			return {.socket = std::move(socket), .peer = name_of(from, length)};
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			throw failure(exit_status::connection,
				      fmt::format("cannot accept a connection: {}", errno_text(errno)));
	}
}

unique_fd connect_to(const host_port &address, std::chrono::milliseconds patience)
{
	const auto found = resolve(address, 0);
	int err = 0;
	for (const auto *one = found.get(); one; one = one->ai_next) {
		unique_fd socket(
			::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
		err = socket ? connect_one(socket.get(), *one, patience) : errno;
		if (!err) {
			set_blocking(socket.get());
			notice_dead_peer(socket.get());
			return socket;
		}
	}
	throw failure(exit_status::connection,
		      fmt::format("cannot connect to {}:{}: {}", address.host, address.port, errno_text(err)));
}

} // namespace tally::cli
