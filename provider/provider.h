/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verbs provider: what its files share.
 *
 *   preload.c     what libibverbs exports: ours, or passed on to the real one
 *   dlopen.c facade.c    programs that load libibverbs by themselves
 *   device.c      discovery, the device list
 *   paths.c       files of /sys and /dev that programs look for themselves
 *   context.c     open and close, the slots of inline verbs
 *   query.c       what programs ask of device, port and addresses
 *   connection.c  control messages
 *   shm.c         chunks of shared memory
 *   pd.c mr.c mw.c dm.c cq.c qp.c post.c srq.c xrc.c ah.c    one verbs object each
 *   cq_ex.c qp_ex.c    extended CQs and QPs
 *   import.c      objects of other contexts
 *   byway.c       memory that is not adopted, because the daemon writes it by address
 *   advise.c      memory on demand, fetched before it is used
 *   dv.c pool.c    direct verbs, <infiniband/xrocedv.h>
 *   maps.c        what /proc/self/maps says of a range
 *   adopt.c convert.c    private memory becomes shared under the program's feet
 *   events.c      event pipes, completion channels, asynchronous events
 *   fork.c        what a child must not touch, and what it has instead
 *   ring.h        queue operations
 *
 * Errors: negative errno inside; the xp_* functions that stand for a verb answer as that verb does
 * (positive errno, or NULL and errno, or -1 and errno). The sign changes there and nowhere else.
 *
 * Locks, outermost first: the context's mutex of verbs.h; CQ lock; connection lock, or a ring's
 * lock, or an event pipe's. The other mutexes of verbs.h are taken alone. Nothing here holds a
 * lock while the program's code runs, with two exceptions: the lock of an extended CQ from
 * start_poll() to end_poll(), which is taken before all of those and nowhere else; and a send
 * queue's, from wr_start() to wr_complete().
 */
#ifndef XP_PROVIDER_H
#define XP_PROVIDER_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <infiniband/xrocedv.h>
#include <sys/types.h>

#include <xroce/control.h>

#include "provider/verbs/ring.h"

#define XP_PUBLIC __attribute__((visibility("default")))

/* XROCE_DEBUG=1: why a device was skipped, a region not adopted ... on stderr */
void xp_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- the real libibverbs (preload.c) ------------------------------------------- */

void *xp_real_dlopen(const char *file, int mode); /* dlopen.c */
/* By name, default version; NULL where this libibverbs lacks it. */
void *xp_real_symbol(const char *name);
struct ibv_device **xp_real_get_device_list(int *num);
void xp_real_free_device_list(struct ibv_device **list);

/* ---- devices (device.c) -------------------------------------------------------- */

struct xp_device {
	struct ibv_device ibdev;
	/* libibverbs keeps a reference count and more behind its devices: it may write here */
	uint8_t libibverbs_private[512];
	struct xp_device *next;
	__be64 guid;
	char path[108]; /* of the control socket */
};

bool xp_is_our_device(const struct ibv_device *ibdev);

struct ibv_device **xp_get_device_list(int *num);
void xp_free_device_list(struct ibv_device **list);
__be64 xp_get_device_guid(struct ibv_device *ibdev);
int xp_get_device_index(struct ibv_device *ibdev);

/* ---- control connection (connection.c) ----------------------------------------- */

struct xp_conn {
	int fd;
	pthread_mutex_t lock;
	uint32_t seq;
	bool broken; /* the daemon is gone, or does not speak our protocol */
	uint64_t opened_ns;
	uint64_t deadline_ns; /* of replies; 0: none */
};

/* One request and its reply. */
struct xp_call {
	uint32_t type; /* enum xr_msg_type */
	const void *req;
	size_t req_len;
	const int *fds; /* to send */
	unsigned int nfds;
	void *rep; /* what is not given reads as 0 */
	size_t rep_len;
	size_t rep_got;			 /* out: bytes of the reply's body that were stored */
	int *rep_fds;			 /* room for received ones; further ones are closed */
	unsigned int rep_room, rep_nfds; /* in, out */
};

/* For so long answers are waited for, less where the daemon's process is stopped. */
int xp_conn_open(struct xp_conn *conn, const char *path, unsigned int timeout_ms);
void xp_conn_no_timeout(struct xp_conn *conn);
void xp_conn_close(struct xp_conn *conn);
/* Under conn->lock. -EIO with conn->broken: the daemon is gone. Other errors: its answer. */
int xp_conn_call(struct xp_conn *conn, struct xp_call *call);
/* True once the other end has closed; no lock, no blocking. */
bool xp_conn_hung_up(const struct xp_conn *conn);
void xp_close_fds(int *fds, unsigned int n);

/* ---- shared memory (shm.c) ----------------------------------------------------- */

struct xp_chunk {
	void *base;
	size_t size;
};
struct xp_shm {
	struct xp_chunk *chunk; /* by id */
	unsigned int nchunks;
};

/*
 * Where a piece lies; a new chunk takes fds[*used]. Under the connection's lock, in the
 * order of the replies: a chunk travels with the first piece that lies in it.
 */
int xp_shm_map(struct xp_shm *shm, const struct xr_shm_ref *ref, const int *fds, unsigned int nfds,
	       unsigned int *used, void **ptr);
void xp_shm_unmap_all(struct xp_shm *shm);

/* fork.c: before the fork, and after it in parent and child */
void xp_devices_before_fork(void);
void xp_devices_in_parent(void);
void xp_devices_in_child(void);

/* ---- without a context (device.c, paths.c) ------------------------------------- */

/* The reply to QUERY_GIDS */
struct xp_gid_table {
	struct xr_query_gids_rep head;
	struct xr_gid_entry entry[XR_GID_TABLE_LEN];
};
bool xp_gids_fit(const struct xp_gid_table *t, size_t got);
/*
 * What the daemon of a device says of itself, and with gids its addresses: 0 or -errno. The
 * program need not have opened or listed the device, but must be allowed to see it.
 */
int xp_device_ask(const char *name, struct xr_hello_rep *rep, struct xp_gid_table *gids);

/* ---- contexts (context.c) ------------------------------------------------------ */

enum xp_health {
	XP_HEALTHY,
	XP_GONE,   /* the daemon, or what it held for us */
	XP_FORKED, /* this is a child: the parent's objects are not ours to touch; see xp_here() */
};

struct xp_pipe;

struct xp_context {
	struct ibv_context *ibctx;
	void *block; /* to be freed; this struct lies in it */
	struct xp_device *dev;
	struct xp_context *next;	 /* fork.c */
	struct xp_context *heir, *elder; /* in a child of this one's process; this one's parent's */
	ino_t async_inode;		 /* in a child: what the parent's pipe was */
	int health;			 /* enum xp_health, atomic, never gets better */
	unsigned int workers;
	int *wake;		       /* the workers' eventfds */
	struct xr_doorbell *doorbells; /* the workers' */
	int uffd_device;	       /* or -1 */
	int ticket;		       /* cmd_fd: import.c */
	uint64_t checked_ns;	       /* when the connection was last looked at, atomic */
	struct xp_conn conn;
	struct xp_shm shm;
	struct xp_pipe *async;
	bool fatal_told;    /* IBV_EVENT_DEVICE_FATAL was delivered, atomic */
	bool proc_fds_sent; /* under conn.lock */
	struct xr_query_device_rep attr;
};

/* Our contexts are known by their slots: no table, no lock. */
int xp_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc);
static inline bool xp_is_ours(const struct ibv_context *ibctx)
{
	return ibctx->ops.poll_cq == xp_poll_cq;
}
/* The same distance for all contexts: set by the first one opened. */
extern ptrdiff_t xp_context_distance;
static inline struct xp_context *xp_ctx(const struct ibv_context *ibctx)
{
	return (struct xp_context *)((char *)ibctx - xp_context_distance);
}

static inline int xp_health(const struct xp_context *ctx)
{
	return __atomic_load_n(&ctx->health, __ATOMIC_ACQUIRE);
}
/* What completions are stamped with: ns of CLOCK_MONOTONIC */
uint64_t xp_clock(void);
void xp_set_gone(struct xp_context *ctx);
/* Looks at the connection every few milliseconds at most. */
void xp_check_health(struct xp_context *ctx);

/* One request: 0 or -errno; a daemon that is gone gives -EIO and marks the context. */
int xp_call(struct xp_context *ctx, struct xp_call *call);
/* With a body each way and nothing else */
int xp_request(struct xp_context *ctx, uint32_t type, const void *req, size_t req_len, void *rep,
	       size_t rep_len);
/* Maps the pieces that the reply names, in the order of their fds. */
struct xp_piece {
	const struct xr_shm_ref *ref; /* in the reply; length 0: none */
	void *ptr;		      /* out */
};
int xp_call_map(struct xp_context *ctx, struct xp_call *call, struct xp_piece *piece,
		unsigned int n);
/* DESTROY_*, DEALLOC_*, DEREG_*: a daemon that is gone has let go of the object, which is fine. */
int xp_release(struct xp_context *ctx, uint32_t type, uint32_t handle, struct xr_destroy_rep *rep);

struct ibv_context *xp_open_device(struct ibv_device *ibdev);
int xp_close_device(struct ibv_context *ibctx);
int xp_query_device(struct ibv_context *ibctx, struct ibv_device_attr *attr);
int xp_query_device_ex(struct ibv_context *ibctx, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int xp_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values);
int xp_query_port(struct ibv_context *ibctx, uint8_t port, struct ibv_port_attr *attr, size_t len);
int xp_query_port_compat(struct ibv_context *ibctx, uint8_t port,
			 struct _compat_ibv_port_attr *attr);
int xp_query_gid(struct ibv_context *ibctx, uint8_t port, int index, union ibv_gid *gid);
int xp_query_gid_ex(struct ibv_context *ibctx, uint32_t port, uint32_t index,
		    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
ssize_t xp_query_gid_table(struct ibv_context *ibctx, struct ibv_gid_entry *entries, size_t max,
			   uint32_t flags, size_t entry_size);
int xp_query_gid_type(struct ibv_context *ibctx, uint8_t port, unsigned int index, int *type);
int xp_query_pkey(struct ibv_context *ibctx, uint8_t port, int index, __be16 *pkey);
int xp_get_pkey_index(struct ibv_context *ibctx, uint8_t port, __be16 pkey);
/* The GID's index, or -errno. */
int xp_find_gid(struct xp_context *ctx, const union ibv_gid *gid);

/* ---- events (events.c) --------------------------------------------------------- */

/* A destroyed object's events that still lie in the pipe: they are dropped when met. */
struct xp_stale {
	uint64_t cookie;
	uint32_t left;
};

/* The read end of a pipe of records that begin with a cookie. The program may poll its fd. */
struct xp_pipe {
	int fd;
	size_t record;
	pthread_rwlock_t reading; /* shared: inside read(); exclusive: looking at the head */
	pthread_mutex_t lock;	  /* the list of stale events, and all `read` counts */
	struct xp_stale *stale;
	unsigned int nstale, room;
};

struct xp_pipe *xp_pipe_new(int fd, size_t record);
void xp_pipe_free(struct xp_pipe *p);
/*
 * An object goes: `written` of its events went into the pipe, *read of them came out. The
 * others will never be delivered. Afterwards *read is final.
 */
void xp_pipe_forget(struct xp_pipe *p, uint64_t cookie, uint32_t written, const uint32_t *read);

struct xp_cq;
struct xp_channel {
	struct ibv_comp_channel ibch;
	uint32_t handle;
	struct xp_pipe *pipe;
	struct xp_cq *cqs; /* under ibctx->mutex */
};

struct ibv_comp_channel *xp_create_comp_channel(struct ibv_context *ibctx);
int xp_destroy_comp_channel(struct ibv_comp_channel *ibch);
int xp_get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **ibcq, void **cq_context);
void xp_ack_cq_events(struct ibv_cq *ibcq, unsigned int n);
int xp_get_async_event(struct ibv_context *ibctx, struct ibv_async_event *event);
void xp_ack_async_event(struct ibv_async_event *event);
bool xp_is_our_event(const struct ibv_async_event *event);

/* ---- protection domains and memory (pd.c, mr.c, maps.c, adopt.c) --------------- */

struct xp_td {
	struct ibv_td ibtd;
	unsigned int refs; /* parent domains, atomic */
};

struct xp_pd {
	struct ibv_pd ibpd;
	unsigned int refs;   /* parent domains on it; of one, QPs, SRQs and CQs; atomic */
	bool abandoned;	     /* goes with the last parent domain on it */
	struct xp_pd *below; /* a parent domain's */
	struct xp_td *td;    /* a parent domain's, or NULL */
	/* a parent domain's allocators, or NULL */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

static inline struct xp_pd *xp_pd(struct ibv_pd *ibpd)
{
	return (struct xp_pd *)ibpd;
}
struct ibv_pd *xp_alloc_pd(struct ibv_context *ibctx);
int xp_dealloc_pd(struct ibv_pd *ibpd);
/* The same, without refusing: what is left on it keeps it. Not of a parent domain. */
void xp_pd_abandon(struct ibv_pd *ibpd);
struct ibv_td *xp_alloc_td(struct ibv_context *ibctx, struct ibv_td_init_attr *attr);
int xp_dealloc_td(struct ibv_td *ibtd);
struct ibv_pd *xp_alloc_parent_domain(struct ibv_context *ibctx,
				      struct ibv_parent_domain_init_attr *attr);
/* A queue is made on a domain, and goes. True: only one thread at a time will use it. */
bool xp_pd_use(struct ibv_pd *ibpd);
void xp_pd_unuse(struct ibv_pd *ibpd); /* NULL: none */
/* One protection domain, by itself or in parent domains; none (NULL) is the same as no other. */
bool xp_pd_same(const struct ibv_pd *a, const struct ibv_pd *b);
/*
 * What a queue keeps in the program's memory, zeroed: from the allocator of its parent domain, if
 * it has one. It is freed before the domain is let go of. ibpd: NULL: none.
 */
void *xp_queue_alloc(struct ibv_pd *ibpd, size_t size, enum xrocedv_resource type);
void xp_queue_free(void *memory);

/* One mapping of /proc/self/maps */
struct xp_mapping {
	uint64_t start, end;
	uint64_t offset;
	uint64_t dev, inode;
	bool readable, writable, executable, shared;
	bool anonymous; /* plain memory without a file, not a stack */
	bool shmem;	/* tmpfs, memfd, System V, hugetlbfs: others can map the same */
	bool hugetlb;
	bool adopted; /* a file of adopt.c */
};
#define XP_ADOPTED_NAME "xroce-adopted"
/* Those that overlap [start, end), in order; *count of them, free() the list. */
int xp_maps_read(uint64_t start, uint64_t end, struct xp_mapping **list, size_t *count);

/* What a registration sends: segments and the fds that they name */
struct xp_layout {
	struct xr_mr_segment *segment;
	unsigned int segments, room;
	int fds[XR_MSG_MAX_FDS - 2]; /* borrowed from the held files */
	unsigned int nfds;
};
int xp_add_segment(struct xp_layout *l, const struct xr_mr_segment *seg);

/*
 * Pages that a region holds: adopted ones, so that they stay adopted; others, so that they do not
 * become it
 */
struct xp_file;
struct xp_hold {
	uint64_t start, end;  /* whole pages */
	struct xp_file *file; /* NULL: not adopted */
	uint64_t offset;      /* of start in the file */
};
struct xp_holds {
	struct xp_hold *hold;
	unsigned int count, room;
};

/* Registering: from reading the maps until the layout is there. */
void xp_adopt_lock(void);
void xp_adopt_unlock(void);
/*
 * Under that lock. Lays out [start, end), which lies in mapping m, and adopts what can be:
 * segments and holds are added. -E2BIG: too many segments.
 */
int xp_adopt(const struct xp_context *ctx, const struct xp_mapping *m, uint64_t start, uint64_t end,
	     struct xp_layout *layout, struct xp_holds *holds);
/*
 * Under that lock, last of all: the daemon writes [start, end) by address, so no other region may
 * adopt pages of it (byway.c).
 */
int xp_adopt_never(uint64_t start, uint64_t end, struct xp_holds *holds);
/* The region goes: pages that nobody else holds become private memory again. Frees the list. */
void xp_unadopt(struct xp_holds *holds);
void xp_unadopt_locked(struct xp_holds *holds); /* under that lock */
/* fork.c: before the fork, and after it in parent and child */
void xp_adopt_before_fork(void);
void xp_adopt_in_parent(void);
void xp_adopt_in_child(void);

struct xp_mr {
	struct ibv_mr ibmr;
	int access;
	uint64_t iova;
	bool fixed;    /* no rereg_mr */
	bool imported; /* the daemon has no object for it */
	bool fast;     /* dv.c */
	struct xp_holds holds;
};

struct ibv_mr *xp_reg_mr_iova2(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			       unsigned int access);
int xp_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		int access);
int xp_dereg_mr(struct ibv_mr *ibmr);
/* The daemon has the process's files from the first region on, or from this. */
int xp_send_proc_files(struct ibv_pd *ibpd);
/* A region that is one segment of its own kind, and its fd if it has one (-1) */
struct ibv_mr *xp_reg_segment(struct ibv_pd *ibpd, const struct xr_mr_segment *seg, int fd,
			      uint64_t iova, unsigned int access);
struct ibv_mr *xp_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t off, size_t length, uint64_t iova,
				int fd, int access);
struct ibv_mr *xp_alloc_null_mr(struct ibv_pd *ibpd);
int xp_advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t n);
struct ibv_dm *xp_alloc_dm(struct ibv_context *ibctx, struct ibv_alloc_dm_attr *attr);
int xp_free_dm(struct ibv_dm *ibdm);
struct ibv_dm *xp_import_dm(struct ibv_context *ibctx, uint32_t handle);
void xp_unimport_dm(struct ibv_dm *ibdm);
struct ibv_mr *xp_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm, uint64_t off, size_t length,
			    unsigned int access);

/* ---- sharing between processes (import.c) --------------------------------------- */

/* token: what an imported context shows, or NULL */
struct ibv_context *xp_open_by_token(struct ibv_device *ibdev, const uint8_t *token);
/* The file that lets others import from a context, or -errno */
int xp_make_ticket(const struct xp_device *dev, const uint8_t *token);
bool xp_is_ticket(int fd);
/* False: no such file */
bool xp_read_token(int fd, uint8_t token[XR_TOKEN_LEN]);
struct ibv_context *xp_import_device(int fd);
struct ibv_pd *xp_import_pd(struct ibv_context *ibctx, uint32_t handle);
void xp_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *xp_import_mr(struct ibv_pd *pd, uint32_t handle);
void xp_unimport_mr(struct ibv_mr *ibmr);

/* ---- fast registration (dv.c) --------------------------------------------------- */

struct xp_fast_mr {
	struct xp_mr base; /* what ibv_dereg_mr() knows */
	uint64_t *lists;   /* shared with the daemon */
	uint32_t max_pages;
	uint32_t list;		    /* last one that was set */
	uint32_t pages, page_shift; /* of it; 0 pages: none */
	uint64_t iova;
};

static inline struct xp_fast_mr *xp_fast(struct ibv_mr *ibmr)
{
	return (struct xp_fast_mr *)ibmr;
}

/* The pages of a list of parts. To begin with: page, max and size, the rest 0. */
struct xp_pages {
	uint64_t *page;
	uint32_t pages, max;
	uint64_t size;
	uint64_t end; /* address behind the last byte that is mapped */
	uint64_t iova, length;
};

struct xrocedv_sg;
/* The longest prefix that fits, as xrocedv_map_mr_sg() has it; *off is not optional. */
int xp_lay_pages(struct xp_pages *b, const struct xrocedv_sg *sg, int nents, uint64_t *off);
/* Room for max_pages pages that no registration is reading, if one at most is under way */
uint64_t *xp_fast_next_list(struct xp_fast_mr *mr);
/* What lies in that list is for the next registration. */
void xp_fast_set(struct xp_fast_mr *mr, const struct xp_pages *b);

/* ---- memory windows (mw.c) ------------------------------------------------------ */

struct ibv_mw *xp_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type);
int xp_dealloc_mw(struct ibv_mw *ibmw);
int xp_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *ibmw, struct ibv_mw_bind *bind);

/* ---- completion queues (cq.c) -------------------------------------------------- */

struct xp_qp;
struct xp_srq;

struct xp_cq {
	union {
		struct ibv_cq ibcq;
		struct ibv_cq_ex ex; /* cq_ex.c */
	};
	struct xp_lock lock;
	struct xp_cq_ring ring;
	unsigned int idle;  /* empty polls in a row */
	bool flushing;	    /* completions are made up: the ring is not read again */
	struct xp_qp **qps; /* hash by QPN: who completes here */
	uint32_t qp_mask, nqps;
	struct xp_srq *srqs;		/* of XRC, that complete here */
	uint32_t comp_read, async_read; /* events out of the pipes, under those pipes' locks */
	struct xp_cq *next_on_channel;

	/* extended CQs: from start_poll() to end_poll() */
	struct xp_lock polling;
	struct xr_cqe current;
	struct ibv_pd *parent; /* parent domain, or NULL */
};

_Static_assert(offsetof(struct ibv_cq, async_events_completed) ==
		       offsetof(struct ibv_cq_ex, async_events_completed),
	       "an ibv_cq_ex is an ibv_cq");

static inline struct xp_cq *xp_cq(struct ibv_cq *ibcq)
{
	return (struct xp_cq *)ibcq;
}
struct ibv_cq *xp_create_cq(struct ibv_context *ibctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *ibch, int comp_vector);
/* Of attr, what ibv_create_cq() has as well. parent: domain, or NULL. flags: XR_CQF_*. NULL: errno. */
struct xp_cq *xp_cq_create(struct ibv_context *ibctx, const struct ibv_cq_init_attr_ex *attr,
			   struct ibv_pd *parent, uint32_t flags);
struct ibv_cq_ex *xp_create_cq_ex(struct ibv_context *ibctx, struct ibv_cq_init_attr_ex *attr);
int xp_resize_cq(struct ibv_cq *ibcq, int cqe);
int xp_destroy_cq(struct ibv_cq *ibcq);
int xp_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
/* A QP begins, or ends, to complete here. Ending drops what it left in the queue. */
int xp_cq_attach(struct xp_cq *cq, struct xp_qp *qp);
void xp_cq_detach(struct xp_cq *cq, struct xp_qp *qp);
/* One completion: 0, or ENOENT, or EIO. wait: an empty CQ gives its core to whom it waits for. */
int xp_cq_next(struct xp_cq *cq, struct xr_cqe *cqe, bool wait);
/* With the daemon gone: whether a poll would find anything. */
bool xp_cq_has_work(struct xp_cq *cq);
/* Drops what a QP left in the queue. */
void xp_cq_drop(struct xp_cq *cq, uint32_t qpn);
/* An SRQ of XRC begins, or ends, to complete here. Ending drops what it left in the queue. */
void xp_cq_attach_srq(struct xp_cq *cq, struct xp_srq *srq);
void xp_cq_detach_srq(struct xp_cq *cq, struct xp_srq *srq);

/* ---- shared receive queues (srq.c) --------------------------------------------- */

struct xp_srq {
	struct ibv_srq ibsrq;
	struct xp_lock lock;
	struct xp_ring ring; /* wr_id unused; tail only once flushing */
	uint32_t max_sge;
	unsigned int qps; /* that take from it, atomic */
	bool flushing;	  /* the daemon is gone: completions are made up from tail on */
	uint32_t number;  /* XRC, else 0 */
	struct xp_cq *cq; /* XRC: that it completes into */
	struct xp_srq *next_in_cq;
	uint32_t async_read; /* under the async pipe's lock */
};

static inline struct xp_srq *xp_srq(struct ibv_srq *ibsrq)
{
	return (struct xp_srq *)ibsrq;
}
struct ibv_srq *xp_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr);
struct ibv_srq *xp_create_srq_ex(struct ibv_context *ibctx, struct ibv_srq_init_attr_ex *attr);
int xp_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number);
int xp_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask);
int xp_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int xp_destroy_srq(struct ibv_srq *ibsrq);
int xp_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
/* With the daemon gone: takes the oldest entry that no QP took. */
bool xp_srq_take(struct xp_srq *srq, uint64_t *wr_id);
/* The same without taking it */
bool xp_srq_has_work(struct xp_srq *srq);

/* ---- queue pairs (qp.c, post.c) ------------------------------------------------ */

struct xp_qp {
	union {
		struct ibv_qp ibqp;
		struct ibv_qp_ex ex; /* qp_ex.c */
	};
	struct xp_lock sq_lock, rq_lock;
	struct xp_ring sq, rq;
	uint32_t max_send_sge, max_recv_sge, max_inline;
	struct xr_doorbell *doorbell;
	uint32_t slot;
	int wake;
	struct xp_qp *next_in_cq[2]; /* hash chains: send CQ, receive CQ if it is another */
	uint32_t async_read;	     /* under the async pipe's lock */

	/* extended QPs: the batch from wr_start() on, under sq_lock */
	bool extended;
	uint64_t send_ops; /* enum ibv_qp_create_send_ops_flags */
	uint32_t staged;   /* entries beyond sq.head */
	int batch_err;
	struct xr_send_wqe *wqe; /* the latest; NULL: none */
};

static inline struct xp_qp *xp_qp(struct ibv_qp *ibqp)
{
	return (struct xp_qp *)ibqp;
}
struct ibv_qp *xp_create_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr);
struct ibv_qp *xp_create_gsi_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr);
struct ibv_qp *xp_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *xp_qp_to_qp_ex(struct ibv_qp *ibqp);
int xp_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask);
int xp_modify_qp_rate_limit(struct ibv_qp *ibqp, struct ibv_qp_rate_limit_attr *attr);
int xp_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init_attr);
int xp_destroy_qp(struct ibv_qp *ibqp);
int xp_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
/* What the verb for windows of type 1 posts; a list of work requests may bind those of type 2. */
int xp_post_bind(struct ibv_qp *ibqp, struct ibv_send_wr *wr);
int xp_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
/* Tells the worker that something was posted. */
void xp_ring_bell(struct xp_qp *qp);

/* Send queue entries, as posting and the builders of extended QPs fill them */
#define XP_SEND_FLAGS (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)
static inline bool xp_can_send(enum ibv_qp_state state)
{
	return state >= IBV_QPS_RTS && state <= IBV_QPS_ERR;
}
void xp_wqe_init(struct xr_send_wqe *wqe, uint64_t wr_id, unsigned int opcode, unsigned int flags);
void xp_wqe_bind(struct xr_send_wqe *wqe, const struct ibv_mw *mw, uint32_t new_rkey,
		 const struct ibv_mw_bind_info *info);
bool xp_wqe_may_inline(const struct xr_send_wqe *wqe);
/* Appends to the inline data: 0, or EINVAL where there is no room. */
int xp_wqe_inline(const struct xp_qp *qp, struct xr_send_wqe *wqe, const void *data, size_t len);
/* EINVAL: more elements than the queue's entries have room for */
int xp_fill_recv(struct xr_recv_wqe *wqe, uint32_t max_sge, const struct ibv_recv_wr *wr);

/*
 * Sends a request for a QP, whose cookie it sets, and makes one of the answer. ibpd: NULL for a target
 * QP of XRC, which has neither CQs nor queues.
 */
struct ibv_qp *xp_qp_create(struct ibv_context *ibctx, struct ibv_pd *ibpd,
			    struct ibv_qp_init_attr *attr, uint32_t msg, void *req, size_t req_len,
			    __u64 *cookie);

/* ---- XRC (xrc.c) --------------------------------------------------------------- */

struct xp_xrcd {
	struct ibv_xrcd ibxrcd;
	uint32_t handle;
};

static inline struct xp_xrcd *xp_xrcd(struct ibv_xrcd *ibxrcd)
{
	return (struct xp_xrcd *)ibxrcd;
}
struct ibv_xrcd *xp_open_xrcd(struct ibv_context *ibctx, struct ibv_xrcd_init_attr *attr);
int xp_close_xrcd(struct ibv_xrcd *ibxrcd);
/* A target QP: a new one, and one that is there already */
struct ibv_qp *xp_create_target(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *xp_open_qp(struct ibv_context *ibctx, struct ibv_qp_open_attr *attr);

/* ---- address handles (ah.c) ---------------------------------------------------- */

void xp_ah_to_wire(struct xr_ah_attr *to, const struct ibv_ah_attr *from);
void xp_ah_from_wire(struct ibv_ah_attr *to, const struct xr_ah_attr *from);
int xp_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid);
int xp_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid);
int xp_resolve_eth_l2_from_gid(struct ibv_context *ibctx, struct ibv_ah_attr *attr, uint8_t mac[6],
			       uint16_t *vid);
struct ibv_ah *xp_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr);
struct ibv_ah *xp_create_ah_from_wc(struct ibv_pd *ibpd, struct ibv_wc *wc, struct ibv_grh *grh,
				    uint8_t port);
int xp_init_ah_from_wc(struct ibv_context *ibctx, uint8_t port, struct ibv_wc *wc,
		       struct ibv_grh *grh, struct ibv_ah_attr *attr);
int xp_destroy_ah(struct ibv_ah *ibah);

/* ---- fork (fork.c) ------------------------------------------------------------- */

void xp_fork_watch(struct xp_context *ctx);
void xp_fork_unwatch(struct xp_context *ctx);
/* For verbs on a context: the one that is this process's, which is another in a child of who opened it. */
struct ibv_context *xp_here(struct ibv_context *ibctx);

/*
 * Verbs are no cancellation points, but for those that wait for events: nobody expects a thread to end in
 * one, and it would leave locks behind. Around system calls that are such points.
 */
static inline int xp_cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void xp_cancel_restore(int before)
{
	pthread_setcancelstate(before, NULL);
}

/* A verb's failure: errno and a NULL pointer, or a positive errno */
static inline void *xp_null(int err)
{
	errno = err < 0 ? -err : err;
	return NULL;
}

#endif /* XP_PROVIDER_H */
