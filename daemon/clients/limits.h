/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Limits: memory of each user, descriptors of all clients. */
#ifndef XD_LIMITS_H
#define XD_LIMITS_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/fd_quota.h"

struct xd_client;

/* The quota of one user, shared by all processes of that user */
struct xd_user {
	uid_t uid;
	uint32_t clients;
	uint64_t bytes; /* of registered memory and of rings */
	struct xd_user *next;
};

struct xd_limits {
	struct xd_user *users;	/* users with clients */
	struct xd_fd_quota fds; /* descriptors that objects hold */
};

void xd_limits_init(struct xd_limits *limits);

/* Sets c->user. -ENOMEM. */
int xd_user_join(struct xd_client *c);
void xd_user_leave(struct xd_client *c); /* no effect without a user */

/* Charges bytes to the quota of the client's user. -EDQUOT. */
int xd_user_charge(struct xd_client *c, uint64_t bytes);
void xd_user_uncharge(struct xd_client *c, uint64_t bytes);

#endif /* XD_LIMITS_H */
