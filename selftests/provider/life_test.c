// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Events, end of the daemon, fork */
#include "fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../lib/tap.h"
#include "../lib/wait.h"

/* ---- events ------------------------------------------------------------------- */

static bool readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void completion_events(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *a = ibv_create_cq(f->ctx, 16, &a, ch, 0);
	struct ibv_cq *b = ibv_create_cq(f->ctx, 16, &b, ch, 0), *cq = NULL;
	struct ibv_qp *qa = make_qp(f, a, a, IBV_QPS_RTS), *qb = make_qp(f, b, b, IBV_QPS_RTS);
	void *context = NULL;

	post_send(qa, 1, 8);
	post_send(qb, 1, 8);
	fake_complete(&f->daemon, qa->qp_num, false, 1, 0, false);
	TAP_OK(!readable(ch->fd), "a CQ that is not armed sends no event");
	ibv_req_notify_cq(a, 0);
	fake_complete(&f->daemon, qa->qp_num, false, 2, 0, false);
	TAP_OK(readable(ch->fd), "an armed CQ sends an event");
	TAP_OK(!ibv_get_cq_event(ch, &cq, &context) && cq == a && context == &a,
	       "get_cq_event: returns the CQ and its context");
	TAP_OK(!readable(ch->fd), "arming once gives one event");
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(a, 1);
	fake_complete(&f->daemon, qa->qp_num, false, 1, 0, false);
	TAP_OK(!readable(ch->fd),
	       "armed for solicited completions: other completions send no event");
	fake_complete(&f->daemon, qa->qp_num, false, 1, 0, true);
	TAP_OK(readable(ch->fd), "armed for solicited completions: a solicited one sends an event");

	/* Events of a are unread, then one of b follows. Then a is destroyed. */
	ibv_req_notify_cq(b, 0);
	fake_complete(&f->daemon, qb->qp_num, false, 1, 0, false);
	TAP_OK(ibv_destroy_comp_channel(ch) == EBUSY,
	       "destroy_comp_channel: EBUSY while there are CQs");
	ibv_destroy_qp(qa);
	TAP_OK(!ibv_destroy_cq(a), "destroy_cq: destroys a CQ with an unread event");
	TAP_OK(!ibv_get_cq_event(ch, &cq, &context) && cq == b,
	       "only the event of the other CQ is delivered");
	ibv_ack_cq_events(cq, 1);
	TAP_OK(!readable(ch->fd), "no event remains");

	/* Only an event of b is unread. */
	ibv_req_notify_cq(b, 0);
	fake_complete(&f->daemon, qb->qp_num, false, 1, 0, false);
	TAP_OK(readable(ch->fd), "the other CQ sends an event");
	ibv_destroy_qp(qb);
	ibv_destroy_cq(b);
	TAP_OK(!readable(ch->fd), "destroy_cq removes its event from the front");
	fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK);
	TAP_OK(ibv_get_cq_event(ch, &cq, &context) == -1 && errno == EAGAIN,
	       "get_cq_event: EAGAIN if the channel is non-blocking");
	TAP_OK(!ibv_destroy_comp_channel(ch), "destroy_comp_channel: succeeds without CQs");
}

/* The fake daemon does not look at doorbells, so it raises no event for them. */
static bool rang(struct fixture *f)
{
	unsigned int wakes;
	bool rang;

	fake_doorbell(&f->daemon, false, &rang, &wakes);
	return rang;
}

static void late_arming(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, ch, 0);
	struct ibv_cq *silent = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *a = make_qp(f, cq, silent, IBV_QPS_RTS);
	struct ibv_qp *b = make_qp(f, cq, silent, IBV_QPS_RTS);
	struct ibv_cq *from;
	struct ibv_wc wc[4];
	void *context;

	post_send(a, 1, 8);
	post_send(b, 1, 8);
	rang(f);
	ibv_req_notify_cq(cq, 0);
	TAP_OK(!rang(f), "arming an empty CQ rings no doorbell");
	fake_complete(&f->daemon, a->qp_num, false, 2, 0, false);
	fake_complete(&f->daemon, b->qp_num, false, 1, 0, false);
	ibv_req_notify_cq(cq, 0);
	TAP_OK(rang(f), "arming a CQ with completions rings the doorbell of a QP");
	ibv_req_notify_cq(cq, 0);
	fake_complete(&f->daemon, b->qp_num, false, 1, 0, false);
	ibv_get_cq_event(ch, &from, &context);
	ibv_ack_cq_events(cq, 1);
	rang(f);
	ibv_req_notify_cq(cq, 0);
	TAP_OK(!rang(f), "arming between an event and the next poll rings no doorbell");
	poll_n(cq, wc, 1);
	ibv_req_notify_cq(cq, 0);
	TAP_OK(rang(f), "arming after a poll rings the doorbell again");
	ibv_destroy_qp(a);
	TAP_OK(rang(f), "destroying that QP rings the doorbell of another one with completions");
	ibv_destroy_qp(b);
	TAP_OK(!rang(f), "a CQ without completions rings none then");
	a = make_qp(f, cq, silent, IBV_QPS_RTS);
	post_send(a, 1, 1);
	fake_complete(&f->daemon, a->qp_num, false, 1, 0, false);
	rang(f);
	TAP_OK(poll_n(cq, wc, 4) == 1 && !ibv_req_notify_cq(cq, 0) && !rang(f),
	       "arming a CQ whose completions were polled rings no doorbell");
	post_recv(a, 1, 1);
	fake_complete(&f->daemon, a->qp_num, true, 1, 0, false);
	rang(f);
	TAP_OK(!ibv_req_notify_cq(silent, 0) && !rang(f),
	       "arming a CQ without completion channel rings no doorbell");
	ibv_destroy_qp(a);
	ibv_destroy_cq(cq);
	ibv_destroy_cq(silent);
	ibv_destroy_comp_channel(ch);
}

static void moderation(struct fixture *f)
{
	struct ibv_modify_cq_attr attr = { IBV_CQ_ATTR_MODERATE, { 8, 16 } };
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_device_attr_ex caps;
	uint32_t count, period;

	TAP_OK(!ibv_query_device_ex(f->ctx, NULL, &caps) &&
		       caps.cq_mod_caps.max_cq_count == 65535 &&
		       caps.cq_mod_caps.max_cq_period == 65535,
	       "query_device_ex: the limits of moderation");
	TAP_OK(!ibv_modify_cq(cq, &attr), "modify_cq succeeds");
	fake_cq_moderation(&f->daemon, cq->handle, &count, &period);
	TAP_OK(count == 8 && period == 16, "modify_cq passes count and period to the daemon");
	attr.attr_mask = 0;
	TAP_OK(ibv_modify_cq(cq, &attr) == EINVAL, "modify_cq: an empty mask is EINVAL");
	attr.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_MODERATE << 1;
	TAP_OK(ibv_modify_cq(cq, &attr) == EOPNOTSUPP, "modify_cq: other bits are EOPNOTSUPP");
	ibv_destroy_cq(cq);
}

struct late_ack {
	struct ibv_cq *cq;
	bool acked;
};

static void *ack_later(void *arg)
{
	struct late_ack *late = arg;

	usleep(100000);
	__atomic_store_n(&late->acked, true, __ATOMIC_SEQ_CST);
	ibv_ack_cq_events(late->cq, 2);
	return NULL;
}

static void acknowledgements(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, ch, 0), *got;
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct late_ack late = { .cq = cq };
	pthread_t thread;
	void *context;
	int i;

	post_send(qp, 0, 8);
	for (i = 0; i < 3; i++) {
		ibv_req_notify_cq(cq, 0);
		fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false);
		if (i < 2)
			ibv_get_cq_event(ch, &got, &context);
	}
	ibv_destroy_qp(qp);
	pthread_create(&thread, NULL, ack_later, &late);
	TAP_OK(!ibv_destroy_cq(cq) && __atomic_load_n(&late.acked, __ATOMIC_SEQ_CST),
	       "destroy_cq waits until completion events are acknowledged");
	pthread_join(thread, NULL);
	ibv_destroy_comp_channel(ch);
}

struct late {
	struct ibv_async_event event;
	bool acked;
};

static void *ack_event_later(void *arg)
{
	struct late *late = arg;

	usleep(100000);
	__atomic_store_n(&late->acked, true, __ATOMIC_SEQ_CST);
	ibv_ack_async_event(&late->event);
	return NULL;
}

/* The next event is acknowledged while its object is being destroyed. */
static bool waits_for_ack(struct fixture *f, struct ibv_qp *qp, struct ibv_srq *srq,
			  struct ibv_cq *cq)
{
	struct late late = { .acked = false };
	pthread_t thread;
	bool acked;
	int err;

	if (ibv_get_async_event(f->ctx, &late.event))
		return false;
	pthread_create(&thread, NULL, ack_event_later, &late);
	err = qp ? ibv_destroy_qp(qp) : srq ? ibv_destroy_srq(srq) : ibv_destroy_cq(cq);
	acked = __atomic_load_n(&late.acked, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	return !err && acked;
}

static void async_acknowledgements(struct fixture *f)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_srq *srq = ibv_create_srq(f->pd, &attr);

	fake_async_event(&f->daemon, (uintptr_t)qp, IBV_EVENT_COMM_EST);
	TAP_OK(waits_for_ack(f, qp, NULL, NULL),
	       "destroy_qp waits until its events are acknowledged");
	fake_async_event(&f->daemon, (uintptr_t)srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	TAP_OK(waits_for_ack(f, NULL, srq, NULL),
	       "destroy_srq waits until its events are acknowledged");
	fake_async_event(&f->daemon, (uintptr_t)cq, IBV_EVENT_CQ_ERR);
	TAP_OK(waits_for_ack(f, NULL, NULL, cq),
	       "destroy_cq waits until asynchronous events are acknowledged");
}

static void async_events(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS), *other;
	struct ibv_async_event event;

	other = make_qp(f, cq, cq, IBV_QPS_RTS);
	fake_async_event(&f->daemon, 1, IBV_EVENT_GID_CHANGE);
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_GID_CHANGE &&
		       event.element.port_num == 1,
	       "get_async_event: returns a port event");
	ibv_ack_async_event(&event);
	fake_async_event(&f->daemon, (uintptr_t)qp, IBV_EVENT_COMM_EST);
	fake_async_event(&f->daemon, (uintptr_t)cq, IBV_EVENT_CQ_ERR);
	fake_async_event(&f->daemon, (uintptr_t)other, IBV_EVENT_QP_FATAL);
	fake_async_event(&f->daemon, (uintptr_t)other, IBV_EVENT_QP_LAST_WQE_REACHED);
	fake_async_event(&f->daemon, 1, IBV_EVENT_PORT_ERR);
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_COMM_EST &&
		       event.element.qp == qp,
	       "get_async_event: returns a QP event");
	ibv_ack_async_event(&event);
	TAP_OK(!ibv_destroy_qp(other), "destroy_qp: destroys a QP with unread events");
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.element.cq == cq,
	       "get_async_event: returns a CQ event");
	ibv_ack_async_event(&event);
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_PORT_ERR,
	       "unread events of the destroyed QP are dropped");
	TAP_OK(!readable(f->ctx->async_fd), "no asynchronous event remains");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

/* ---- end of the daemon -------------------------------------------------------- */

struct waiter {
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	int rc, err;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	void *context;

	w->rc = ibv_get_cq_event(w->ch, &w->cq, &context);
	w->err = errno;
	return NULL;
}

static void daemon_dies(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *send = ibv_create_cq(f->ctx, 64, NULL, ch, 0);
	struct ibv_cq *recv = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, send, recv, IBV_QPS_RTS);
	struct ibv_qp *idle = make_qp(f, send, recv, IBV_QPS_RTS);
	struct ibv_async_event event;
	struct waiter w = { .ch = ch };
	struct ibv_mr *mr;
	struct ibv_wc wc[32];
	char buf[64];
	pthread_t thread;
	int i, flushed;

	mr = ibv_reg_mr(f->pd, buf, sizeof(buf), 0);
	post_send(qp, 10, 6);
	post_recv(qp, 20, 5);
	fake_complete(&f->daemon, qp->qp_num, false, 2, IBV_WC_SUCCESS, false);
	ibv_req_notify_cq(send, 0);
	pthread_create(&thread, NULL, wait_for_event, &w);
	WAIT_UNTIL(other_thread_sleeps_in(SYS_read));
	fake_kill(&f->daemon);
	pthread_join(thread, NULL);
	TAP_OK(!w.rc && w.cq == send, "daemon gone: a blocked get_cq_event returns the armed CQ");
	ibv_ack_cq_events(send, 1);
	TAP_OK(poll_n(send, wc, 7) == 6 && !wc[0].status && !wc[1].status &&
		       wc[2].status == IBV_WC_WR_FLUSH_ERR && wc[2].wr_id == 12 &&
		       wc[5].wr_id == 15 && wc[5].qp_num == qp->qp_num,
	       "daemon gone: completed sends are polled, then flushed ones");
	flushed = poll_n(recv, wc, 6);
	for (i = 0; i < flushed && wc[i].status == IBV_WC_WR_FLUSH_ERR && wc[i].wr_id == 20u + i;
	     i++)
		;
	TAP_OK(flushed == 5 && i == 5, "daemon gone: receives are flushed");
	TAP_OK(!post_send(qp, 30, 1) && poll_n(send, wc, 1) == 1 && wc[0].wr_id == 30 &&
		       wc[0].status == IBV_WC_WR_FLUSH_ERR,
	       "daemon gone: later sends are flushed");
	ibv_req_notify_cq(send, 0);
	TAP_OK(wait_for_event(&w) == NULL && w.rc == -1 && w.err == EIO,
	       "daemon gone: get_cq_event fails if nothing is left to poll");
	TAP_OK(!ibv_get_async_event(f->ctx, &event) && event.event_type == IBV_EVENT_DEVICE_FATAL,
	       "daemon gone: get_async_event returns IBV_EVENT_DEVICE_FATAL");
	ibv_ack_async_event(&event);
	TAP_OK(ibv_get_async_event(f->ctx, &event) == -1 && errno == EIO,
	       "daemon gone: IBV_EVENT_DEVICE_FATAL is returned only once");
	TAP_OK(!ibv_alloc_pd(f->ctx) && errno == EIO, "daemon gone: alloc_pd is EIO");
	TAP_OK(!ibv_reg_mr(f->pd, buf, sizeof(buf), 0) && errno == EIO,
	       "daemon gone: reg_mr is EIO");
	TAP_OK(to_state(qp, IBV_QPS_ERR) == EIO, "daemon gone: modify_qp is EIO");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_destroy_qp(qp) && !ibv_destroy_qp(idle) &&
		       !ibv_destroy_cq(send) && !ibv_destroy_cq(recv) &&
		       !ibv_destroy_comp_channel(ch) && !ibv_dealloc_pd(f->pd) &&
		       !ibv_close_device(f->ctx),
	       "daemon gone: all objects are destroyed");
	f->ctx = open_fake();
	TAP_OK(!f->ctx, "daemon gone: the device cannot be opened");
	fake_start(&f->daemon, f->dir);
	f->ctx = open_fake();
	f->pd = f->ctx ? ibv_alloc_pd(f->ctx) : NULL;
	TAP_OK(f->pd, "the device can be opened when the daemon is back");
}

/* The program only polls; no thread reads an event socket. */
static void daemon_dies_while_polling(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_wc wc;

	post_send(qp, 1, 1);
	TAP_OK(!ibv_poll_cq(cq, 1, &wc), "a WR that is not complete is not polled");
	fake_kill(&f->daemon);
	TAP_OK(poll_n(cq, &wc, 1) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	       "polling alone detects that the daemon is gone");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(f->pd);
	ibv_close_device(f->ctx);
	fake_start(&f->daemon, f->dir);
	f->ctx = open_fake();
	f->pd = ibv_alloc_pd(f->ctx);
}

/* ---- fork ---------------------------------------------------------------------- */

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* The async_fd that the program has delivers the child's events and is still non-blocking. */
static bool gets_own_events(struct fixture *f, ino_t parents)
{
	struct ibv_async_event ev;

	if (inode_of(f->ctx->async_fd) == parents || !ibv_get_async_event(f->ctx, &ev) ||
	    errno != EAGAIN)
		return false;
	fake_async_event(&f->daemon, 1, IBV_EVENT_PORT_ERR);
	return !ibv_get_async_event(f->ctx, &ev) && ev.event_type == IBV_EVENT_PORT_ERR;
}

static int uses_own_objects(struct fixture *f, struct ibv_pd *pd)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, ch, 0);
	struct fixture own = { .ctx = f->ctx, .pd = pd, .daemon = f->daemon };
	struct ibv_qp *qp = ch && cq ? make_qp(&own, cq, cq, IBV_QPS_RTS) : NULL;
	struct ibv_mr *mr = ibv_reg_mr(pd, f, sizeof(*f), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc;

	if (!qp || !mr || ibv_req_notify_cq(cq, 0) || post_send(qp, 9, 1))
		return 11;
	/* Programs compare: librdmacm does, before it creates a QP. */
	if (ch->context != f->ctx || cq->context != f->ctx || qp->context != f->ctx ||
	    mr->context != f->ctx || cq->channel != ch || qp->pd != pd)
		return 14;
	if (fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false) != 1 ||
	    poll_n(cq, &wc, 1) != 1 || wc.wr_id != 9)
		return 12;
	return ibv_dereg_mr(mr) || ibv_destroy_qp(qp) || ibv_destroy_cq(cq) ||
			       ibv_destroy_comp_channel(ch)
		       ? 13
		       : 0;
}

/*
 * A PD of the parent can be used. Verbs on its other objects fail, and the child's objects cannot
 * be combined with them.
 */
static int parents_objects_fail(struct fixture *f, struct ibv_cq *cq, struct ibv_qp *qp,
				struct ibv_pd *own)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_wc wc;
	int status;

	status = uses_own_objects(f, f->pd);
	if (status)
		return status + 10;
	if (ibv_poll_cq(cq, 1, &wc) >= 0 || post_send(qp, 1, 1) != EIO ||
	    post_recv(qp, 1, 1) != EIO || ibv_req_notify_cq(cq, 0) != EIO ||
	    to_state(qp, IBV_QPS_ERR) != EIO)
		return 2;
	return ibv_create_qp(own, &init) || errno != EINVAL ? 3 : 0;
}

/* The grandchild gets a context of its own. It reused the number of async_fd for another file. */
static int grandchild(struct fixture *f, struct ibv_pd *pd_of_child)
{
	int null = open("/dev/null", O_RDONLY), fd = dup2(null, f->ctx->async_fd), status;
	ino_t inode = inode_of(fd);
	struct ibv_pd *pd;

	close(null);
	pd = ibv_alloc_pd(f->ctx);
	if (!inode || inode_of(fd) != inode)
		return 23;
	if (!pd || pd->context != f->ctx)
		return 21;
	status = uses_own_objects(f, pd_of_child);
	if (!status)
		status = uses_own_objects(f, pd);
	return status ? status : ibv_close_device(f->ctx);
}

static int in_child(struct fixture *f, struct ibv_cq *cq, struct ibv_qp *qp)
{
	ino_t events = inode_of(f->ctx->async_fd);
	struct ibv_pd *pd = ibv_alloc_pd(f->ctx);
	struct ibv_context *ctx;
	int status;
	pid_t pid;

	if (!gets_own_events(f, events))
		return 30;
	if (!pd || ibv_dealloc_pd(pd) || !(pd = ibv_alloc_pd(f->ctx)) || pd->context != f->ctx)
		return 31;
	status = parents_objects_fail(f, cq, qp, pd);
	if (!status)
		status = uses_own_objects(f, pd);
	if (status)
		return status;
	pid = fork();
	if (!pid)
		_exit(grandchild(f, pd));
	if (waitpid(pid, &status, 0) != pid || status)
		return WEXITSTATUS(status) ? WEXITSTATUS(status) : 32;
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
	    ibv_dealloc_pd(f->pd) || ibv_close_device(f->ctx))
		return 33;
	ctx = open_fake();
	if (!ctx || !ibv_alloc_pd(ctx))
		return 34;
	ibv_close_device(ctx);
	return 0;
}

static void forks(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct ibv_async_event ev;
	struct ibv_wc wc;
	int status = -1;
	pid_t pid;

	TAP_OK(!ibv_fork_init(), "fork_init");
	fcntl(f->ctx->async_fd, F_SETFL, O_NONBLOCK);
	pid = fork();
	if (!pid)
		_exit(in_child(f, cq, qp));
	waitpid(pid, &status, 0);
	TAP_OK(!status,
	       "child: the parent's PD and its own objects work, others of the parent fail (%x)",
	       status);
	TAP_OK(!ibv_get_async_event(f->ctx, &ev) && ev.event_type == IBV_EVENT_PORT_ERR,
	       "parent: its own events are delivered");
	fcntl(f->ctx->async_fd, F_SETFL, 0);
	post_send(qp, 1, 1);
	fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false);
	TAP_OK(poll_n(cq, &wc, 1) == 1, "parent: completions are polled");
	TAP_OK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "parent: its objects are destroyed");
}

int main(void)
{
	struct fixture f;

	setup(&f);
	completion_events(&f);
	late_arming(&f);
	moderation(&f);
	acknowledgements(&f);
	async_events(&f);
	async_acknowledgements(&f);
	forks(&f);
	daemon_dies(&f);
	daemon_dies_while_polling(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
