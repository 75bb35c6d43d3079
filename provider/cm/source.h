/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A source of rdma_cm: a daemon, or the kernel's own rdma_cm where it exists. A channel has a
 * connection to each source, which takes commands and queues events.
 */
#ifndef XP_CM_SOURCE_H
#define XP_CM_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_user_cm.h>
#include <xroce/control.h>

#include "provider/control/connection.h"
#include "provider/control/sockets.h"

#define XP_CM_COMMAND_MAX 1024 /* bytes of a command's struct; the longest has 304 */
#define XP_CM_REPLY_MAX 4096
#define XP_CM_NOWHERE (-1)

/* Where the structs of commands have fields that are translated, or XP_CM_NOWHERE */
struct xp_cm_layout {
	int id;
	int response;
};

/* A command as librdmacm writes it */
struct xp_cm_command {
	uint32_t cmd; /* RDMA_USER_CM_CMD_* */
	uint16_t in;  /* bytes of the struct that were given; the rest is 0 */
	uint16_t out; /* room for the reply */
	union {
		uint8_t bytes[XP_CM_COMMAND_MAX];
		struct rdma_ucm_create_id create_id;
		struct rdma_ucm_bind_ip bind_ip;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_resolve_ip resolve_ip;
		struct rdma_ucm_resolve_addr resolve_addr;
		struct rdma_ucm_query query;
		struct rdma_ucm_init_qp_attr init_qp_attr;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_set_option set_option;
		struct rdma_ucm_join_ip_mcast join_ip;
		struct rdma_ucm_join_mcast join;
		struct rdma_ucm_migrate_id migrate;
	} u;
	/* Value of SET_OPTION, token of MIGRATE_ID */
	const void *extra;
	size_t extra_len;
};

struct xp_cm_source {
	struct xp_cm_source *next;     /* of the channel */
	uint32_t number;	       /* in the channel, never used again */
	char path[XP_SOCKET_PATH_MAX]; /* control socket; empty: the kernel */
	struct xp_conn conn;	       /* daemon */
	int kernel;		       /* device file of the kernel, or -1 */
	uint8_t token[XR_TOKEN_LEN];   /* daemon: names the channel for MIGRATE_ID */
	bool lost;		       /* the daemon is gone */
	bool watched;		       /* the connection is in the epoll set */
	unsigned int bound;	       /* ids that get DEVICE_REMOVAL when the daemon is gone */
	unsigned int removals;	       /* those that have not got it yet */
	unsigned int parts;	       /* handles */
};

/* Returns the layout of a command's struct; of unknown commands, XP_CM_NOWHERE for each field. */
struct xp_cm_layout xp_cm_layout(uint32_t cmd);

/*
 * Connects to the daemon with that control socket, by a HELLO with XR_HELLO_CM or XR_HELLO_UMAD.
 * *events is the descriptor of the reply. Returns 0 or -errno; -ENODEV if XROCE_DEVICES hides the
 * device.
 */
int xp_cm_source_connect(struct xp_cm_source *s, const char *path, uint32_t flag, int *events);
void xp_cm_source_close(struct xp_cm_source *s);

/*
 * Executes a command whose ids are those of the source. The reply is padded with zeros.
 * Returns the length of the reply or -errno; -EIO if the daemon is gone.
 * @room: at most XP_CM_REPLY_MAX
 */
int xp_cm_source_call(struct xp_cm_source *s, const struct xp_cm_command *c, void *rep,
		      size_t room);

/* Returns true if the source executes commands whose reply nobody waits for. */
bool xp_cm_source_hears(const struct xp_cm_source *s);
/* Gives the source a command without waiting for its reply. Returns 0 or -EIO. */
int xp_cm_source_tell(struct xp_cm_source *s, const struct xp_cm_command *c);

/* Returns true if another process may execute commands on the connection. */
bool xp_cm_source_shared(const struct xp_cm_source *s);

/* Returns true if the daemon has closed the connection, or its answers cannot be used. */
bool xp_cm_source_failed(const struct xp_cm_source *s);

#endif /* XP_CM_SOURCE_H */
