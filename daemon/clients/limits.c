// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <xroce/control.h>

#include "daemon/base/loop.h"
#include "daemon/base/options.h"
#include "daemon/datapath/worker.h"
#include "client.h"

/* Socket, pidfd and event socket of a connection; it has an eventfd for each worker as well. */
#define CONNECTION_FDS 3
/* Socket and timer of a channel of rdma_cm */
#define CHANNEL_FDS 2
#define CLIENT_BYTES ((struct xd_bytes){ .memory = sizeof(struct xd_client) })

void xd_limits_init(struct xd_limits *limits, uint32_t user_max_files)
{
	struct rlimit rl = { 0 };
	uint32_t all;

	getrlimit(RLIMIT_NOFILE, &rl);
	all = rl.rlim_cur > INT32_MAX ? INT32_MAX : (uint32_t)rl.rlim_cur;
	limits->user_max_files = user_max_files ? user_max_files : all / 4;
	/* The last quarter is for the daemon itself and for descriptors that requests bring. */
	limits->fds = (struct xd_fd_quota){
		.name = "three quarters of LimitNOFILE",
		.limit = all / 4 * 3,
	};
	limits->user_fds = (struct xd_fd_quota){
		.name = "half of LimitNOFILE",
		.limit = all / 2,
		.parent = &limits->fds,
	};
}

/* ---- messages ---------------------------------------------------------------------- */

int xd_limit_reached(struct xd_client *c, int err, const char *name, uint64_t value)
{
	return xd_refuse(c, err, "%s is %llu", name, (unsigned long long)value);
}

int xd_option_reached(struct xd_client *c, int err, size_t offset, uint64_t value)
{
	char name[40];

	snprintf(name, sizeof(name), "--%s", xd_option_name(offset));
	return xd_limit_reached(c, err, name, value);
}

#define REACHED(c, err, field)                                                                     \
	xd_option_reached(c, err, offsetof(struct xd_options, field), (c)->dev->opt->field)

/* ---- users ------------------------------------------------------------------------- */

static struct xd_user *new_user(struct xd_limits *limits, const struct xd_identity *id)
{
	struct xd_user *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->uid = id->uid;
	u->is_operator = id->is_operator;
	u->fds = (struct xd_fd_quota){
		.name = "--user-max-files",
		.limit = u->is_operator ? limits->fds.limit : limits->user_max_files,
		.parent = u->is_operator ? &limits->fds : &limits->user_fds,
	};
	u->next = limits->users;
	limits->users = u;
	return u;
}

/*
 * Frees the users that have neither clients, processes nor connections. One whose bucket is not
 * empty, or whose memory must not be mapped, stays: connecting again must not change that.
 */
static void free_users(struct xd_limits *limits, uint64_t now)
{
	struct xd_user **at = &limits->users, *u;

	while ((u = *at)) {
		if (u->clients || u->processes || u->orphans || u->bucket > now ||
		    u->unmapped_until > now) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		free(u);
	}
}

void xd_limits_free(struct xd_limits *limits)
{
	free_users(limits, UINT64_MAX);
}

void xd_users_free_unused(struct xd_limits *limits)
{
	free_users(limits, xd_now());
}

static uint32_t connection_fds(const struct xd_client *c)
{
	return c->connection.channel ? CHANNEL_FDS
				     : CONNECTION_FDS + xd_workers_count(c->dev->workers);
}

/* Checks the limits, and charges what a client without objects has. */
static int admit(struct xd_client *c)
{
	const struct xd_options *opt = c->dev->opt;
	const struct xd_user *u = c->user;
	uint32_t reserve = u->is_operator ? XD_RESERVED_CLIENTS : 0;
	int err;

	if (!u->is_operator && u->clients - u->channels >= opt->user_max_clients)
		return REACHED(c, -EDQUOT, user_max_clients);
	if (c->clients->count - c->clients->channels >= opt->max_clients + reserve)
		return REACHED(c, -ENOMEM, max_clients);
	err = xd_user_charge(c, CLIENT_BYTES);
	if (err)
		return err;
	err = xd_user_take_fds(c, connection_fds(c));
	if (err)
		xd_user_uncharge(c, CLIENT_BYTES);
	return err;
}

int xd_user_may_open_channel(struct xd_client *c)
{
	const struct xd_options *opt = c->dev->opt;
	const struct xd_user *u = c->user;
	uint32_t reserve = u->is_operator ? XD_RESERVED_CLIENTS : 0;

	if (!u->is_operator && u->channels >= opt->user_max_cm_channels)
		return REACHED(c, -EDQUOT, user_max_cm_channels);
	if (c->clients->channels >= opt->max_cm_channels + reserve)
		return REACHED(c, -ENOMEM, max_cm_channels);
	return 0;
}

void xd_user_opened_channel(struct xd_client *c)
{
	uint32_t fds = connection_fds(c);

	c->connection.channel = true;
	c->user->channels++;
	c->clients->channels++;
	xd_user_put_fds(c, fds - connection_fds(c));
}

int xd_user_join(struct xd_client *c)
{
	struct xd_limits *limits = &c->clients->limits;
	struct xd_user *u = limits->users;
	int err;

	while (u && u->uid != c->identity.uid)
		u = u->next;
	if (!u)
		u = new_user(limits, &c->identity);
	if (!u)
		return -ENOMEM;
	c->user = u;
	err = admit(c);
	if (err) {
		c->user = NULL;
		xd_users_free_unused(limits);
		return err;
	}
	u->clients++;
	return 0;
}

void xd_user_leave(struct xd_client *c)
{
	if (!c->user)
		return;
	xd_user_put_fds(c, connection_fds(c));
	xd_user_uncharge(c, CLIENT_BYTES);
	c->user->clients--;
	if (c->connection.channel) {
		c->user->channels--;
		c->clients->channels--;
	}
	xd_users_free_unused(&c->clients->limits);
}

/* ---- memory and descriptors -------------------------------------------------------- */

static bool exceeds(uint64_t used, uint64_t more, uint64_t max)
{
	return more && (used > max || more > max - used);
}

/* The pages that direct contexts have claimed are included. */
static uint64_t pinned_of(const struct xd_user *u)
{
	return u->bytes.pinned + (uint64_t)u->claims[XR_CLAIM_PAGES] * XR_CLAIM_PAGE;
}

uint32_t xd_user_pages_left(const struct xd_client *c)
{
	uint64_t used = pinned_of(c->user), max = c->dev->opt->user_max_pinned;
	uint64_t pages = used < max ? (max - used) / XR_CLAIM_PAGE : 0;
	uint32_t most = UINT32_MAX - c->clients->kinds.claims[XR_CLAIM_PAGES];

	return pages < most ? (uint32_t)pages : most;
}

int xd_user_reached_pages(struct xd_client *c)
{
	return REACHED(c, -EDQUOT, user_max_pinned);
}

int xd_user_charge(struct xd_client *c, struct xd_bytes bytes)
{
	const struct xd_options *opt = c->dev->opt;
	struct xd_bytes *used = &c->user->bytes;

	if (exceeds(pinned_of(c->user), bytes.pinned, opt->user_max_pinned))
		return xd_user_reached_pages(c);
	if (exceeds(used->memory, bytes.memory, opt->user_max_memory))
		return REACHED(c, -EDQUOT, user_max_memory);
	used->pinned += bytes.pinned;
	used->memory += bytes.memory;
	return 0;
}

int xd_client_charge(struct xd_client *c, uint64_t memory)
{
	int err = xd_user_charge(c, (struct xd_bytes){ .memory = memory });

	if (!err)
		c->charged += memory;
	return err;
}

void xd_client_uncharge(struct xd_client *c, uint64_t memory)
{
	xd_user_uncharge(c, (struct xd_bytes){ .memory = memory });
	c->charged -= memory;
}

void xd_user_uncharge(struct xd_client *c, struct xd_bytes bytes)
{
	c->user->bytes.pinned -= bytes.pinned;
	c->user->bytes.memory -= bytes.memory;
}

int xd_user_take_fds(struct xd_client *c, uint32_t n)
{
	const struct xd_fd_quota *full = xd_fds_full(&c->user->fds, n);

	if (full)
		return xd_limit_reached(c, -EMFILE, full->name, full->limit);
	return xd_fds_take(&c->user->fds, n) ? 0 : -EMFILE;
}

void xd_user_put_fds(struct xd_client *c, uint32_t n)
{
	xd_fds_put(&c->user->fds, n);
}
