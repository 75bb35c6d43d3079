// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/spawner.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/mover_area.h"
#include "daemon/memory/region.h"

#include "../lib/fds.h"

static struct xd_timer *stopper;

static void collect_memory(void);

static void stop_loop(void *arg)
{
	xd_loop_stop(fake.dev.loop);
}

bool job_hangs;

/* Returns true while a gate receives a request. */
static bool gates_take(void)
{
	for (const struct xd_client *c = fake_clients()->first; c; c = c->next)
		if (c->connection.gate.taking)
			return true;
	return false;
}

/* Runs the loop until all jobs and events are done. */
void settle(void)
{
	for (int i = 0; i < 3; i++) {
		collect_memory();
		MUST(job_hangs || xd_jobs_drain(fake_clients()->jobs, 10));
		do {
			xd_timer_arm(stopper, job_hangs || gates_take() ? 20000000 : 0);
			MUST(!xd_loop_run(fake.dev.loop));
		} while (!job_hangs && gates_take());
	}
}

/* ---- a client --------------------------------------------------------------------------- */

void connect_client(struct conn *c)
{
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	*c = (struct conn){ .client = xd_client_new(fake_clients(), pair[0], fake_ticket(pair[0])),
			    .fd = pair[1] };
	MUST(c->client);
}

static void close_fds(struct conn *c)
{
	while (c->nfds)
		close(c->fds[--c->nfds]);
}

void disconnect(struct conn *c)
{
	close_fds(c);
	close(c->fd);
	settle();
}

void send_raw(struct conn *c, const void *data, size_t len, const int *fds, uint32_t nfds)
{
	char control[CMSG_SPACE(253 * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	attach_fds(&msg, control, fds, nfds);
	MUST(sendmsg(c->fd, &msg, MSG_NOSIGNAL) == (ssize_t)len);
}

/* Returns the status of the reply; 1: no reply yet; -EPIPE: the daemon closed the connection. */
int read_reply(struct conn *c)
{
	char control[CMSG_SPACE(64 * sizeof(int))];
	struct xr_msg head = { 0 };
	struct iovec iov[2] = { { &head, sizeof(head) }, { c->body, sizeof(c->body) } };
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	close_fds(c);
	n = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && errno == EAGAIN)
		return 1;
	if (n <= 0)
		return -EPIPE;
	c->nfds = received_fds(&msg, c->fds);
	c->length = head.length;
	MUST(n == (ssize_t)(sizeof(head) + head.length) && head.seq == c->seq);
	return head.status;
}

bool reason_has(const struct conn *c, const char *text)
{
	return memmem(c->body, c->length, text, strlen(text));
}

int ask_fds(struct conn *c, uint32_t type, const void *body, size_t len, const int *fds,
	    uint32_t nfds)
{
	static uint8_t data[XR_MSG_MAX];
	struct xr_msg head = { .type = type, .seq = ++c->seq, .length = (uint32_t)len };

	memcpy(data, &head, sizeof(head));
	if (len)
		memcpy(data + sizeof(head), body, len);
	send_raw(c, data, sizeof(head) + len, fds, nfds);
	settle();
	return read_reply(c);
}

int ask(struct conn *c, uint32_t type, const void *body, size_t len)
{
	return ask_fds(c, type, body, len, NULL, 0);
}

int ask_now(struct conn *c, uint32_t type, const void *body, size_t len)
{
	struct xr_msg head = { .type = type, .seq = ++c->seq, .length = (uint32_t)len };
	uint8_t data[512];

	memcpy(data, &head, sizeof(head));
	memcpy(data + sizeof(head), body, len);
	xd_client_feed(c->client, data, sizeof(head) + len, NULL, 0);
	return read_reply(c);
}

int ask_handle(struct conn *c, uint32_t type, uint32_t handle)
{
	struct xr_handle_req q = { .handle = handle };

	return ask(c, type, &q, sizeof(q));
}

uint32_t handle_of(struct conn *c)
{
	return ((struct xr_handle_rep *)c->body)->handle;
}

int hello(struct conn *c, uint32_t flags)
{
	struct xr_hello_req q = { .version = XR_PROTOCOL_VERSION, .flags = flags };

	return ask(c, XR_MSG_HELLO, &q, sizeof(q));
}

int events_fd;
void open_client(struct conn *c)
{
	connect_client(c);
	MUST(!hello(c, 0));
	events_fd = c->fds[0];
	c->fds[0] = c->fds[--c->nfds];
}

void close_client(struct conn *c)
{
	close(events_fd);
	disconnect(c);
}

int open_fds(void)
{
	int n = 0, fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Waits until the processes of clients that ended have ended, too. */
static bool processes_end(const struct xd_clients *cs)
{
	const uint64_t until = xd_now() + 10000000000ull;
	const struct xd_user *u = cs->limits.users;

	while (u && xd_now() < until) {
		if (!u->processes) {
			u = u->next;
			continue;
		}
		usleep(1000);
		settle();
		u = cs->limits.users;
	}
	return !u;
}

/* Users without clients may stay for a while: they still have a bucket. */
static bool users_left(const struct xd_clients *cs)
{
	const struct xd_user *u = cs->limits.users;

	while (u && !u->clients)
		u = u->next;
	return u;
}

static uint32_t gids_held(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < FAKE_GIDS; i++)
		n += fake.gid_holds[i];
	return n;
}

bool nothing_left(void)
{
	const struct xd_objects *o = &fake.server->objects;
	const struct xd_clients *cs = &o->clients;
	struct xd_mem_totals totals;
	unsigned int objects = 0, i;

	for (i = 0; i < XR_CLAIMS; i++)
		objects += cs->kinds.objects[i] + cs->kinds.claims[i];
	xd_mem_totals(&totals);
	return processes_end(cs) && !cs->first && !cs->count && !users_left(cs) &&
	       !cs->limits.fds.used && !objects && !fake.map_keys && !fake.map_qps &&
	       !fake.map_groups && !o->mcast.first && !fake.doorbells && !fake.captures &&
	       !fake.refused && !totals.mapped && !totals.pinned && !o->pd_ids.used && !gids_held();
}

uint32_t alloc_pd(struct conn *c)
{
	MUST(!ask(c, XR_MSG_ALLOC_PD, NULL, 0));
	return handle_of(c);
}

uint32_t create_channel(struct conn *c, int *fd)
{
	MUST(!ask(c, XR_MSG_CREATE_CHANNEL, NULL, 0) && c->nfds == 1);
	*fd = c->fds[0];
	c->nfds = 0;
	return handle_of(c);
}

uint32_t create_cq(struct conn *c, uint32_t depth, uint32_t channel)
{
	struct xr_create_cq_req q = { .depth = depth, .channel = channel, .cookie = 0xc0 };

	MUST(!ask(c, XR_MSG_CREATE_CQ, &q, sizeof(q)));
	return ((struct xr_create_cq_rep *)c->body)->handle;
}

struct xr_create_qp_req qp_request(uint32_t pd, uint32_t cq)
{
	return (struct xr_create_qp_req){
		.type = XR_QPT_RC,
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.max_send_wr = 10,
		.max_recv_wr = 10,
		.max_send_sge = 2,
		.max_recv_sge = 2,
		.cookie = 0xcafe,
	};
}

uint32_t create_qp(struct conn *c, uint32_t pd, uint32_t cq)
{
	struct xr_create_qp_req q = qp_request(pd, cq);

	MUST(!ask(c, XR_MSG_CREATE_QP, &q, sizeof(q)));
	return ((struct xr_create_qp_rep *)c->body)->handle;
}

uint32_t create_srq(struct conn *c, uint32_t pd, uint32_t max_wr)
{
	struct xr_create_srq_req q = { .pd = pd, .max_wr = max_wr, .max_sge = 2, .cookie = 0x50 };

	MUST(!ask(c, XR_MSG_CREATE_SRQ, &q, sizeof(q)));
	return ((struct xr_create_srq_rep *)c->body)->handle;
}

int mcast(struct conn *c, uint32_t type, uint32_t qp, uint8_t group)
{
	struct xr_mcast_req q = { .qp = qp, .gid.raw = { 0xff, 0x0e, [15] = group } };

	return ask(c, type, &q, sizeof(q));
}

uint32_t create_datagram_qp(struct conn *c)
{
	struct xr_create_qp_req q = qp_request(alloc_pd(c), create_cq(c, 16, 0));

	q.type = XR_QPT_UD;
	MUST(!ask(c, XR_MSG_CREATE_QP, &q, sizeof(q)));
	return ((struct xr_create_qp_rep *)c->body)->handle;
}

int open_xrcd(struct conn *c, const char *file, uint32_t flags)
{
	struct xr_open_xrcd_req q = { .flags = flags | (file ? XR_XRCDF_FD : 0) };
	int fd = file ? open(file, O_RDONLY) : -1, err;

	err = ask_fds(c, XR_MSG_OPEN_XRCD, &q, sizeof(q), &fd, file ? 1 : 0);
	if (fd >= 0)
		close(fd);
	return err;
}

int create_ah(struct conn *c, uint32_t pd, uint32_t sgid_index)
{
	struct xr_create_ah_req q = { .pd = pd, .attr = rtr_attr().ah };

	q.attr.sgid_index = sgid_index;
	return ask(c, XR_MSG_CREATE_AH, &q, sizeof(q));
}

/* ---- QP states -------------------------------------------------------------------------- */

int modify(struct conn *c, uint32_t qp, uint32_t state, struct xr_qp_attr attr, uint32_t mask)
{
	struct xr_modify_qp_req q = { .handle = qp,
				      .attr_mask = mask | IBV_QP_STATE,
				      .attr = attr };

	q.attr.qp_state = state;
	return ask(c, XR_MSG_MODIFY_QP, &q, sizeof(q));
}

int to_init(struct conn *c, uint32_t qp)
{
	return modify(c, qp, XR_QPS_INIT, (struct xr_qp_attr){ .port_num = 1 },
		      IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

struct xr_qp_attr rtr_attr(void)
{
	return (struct xr_qp_attr){
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 77,
		.max_dest_rd_atomic = 1,
		.ah = { .dgid.raw = { 0xfd, [15] = 99 }, .is_global = 1, .port_num = 1 },
	};
}

int to_rtr(struct conn *c, uint32_t qp, struct xr_qp_attr attr)
{
	return modify(c, qp, XR_QPS_RTR, attr,
		      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_rts(struct conn *c, uint32_t qp)
{
	return modify(c, qp, XR_QPS_RTS, (struct xr_qp_attr){ .timeout = 14, .retry_cnt = 7 },
		      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			      IBV_QP_MAX_QP_RD_ATOMIC);
}

uint32_t state_of(struct conn *c, uint32_t qp)
{
	MUST(!ask_handle(c, XR_MSG_QUERY_QP, qp));
	return ((struct xr_query_qp_rep *)c->body)->attr.qp_state;
}

/* ---- regions ----------------------------------------------------------------------------- */

int proc_fd[2];
bool proc_sent = true;

struct reg reg_of(uint32_t pd, const void *addr, size_t length, uint32_t access)
{
	return (struct reg){ .q = {
				     .pd = pd,
				     .access = access,
				     .addr = (uintptr_t)addr,
				     .length = length,
				     .iova = (uintptr_t)addr,
			     } };
}

void add_segment(struct reg *r, uint32_t kind, const void *addr, size_t length)
{
	r->segment[r->q.segments++] = (struct xr_mr_segment){
		.kind = kind,
		.addr = (uintptr_t)addr,
		.length = length,
	};
}

int send_reg(struct conn *c, const struct reg *r, const int *fds, uint32_t nfds)
{
	uint8_t data[sizeof(*r)];
	int all[64];
	struct xr_reg_mr_req q = r->q;
	size_t list = q.segments * sizeof(r->segment[0]);

	if (nfds)
		memcpy(all, fds, nfds * sizeof(*fds));
	if (!proc_sent) {
		memcpy(all + nfds, proc_fd, sizeof(proc_fd));
		nfds += 2;
		q.flags |= XR_REGF_PROC_FDS;
	}
	memcpy(data, &q, sizeof(q));
	memcpy(data + sizeof(q), r->segment, list);
	return ask_fds(c, XR_MSG_REG_MR, data, sizeof(q) + list, all, nfds);
}

int reg_private(struct conn *c, uint32_t pd, const void *addr, size_t length, uint32_t access)
{
	struct reg r = reg_of(pd, addr, length, access);

	if (length)
		add_segment(&r, XR_SEG_PRIVATE, addr, length);
	return send_reg(c, &r, NULL, 0);
}

void *pages(size_t n, int prot, int flags)
{
	void *p = mmap(NULL, n * PAGE, prot, flags | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

void start_server(const char *name)
{
	signal(SIGPIPE, SIG_IGN);
	xd_log_init(name, XD_ERR);
	start_movers();
	fake_device_start();
	MUST(!xd_server_open(&fake.dev, &fake.server));
	stopper = xd_timer_new(fake.dev.loop, stop_loop, NULL);
	proc_fd[0] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	proc_fd[1] = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	MUST(stopper && proc_fd[0] >= 0 && proc_fd[1] >= 0);
}

/* ---- memory behind movers ----------------------------------------------------------------- */

static struct xd_spawner *spawner;
static int wake_fd = -1;

/* The worker of the fake device, which has no steps that wait */
void __wrap_xt_mem_io_done(struct xt_engine *e, struct xt_mem_io *io, int err);
void __wrap_xt_mem_io_done(struct xt_engine *e, struct xt_mem_io *io, int err)
{
	io->done = true;
	io->err = err;
}

static void collect_memory(void)
{
	uint64_t next;

	if (fake.dev.movers)
		xd_movers_collect(fake.dev.movers, 0, xd_now(), &next);
}

static const struct xd_spawned_kind kinds[XD_SPAWN_KINDS] = {
	[XD_SPAWN_MOVER] = { "xroced-mover", xd_mover_main },
	[XD_SPAWN_GATE] = { "xroced-gate", xd_gate_main },
};

void start_movers(void)
{
	struct xd_mover_worker w = { .engine_ctx = &fake.dev };

	if (fake.dev.movers) {
		collect_memory();
		xd_movers_free(fake.dev.movers);
		xd_spawner_stop(spawner);
		close(wake_fd);
	}
	w.wake_fd = wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	MUST(wake_fd >= 0 && !xd_spawner_start(kinds, &spawner));
	fake.dev.movers = xd_movers_new(spawner, 1);
	MUST(fake.dev.movers);
	fake.dev.spawner = spawner;
	xd_movers_set_worker(fake.dev.movers, 0, &w);
}

static int access_private(const struct xt_mem_io *what, void *data)
{
	struct xt_mem *mem = what->mem;
	struct xt_mem_pool *pool;
	struct xt_mem_io *io = mem->ops->io_new(mem, &fake.dev, what->len, &pool);
	int err;

	if (!io)
		return -EFAULT;
	io->op = what->op;
	io->mem = mem;
	io->seg = what->seg;
	io->off = what->off;
	if (io->op == XT_MEM_WRITE)
		memcpy(io->data, data, io->len);
	mem->ops->io_submit(io);
	while (!io->done)
		collect_memory();
	err = io->err;
	if (!err && io->op == XT_MEM_READ)
		memcpy(data, io->data, io->len);
	mem->ops->io_free(io);
	collect_memory();
	return err;
}

/* One segment after the other; those that are mapped as the engine does. */
int access_mem(struct xt_mem *mem, uint64_t off, void *data, size_t len, bool write)
{
	struct xt_mem_io what = { .mem = mem, .op = write ? XT_MEM_WRITE : XT_MEM_READ };
	int err = 0;

	for (uint32_t i = 0; i < mem->nseg && len && !err; i++) {
		const struct xt_mem_seg *seg = &mem->seg[i];
		size_t n = seg->len - (off - seg->off);

		if (off < seg->off || off - seg->off >= seg->len)
			continue;
		n = n < len ? n : len;
		what.seg = seg;
		what.off = off - seg->off;
		what.len = (uint32_t)n;
		if (write && !seg->writable)
			err = -EACCES;
		else if (!seg->ptr && mem->ops->io_new)
			err = access_private(&what, data);
		else
			err = write ? xt_mem_write(NULL, mem, off, data, n)
				    : xt_mem_read(NULL, mem, off, data, n);
		off += n;
		data = (uint8_t *)data + n;
		len -= n;
	}
	return err ? err : len ? -EFAULT : 0;
}

static struct xr_key_use use_of(struct conn *c, uint32_t pd, uint32_t key, const void *at,
				size_t len)
{
	const struct xd_pd *object = xd_object_get(c->client, XD_PD, pd);

	return (struct xr_key_use){
		.key = key,
		.pd = object->id->number,
		.qpn = 2,
		.va = (uintptr_t)at,
		.len = len,
	};
}

static int use_key(const struct xr_key_use *use, void *data)
{
	struct xt_mem *mem;
	uint64_t off;

	if (xt_keys_check(fake.dev.shared.keys, use, &mem, &off) != XR_OK)
		return -EACCES;
	if (!mem)
		return 0;
	return access_mem(mem, off, data, use->len, use->access & XR_ACCESS_REMOTE_WRITE);
}

int read_key(struct conn *c, uint32_t pd, uint32_t key, const void *at, size_t len, void *data)
{
	struct xr_key_use use = use_of(c, pd, key, at, len);

	return use_key(&use, data);
}

int remote_read_key(struct conn *c, uint32_t pd, uint32_t key, const void *at, size_t len,
		    void *data)
{
	struct xr_key_use use = use_of(c, pd, key, at, len);

	use.access = XR_ACCESS_REMOTE_READ;
	return use_key(&use, data);
}

int remote_write_key(struct conn *c, uint32_t pd, uint32_t key, const void *at, size_t len,
		     void *data)
{
	struct xr_key_use use = use_of(c, pd, key, at, len);

	use.access = XR_ACCESS_REMOTE_WRITE;
	return use_key(&use, data);
}

struct xr_reg_mr_rep mr_of(struct conn *c)
{
	return *(struct xr_reg_mr_rep *)c->body;
}

struct xd_mr *the_mr(struct conn *c)
{
	return xd_object_get(c->client, XD_MR, mr_of(c).handle);
}

int rereg(struct conn *c, uint32_t handle, uint32_t flags, struct reg *r)
{
	uint8_t data[8 + sizeof(*r)];
	uint32_t front[2] = { handle, flags };
	size_t list = r->q.segments * sizeof(r->segment[0]);

	memcpy(data, front, 8);
	memcpy(data + 8, &r->q, sizeof(r->q));
	memcpy(data + 8 + sizeof(r->q), r->segment, list);
	return ask(c, XR_MSG_REREG_MR, data, 8 + sizeof(r->q) + list);
}

int memfd(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && !ftruncate(fd, (off_t)size));
	if (seals)
		MUST(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}
