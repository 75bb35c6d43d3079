// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs each request, and the daemon's start, with one system or library call that fails: the first
 * one, then the second, and so on. Each time the client gets an error or the complete result, and
 * after an error the daemon has the same resources as before. The linker redirects calls of the
 * daemon's objects to the __wrap_ functions (module.mk).
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/clients/processes.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/proc.h"
#include "daemon/memory/region.h"
#include "control.h"

/* ---- calls that fail ---------------------------------------------------------------- */

/* Calls left until one fails; 0: none fails, -1: all fail. Atomic, because jobs make calls, too. */
static int countdown;
static const char *failed; /* the call that failed last */

static bool fails(const char *what)
{
	int n = __atomic_load_n(&countdown, __ATOMIC_RELAXED);

	while (n > 0 && !__atomic_compare_exchange_n(&countdown, &n, n - 1, false, __ATOMIC_RELAXED,
						     __ATOMIC_RELAXED))
		;
	if (n == 1)
		__atomic_store_n(&failed, what, __ATOMIC_RELAXED);
	return n == 1 || n < 0;
}

/* Makes the nth call from now on fail. */
static void arm(int n)
{
	failed = NULL;
	__atomic_store_n(&countdown, n, __ATOMIC_RELAXED);
}

static void disarm(void)
{
	__atomic_store_n(&countdown, 0, __ATOMIC_RELAXED);
}

#define WRAP(type, name, params, args, result, error)                                              \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		if (!fails(#name))                                                                 \
			return __real_##name args;                                                 \
		errno = error;                                                                     \
		return result;                                                                     \
	}

WRAP(void *, malloc, (size_t n), (n), NULL, ENOMEM)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), NULL, ENOMEM)
WRAP(void *, realloc, (void *p, size_t n), (p, n), NULL, ENOMEM)
WRAP(void *, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t off),
     (p, n, prot, flags, fd, off), MAP_FAILED, ENOMEM)
WRAP(int, eventfd, (unsigned int n, int flags), (n, flags), -1, EMFILE)
WRAP(int, memfd_create, (const char *name, unsigned int flags), (name, flags), -1, EMFILE)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), -1, ENOSPC)
WRAP(int, socketpair, (int domain, int type, int proto, int fd[2]), (domain, type, proto, fd), -1,
     EMFILE)
WRAP(int, socket, (int domain, int type, int proto), (domain, type, proto), -1, EMFILE)
WRAP(int, shutdown, (int fd, int how), (fd, how), -1, ENOBUFS)
WRAP(FILE *, open_memstream, (char **p, size_t *n), (p, n), NULL, ENOMEM)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
WRAP(ssize_t, getrandom, (void *p, size_t n, unsigned int flags), (p, n, flags), -1, EINTR)
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t off), (fd, p, n, off), -1, ENOSPC)
WRAP(ssize_t, pread, (int fd, void *p, size_t n, off_t off), (fd, p, n, off), -1, EIO)
WRAP(int, pthread_create,
     (pthread_t * t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (t, attr, fn, arg), EAGAIN, 0)

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev);
/* Only EPOLL_CTL_ADD needs memory. */
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev)
{
	if (op != EPOLL_CTL_ADD || !fails("epoll_ctl"))
		return __real_epoll_ctl(epoll, op, fd, ev);
	errno = ENOSPC;
	return -1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	if (!fails("open"))
		return __real_open(path, flags, 0600);
	errno = EMFILE;
	return -1;
}

/* ---- resources of the daemon -------------------------------------------------- */

struct holdings {
	uint32_t objects[XD_KINDS], fds, pd_ids, xrc_domains, groups;
	uint32_t map_keys, map_qps, map_groups, doorbells;
	uint64_t bytes, dm_bytes, mapped;
};

/* Returns the number of processes, after those that were killed have ended. */
static uint32_t processes_of(const struct conn *c)
{
	uint32_t now = !!c->client->connection.gate.watch + c->client->objects->memory.procs.used;

	for (int i = 0; i < 10000 && c->client->user->processes != now; i++)
		usleep(1000), settle();
	MUST(c->client->user->processes == now);
	return now;
}

static struct holdings holdings(const struct conn *c)
{
	const struct xd_objects *o = &fake.server->objects;
	const struct xd_clients *cs = &o->clients;
	uint32_t movers = c->client->objects->memory.procs.used;
	uint32_t processes = processes_of(c);
	struct xd_mem_totals totals;
	struct holdings h;

	memset(&h, 0, sizeof(h));
	memcpy(h.objects, cs->kinds.objects, sizeof(h.objects));
	xd_mem_totals(&totals);
	/*
	 * The client keeps the address space of a request that fails later, and pays for it, as for
	 * its gate.
	 */
	h.fds = cs->limits.fds.used - c->client->objects->memory.procs.used * XD_PROC_FDS -
		processes * XD_PROCESS_FDS;
	h.pd_ids = o->pd_ids.used;
	h.xrc_domains = o->xrc_domains.used;
	h.groups = o->mcast.count;
	h.map_keys = fake.map_keys;
	h.map_qps = fake.map_qps;
	h.map_groups = fake.map_groups;
	h.doorbells = fake.doorbells;
	h.bytes = c->client->user->bytes.pinned + c->client->user->bytes.memory -
		  c->client->charged - processes * XD_PROCESS_BYTES -
		  movers * xd_movers_bytes(fake.dev.movers);
	h.dm_bytes = c->client->objects->dm_bytes;
	h.mapped = totals.mapped;
	return h;
}

/* ---- requests ------------------------------------------------------------------------ */

/* The client and the handles of its objects */
static struct conn c;
static uint32_t pd, channel, cq, qp, ud, srq, xrcd, xrc_srq, target, dm, mr, mw, fast, integrity,
	ah;
static uint8_t *memory, *shared;
static int file;

static uint32_t word(uint32_t at)
{
	uint32_t value;

	memcpy(&value, c.body + at, sizeof(value));
	return value;
}

/* Returns a word of the reply, which begins with the handle. */
static int keep(int err, uint32_t *handle)
{
	if (!err)
		*handle = word(0);
	return err;
}

#define MADE(handle, TYPE, ...)                                                                    \
	({                                                                                         \
		__VA_ARGS__;                                                                       \
		keep(ask(&c, XR_MSG_##TYPE, &q, sizeof(q)), &(handle));                            \
	})

static int do_hello(void)
{
	int err = hello(&c, 0);

	if (!err) {
		events_fd = c.fds[0];
		c.fds[0] = c.fds[--c.nfds];
	}
	return err;
}

static int do_pd(void)
{
	return keep(ask(&c, XR_MSG_ALLOC_PD, NULL, 0), &pd);
}

static int do_channel(void)
{
	return keep(ask(&c, XR_MSG_CREATE_CHANNEL, NULL, 0), &channel);
}

static int do_cq(void)
{
	return MADE(cq, CREATE_CQ, struct xr_create_cq_req q = { .depth = 16, .channel = channel });
}

/* Larger than the rest of the chunk, so that a new chunk is needed */
static int do_resize_cq(void)
{
	struct xr_resize_cq_req q = { cq, 65536 };

	return ask(&c, XR_MSG_RESIZE_CQ, &q, sizeof(q));
}

static int do_srq(void)
{
	return MADE(srq, CREATE_SRQ, struct xr_create_srq_req q = { .pd = pd, .max_wr = 10 });
}

static int do_resize_srq(void)
{
	struct xr_modify_srq_req q = { .handle = srq, .mask = IBV_SRQ_MAX_WR, .max_wr = XR_MAX_WR };

	return ask(&c, XR_MSG_MODIFY_SRQ, &q, sizeof(q));
}

static int do_qp(void)
{
	return MADE(qp, CREATE_QP, struct xr_create_qp_req q = qp_request(pd, cq));
}

static int do_ud(void)
{
	return MADE(ud, CREATE_QP, struct xr_create_qp_req q = qp_request(pd, cq);
		    q.type = XR_QPT_UD, q.srq = srq);
}

static int do_init(void)
{
	return to_init(&c, qp);
}

static int do_rtr(void)
{
	return to_rtr(&c, qp, rtr_attr());
}

static int do_ah(void)
{
	return keep(create_ah(&c, pd, 0), &ah);
}

static int do_resolve(void)
{
	struct xr_resolve_ah_req q = { .attr = rtr_attr().ah };

	return ask(&c, XR_MSG_RESOLVE_AH, &q, sizeof(q));
}

static int do_attach(void)
{
	return mcast(&c, XR_MSG_ATTACH_MCAST, ud, 7);
}

static int do_xrcd(void)
{
	struct xr_open_xrcd_req q = { .flags = XR_XRCDF_CREAT | XR_XRCDF_FD };

	return keep(ask_fds(&c, XR_MSG_OPEN_XRCD, &q, sizeof(q), &file, 1), &xrcd);
}

static int do_xrcd_alone(void)
{
	return open_xrcd(&c, NULL, 0);
}

static int do_xrc_srq(void)
{
	return MADE(
		xrc_srq, CREATE_SRQ,
		struct xr_create_srq_req q = { .pd = pd, .max_wr = 10, .xrcd = xrcd, .cq = cq });
}

static int do_target(void)
{
	return MADE(target, CREATE_QP,
		    struct xr_create_qp_req q = { .type = XR_QPT_XRC_RECV, .xrcd = xrcd });
}

static int do_open_qp(void)
{
	struct xd_qp *t = xd_object_get(c.client, XD_QP, target);
	struct xr_open_qp_req q = { .xrcd = xrcd, .qpn = t->qpn };

	return ask(&c, XR_MSG_OPEN_QP, &q, sizeof(q));
}

static int do_dm(void)
{
	return MADE(dm, ALLOC_DM, struct xr_alloc_dm_req q = { .length = 5000 });
}

static int do_reg(uint32_t kind, const void *at, const int *fd)
{
	struct reg r = reg_of(pd, at, PAGE, RW);

	add_segment(&r, kind, at, PAGE);
	r.segment[0].map_start = (uintptr_t)at;
	r.segment[0].map_end = (uintptr_t)at + PAGE;
	if (kind == XR_SEG_DM)
		r.segment[0].fd_index = dm;
	return keep(send_reg(&c, &r, fd, fd ? 1 : 0), &mr);
}

/* Sends the descriptors of the address space, too; later ones may be sent again. */
static int do_reg_private(void)
{
	int err;

	proc_sent = false;
	err = do_reg(XR_SEG_PRIVATE, memory, NULL);
	proc_sent = true;
	return err;
}

static int do_reg_file(void)
{
	return do_reg(XR_SEG_FD, memory, &file);
}

static int do_reg_mapping(void)
{
	return do_reg(XR_SEG_MAPPING, shared, NULL);
}

static int do_reg_dm(void)
{
	return do_reg(XR_SEG_DM, NULL, NULL);
}

static int do_reg_demand(void)
{
	struct reg r = reg_of(pd, memory, PAGE, RW | XR_ACCESS_ON_DEMAND);

	return keep(send_reg(&c, &r, NULL, 0), &mr);
}

static int do_advise(void)
{
	struct xr_advise_mr_req *q;
	uint8_t data[sizeof(*q) + sizeof(q->range[0])] __attribute__((aligned(8))) = { 0 };

	q = (void *)data;
	q->pd = pd;
	q->ranges = 1;
	q->range[0] = (struct xr_sge){ .addr = (uintptr_t)memory, .length = 1, .lkey = word(4) };
	return ask(&c, XR_MSG_ADVISE_MR, data, sizeof(data));
}

static int do_rereg(void)
{
	struct reg r = reg_of(pd, memory, 64, RW);

	add_segment(&r, XR_SEG_PRIVATE, memory, 64);
	return rereg(&c, mr, IBV_REREG_MR_CHANGE_TRANSLATION, &r);
}

static int do_mw(void)
{
	return MADE(mw, ALLOC_MW, struct xr_alloc_mw_req q = { pd, IBV_MW_TYPE_2 });
}

static int do_fast(void)
{
	return MADE(fast, ALLOC_FAST_MR, struct xr_alloc_fast_mr_req q = { pd, 600 });
}

static int do_integrity(void)
{
	return MADE(integrity, ALLOC_INTEGRITY_MR,
		    struct xr_alloc_integrity_mr_req q = { pd, 300 });
}

static int do_lkey(void)
{
	return ask(&c, XR_MSG_RESERVED_LKEY, NULL, 0);
}

static int do_status(void)
{
	struct xr_show_req q = { .what = XR_SHOW_STATUS };

	return ask(&c, XR_MSG_SHOW, &q, sizeof(q));
}

static int do_objects(void)
{
	struct xr_show_req q = { .what = XR_SHOW_QPS };

	return ask(&c, XR_MSG_SHOW, &q, sizeof(q));
}

#define END(name, TYPE, handle)                                                                    \
	static int end_##name(void)                                                                \
	{                                                                                          \
		return ask_handle(&c, XR_MSG_##TYPE, handle);                                      \
	}
END(fast, DEREG_MR, fast)
END(integrity, DEREG_MR, integrity)
END(mr, DEREG_MR, mr)
END(mw, DEALLOC_MW, mw)
END(ah, DESTROY_AH, ah)
END(qp, DESTROY_QP, qp)
END(target, DESTROY_QP, target)
END(xrc_srq, DESTROY_SRQ, xrc_srq)

static int do_detach(void)
{
	return mcast(&c, XR_MSG_DETACH_MCAST, ud, 7);
}

#define STEP(name)                                                                                 \
	{                                                                                          \
#name, do_##name, false                                                            \
	}
#define ONCE(name)                                                                                 \
	{                                                                                          \
#name, do_##name, true                                                             \
	}
#define LAST(name)                                                                                 \
	{                                                                                          \
		"end of " #name, end_##name, true                                                  \
	}
static const struct step {
	const char *name;
	int (*run)(void);
	bool once; /* run only until it succeeds once */
} steps[] = {
	ONCE(hello),	   STEP(pd),	     STEP(channel),  STEP(cq),		STEP(resize_cq),
	STEP(srq),	   STEP(resize_srq), STEP(qp),	     STEP(ud),		ONCE(init),
	ONCE(rtr),	   STEP(ah),	     STEP(resolve),  STEP(attach),	STEP(xrcd),
	STEP(xrcd_alone),  STEP(xrc_srq),    STEP(target),   STEP(open_qp),	STEP(dm),
	STEP(reg_private), STEP(rereg),	     STEP(reg_file), STEP(reg_mapping), STEP(reg_dm),
	STEP(reg_demand),  STEP(advise),     STEP(mw),	     STEP(fast),	STEP(integrity),
	STEP(lkey),	   STEP(status),     STEP(objects),  LAST(integrity),	LAST(fast),
	LAST(mr),	   LAST(mw),	     LAST(ah),	     LAST(qp),		LAST(target),
	LAST(xrc_srq),	   ONCE(detach),
};

/* Runs a step with its nth call failing. Returns true if the step makes fewer calls. */
static bool try_step(const struct step *step, int n, bool *sound)
{
	struct holdings before = holdings(&c), after;
	int err;

	arm(n);
	err = step->run();
	disarm();
	settle();
	if (!err)
		return step->once || !failed;
	after = holdings(&c);
	if (err > 0 || err == -EPIPE || err == -EINVAL || memcmp(&before, &after, sizeof(before))) {
		printf("# %s, call %d (%s) fails: status %d, %s\n", step->name, n,
		       failed ? failed : "none", err,
		       memcmp(&before, &after, sizeof(before)) ? "resources are left"
							       : "the result cannot be used");
		*sound = false;
	}
	return !failed;
}

static void test_requests(void)
{
	int before, n;
	unsigned int i;
	bool sound;

	memory = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	shared = pages(1, PROT_READ | PROT_WRITE, MAP_SHARED);
	file = memfd(PAGE, F_SEAL_SHRINK);
	before = open_fds();
	connect_client(&c);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		sound = true;
		for (n = 1; n < 100 && !try_step(&steps[i], n, &sound); n++)
			;
		TAP_OK(sound && n < 100, "%s: %d calls that may fail", steps[i].name, n - 1);
	}
	close_client(&c);
	TAP_OK(nothing_left() && open_fds() == before, "nothing is left");
}

/* ---- start and end ------------------------------------------------------------ */

static void test_connections(void)
{
	int before = open_fds(), pair[2], n = 0;

	do {
		MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
		arm(++n);
		xd_client_new(fake_clients(), pair[0], fake_ticket(pair[0]));
		disarm();
		close(pair[1]);
		settle();
	} while (failed);
	TAP_OK(nothing_left() && open_fds() == before, "a connection: %d calls that may fail",
	       n - 1);
}

static void test_end_of_client(void)
{
	int before = open_fds();
	unsigned int i;

	connect_client(&c);
	/* steps that destroy objects come last */
	for (i = 0; steps[i].run != end_integrity; i++)
		MUST(!steps[i].run());
	arm(-1);
	close_client(&c);
	disarm();
	TAP_OK(nothing_left() && open_fds() == before, "a client ends while all calls fail");
}

static void test_start(void)
{
	int before, n = 0;
	bool clean = true;

	fake_server_stop();
	before = open_fds();
	do {
		arm(++n);
		xd_server_open(&fake.dev, &fake.server);
		disarm();
		fake_server_stop();
		clean &= !fake.server && open_fds() == before;
	} while (failed);
	TAP_OK(clean, "the server's start: %d calls that may fail", n - 1);
}

int main(void)
{
	start_server("scarcity");
	test_requests();
	test_connections();
	test_end_of_client();
	test_start();
	return tap_end();
}
