// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/memory/own_memory.h"

#define OWN_MEMORY "/proc/self/mem"
/* Programs expect that small numbers are the next ones that they get. */
#define FIRST_NUMBER 256

static int kept = -1;
static struct stat identity; /* of the file */

static bool own_memory_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns true if the program has not closed or replaced the descriptor. */
static bool is_kept(void)
{
	struct stat st;

	return kept >= 0 && !fstat(kept, &st) && own_memory_is_same(&st, &identity);
}

/* Returns true if it is of this process: vfork() may leave the parent a number of its child. */
static bool memory_is_own(void)
{
	struct stat st;

	return is_kept() && !stat(OWN_MEMORY, &st) && own_memory_is_same(&st, &identity);
}

static void own_memory_in_child(void)
{
	if (is_kept())
		close(kept);
	kept = -1;
}

static void install_handler(void)
{
	pthread_atfork(NULL, NULL, own_memory_in_child);
}

static int open_now(void)
{
	return (int)syscall(SYS_openat, AT_FDCWD, OWN_MEMORY, O_RDWR | O_CLOEXEC);
}

int xp_own_memory_open(void)
{
	int fd = open_now();

	if (fd < 0 && errno == EACCES) {
		fd = memory_is_own() ? fcntl(kept, F_DUPFD_CLOEXEC, 0) : -1;
		return fd < 0 ? -EACCES : fd;
	}
	return fd < 0 ? -errno : fd;
}

void xp_own_memory_keep(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err = errno, fd;

	if (!memory_is_own()) {
		pthread_once(&once, install_handler);
		fd = open_now();
		kept = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_NUMBER);
		if (kept >= 0 && fstat(kept, &identity)) {
			close(kept);
			kept = -1;
		}
		if (fd >= 0)
			close(fd);
	}
	errno = err;
}
