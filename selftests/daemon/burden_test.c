// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Load that one client can put on the daemon: descriptors, blocking jobs, many objects, and the end
 * of the client during any of these.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/transport/engine.h"
#include "control.h"

/* ---- descriptors whose close() blocks ----------------------------------------- */

/* Connects two TCP sockets of this program. Returns -1 if there is no loopback interface. */
static int connect_loopback(int *peer)
{
	struct sockaddr_in lo = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(lo);

	*peer = -1;
	if (!bind(listener, (struct sockaddr *)&lo, sizeof(lo)) && !listen(listener, 1) &&
	    !getsockname(listener, (struct sockaddr *)&lo, &len) &&
	    !connect(fd, (struct sockaddr *)&lo, sizeof(lo)))
		*peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	if (*peer >= 0)
		return fd;
	close(fd);
	return -1;
}

/* The last close() waits until the peer has read the data, or for ten minutes. */
static int lingering_socket(int *peer)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 600 };
	static char data[1 << 16];
	int fd = connect_loopback(peer);

	if (fd < 0)
		return -1;
	MUST(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	return fd;
}

/* Sends a message with unused descriptors. Returns false if the daemon no longer reads. */
static bool flood(struct conn *c)
{
	struct xr_msg head = { .type = XR_MSG_ALLOC_PD, .seq = ++c->seq };
	int fds[XR_MSG_MAX_FDS];
	uint32_t i;

	for (i = 0; i < XR_MSG_MAX_FDS; i++)
		fds[i] = c->fd;
	send_raw(c, &head, sizeof(head), fds, XR_MSG_MAX_FDS);
	settle();
	return read_reply(c) == -EINVAL;
}

static void test_close_that_hangs(void)
{
	struct xr_msg head = { .type = XR_MSG_ALLOC_PD };
	int before = open_fds(), fd, peer, i;
	struct conn hostile, other;

	fd = lingering_socket(&peer);
	if (fd < 0) {
		tap_skip("a descriptor whose close() blocks", "no loopback interface");
		return;
	}
	open_client(&other);
	connect_client(&hostile);
	MUST(!hello(&hostile, XR_HELLO_OBSERVER));
	job_hangs = true;
	head.seq = ++hostile.seq;
	send_raw(&hostile, &head, sizeof(head), &fd, 1);
	close(fd);
	settle();
	MUST(read_reply(&hostile) == -EINVAL);
	for (i = 0; i < 20 && flood(&hostile); i++)
		;
	TAP_OK(i < 20, "no requests are read from a client whose close() blocks");
	TAP_OK(!ask(&other, XR_MSG_ALLOC_PD, NULL, 0), "other clients are served");
	close(peer);
	job_hangs = false;
	settle();
	disconnect(&hostile);
	close_client(&other);
	TAP_OK(nothing_left() && open_fds() == before, "nothing is left");
}

/* ---- end of a client during a job --------------------------------------------- */

/* A job that blocks until the test lets it finish */
struct slow_job {
	struct xd_client_job job;
	sem_t go;
	bool ran;
};

static void slow_run(struct xd_client_job *job)
{
	struct slow_job *s = container_of(job, struct slow_job, job);

	sem_wait(&s->go);
	s->ran = true;
}

static void slow_done(struct xd_client_job *job)
{
}

/* The client ends, and its objects are freed, before the job of its request starts. */
static void test_end_before_job(void)
{
	struct slow_job slow = { .job = { .run = slow_run, .done = slow_done } };
	struct xr_alloc_dm_req dm = { .length = PAGE };
	struct reg r = { 0 };
	struct conn c;

	open_client(&c);
	r = reg_of(alloc_pd(&c), NULL, 64, RW);
	add_segment(&r, XR_SEG_DM, NULL, 64);
	MUST(!ask(&c, XR_MSG_ALLOC_DM, &dm, sizeof(dm)));
	r.segment[0].fd_index = ((struct xr_alloc_dm_rep *)c.body)->handle;
	sem_init(&slow.go, 0, 0);
	xd_client_add_job(c.client, &slow.job);
	job_hangs = true;
	TAP_OK(send_reg(&c, &r, NULL, 0) == 1,
	       "a registration of device memory waits behind a job");
	xd_client_end(c.client);
	sem_post(&slow.go);
	job_hangs = false;
	settle();
	close_client(&c);
	TAP_OK(slow.ran && nothing_left(), "a waiting registration is dropped if the client ends");
	sem_destroy(&slow.go);
}

/* ---- many objects ------------------------------------------------------------- */

#define HANDLES 60000

/*
 * Many handles of one target QP, each with an event that its client does not read. If freeing a
 * handle searched a list from its start, freeing all would take too long, and settle() would fail.
 */
static void test_many_handles(void)
{
	uint32_t max_qp = fake.opt.max_qp, client_max_qp = fake.opt.client_max_qp, i;
	uint64_t user_max_memory = fake.opt.user_max_memory;
	struct xr_create_qp_req q = { .type = XR_QPT_XRC_RECV };
	struct xr_open_qp_req open = { 0 };
	struct xr_create_qp_rep *rep;
	struct xd_qp *qp;
	struct conn c;

	fake.opt.max_qp = fake.opt.client_max_qp = HANDLES;
	fake.opt.user_max_memory = 1 << 30;
	open_client(&c);
	MUST(!open_xrcd(&c, NULL, 0));
	q.xrcd = open.xrcd = handle_of(&c);
	MUST(!ask(&c, XR_MSG_CREATE_QP, &q, sizeof(q)));
	rep = (struct xr_create_qp_rep *)c.body;
	qp = xd_object_get(c.client, XD_QP, rep->handle);
	open.qpn = rep->qpn;
	for (i = 1; i < HANDLES; i++)
		MUST(!ask_now(&c, XR_MSG_OPEN_QP, &open, sizeof(open)));
	TAP_OK(ask_now(&c, XR_MSG_OPEN_QP, &open, sizeof(open)) == -ENOMEM,
	       "%u handles of a target QP are opened, and not one more", i);
	xd_engine_events.async(qp->xt, NULL, IBV_EVENT_QP_FATAL);
	close_client(&c);
	TAP_OK(nothing_left(), "the handles and their events are freed quickly");
	fake.opt.max_qp = max_qp;
	fake.opt.client_max_qp = client_max_qp;
	fake.opt.user_max_memory = user_max_memory;
}

static struct xd_cq *the_cq(const struct conn *c, uint32_t handle)
{
	return xd_object_get(c->client, XD_CQ, handle);
}

/*
 * Destroys CQs whose pending events are at the start, in the middle and at the end of the backlog.
 */
static void test_events_that_wait(void)
{
	uint32_t channel, cq[5], i;
	uint64_t cookie[2] = { 0 };
	struct xr_create_cq_req q;
	struct conn c;
	int fd;

	open_client(&c);
	channel = create_channel(&c, &fd);
	for (i = 0; i < 5; i++) {
		q = (struct xr_create_cq_req){ .depth = 16, .channel = channel, .cookie = i };
		MUST(!ask(&c, XR_MSG_CREATE_CQ, &q, sizeof(q)));
		cq[i] = handle_of(&c);
	}
	while (!the_cq(&c, cq[0])->channel->socket.backlog)
		xd_engine_events.cq(&the_cq(&c, cq[0])->xt);
	for (i = 1; i < 5; i++)
		xd_engine_events.cq(&the_cq(&c, cq[i])->xt);
	MUST(!ask_handle(&c, XR_MSG_DESTROY_CQ, cq[2]) &&
	     !ask_handle(&c, XR_MSG_DESTROY_CQ, cq[4]) &&
	     !ask_handle(&c, XR_MSG_DESTROY_CQ, cq[0]));
	while (recv(fd, cookie, sizeof(*cookie), MSG_DONTWAIT) > 0)
		MUST(!*cookie);
	settle();
	for (i = 0; i < 2; i++)
		recv(fd, &cookie[i], sizeof(*cookie), MSG_DONTWAIT);
	TAP_OK(cookie[0] == 1 && cookie[1] == 3,
	       "pending events arrive in order, without those of destroyed CQs");
	xd_engine_events.cq(&the_cq(&c, cq[3])->xt);
	TAP_OK(recv(fd, &cookie[0], sizeof(*cookie), MSG_DONTWAIT) > 0 && cookie[0] == 3,
	       "a later event arrives after them");
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- jobs that follow each other ---------------------------------------------- */

#define TURNS 100

/*
 * A job that is added again by its done(), and is done again before the control thread has
 * finished.
 */
struct again {
	struct xd_job job;
	sem_t ran;
};
static uint32_t turns;
static uint32_t turns_before_others; /* events that the loop handled */

static void again_run(struct xd_job *job)
{
	sem_post(&container_of(job, struct again, job)->ran);
}

static void again_done(struct xd_job *job)
{
	struct again *t = container_of(job, struct again, job);

	if (++turns >= TURNS)
		return;
	xd_jobs_add(fake_clients()->jobs, job);
	sem_wait(&t->ran);
	usleep(1000); /* The job is now in the list of finished jobs. */
}

static void other_event(void *arg, uint32_t events)
{
	if (!turns_before_others)
		turns_before_others = turns + 1;
}

static void test_endless_jobs(void)
{
	struct again again = { .job = { .run = again_run, .done = again_done } };
	struct xd_watch *watch;
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) &&
	     send(pair[1], "x", 1, 0) == 1);
	sem_init(&again.ran, 0, 0);
	xd_jobs_add(fake_clients()->jobs, &again.job);
	sem_wait(&again.ran);
	usleep(1000);
	watch = xd_watch_add(fake.dev.loop, pair[0], EPOLLIN, other_event, NULL);
	job_hangs = true;
	settle();
	job_hangs = false;
	settle();
	TAP_OK(turns_before_others && turns_before_others < TURNS,
	       "the loop runs between jobs that follow each other (%u)", turns_before_others);
	xd_watch_del(watch);
	close(pair[0]), close(pair[1]);
	sem_destroy(&again.ran);
}

/* ---- a large completion queue -------------------------------------------------------------- */

/*
 * A job copies the entries of a large CQ. Other clients are served meanwhile, and the client may
 * end.
 */
static void test_large_cq(void)
{
	struct slow_job slow = { .job = { .run = slow_run, .done = slow_done } };
	struct xr_resize_cq_req q;
	struct xr_cqe cqe = { .status = IBV_WC_SUCCESS };
	struct conn c, other;
	struct xd_cq *cq;
	int other_fd;

	sem_init(&slow.go, 0, 0);
	open_client(&other);
	other_fd = events_fd;
	open_client(&c);
	q.handle = create_cq(&c, 16384, 0);
	cq = xd_object_get(c.client, XD_CQ, q.handle);
	for (cqe.wr_id = 0; cqe.wr_id < 10000; cqe.wr_id++)
		MUST(!xt_cq_push(&xd_worker_engine(fake.dev.workers, 0)->flow, &cq->xt, &cqe,
				 false));
	q.depth = 8192;
	TAP_OK(ask(&c, XR_MSG_RESIZE_CQ, &q, sizeof(q)) == -EINVAL &&
		       reason_has(&c, "more than 8192 completions have not been polled"),
	       "a ring without room for the completions is refused with the reason");
	q.depth = 32768;
	xd_client_add_job(c.client, &slow.job);
	job_hangs = true;
	TAP_OK(ask(&c, XR_MSG_RESIZE_CQ, &q, sizeof(q)) == 1 && cq->depth == 16384,
	       "the entries of a large CQ are copied by a job");
	TAP_OK(!ask(&other, XR_MSG_ALLOC_PD, NULL, 0), "other clients are served meanwhile");
	MUST(!xt_cq_push(&xd_worker_engine(fake.dev.workers, 0)->flow, &cq->xt, &cqe, false));
	sem_post(&slow.go);
	job_hangs = false;
	settle();
	TAP_OK(!read_reply(&c) && cq->depth == 32768 && cq->xt.queue == cq->ring.ptr &&
		       cq->xt.queue->producer == 10001,
	       "completions that were added meanwhile are copied");

	xd_client_add_job(c.client, &slow.job);
	job_hangs = true;
	MUST(ask(&c, XR_MSG_RESIZE_CQ, &q, sizeof(q)) == 1);
	xd_client_end(c.client);
	sem_post(&slow.go);
	job_hangs = false;
	settle();
	close_client(&c);
	close(other_fd);
	disconnect(&other);
	TAP_OK(nothing_left(), "nothing is left of a client that ends during the copy");
	sem_destroy(&slow.go);
}

/* ---- the daemon's own memory -------------------------------------------------- */

/* A region of segments of one byte */
static int register_bytes(struct conn *c, uint32_t pd, const uint8_t *page)
{
	static uint8_t data[XR_MSG_MAX / 2] __attribute__((aligned(8)));
	struct xr_reg_mr_req *q = (void *)data;
	uint32_t i;

	*q = (struct xr_reg_mr_req){ .pd = pd,
				     .addr = (uintptr_t)page,
				     .segments = XR_MR_SEGMENTS_MAX,
				     .length = XR_MR_SEGMENTS_MAX,
				     .flags = XR_REGF_PROC_FDS };
	for (i = 0; i < XR_MR_SEGMENTS_MAX; i++)
		q->segment[i] = (struct xr_mr_segment){ .kind = XR_SEG_PRIVATE,
							.length = 1,
							.addr = (uintptr_t)page + i };
	return ask_fds(c, XR_MSG_REG_MR, data, sizeof(*q) + i * sizeof(q->segment[0]), proc_fd, 2);
}

/* Each registration replaces the mover, whose memory is charged until its process has ended. */
static bool charge_falls_to(const struct conn *c, uint64_t bytes)
{
	for (unsigned i = 0; i < 5000 && c->client->user->bytes.memory != bytes; i++) {
		settle();
		usleep(1000);
	}
	return c->client->user->bytes.memory == bytes;
}

static void test_memory_that_counts(void)
{
	uint8_t *page = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct xr_alloc_fast_mr_req fast = { .max_pages = XR_FAST_MAX_PAGES };
	uint64_t before, lists = XR_FAST_LISTS * fast.max_pages * sizeof(uint64_t);
	struct conn c;

	open_client(&c);
	fast.pd = alloc_pd(&c);
	/* the first registration brings the address space */
	MUST(!register_bytes(&c, fast.pd, page) && !ask_handle(&c, XR_MSG_DEREG_MR, handle_of(&c)));
	before = c.client->user->bytes.memory;
	MUST(!register_bytes(&c, fast.pd, page));
	TAP_OK(c.client->user->bytes.memory >=
		       before + XR_MR_SEGMENTS_MAX * sizeof(struct xt_mem_seg),
	       "the daemon's memory for many small segments is charged to the quota");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, handle_of(&c)));
	TAP_OK(charge_falls_to(&c, before), "deregistering the region ends the charge");
	MUST(!ask(&c, XR_MSG_ALLOC_FAST_MR, &fast, sizeof(fast)));
	TAP_OK(c.client->user->bytes.memory >=
		       before + lists + fast.max_pages * sizeof(struct xt_mem_seg) +
			       fast.max_pages / 2 * sizeof(struct xt_mem_piece),
	       "the daemon's memory for a fast registration region is charged");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, handle_of(&c)));
	TAP_OK(charge_falls_to(&c, before),
	       "deregistering the fast registration region ends the charge");
	close_client(&c);
	munmap(page, PAGE);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("burden");
	test_close_that_hangs();
	test_end_before_job();
	test_events_that_wait();
	test_many_handles();
	test_memory_that_counts();
	test_endless_jobs();
	test_large_cq();
	fake_server_stop();
	return tap_end();
}
