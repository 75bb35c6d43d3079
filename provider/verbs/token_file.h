/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Token files: the cmd_fd of a context is a sealed memfd with the token that the daemon gave the
 * context. A process of the same user that gets a copy of it can open a context of its own, and
 * import PDs, regions and device memory of the first context into it.
 */
#ifndef XP_TOKEN_FILE_H
#define XP_TOKEN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <xroce/control.h>

#include "provider/control/sockets.h"

struct xp_token_file {
	char magic[16];
	char path[XP_SOCKET_PATH_MAX]; /* of the control socket */
	uint8_t token[XR_TOKEN_LEN];
};

/* Returns a descriptor, or -errno. */
int xp_token_file_create(const char *path, const uint8_t *token);

/* Reads a token file. Returns false if fd is anything else. */
bool xp_token_file_read(int fd, struct xp_token_file *t);

#endif /* XP_TOKEN_FILE_H */
