/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runtime directories, in which daemons have their control sockets. Programs, the `xroce` command
 * and what it starts look into the same ones:
 *
 *   1. XROCE_RUNTIME_DIR, and no other if it is set
 *   2. /run/xroce, of daemons that root started
 *   3. $XDG_RUNTIME_DIR/xroce, of a daemon of this user
 *   4. /tmp/xroce-UID, the same for a user without XDG_RUNTIME_DIR
 *
 * The last two are ignored unless they belong to this user alone: others could offer a socket of
 * their own there.
 */
#ifndef XP_RUNTIME_DIR_H
#define XP_RUNTIME_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "provider/control/sockets.h"

enum xp_runtime_place { XP_DIR_SYSTEM, XP_DIR_SESSION, XP_DIR_TMP, XP_DIR_PLACES };

/*
 * Returns the directory to use: of those above, the first with a socket to which this user may
 * connect. If there are several, the first one in which a daemon answers, because a daemon that
 * was killed leaves its socket. If there is none, the one that this process has used before, or
 * /run/xroce. The text is valid until this thread calls the function again. Keeps errno.
 */
const char *xp_runtime_dir(void);

/* Stores the path of a place. Returns false if this user has none there. */
bool xp_runtime_place(enum xp_runtime_place place, char path[XP_SOCKET_PATH_MAX]);

/*
 * Returns 0 if nobody but this user can have put files into the directory: it is no symbolic link,
 * belongs to the user, is for the user only, and others cannot replace it in its parent. -ENOENT:
 * it does not exist. Other errors: `why` has the reason, without the path.
 */
int xp_private_dir(const char *path, char *why, size_t size);

/* Returns true if a daemon accepts connections of this user at one of the directory's sockets. */
bool xp_runtime_dir_answers(const char *path);

#endif /* XP_RUNTIME_DIR_H */
