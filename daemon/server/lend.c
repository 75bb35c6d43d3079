// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * LEND: UDP sockets that a program borrows, to send and receive packets itself. They are the
 * sockets themselves: a borrower can connect one, and take packets from others by that, which their
 * filters drop. So only users whom the operator trusts with the device borrow. All others get the
 * use of the sockets by an io_uring of their own, which the helper restricts.
 */
#include <errno.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fd_message.h"
#include "daemon/base/json.h"
#include "daemon/base/options.h"
#include "daemon/clients/client_jobs.h"
#include "daemon/clients/request.h"
#include "daemon/helper/helper.h"
#include "daemon/io/io.h"
#include "daemon/netdev/net.h"
#include "claim.h"
#include "direct_rules.h"
#include "server.h"
#include "view.h"

_Static_assert(sizeof(((struct xd_loan *)0)->port) == sizeof(((struct xr_lend_rep *)0)->port),
	       "ports of a slot");

static bool may_borrow(const struct xd_client *c)
{
	const struct xd_options *opt = c->dev->opt;
	bool named = false;

	for (uint32_t i = 0; i < opt->direct_uids; i++)
		named |= opt->direct_uid[i] == c->identity.uid;
	return named || c->identity.is_operator;
}

/* ---- the request -------------------------------------------------------------------- */

/* A user who may not borrow sockets gets half of the slots, so that others can borrow, too. */
static int check_share(struct xd_client *c, uint32_t total)
{
	uint32_t n = 0, most = total > 1 ? total / 2 : 1;

	for (const struct xd_client *o = c->clients->first; o; o = o->next)
		n += o->slot && o->user == c->user;
	if (n < most || may_borrow(c))
		return 0;
	return xd_refuse(c, -EDQUOT, "uid %u has %u of %u slots: no more for one user",
			 c->identity.uid, n, total);
}

/* The operator says how many slots those users have together. */
static int check_rings(struct xd_client *c)
{
	uint32_t n = 0, most = c->dev->opt->ring_slots;

	for (const struct xd_client *o = c->clients->first; o; o = o->next)
		n += o->slot && o->slot_ring;
	if (!most)
		return xd_refuse(c, -EPERM, "uid %u may not borrow sockets, and --ring-slots is 0",
				 c->identity.uid);
	return n < most ? 0
			: xd_refuse(c, -EBUSY,
				    "all %u slots for io_urings are lent "
				    "(--ring-slots)",
				    most);
}

static const char *why_no_slots(const struct xd_device *dev)
{
	if (!dev->opt->slots)
		return "--slots is 0";
	return xd_net_link(dev->net)->routed ? "they are bound to addresses (--bind)"
					     : "they could not be opened";
}

static int lend_check(struct xd_client *c, const struct xr_lend_req *q)
{
	struct xd_slots_state state;
	bool ring = q->flags & XR_LEND_RING;
	int err;

	if (q->flags & ~(uint32_t)(XR_LEND_VIEW | XR_LEND_INBOX | XR_LEND_FASTER | XR_LEND_RING) ||
	    (q->ring && !ring))
		return xd_refuse(c, -EINVAL, "flags 0x%x, ring %u", q->flags, q->ring);
	if (c->slot)
		return xd_refuse(c, -EINVAL, "the connection has slot %u", c->slot - 1);
	if (!c->dev->io->ops->lend)
		return xd_refuse(c, -EOPNOTSUPP,
				 "the device has no sockets to lend: packets go the way '%s', "
				 "not --io socket",
				 c->dev->io->ops->name);
	xd_io_slots(c->dev->io, &state);
	if (!state.total)
		return xd_refuse(c, -EOPNOTSUPP, "the device has no sockets to lend: %s",
				 why_no_slots(c->dev));
	if (q->flags & XR_LEND_FASTER && xd_net_link(c->dev->net)->type == ARPHRD_LOOPBACK)
		return xd_refuse(c, -EOPNOTSUPP,
				 "all peers are on this host, and the daemon copies for them");
	if (!ring && !may_borrow(c))
		return xd_refuse(c, -EPERM,
				 "uid %u may not borrow sockets: it is not root, the daemon's "
				 "user, or one of --direct-users",
				 c->identity.uid);
	if (state.lent + state.retired == state.total)
		return xd_refuse(c, -EBUSY, "all %u slots are lent (--slots)", state.total);
	err = ring ? check_rings(c) : 0;
	return err ? err : check_share(c, state.total);
}

static void write_reply(struct xd_client *c, const struct xd_loan *loan, struct xd_reply *rep)
{
	struct xr_lend_rep *body = XD_REPLY(rep, xr_lend_rep);
	bool ring = loan->epoll >= 0;
	struct xd_slots_state state;

	body->slot = loan->slot;
	body->qpn_modulus = loan->qpn_modulus;
	body->qpn_rest = loan->qpn_rest;
	body->ipv6 = loan->ipv6;
	body->receive_buffer = loan->receive_buffer;
	body->segments = loan->segments;
	body->ports = loan->ports;
	memcpy(body->port, loan->port, sizeof(body->port));
	memcpy(body->mac, xd_net_link(c->dev->net)->mac, sizeof(body->mac));
	xd_claims_begin(c, body->claims);
	xd_io_slots(c->dev->io, &state);
	body->publish = state.checked;
	xd_reply_fd(rep, ring ? loan->epoll : loan->fd, !ring);
	for (uint32_t i = 0; !ring && i < loan->ports; i++)
		xd_reply_fd(rep, loan->send_fd[i], false);
	xd_reply_fd(rep, c->events.async.fd, true);
	xd_reply_fd(rep, xd_direct_rules_fd(c), true);
}

static int lend_take_inbox(struct xd_client *c, int *fd)
{
	int err = xd_user_take_fds(c, 1);

	if (err)
		return err;
	c->inbox = *fd;
	*fd = -1;
	return 0;
}

static void lend_close_inbox(struct xd_client *c)
{
	if (c->inbox < 0)
		return;
	xd_client_close_fds(c, &c->inbox, 1);
	c->inbox = -1;
	xd_user_put_fds(c, 1);
}

/* Takes the descriptors that the flags name. */
static int take_descriptors(struct xd_client *c, struct xd_request *req)
{
	const struct xr_lend_req *q = req->body;
	uint32_t given = q->flags & (XR_LEND_VIEW | XR_LEND_INBOX), n = 0;
	uint32_t named = (uint32_t)__builtin_popcount(given);
	int err = 0;

	c->inbox = -1;
	if (req->nfds != named)
		return xd_refuse(c, -EINVAL, "%u descriptors, the flags 0x%x name %u", req->nfds,
				 q->flags, named);
	if (q->flags & XR_LEND_VIEW)
		err = xd_view_open(c, &req->fds[n++]);
	if (!err && q->flags & XR_LEND_INBOX)
		err = lend_take_inbox(c, &req->fds[n]);
	return err;
}

static int server_lend(struct xd_client *c, struct xd_request *req, bool ring, struct xd_loan *loan)
{
	int err = take_descriptors(c, req);

	if (!err)
		err = xd_direct_rules_open(c);
	if (!err)
		err = xd_io_lend(c->dev->io, ring, loan);
	if (err == -EBUSY)
		xd_refuse(c, err, "no slot is free, of those that nobody has had the socket of");
	if (err) {
		lend_close_inbox(c);
		xd_direct_rules_close(c);
		xd_view_close(c);
		return err;
	}
	c->slot = loan->slot + 1;
	c->slot_ring = ring;
	c->clients->borrower[loan->slot] = c;
	xd_captures_lend(c);
	return 0;
}

/* ---- rings --------------------------------------------------------------------------- */

/* The program can let the helper wait, so a job asks it. If it fails, a second run cleans. */
struct giving {
	struct xd_client_job job;
	struct xd_loan loan;
	uint32_t ring;
	enum xd_ring_step step;
	int err;
};

static void lend_refuse_ring(struct xd_client *c, const struct giving *g)
{
	static const char *const steps[] = {
		[XD_RING_PREPARE] = "the helper",
		[XD_RING_NETWORK] = "its network namespace, with CAP_SYS_PTRACE",
		[XD_RING_TAKE] = "taking the descriptor, with CAP_SYS_PTRACE",
		[XD_RING_RESTRICT] = "restricting it, disabled and without restrictions",
		[XD_RING_REGISTER] = "its fixed files, of which it may have none",
		[XD_RING_ENABLE] = "enabling it",
	};

	if (g->step == XD_RING_NETWORK && g->err == -EXDEV)
		xd_refuse(c, g->err, "the program has another network namespace than the daemon");
	else
		xd_refuse(c, g->err, "the io_uring with descriptor %u: %s: %s", g->ring,
			  g->step <= XD_RING_ENABLE ? steps[g->step] : "?", strerror(-g->err));
}

static void give_run(struct xd_client_job *job)
{
	struct giving *g = container_of(job, struct giving, job);
	int fds[XD_RING_FILES] = { g->loan.fd };

	memcpy(fds + 1, g->loan.send_fd, g->loan.ports * sizeof(fds[0]));
	g->err = xd_helper_ring(job->client->ticket, g->ring, g->loan.slot, fds, g->loan.ports + 1,
				&g->step);
	xd_fds_close(g->loan.send_fd, g->loan.ports);
}

static void clean_run(struct xd_client_job *job)
{
	xd_lend_close(job->client);
}

/* The connection can be used otherwise, or borrow again. */
static void clean_done(struct xd_client_job *job)
{
	struct giving *g = container_of(job, struct giving, job);
	struct xd_client *c = job->client;

	c->slot = 0;
	c->slot_ended = false;
	lend_refuse_ring(c, g);
	xd_reply_send(c, g->err, xd_reply_start());
	free(g);
}

static void give_done(struct xd_client_job *job)
{
	struct giving *g = container_of(job, struct giving, job);
	struct xd_client *c = job->client;
	struct xd_reply *rep = xd_reply_start();

	if (c->ending || g->err)
		close(g->loan.epoll);
	if (c->ending) { /* which ends the loan */
		free(g);
		return;
	}
	if (g->err) {
		xd_lend_end(c);
		job->run = clean_run;
		job->done = clean_done;
		xd_client_add_next_job(c, job);
		return;
	}
	write_reply(c, &g->loan, rep);
	xd_reply_send(c, 0, rep);
	free(g);
}

static int lend_ring(struct xd_client *c, struct xd_request *req)
{
	const struct xr_lend_req *q = req->body;
	struct giving *g = calloc(1, sizeof(*g));
	int err = g ? server_lend(c, req, true, &g->loan) : -ENOMEM;

	if (err) {
		free(g);
		return err;
	}
	g->ring = q->ring;
	g->job.run = give_run;
	g->job.done = give_done;
	xd_client_add_job(c, &g->job);
	return XD_LATER;
}

int xd_do_lend(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_lend_req *q = req->body;
	struct xd_loan loan;
	int err = lend_check(c, q);

	if (!err && q->flags & XR_LEND_RING)
		return lend_ring(c, req);
	if (!err)
		err = server_lend(c, req, false, &loan);
	if (!err)
		write_reply(c, &loan, rep);
	return err;
}

int xd_do_lend_groups(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_lend_groups_req *q = req->body;

	(void)rep;
	if (!c->slot || !c->slot_ring || q->on > 1 || q->reserved)
		return xd_refuse(c, -EINVAL, "on %u; the client %s a slot for an io_uring", q->on,
				 c->slot && c->slot_ring ? "has" : "does not have");
	xd_io_receive_groups(c->dev->io, c->slot - 1, q->on);
	return 0;
}

/* ---- other borrowers ---------------------------------------------------------------- */

/* Returns the client that has the slot of a QPN, NULL if there is none of the same user. */
static struct xd_client *borrower_of(const struct xd_client *c, uint32_t qpn)
{
	struct xd_slots_state state;
	struct xd_client *other;
	uint32_t slot;

	xd_io_slots(c->dev->io, &state);
	if (!xd_slot_of_qpn(&state, qpn, &slot))
		return NULL;
	other = c->clients->borrower[slot];
	return other && other != c && other->identity.uid == c->identity.uid ? other : NULL;
}

int xd_do_peer(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	const struct xr_peer_req *q = req->body;
	struct xr_peer_rep *body;
	struct xd_client *other;

	if (!c->slot || q->reserved)
		return xd_refuse(c, -EINVAL, "%s",
				 c->slot ? "reserved is not 0" : "the connection has no slot");
	other = borrower_of(c, q->qpn);
	if (!other || other->inbox < 0)
		return xd_refuse(c, -ENOENT,
				 "QP 0x%x is of no direct program of user %u with an inbox", q->qpn,
				 c->identity.uid);
	body = XD_REPLY(rep, xr_peer_rep);
	body->slot = other->slot - 1;
	body->own = c->slot - 1;
	xd_reply_fd(rep, other->inbox, true);
	return 0;
}

/* ---- the end of a client ------------------------------------------------------------ */

void xd_lend_end(struct xd_client *c)
{
	if (!c->slot || c->slot_ended)
		return;
	xd_captures_lend_end(c);
	c->slot_ended = true;
	c->clients->borrower[c->slot - 1] = NULL;
	xd_claims_end(c);
	lend_close_inbox(c);
	xd_direct_rules_close(c);
	xd_view_publish_end(c);
	xd_view_close(c);
	xd_io_end_loan(c->dev->io, c->slot - 1);
	xd_publish_end(c);
}

void xd_lend_close(struct xd_client *c)
{
	if (c->slot_ended)
		xd_io_clean_slot(c->dev->io, c->slot - 1);
}

/* ---- status ------------------------------------------------------------------------- */

static void show_loans(struct json *j, const struct xd_client *observer)
{
	json_begin(j, "loans", '[');
	for (const struct xd_client *c = observer->clients->first; c; c = c->next) {
		if (!c->slot || !observer->identity.is_operator)
			continue;
		json_begin(j, NULL, '{');
		json_number(j, "slot", c->slot - 1);
		json_number(j, "client", c->id);
		json_number(j, "pid", (uint64_t)c->identity.pid);
		json_text(j, "by", c->slot_ring ? "io_uring" : "sockets");
		json_boolean(j, "view", c->view);
		json_number(j, "qps", xd_view_objects(c, XR_KIND_QP));
		json_end(j, '}');
	}
	json_end(j, ']');
}

void xd_lend_show(struct json *j, const struct xd_client *c)
{
	struct xd_sums sums = { 0 };
	struct xd_slots_state state;

	xd_io_slots(c->dev->io, &state);
	xd_views_sum(xd_server_of(c), &sums);
	json_begin(j, "slots", '{');
	json_number(j, "total", state.total);
	json_number(j, "lent", state.lent);
	json_number(j, "retired", state.retired);
	json_text(j, "checks", state.checked ? "kernel and program" : "program");
	json_number(j, "faults", sums.direct_faults);
	json_number(j, "tx_refused", sums.direct_tx_refused);
	json_number(j, "tx_by_memory", sums.direct_tx_by_memory);
	show_loans(j, c);
	json_end(j, '}');
}
