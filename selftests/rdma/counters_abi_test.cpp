// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the kernel itself refuses, command by command, when no library has looked at them: each with its errno, and
// nothing made, changed or kept.
#include "ktap.hpp"
#include "udmabuf.hpp"
#include "verbs.hpp"

#include <comp_cntr_methods.hpp>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace rdma;
namespace attrs = tally::uverbs::attrs;
using namespace tally::uverbs;

namespace {

// Attributes of another length than they should have.
template <size_t N> using Bytes = std::array<std::byte, N>;
template <size_t N> argument put_bytes(attr_id id, const Bytes<N> &bytes)
{
	return put(in_array<std::byte>{id}, bytes);
}
argument put_number(attr_id id, uint64_t number) { return put(in<uint64_t>{id}, number); }
argument without(argument arg) { return put_if(false, arg); }

// A file of the device, with nothing in between.
struct File {
	Context c;
	const endpoint ep{c.get()->cmd_fd, RDMA_DRIVER_MLX5};

	template <class... Arguments> int call(uint16_t object, uint16_t method, Arguments... a) const
	{
		return command{object, method, a...}.run(ep.cmd_fd, ep.driver_id);
	}
	template <class... Arguments> int counter(uint16_t method, Arguments... a) const
	{
		return call(UVERBS_OBJECT_COMP_CNTR, method, a...);
	}
	// Counters in this file, as the uverbs core knows them.
	uint32_t counters() const
	{
		std::array<uint32_t, 128> handles;
		uint32_t total = ~0u;
		must(call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES,
			  put_number(UVERBS_ATTR_INFO_OBJECT_ID, UVERBS_OBJECT_COMP_CNTR),
			  put(out<uint32_t>{UVERBS_ATTR_INFO_TOTAL_HANDLES}, total),
			  put(out<decltype(handles)>{UVERBS_ATTR_INFO_HANDLES_LIST}, handles)),
		     "info_handles");
		return total;
	}
};

// A counter whose values the kernel keeps; it is gone without complaint, so nothing holds it.
struct Counter {
	const File &f;
	uint32_t handle = ~0u;

	explicit Counter(const File &file) : f(file)
	{
		must(create(f.ep, TALLY_COMP_CNTR_TYPE_WRS, nullptr, handle), "create");
	}
	~Counter() { EXPECT_EQ(destroy(f.ep, handle), 0); }
	Counter(const Counter &) = delete;
	uint64_t value(ib_uverbs_comp_cntr_entry entry = IB_UVERBS_COMP_CNTR_ENTRY_COMP) const
	{
		uint64_t v = ~0ull;
		must(read(f.ep, handle, entry, v), "read");
		return v;
	}
	void inc() const
	{
		must(modify(f.ep, handle, IB_UVERBS_COMP_CNTR_ENTRY_COMP, IB_UVERBS_COMP_CNTR_MODIFY_OP_INC, 1), "inc");
	}
};

// Memory that can be mapped more than once.
struct Shared {
	const size_t size = 2 * static_cast<size_t>(sysconf(_SC_PAGESIZE));
	int fd = memfd_create("words", 0);
	char *a, *b;

	Shared()
	{
		if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)))
			fail("memfd");
		a = map();
		b = map();
		std::memset(a, 0xee, size);
	}
	~Shared()
	{
		munmap(a, size);
		munmap(b, size);
		close(fd);
	}
	Shared(const Shared &) = delete;
	bool untouched() const { return std::all_of(a, a + size, [](char x) { return x == '\xee'; }); }

      private:
	char *map() const
	{
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED)
			fail("mmap");
		return static_cast<char *>(p);
	}
};

using Desc = ib_uverbs_buffer_desc;

Desc va(const void *p, uint64_t length = 8)
{
	return {IB_UVERBS_BUFFER_TYPE_VA, -1, 0, 0, reinterpret_cast<uintptr_t>(p), length};
}

Desc dmabuf(int fd, uint64_t offset, uint64_t length = 8)
{
	return {IB_UVERBS_BUFFER_TYPE_DMABUF, fd, 0, 0, offset, length};
}

// KiB that are pinned in this process.
long pinned()
{
	std::ifstream status("/proc/self/status");
	for (std::string word; status >> word;)
		if (word == "VmPin:" && status >> word)
			return std::stol(word);
	return -1;
}

// Creation is refused with @err whichever of the counts has the @bad memory, and nothing stays.
void expect_refused(const File &f, const Desc &good, const Desc &bad, int err, const char *why)
{
	const long before = pinned();
	const uint32_t counters = f.counters();
	uint32_t handle;

	for (const auto &buffers : {comp_cntr_buffers{bad, good}, comp_cntr_buffers{good, bad}}) {
		EXPECT_EQ(create(f.ep, TALLY_COMP_CNTR_TYPE_WRS, &buffers, handle), err) << why;
		EXPECT_EQ(f.counters(), counters) << why;
		EXPECT_EQ(pinned(), before) << why;
	}
}

KTEST(abi, "the core counts the counters that a file has, and pages of the caller's are pinned as long as those are there")
{
	File f;
	Shared m;
	const long before = pinned();
	const comp_cntr_buffers buffers{va(m.a), va(m.a + m.size / 2)};
	uint32_t handle;
	EXPECT_EQ(f.counters(), 0u);
	must(create(f.ep, TALLY_COMP_CNTR_TYPE_WRS, &buffers, handle), "create");
	{
		Counter k(f);
		EXPECT_EQ(f.counters(), 2u);
	}
	EXPECT_EQ(pinned() - before, 2 * sysconf(_SC_PAGESIZE) / 1024);
	EXPECT_EQ(destroy(f.ep, handle), 0);
	EXPECT_EQ(f.counters(), 0u);
	EXPECT_EQ(pinned(), before);
}

KTEST(abi, "a word that is not aligned, shorter than 8 bytes or past the end of addresses is refused with EINVAL")
{
	File f;
	Shared m;
	const Desc good = va(m.a);
	for (size_t off : {1, 2, 4, 7})
		expect_refused(f, good, va(m.a + 64 + off), EINVAL, "unaligned");
	for (uint64_t length : {0, 1, 4, 7})
		expect_refused(f, good, va(m.a + 64, length), EINVAL, "short");
	expect_refused(f, good, va(m.a + 64, ~0ull), EINVAL, "long");
	expect_refused(f, good, va(reinterpret_cast<void *>(~7ull)), EINVAL, "wraps");
	EXPECT_TRUE(m.untouched());
}

KTEST(abi, "flags of a buffer that nobody knows are refused with EINVAL, optional ones are ignored")
{
	File f;
	Shared m;
	Desc odd = va(m.a + 64);
	for (uint32_t flags : {1u, 1u << 31}) {
		odd.flags = flags;
		expect_refused(f, va(m.a), odd, EINVAL, "flags");
	}
	EXPECT_TRUE(m.untouched());
	odd.flags = 0;
	odd.optional_flags = ~0u;
	const comp_cntr_buffers buffers{va(m.a), odd};
	uint32_t handle;
	ASSERT_EQ(create(f.ep, TALLY_COMP_CNTR_TYPE_WRS, &buffers, handle), 0);
	EXPECT_EQ(destroy(f.ep, handle), 0);
}

KTEST(abi, "memory, and counts, of a type that nobody knows are refused with EOPNOTSUPP")
{
	File f;
	Shared m;
	Desc odd = va(m.a + 64);
	for (uint32_t type : {2u, ~0u}) {
		odd.type = type;
		expect_refused(f, va(m.a), odd, EOPNOTSUPP, "type of memory");
	}
	uint32_t handle;
	for (uint64_t type : {2ull, 1ull << 32, ~0ull})
		EXPECT_EQ(f.counter(UVERBS_METHOD_COMP_CNTR_CREATE, put(attrs::create_handle, handle),
				    put_number(TALLY_ATTR_CREATE_COMP_CNTR_TYPE, type)),
			  EOPNOTSUPP);
	EXPECT_EQ(f.counters(), 0u);
	EXPECT_TRUE(m.untouched());
}

KTEST(abi, "memory for one count only is refused with EINVAL")
{
	File f;
	Shared m;
	const long before = pinned();
	const Desc desc = va(m.a);
	uint32_t handle;
	for (const auto &attr : {attrs::create_comp_buffer, attrs::create_err_buffer})
		EXPECT_EQ(f.counter(UVERBS_METHOD_COMP_CNTR_CREATE, put(attrs::create_handle, handle), put(attr, desc)),
			  EINVAL);
	EXPECT_EQ(f.counters(), 0u);
	EXPECT_EQ(pinned(), before);
	EXPECT_TRUE(m.untouched());
}

KTEST(abi, "both counts in one place are refused with EINVAL, under two mappings of it as well")
{
	File f;
	Shared m;
	expect_refused(f, va(m.a + 64), va(m.a + 64), EINVAL, "the same word");
	expect_refused(f, va(m.a + 64), va(m.a + 56, 16), EINVAL, "buffers that overlap");
	expect_refused(f, va(m.a + 64), va(m.b + 64), EINVAL, "two mappings");
	EXPECT_TRUE(m.untouched());
	// Neighbours there are two places.
	const comp_cntr_buffers buffers{va(m.a + 64), va(m.b + 72)};
	uint32_t handle;
	ASSERT_EQ(create(f.ep, TALLY_COMP_CNTR_TYPE_WRS, &buffers, handle), 0);
	EXPECT_EQ(destroy(f.ep, handle), 0);
}

KTEST(abi, "so are both counts in one place of a dma-buf, by two files or by file and address, and what goes past its end")
{
	NEED_UDMABUF;
	File f;
	UDmabuf buf;
	const int again = dup(buf.fd);
	expect_refused(f, dmabuf(buf.fd, 64), dmabuf(buf.fd, 64), EINVAL, "the same word");
	expect_refused(f, dmabuf(buf.fd, 64), dmabuf(again, 64), EINVAL, "two files");
	expect_refused(f, dmabuf(buf.fd, 64), va(buf.map + 64), EINVAL, "file and address");
	expect_refused(f, dmabuf(buf.fd, 64), dmabuf(buf.fd, 128, buf.size), EINVAL, "past the end");
	expect_refused(f, dmabuf(buf.fd, 64), dmabuf(buf.fd, 128, 7), EINVAL, "short");
	EXPECT_EQ(*buf.word(64), 0u);
	close(again);
}

KTEST(abi, "memory that is not there is refused with EFAULT, and the other word is as it was")
{
	File f;
	Shared m;
	void *gone = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(gone, 4096);
	expect_refused(f, va(m.a), va(gone), EFAULT, "gone");
	EXPECT_TRUE(m.untouched());
}

KTEST(abi, "a buffer's description may be longer than it is today, if the rest is zero, and not shorter")
{
	File f;
	Shared m;
	const Desc good = va(m.a);
	Bytes<40> longer{};
	const Desc second = va(m.a + 64);
	std::memcpy(longer.data(), &second, sizeof(second));
	uint32_t handle;
	auto try_with = [&](argument err) {
		return f.counter(UVERBS_METHOD_COMP_CNTR_CREATE, put(attrs::create_handle, handle),
				 put(attrs::create_comp_buffer, good), err);
	};
	Bytes<31> shorter;
	std::copy_n(longer.begin(), shorter.size(), shorter.begin());

	EXPECT_EQ(try_with(put_bytes(TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, shorter)), EINVAL);
	longer[39] = std::byte{1};
	EXPECT_EQ(try_with(put_bytes(TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, longer)), EOPNOTSUPP);
	EXPECT_EQ(f.counters(), 0u);
	EXPECT_TRUE(m.untouched());
	longer[39] = {};
	ASSERT_EQ(try_with(put_bytes(TALLY_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, longer)), 0);
	EXPECT_EQ(destroy(f.ep, handle), 0);
}

KTEST(abi, "attaching nothing is refused with EINVAL, what the device does not count with EOPNOTSUPP, in either length")
{
	File f;
	Pair p(f.c, {}, false); // outlives the counter, which nothing may hold then
	Counter k(f);
	const argument qp = put(attrs::attach_qp, p.a.qp->handle), cntr = put(attrs::attach_cntr, k.handle);
	auto try_with = [&](argument mask) {
		return f.call(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR, qp, cntr, mask);
	};
	constexpr attr_id mask = UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK;

	EXPECT_EQ(try_with(put(attrs::attach_ops, 0)), EINVAL);
	EXPECT_EQ(try_with(put_number(mask, 0)), EINVAL);
	for (uint32_t bit : {1u << 6, 1u << 15, 1u << 20, 1u << 31})
		EXPECT_EQ(try_with(put(attrs::attach_ops, bit | IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND)), EOPNOTSUPP) << bit;
	EXPECT_EQ(try_with(put_number(mask, 1ull << 32 | IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND)), EOPNOTSUPP);
	EXPECT_EQ(try_with(put_bytes(mask, Bytes<2>{std::byte{1}})), EINVAL);
	EXPECT_EQ(try_with(put_bytes(mask, Bytes<16>{std::byte{1}})), EINVAL);
}

KTEST(abi, "a change or a look at what is no entry, a change that is none, and values of another length are EINVAL")
{
	File f;
	Counter k(f);
	k.inc();
	const argument handle = put(attrs::modify_handle, k.handle);
	const argument entry = put(attrs::modify_entry, IB_UVERBS_COMP_CNTR_ENTRY_COMP);
	const argument op = put(attrs::modify_op, IB_UVERBS_COMP_CNTR_MODIFY_OP_SET);
	const argument number = put(attrs::modify_value, 5);
	auto change = [&](argument e, argument o, argument v) {
		return f.counter(UVERBS_METHOD_COMP_CNTR_MODIFY, handle, e, o, v);
	};
	uint64_t value = 77;
	uint32_t half = 77;
	auto look = [&](argument e, argument v) {
		return f.counter(UVERBS_METHOD_COMP_CNTR_READ, put(attrs::read_handle, k.handle), e, v);
	};

	for (uint64_t bad : {2ull, 1ull << 32, ~0ull}) {
		EXPECT_EQ(change(put_number(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, bad), op, number), EINVAL) << bad;
		EXPECT_EQ(change(entry, put_number(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, bad), number), EINVAL) << bad;
		EXPECT_EQ(look(put_number(UVERBS_ATTR_READ_COMP_CNTR_ENTRY, bad), put(attrs::read_value, value)), EINVAL) << bad;
	}
	EXPECT_EQ(change(put_bytes(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, Bytes<4>{}), op, number), EINVAL);
	EXPECT_EQ(change(entry, put_bytes(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, Bytes<4>{}), number), EINVAL);
	EXPECT_EQ(change(entry, op, put_bytes(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, Bytes<4>{})), EINVAL);
	EXPECT_EQ(change(entry, op, put_bytes(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, Bytes<16>{})), EINVAL);
	EXPECT_EQ(look(put(attrs::read_entry, IB_UVERBS_COMP_CNTR_ENTRY_COMP),
		       put(out<uint32_t>{UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE}, half)),
		  EINVAL);
	argument nowhere = put(attrs::read_value, value);
	nowhere.attr.data = 8;
	EXPECT_EQ(look(put(attrs::read_entry, IB_UVERBS_COMP_CNTR_ENTRY_COMP), nowhere), EFAULT);

	EXPECT_EQ(value, 77u);
	EXPECT_EQ(half, 77u);
	EXPECT_EQ(k.value(), 1u);
	EXPECT_EQ(k.value(IB_UVERBS_COMP_CNTR_ENTRY_ERR), 0u);
}

// A wait for counters that are there, with one thing wrong at a time.
struct Wait {
	const File &f;
	std::vector<uint32_t> handles;
	std::vector<tally_comp_cntr_target> targets;
	uint64_t timeout_ns = 0;
	uint32_t index = 77;

	int with(argument flags, argument result) const
	{
		return f.counter(TALLY_METHOD_COMP_CNTR_WAIT, put(attrs::wait_handles, handles),
				 put(attrs::wait_targets, targets), put(attrs::wait_timeout, timeout_ns), flags, result);
	}
	int operator()() { return with(without(put(attrs::wait_flags, 0)), put(attrs::wait_index, index)); }
	int flagged(argument flags) { return with(flags, put(attrs::wait_index, index)); }
};

KTEST(abi, "a wait takes each of 1 to 64 counters once, with a target for each, else it is EINVAL")
{
	File f;
	std::vector<std::unique_ptr<Counter>> all;
	Wait w{f, {}, {}};
	for (size_t i = 0; i < TALLY_COMP_CNTR_WAIT_MAX + 1; i++)
		all.push_back(std::make_unique<Counter>(f));
	auto first = [&](size_t handles, size_t targets) {
		w.handles.clear();
		for (size_t i = 0; i < handles; i++)
			w.handles.push_back(all[i]->handle);
		w.targets.assign(targets, {1, 0});
	};

	first(64, 64);
	EXPECT_EQ(w(), ETIMEDOUT);
	first(65, 65);
	EXPECT_EQ(w(), EINVAL);
	first(65, 64);
	EXPECT_EQ(w(), EINVAL);
	first(64, 65);
	EXPECT_EQ(w(), EINVAL);
	first(0, 0);
	EXPECT_EQ(w(), EINVAL);
	first(0, 1);
	EXPECT_EQ(w(), EINVAL);
	first(1, 2);
	EXPECT_EQ(w(), EINVAL);
	first(2, 1);
	EXPECT_EQ(w(), EINVAL);
	first(2, 2);
	w.handles[1] = w.handles[0];
	EXPECT_EQ(w(), EINVAL);
	first(64, 64);
	w.handles[63] = w.handles[0];
	EXPECT_EQ(w(), EINVAL);
	first(2, 2);
	w.handles[1] = 1u << 20;
	EXPECT_EQ(w(), ENOENT);
	EXPECT_EQ(w.index, 77u);
}

KTEST(abi, "a wait with flags nobody knows, or attributes of another length, is EINVAL, and one that cannot answer is EFAULT")
{
	File f;
	Counter k(f), other(f);
	Wait w{f, {k.handle}, {{0, 0}}};
	uint16_t tiny = 77;
	const argument no_flags = without(put(attrs::wait_flags, 0)), result = put(attrs::wait_index, w.index);
	auto try_with = [&](argument handles, argument targets, argument timeout) {
		return f.counter(TALLY_METHOD_COMP_CNTR_WAIT, handles, targets, timeout, result);
	};
	const argument handles = put(attrs::wait_handles, w.handles), targets = put(attrs::wait_targets, w.targets),
		       timeout = put(attrs::wait_timeout, w.timeout_ns);

	for (uint32_t flags : {2u, 3u, 1u << 31})
		EXPECT_EQ(w.flagged(put(attrs::wait_flags, flags)), EINVAL) << flags;
	EXPECT_EQ(w.flagged(put_number(TALLY_ATTR_WAIT_COMP_CNTR_FLAGS, 1ull << 32 | 1)), EINVAL);
	EXPECT_EQ(w.flagged(put_bytes(TALLY_ATTR_WAIT_COMP_CNTR_FLAGS, Bytes<2>{})), EINVAL);
	EXPECT_EQ(try_with(put_bytes(TALLY_ATTR_WAIT_COMP_CNTR_HANDLES, Bytes<6>{}), targets, timeout), EINVAL);
	EXPECT_EQ(try_with(handles, put_bytes(TALLY_ATTR_WAIT_COMP_CNTR_TARGETS, Bytes<8>{}), timeout), EINVAL);
	EXPECT_EQ(try_with(handles, put_bytes(TALLY_ATTR_WAIT_COMP_CNTR_TARGETS, Bytes<24>{}), timeout), EINVAL);
	EXPECT_EQ(try_with(handles, targets, put_bytes(TALLY_ATTR_WAIT_COMP_CNTR_TIMEOUT_NS, Bytes<4>{})), EINVAL);
	EXPECT_EQ(w.with(no_flags, put(out<uint16_t>{TALLY_ATTR_WAIT_COMP_CNTR_RESP_INDEX}, tiny)), EINVAL);
	argument nowhere = result;
	nowhere.attr.data = 8;
	EXPECT_EQ(w.with(no_flags, nowhere), EFAULT);
	EXPECT_EQ(w.index, 77u);
	EXPECT_EQ(tiny, 77u);

	// And as it should be.
	EXPECT_EQ(w.with(no_flags, without(result)), 0);
	EXPECT_EQ(w.flagged(put_number(TALLY_ATTR_WAIT_COMP_CNTR_FLAGS, TALLY_COMP_CNTR_WAIT_ANY)), 0);
	EXPECT_EQ(w.index, 0u);
}

KTEST(abi, "arming what is no eventfd, or with attributes of another length, is refused, and nothing is armed")
{
	File f;
	Counter k(f);
	const int event = eventfd(0, EFD_NONBLOCK), null = open("/dev/null", O_RDWR);
	const argument handle = put(attrs::notify_handle, k.handle), target = put(attrs::notify_target, 1);
	const argument err_seen = without(put(attrs::notify_err_seen, 0));
	auto try_with = [&](argument fd, argument t, argument e) {
		return f.counter(TALLY_METHOD_COMP_CNTR_NOTIFY, handle, fd, t, e);
	};
	const argument good = put(attrs::notify_eventfd, event);
	argument odd = good;

	EXPECT_EQ(try_with(put(attrs::notify_eventfd, -1), target, err_seen), EBADF);
	EXPECT_EQ(try_with(put(attrs::notify_eventfd, 1 << 20), target, err_seen), EBADF);
	EXPECT_EQ(try_with(put(attrs::notify_eventfd, null), target, err_seen), EINVAL);
	odd.attr.data_s64 = 1ll << 32 | event;
	EXPECT_EQ(try_with(odd, target, err_seen), EINVAL);
	odd = good;
	odd.attr.len = 4;
	EXPECT_EQ(try_with(odd, target, err_seen), EINVAL);
	EXPECT_EQ(try_with(good, put_bytes(TALLY_ATTR_NOTIFY_COMP_CNTR_TARGET, Bytes<4>{}), err_seen), EINVAL);
	EXPECT_EQ(try_with(good, target, put_bytes(TALLY_ATTR_NOTIFY_COMP_CNTR_ERR_SEEN, Bytes<4>{})), EINVAL);

	k.inc();
	uint64_t fired = 0;
	pollfd p{event, POLLIN, 0};
	EXPECT_EQ(::poll(&p, 1, 50), 0);
	EXPECT_EQ(try_with(good, target, err_seen), 0);
	EXPECT_EQ(::read(event, &fired, sizeof(fired)), 8);
	EXPECT_EQ(fired, 1u);
	close(event);
	close(null);
}

KTEST(abi, "a handle of another file names nothing (ENOENT), and one of another kind of object is EINVAL")
{
	File f, theirs;
	std::vector<std::unique_ptr<Counter>> all;
	Pair p(f.c, {}, false);
	// So many that the last handle is none of this file's.
	for (int i = 0; i < 32; i++)
		all.push_back(std::make_unique<Counter>(theirs));
	const Counter &k = *all.back();
	const int event = eventfd(0, EFD_NONBLOCK);
	const std::array<std::pair<uint32_t, int>, 2> cases{{{k.handle, ENOENT}, {p.a.pd->handle, EINVAL}}};

	for (auto [handle, err] : cases) {
		uint64_t value = 77;
		uint32_t index = 77;
		const uint32_t handles[] = {handle};
		const tally_comp_cntr_target targets[] = {{0, 0}};
		EXPECT_EQ(destroy(f.ep, handle), err);
		EXPECT_EQ(modify(f.ep, handle, IB_UVERBS_COMP_CNTR_ENTRY_COMP, IB_UVERBS_COMP_CNTR_MODIFY_OP_INC, 1), err);
		EXPECT_EQ(read(f.ep, handle, IB_UVERBS_COMP_CNTR_ENTRY_COMP, value), err);
		EXPECT_EQ(attach(f.ep, p.a.qp->handle, handle, IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND), err);
		EXPECT_EQ(wait(f.ep, handles, targets, 0, 0, index), err);
		EXPECT_EQ(notify(f.ep, handle, event, 0, {}), err);
		EXPECT_EQ(value, 77u);
		EXPECT_EQ(index, 77u);
	}
	EXPECT_EQ(k.value(), 0u);
	Counter mine(f);
	EXPECT_EQ(attach(f.ep, 1u << 20, mine.handle, IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND), ENOENT);
	EXPECT_EQ(attach(f.ep, mine.handle, mine.handle, IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND), EINVAL);
	uint64_t fired;
	EXPECT_EQ(::read(event, &fired, sizeof(fired)), -1);
	close(event);
}

// A command without one of its attributes at a time.
template <size_t N> void expect_all_needed(const File &f, uint16_t object, uint16_t method, const std::array<argument, N> &all)
{
	for (size_t i = 0; i < N; i++) {
		std::array<argument, N> some = all;
		some[i].present = false;
		EXPECT_EQ(std::apply([&](auto... a) { return f.call(object, method, a...); }, some), EINVAL)
		    << "object " << object << ", method " << method << " without " << all[i].attr.attr_id;
	}
}

KTEST(abi, "each command without one of the attributes that it needs is EINVAL")
{
	File f;
	Pair p(f.c, {}, false);
	Counter k(f);
	const uint32_t handles[] = {k.handle};
	const tally_comp_cntr_target targets[] = {{0, 0}};
	const int event = eventfd(0, EFD_NONBLOCK);
	uint32_t handle;
	uint64_t value = 77;

	expect_all_needed(f, UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_CREATE,
			  std::array{put(attrs::create_handle, handle)});
	expect_all_needed(f, UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_DESTROY,
			  std::array{put(attrs::destroy_handle, k.handle)});
	expect_all_needed(f, UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_MODIFY,
			  std::array{put(attrs::modify_handle, k.handle),
				     put(attrs::modify_entry, IB_UVERBS_COMP_CNTR_ENTRY_COMP),
				     put(attrs::modify_op, IB_UVERBS_COMP_CNTR_MODIFY_OP_INC), put(attrs::modify_value, 1)});
	expect_all_needed(f, UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_READ,
			  std::array{put(attrs::read_handle, k.handle),
				     put(attrs::read_entry, IB_UVERBS_COMP_CNTR_ENTRY_COMP), put(attrs::read_value, value)});
	expect_all_needed(f, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR,
			  std::array{put(attrs::attach_qp, p.a.qp->handle), put(attrs::attach_cntr, k.handle),
				     put(attrs::attach_ops, IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND)});
	expect_all_needed(f, UVERBS_OBJECT_COMP_CNTR, TALLY_METHOD_COMP_CNTR_WAIT,
			  std::array{put(attrs::wait_handles, handles), put(attrs::wait_targets, targets),
				     put(attrs::wait_timeout, 0)});
	expect_all_needed(f, UVERBS_OBJECT_COMP_CNTR, TALLY_METHOD_COMP_CNTR_NOTIFY,
			  std::array{put(attrs::notify_handle, k.handle), put(attrs::notify_eventfd, event),
				     put(attrs::notify_target, 0)});
	EXPECT_EQ(k.value(), 0u);
	EXPECT_EQ(value, 77u);
	EXPECT_EQ(f.counters(), 1u);
	EXPECT_EQ(::read(event, &value, sizeof(value)), -1);
	close(event);
}

KTEST(abi, "an attribute that nobody knows is EPROTONOSUPPORT, one that comes twice EINVAL, and so is another driver's command")
{
	File f;
	uint32_t handle;
	const argument made = put(attrs::create_handle, handle);
	EXPECT_EQ(f.counter(UVERBS_METHOD_COMP_CNTR_CREATE, made, put_number(TALLY_ATTR_CREATE_COMP_CNTR_TYPE + 1, 0)),
		  EPROTONOSUPPORT);
	EXPECT_EQ(f.counter(UVERBS_METHOD_COMP_CNTR_CREATE, made, put_number(1, 0)), EPROTONOSUPPORT);
	EXPECT_EQ(f.counter(UVERBS_METHOD_COMP_CNTR_CREATE, made, made), EINVAL);
	EXPECT_EQ(f.counter(UVERBS_METHOD_COMP_CNTR_READ + 1, made), EPROTONOSUPPORT);
	EXPECT_EQ(f.counter(TALLY_METHOD_COMP_CNTR_NOTIFY + 1, made), EPROTONOSUPPORT);
	EXPECT_EQ(create({f.ep.cmd_fd, RDMA_DRIVER_MLX4}, TALLY_COMP_CNTR_TYPE_WRS, nullptr, handle), EINVAL);
	EXPECT_EQ(f.counters(), 0u);
}

KTEST(abi, "the capabilities are told in full or in part, and no answer goes where it does not fit")
{
	File f;
	comp_cntr_caps caps;
	uint32_t ops = 0, half = 77;
	ASSERT_EQ(query_caps(f.ep, caps), 0);
	EXPECT_EQ(f.call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS, put(attrs::caps_ops, ops)), 0);
	EXPECT_EQ(ops, caps.ops);
	EXPECT_EQ(f.call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS), 0);
	EXPECT_EQ(f.call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS,
			 put(out<uint32_t>{UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE}, half)),
		  EINVAL);
	EXPECT_EQ(half, 77u);
}

} // namespace
