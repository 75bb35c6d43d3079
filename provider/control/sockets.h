/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Control sockets in the runtime directory: <runtime dir>/<device>.sock. */
#ifndef XP_SOCKETS_H
#define XP_SOCKETS_H

#include <stddef.h>

#define XP_SOCKET_PATH_MAX 108 /* with NUL: size of sun_path in struct sockaddr_un */

/*
 * Returns the names of the devices that have a socket in dir, sorted, with NULL at the end; to be
 * freed with xp_sockets_free(). Returns an empty list if dir does not exist, NULL and errno on
 * other errors.
 */
char **xp_sockets_list(const char *dir);
void xp_sockets_free(char **names);

/*
 * Stores the path, truncated if necessary. Returns -ENOENT for an impossible device name,
 * -ENAMETOOLONG if the path is too long for a socket.
 */
int xp_socket_path(char path[XP_SOCKET_PATH_MAX], const char *dir, const char *device);

/* Writes which users may connect to a socket, by its file mode. Looks up the group's name. */
void xp_socket_access(const char *path, char *text, size_t size);

#endif /* XP_SOCKETS_H */
