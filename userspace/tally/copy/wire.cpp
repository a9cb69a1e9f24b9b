// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace tally::cli::wire {
namespace {

constexpr std::size_t longest_complaint = 1000;

[[noreturn]] void refuse(const char *why)
{
	throw failure(exit_status::connection, std::string("the other end does not speak this protocol: ") + why);
}

void put(byte_writer &w, const hello &m)
{
	w.put(static_cast<std::uint8_t>(m.role)).put(m.mtu).put(m.lid).put(m.qp_number).put(m.packet_number);
	w.put(std::span<const std::byte>{m.gid}).put(m.address).put(m.rkey);
	w.put(m.ring.slots).put(m.ring.chunk).put(m.size).put(m.mode);
	w.put(static_cast<std::uint8_t>(m.hashed));
}

hello get_hello(byte_reader &r)
{
	hello m;
	const auto role = r.get<std::uint8_t>();
	m.mtu = r.get<std::uint8_t>();
	m.lid = r.get<std::uint16_t>();
	m.qp_number = r.get<std::uint32_t>();
	m.packet_number = r.get<std::uint32_t>();
	r.get(m.gid);
	m.address = r.get<std::uint64_t>();
	m.rkey = r.get<std::uint32_t>();
	m.ring.slots = r.get<std::uint32_t>();
	m.ring.chunk = r.get<std::uint32_t>();
	m.size = r.get<std::uint64_t>();
	m.mode = r.get<std::uint32_t>();
	const auto hashed = r.get<std::uint8_t>();

	if (role != static_cast<std::uint8_t>(role::sender) && role != static_cast<std::uint8_t>(role::receiver))
		refuse("unknown role");
	m.role = static_cast<wire::role>(role);
	constexpr std::uint32_t numbers = 1 << 24; // of queue pairs and of packets
	if (m.qp_number >= numbers || m.packet_number >= numbers)
		refuse("impossible queue pair");
	if (m.mtu < 1 || m.mtu > 5)
		refuse("impossible MTU");
	if (!m.ring.valid())
		refuse("impossible ring");
	if (m.mode > 0777)
		refuse("impossible permissions");
	if (hashed > 1)
		refuse("unknown hash");
	m.hashed = hashed;
	return m;
}

void put(byte_writer &w, const summary &m)
{
	w.put(m.bytes).put(m.chunks).put(std::span<const std::byte>{m.hash});
	w.put(m.written.done).put(m.written.failed).put(m.arrived.done).put(m.arrived.failed);
}

summary get_summary(byte_reader &r)
{
	summary m;
	m.bytes = r.get<std::uint64_t>();
	m.chunks = r.get<std::uint64_t>();
	r.get(m.hash);
	m.written = {.done = r.get<std::uint64_t>(), .failed = r.get<std::uint64_t>()};
	m.arrived = {.done = r.get<std::uint64_t>(), .failed = r.get<std::uint64_t>()};
	return m;
}

void put(byte_writer &w, const ready &)
{
	w.put(std::uint32_t{0});
}

ready get_ready(byte_reader &r)
{
	if (r.get<std::uint32_t>())
		refuse("unknown flags");
	return {};
}

void put(byte_writer &w, const done &m)
{
	put(w, m.sender);
}

void put(byte_writer &w, const report &m)
{
	put(w, m.receiver);
}

void put(byte_writer &w, const complaint &m)
{
	w.put(static_cast<std::uint32_t>(m.status));
	w.put(std::as_bytes(std::span{m.text}.first(std::min(m.text.size(), longest_complaint))));
}

// How long the UTF-8 character is that this text begins with; 0: it is none, or a control character.
std::size_t printable_length(std::span<const std::byte> text)
{
	const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(text[i]); };
	const auto first = at(0);
	if (first < 0x80)
		return first >= 0x20 && first != 0x7f;
	const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	if (first < 0xc2 || first > 0xf4 || text.size() < length)
		return 0;
	std::uint32_t code = first & (0xff >> (length + 1));
	for (std::size_t i = 1; i < length; ++i) {
		if ((at(i) & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at(i) & 0x3f);
	}
	constexpr std::array<std::uint32_t, 5> least{0, 0, 0xa0, 0x800, 0x10000}; // up to 0x9f they control
	const bool surrogate = code >= 0xd800 && code <= 0xdfff;
	return code >= least[length] && code <= 0x10ffff && !surrogate ? length : 0;
}

// It goes to a terminal, so only what prints is kept.
std::string printable(std::span<const std::byte> text)
{
	std::string kept;
	while (!text.empty()) {
		const auto length = printable_length(text);
		for (const auto byte : text.first(length))
			kept += std::to_integer<char>(byte);
		if (!length)
			kept += '?';
		text = text.subspan(std::max<std::size_t>(length, 1));
	}
	return kept;
}

complaint get_complaint(byte_reader &r)
{
	complaint m;
	const auto status = r.get<std::uint32_t>();
	const bool known = (status >= static_cast<std::uint32_t>(exit_status::failed) &&
			    status <= static_cast<std::uint32_t>(exit_status::rdma)) ||
			   status == static_cast<std::uint32_t>(exit_status::interrupted);
	m.status = known ? static_cast<exit_status>(status) : exit_status::failed;
	const auto text = r.rest();
	if (text.size() > longest_complaint)
		refuse("too long a complaint");
	m.text = printable(text);
	return m;
}

message get_body(std::size_t type, std::span<const std::byte> body)
{
	byte_reader r(body);
	message m;
	switch (type) {
	case 0:
		m = get_hello(r);
		break;
	case 1:
		m = get_ready(r);
		break;
	case 2:
		m = done{get_summary(r)};
		break;
	case 3:
		m = report{get_summary(r)};
		break;
	case 4:
		m = get_complaint(r);
		break;
	default:
		refuse("unknown message");
	}
	if (!r.complete())
		refuse("message of a wrong length");
	return m;
}

} // namespace

std::vector<std::byte> encode(const message &message)
{
	byte_writer body;
	std::visit([&](const auto &m) { put(body, m); }, message);
	const auto bytes = body.take();

	byte_writer frame;
	frame.put(magic).put(version).put(static_cast<std::uint16_t>(message.index()));
	frame.put(static_cast<std::uint32_t>(bytes.size())).put(std::span<const std::byte>{bytes});
	return frame.take();
}

std::optional<message> decode(std::vector<std::byte> &arrived)
{
	byte_reader header(arrived);
	const auto its_magic = header.get<std::uint32_t>();
	// A stranger is recognized by his first bytes; he may never send more.
	if (arrived.size() >= 4 && its_magic != magic)
		refuse("wrong magic");
	if (arrived.size() < frame_header_bytes)
		return std::nullopt;
	const auto its_version = header.get<std::uint16_t>();
	const auto type = header.get<std::uint16_t>();
	const auto length = header.get<std::uint32_t>();
	if (its_version != version)
		refuse("another version of it");
	if (length > longest_body)
		refuse("too long a message");
	if (arrived.size() - frame_header_bytes < length)
		return std::nullopt;

	auto m = get_body(type, std::span{arrived}.subspan(frame_header_bytes, length));
	arrived.erase(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(frame_header_bytes + length));
	return m;
}

} // namespace tally::cli::wire
