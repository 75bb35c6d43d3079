// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs: states, the way to a peer, address handles, multicast groups */
#include <errno.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include "control.h"
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
	TAP_OK(!fake.map_qps, "in RESET XDP does not know the QP");
	TAP_OK(!to_init(&c, qp) && fake.map_qps == 1, "INIT, and XDP knows");
	attr.ah.sgid_index = FAKE_GIDS;
	TAP_OK(to_rtr(&c, qp, attr) == -EINVAL, "no such GID index");
	attr = rtr_attr();
	attr.ah.is_global = 0;
	TAP_OK(to_rtr(&c, qp, attr) == -EINVAL, "an address without GRH");
	fake.no_route = true;
	TAP_OK(to_rtr(&c, qp, rtr_attr()) == -ENETUNREACH && state_of(&c, qp) == XR_QPS_INIT,
	       "no route: the QP stays in INIT");
	fake.no_route = false;
	TAP_OK(!to_rtr(&c, qp, rtr_attr()) &&
		       ((struct xr_modify_qp_rep *)c.body)->state == XR_QPS_RTR,
	       "RTR");
	TAP_OK(!to_rts(&c, qp) && state_of(&c, qp) == XR_QPS_RTS, "RTS");
	fake.maps_full = true;
	TAP_OK(modify(&c, qp, XR_QPS_RTS, attr, IBV_QP_ACCESS_FLAGS) == -E2BIG &&
		       state_of(&c, qp) == XR_QPS_ERR,
	       "a QP that XDP cannot know goes to ERR");
	fake.maps_full = false;
	TAP_OK(!modify(&c, qp, XR_QPS_RESET, attr, 0) && !fake.map_qps, "RESET takes it from XDP");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* How far a QP's packets may run ahead of its rate, ns: what is left of the burst that was asked for */
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

/* docs/protocol.md, rule 4: clients built before and after this daemon */
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
	TAP_OK(!set_rate(&c, qp, 0, now), "a rate without a burst");
	usual = burst_of(&c, qp);
	TAP_OK(!set_rate(&c, qp, 1 << 20, now) && burst_of(&c, qp) > usual, "with one");
	TAP_OK(!set_rate(&c, qp, 1 << 20, first) && burst_of(&c, qp) == usual,
	       "an older client's request: what it does not say is zero");
	TAP_OK(!set_rate(&c, qp, 1 << 20, now + 8) && burst_of(&c, qp) > usual,
	       "a newer client's request: what is not known does not count");
	TAP_OK(set_rate(&c, qp, 0, first - 4) == -EINVAL &&
		       set_rate(&c, qp, 0, first - 1) == -EINVAL && burst_of(&c, qp) > usual,
	       "one shorter than the first version is refused");
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
	TAP_OK(create_ah(&c, pd + 1, 0) == -ENOENT, "an address handle of no PD");
	TAP_OK(create_ah(&c, pd, FAKE_GIDS) == -EINVAL, "of no GID index");
	fake.no_route = true;
	TAP_OK(create_ah(&c, pd, 0) == -ENETUNREACH, "where no route leads to");
	fake.no_route = false;
	TAP_OK(!create_ah(&c, pd, 0), "an address handle");
	ah = ((struct xr_handle_rep *)c.body)->handle;
	TAP_OK(xt_ahs_path(c.client->objects->ahs, ah) &&
		       !xt_ahs_path(c.client->objects->ahs, ah + 1),
	       "engines find it");
	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -EBUSY, "it keeps its PD");
	fake.slow = true;
	TAP_OK(create_ah(&c, pd, 0) == 1, "the next one waits for the next hop");
	fake_resolve_all();
	settle();
	TAP_OK(!answer(&c), "and then is there");
	xd_objects_net_changed(&fake.server->objects);
	TAP_OK(!ask_handle(&c, XR_MSG_DESTROY_AH, ah) && !xt_ahs_path(c.client->objects->ahs, ah),
	       "one may go while its path is looked up again");
	fake_resolve_all();
	fake.slow = false;
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_AH, ah) == -ENOENT, "once");
	TAP_OK(!ask(&c, XR_MSG_RESOLVE_AH, &resolve, sizeof(resolve)), "where packets would go");
	fake.no_route = true;
	TAP_OK(ask(&c, XR_MSG_RESOLVE_AH, &resolve, sizeof(resolve)) == -ENETUNREACH,
	       "or that there is no way");
	fake.no_route = false;
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
	TAP_OK(!ask(&c, XR_MSG_CREATE_QP, &q, sizeof(q)), "a QP for datagrams");
	qp = ((struct xr_create_qp_rep *)c.body)->handle;
	c.client->identity.operator= false;
	TAP_OK(modify(&c, qp, XR_QPS_INIT, attr, mask) == -EPERM, "Q_Keys of management are not "
								  "for everybody");
	attr.qkey = 0x11111111;
	TAP_OK(!modify(&c, qp, XR_QPS_INIT, attr, mask), "others are");
	c.client->identity.operator= true;
	TAP_OK(!modify(&c, qp, XR_QPS_RTR, attr, 0) &&
		       !modify(&c, qp, XR_QPS_RTS, attr, IBV_QP_SQ_PSN),
	       "it wants no address");
	xd_objects_net_changed(&fake.server->objects);
	TAP_OK(state_of(&c, qp) == XR_QPS_RTS, "and has none to look up again");
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
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, rc + 9, 1) == -ENOENT, "no such QP");
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, rc, 1) == -EINVAL, "connections are in no group");
	TAP_OK(!mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) && fake.map_groups == 1, "attached");
	TAP_OK(!mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) && fake.map_groups == 1, "twice is once");
	TAP_OK(!mcast(&c, XR_MSG_ATTACH_MCAST, qp2, 1) && fake.map_groups == 1, "a second QP");
	TAP_OK(ask_handle(&c, XR_MSG_DESTROY_QP, qp) == -EBUSY, "a QP in a group stays");
	TAP_OK(!mcast(&c, XR_MSG_DETACH_MCAST, qp, 1) && fake.map_groups == 1,
	       "the group stays for the other");
	TAP_OK(mcast(&c, XR_MSG_DETACH_MCAST, qp, 1) == -EINVAL, "detached once");
	TAP_OK(!mcast(&c, XR_MSG_DETACH_MCAST, qp2, 1) && !fake.map_groups, "and ends with it");
	TAP_OK(!ask(&c, XR_MSG_ATTACH_MCAST, &v4, sizeof(v4)) && fake.map_groups == 1,
	       "an IPv4 group");
	TAP_OK(!ask(&c, XR_MSG_DETACH_MCAST, &v4, sizeof(v4)) && !fake.map_groups, "ends, too");
	v4.gid.raw[12] = 223;
	TAP_OK(ask(&c, XR_MSG_ATTACH_MCAST, &v4, sizeof(v4)) == -EINVAL, "223.1.1.1 is none");
	fake.no_groups = true;
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) == -ENOBUFS, "the kernel joins no more");
	fake.no_groups = false;
	fake.maps_full = true;
	TAP_OK(mcast(&c, XR_MSG_ATTACH_MCAST, qp, 1) == -E2BIG, "XDP has no room");
	fake.maps_full = false;
	for (i = 0; i < 256 && !mcast(&c, XR_MSG_ATTACH_MCAST, qp, (uint8_t)i); i++)
		attached++;
	TAP_OK(attached == 128 && mcast(&c, XR_MSG_ATTACH_MCAST, qp2, 200) == -EDQUOT,
	       "the client's limit");
	open_client(&d);
	qp = create_datagram_qp(&d);
	TAP_OK(!mcast(&d, XR_MSG_ATTACH_MCAST, qp, 1) && !mcast(&d, XR_MSG_ATTACH_MCAST, qp, 200),
	       "another client has its own");
	close_client(&c);
	TAP_OK(fake.map_groups == 2, "a client's groups end with it, but for others'");
	close_client(&d);
	TAP_OK(nothing_left(), "nothing is left");
}

/* The next hop takes its time. */
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
	TAP_OK(to_rtr(&c, qp, rtr_attr()) == 1, "an answer that waits for the next hop");
	TAP_OK(!ask(&d, XR_MSG_ALLOC_PD, NULL, 0), "another client is served meanwhile");
	fake_resolve_all();
	settle();
	TAP_OK(!answer(&c) && state_of(&c, qp) == XR_QPS_RTR, "and then it comes");
	xd_objects_net_changed(&fake.server->objects);
	fake_resolve_all();
	TAP_OK(state_of(&c, qp) == XR_QPS_RTR, "the network changed: the path is looked up again");
	MUST(!modify(&c, qp, XR_QPS_RESET, rtr_attr(), 0) && !to_init(&c, qp));
	MUST(to_rtr(&c, qp, rtr_attr()) == 1);
	close(fd);
	disconnect(&c);
	TAP_OK(!fake.map_qps, "a client that goes while it waits");
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

/* Queue pair 1: for who may speak for the host, and for one at a time */
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
	c.client->identity.operator= false;
	TAP_OK(create_gsi(&c, pd, cq) == -EPERM, "GSI: not for everybody");
	c.client->identity.operator= true;
	TAP_OK(!create_gsi(&c, pd, cq), "GSI: for operators");
	rep = (const void *)c.body;
	qp = rep->handle;
	TAP_OK(rep->qpn == 1, "GSI: its number");
	TAP_OK(create_gsi(&c, pd, cq) == -EBUSY && create_gsi(&other, pd2, cq2) == -EBUSY,
	       "GSI: there is one");
	TAP_OK(set_qkey(&c, qp, 0x11111111) == -EINVAL && !set_qkey(&c, qp, XR_GSI_QKEY),
	       "GSI: one Q_Key");
	close_client(&c);
	TAP_OK(!create_gsi(&other, pd2, cq2), "GSI: it goes with its owner");
	close_client(&other);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("qp");
	test_modify();
	test_modify_length();
	test_address_handles();
	test_datagram_qp();
	test_gsi();
	test_multicast();
	test_slow_resolve();

	fake_server_stop();
	return tap_end();
}
