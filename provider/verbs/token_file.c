// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Token files. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider/verbs/token_file.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
#define MAGIC "xroce context 1"

int xp_token_file_create(const char *path, const uint8_t *token)
{
	struct xp_token_file t = { .magic = MAGIC };
	int fd = memfd_create("xroce-context", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	strncpy(t.path, path, sizeof(t.path) - 1);
	memcpy(t.token, token, sizeof(t.token));
	if (write(fd, &t, sizeof(t)) == sizeof(t) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	err = errno ? -errno : -EIO;
	close(fd);
	return err;
}

/* Checks the seals first: reading a memfd cannot block, reading other descriptors could. */
bool xp_token_file_read(int fd, struct xp_token_file *t)
{
	return fcntl(fd, F_GET_SEALS) == SEALS && pread(fd, t, sizeof(*t), 0) == sizeof(*t) &&
	       !memcmp(t->magic, MAGIC, sizeof(t->magic)) && memchr(t->path, 0, sizeof(t->path));
}
