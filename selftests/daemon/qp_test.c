// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs: states, paths, address handles, multicast groups */
#include <errno.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include "control.h"
#include "daemon/base/loop.h"
#include "daemon/objects/objects.h"
#include "daemon/transport/qp.h"

static void test_modify(void)
{
	struct xr_qp_attr attr = rtr_attr();
	uint32_t pd, cq, qp;
	struct conn c;

	open_client(&c);
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	qp = create_qp(&c, pd, cq);
	TAP_OK(to_rts(&c, qp) == -EINVAL && state_of(&c, qp) == XR_QPS_RESET, "RESET to RTS");
	TAP_OK(!fake.map_qps, "XDP has no entry of a QP in RESET");
	TAP_OK(!to_init(&c, qp) && fake.map_qps == 1, "XDP has an entry of a QP in INIT");
	attr.ah.sgid_index = FAKE_GIDS;
	TAP_OK(to_rtr(&c, qp, attr) == -EINVAL, "an unknown GID index is refused");
	attr = rtr_attr();
	attr.ah.is_global = 0;
	TAP_OK(to_rtr(&c, qp, attr) == -EINVAL, "an address without GRH is refused");
	fake.no_route = true;
	TAP_OK(to_rtr(&c, qp, rtr_attr()) == -ENETUNREACH && state_of(&c, qp) == XR_QPS_INIT,
	       "without a route the QP stays in INIT");
	fake.no_route = false;
	TAP_OK(!to_rtr(&c, qp, rtr_attr()) &&
		       ((struct xr_modify_qp_rep *)c.body)->state == XR_QPS_RTR,
	       "RTR");
	TAP_OK(!to_rts(&c, qp) && state_of(&c, qp) == XR_QPS_RTS, "RTS");
	fake.maps_full = true;
	TAP_OK(modify(&c, qp, XR_QPS_RTS, attr, IBV_QP_ACCESS_FLAGS) == -E2BIG &&
		       state_of(&c, qp) == XR_QPS_ERR,
	       "a QP for which XDP has no room goes to ERR");
	fake.maps_full = false;
	TAP_OK(!modify(&c, qp, XR_QPS_RESET, attr, 0) && !fake.map_qps,
	       "RESET removes XDP's entry");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* A client without QPs cannot wake workers, so it cannot take time from other clients. */
static void test_doorbells(void)
{
	struct xr_create_qp_req q;
	uint32_t pd, cq, qp[2];
	struct conn c;

	open_client(&c);
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	q = qp_request(pd, cq);
	TAP_OK(!fake.doorbells, "the worker does not watch doorbells of a client without QPs");
	fake.no_doorbells = true;
	TAP_OK(ask(&c, XR_MSG_CREATE_QP, &q, sizeof(q)) == -ENOSPC,
	       "CREATE_QP fails if the worker cannot watch them");
	fake.no_doorbells = false;
	qp[0] = create_qp(&c, pd, cq);
	qp[1] = create_qp(&c, pd, cq);
	MUST(!ask_handle(&c, XR_MSG_DESTROY_QP, qp[0]));
	TAP_OK(fake.doorbells == 1, "it does while the client has a QP");
	MUST(!ask_handle(&c, XR_MSG_DESTROY_QP, qp[1]));
	TAP_OK(!fake.doorbells, "and no longer when the last one was destroyed");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Returns how far packets may run ahead of the rate, in ns, which follows from the burst. */
static uint64_t burst_of(struct conn *c, uint32_t qp)
{
	struct xd_qp *o = xd_object_get(c->client, XD_QP, qp);

	return o->xt->pace.ahead;
}

static int set_rate(struct conn *c, uint32_t qp, uint32_t burst, size_t len)
{
	uint32_t more[3] = { burst, UINT32_MAX, UINT32_MAX };
	uint8_t body[sizeof(struct xr_modify_qp_req) + 8];
	struct xr_modify_qp_req q = {
		.handle = qp,
		.attr_mask = IBV_QP_STATE | IBV_QP_RATE_LIMIT,
		.attr = { .qp_state = XR_QPS_RTS, .rate_limit = 100000 },
	};

	memcpy(body, &q, sizeof(q));
	memcpy(body + offsetof(struct xr_modify_qp_req, max_burst), more, sizeof(more));
	return ask(c, XR_MSG_MODIFY_QP, body, len);
}

/* docs/protocol.md, rule 4: clients older and newer than the daemon */
static void test_modify_length(void)
{
	const size_t first = offsetof(struct xr_modify_qp_req, max_burst);
	const size_t now = sizeof(struct xr_modify_qp_req);
	struct conn c;
	uint64_t usual;
	uint32_t qp;

	open_client(&c);
	qp = create_qp(&c, alloc_pd(&c), create_cq(&c, 16, 0));
	MUST(!to_init(&c, qp) && !to_rtr(&c, qp, rtr_attr()) && !to_rts(&c, qp));
	TAP_OK(!set_rate(&c, qp, 0, now), "a rate limit without a burst has the default burst");
	usual = burst_of(&c, qp);
	TAP_OK(!set_rate(&c, qp, 1 << 20, now) && burst_of(&c, qp) > usual,
	       "a rate limit has the burst that was set");
	TAP_OK(!set_rate(&c, qp, 1 << 20, first) && burst_of(&c, qp) == usual,
	       "a request of an older client: missing fields are 0");
	TAP_OK(!set_rate(&c, qp, 1 << 20, now + 8) && burst_of(&c, qp) > usual,
	       "a request of a newer client: unknown fields are ignored");
	TAP_OK(set_rate(&c, qp, 0, first - 4) == -EINVAL &&
		       set_rate(&c, qp, 0, first - 1) == -EINVAL && burst_of(&c, qp) > usual,
	       "a request shorter than the first version is refused");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_address_handles(void)
{
	struct xr_resolve_ah_req resolve = { .attr = rtr_attr().ah };
	uint32_t pd, ah;
	struct conn c;

	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(create_ah(&c, pd + 1, 0) == -ENOENT,
	       "an address handle of an unknown PD is refused");
	TAP_OK(create_ah(&c, pd, FAKE_GIDS) == -EINVAL,
	       "an address handle with an unknown GID index is refused");
	fake.no_route = true;
	TAP_OK(create_ah(&c, pd, 0) == -ENETUNREACH,
	       "an address handle without a route is refused");
	fake.no_route = false;
	TAP_OK(!create_ah(&c, pd, 0), "an address handle is created");
	ah = ((struct xr_handle_rep *)c.body)->handle;
	TAP_OK(xt_ahs_path(c.client->objects->ahs, ah) &&
		       !xt_ahs_path(c.client->objects->ahs, ah + 1),
	       "engines find the address handle");
	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -EBUSY,
	       "the PD of an address handle is not deallocated");
	fake.slow = true;
	TAP_OK(create_ah(&c, pd, 0) == 1, "CREATE_AH waits for the next hop");
	fake_resolve_all();
	settle();
	TAP_OK(!read_reply(&c), "CREATE_AH completes with the next hop");
	xd_walk_all(fake_clients(), XD_WALK_REFRESH);
	TAP_OK(!ask_handle(&c, XR_MSG_DESTROY_AH, ah) && !xt_ahs_path(c.client->objects->ahs, ah),
	       "an address handle is destroyed while its path is resolved again");
	fake_resolve_all();
	fake.slow = false;
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_AH, ah) == -ENOENT,
	       "an address handle is destroyed only once");
	TAP_OK(!ask(&c, XR_MSG_RESOLVE_AH, &resolve, sizeof(resolve)),
	       "RESOLVE_AH returns the MAC");
	fake.no_route = true;
	TAP_OK(ask(&c, XR_MSG_RESOLVE_AH, &resolve, sizeof(resolve)) == -ENETUNREACH,
	       "RESOLVE_AH reports a missing route");
	fake.no_route = false;
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Address vectors and address handles hold the index of their GID. */
static void test_held_gids(void)
{
	struct xr_qp_attr attr = rtr_attr();
	const uint32_t *holds = fake.gid_holds;
	uint32_t pd, qp, ah;
	struct conn c;

	open_client(&c);
	pd = alloc_pd(&c);
	qp = create_qp(&c, pd, create_cq(&c, 16, 0));
	attr.ah.sgid_index = 1;
	MUST(!to_init(&c, qp) && !holds[1]);
	fake.no_route = true;
	TAP_OK(to_rtr(&c, qp, attr) == -ENETUNREACH && !holds[1], "a QP without path holds none");
	fake.no_route = false;
	TAP_OK(!to_rtr(&c, qp, attr) && holds[1] == 1, "a QP holds the index of its path");
	MUST(!create_ah(&c, pd, 1));
	ah = handle_of(&c);
	TAP_OK(holds[1] == 2, "so does an address handle");
	MUST(!modify(&c, qp, XR_QPS_RESET, attr, 0) && !to_init(&c, qp));
	attr.ah.sgid_index = 0;
	TAP_OK(!to_rtr(&c, qp, attr) && holds[1] == 1 && holds[0] == 1,
	       "another path replaces the index");
	TAP_OK(!ask_handle(&c, XR_MSG_DESTROY_AH, ah) && !ask_handle(&c, XR_MSG_DESTROY_QP, qp) &&
		       !holds[0] && !holds[1],
	       "it is free when they are destroyed");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_datagram_qp(void)
{
	struct xr_create_qp_req q;
	struct xr_qp_attr attr = { .port_num = 1, .qkey = 0x80000001 };
	uint32_t mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, qp;
	struct conn c;

	open_client(&c);
	q = qp_request(alloc_pd(&c), create_cq(&c, 16, 0));
	q.type = XR_QPT_UD;
	TAP_OK(!ask(&c, XR_MSG_CREATE_QP, &q, sizeof(q)), "a UD QP");
	qp = ((struct xr_create_qp_rep *)c.body)->handle;
	c.client->identity.is_operator = false;
	TAP_OK(modify(&c, qp, XR_QPS_INIT, attr, mask) == -EPERM,
	       "Q_Keys of management are for operators");
	attr.qkey = 0x11111111;
	TAP_OK(!modify(&c, qp, XR_QPS_INIT, attr, mask), "other Q_Keys are for everybody");
	c.client->identity.is_operator = true;
	TAP_OK(!modify(&c, qp, XR_QPS_RTR, attr, 0) &&
		       !modify(&c, qp, XR_QPS_RTS, attr, IBV_QP_SQ_PSN),
	       "a UD QP needs no address");
	xd_walk_all(fake_clients(), XD_WALK_REFRESH);
	TAP_OK(state_of(&c, qp) == XR_QPS_RTS, "a UD QP has no path to resolve again");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_multicast(void)
{
	struct xr_mcast_req v4 = { .gid.raw = { [10] = 0xff, 0xff, 239, 1, 1, 1 } };
	uint32_t qp, qp2, rc, i, attached = 0;
	struct conn c, d;

	open_client(&c);
	qp = v4.qp = create_datagram_qp(&c);
	qp2 = create_datagram_qp(&c);
	rc = create_qp(&c, alloc_pd(&c), create_cq(&c, 16, 0));
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, rc + 9, 1) == -ENOENT, "an unknown QP is refused");
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, rc, 1) == -EINVAL, "an RC QP is refused");
	TAP_OK(!mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) && fake.map_groups == 1,
	       "a UD QP is attached");
	TAP_OK(!mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) && fake.map_groups == 1,
	       "attaching again has no effect");
	TAP_OK(!mcast(&c, XR_MSG_ATTACH_MCAST, qp2, 1) && fake.map_groups == 1,
	       "a second QP is attached");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_QP, qp) == -EBUSY, "an attached QP is not destroyed");
	TAP_OK(!mcast(&c, XR_MSG_DETACH_MCAST, qp, 1) && fake.map_groups == 1,
	       "the group remains for the other QP");
	TAP_OK(mcast(&c, XR_MSG_DETACH_MCAST, qp, 1) == -EINVAL, "a QP is detached only once");
	TAP_OK(!mcast(&c, XR_MSG_DETACH_MCAST, qp2, 1) && !fake.map_groups,
	       "the group ends with its last QP");
	TAP_OK(!ask(&c, XR_MSG_ATTACH_MCAST, &v4, sizeof(v4)) && fake.map_groups == 1,
	       "a QP is attached to an IPv4 group");
	TAP_OK(!ask(&c, XR_MSG_DETACH_MCAST, &v4, sizeof(v4)) && !fake.map_groups,
	       "the IPv4 group ends");
	v4.gid.raw[12] = 223;
	TAP_OK(ask(&c, XR_MSG_ATTACH_MCAST, &v4, sizeof(v4)) == -EINVAL,
	       "223.1.1.1 is no multicast group");
	fake.no_groups = true;
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) == -ENOBUFS,
	       "the kernel's limit of groups is an error");
	fake.no_groups = false;
	fake.maps_full = true;
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) == -E2BIG, "a full map of XDP is an error");
	fake.maps_full = false;
	for (i = 0; i < 256 && !mcast(&c, XR_MSG_ATTACH_MCAST, qp, (uint8_t)i); i++)
		attached++;
	TAP_OK(attached == 128 && mcast(&c, XR_MSG_ATTACH_MCAST, qp2, 200) == -EDQUOT,
	       "a client cannot exceed its limit of attachments");
	open_client(&d);
	qp = create_datagram_qp(&d);
	TAP_OK(!mcast(&d, XR_MSG_ATTACH_MCAST, qp, 1) && !mcast(&d, XR_MSG_ATTACH_MCAST, qp, 200),
	       "another client has its own limit");
	close_client(&c);
	TAP_OK(fake.map_groups == 2, "at a client's end only its own memberships end");
	close_client(&d);
	TAP_OK(nothing_left(), "nothing is left");
}

/* The next hop is resolved after the request. */
static void test_slow_resolve(void)
{
	struct conn c, d;
	uint32_t qp;
	int fd;

	open_client(&c);
	fd = events_fd;
	open_client(&d);
	qp = create_qp(&c, alloc_pd(&c), create_cq(&c, 16, 0));
	MUST(!to_init(&c, qp));
	fake.slow = true;
	TAP_OK(to_rtr(&c, qp, rtr_attr()) == 1, "MODIFY_QP waits for the next hop");
	TAP_OK(!ask(&d, XR_MSG_ALLOC_PD, NULL, 0), "other clients are served meanwhile");
	fake_resolve_all();
	settle();
	TAP_OK(!read_reply(&c) && state_of(&c, qp) == XR_QPS_RTR,
	       "MODIFY_QP completes with the next hop");
	xd_walk_all(fake_clients(), XD_WALK_REFRESH);
	fake_resolve_all();
	TAP_OK(state_of(&c, qp) == XR_QPS_RTR, "a change of the network resolves the path again");
	MUST(!modify(&c, qp, XR_QPS_RESET, rtr_attr(), 0) && !to_init(&c, qp));
	MUST(to_rtr(&c, qp, rtr_attr()) == 1);
	close(fd);
	disconnect(&c);
	TAP_OK(!fake.map_qps, "a client ends while its request waits");
	fake_resolve_all();
	fake.slow = false;
	close_client(&d);
	TAP_OK(nothing_left(), "nothing is left");
}

static int create_gsi(struct conn *c, uint32_t pd, uint32_t cq)
{
	struct xr_create_qp_req q = qp_request(pd, cq);

	q.type = XR_QPT_GSI;
	return ask(c, XR_MSG_CREATE_QP, &q, sizeof(q));
}

static int set_qkey(struct conn *c, uint32_t qp, uint32_t qkey)
{
	return modify(c, qp, XR_QPS_INIT, (struct xr_qp_attr){ .port_num = 1, .qkey = qkey },
		      IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
}

/* Queue pair 1, for operators, one on the device */
static void test_gsi(void)
{
	const struct xr_create_qp_rep *rep;
	uint32_t pd, cq, pd2, cq2, qp;
	struct conn c, other;

	open_client(&c);
	open_client(&other);
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	pd2 = alloc_pd(&other);
	cq2 = create_cq(&other, 16, 0);
	c.client->identity.is_operator = false;
	TAP_OK(create_gsi(&c, pd, cq) == -EPERM, "GSI: refused to ordinary users");
	c.client->identity.is_operator = true;
	TAP_OK(!create_gsi(&c, pd, cq), "GSI: allowed to operators");
	rep = (const void *)c.body;
	qp = rep->handle;
	TAP_OK(rep->qpn == 1, "GSI: the QPN is 1");
	TAP_OK(create_gsi(&c, pd, cq) == -EBUSY && create_gsi(&other, pd2, cq2) == -EBUSY,
	       "GSI: a second one is refused");
	TAP_OK(set_qkey(&c, qp, 0x11111111) == -EINVAL && !set_qkey(&c, qp, XR_GSI_QKEY),
	       "GSI: another Q_Key is refused");
	close_client(&c);
	TAP_OK(!create_gsi(&other, pd2, cq2), "GSI: it ends with its owner");
	close_client(&other);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- what was posted before a request ---------------------------------------------------- */

static uint32_t connected_qp(struct conn *c)
{
	uint32_t qp = create_qp(c, alloc_pd(c), create_cq(c, 16, 0));

	MUST(!to_init(c, qp) && !to_rtr(c, qp, rtr_attr()) && !to_rts(c, qp));
	return qp;
}

/* Posts an empty SEND. No worker looks at the doorbell. */
static struct xr_queue *post_send(struct conn *c, uint32_t qp)
{
	struct xd_qp *o = xd_object_get(c->client, XD_QP, qp);
	const struct xr_send_wqe wqe = { .opcode = XR_WR_SEND, .flags = XR_SEND_SIGNALED };
	struct xr_queue *sq = o->sq.ptr;

	memcpy(sq + 1, &wqe, sizeof(wqe));
	__atomic_store_n(&sq->producer, 1, __ATOMIC_RELEASE);
	fake.frames = 0;
	return sq;
}

static void test_posted(void)
{
	struct xr_qp_attr none = { 0 };
	struct xr_queue *sq;
	struct conn c;
	uint32_t qp;

	open_client(&c);
	fake.sends = true;
	qp = connected_qp(&c);
	sq = post_send(&c, qp);
	TAP_OK(!modify(&c, qp, XR_QPS_ERR, none, 0) && fake.frames == 1,
	       "a message posted before ERR is sent");
	TAP_OK(sq->consumer == 1, "and its work request is flushed");
	qp = connected_qp(&c);
	post_send(&c, qp);
	TAP_OK(!modify(&c, qp, XR_QPS_RESET, none, 0) && fake.frames == 1,
	       "a message posted before RESET is sent");
	qp = connected_qp(&c);
	post_send(&c, qp);
	TAP_OK(!modify(&c, qp, XR_QPS_SQD, none, 0) && fake.frames == 1,
	       "a message posted before SQD is sent");
	qp = connected_qp(&c);
	post_send(&c, qp);
	TAP_OK(!ask_handle(&c, XR_MSG_DESTROY_QP, qp) && fake.frames == 1,
	       "a message posted before DESTROY_QP is sent");
	post_send(&c, connected_qp(&c));
	close_client(&c);
	TAP_OK(fake.frames == 1, "a message posted before the end of a client is sent");
	fake.sends = false;
	TAP_OK(nothing_left(), "nothing is left");
}

/* A client that ends must not keep the others waiting, however many QPs it has. */
static void test_posted_by_many(void)
{
	uint32_t pd, cq, qp, i;
	struct conn c;

	open_client(&c);
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	fake.opt.client_max_qp = 100;
	for (i = 0; i < 100; i++) {
		qp = create_qp(&c, pd, cq);
		MUST(!to_init(&c, qp) && !to_rtr(&c, qp, rtr_attr()) && !to_rts(&c, qp));
		post_send(&c, qp);
	}
	fake.sends = true;
	close_client(&c);
	TAP_OK(fake.frames == 64, "messages of 64 QPs are sent at the end of a client");
	fake.sends = false;
	fake.opt.client_max_qp = 20;
	TAP_OK(nothing_left(), "nothing is left");
}

/* A message that cannot be sent for now delays the request, and only requests of that program. */
static void test_posted_waits(void)
{
	struct xr_qp_attr none = { 0 };
	struct conn c, d;
	uint32_t qp;

	open_client(&c);
	open_client(&d);
	qp = connected_qp(&c);
	post_send(&c, qp);
	job_hangs = true;
	TAP_OK(modify(&c, qp, XR_QPS_ERR, none, 0) == 1, "ERR waits while nothing can be sent");
	TAP_OK(!ask(&d, XR_MSG_ALLOC_PD, NULL, 0), "other clients are served meanwhile");
	fake.sends = true;
	xt_engine_run(xd_worker_engine(fake.dev.workers, 0), xd_now());
	job_hangs = false;
	settle();
	TAP_OK(!read_reply(&c) && fake.frames == 1 && state_of(&c, qp) == XR_QPS_ERR,
	       "it follows the message");
	fake.sends = false;
	qp = connected_qp(&c);
	post_send(&c, qp);
	TAP_OK(!modify(&c, qp, XR_QPS_ERR, none, 0) && !fake.frames, "it does not wait for ever");
	qp = connected_qp(&c);
	post_send(&c, qp);
	job_hangs = true;
	TAP_OK(modify(&c, qp, XR_QPS_ERR, none, 0) == 1, "ERR waits again");
	job_hangs = false;
	close_client(&c);
	close_client(&d);
	TAP_OK(nothing_left(), "a client ends while its request waits");
}

int main(void)
{
	start_server("qp");
	test_posted();
	test_posted_by_many();
	test_posted_waits();
	test_modify();
	test_doorbells();
	test_modify_length();
	test_address_handles();
	test_held_gids();
	test_datagram_qp();
	test_gsi();
	test_multicast();
	test_slow_resolve();

	fake_server_stop();
	return tap_end();
}
