// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * LEND: UDP sockets that a program borrows, to send and receive packets itself. They are the
 * sockets themselves: a borrower can connect one, and take packets from others by that, which their
 * filters drop. So only users whom the operator trusts with the device borrow.
 */
#include <errno.h>
#include <net/if_arp.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/json.h"
#include "daemon/base/options.h"
#include "daemon/clients/request.h"
#include "daemon/io/io.h"
#include "daemon/netdev/net.h"
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

static int check(struct xd_client *c, const struct xr_lend_req *q)
{
	struct xd_slots_state state;

	if (q->flags & ~(uint32_t)(XR_LEND_VIEW | XR_LEND_INBOX | XR_LEND_FASTER) || q->reserved)
		return xd_refuse(c, -EINVAL, "flags 0x%x", q->flags | q->reserved);
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
				 c->dev->opt->slots ? "they could not be opened" : "--slots is 0");
	if (q->flags & XR_LEND_FASTER && xd_net_link(c->dev->net)->type == ARPHRD_LOOPBACK)
		return xd_refuse(c, -EOPNOTSUPP,
				 "all peers are on this host, and the daemon copies for them");
	if (!may_borrow(c))
		return xd_refuse(c, -EPERM,
				 "uid %u may not borrow sockets: it is not root, the daemon's "
				 "user, or one of --direct-users",
				 c->identity.uid);
	if (state.lent + state.retired == state.total)
		return xd_refuse(c, -EBUSY, "all %u slots are lent (--slots)", state.total);
	return 0;
}

static void write_reply(struct xd_client *c, const struct xd_loan *loan, struct xd_reply *rep)
{
	struct xr_lend_rep *body = XD_REPLY(rep, xr_lend_rep);

	body->slot = loan->slot;
	body->qpn_modulus = loan->qpn_modulus;
	body->qpn_rest = loan->qpn_rest;
	body->ipv6 = loan->ipv6;
	body->receive_buffer = loan->receive_buffer;
	body->segments = loan->segments;
	body->ports = loan->ports;
	memcpy(body->port, loan->port, sizeof(body->port));
	memcpy(body->mac, xd_net_link(c->dev->net)->mac, sizeof(body->mac));
	xd_reply_fd(rep, loan->fd, true);
	for (uint32_t i = 0; i < loan->ports; i++)
		xd_reply_fd(rep, loan->send_fd[i], false);
	xd_reply_fd(rep, c->events.async.fd, true);
	xd_reply_fd(rep, xd_direct_rules_fd(c), true);
}

static int take_inbox(struct xd_client *c, int *fd)
{
	int err = xd_user_take_fds(c, 1);

	if (err)
		return err;
	c->inbox = *fd;
	*fd = -1;
	return 0;
}

static void close_inbox(struct xd_client *c)
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
		err = take_inbox(c, &req->fds[n]);
	return err;
}

int xd_do_lend(struct xd_client *c, struct xd_request *req, struct xd_reply *rep)
{
	struct xd_loan loan;
	int err = check(c, req->body);

	if (err)
		return err;
	err = take_descriptors(c, req);
	if (!err)
		err = xd_direct_rules_open(c);
	if (!err)
		err = xd_io_lend(c->dev->io, &loan);
	if (err) {
		close_inbox(c);
		xd_direct_rules_close(c);
		xd_view_close(c);
		return err;
	}
	c->slot = loan.slot + 1;
	c->clients->borrower[loan.slot] = c;
	xd_captures_lend(c);
	write_reply(c, &loan, rep);
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
	close_inbox(c);
	xd_direct_rules_close(c);
	xd_view_publish_end(c);
	xd_view_close(c);
	xd_io_end_loan(c->dev->io, c->slot - 1);
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
		json_boolean(j, "view", c->view);
		json_number(j, "qps", xd_view_counts(c).qps);
		json_end(j, '}');
	}
	json_end(j, ']');
}

void xd_lend_show(struct json *j, const struct xd_client *c)
{
	struct xd_slots_state state;

	xd_io_slots(c->dev->io, &state);
	json_begin(j, "slots", '{');
	json_number(j, "total", state.total);
	json_number(j, "lent", state.lent);
	json_number(j, "retired", state.retired);
	show_loans(j, c);
	json_end(j, '}');
}
