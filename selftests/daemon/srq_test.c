// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Shared receive queues, XRC domains and target QPs */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"

static int modify_srq(struct conn *c, uint32_t srq, uint32_t mask, uint32_t max_wr, uint32_t limit)
{
	struct xr_modify_srq_req q = {
		.handle = srq, .mask = mask, .max_wr = max_wr, .limit = limit
	};

	return ask(c, XR_MSG_MODIFY_SRQ, &q, sizeof(q));
}

static void test_srq(void)
{
	struct xr_create_srq_req q = { .max_wr = 10 };
	struct xr_create_qp_req qp;
	struct xr_create_qp_rep *rep;
	struct xr_async_event ev;
	uint32_t pd, cq, srq, handle;
	struct conn c;

	open_client(&c);
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	TAP_OK(ask(&c, XR_MSG_CREATE_SRQ, &q, sizeof(q)) == -ENOENT,
	       "an SRQ without a PD is refused");
	q = (struct xr_create_srq_req){ .pd = pd };
	TAP_OK(ask(&c, XR_MSG_CREATE_SRQ, &q, sizeof(q)) == -EINVAL,
	       "an SRQ without entries is refused");
	q.max_wr = XR_MAX_WR + 1;
	TAP_OK(ask(&c, XR_MSG_CREATE_SRQ, &q, sizeof(q)) == -EINVAL,
	       "an SRQ with too many entries is refused");
	q.max_wr = 1, q.max_sge = XR_MAX_SGE + 1;
	TAP_OK(ask(&c, XR_MSG_CREATE_SRQ, &q, sizeof(q)) == -EINVAL,
	       "an SRQ with too many SGEs is refused");
	srq = create_srq(&c, pd, 10);
	TAP_OK(((struct xr_create_srq_rep *)c.body)->max_wr == 16,
	       "an SRQ of 16 entries is created");
	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -EBUSY,
	       "the PD of an SRQ is not deallocated");
	TAP_OK(modify_srq(&c, srq, IBV_SRQ_LIMIT, 0, 17) == -EINVAL,
	       "a limit beyond max_wr is refused");
	TAP_OK(modify_srq(&c, srq, 4, 0, 0) == -EINVAL, "an unknown attribute is refused");
	TAP_OK(modify_srq(&c, srq, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 20, 33) == -EINVAL &&
		       !ask_handle(&c, XR_MSG_QUERY_SRQ, srq) &&
		       ((struct xr_query_srq_rep *)c.body)->max_wr == 16,
	       "nothing changes if one attribute is refused");
	TAP_OK(!modify_srq(&c, srq, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 20, 32) &&
		       ((struct xr_modify_srq_rep *)c.body)->max_wr == 32,
	       "MODIFY_SRQ sets a larger ring and a limit");
	TAP_OK(recv(events_fd, &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev) && ev.element == 0x50 &&
		       ev.type == IBV_EVENT_SRQ_LIMIT_REACHED,
	       "the limit of an empty SRQ is reached");
	qp = qp_request(pd, cq);
	qp.srq = srq + 1;
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &qp, sizeof(qp)) == -ENOENT,
	       "a QP of an unknown SRQ is refused");
	qp.srq = srq;
	MUST(!ask(&c, XR_MSG_CREATE_QP, &qp, sizeof(qp)));
	rep = (struct xr_create_qp_rep *)c.body;
	handle = rep->handle;
	TAP_OK(!rep->rq.length && !rep->max_recv_wr, "a QP of an SRQ has no RQ");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_SRQ, srq) == -EBUSY, "an SRQ in use is not destroyed");
	MUST(!ask_handle(&c, XR_MSG_DESTROY_QP, handle));
	TAP_OK(!ask_handle(&c, XR_MSG_DESTROY_SRQ, srq) &&
		       ((struct xr_destroy_rep *)c.body)->async_events == 1 &&
		       ask_handle(&c, XR_MSG_QUERY_SRQ, srq) == -ENOENT,
	       "DESTROY_SRQ returns the number of events");
	qp.srq = create_srq(&c, pd, 1);
	MUST(!ask(&c, XR_MSG_CREATE_QP, &qp, sizeof(qp)));
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- XRC ------------------------------------------------------------------------- */

static int open_target(struct conn *c, uint32_t xrcd, uint32_t qpn)
{
	struct xr_open_qp_req q = { .xrcd = xrcd, .qpn = qpn, .cookie = 0x77 };

	return ask(c, XR_MSG_OPEN_QP, &q, sizeof(q));
}

static void test_xrc_domains(void)
{
	struct xr_open_xrcd_req q = { .flags = XR_XRCDF_FD };
	struct conn c, d;
	uint32_t first, lone;
	int fd;

	open_client(&c);
	fd = events_fd;
	open_client(&d);
	TAP_OK(ask(&c, XR_MSG_OPEN_XRCD, &q, sizeof(q)) == -EINVAL,
	       "XR_XRCDF_FD without a descriptor is refused");
	q.flags = 8;
	TAP_OK(ask(&c, XR_MSG_OPEN_XRCD, &q, sizeof(q)) == -EINVAL, "unknown flags are refused");
	TAP_OK(open_xrcd(&c, "/", 0) == -EAGAIN,
	       "without XR_XRCDF_CREAT an unknown domain is refused");
	TAP_OK(!open_xrcd(&c, "/", XR_XRCDF_CREAT | XR_XRCDF_EXCL),
	       "XR_XRCDF_CREAT creates a domain");
	first = handle_of(&c);
	TAP_OK(open_xrcd(&d, "/", XR_XRCDF_CREAT | XR_XRCDF_EXCL) == -EINVAL,
	       "with XR_XRCDF_EXCL a known domain is refused");
	TAP_OK(!open_xrcd(&d, "/", 0), "another client opens the same domain");
	TAP_OK(!open_xrcd(&c, NULL, 0) && !open_xrcd(&c, NULL, XR_XRCDF_EXCL),
	       "domains without a file are created");
	lone = handle_of(&c);
	TAP_OK(!ask_handle(&c, XR_MSG_CLOSE_XRCD, lone) &&
		       ask_handle(&c, XR_MSG_CLOSE_XRCD, lone) == -ENOENT,
	       "a domain is closed");
	MUST(!ask_handle(&c, XR_MSG_CLOSE_XRCD, first));
	TAP_OK(!open_xrcd(&c, "/", 0), "a domain exists until its last handle is closed");
	close(fd);
	disconnect(&c);
	close_client(&d);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_xrc_targets(void)
{
	struct xr_create_qp_req q = { .type = XR_QPT_XRC_RECV };
	struct xr_create_srq_req srq = { .max_wr = 4, .cookie = 0x50 };
	struct xr_create_qp_req initiator;
	uint32_t qpn, a, b, mine, theirs;
	struct xr_async_event ev;
	struct conn c, d;
	int fd;

	open_client(&c);
	fd = events_fd;
	open_client(&d);
	MUST(!open_xrcd(&c, "/", XR_XRCDF_CREAT));
	a = handle_of(&c);
	MUST(!open_xrcd(&d, "/", 0));
	b = handle_of(&d);
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &q, sizeof(q)) == -ENOENT,
	       "a target QP without a domain is refused");
	q.xrcd = a;
	MUST(!ask(&c, XR_MSG_CREATE_QP, &q, sizeof(q)));
	qpn = ((struct xr_create_qp_rep *)c.body)->qpn;
	mine = ((struct xr_create_qp_rep *)c.body)->handle;
	TAP_OK(!((struct xr_create_qp_rep *)c.body)->sq.length, "a target QP has no queues");
	TAP_OK(ask_handle(&c, XR_MSG_CLOSE_XRCD, a) == -EBUSY,
	       "the domain of a target QP is not closed");
	TAP_OK(open_target(&d, b, qpn + 1) == -EINVAL && open_target(&d, b + 1, qpn) == -ENOENT,
	       "an unknown target QP or domain is refused");
	TAP_OK(!open_target(&d, b, qpn), "another client opens the target QP");
	theirs = ((struct xr_create_qp_rep *)d.body)->handle;
	MUST(!to_init(&d, theirs));
	TAP_OK(state_of(&c, mine) == XR_QPS_INIT && fake.map_qps == 1,
	       "both handles refer to the same QP");
	xd_engine_events.async(((struct xd_qp *)xd_object_get(c.client, XD_QP, mine))->xt, NULL,
			       IBV_EVENT_QP_FATAL);
	TAP_OK(recv(fd, &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev) &&
		       recv(events_fd, &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev) &&
		       ev.element == 0x77,
	       "both clients get the events of the target QP");
	srq.pd = alloc_pd(&c);
	srq.xrcd = a;
	TAP_OK(ask(&c, XR_MSG_CREATE_SRQ, &srq, sizeof(srq)) == -ENOENT,
	       "an XRC SRQ without a CQ is refused");
	srq.cq = create_cq(&c, 4, 0);
	TAP_OK(!ask(&c, XR_MSG_CREATE_SRQ, &srq, sizeof(srq)) &&
		       ((struct xr_create_srq_rep *)c.body)->number > 1,
	       "an XRC SRQ has a number");
	initiator = qp_request(srq.pd, srq.cq);
	initiator.srq = ((struct xr_create_srq_rep *)c.body)->handle;
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &initiator, sizeof(initiator)) == -EINVAL,
	       "an XRC SRQ is for target QPs only");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_CQ, srq.cq) == -EBUSY,
	       "the CQ of an XRC SRQ is not destroyed");
	initiator.srq = initiator.recv_cq = 0;
	initiator.type = XR_QPT_XRC_SEND;
	TAP_OK(!ask(&c, XR_MSG_CREATE_QP, &initiator, sizeof(initiator)) &&
		       !((struct xr_create_qp_rep *)c.body)->rq.length,
	       "an initiator has no RQ and no receive CQ");
	close(fd);
	disconnect(&c);
	TAP_OK(state_of(&d, theirs) == XR_QPS_INIT && fake.map_qps == 1,
	       "the target QP outlives its creator");
	MUST(!ask_handle(&d, XR_MSG_DESTROY_QP, theirs));
	TAP_OK(!fake.map_qps, "the target QP ends with its last handle");
	close_client(&d);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("srq");
	test_srq();
	test_xrc_domains();
	test_xrc_targets();

	fake_server_stop();
	return tap_end();
}
