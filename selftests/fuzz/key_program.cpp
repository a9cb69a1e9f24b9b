// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "key_program.hpp"

#include "input.hpp"
#include "world.hpp"

#include <array>
#include <optional>

namespace world {

namespace {

struct Piece {
	u64 addr;
	u32 len;
	u32 stride;
	u32 key;
};

// An indirect key as the model knows it.
struct Node {
	IndirectKey *key;
	u32 max_entries;
	bool free = true;
	bool pattern = false;
	u8 access = 0;
	u32 rounds = 1;
	u64 iova = 0;
	std::vector<Piece> pieces{};

	u64 round() const
	{
		u64 n = 0;
		for (auto &p : pieces)
			n += p.len;
		return n;
	}
	u64 length() const { return round() * (pattern ? rounds : 1); }
};

// One side: memory, keys over it, keys over those.
struct Side {
	Device &dev;
	Memory &memory;
	std::vector<Key *> direct;
	std::vector<Node> nodes;

	Side(World &w, u8 shift) : dev(w.add_device()), memory(w.add_memory(3000, shift, 2))
	{
		direct.push_back(&w.add_key(dev, memory, {.offset = 5, .length = 2900, .iova = 0x1000}));
		direct.push_back(&w.add_key(dev, memory, {.offset = 100, .length = 1000,
							  .access = HCA_ACCESS_LOCAL_READ | HCA_ACCESS_REMOTE_WRITE,
							  .iova = 0}));
		direct.push_back(&w.add_key(dev, memory, {.pdn = 2, .iova = 0}));
		for (u32 max : {4u, 8u, 8u, 12u, 12u, 16u})
			nodes.push_back({&w.add_indirect(dev, {.max_entries = max}), max});
	}

	Node *node_of(u32 key)
	{
		for (auto &n : nodes)
			if (n.key->current_key() == key)
				return &n;
		return nullptr;
	}
	Key *direct_of(u32 key)
	{
		for (Key *k : direct)
			if (k->key() == key)
				return k;
		return nullptr;
	}

	// Whether the key itself allows it, whatever it leads to.
	bool allows(u32 key, u64 addr, u64 len, u8 access)
	{
		auto within = [&](u64 start, u64 length) {
			return addr >= start && addr - start <= length && len <= length - (addr - start);
		};
		if (Key *k = direct_of(key))
			return k != direct[2] && (k->access() & access) == access && within(k->addr(), k->length());
		Node *n = node_of(key);
		return n && !n->free && (n->access & access) == access && within(n->iova, n->length());
	}

	// Whether all that it leads to does.
	bool leads(u32 key, u64 addr, u64 len, u8 access, u32 depth)
	{
		Node *n = node_of(key);
		if (!n)
			return true;
		if (!depth || n->pieces.empty())
			return false;
		u64 pos = addr - n->iova, start = 0;
		for (auto &p : n->pieces) {
			u64 from = std::max(pos, start), to = std::min(pos + len, start + p.len);
			u64 at = p.addr, bytes = p.len;
			if (n->pattern) {
				bytes += u64{n->rounds - 1} * p.stride;
			} else {
				start += p.len;
				if (from >= to)
					continue;
				at += from - (start - p.len);
				bytes = to - from;
			}
			if (!allows(p.key, at, bytes, access) || !leads(p.key, at, bytes, access, depth - 1))
				return false;
		}
		return true;
	}

	// Where in the memory one byte is.
	size_t place(u32 key, u64 addr)
	{
		if (Key *k = direct_of(key))
			return k->offset() + (addr - k->addr());
		Node *n = node_of(key);
		u64 pos = addr - n->iova, rounds = 0;
		if (n->pattern) {
			rounds = pos / n->round();
			pos %= n->round();
		}
		for (auto &p : n->pieces) {
			if (pos < p.len)
				return place(p.key, p.addr + rounds * p.stride + pos);
			pos -= p.len;
		}
		hca_port_bug("the model has lost a byte");
	}
};

class Program {
public:
	explicit Program(std::span<const u8> bytes)
	    : in(bytes), a(w, static_cast<u8>(in.below(13))), b(w, static_cast<u8>(in.below(13))),
	      ca(w.add_cq(a.dev, 64)), cb(w.add_cq(b.dev, 64)), qa(w.add_qp(a.dev, {.send_cq = &ca})),
	      qb(w.add_qp(b.dev, {.send_cq = &cb}))
	{
		connect();
	}

	void run()
	{
		for (int steps = 0; steps < 200 && !in.empty(); steps++) {
			switch (in.below(8)) {
			case 0:
			case 1:
			case 2:
				list(in.byte() & 1);
				break;
			case 3:
			case 4:
				pattern(in.byte() & 1);
				break;
			case 5:
				release(in.byte() & 1);
				break;
			default:
				write();
			}
			require(!w.damage(), "bytes are where the model says, and nowhere else");
		}
	}

private:
	void connect()
	{
		for (Qp *q : {&qa, &qb})
			if (q->state() != HCA_QPS_RESET)
				q->to(HCA_QPS_RESET);
		qb.connect(qa);
		qa.connect(qb);
		w.settle();
	}

	// A place in some key of the side: mostly a good one.
	Sge place(Side &s, u32 longest)
	{
		u32 which = in.byte(), how = in.byte();
		u64 start, length;
		u32 key;
		if (which & 1) {
			Node &n = s.nodes[(which >> 1) % s.nodes.size()];
			key = n.key->current_key();
			start = n.iova;
			length = n.length();
		} else {
			Key &k = *s.direct[(which >> 1) % 16 ? 0 : (which >> 5) % 3];
			key = k.key();
			start = k.addr();
			length = k.length();
		}
		u32 len = 1 + (how & 0x80 ? in.half() : in.byte()) % longest;
		u64 off = in.half();
		if (how & 0x70 && length)
			off = len <= length ? off % (length - len + 1) : 0;
		if (how & 0x70 && length)
			len = static_cast<u32>(std::min<u64>(len, length));
		return {start + off, how == 1 ? 0 : len, how == 2 ? key ^ 1 : key};
	}

	Wc post(bool at_b, const Wqe &wqe)
	{
		Qp &q = at_b ? qb : qa;
		Cq &cq = at_b ? cb : ca;
		q.post(wqe);
		w.settle();
		auto wc = cq.poll();
		require(wc.has_value() && !cq.peek(), "a request completes once");
		if (!wc->ok())
			connect();
		ca.poll_all();
		cb.poll_all();
		return *wc;
	}

	void registered(bool at_b, const Wqe &wqe, Node &n, bool good, Node next)
	{
		if (wqe.slots() > 16)
			return;
		Wc wc = post(at_b, wqe);
		require(wc.ok() == good, "a registration is good or bad as the model says");
		require(good || wc.syndrome == HCA_SYND_MW_BIND, "a bad registration says so");
		if (good)
			n = std::move(next);
	}

	UmrOptions options(Node &next)
	{
		UmrOptions o;
		u32 how = in.byte();
		if (how & 1)
			o.access = in.byte() & (HCA_MKEY_LOCAL_WRITE | HCA_MKEY_REMOTE_WRITE);
		next.access = HCA_ACCESS_LOCAL_READ;
		if (o.access & HCA_MKEY_LOCAL_WRITE)
			next.access |= HCA_ACCESS_LOCAL_WRITE;
		if (o.access & HCA_MKEY_REMOTE_WRITE)
			next.access |= HCA_ACCESS_REMOTE_WRITE;
		if (how & 2)
			o.variant = in.byte();
		o.start = how & 4 ? in.word() : 0;
		o.mask |= HCA_UMR_START_ADDR;
		next.iova = o.start;
		next.free = false;
		return o;
	}

	void list(bool at_b)
	{
		Side &s = at_b ? b : a;
		Node &n = s.nodes[in.below(static_cast<u32>(s.nodes.size()))];
		Node next = n;
		UmrOptions o = options(next);
		u32 count = 1 + in.below(10);
		bool good = count <= n.max_entries;
		std::vector<Sge> pieces;
		next.pattern = false;
		next.pieces.clear();
		for (u32 i = 0; i < count; i++) {
			Sge p = place(s, 400);
			good = good && p.len;
			pieces.push_back(p);
			next.pieces.push_back({p.addr, p.len, 0, p.key});
		}
		registered(at_b, Wqe::umr_list(n.key->current_key(), pieces, o), n, good, next);
	}

	void pattern(bool at_b)
	{
		Side &s = at_b ? b : a;
		Node &n = s.nodes[in.below(static_cast<u32>(s.nodes.size()))];
		Node next = n;
		UmrOptions o = options(next);
		u32 count = in.below(6), rounds = in.below(12);
		bool good = count && rounds && count + 1 <= n.max_entries;
		std::vector<Block> blocks;
		next.pattern = true;
		next.rounds = rounds;
		next.pieces.clear();
		for (u32 i = 0; i < count; i++) {
			Sge p = place(s, 200);
			u16 skip = in.byte() & 0x3f, len = static_cast<u16>(p.len);
			u64 last = u64{rounds - 1} * (len + skip);
			good = good && len && p.addr + last >= p.addr && p.addr + last + len - 1 >= p.addr + last;
			blocks.push_back({p.addr, len, skip, p.key});
			next.pieces.push_back({p.addr, len, u32{len} + skip, p.key});
		}
		registered(at_b, Wqe::umr_pattern(n.key->current_key(), rounds, blocks, o), n, good, next);
	}

	void release(bool at_b)
	{
		Side &s = at_b ? b : a;
		Node &n = s.nodes[in.below(static_cast<u32>(s.nodes.size()))];
		require(post(at_b, Wqe::umr_free(n.key->current_key())).ok(), "a key can be freed at any time");
		n.free = true;
	}

	void write()
	{
		Sge from = place(a, 3000), to = place(b, 3000);
		u32 len = std::max(1u, std::min(from.len, to.len));
		from.len = len;
		bool local = a.allows(from.key, from.addr, len, 0) && a.leads(from.key, from.addr, len, 0, HCA_KEY_DEPTH);
		bool remote = b.allows(to.key, to.addr, len, HCA_ACCESS_REMOTE_WRITE) &&
			      b.leads(to.key, to.addr, len, HCA_ACCESS_LOCAL_WRITE, HCA_KEY_DEPTH);
		if (local && remote) {
			Bytes source = a.memory.read(0, 3000), target = b.memory.read(0, 3000);
			for (u32 i = 0; i < len; i++)
				target[b.place(to.key, to.addr + i)] = source[a.place(from.key, from.addr + i)];
			b.memory.expect(0, target);
		}
		Wc wc = post(false, Wqe::write(to.addr, to.key).sge(from));
		u8 want = !local ? HCA_SYND_LOCAL_PROT : !remote ? HCA_SYND_REMOTE_ACCESS : HCA_SYND_OK;
		require(wc.syndrome == want, "a message ends as the model says");
	}

	Input in;
	World w;
	Side a, b;
	Cq &ca, &cb;
	Qp &qa, &qb;
};

} // namespace

void run_key_program(std::span<const u8> program)
{
	Program(program).run();
}

} // namespace world
