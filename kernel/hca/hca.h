/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The virtual HCA: its objects and what a driver does with them.
 *
 * A driver allocates the objects (they are members of its own structures), gives them kernel addresses of the
 * rings, doorbell records and pages that user space shares, and calls hca_qp_run() when a doorbell rang.
 * Everything else happens inside: each word of a WQE is read from shared memory once, keys are resolved, the
 * bytes moved, the responder's side of the peer QP run, CQEs written, counters raised.
 *
 * Locks, outermost first: hca_sq.lock, hca_rq.lock (of the same or of the peer QP), hca_srq.lock, then
 * hca_cq.lock, hca_qp.route_lock or hca_indirect.lock.  Two locks of one class are never held together.  They are
 * spinlocks taken in process context only, and a holder does a bounded amount of work: hca_qp_run() gives up the
 * locks and the RCU read section after each slice of at most HCA_SLICE bytes.
 *
 * Lifetime: QPs, keys and devices are found under RCU.  Their owner first makes them unreachable
 * (hca_qp_unpublish(), hca_mkey_unpublish(), a new fabric generation), waits for a grace period, then frees.
 * A CQ or SRQ lives longer than the QPs that name it; a counter longer than the QPs it is attached to.
 */
#ifndef HCA_H
#define HCA_H

#include "port.h"
#include "prm.h"
#include "table.h"

struct hca_qp;
struct hca_av;
struct hca_cq;
struct hca_srq;
struct hca_counter;
struct hca_completion;
struct hca_dev;

/* Bytes moved under one set of locks, and how many hca_qp_run() may move in any case, whatever it is allowed. */
#define HCA_SLICE		(64u * 1024)
#define HCA_MIN_SLICE		4096u
/* What one SQ WQE can name: 63 units of 16 bytes less the control segment. */
#define HCA_MAX_SEND_SGE	62u
/* What the largest receive WQE can name (512 bytes). */
#define HCA_MAX_RECV_SGE	32u
#define HCA_MAX_MSG		(1u << 30)
#define HCA_MAX_FAILED_STREAMS	64u
/* How often a requester without a time-out looks whether its peer is there. */
#define HCA_NO_TIMEOUT_POLL_NS	10000000ull

/* Vendor error of a failed completion, for whoever debugs: which side found it. */
enum hca_vendor_err {
	HCA_VENDOR_LOCAL   = 0x51,
	HCA_VENDOR_REMOTE  = 0x88,
	HCA_VENDOR_RETRY   = 0x81,
	/* The sender has given up a message in its middle; UCX takes the receive back for this number only. */
	HCA_VENDOR_ABORTED = 0x99,
};

/* ---- statistics ---- */

enum hca_stat {
	HCA_STAT_WQES,		   /* send WQEs finished */
	HCA_STAT_BYTES,		   /* payload moved */
	HCA_STAT_CQES,
	HCA_STAT_EVENTS,	   /* completion events raised */
	HCA_STAT_ERR_LOCAL,	   /* requests ended by a local error */
	HCA_STAT_ERR_REMOTE,	   /* requests ended by the responder's NAK */
	HCA_STAT_ERR_RESPONDER,	   /* requests refused as responder */
	HCA_STAT_ERR_FLUSH,
	HCA_STAT_ERR_RETRY,	   /* transport retries exceeded */
	HCA_STAT_ERR_RNR,	   /* RNR retries exceeded */
	HCA_STAT_ERR_CQ_OVERRUN,
	HCA_STAT_RNR_NAK,	   /* RNR NAKs received */
	HCA_STAT_NO_RESPONSE,	   /* attempts that the peer did not answer */
	HCA_STAT_COUNT
};

struct hca_stats {
	u64 v[HCA_STAT_COUNT];
};

/* ---- the device ---- */

enum hca_event {
	HCA_EVENT_QP_FATAL,
	HCA_EVENT_QP_REQ_ERR,
	HCA_EVENT_QP_ACCESS_ERR,
	HCA_EVENT_QP_LAST_WQE,
	HCA_EVENT_COMM_EST,
	HCA_EVENT_SQ_DRAINED,
};

/**
 * struct hca_ops - what the device asks of its driver
 *
 * All of them are called with locks held: they may not sleep and not call back into the HCA.
 * @cq_event: an armed CQ got what it was armed for
 * @cq_timer: hca_cq_timer() should be called on the CQ after @ns; a later call replaces it.  Only of a CQ that
 *	hca_cq_moderate() was called on.
 * @cq_error: a CQ overran; it takes no more completions
 * @srq_limit: an SRQ fell below its limit; the limit is disarmed
 * @qp_event: something happened to a QP
 * @kick: hca_qp_run() should be called on the QP soon, from the engine
 * @timer: hca_qp_timer() should be called on the QP after @ns, from the engine; a later call replaces it
 * @route: who answers at the QP's remote address; under RCU.  NULL: nobody, or the way there is down.
 * @route_av: who answers at the address of a datagram or a DC request of the QP; likewise
 * @is_there: whether a device that answered once is still one of this kernel's, reachable or not; under RCU, for as
 *	long
 * @multicast: call @deliver on every QP that has joined the group that @av names and can be reached; under RCU.
 *	False: @av is not of a group.
 * @fill_grh: what a datagram's receiver finds in front of it; false: the QP's device has no address at the index
 *	that @av names
 * @xrc_srq: an SRQ by its number, if it is one of the XRC domain; under RCU, for as long
 * @counter_event: an armed counter has changed, see hca_counter_arm()
 */
struct hca_ops {
	void (*cq_event)(struct hca_cq *cq);
	void (*cq_timer)(struct hca_cq *cq, u64 ns);
	void (*cq_error)(struct hca_cq *cq);
	void (*srq_limit)(struct hca_srq *srq);
	void (*qp_event)(struct hca_qp *qp, enum hca_event event);
	void (*kick)(struct hca_qp *qp);
	void (*timer)(struct hca_qp *qp, u64 ns);
	struct hca_dev *(*route)(struct hca_qp *qp);
	struct hca_dev *(*route_av)(struct hca_qp *qp, const struct hca_av *av);
	bool (*is_there)(const struct hca_dev *dev);
	bool (*multicast)(struct hca_qp *qp, const struct hca_av *av,
			  void (*deliver)(struct hca_qp *to, void *arg), void *arg);
	bool (*fill_grh)(struct hca_qp *qp, const struct hca_av *av, u32 bytes, u8 *grh);
	struct hca_srq *(*xrc_srq)(struct hca_dev *dev, u32 srqn, u32 xrcdn);
	void (*counter_event)(struct hca_counter *counter);
};

/**
 * struct hca_dev - one virtual HCA
 * @ops: the driver
 * @mkeys: keys by index (the upper 24 bits of a key)
 * @qps: QPs by number
 * @stats: per CPU
 * @fabric_gen: shared by all devices that can reach each other; raised whenever a route may have changed
 *	(device added or gone, addresses, link state).  Never 0.
 */
struct hca_dev {
	const struct hca_ops *ops;
	struct hca_table mkeys;
	struct hca_table qps;
	struct hca_stats __percpu *stats;
	const u32 *fabric_gen;
};

/* ---- memory keys ---- */

enum hca_access {
	HCA_ACCESS_LOCAL_READ	 = 1 << 0,
	HCA_ACCESS_LOCAL_WRITE	 = 1 << 1,
	HCA_ACCESS_REMOTE_READ	 = 1 << 2,
	HCA_ACCESS_REMOTE_WRITE	 = 1 << 3,
	HCA_ACCESS_REMOTE_ATOMIC = 1 << 4,
};

/**
 * struct hca_entry - a piece of an indirect key
 * @start: where it begins: bytes from the start of the list, or of a round of the pattern
 * @addr: address within the key that it is a piece of
 * @len: bytes, never 0
 * @stride: of a pattern: how much further the next round's piece is
 * @key: that key
 */
struct hca_entry {
	u64 start;
	u64 addr;
	u32 len;
	u32 stride;
	u32 key;
};

/**
 * struct hca_layout - what an indirect key stands for, until a work request changes it
 * @variant: lower 8 bits of the key
 * @access: enum hca_access
 * @free: accesses fail until it is registered again
 * @strided: the entries are a pattern rather than a list
 * @second: they are in the second half of hca_indirect.room, ordered by their start
 * @qpn: the only QP that may use it, or HCA_ANY_QPN
 * @iova: address of the first byte
 * @length: bytes, as asked for
 * @total: bytes that the entries have; what is more than that in @length is not there
 * @round: bytes of one round of the pattern
 * @rounds: how many of them
 * @num: entries
 */
struct hca_layout {
	u8 variant;
	u8 access;
	bool free;
	bool strided;
	bool second;
	u32 qpn;
	u64 iova;
	u64 length;
	u64 total;
	u64 round;
	u32 rounds;
	u32 num;
};

/**
 * struct hca_indirect - the part of a key that work requests change
 * @lock: one change at a time; a leaf
 * @max_entries: what a layout has room for; a pattern takes one more than it has pieces
 * @room: for 2 * @max_entries: a layout's entries are in the first half or in the second
 * @seq: its lowest bit says which of @layouts is in force
 * @layouts: the one in force, and the one that the next change is prepared in
 *
 * Readers take no lock: they remember @seq, read, and look whether it is still the same (see layout.c).  What they
 * have read is then of one moment, for the memory of a layout, its entries too, is written only after another has come
 * into force that has it no more.
 */
struct hca_indirect {
	spinlock_t lock;
	u32 max_entries;
	struct hca_entry *room;
	u32 seq;
	struct hca_layout layouts[2];
};

#define HCA_ANY_QPN	0xffffffu
/* Indirect keys on the way from a key to memory, itself included. */
#define HCA_KEY_DEPTH	4u
/* Entries that are looked at to check a message's keys, those of nested keys counted each time they are named. */
#define HCA_KEY_TREE	131072u

/**
 * struct hca_mkey - a memory key
 * @dev: whose it is; set by hca_mkey_publish()
 * @key: all 32 bits; the lower 8 are the variant
 * @pdn: protection domain
 * @access: enum hca_access
 * @invalidate_ok: SEND_WITH_INV may free it
 * @no_umr: work requests do not register it
 * @free: accesses fail until it is registered again
 * @null: there is no memory: writes vanish, reads give zeroes; good in every protection domain
 * @iova: address of the first byte
 * @length: bytes
 * @block_shift: log2 of the block size
 * @first_offset: where in the first block the region starts
 * @blocks: kernel addresses of the blocks
 * @indirect: of a key that stands for pieces of other keys; then @access, @free, @iova, @length, the variant and the
 *	blocks here mean nothing
 *
 * Immutable once published, except @free (WRITE_ONCE) and *@indirect.
 */
struct hca_mkey {
	struct hca_dev *dev;
	u32 key;
	u32 pdn;
	u8 access;
	bool invalidate_ok;
	bool no_umr;
	bool free;
	bool null;
	u8 block_shift;
	u64 iova;
	u64 length;
	u64 first_offset;
	u8 **blocks;
	struct hca_indirect *indirect;
};

/**
 * struct hca_indirect_config - how to make the part of a key that work requests change
 * @max_entries: at least 1
 * @room: for 2 * @max_entries
 * @variant: lower 8 bits of the key
 * @access: enum hca_access
 * @free: it cannot be used before a work request has registered something
 * @qpn: the only QP that may use it, or HCA_ANY_QPN
 * @iova: address of the first byte
 * @length: bytes; no more than the entries have
 * @entries: @num_entries units of 16 bytes, as a work request has them; private memory
 * @num_entries: 0: none yet
 * @piece: if not 0: all entries are of a list, and of so many bytes whatever they say
 */
struct hca_indirect_config {
	u32 max_entries;
	struct hca_entry *room;
	u8 variant;
	u8 access;
	bool free;
	u32 qpn;
	u64 iova;
	u64 length;
	const void *entries;
	u32 num_entries;
	u32 piece;
};

/**
 * hca_indirect_init - make the part of a key that work requests change
 * @ind: zeroed by the caller
 * @cfg: how; not kept
 *
 * Return: 0, or -EINVAL for entries that are not right.
 */
int hca_indirect_init(struct hca_indirect *ind, const struct hca_indirect_config *cfg);

/**
 * hca_mkey_publish - let the device use a key
 * @dev: the device
 * @mkey: complete; @mkey->key is hca_table_reserve()'s number << 8 | variant
 */
void hca_mkey_publish(struct hca_dev *dev, struct hca_mkey *mkey);

/**
 * hca_mkey_unpublish - accesses that start from here on fail
 * @dev: the device
 * @mkey: published.  After the next grace period nobody touches its memory; then the caller releases the
 *	number.
 */
void hca_mkey_unpublish(struct hca_dev *dev, struct hca_mkey *mkey);

/* ---- gather and scatter lists, cursors ---- */

/**
 * struct hca_sge - one piece of a gather or scatter list
 * @addr: address within the key
 * @len: bytes
 * @key: the key, meaningless for inline data
 * @data: inline data (the WQE's private copy), else NULL
 * @mkey: the key's object, valid only inside the RCU read section of hca_sges_resolve()
 * @seq: hca_indirect.seq of an indirect key, when it was found good
 */
struct hca_sge {
	u64 addr;
	u32 len;
	u32 key;
	const u8 *data;
	struct hca_mkey *mkey;
	u32 seq;
};

/**
 * struct hca_path - where in an indirect key a cursor stands
 * @hint: entries of the keys on the way, outermost first, where the last look found what it wanted
 * @rounds: how many whole pieces of a pattern follow, found good together with the last one
 * @len: of each of them
 * @stride: from one to the next
 * @next: address, within the indirect key, of the first
 * @base: the direct key that they are in
 * @pos: bytes from the start of @base to the first
 */
struct hca_path {
	u32 hint[HCA_KEY_DEPTH];
	u32 rounds;
	u32 len;
	u32 stride;
	u64 next;
	const struct hca_mkey *base;
	u64 pos;
};

/**
 * struct hca_cursor - a place in a gather or scatter list
 * @sge: current piece
 * @left: pieces from @sge on
 * @off: bytes of the current piece that are behind
 * @path: the same within an indirect key
 */
struct hca_cursor {
	const struct hca_sge *sge;
	u32 left;
	u32 off;
	struct hca_path path;
};

/**
 * struct hca_claim - what somebody wants to do with keys
 * @dev: the device
 * @pdn: the protection domain all keys must belong to
 * @qpn: the QP that does it
 * @access: what every key must allow
 * @whole: check all that indirect keys lead to, so that a message with a bad key does not begin; the moves check
 *	each piece again
 * @pinned: the layouts of the keys are those that sge.seq says, or the keys allow nothing
 * @tree_left: entries that may still be looked at for @whole, HCA_KEY_TREE at first
 */
struct hca_claim {
	struct hca_dev *dev;
	u32 pdn;
	u32 qpn;
	u32 access;
	bool whole;
	bool pinned;
	u32 tree_left;
};

/**
 * hca_sges_resolve - look up and check every key of a list
 * @claim: for what
 * @sges: the list
 * @num: its length
 *
 * Within an RCU read section.  Return: HCA_SYND_OK, or HCA_SYND_LOCAL_PROT.
 */
enum hca_cqe_syndrome hca_sges_resolve(struct hca_claim *claim, struct hca_sge *sges, u32 num);

/* The same of the first @bytes of a list that has so many, without inline data. */
enum hca_cqe_syndrome hca_sges_resolve_some(struct hca_claim *claim, struct hca_sge *sges, u64 bytes);

static inline void hca_cursor_init(struct hca_cursor *c, const struct hca_sge *sges, u32 num)
{
	u32 i;

	c->sge = sges;
	c->left = num;
	c->off = 0;
	for (i = 0; i < HCA_KEY_DEPTH; i++)
		c->path.hint[i] = 0;
	c->path.rounds = 0;
}

/**
 * hca_cursor_skip - move on
 * @c: at least @len bytes before its end
 * @len: bytes
 */
void hca_cursor_skip(struct hca_cursor *c, u64 len);

enum hca_copied {
	HCA_COPIED,
	HCA_COPY_NO_SRC,	/* a key on the source's side has changed or gone */
	HCA_COPY_NO_DST,
};

/**
 * hca_copy - move bytes between two lists
 * @dst: advanced by @len
 * @src: advanced by @len
 * @len: no more than either list has left; all keys resolved in this RCU read section
 *
 * The last bytes (up to 8) become visible after all others, so that a reader who polls the end of a buffer
 * finds the rest there.  A message that is one word of 8 or 4 bytes is written whole where its destination is
 * one piece and aligned, and read whole where its source is; so is the last word of a message whose length is a
 * multiple of 8.
 *
 * Return: HCA_COPIED, or which side's indirect key does not lead to memory any more; part of the bytes may have moved.
 */
enum hca_copied hca_copy(struct hca_cursor *dst, struct hca_cursor *src, u32 len);

/* Kernel address of an 8-byte-aligned word of a resolved piece, to be read and written; NULL: it is not one, or null. */
u64 *hca_sge_word(const struct hca_sge *sge);

/* ---- completion counters ---- */

enum hca_class {
	HCA_CLASS_SEND,
	HCA_CLASS_RECV,
	HCA_CLASS_READ,
	HCA_CLASS_REMOTE_READ,
	HCA_CLASS_WRITE,
	HCA_CLASS_REMOTE_WRITE,
	HCA_CLASS_ATOMIC,
	HCA_CLASS_REMOTE_ATOMIC,
	HCA_CLASS_MEMCPY,
	HCA_CLASS_UMR,
	HCA_CLASS_COUNT,
	HCA_CLASS_NONE = HCA_CLASS_COUNT,
};

/**
 * struct hca_counter - a completion counter
 * @dev: the device
 * @comp: completion count; shared memory that anybody may write, only ever changed by atomic addition
 * @err: error count, likewise
 * @bytes: a success adds its payload length rather than 1
 * @armed: somebody waits; see hca_counter_arm()
 */
struct hca_counter {
	struct hca_dev *dev;
	u64 *comp;
	u64 *err;
	bool bytes;
	bool armed;
};

/**
 * hca_counter_add - raise a counter by hand
 * @c: the counter
 * @word: @c->comp or @c->err
 * @n: amount
 */
void hca_counter_add(struct hca_counter *c, u64 *word, u64 n);

/**
 * hca_counter_arm - from here on every change calls ops.counter_event()
 * @c: the counter
 * @armed: whether somebody waits
 *
 * A full barrier follows the store (pairs with the one in hca_counter_add()): who arms and then reads the
 * values either sees a change or gets the event.
 */
void hca_counter_arm(struct hca_counter *c, bool armed);

/**
 * struct hca_owed - what a counter is to be raised by before the locks are given up
 * @counter: it, if @n is not 0
 * @n: amount
 *
 * One addition for a batch of requests: an addition is a locked instruction on memory that others poll.
 */
struct hca_owed {
	struct hca_counter *counter;
	u64 n;
};

/* ---- completion queues ---- */

enum hca_cq_arm { HCA_CQ_UNARMED, HCA_CQ_ARMED_SOLICITED, HCA_CQ_ARMED };

/**
 * struct hca_cq - a completion queue
 * @lock: everything below
 * @dev: the device
 * @buf: the ring, shared with user space, only written
 * @mask: entries - 1
 * @cqe_size: 64 or 128; the entry is in the last 64 bytes
 * @dbrec: shared with user space, each word read once per use
 * @pi: next entry to write, free running; hca_cq_is_empty() reads it without the lock
 * @ci: consumer index last seen, in pi's terms
 * @solicited_pi: @pi after the last solicited or failed completion
 * @armed: what an event waits for
 * @arm_sn: sequence number of the arm in force
 * @arm_word: the record that it came by
 * @fired_zeroes: the first event answered a record of zeroes, and nothing else has been there yet
 * @fired_sn: sequence number (2 bits) of the arm that the last event answered; user space uses the next one
 *	when it has taken the event, and arming again before that asks for nothing new.  HCA_CQ_NO_SN: none yet.
 * @max_count: completions that an event may wait for; 0: any number
 * @max_ns: how long it may wait; 0: not at all
 * @waiting: completions that the armed event could have been raised for; nonzero: ops.cq_timer() was called
 * @error: overran
 * @ignore_overrun: never check the consumer index
 * @pad: entries of 128 bytes are written whole, with zeroes before the last 64
 * @timestamps: successful completions say when they happened, which costs a look at the clock each
 * @collapsed: every entry is written to the first place
 */
struct hca_cq {
	spinlock_t lock;
	struct hca_dev *dev;
	u8 *buf;
	u32 mask;
	u32 cqe_size;
	__be32 *dbrec;
	u32 pi;
	u32 ci;
	u32 solicited_pi;
	u8 armed;
	u8 arm_sn;
	u8 fired_sn;
	bool fired_zeroes;
	u16 max_count;
	u64 max_ns;
	u32 waiting;
	u32 arm_word;
	bool error;
	bool ignore_overrun;
	bool pad;
	bool timestamps;
	bool collapsed;
};

#define HCA_CQ_NO_SN 0xff

/**
 * hca_cq_init - start a CQ
 * @cq: zeroed by the caller
 * @dev: the device
 * @buf: @entries * @cqe_size bytes of shared memory, which user space has initialized
 * @entries: power of two
 * @cqe_size: 64 or 128
 * @dbrec: two words of shared memory, 4-byte aligned
 */
void hca_cq_init(struct hca_cq *cq, struct hca_dev *dev, void *buf, u32 entries, u32 cqe_size,
		 __be32 *dbrec);

/**
 * hca_cq_resize - go on in another ring
 * @cq: the CQ
 * @buf: the new ring, as for hca_cq_init()
 * @entries: power of two
 * @cqe_size: 64 or 128
 *
 * Writes a resize CQE into the old ring, after which user space goes on in the new one.
 * Return: 0, or -EINVAL if the completions not yet polled do not fit, or the CQ is in error.
 */
int hca_cq_resize(struct hca_cq *cq, void *buf, u32 entries, u32 cqe_size);

/**
 * hca_cq_ignore_overrun - whether the consumer index is checked from here on
 * @cq: the CQ
 * @ignore: see struct hca_cq
 */
void hca_cq_ignore_overrun(struct hca_cq *cq, bool ignore);

/**
 * hca_cq_arm - look at the arm record, which user space has just written
 * @cq: the CQ
 *
 * Raises the event at once if what is armed for is there already.
 */
void hca_cq_arm(struct hca_cq *cq);

/**
 * hca_cq_moderate - raise events for several completions at a time
 * @cq: the CQ
 * @count: as soon as so many have come; 0: however many have
 * @ns: at the latest so long after the first of them; 0 ends moderation, whatever @count is, since an event
 *	that only waits for a number may never come
 */
void hca_cq_moderate(struct hca_cq *cq, u16 count, u64 ns);

/**
 * hca_cq_timer - the time asked for by ops.cq_timer() is over
 * @cq: the CQ
 *
 * Process context.  Too early a call does no harm but raises the event early.
 */
void hca_cq_timer(struct hca_cq *cq);

/* ---- receive queues ---- */

/**
 * struct hca_recv - a receive in progress
 * @active: a message is arriving in it
 * @index: its WQE index
 * @srqn: of an XRC target: the SRQ that the message names
 * @srq_serial: and which one that was when it began: hca_srq.serial
 * @taker: hca_qp.serial of who took it
 * @taker_dev: and its device, which may have gone
 * @num_sge: pieces
 * @capacity: sum of their lengths
 * @sges: scatter list
 */
struct hca_recv {
	bool active;
	u16 index;
	u32 srqn;
	u32 num_sge;
	u64 srq_serial;
	u64 taker;
	struct hca_dev *taker_dev;
	u64 capacity;
	struct hca_sge sges[HCA_MAX_RECV_SGE];
};

/**
 * enum hca_srq_form - how the WQEs of a shared receive queue follow each other
 * @HCA_SRQ_LINKED: each begins with the index of the next one
 * @HCA_SRQ_CYCLIC: by their places; what they begin with is not looked at
 * @HCA_SRQ_BARE: likewise, and they have no such beginning
 */
enum hca_srq_form {
	HCA_SRQ_LINKED,
	HCA_SRQ_CYCLIC,
	HCA_SRQ_BARE,
};

/**
 * struct hca_srq - a shared receive queue
 * @lock: everything below
 * @dev: the device
 * @serial: no other SRQ has had it, on any device
 * @pdn: protection domain of the buffers
 * @buf: WQEs; shared, read once into private memory
 * @mask: entries - 1
 * @wqe_shift: log2 of a WQE's size
 * @form: how WQEs follow each other; constant
 * @dbrec: one word: how many were ever posted (16 bits)
 * @head: index of the next WQE to take
 * @taken: how many were ever taken (16 bits)
 * @limit: raise ops.srq_limit() when fewer are left; 0: disarmed
 * @cq: of an XRC SRQ: for what arrives in it; constant, like the next two
 * @xrcdn: likewise: its domain
 * @user_index: likewise: what CQEs carry besides the QP's number
 */
struct hca_srq {
	spinlock_t lock;
	struct hca_dev *dev;
	u64 serial;
	u32 pdn;
	u8 *buf;
	u32 mask;
	u8 wqe_shift;
	u8 form;
	__be32 *dbrec;
	u16 head;
	u16 taken;
	u32 limit;
	struct hca_cq *cq;
	u32 xrcdn;
	u32 user_index;
};

/**
 * hca_srq_init - start an SRQ
 * @srq: zeroed by the caller
 * @dev: the device
 * @pdn: protection domain
 * @buf: @entries << @wqe_shift bytes of shared memory
 * @entries: power of two, at most 32768
 * @wqe_shift: 5 to 9; of a bare one 4 to 9
 * @form: enum hca_srq_form
 * @dbrec: one word of shared memory
 */
void hca_srq_init(struct hca_srq *srq, struct hca_dev *dev, u32 pdn, void *buf, u32 entries, u8 wqe_shift,
		  enum hca_srq_form form, __be32 *dbrec);

/**
 * hca_srq_set_limit - arm the limit event
 * @srq: the SRQ
 * @limit: 0 disarms; fires at once if fewer receives than this are posted
 */
void hca_srq_set_limit(struct hca_srq *srq, u32 limit);

/* Armed limit, 0 when it has fired. */
u32 hca_srq_limit(struct hca_srq *srq);

/**
 * struct hca_rq - responder half of a QP
 * @lock: everything below, and the QP's responder state
 * @buf: WQEs, shared; NULL with an SRQ or without a receive queue
 * @mask: entries - 1
 * @wqe_shift: log2 of a WQE's size
 * @dbrec: shared: how many were ever posted (16 bits)
 * @ci: next WQE to take
 * @pi: producer index last seen
 * @psn: packet number that the next message must start with
 * @offset: how far the message in progress has arrived
 * @polls: flush polls without a new receive, for the back-off
 * @established: a message has come since RTR
 * @last_wqe_done: HCA_EVENT_QP_LAST_WQE was raised in this error state
 * @recv: the receive that a message is arriving in
 */
struct hca_rq {
	spinlock_t lock;
	u8 *buf;
	u32 mask;
	u8 wqe_shift;
	__be32 *dbrec;
	u16 ci;
	u16 pi;
	u32 psn;
	u32 offset;
	u32 polls;
	bool established;
	bool last_wqe_done;
	struct hca_recv recv;
};

/* ---- send queues ---- */

/**
 * struct hca_av - where a datagram or a DC request goes
 * @key: Q_Key or DC access key
 * @qpn: QP or DCT
 * @gid: device
 * @mac: of its network interface
 * @tclass: for the GRH
 * @hop_limit: likewise
 * @flow: likewise: index of the own GID 27:20, flow label 19:0
 */
struct hca_av {
	u64 key;
	u32 qpn;
	u8 gid[16];
	u8 mac[6];
	u8 tclass;
	u8 hop_limit;
	u32 flow;
};

/**
 * struct hca_wqe - a send WQE after decoding; owns nothing that user space can change
 * @op: enum hca_wqe_opcode
 * @class: enum hca_class it counts in
 * @status: HCA_SYND_OK, or why it cannot run
 * @signaled: CQE on success
 * @solicited: event at the receiver
 * @bbs: ring slots it takes
 * @index: its first slot
 * @size: bytes
 * @imm: immediate data as it goes over the wire, or the key to invalidate
 * @raddr: remote address
 * @rkey: remote key
 * @swap_add: atomic operand
 * @compare: atomic operand
 * @stream: of a DCI
 * @srqn: of an XRC request
 * @av: of a datagram or a DC request
 * @num_sge: pieces
 * @length: bytes of payload
 * @sges: local list
 * @raw: private copy of the WQE; inline data points into it
 */
struct hca_wqe {
	u8 op;
	u8 class;
	u8 status;
	bool signaled;
	bool solicited;
	u8 bbs;
	u16 index;
	u16 size;
	__be32 imm;
	u64 raddr;
	u32 rkey;
	u64 swap_add;
	u64 compare;
	u16 stream;
	u32 srqn;
	struct hca_av av;
	u32 num_sge;
	u64 length;
	struct hca_sge sges[HCA_MAX_SEND_SGE];
	u8 raw[HCA_WQE_MAX_BYTES] __aligned(8);
};

/**
 * struct hca_request - one slice of a message, as it reaches a responder
 * @src_dev: where it comes from
 * @src_qpn: the requester
 * @transport: its enum hca_qp_type
 * @key: Q_Key or DC access key
 * @srqn: of an XRC request
 * @grh: of a datagram: what is to precede the payload; HCA_GRH_BYTES
 * @recv: of a DC request: the receive that the message arrives in, which the requester keeps for the DCT
 * @op: enum hca_wqe_opcode
 * @first: starts a message
 * @last: ends it
 * @solicited: the receiver asked for an event may get one
 * @imm: immediate or key, big-endian as in the WQE
 * @raddr: of the whole message
 * @rkey: its key
 * @rkey_seq: the responder's: the layout with which the message began, as sge.seq
 * @tree_left: entries that responders may still look at in full, see struct hca_claim
 * @length: of the whole message
 * @offset: of this slice
 * @len: of this slice
 * @psn: packet number of the message's start
 * @packets: packet numbers the whole message takes
 * @swap_add: atomic operand
 * @compare: atomic operand
 * @owed: what the responder's counter is to get, at the latest before either side is told of a completion
 * @payload: where the bytes come from, or go to for a READ; advanced only on ACK
 * @orig: reply to an atomic
 * @rnr_timer: reply to HCA_ACK_RNR, code of the time to wait
 *
 * The narrow place between requester and responder: nothing else passes.  It is a part of the send queue, for most
 * of it is the same for all requests of a QP or all slices of a message.
 */
struct hca_request {
	const struct hca_dev *src_dev;
	u32 src_qpn;
	u8 transport;
	u64 key;
	u32 srqn;
	const u8 *grh;
	struct hca_recv *recv;
	u8 op;
	bool first;
	bool last;
	bool solicited;
	__be32 imm;
	u64 raddr;
	u32 rkey;
	u32 rkey_seq;
	u32 tree_left;
	u32 length;
	u32 offset;
	u32 len;
	u32 psn;
	u32 packets;
	u64 swap_add;
	u64 compare;
	struct hca_owed *owed;
	struct hca_cursor *payload;
	u64 orig;
	u8 rnr_timer;
};

/**
 * struct hca_sq - requester half of a QP
 * @lock: everything below
 * @buf: ring of 64-byte slots, shared, read once
 * @mask: slots - 1
 * @dbrec: shared: slots ever posted (16 bits)
 * @ci: next slot to execute
 * @pi: producer index last seen
 * @psn: packet number of the next request
 * @active: @wqe is in progress, @offset bytes of it done
 * @waiting: a timer runs (RNR or no response); nothing is executed until hca_qp_timer()
 * @rnr_left: RNR retries left for the WQE in progress
 * @retry_left: transport retries left for it
 * @expired: the request in progress has been transmitted without an answer
 * @drained: HCA_EVENT_SQ_DRAINED was raised since the last entry into SQD
 * @av_dev: who has @av_gid and @av_mac, valid while @av_gen is the current fabric generation
 * @av_gen: see above; 0: nothing is known
 * @av_gid: address of the last datagram or DC request
 * @av_mac: likewise
 * @streams: of a DCI: errors of a stream end only that stream, as long as fewer than this have failed; 0: the QP
 * @num_failed: streams that have failed
 * @failed: they
 * @owed: to the counter of what succeeds; not beyond the batch
 * @peer_owed: to the responder's; not beyond the next CQE
 * @overdrawn: what the work at hand has cost beyond its slice; not beyond the batch
 * @wqe: the WQE in progress
 * @req: what of it goes to the responder
 */
struct hca_sq {
	spinlock_t lock;
	u8 *buf;
	u32 mask;
	__be32 *dbrec;
	u16 ci;
	u16 pi;
	u32 psn;
	u32 offset;
	bool active;
	bool waiting;
	u8 rnr_left;
	u8 retry_left;
	bool expired;
	bool drained;
	u16 streams;
	u16 num_failed;
	struct hca_owed owed;
	struct hca_owed peer_owed;
	u64 overdrawn;
	struct hca_request req;
	struct hca_dev *av_dev;
	u32 av_gen;
	u8 av_gid[16];
	u8 av_mac[6];
	u16 failed[HCA_MAX_FAILED_STREAMS];
	struct hca_wqe wqe;
};

/* ---- queue pairs ---- */

/*
 * A DCT is a QP without queues of its own: any DCI may send to it, and errors do not end it.  Of a DCI, which has no
 * receive queue, hca_rq.recv is the receive that its message is arriving in at a DCT; it belongs to the send queue.
 */
enum hca_qp_type {
	HCA_QP_RC,
	HCA_QP_UC,
	HCA_QP_UD,
	HCA_QP_XRC_INI,
	HCA_QP_XRC_TGT,
	HCA_QP_DCI,
	HCA_QP_DCT,
	HCA_QP_TYPES
};

enum hca_qp_state {
	HCA_QPS_RESET,
	HCA_QPS_INIT,
	HCA_QPS_RTR,
	HCA_QPS_RTS,
	HCA_QPS_SQD,
	HCA_QPS_SQE,
	HCA_QPS_ERR,
};

/**
 * struct hca_qp - a queue pair
 * @dev: the device
 * @qpn: number
 * @pdn: protection domain
 * @type: enum hca_qp_type
 * @state: enum hca_qp_state.  Changed by the owner under both queue locks, to ERR by whoever holds either one.
 * @user_index: what CQEs carry besides the number
 * @send_cq: for the requester half
 * @recv_cq: for the responder half
 * @srq: or NULL
 * @sq: requester half
 * @rq: responder half
 * @access: remote operations that the responder half serves; owner, both locks
 * @dest_qpn: the peer; owner, both locks
 * @mtu: bytes, counts packet numbers; owner, both locks
 * @rnr_timer: code of the RNR NAK timer this responder sends; owner, both locks
 * @rnr_retry: RNR retries, 7 for ever; owner, both locks
 * @retry_cnt: transport retries; owner, both locks
 * @timeout: code of the local ACK timeout, 0 for ever; owner, both locks
 * @max_dest_rd_atomic: 0 refuses incoming reads and atomics; owner, both locks
 * @key: Q_Key of a UD QP (owner, both locks), access key of a DCT
 * @xrcdn: domain of an XRC target
 * @serial: no other QP has had it, on any device
 * @all_signaled: every send WQE makes a CQE
 * @mmo: copies within the host are allowed; set in INIT under both locks, until RESET
 * @route_lock: serializes changes of @peer_dev and @peer_gen
 * @peer_dev: who has the remote address, valid while @peer_gen is the current fabric generation
 * @peer_gen: see above; @peer_dev is stored before, @peer_gen read first (release, acquire)
 * @counters: by class; set in RESET or INIT under both locks, kept until the QP is gone; none for HCA_CLASS_NONE
 *
 * What most requests touch is side by side, and the large parts are at the end: with many QPs, it is pages that count.
 */
struct hca_qp {
	struct hca_dev *dev;
	u32 qpn;
	u32 pdn;
	u8 type;
	u8 state;
	u32 user_index;
	struct hca_cq *send_cq;
	struct hca_cq *recv_cq;
	struct hca_srq *srq;
	bool all_signaled;
	bool mmo;
	u8 access;
	u32 dest_qpn;
	u32 mtu;
	u8 rnr_timer;
	u8 rnr_retry;
	u8 retry_cnt;
	u8 timeout;
	u8 max_dest_rd_atomic;
	u64 key;
	u32 xrcdn;
	u64 serial;
	spinlock_t route_lock;
	struct hca_dev *peer_dev;
	u32 peer_gen;
	struct hca_counter *counters[HCA_CLASS_COUNT + 1];
	struct hca_rq rq;
	struct hca_sq sq;
};

/**
 * struct hca_qp_config - how to make a QP
 * @qpn: its number; the caller sees to it that it is the only one
 * @pdn: whose keys its requests may use
 * @type: enum hca_qp_type
 * @user_index: what CQEs carry besides the number
 * @all_signaled: each request completes with a CQE, whatever its WQE says
 * @send_cq: of its requests, or NULL without a send queue
 * @recv_cq: of its receives, or NULL without any
 * @srq: where it gets receives from, or NULL
 * @sq_buf: @sq_slots 64-byte slots of shared memory, or NULL with @sq_slots 0
 * @sq_slots: power of two, at most 32768
 * @rq_buf: @rq_entries << @rq_wqe_shift bytes of shared memory, or NULL with @rq_entries 0
 * @rq_entries: power of two, at most 32768
 * @rq_wqe_shift: 4 to 9
 * @dbrec: two words of shared memory, 4-byte aligned; NULL without queues
 * @key: access key of a DCT
 * @xrcdn: domain of an XRC target
 * @streams: of a DCI: streams that may fail before it does, at most HCA_MAX_FAILED_STREAMS; 0: it has no streams
 */
struct hca_qp_config {
	u32 qpn;
	u32 pdn;
	u8 type;
	u32 user_index;
	bool all_signaled;
	struct hca_cq *send_cq;
	struct hca_cq *recv_cq;
	struct hca_srq *srq;
	void *sq_buf;
	u32 sq_slots;
	void *rq_buf;
	u32 rq_entries;
	u8 rq_wqe_shift;
	__be32 *dbrec;
	u64 key;
	u32 xrcdn;
	u16 streams;
};

/**
 * hca_qp_init - make a QP in RESET
 * @qp: zeroed by the caller
 * @dev: the device
 * @cfg: how; not kept
 */
void hca_qp_init(struct hca_qp *qp, struct hca_dev *dev, const struct hca_qp_config *cfg);

/* Let peers find the QP, and stop that.  After the latter and a grace period no peer touches it. */
void hca_qp_publish(struct hca_qp *qp);
void hca_qp_unpublish(struct hca_qp *qp);

/**
 * struct hca_qp_attr - what hca_qp_modify() changes
 * @mask: enum hca_qp_attr_mask; what has no bit in it is not looked at
 * @state: enum hca_qp_state
 * @access: HCA_ACCESS_*, of others to what this QP's PD has
 * @dest_qpn: the peer's number
 * @mtu: bytes of a packet, by which PSNs advance
 * @rnr_timer: as the CQE's and the wire's code: what a sender waits for when there is no receive
 * @rnr_retry: how often at most; 7 is without end
 * @retry_cnt: how often a request is repeated that nobody answers
 * @timeout: after how long; 4.096 us << @timeout, 0 is never
 * @max_dest_rd_atomic: READs and atomics that the peer may have under way; 0 refuses them
 * @sq_psn: of the next packet sent
 * @rq_psn: of the next one expected
 * @qkey: what a datagram must have
 */
struct hca_qp_attr {
	u32 mask;
	u8 state;
	u8 access;
	u32 dest_qpn;
	u32 mtu;
	u8 rnr_timer;
	u8 rnr_retry;
	u8 retry_cnt;
	u8 timeout;
	u8 max_dest_rd_atomic;
	u32 sq_psn;
	u32 rq_psn;
	u32 qkey;
};

enum hca_qp_attr_mask {
	HCA_ATTR_STATE		    = 1 << 0,
	HCA_ATTR_ACCESS		    = 1 << 1,
	HCA_ATTR_DEST_QPN	    = 1 << 2,
	HCA_ATTR_MTU		    = 1 << 3,
	HCA_ATTR_RNR_TIMER	    = 1 << 4,
	HCA_ATTR_RNR_RETRY	    = 1 << 5,
	HCA_ATTR_RETRY_CNT	    = 1 << 6,
	HCA_ATTR_TIMEOUT	    = 1 << 7,
	HCA_ATTR_MAX_DEST_RD_ATOMIC = 1 << 8,
	HCA_ATTR_SQ_PSN		    = 1 << 9,
	HCA_ATTR_RQ_PSN		    = 1 << 10,
	HCA_ATTR_QKEY		    = 1 << 12,
	HCA_ATTR_ROUTE		    = 1 << 11,	/* the remote address changed: forget who answered */
};

/**
 * hca_qp_modify - change attributes and state
 * @qp: the QP
 * @cur: state from which the change is allowed
 * @attr: the transition and attributes have been checked by the driver (ib_modify_qp_is_ok()); states:
 *	RESET forgets all work and keeps the counters; ERR flushes both queues before the call returns (receives
 *	posted later are flushed by a timer); SQD raises HCA_EVENT_SQ_DRAINED when the current WQE is done; RTS
 *	starts the queue, the driver calls hca_qp_run() afterwards.
 *
 * Two calls on one QP do not run at the same time; the driver sees to it.
 *
 * Return: 0; -EINVAL, and nothing has changed, if work has failed and taken the QP from @cur to ERR, where only
 * RESET and ERR are allowed.
 */
int hca_qp_modify(struct hca_qp *qp, u8 cur, const struct hca_qp_attr *attr);

/**
 * hca_qp_enable_mmo - allow copies within the host, until the next RESET
 * @qp: the QP
 *
 * Return: 0 or, if the QP is not in INIT, -EINVAL.
 */
int hca_qp_enable_mmo(struct hca_qp *qp);

/**
 * hca_qp_reset_stream - let a failed stream of a DCI go on
 * @qp: the QP
 * @stream: its number
 *
 * Return: 0; -EINVAL if the QP is not in RTS, or the stream has not failed.
 */
int hca_qp_reset_stream(struct hca_qp *qp, u16 stream);

/**
 * hca_qp_attach - count some classes of work in a counter
 * @qp: the QP
 * @counter: the counter
 * @classes: mask of 1 << enum hca_class
 *
 * Return: 0; -EINVAL if the QP is neither in RESET nor in INIT; -EBUSY if one of the classes has a counter
 * already.  All of the classes or none.
 */
int hca_qp_attach(struct hca_qp *qp, struct hca_counter *counter, u32 classes);

/**
 * struct hca_budget - how much a caller of hca_qp_run() may do, and what is left of it
 * @wqes: work requests
 * @bytes: payload
 */
struct hca_budget {
	u32 wqes;
	u32 bytes;
};

enum hca_run {
	HCA_RUN_IDLE,	/* nothing left to do */
	HCA_RUN_MORE,	/* the budget is used up: run again */
	HCA_RUN_WAIT,	/* a timer or a kick will come */
};

/**
 * hca_qp_run - execute what was posted
 * @qp: the caller keeps it from being destroyed
 * @budget: at least one request, or about HCA_MIN_SLICE of it, is done; what is done is taken off
 *
 * Process context.  Any number of callers at once.  Reads the doorbell record after the caller's doorbell, so
 * that no post is missed.
 */
enum hca_run hca_qp_run(struct hca_qp *qp, struct hca_budget *budget);

/**
 * hca_qp_pending - cheap look whether the doorbell record has moved
 * @qp: the QP
 *
 * No lock; a hint for who polls.
 */
bool hca_qp_pending(const struct hca_qp *qp);

/**
 * hca_cq_is_empty - whether user space has polled all completions, as it says itself
 * @cq: the CQ
 *
 * No lock; a hint.
 */
bool hca_cq_is_empty(const struct hca_cq *cq);

/**
 * hca_qp_timer - the time asked for by ops.timer() is over
 * @qp: the QP
 *
 * Process context; hca_qp_run() follows.
 */
void hca_qp_timer(struct hca_qp *qp);

/* ---- inside ---- */

enum hca_ack {
	HCA_ACK,
	HCA_ACK_RNR,
	HCA_NAK_INVALID_REQUEST,
	HCA_NAK_REMOTE_ACCESS,
	HCA_NAK_REMOTE_OP,
	HCA_NO_RESPONSE,
	HCA_PAYLOAD_LOST,	/* not the responder's fault: a key of the payload has changed */
};

/* responder.c: serve a slice; under RCU, the requester's sq.lock held. */
enum hca_ack hca_respond(struct hca_qp *qp, struct hca_request *req);

/* responder.c: whether the responder waits for just this slice; under its rq.lock and RCU. */
bool hca_expected(struct hca_qp *qp, const struct hca_request *req);

/*
 * express.c: execute up to @most WQEs, of at most *@room bytes, as long as they are plain; under sq.lock and RCU.
 * Returns how many, and takes their bytes off @room.
 */
u32 hca_express(struct hca_qp *qp, u32 most, u32 *room);

/* wqe.c: copy the WQE at @sq->ci out of the ring and decode it; under sq.lock. */
void hca_wqe_fetch(struct hca_qp *qp, struct hca_wqe *wqe);

/* rq.c, under rq.lock: take the next receive, of @srq if there is one; false: none is there. */
bool hca_recv_take(struct hca_qp *qp, struct hca_srq *srq, struct hca_recv *recv);
/* rq.c, under rq.lock: take and forget the next receive, for flushing. */
bool hca_recv_take_flushed(struct hca_qp *qp, u16 *index);

/* qp.c: enter the error state; under one of the queue locks. */
void hca_qp_fail(struct hca_qp *qp, int event);
/* qp.c: a request of the QP has failed: enter what state that leads to; under sq.lock, not rq.lock. */
void hca_qp_fail_requester(struct hca_qp *qp);

/* counter.c: one operation of @class has finished. */
void hca_count(struct hca_qp *qp, enum hca_class class, enum hca_cqe_syndrome status, u64 bytes);

/* cq.c: what goes into a CQE. */
struct hca_completion {
	u8 opcode;
	u8 send_op;
	u8 syndrome;
	u8 vendor_err;
	bool solicited;
	u32 qpn;
	u32 user_index;
	u32 byte_cnt;
	u32 src_qpn;
	__be32 imm;
	u16 wqe_counter;
};

/* cq.c: write a CQE; false when the CQ is in error or overruns. */
bool hca_cq_write(struct hca_cq *cq, const struct hca_completion *c);

/* route.c: the device at the address of the QP's datagram or DC request, or NULL; under sq.lock and RCU. */
struct hca_dev *hca_av_dev(struct hca_qp *qp, const struct hca_av *av);

/*
 * requester.c: a DCI gives up its message in progress; the DCT's receive in which a part of it has arrived completes with
 * an error.  Under sq.lock, not under rq.lock.
 */
void hca_dci_abort(struct hca_qp *qp);

/* Requests and receives that are flushed at a time. */
#define HCA_FLUSH_BATCH	64u
/*
 * flush.c: complete with a flush error what is queued, some of it; takes rq.lock, the caller holds sq.lock.  Whether
 * there is more.
 */
bool hca_qp_flush(struct hca_qp *qp);
/* flush.c: the same of the send queue only; under sq.lock. */
bool hca_sq_flush(struct hca_qp *qp);
/*
 * flush.c: the receive in progress gets nothing more and completes with a flush error, where its SRQ is still there;
 * under rq.lock and RCU.  Whether it has completed.
 */
bool hca_recv_abandon(struct hca_qp *qp);

/* wqe.c: what the WQE at @sq->ci is and counts as, and how many slots it takes; for flushing. */
u8 hca_wqe_peek(const struct hca_sq *sq, u8 *op, enum hca_class *class);

/*
 * rq.c: end a receive that has been taken, of @srq if it is one of XRC: CQE, then counter; under rq.lock.  @bytes is
 * what counts, the message's payload without a GRH.  False: the CQ took no more.
 */
bool hca_recv_complete(struct hca_qp *qp, struct hca_srq *srq, struct hca_recv *recv, struct hca_completion *c,
		       u64 bytes);

/* mkey.c: free a key of the domain @pdn on behalf of LOCAL_INV or, @remote, SEND_WITH_INV; under RCU. */
bool hca_mkey_invalidate(struct hca_qp *qp, u32 pdn, u32 key, bool remote);

/* layout.c: whether an indirect key allows what is claimed of @len bytes at @addr; @seq is for hca_layout_span(). */
bool hca_layout_resolve(struct hca_claim *claim, const struct hca_mkey *m, u32 key, u64 addr, u64 len, u32 *seq);

/**
 * struct hca_span - kernel memory in one piece, and what follows at equal distances
 * @at: where
 * @len: bytes
 * @more: so many pieces of the same length follow, all in the same block
 * @stride: from one to the next
 */
struct hca_span {
	u8 *at;
	u32 len;
	u32 more;
	u32 stride;
};

/*
 * layout.c: the longest span at @addr of an indirect key, at most @span->len bytes at first.  False: a key on the way
 * has changed since @seq or does not allow it.
 */
bool hca_layout_span(const struct hca_mkey *m, u32 seq, u64 addr, bool write, struct hca_path *path,
		     struct hca_span *span);
/* layout.c: @pieces of what follows are behind, too. */
void hca_path_skip(struct hca_path *path, u32 pieces);

/*
 * layout.c: change the layout in force under ind->lock: begin, fill in the copy that it returns, then publish.  The copy
 * has the same entries; others go to the other half of the room.
 */
struct hca_layout *hca_layout_begin(struct hca_indirect *ind);
void hca_layout_publish(struct hca_indirect *ind);

/* A layout's entries; while it may change, they are where there are some, whatever they say. */
static inline struct hca_entry *hca_layout_entries(const struct hca_indirect *ind, const struct hca_layout *l)
{
	return ind->room + (READ_ONCE(l->second) ? ind->max_entries : 0);
}

/* umr.c: register or free an indirect key; under sq.lock and RCU.  What that costs is taken off @room. */
enum hca_cqe_syndrome hca_umr(struct hca_qp *qp, const struct hca_wqe *wqe, u32 *room);

#endif /* HCA_H */
