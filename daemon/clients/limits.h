/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of users and of the device. A user's limits hold for all of the user's clients together.
 * Operators, that is root and the daemon's user, have limits of memory only, and connections and
 * descriptors that no other user can take.
 */
#ifndef XD_LIMITS_H
#define XD_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/fd_quota.h"
#include "handles.h"

/* Connections beyond --max-clients, and channels beyond --max-cm-channels, for operators only */
#define XD_RESERVED_CLIENTS 16

/*
 * Memory of a process that serves one client: its stack, page tables and structures of the kernel.
 * A forked process shares the rest. Some 150 KiB on Linux 6.18.
 */
#define XD_PROCESS_BYTES (256u << 10)

struct xd_client;

/* Memory that counts for a user */
struct xd_bytes {
	uint64_t pinned; /* registered: --user-max-pinned */
	uint64_t memory; /* of the daemon, for rings and other data: --user-max-memory */
};

/* Sums over all clients of one user */
struct xd_user {
	uid_t uid;
	bool is_operator;
	uint32_t clients;
	uint32_t channels;  /* of rdma_cm, among the clients */
	uint32_t processes; /* gates and movers that have not ended, see processes.h */
	uint32_t objects[XD_MAX_KINDS], claims[XD_MAX_KINDS]; /* see struct xd_kinds */
	uint32_t orphans; /* connections that end after their ids, see rdma_cm/orphans.c */
	uint32_t groups;  /* multicast groups that QPs of the user are attached to */
	struct xd_bytes bytes;
	struct xd_fd_quota fds;
	uint64_t bucket;	 /* of processor time, see load.h */
	uint64_t unmapped_until; /* see objects/absent.h */
	struct xd_user *next;
};

struct xd_limits {
	struct xd_user *users;	     /* all that are remembered */
	uint32_t user_max_files;     /* descriptors of one user */
	struct xd_fd_quota fds;	     /* of all users */
	struct xd_fd_quota user_fds; /* of all users but operators */
};

void xd_limits_init(struct xd_limits *limits, uint32_t user_max_files);

void xd_limits_free(struct xd_limits *limits);
/* Frees the users that have neither clients nor anything that must be remembered. */
void xd_users_free_unused(struct xd_limits *limits);

/*
 * Stores the text "NAME is VALUE" for the reply, which explains the error to the program. Returns
 * err.
 */
int xd_limit_reached(struct xd_client *c, int err, const char *name, uint64_t value);
/* The same for the option at an offset in struct xd_options. */
int xd_option_reached(struct xd_client *c, int err, size_t offset, uint64_t value);

/*
 * Counts a new client and its descriptors for its user. Sets c->user. -ENOMEM: also if the device
 * has too many clients; -EDQUOT, -EMFILE.
 */
int xd_user_join(struct xd_client *c);
void xd_user_leave(struct xd_client *c); /* no effect without a user */

/*
 * Channels of rdma_cm have limits of their own. The first function returns -EDQUOT or -ENOMEM if a
 * limit is reached. The second counts a client as channel instead of as connection.
 */
int xd_user_may_open_channel(struct xd_client *c);
void xd_user_opened_channel(struct xd_client *c);

/* Charges all bytes to the client's user, or none. -EDQUOT. */
int xd_user_charge(struct xd_client *c, struct xd_bytes bytes);
/* Charges memory of the daemon at most until the client ends. -EDQUOT. */
int xd_client_charge(struct xd_client *c, uint64_t memory);
void xd_client_uncharge(struct xd_client *c, uint64_t memory);
void xd_user_uncharge(struct xd_client *c, struct xd_bytes bytes);

/* Pages that direct contexts of the client's user can claim still; explains that none is left. */
uint32_t xd_user_pages_left(const struct xd_client *c);
int xd_user_reached_pages(struct xd_client *c);

/* Takes descriptors for the client's user. -EMFILE. */
int xd_user_take_fds(struct xd_client *c, uint32_t n);
void xd_user_put_fds(struct xd_client *c, uint32_t n);

#endif /* XD_LIMITS_H */
