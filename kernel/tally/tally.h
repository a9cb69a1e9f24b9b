/* SPDX-License-Identifier: GPL-2.0-only */
/* The driver's objects: verbs structures around the virtual HCA's. */
#ifndef TALLY_H
#define TALLY_H

#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/idr.h>
#include <linux/if_vlan.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/uverbs_ioctl.h>
#include "../comp_cntr/ib_comp_cntr.h"
#include "../comp_cntr/ib_cpu_dmabuf.h"
#include "../hca/hca.h"
#include "backoff.h"
#include "compat.h"
#include "doorbell.h"
#include "engine.h"

#define TALLY_VERSION_MAJOR 0
#define TALLY_VERSION_MINOR 1
#define TALLY_VERSION_SUB   0
#define TALLY_VERSION                                                                                              \
	__stringify(TALLY_VERSION_MAJOR) "." __stringify(TALLY_VERSION_MINOR) "." __stringify(TALLY_VERSION_SUB)

/* What a device can do; Documentation/rdma/tally.rst lists them. */
enum {
	TALLY_MAX_QP	     = 64 * 1024,
	TALLY_MAX_CQ	     = 64 * 1024,
	TALLY_MAX_SRQ	     = 64 * 1024,
	TALLY_MAX_MR	     = 64 * 1024,
	TALLY_MAX_MKEY_ENTRIES = 65536,
	TALLY_MAX_PD	     = 64 * 1024,
	TALLY_MAX_UMEM	     = 64 * 1024,
	TALLY_MAX_CNTR	     = 64 * 1024,
	TALLY_MAX_XRCD	     = 64 * 1024,
	TALLY_MAX_MCAST_QP   = 1024,		/* QPs that have joined groups, of a device */
	TALLY_LOG_STREAMS    = 6,		/* of a DCI */
	TALLY_MAX_AH	     = 64 * 1024,
	TALLY_MAX_CQE	     = 4 * 1024 * 1024 - 1,
	TALLY_MAX_CQ_COUNT   = 0xffff,	/* completions that an event waits for */
	TALLY_MAX_CQ_USECS   = 0xfff,	/* and how long */
	TALLY_MAX_WQES	     = 32768,	/* slots of a send queue, entries of a receive queue */
	TALLY_MAX_SEND_SGE   = 30,
	TALLY_MAX_SRQ_SGE    = HCA_MAX_RECV_SGE - 1,	/* one unit of the WQE links it */
	TALLY_MAX_RD_ATOMIC  = 16,
	TALLY_MAX_SQ_WQE     = HCA_WQE_MAX_DS * HCA_WQE_DS,
	TALLY_MAX_RQ_SHIFT   = 9,
	TALLY_MIN_RQ_SHIFT   = 4,
	TALLY_MIN_SRQ_SHIFT  = 5,
	TALLY_MAX_UARS	     = 256,	/* of a context; what an offset for mmap() has room for */
	TALLY_NUM_GIDS	     = 256,
};

#define TALLY_MAX_MR_SIZE (64ull << 30)

/* Memory on the device: in one piece, and all of it. */
#define TALLY_MAX_DM_SIZE (256ul << 10)
#define TALLY_DM_BYTES	  (16l << 20)

/* Timestamps are nanoseconds of the kernel's monotonic clock. */
#define TALLY_CLOCK_KHZ	     (NSEC_PER_SEC / 1000)
#define TALLY_TIMESTAMP_MASK GENMASK_ULL(62, 0)

/* Driver statistics, beside those of struct hca_stats. */
enum tally_stat {
	TALLY_STAT_DB_TRAPPED,	  /* doorbells that faulted */
	TALLY_STAT_DB_POLLED,	  /* doorbell record changes seen by polling */
	TALLY_STAT_MODE_SWITCHES, /* pages that went from trapped to polled or back */
	TALLY_STAT_DB_UNDECODED,  /* faulting stores that could not be skipped */
	TALLY_STAT_CQ_ARMS,
	TALLY_STAT_LINGERED,	  /* arms that waited for their event */
	TALLY_STAT_ENGINE_WAKEUPS,
	TALLY_STAT_ENGINE_RUNS,	  /* QPs run by the engine */
	TALLY_STAT_COUNT
};

struct tally_stats {
	u64 v[TALLY_STAT_COUNT];
};

#define tally_stat_inc(dev, index) this_cpu_inc((dev)->stats->v[(index)])

/**
 * struct tally_dev - a device
 * @ib: what ib_core knows of it
 * @hca: the virtual HCA
 * @null_key: the key of every null region
 * @engines: its threads
 * @stats: the driver's own, per CPU
 * @ndev: only to be compared with; ib_core holds the reference, and only until the device is unregistered
 * @cqs: CQs by number, as struct tally_res
 * @srqs: SRQs by number, likewise
 * @pds: PDs by number, likewise
 * @umems: memory registered for commands, likewise
 * @res_lock: who uses what by number, see res.c; a leaf but for the tables' own locks
 * @xrcds: numbers of XRC domains
 * @gsi: QP 1, or NULL; written under @res_lock, read under RCU
 * @num_mcast: QPs that have joined groups; under multicast.c's lock
 * @key_variant: lower 8 bits of the next memory key
 * @num_cntrs: completion counters that exist
 * @dm_used: bytes of TALLY_DM_BYTES that are allocated
 * @clock: struct mlx5_ib_clock_info, which user space reads; written under @clock_lock
 * @clock_lock: for @clock
 * @cntr_wait: waits of threads for completion counters, see counters.c
 * @cntr_wait_lock: for @cntr_wait
 * @registered: link in the list of link.c, under its mutex
 * @reap: takes the device off that list, see link.c
 * @link: link in the list of route.c; what follows is under that file's lock
 * @net: the netdev's network namespace; a name to be compared with, no reference
 * @mac: the netdev's address
 * @mtu: largest packet that fits into the netdev's
 * @port_up: the netdev runs and has a carrier
 * @gids: GID table
 * @gid_used: which of its entries are valid
 *
 * Lifetime: newlink allocates it, ops.dealloc_driver releases what it points to, ib_core frees it.
 */
struct tally_dev {
	struct ib_device ib;
	struct hca_dev hca;
	struct hca_mkey null_key;
	struct tally_engines *engines;
	struct tally_stats __percpu *stats;
	struct net_device *ndev;
	struct hca_table cqs;
	struct hca_table srqs;
	struct hca_table pds;
	struct hca_table umems;
	spinlock_t res_lock;
	struct ida xrcds;
	struct tally_gsi __rcu *gsi;
	u32 num_mcast;
	atomic_t key_variant;
	atomic_t num_cntrs;
	atomic_long_t dm_used;
	struct page *clock;
	struct mutex clock_lock;
	struct list_head cntr_wait;
	spinlock_t cntr_wait_lock;

	struct list_head registered;
	struct work_struct reap;

	struct list_head link;
	const struct net *net;
	u8 mac[ETH_ALEN];
	enum ib_mtu mtu;
	bool port_up;
	union ib_gid gids[TALLY_NUM_GIDS];
	DECLARE_BITMAP(gid_used, TALLY_NUM_GIDS);
};

/**
 * struct tally_ucontext - an open device of a process
 * @ib: what ib_core knows of it
 * @engine: executes what its processes do not
 * @uars: doorbell pages, see doorbell.c
 * @num_uars: how many there can be
 * @dyn_uars: pages are allocated one by one, see uar_object.c; otherwise all are there from the beginning
 * @cqe_version: 1 if CQEs name QPs by the user's own index, 0 if by number
 * @devx: may use the device's command interface
 * @db_pages: pinned pages with doorbell records, see dbrec.c
 * @db_lock: for @db_pages
 * @events_lock: subscriptions to its objects' events, see devx_events.c
 *
 * Constant but for @db_pages.  Outlives the objects made in it.
 */
struct tally_ucontext {
	struct ib_ucontext ib;
	struct tally_engine *engine;
	struct tally_uars *uars;
	u32 num_uars;
	bool dyn_uars;
	u8 cqe_version;
	bool devx;
	DECLARE_HASHTABLE(db_pages, 7);
	struct mutex db_lock;
	spinlock_t events_lock;
};

/**
 * struct tally_res - an object that commands name by number; see res.c
 * @table: of its kind
 * @ctx: whose it is
 * @uobject: ib_core's handle of one that a verb has made, else NULL; set before it is published
 * @number: there
 * @users: objects that commands have made on it; under tally_dev.res_lock
 */
struct tally_res {
	struct hca_table *table;
	struct tally_ucontext *ctx;
	const struct ib_uobject *uobject;
	u32 number;
	u32 users;
};

/**
 * struct tally_pd - a protection domain
 * @ib: what ib_core knows of it; zeroed in one that a command has made
 * @res: its number
 */
struct tally_pd {
	struct ib_pd ib;
	struct tally_res res;
};

struct tally_umem;
struct tally_gsi;
struct tally_kernel_cq;

/**
 * struct tally_ring - user memory that the HCA reads and writes as a queue
 * @umem: pins it, with
 * @vmap: its kernel mapping, NULL if the pages lie side by side anyway; or
 * @in: registered memory that it is a range of
 * @addr: kernel address of its first byte
 */
struct tally_ring {
	struct ib_umem *umem;
	void *vmap;
	struct tally_umem *in;
	void *addr;
};

struct tally_db_page;

/**
 * struct tally_dbrec - a doorbell record in user memory
 * @page: the pinned page that holds it, or
 * @in: registered memory that it is in
 * @addr: its kernel address
 */
struct tally_dbrec {
	struct tally_db_page *page;
	struct tally_umem *in;
	__be32 *addr;
};

/**
 * struct tally_blocks - memory as equally large pieces, for struct hca_mkey
 * @addr: kernel addresses of the pieces; &@one if there is but one
 * @one: see @addr
 * @num: how many
 * @shift: log2 of their size
 * @first_offset: where in the first piece the memory begins
 */
struct tally_blocks {
	u8 **addr;
	u8 *one;
	u32 num;
	u8 shift;
	u64 first_offset;
};

/**
 * struct tally_dmabuf - a dma-buf that is mapped for the CPU and stays where it is
 * @cpu: the buffer and its kernel mapping, or without one:
 * @umem: the pages of the range, of an exporter that has user mappings only
 */
struct tally_dmabuf {
	struct ib_cpu_dmabuf cpu;
	struct ib_umem *umem;
};

/**
 * struct tally_mr - a memory region
 * @ib: what ib_core knows of it
 * @hca: the key, published from registration to deregistration
 * @blocks: what the key stands for
 * @umem: the pinned user memory, or NULL
 * @dmabuf: the buffer, for a region of one
 * @access: enum ib_access_flags
 *
 * Registration, re-registration and deregistration of one region exclude each other (ib_core's uobject lock).
 */
struct tally_mr {
	struct ib_mr ib;
	struct hca_mkey hca;
	struct tally_blocks blocks;
	struct ib_umem *umem;
	struct tally_dmabuf dmabuf;
	int access;
};

/**
 * struct tally_mkey - a key that is no region's: made by a command, or a memory window
 * @hca: the key, published as long as the object exists
 * @indirect: what work requests change, if they give it its memory
 * @entries: room for them
 * @memory: else: registered memory
 * @blocks: as the key has it
 * @pd: of a key made by a command: its protection domain
 */
struct tally_mkey {
	struct hca_mkey hca;
	struct hca_indirect indirect;
	struct hca_entry *entries;
	struct tally_ring memory;
	struct tally_blocks blocks;
	struct tally_pd *pd;
};

/* Queues of several processes that belong together; only its number matters. */
struct tally_xrcd {
	struct ib_xrcd ib;
	u32 xrcdn;
};

struct tally_mw {
	struct ib_mw ib;
	struct tally_mkey key;
};

/**
 * struct tally_address - where a kernel user's message comes from and goes to
 * @av: the receiver's address, with neither number nor key of a QP
 * @from: the sender's; ib_core keeps it in the GID table as long as the handle lives
 * @ipv4: both are IPv4 addresses
 * @sl: service level
 * @vlan: VLAN_N_VID: none
 */
struct tally_address {
	struct hca_av av;
	union ib_gid from;
	bool ipv4;
	u8 sl;
	u16 vlan;
};

/* An address handle; @address of a kernel user's only.  Constant. */
struct tally_ah {
	struct ib_ah ib;
	struct tally_address address;
};

/**
 * struct tally_linger - whether who arms a CQ had better stay awake, see linger.c; hints, changed without a lock
 * @since: local_clock() of an arm in a fault whose event is still to come, or 0
 * @soon: the last such event came soon
 * @retry: when staying awake was in vain
 * @events: of the CQ so far; changed under the lock of its hca_cq
 * @over: the CQ is being destroyed
 * @num: threads that linger; raised in an RCU read section in which the CQ was found
 */
struct tally_linger {
	u64 since;
	bool soon;
	struct tally_backoff retry;
	u32 events;
	bool over;
	atomic_t num;
};

/**
 * struct tally_cq - a completion queue
 * @ib: what ib_core knows of it; zeroed in one that a command has made
 * @devx: the command's object, or NULL
 * @kernel: the queue of a kernel user, see kernel_cq.c; then nothing below is used.  Else NULL
 * @hca: the queue itself
 * @res: its number
 * @ctx: whose it is
 * @uar_link: CQs of a context, under the lock in struct tally_uars; empty until it is published
 * @ring: the entries
 * @dbrec: consumer index and arm record
 * @resize_lock: one resize at a time; covers @ring
 * @timer: of an event that waits for more completions; started under the lock of @hca
 * @timer_work: what it does, out of the interrupt
 * @linger: how soon its events come
 */
struct tally_cq {
	struct ib_cq ib;
	const struct tally_devx_obj *devx;
	struct tally_kernel_cq *kernel;
	struct hca_cq hca;
	struct tally_res res;
	struct tally_ucontext *ctx;
	struct list_head uar_link;
	struct tally_ring ring;
	struct tally_dbrec dbrec;
	struct mutex resize_lock;
	struct hrtimer timer;
	struct work_struct timer_work;
	struct tally_linger linger;
};

/**
 * struct tally_srq - a shared receive queue
 * @ib: what ib_core knows of it; zeroed in one that a command has made
 * @devx: the command's object, or NULL
 * @hca: the queue itself
 * @res: its number
 * @ctx: whose it is
 * @ring: WQEs
 * @dbrec: producer index
 * @max_sge: what a WQE can name
 */
struct tally_srq {
	struct ib_srq ib;
	const struct tally_devx_obj *devx;
	struct hca_srq hca;
	struct tally_res res;
	struct tally_ucontext *ctx;
	struct tally_ring ring;
	struct tally_dbrec dbrec;
	u32 max_sge;
};

/**
 * struct tally_qp - a queue pair
 * @ib: what ib_core knows of it; of one that a command has made, only the device and the number are set
 * @devx: the command's object, or NULL
 * @gsi: the queues of QP 1, see gsi.c; NULL for all others
 * @hca: the queues and the state
 * @work: its place in the engine
 * @bfreg: its doorbell register
 * @bfreg_link: QPs of a UAR page, see uar.h
 * @ctx: whose it is
 * @ring: receive WQEs, then send WQEs
 * @dbrec: producer indices
 * @lock: one modify, query or attach at a time; covers what follows
 * @attr: attributes as set, but for those that change by themselves
 * @dgid: the peer's address; under route.c's lock, too
 * @dmac: its MAC; likewise
 * @routed: @dgid and @dmac are set; likewise
 * @cap: capabilities asked for and given
 * @sig_type: which of its requests complete with a CQE
 * @no_loopback: does not get its own multicast
 * @sqd_notify: raise an event when the send queue has drained
 */
struct tally_qp {
	struct ib_qp ib;
	const struct tally_devx_obj *devx;
	struct tally_gsi *gsi;
	struct tally_work work;
	struct tally_bfreg *bfreg;
	struct list_head bfreg_link;
	struct tally_ucontext *ctx;
	struct tally_ring ring;
	struct tally_dbrec dbrec;
	struct mutex lock;
	struct ib_qp_attr attr;
	union ib_gid dgid;
	u8 dmac[ETH_ALEN];
	bool routed;
	struct ib_qp_cap cap;
	enum ib_sig_type sig_type;
	bool no_loopback;
	bool sqd_notify;
	struct hca_qp hca;
};

static inline struct tally_dev *to_tdev(struct ib_device *ib)
{
	return container_of(ib, struct tally_dev, ib);
}

static inline struct tally_dev *hca_to_tdev(struct hca_dev *hca)
{
	return container_of(hca, struct tally_dev, hca);
}

static inline struct tally_ucontext *to_tctx(struct ib_ucontext *ib)
{
	return container_of(ib, struct tally_ucontext, ib);
}

static inline struct tally_pd *to_tpd(struct ib_pd *ib)
{
	return container_of(ib, struct tally_pd, ib);
}

static inline struct tally_mr *to_tmr(struct ib_mr *ib)
{
	return container_of(ib, struct tally_mr, ib);
}

static inline struct tally_xrcd *to_txrcd(struct ib_xrcd *ib)
{
	return container_of(ib, struct tally_xrcd, ib);
}

static inline struct tally_mw *to_tmw(struct ib_mw *ib)
{
	return container_of(ib, struct tally_mw, ib);
}

static inline struct tally_cq *to_tcq(struct ib_cq *ib)
{
	return container_of(ib, struct tally_cq, ib);
}

static inline struct tally_cq *hca_to_tcq(struct hca_cq *hca)
{
	return container_of(hca, struct tally_cq, hca);
}

static inline struct tally_ah *to_tah(struct ib_ah *ib)
{
	return container_of(ib, struct tally_ah, ib);
}

static inline struct tally_srq *to_tsrq(struct ib_srq *ib)
{
	return container_of(ib, struct tally_srq, ib);
}

static inline struct tally_srq *hca_to_tsrq(struct hca_srq *hca)
{
	return container_of(hca, struct tally_srq, hca);
}

static inline struct tally_qp *to_tqp(struct ib_qp *ib)
{
	return container_of(ib, struct tally_qp, ib);
}

static inline struct tally_qp *hca_to_tqp(struct hca_qp *hca)
{
	return container_of(hca, struct tally_qp, hca);
}

/* link.c: devices come and go with their netdevs */
int tally_link_init(void);
void tally_link_exit(void);
void tally_dealloc_driver(struct ib_device *ib);

/* device.c: what the device and its port are */
struct tally_dev *tally_dev_alloc(struct net_device *ndev, const char *name);
void tally_dev_free_parts(struct tally_dev *dev);

/* events.c: what the HCA asks of its driver */
extern const struct hca_ops tally_hca_ops;

/* route.c: which device answers at an address */
extern u32 tally_fabric_gen;
void tally_fabric_join(struct tally_dev *dev);
void tally_fabric_leave(struct tally_dev *dev);
bool tally_fabric_set_port(struct tally_dev *dev, bool up);
void tally_fabric_set_netdev(struct tally_dev *dev, const struct net_device *ndev);
void tally_qp_set_route(struct tally_qp *qp, const union ib_gid *dgid, const u8 *dmac);
struct hca_dev *tally_route(struct hca_qp *hca);
struct hca_dev *tally_route_av(struct hca_qp *hca, const struct hca_av *av);
struct tally_dev *tally_route_address(struct tally_dev *self, const struct hca_av *av);
bool tally_is_there(const struct hca_dev *hca);
bool tally_gid_at(struct tally_dev *dev, u32 index, union ib_gid *gid);
int tally_add_gid(const struct ib_gid_attr *attr, void **context);
int tally_del_gid(const struct ib_gid_attr *attr, void **context);

/* context.c */
int tally_alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata);
void tally_dealloc_ucontext(struct ib_ucontext *ib);
int tally_query_ucontext(struct ib_ucontext *ib, struct uverbs_attr_bundle *attrs);
void tally_disassociate_ucontext(struct ib_ucontext *ib);
int tally_mmap(struct ib_ucontext *ib, struct vm_area_struct *vma);
extern const struct uapi_definition tally_context_defs[];

/* clock.c: the clock of timestamps */
int tally_clock_init(struct tally_dev *dev);
void tally_clock_free(struct tally_dev *dev);
void tally_clock_update(struct tally_dev *dev);
int tally_clock_mmap(struct tally_ucontext *ctx, struct vm_area_struct *vma, u32 index);

/* uar_object.c */
extern const struct uapi_definition tally_uar_defs[];

/* res.c: objects that commands name by number */
int tally_res_init(struct tally_res *res, struct hca_table *table, struct tally_ucontext *ctx);
void tally_res_of_verb(struct tally_res *res, const void *uobject);
void tally_res_publish(struct tally_res *res);
struct tally_res *tally_res_get(struct hca_table *table, struct tally_ucontext *ctx, u32 number);
void tally_res_put(struct tally_res *res);
int tally_res_hide(struct tally_res *res);
void tally_res_release(struct tally_res *res);

/* pd.c */
struct tally_pd *tally_pd_get(struct tally_ucontext *ctx, u32 pdn);
void tally_pd_put(struct tally_pd *pd);
int tally_alloc_pd(struct ib_pd *ib, struct ib_udata *udata);
int tally_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata);
extern const struct uapi_definition tally_pd_defs[];

/* pages.c: user memory as the HCA wants to see it */
void *tally_map_pinned(struct ib_umem *umem, void **vmap);
int tally_ring_map(struct tally_ring *ring, struct ib_device *device, u64 addr, size_t size, int access);
void tally_ring_unmap(struct tally_ring *ring);
int tally_blocks_of_umem(struct tally_blocks *blocks, struct ib_umem *umem, u64 addr);
void tally_blocks_of_range(struct tally_blocks *blocks, void *addr);
void tally_blocks_free(struct tally_blocks *blocks);

/* dbrec.c: doorbell records */
int tally_dbrec_map(struct tally_dbrec *db, struct tally_ucontext *ctx, u64 addr, u32 size);
void tally_dbrec_unmap(struct tally_dbrec *db, struct tally_ucontext *ctx);

/* devx_umem.c: user memory that commands name by number */
int tally_ring_of_umem(struct tally_ring *ring, struct tally_ucontext *ctx, u32 id, u64 offset, size_t size,
		       bool write);
int tally_dbrec_of_umem(struct tally_dbrec *db, struct tally_ucontext *ctx, u32 id, u64 offset, u32 size);
void tally_umem_put(struct tally_umem *umem);
extern const struct uapi_definition tally_devx_umem_defs[];

/* dmabuf.c */
int tally_dmabuf_map(struct tally_dmabuf *buf, struct ib_device *device, int fd, u64 offset, u64 length,
		     int access);
void tally_dmabuf_unmap(struct tally_dmabuf *buf);

/* mr.c */
struct ib_mr *tally_get_dma_mr(struct ib_pd *pd, int access);
struct ib_mr *tally_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				struct ib_udata *udata);
struct ib_mr *tally_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd, int access,
				       TALLY_DMABUF_ATTRS *attrs);
struct ib_mr *tally_rereg_user_mr(struct ib_mr *ib, int flags, u64 start, u64 length, u64 iova, int access,
				  struct ib_pd *pd, struct ib_udata *udata);
int tally_dereg_mr(struct ib_mr *ib, struct ib_udata *udata);
int tally_null_key_init(struct tally_dev *dev);
void tally_null_key_free(struct tally_dev *dev);
struct ib_mr *tally_reg_range(struct ib_pd *pd, void *addr, u64 length, int access);

/* dm.c: memory on the device */
struct ib_dm *tally_alloc_dm(struct ib_device *ib, struct ib_ucontext *context, struct ib_dm_alloc_attr *attr,
			     struct uverbs_attr_bundle *attrs);
int tally_dealloc_dm(struct ib_dm *ib, struct uverbs_attr_bundle *attrs);
struct ib_mr *tally_reg_dm_mr(struct ib_pd *pd, struct ib_dm *ib, struct ib_dm_mr_attr *attr,
			      struct uverbs_attr_bundle *attrs);
int tally_dm_mmap(struct tally_ucontext *ctx, struct vm_area_struct *vma, u32 index);
void tally_mmap_free(struct rdma_user_mmap_entry *entry);
extern const struct uapi_definition tally_dm_defs[];

/* mkey.c */
int tally_alloc_mw(struct ib_mw *ib, struct ib_udata *udata);
int tally_dealloc_mw(struct ib_mw *ib);

/* cq.c */
int tally_cq_make(struct tally_cq *cq, u32 entries, u32 cqe_size);
void tally_cq_publish(struct tally_cq *cq);
int tally_cq_unmake(struct tally_cq *cq);
struct tally_cq *tally_cq_get(struct tally_ucontext *ctx, u32 cqn);
void tally_cq_put(struct tally_cq *cq);
int tally_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, TALLY_CREATE_CQ_ATTRS *attrs);
int tally_modify_cq(struct ib_cq *ib, u16 count, u16 usecs);
int tally_resize_cq(struct ib_cq *ib, int entries, struct ib_udata *udata);
int tally_destroy_cq(struct ib_cq *ib, struct ib_udata *udata);

/* linger.c; beside what is in uar.h */

/* A CQ raises its event; under the lock of its hca_cq. */
void tally_linger_event(struct tally_cq *cq);

/* No thread lingers for a CQ any more, which cannot be found by then. */
void tally_linger_end(struct tally_cq *cq);

/* srq.c */
int tally_srq_make(struct tally_srq *srq, u32 pdn, u32 entries, u8 shift, enum hca_srq_form form);
int tally_srq_unmake(struct tally_srq *srq);
struct tally_srq *tally_srq_get(struct tally_ucontext *ctx, u32 srqn);
void tally_srq_put(struct tally_srq *srq);
int tally_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata);
int tally_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		     struct ib_udata *udata);
int tally_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr);
int tally_destroy_srq(struct ib_srq *ib, struct ib_udata *udata);

/* qp.c */
void tally_qp_unmap(struct tally_qp *qp);
int tally_qp_make(struct tally_qp *qp, struct hca_qp_config *cfg);
void tally_qp_unmake(struct tally_qp *qp);
int tally_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata);
int tally_destroy_qp(struct ib_qp *ib, struct ib_udata *udata);

/* modify_qp.c */
int tally_qp_modify(struct tally_qp *qp, const struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int tally_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int tally_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init);

/* xrc.c */
int tally_alloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata);
int tally_dealloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata);
struct hca_srq *tally_xrc_srq(struct hca_dev *hca, u32 srqn, u32 xrcdn);

/* datagram.c */
void tally_write_grh(const struct hca_av *av, const union ib_gid *from, u32 bytes, u8 *grh);
bool tally_fill_grh(struct hca_qp *hca, const struct hca_av *av, u32 bytes, u8 *grh);

/* multicast.c */
bool tally_multicast(struct hca_qp *hca, const struct hca_av *av, void (*deliver)(struct hca_qp *to, void *arg),
		     void *arg);
int tally_attach_mcast(struct ib_qp *ib, union ib_gid *gid, u16 lid);
int tally_detach_mcast(struct ib_qp *ib, union ib_gid *gid, u16 lid);

/* ah.c */
int tally_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int tally_destroy_ah(struct ib_ah *ib, u32 flags);

/* gsi.c: QP 1 */
int tally_gsi_create(struct tally_qp *qp, struct ib_qp_init_attr *init);
int tally_gsi_modify(struct tally_qp *qp, const struct ib_qp_attr *attr, int mask);
void tally_gsi_destroy(struct tally_qp *qp);
int tally_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int tally_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);

/* kernel_cq.c */
int tally_kernel_cq_create(struct tally_cq *cq, const struct ib_cq_init_attr *attr);
void tally_kernel_cq_destroy(struct tally_cq *cq);
void tally_kernel_cq_add(struct ib_cq *ib, const struct ib_wc *wc, bool solicited);
void tally_kernel_cq_forget(struct ib_cq *ib, const struct ib_qp *qp);
int tally_poll_cq(struct ib_cq *ib, int num, struct ib_wc *wcs);
int tally_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags);

/* counters.c */
extern const struct ib_comp_cntr_ops tally_cntr_ops;
void tally_cntr_event(struct hca_counter *hca);
void tally_qp_put_cntrs(struct tally_qp *qp);

/* stats.c */
struct rdma_hw_stats *tally_alloc_hw_port_stats(struct ib_device *ib, u32 port);
int tally_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index);

/* restrack.c */
int tally_fill_res_mr(struct sk_buff *msg, struct ib_mr *ib);
int tally_fill_res_cq(struct sk_buff *msg, struct ib_cq *ib);
int tally_fill_res_qp(struct sk_buff *msg, struct ib_qp *ib);
int tally_fill_res_srq(struct sk_buff *msg, struct ib_srq *ib);

/* devx.c: the device's command interface */
extern const struct uapi_definition tally_devx_defs[];

/* udata.c */
int tally_udata_get(void *req, size_t size, size_t min, struct ib_udata *udata);
int tally_udata_put(const void *resp, size_t size, struct ib_udata *udata);

#endif /* TALLY_H */
