/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process behind a client's connection, its user and its groups. */
#ifndef XD_IDENTITY_H
#define XD_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/groups.h"

struct xd_identity {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	struct xd_groups groups;
	bool is_operator;
	int pidfd; /* -1: the kernel has none for the peer */
	char comm[16];
};

/* Reads the peer's credentials, which a socket keeps from connect(). */
void xd_identity_open(struct xd_identity *id, int fd);
void xd_identity_forget_process(struct xd_identity *id); /* closes pidfd */
void xd_identity_close(struct xd_identity *id);

#endif /* XD_IDENTITY_H */
