/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Replies to requests. */
#ifndef XD_REPLY_H
#define XD_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#define XD_REPLY_MAX                                                                               \
	(sizeof(struct xr_query_gids_rep) + XR_GID_TABLE_LEN * sizeof(struct xr_gid_entry))

struct xd_reply {
	uint8_t body[XD_REPLY_MAX] __attribute__((aligned(8)));
	uint32_t length;
	int fd[XR_HELLO_MAX_FDS];
	bool keep[XR_HELLO_MAX_FDS]; /* the descriptor stays open after it was sent */
	uint32_t nfds;
};

/* Empties and returns the control thread's only reply. */
struct xd_reply *xd_reply_start(void);

/* Returns the body, all zero. */
#define XD_REPLY(rep, type) ((struct type *)xd_reply_body(rep, sizeof(struct type)))
void *xd_reply_body(struct xd_reply *rep, uint32_t length);
void xd_reply_fd(struct xd_reply *rep, int fd, bool keep);

/* Closes the descriptors of a reply that is not sent. NULL allowed */
void xd_reply_drop(struct xd_reply *rep);

/*
 * Writes a reply to a socket and closes its descriptors. If head.status is an error, the text `why`
 * takes the place of the body. rep: NULL if there is no body. Returns 0 or a negative errno.
 */
int xd_reply_write(int fd, struct xr_msg head, struct xd_reply *rep, const char *why);

#endif /* XD_REPLY_H */
