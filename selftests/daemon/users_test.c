// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Limits of users: one user cannot take everything, operators always get in, and a program learns
 * which limit it reached. The linker redirects xd_identity_open() to this file (module.mk), so that
 * clients can belong to any user.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "control.h"
#include "daemon/clients/processes.h"
#include "daemon/memory/mover.h"
#include "daemon/memory/proc.h"
#include "daemon/transport/engine.h"

#define ALICE 1001
#define BOB 1002
#define ROOT 0

static uid_t next_uid; /* of the next client */

void __real_xd_identity_open(struct xd_identity *id, int fd);
void __wrap_xd_identity_open(struct xd_identity *id, int fd);
void __wrap_xd_identity_open(struct xd_identity *id, int fd)
{
	__real_xd_identity_open(id, fd);
	id->uid = next_uid;
	id->is_operator = next_uid == ROOT;
}

static void open_as(struct conn *c, uid_t uid)
{
	next_uid = uid;
	open_client(c);
	close(events_fd);
}

/* Returns true if the last reply, of an error, has this text. */
static bool explained(const struct conn *c, const char *text)
{
	return c->length == strlen(text) && !memcmp(c->body, text, c->length);
}

/* ---- objects ----------------------------------------------------------------------- */

static uint32_t pd, cq; /* of the client that creates objects */

static int make_pd(struct conn *c)
{
	return ask(c, XR_MSG_ALLOC_PD, NULL, 0);
}

static int make_cq(struct conn *c)
{
	struct xr_create_cq_req q = { .depth = 16 };

	return ask(c, XR_MSG_CREATE_CQ, &q, sizeof(q));
}

static int make_channel(struct conn *c)
{
	return ask(c, XR_MSG_CREATE_CHANNEL, NULL, 0);
}

static int make_qp(struct conn *c)
{
	struct xr_create_qp_req q = qp_request(pd, cq);

	return ask(c, XR_MSG_CREATE_QP, &q, sizeof(q));
}

static int make_mr(struct conn *c)
{
	struct xr_alloc_fast_mr_req q = { .pd = pd, .max_pages = 1 };

	return ask(c, XR_MSG_ALLOC_FAST_MR, &q, sizeof(q));
}

static int make_mw(struct conn *c)
{
	struct xr_alloc_mw_req q = { .pd = pd, .type = 1 };

	return ask(c, XR_MSG_ALLOC_MW, &q, sizeof(q));
}

static int make_dm(struct conn *c)
{
	struct xr_alloc_dm_req q = { .length = 64 };

	return ask(c, XR_MSG_ALLOC_DM, &q, sizeof(q));
}

static int make_srq(struct conn *c)
{
	struct xr_create_srq_req q = { .pd = pd, .max_wr = 16 };

	return ask(c, XR_MSG_CREATE_SRQ, &q, sizeof(q));
}

static int make_ah(struct conn *c)
{
	return create_ah(c, pd, 1);
}

static int make_xrcd(struct conn *c)
{
	return open_xrcd(c, NULL, XR_XRCDF_CREAT);
}

static const struct kind {
	const char *name, *option;
	uint32_t *limit;
	uint32_t before; /* that a client has before */
	int (*make)(struct conn *c);
	uint32_t destroy; /* type of request */
} kinds[] = {
	{ "PDs", "pd", &fake.opt.user_max_pd, 1, make_pd, XR_MSG_DEALLOC_PD },
	{ "CQs", "cq", &fake.opt.user_max_cq, 1, make_cq, XR_MSG_DESTROY_CQ },
	{ "completion channels", "cq", &fake.opt.user_max_cq, 0, make_channel,
	  XR_MSG_DESTROY_CHANNEL },
	{ "QPs", "qp", &fake.opt.user_max_qp, 0, make_qp, XR_MSG_DESTROY_QP },
	{ "regions", "mr", &fake.opt.user_max_mr, 0, make_mr, XR_MSG_DEREG_MR },
	{ "windows", "mr", &fake.opt.user_max_mr, 0, make_mw, XR_MSG_DEALLOC_MW },
	{ "device memory", "mr", &fake.opt.user_max_mr, 0, make_dm, XR_MSG_FREE_DM },
	{ "SRQs", "srq", &fake.opt.user_max_srq, 0, make_srq, XR_MSG_DESTROY_SRQ },
	{ "AHs", "ah", &fake.opt.user_max_ah, 0, make_ah, XR_MSG_DESTROY_AH },
	{ "XRC domains", "pd", &fake.opt.user_max_pd, 0, make_xrcd, XR_MSG_CLOSE_XRCD },
};

#define LIMIT 5

/* A client with a PD, a CQ and access to its memory */
static void open_with_parents(struct conn *c, uid_t uid, uint32_t *own_pd, uint32_t *own_cq)
{
	static uint8_t page[2 * PAGE];

	open_as(c, uid);
	pd = *own_pd = alloc_pd(c);
	cq = *own_cq = create_cq(c, 16, 0);
	proc_sent = false;
	MUST(!reg_private(c, pd, page, 8, RW) && !ask_handle(c, XR_MSG_DEREG_MR, handle_of(c)));
}

/* Creates objects until one is refused; returns the error, and sets *n to their number. */
static int make_all(struct conn *c, const struct kind *k, uint32_t *n)
{
	int err;

	for (*n = 0; !(err = k->make(c)) && *n < 4 * LIMIT; ++*n)
		;
	return err;
}

static void test_kind(const struct kind *k)
{
	struct conn first, second, other, root;
	uint32_t parents[4][2], n = 0, last = 0, old = *k->limit;
	char text[40];
	int err;

	open_with_parents(&first, ALICE, &parents[0][0], &parents[0][1]);
	open_with_parents(&second, ALICE, &parents[1][0], &parents[1][1]);
	open_with_parents(&other, BOB, &parents[2][0], &parents[2][1]);
	open_with_parents(&root, ROOT, &parents[3][0], &parents[3][1]);
	*k->limit = LIMIT;
	snprintf(text, sizeof(text), "--user-max-%s is %d", k->option, LIMIT);

	pd = parents[0][0], cq = parents[0][1];
	MUST(!k->make(&first));
	pd = parents[1][0], cq = parents[1][1];
	MUST(!k->make(&second));
	last = handle_of(&second);
	err = make_all(&second, k, &n);
	TAP_OK(err == -EDQUOT && n + 2 + 2 * k->before == LIMIT && explained(&second, text),
	       "all clients of a user together have a limit of %s, which is named", k->name);
	pd = parents[2][0], cq = parents[2][1];
	err = k->make(&other);
	pd = parents[3][0], cq = parents[3][1];
	make_all(&root, k, &n);
	TAP_OK(!err && n > LIMIT, "another user and root can create %s", k->name);
	pd = parents[1][0], cq = parents[1][1];
	TAP_OK(!ask_handle(&second, k->destroy, last) && !k->make(&second) &&
		       k->make(&second) == -EDQUOT,
	       "and so can the user after destroying one");
	*k->limit = old;
	disconnect(&first);
	disconnect(&second);
	disconnect(&other);
	disconnect(&root);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_device_limit(void)
{
	struct conn c;
	uint32_t i, old = fake.opt.client_max_pd;

	open_as(&c, ROOT);
	fake.opt.client_max_pd = LIMIT;
	for (i = 0; i < LIMIT; i++)
		MUST(!make_pd(&c));
	TAP_OK(make_pd(&c) == -ENOMEM && explained(&c, "--client-max-pd is 5"),
	       "limits of a client and of the device are named, too");
	fake.opt.client_max_pd = old;
	disconnect(&c);
}

static void test_query(void)
{
	const struct xr_query_device_rep *d;
	struct conn c;
	uint32_t old = fake.opt.user_max_qp, user, root;

	fake.opt.user_max_qp = 7;
	open_as(&c, ALICE);
	d = (const void *)c.body;
	MUST(!ask(&c, XR_MSG_QUERY_DEVICE, NULL, 0));
	user = d->max_qp;
	disconnect(&c);
	open_as(&c, ROOT);
	MUST(!ask(&c, XR_MSG_QUERY_DEVICE, NULL, 0));
	root = d->max_qp;
	disconnect(&c);
	fake.opt.user_max_qp = old;
	TAP_OK(user == 7 && root == 20, "the device reports what the user may have");
}

/* ---- connections ------------------------------------------------------------------- */

/* Connects. Returns 0, or the error with which the connection is refused. */
static int connect_as(struct conn *c, uid_t uid)
{
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	next_uid = uid;
	*c = (struct conn){ .client = xd_client_new(fake_clients(), pair[0], -1), .fd = pair[1] };
	return c->client ? 0 : read_reply(c);
}

static void test_connections(void)
{
	uint32_t user = fake.opt.user_max_clients, device = fake.opt.max_clients, i;
	struct conn a[3], b[2], d, root[XD_RESERVED_CLIENTS];
	int err;

	fake.opt.user_max_clients = 2;
	fake.opt.max_clients = 3;
	MUST(!connect_as(&a[0], ALICE) && !connect_as(&a[1], ALICE));
	err = connect_as(&a[2], ALICE);
	TAP_OK(err == -EDQUOT && explained(&a[2], "--user-max-clients is 2"),
	       "a user has a limit of connections, which is named");
	TAP_OK(read_reply(&a[2]) == -EPIPE, "a refused connection is closed");
	TAP_OK(!connect_as(&b[0], BOB), "another user can connect");
	err = connect_as(&b[1], BOB);
	TAP_OK(err == -ENOMEM && explained(&b[1], "--max-clients is 3"),
	       "until the device has no more for users");
	for (i = 0, err = 0; i < XD_RESERVED_CLIENTS; i++)
		err |= connect_as(&root[i], ROOT);
	TAP_OK(!err, "root gets %u more", XD_RESERVED_CLIENTS);
	TAP_OK(connect_as(&d, ROOT) == -ENOMEM, "and not one more");
	close(a[2].fd), close(b[1].fd), close(d.fd);
	for (i = 0; i < XD_RESERVED_CLIENTS; i++)
		disconnect(&root[i]);
	disconnect(&a[0]), disconnect(&a[1]), disconnect(&b[0]);
	fake.opt.user_max_clients = user;
	fake.opt.max_clients = device;
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- channels ---------------------------------------------------------------------- */

/* Returns the status of HELLO as a channel of rdma_cm. */
static int channel_as(struct conn *c, uid_t uid)
{
	MUST(!connect_as(c, uid));
	return hello(c, XR_HELLO_CM);
}

static uint64_t memory_of(const struct conn *c)
{
	return c->client->user->bytes.memory;
}

static void test_channels(void)
{
	uint32_t user = fake.opt.user_max_cm_channels, device = fake.opt.max_cm_channels, i;
	uint32_t connections = fake.opt.user_max_clients;
	struct conn a[3], b[2], root[XD_RESERVED_CLIENTS + 1];
	struct xd_fd_quota *fds;
	int err;

	fake.opt.user_max_cm_channels = 2;
	fake.opt.max_cm_channels = 3;
	fake.opt.user_max_clients = 1;
	MUST(!channel_as(&a[0], ALICE) && !channel_as(&a[1], ALICE));
	fds = &a[0].client->user->fds;
	TAP_OK(fds->used == 4 && memory_of(&a[0]) < XD_PROCESS_BYTES,
	       "a channel has two descriptors, and no process");
	err = channel_as(&a[2], ALICE);
	TAP_OK(err == -EDQUOT && explained(&a[2], "--user-max-cm-channels is 2"),
	       "a user has a limit of channels, which is named");
	TAP_OK(!hello(&a[2], 0), "a connection that cannot be a channel can be another one");
	TAP_OK(!channel_as(&b[0], BOB) && channel_as(&b[1], BOB) == -ENOMEM &&
		       explained(&b[1], "--max-cm-channels is 3"),
	       "so has the device");
	disconnect(&b[1]);
	for (i = 0, err = 0; i < XD_RESERVED_CLIENTS; i++)
		err |= channel_as(&root[i], ROOT);
	TAP_OK(!err, "root gets %u more", XD_RESERVED_CLIENTS);
	TAP_OK(channel_as(&root[i], ROOT) == -ENOMEM, "and not one more");
	for (i = 0; i <= XD_RESERVED_CLIENTS; i++)
		disconnect(&root[i]);
	send_raw(&a[1], "", 1, &a[1].fd, 1);
	settle();
	TAP_OK(read_reply(&a[1]) == -EPIPE, "one that sends descriptors ends");
	for (i = 0; i < 3; i++)
		disconnect(&a[i]);
	disconnect(&b[0]);
	fake.opt.user_max_cm_channels = user;
	fake.opt.max_cm_channels = device;
	fake.opt.user_max_clients = connections;
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- descriptors ------------------------------------------------------------------- */

/* Users whose programs used processor time keep their entries, and so their limits, for a while. */
static void forget_users(void)
{
	struct conn c;

	for (struct xd_user *u = fake_clients()->limits.users; u; u = u->next)
		u->bucket = 0;
	/* Users without clients are freed when a client ends. */
	open_as(&c, ROOT);
	disconnect(&c);
}

static void test_descriptors(void)
{
	struct xd_limits *limits = &fake_clients()->limits;
	uint32_t user = limits->user_max_files, users = limits->user_fds.limit;
	struct conn a, b, c, root;

	forget_users();
	limits->user_max_files = 8; /* 4 of the connection */
	limits->user_fds.limit = 15;
	open_as(&a, ALICE);
	MUST(!make_channel(&a) && !make_channel(&a) && !make_channel(&a) && !make_channel(&a));
	TAP_OK(make_channel(&a) == -EMFILE && explained(&a, "--user-max-files is 8"),
	       "a user has a limit of descriptors, which is named");
	TAP_OK(make_dm(&a) == -EMFILE && open_xrcd(&a, "/proc/self/exe", XR_XRCDF_CREAT) == -EMFILE,
	       "it holds for every kind of object with a descriptor");
	open_as(&b, BOB);
	MUST(!make_channel(&b) && !make_channel(&b) && !make_channel(&b));
	TAP_OK(make_channel(&b) == -EMFILE && explained(&b, "half of LimitNOFILE is 15"),
	       "all users together have a limit");
	TAP_OK(connect_as(&c, BOB + 1) == -EMFILE, "which holds for connections, too");
	open_as(&root, ROOT);
	TAP_OK(!make_channel(&root), "root has descriptors of its own");
	close(c.fd);
	disconnect(&a);
	disconnect(&b);
	disconnect(&root);
	TAP_OK(!limits->fds.used && !limits->user_fds.used, "all are given back");
	limits->user_max_files = user;
	limits->user_fds.limit = users;
	forget_users();
}

/* ---- address spaces ---------------------------------------------------------------- */

/* Each address space of a client has descriptors, and may have a process. */
static void test_address_spaces(void)
{
	static uint8_t page[2 * PAGE];
	uint32_t first = 0, n;
	struct conn c;
	int err = 0;

	open_as(&c, ALICE);
	pd = alloc_pd(&c);
	proc_sent = false;
	for (n = 0; !(err = reg_private(&c, pd, page, 8, RW)) && n < 100; n++)
		first = first ? first : handle_of(&c);
	TAP_OK(err == -EDQUOT && n == XD_CLIENT_PROCS &&
		       explained(&c, "number of address spaces of a client is 8"),
	       "a client has a limit of address spaces, which is named");
	TAP_OK(c.client->user->fds.used == 4 + XD_PROCESS_FDS + n * (XD_PROC_FDS + XD_PROCESS_FDS),
	       "their descriptors count");
	TAP_OK(!ask_handle(&c, XR_MSG_DEREG_MR, first) && !reg_private(&c, pd, page, 8, RW),
	       "deregistering the last region of one makes room");
	disconnect(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- multicast groups --------------------------------------------------------------- */

static void test_groups(void)
{
	uint32_t qp[2], bobs, n;
	struct conn a[2], b;
	int err = 0;

	open_as(&a[0], ALICE);
	open_as(&a[1], ALICE);
	open_as(&b, BOB);
	qp[0] = create_datagram_qp(&a[0]);
	qp[1] = create_datagram_qp(&a[1]);
	bobs = create_datagram_qp(&b);
	for (n = 0; n < XD_USER_GROUPS - 1; n++)
		MUST(!mcast(&a[0], XR_MSG_ATTACH_MCAST, qp[0], (uint8_t)n));
	MUST(!mcast(&a[1], XR_MSG_ATTACH_MCAST, qp[1], 0));
	MUST(!mcast(&a[1], XR_MSG_ATTACH_MCAST, qp[1], (uint8_t)n));
	err = mcast(&a[1], XR_MSG_ATTACH_MCAST, qp[1], 200);
	TAP_OK(err == -EDQUOT && explained(&a[1], "number of multicast groups of a user is 128"),
	       "a user has a limit of multicast groups, which is named");
	TAP_OK(!mcast(&b, XR_MSG_ATTACH_MCAST, bobs, 200) &&
		       !mcast(&b, XR_MSG_ATTACH_MCAST, bobs, 0),
	       "another user can join further groups and the same ones");
	MUST(!mcast(&a[1], XR_MSG_DETACH_MCAST, qp[1], (uint8_t)n));
	TAP_OK(!mcast(&a[1], XR_MSG_ATTACH_MCAST, qp[1], 200), "leaving a group makes room");
	disconnect(&a[0]);
	disconnect(&a[1]);
	TAP_OK(b.client->user->groups == 2, "members of others stay");
	disconnect(&b);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- memory ------------------------------------------------------------------------ */

static void test_memory(void)
{
	uint64_t old = fake.opt.user_max_memory, before, charged;
	struct xr_create_cq_req q = { .depth = 4096 };
	struct conn a, b;
	char text[64];
	int err;

	open_as(&a, ALICE);
	open_as(&b, BOB);
	fake.opt.user_max_memory = 1 << 20;
	while (!(err = ask(&a, XR_MSG_CREATE_CQ, &q, sizeof(q))))
		;
	snprintf(text, sizeof(text), "--user-max-memory is %d", 1 << 20);
	TAP_OK(err == -EDQUOT && explained(&a, text),
	       "a user has a limit of the daemon's memory, which is named");
	TAP_OK(!ask(&b, XR_MSG_CREATE_CQ, &q, sizeof(q)), "another user has its own");
	disconnect(&a);
	fake.opt.user_max_memory = old;
	pd = alloc_pd(&b);
	cq = create_cq(&b, 16, 0);
	charged = b.client->user->bytes.memory;
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (int i = 0; i < 10; i++) {
		struct xr_create_qp_req request = qp_request(pd, cq);
		uint32_t qp;

		request.max_send_wr = 1024;
		MUST(!ask(&b, XR_MSG_CREATE_QP, &request, sizeof(request)));
		qp = handle_of(&b);
		MUST(!to_init(&b, qp) && !to_rtr(&b, qp, rtr_attr()) && !to_rts(&b, qp));
	}
	charged = b.client->user->bytes.memory - charged;
	before = mallinfo2().uordblks + mallinfo2().hblkhd - before;
	TAP_OK(charged > before, "QPs are charged for at least what they allocate (%lu, %lu)",
	       (unsigned long)charged, (unsigned long)before);
	disconnect(&b);
	TAP_OK(nothing_left(), "nothing is left");
}

/* A client is charged for the processes that serve it, and for the memory that these share. */
static void test_processes(void)
{
	uint64_t old = fake.opt.user_max_memory, mover, charged;
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct conn a, b;
	uint32_t domain;
	int i, err;

	open_as(&a, ALICE);
	TAP_OK(a.client->user->bytes.memory < XD_PROCESS_BYTES,
	       "a client begins without a process");
	domain = alloc_pd(&a);
	charged = a.client->user->bytes.memory;
	proc_sent = false;
	MUST(!reg_private(&a, domain, p, 8, RW));
	mover = a.client->user->bytes.memory - charged;
	TAP_OK(mover > xd_movers_bytes(fake.dev.movers) + 2 * XD_PROCESS_BYTES &&
		       a.client->user->processes == 2,
	       "a user is charged for gates, and for movers and their staging");
	charged = a.client->user->bytes.memory;
	for (i = 0; i < 5; i++)
		MUST(!ask_handle(&a, XR_MSG_DEREG_MR, handle_of(&a)) &&
		     !reg_private(&a, domain, p, 8, RW));
	TAP_OK(a.client->user->bytes.memory <= charged + mover,
	       "not for each address space that the client replaces");
	/* the mover that was replaced last has ended */
	for (i = 0; i < 5000 && a.client->user->bytes.memory > charged; i++)
		usleep(1000), settle();
	open_as(&b, ALICE);
	domain = alloc_pd(&b);
	fake.opt.user_max_memory = a.client->user->bytes.memory + mover / 2;
	err = reg_private(&b, domain, p, 8, RW);
	TAP_OK(err == -EDQUOT, "a mover beyond the limit of memory is refused");
	fake.opt.user_max_memory = old;
	TAP_OK(!reg_private(&b, domain, p, 8, RW), "the client can go on");
	disconnect(&a);
	disconnect(&b);
	munmap(p, PAGE);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- processes that hang ------------------------------------------------------------ */

static bool kills_fail;

long __real_syscall(long n, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f);
/* A process that hangs in the kernel does not end when it is killed. */
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	return n == SYS_pidfd_send_signal && kills_fail ? 0 : __real_syscall(n, a, b, c, d, e, f);
}

static struct xd_user *user_of(uid_t uid)
{
	struct xd_user *u = fake_clients()->limits.users;

	while (u && u->uid != uid)
		u = u->next;
	return u;
}

/* Returns true if all threads of a process are stopped. */
static bool is_stopped(pid_t pid)
{
	char path[320], state = 'T';
	const struct dirent *thread;
	FILE *stat;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && state == 'T' && (thread = readdir(dir))) {
		if (thread->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, thread->d_name);
		stat = fopen(path, "re");
		if (!stat || fscanf(stat, "%*d %*s %c", &state) != 1)
			state = '?';
		if (stat)
			fclose(stat);
	}
	if (dir)
		closedir(dir);
	return dir && state == 'T';
}

/* A mover that still runs when its socket is shut down ends by itself. */
static bool stop(pid_t pid)
{
	kill(pid, SIGSTOP);
	for (int i = 0; i < 5000 && !is_stopped(pid); i++)
		usleep(1000);
	return is_stopped(pid);
}

/* A client of Alice ends while its mover hangs. Returns the mover, or -errno of registering. */
static pid_t leave_mover(void *p, struct conn *c)
{
	struct xd_mover_state s;
	const struct xd_user *u;
	uint32_t domain;
	int err;

	open_as(c, ALICE);
	domain = alloc_pd(c);
	proc_sent = false;
	err = reg_private(c, domain, p, 8, RW);
	if (err)
		return err;
	xd_mover_state(xd_proc_mover(xd_client_proc(c->client)), &s);
	MUST(stop(s.pid));
	kills_fail = true;
	disconnect(c);
	/* it is killed when the client has ended, which takes several turns */
	for (int i = 0; i < 5000 && (u = user_of(ALICE)) && u->clients; i++)
		usleep(1000), settle();
	kills_fail = false;
	return s.pid;
}

static void test_hanging_processes(void)
{
	uint32_t old = fake.opt.user_max_processes, domain;
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	const struct xd_user *alice;
	struct conn c, root;
	pid_t first, second;

	fake.opt.user_max_processes = 3;
	first = leave_mover(p, &c);
	alice = user_of(ALICE);
	MUST(first > 0 && alice);
	for (int i = 0; i < 1000 && alice->processes > 1; i++) /* its gate ends */
		usleep(1000), settle();
	TAP_OK(!alice->clients && alice->processes == 1 && alice->fds.used == XD_PROCESS_FDS &&
		       alice->bytes.memory == xd_movers_bytes(fake.dev.movers) + XD_PROCESS_BYTES,
	       "a user is charged for a mover that outlives its client");
	second = leave_mover(p, &c);
	MUST(second > 0);
	for (int i = 0; i < 1000 && alice->processes > 2; i++)
		usleep(1000), settle();
	TAP_OK(leave_mover(p, &c) == -EDQUOT && explained(&c, "--user-max-processes is 3"),
	       "no other process is started beyond the limit, which is named");
	disconnect(&c);
	open_as(&root, ROOT);
	domain = alloc_pd(&root);
	proc_sent = false;
	TAP_OK(!reg_private(&root, domain, p, 8, RW), "another user has its own");
	disconnect(&root);
	kill(first, SIGKILL);
	kill(second, SIGKILL);
	fake.opt.user_max_processes = old;
	munmap(p, PAGE);
	TAP_OK(nothing_left(), "nothing is left when they have ended");
}

/* ---- absent pages ------------------------------------------------------------------ */

/* Registers a page of a memfd, with the descriptors of the process. Returns its region. */
static struct xd_mr *reg_memfd(struct conn *c, uid_t uid, int fd, uint8_t *p)
{
	struct reg r;

	open_as(c, uid);
	r = reg_of(alloc_pd(c), p, PAGE, RW);
	add_segment(&r, XR_SEG_FD, p, PAGE);
	proc_sent = false;
	MUST(!send_reg(c, &r, &fd, 1));
	return the_mr(c);
}

static bool is_mapped(const struct xd_mr *mr)
{
	return mr->mem->tiers == 1u << XR_SEG_FD && mr->mem->xt.seg[0].ptr;
}

/*
 * A hole in mapped memory ends the use of mappings for the user, as each of the user's programs
 * could punch holes into the memory of the others.
 */
static void test_absent_pages(void)
{
	int fd = memfd(PAGE, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	struct conn a, a2, b, a3;
	struct xd_mr *of_a, *of_a2, *of_b;
	uint8_t byte = 0;

	MUST(p != MAP_FAILED);
	of_a = reg_memfd(&a, ALICE, fd, p);
	of_a2 = reg_memfd(&a2, ALICE, fd, p);
	of_b = reg_memfd(&b, BOB, fd, p);
	MUST(is_mapped(of_a) && is_mapped(of_a2) && is_mapped(of_b));
	MUST(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
	MUST(access_mem(&of_a->mem->xt, 0, &byte, 1, true) == -EFAULT);
	settle();
	TAP_OK(!is_mapped(of_a) && !is_mapped(of_a2),
	       "after an access to an absent page, no memory of the user is accessed by mappings");
	TAP_OK(is_mapped(of_b), "memory of another user still is");
	TAP_OK(!access_mem(&of_a2->mem->xt, 0, &byte, 1, true),
	       "the mover of each client accesses the memory");
	disconnect(&a);
	disconnect(&a2);
	of_a = reg_memfd(&a3, ALICE, fd, p);
	TAP_OK(!is_mapped(of_a), "nor is memory of a client that the user starts later");
	a3.client->user->unmapped_until = 0;
	disconnect(&a3);
	of_a = reg_memfd(&a3, ALICE, fd, p);
	TAP_OK(is_mapped(of_a), "after some time it is again");
	disconnect(&a3);
	disconnect(&b);
	munmap(p, PAGE);
	close(fd);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- processor time of requests ---------------------------------------------------- */

#define REQUESTS 50

/* Reads the replies that have arrived, which must be successes in the order of the requests. */
static uint32_t read_replies(struct conn *c, uint32_t *seq)
{
	uint32_t n = 0;
	int status;

	for (;; n++) {
		c->seq = *seq;
		status = read_reply(c);
		if (status == 1)
			return n;
		MUST(!status);
		++*seq;
	}
}

static void burn_run(struct xd_client_job *job)
{
	uint64_t end = xd_cpu_time() + 5000000;

	while (xd_cpu_time() < end)
		;
}

static void burn_done(struct xd_client_job *job)
{
}

static void test_charge(void)
{
	struct xd_client_job job = { .run = burn_run, .done = burn_done };
	uint64_t before, later = xd_now() + 1000000000;
	struct conn c;

	open_as(&c, ALICE);
	c.client->connection.bucket = c.client->user->bucket = later;
	MUST(!make_pd(&c));
	before = c.client->connection.bucket;
	TAP_OK(before > later, "the processor time of a request is charged to its client");
	xd_client_add_job(c.client, &job);
	settle();
	TAP_OK(c.client->connection.bucket - before >= 5000000ull * 100 / fake.opt.client_max_load,
	       "and so is that of a job");
	TAP_OK(c.client->user->bucket > later, "its user is charged as well");
	disconnect(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Another client has sent at time `at`, or none has if 0. */
static void others_send(uint64_t at)
{
	static const struct xt_flow flow;

	xd_worker_engine(fake.dev.workers, 0)->last[0] = (struct xt_last_flow){ &flow, at };
}

static void test_load_alone(void)
{
	struct conn c;

	open_as(&c, ALICE);
	others_send(xd_now() - 1000000000);
	c.client->connection.bucket = xd_now() + 1000000000000;
	TAP_OK(!make_pd(&c) && !c.client->connection.delays,
	       "a client that used more than its share is not delayed if no other one works");
	disconnect(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_request_load(void)
{
	const uint64_t later = xd_now() + 1000000000000;
	struct xr_msg q = { .type = XR_MSG_ALLOC_PD };
	uint32_t i, seq, first, rest = 0;
	struct conn busy, other;

	open_as(&busy, ALICE);
	open_as(&other, ALICE);
	others_send(later);
	fake.opt.client_max_pd = fake.opt.client_max_pd + REQUESTS;
	busy.client->connection.bucket = later;
	seq = busy.seq + 1;
	for (i = 0; i < REQUESTS; i++) {
		q.seq = seq + i;
		send_raw(&busy, &q, sizeof(q), NULL, 0);
	}
	settle();
	first = read_replies(&busy, &seq);
	TAP_OK(!first && busy.client->connection.delays,
	       "a client that used more than its share is delayed");
	TAP_OK(!make_pd(&other), "another client of the user is not");
	busy.client->connection.bucket = 0;
	for (i = 0; i < 1000 && rest < REQUESTS; i++) {
		usleep(10000);
		settle();
		rest += read_replies(&busy, &seq);
	}
	TAP_OK(rest == REQUESTS, "the delayed requests are executed later, in order");

	busy.client->connection.bucket = later;
	send_raw(&busy, &q, sizeof(q), NULL, 0);
	settle();
	MUST(fake_clients()->delayed.first == busy.client);
	disconnect(&busy);
	TAP_OK(!fake_clients()->delayed.first, "a delayed client can end");
	disconnect(&other);
	fake.opt.client_max_pd -= REQUESTS;
	TAP_OK(nothing_left(), "nothing is left");
}

/* A user whose programs used too much time gains nothing by connecting again. */
static void test_load_of_user(void)
{
	const uint64_t later = xd_now() + 1000000000000;
	struct xr_hello_req q = { .version = XR_PROTOCOL_VERSION };
	struct conn a, b;
	int err;

	others_send(later);
	open_as(&a, ALICE);
	a.client->user->bucket = later;
	disconnect(&a);
	MUST(!connect_as(&a, ALICE));
	err = ask(&a, XR_MSG_HELLO, &q, sizeof(q));
	TAP_OK(err == 1,
	       "a user that used more than its share is delayed on a new connection as well");
	open_as(&b, BOB);
	TAP_OK(!make_pd(&b), "another user is not");
	a.client->user->bucket = 0;
	for (int i = 0; i < 1000 && err == 1; i++) {
		usleep(10000);
		settle();
		err = read_reply(&a);
	}
	TAP_OK(!err, "the request is executed later");
	disconnect(&a);
	disconnect(&b);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("users");
	fake.opt.user_max_qp = fake.opt.user_max_mr = fake.opt.user_max_cq = 1000;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		test_kind(&kinds[i]);
	test_device_limit();
	test_query();
	test_connections();
	test_channels();
	test_descriptors();
	test_address_spaces();
	test_groups();
	test_memory();
	test_processes();
	test_hanging_processes();
	test_absent_pages();
	test_charge();
	test_load_alone();
	test_request_load();
	test_load_of_user();
	fake_server_stop();
	return tap_end();
}
