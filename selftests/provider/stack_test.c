// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stack that the interposed functions of libc need for paths and descriptors that are not ours,
 * compared with the functions that they replace. A thread or a signal handler of the program may
 * have little more than these need.
 */
#include "fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "../lib/tap.h"

#define STACK (256u << 10)
#define PAINT 0xa5
#define NOBODY 65534
#define MORE_MAX 1024 /* bytes that an interposed function may need more */

/* ---- the calls ------------------------------------------------------------------ */

/* What a call is given: a path that exists or not, a descriptor, an open stream */
struct given {
	const char *path;
	int dirfd, fd;
	void *dir;
};

static char text[PATH_MAX];
static union {
	struct stat st;
	struct statx stx;
	struct dirent entry;
	glob_t glob;
	struct sigaction action;
	sigset_t mask;
} out;
static struct dirent *entry, **entries;

#define CALLS(X)                                                                                   \
	X(access, int, (const char *, int), (g->path, R_OK))                                       \
	X(eaccess, int, (const char *, int), (g->path, R_OK))                                      \
	X(euidaccess, int, (const char *, int), (g->path, R_OK))                                   \
	X(faccessat, int, (int, const char *, int, int), (g->dirfd, g->path, R_OK, 0))             \
	X(stat, int, (const char *, void *), (g->path, &out))                                      \
	X(stat64, int, (const char *, void *), (g->path, &out))                                    \
	X(lstat, int, (const char *, void *), (g->path, &out))                                     \
	X(lstat64, int, (const char *, void *), (g->path, &out))                                   \
	X(fstatat, int, (int, const char *, void *, int), (g->dirfd, g->path, &out, 0))            \
	X(fstatat64, int, (int, const char *, void *, int), (g->dirfd, g->path, &out, 0))          \
	X(__xstat, int, (int, const char *, void *), (1, g->path, &out))                           \
	X(__xstat64, int, (int, const char *, void *), (1, g->path, &out))                         \
	X(__lxstat, int, (int, const char *, void *), (1, g->path, &out))                          \
	X(__lxstat64, int, (int, const char *, void *), (1, g->path, &out))                        \
	X(__fxstatat, int, (int, int, const char *, void *, int), (1, g->dirfd, g->path, &out, 0)) \
	X(__fxstatat64, int, (int, int, const char *, void *, int),                                \
	  (1, g->dirfd, g->path, &out, 0))                                                         \
	X(statx, int, (int, const char *, int, unsigned int, void *),                              \
	  (g->dirfd, g->path, 0, STATX_MODE, &out))                                                \
	X(readlink, ssize_t, (const char *, char *, size_t), (g->path, text, sizeof(text)))        \
	X(readlinkat, ssize_t, (int, const char *, char *, size_t),                                \
	  (g->dirfd, g->path, text, sizeof(text)))                                                 \
	X(__readlink_chk, ssize_t, (const char *, char *, size_t, size_t),                         \
	  (g->path, text, sizeof(text), sizeof(text)))                                             \
	X(__readlinkat_chk, ssize_t, (int, const char *, char *, size_t, size_t),                  \
	  (g->dirfd, g->path, text, sizeof(text), sizeof(text)))                                   \
	X(realpath, char *, (const char *, char *), (g->path, text))                               \
	X(__realpath_chk, char *, (const char *, char *, size_t), (g->path, text, sizeof(text)))   \
	X(canonicalize_file_name, char *, (const char *), (g->path))                               \
	X(chdir, int, (const char *), (g->path))                                                   \
	X(fchdir, int, (int), (g->dirfd))                                                          \
	X(getcwd, char *, (char *, size_t), (text, sizeof(text)))                                  \
	X(__getcwd_chk, char *, (char *, size_t, size_t), (text, sizeof(text), sizeof(text)))      \
	X(get_current_dir_name, char *, (void), ())                                                \
	X(getxattr, ssize_t, (const char *, const char *, void *, size_t),                         \
	  (g->path, "user.x", text, 9))                                                            \
	X(lgetxattr, ssize_t, (const char *, const char *, void *, size_t),                        \
	  (g->path, "user.x", text, 9))                                                            \
	X(listxattr, ssize_t, (const char *, char *, size_t), (g->path, text, sizeof(text)))       \
	X(llistxattr, ssize_t, (const char *, char *, size_t), (g->path, text, sizeof(text)))      \
	X(open, int, (const char *, int, ...), (g->path, O_RDONLY))                                \
	X(open64, int, (const char *, int, ...), (g->path, O_RDONLY))                              \
	X(openat, int, (int, const char *, int, ...), (g->dirfd, g->path, O_RDONLY))               \
	X(openat64, int, (int, const char *, int, ...), (g->dirfd, g->path, O_RDONLY))             \
	X(__open_2, int, (const char *, int), (g->path, O_RDONLY))                                 \
	X(__open64_2, int, (const char *, int), (g->path, O_RDONLY))                               \
	X(__openat_2, int, (int, const char *, int), (g->dirfd, g->path, O_RDONLY))                \
	X(__openat64_2, int, (int, const char *, int), (g->dirfd, g->path, O_RDONLY))              \
	X(fopen, void *, (const char *, const char *), (g->path, "r"))                             \
	X(fopen64, void *, (const char *, const char *), (g->path, "r"))                           \
	X(fstat, int, (int, void *), (g->fd, &out))                                                \
	X(fstat64, int, (int, void *), (g->fd, &out))                                              \
	X(__fxstat, int, (int, int, void *), (1, g->fd, &out))                                     \
	X(__fxstat64, int, (int, int, void *), (1, g->fd, &out))                                   \
	X(lseek, off_t, (int, off_t, int), (g->fd, 0, SEEK_SET))                                   \
	X(lseek64, off_t, (int, off_t, int), (g->fd, 0, SEEK_SET))                                 \
	X(read, ssize_t, (int, void *, size_t), (g->fd, text, 1))                                  \
	X(write, ssize_t, (int, const void *, size_t), (g->fd, "", 1))                             \
	X(ioctl, int, (int, unsigned long, ...), (g->fd, FIONREAD, &out))                          \
	X(fcntl, int, (int, int, ...), (g->fd, F_GETFD))                                           \
	X(fcntl64, int, (int, int, ...), (g->fd, F_GETFD))                                         \
	X(dup, int, (int), (g->fd))                                                                \
	X(dup2, int, (int, int), (g->fd, 100))                                                     \
	X(dup3, int, (int, int, int), (g->fd, 100, 0))                                             \
	X(close, int, (int), (100))                                                                \
	X(close_range, int, (unsigned int, unsigned int, int), (100, 110, 0))                      \
	X(closefrom, void *, (int), (100))                                                         \
	X(opendir, void *, (const char *), (g->path))                                              \
	X(fdopendir, void *, (int), (g->fd))                                                       \
	X(scandir, int, (const char *, struct dirent ***, void *, void *),                         \
	  (g->path, &entries, 0, 0))                                                               \
	X(scandir64, int, (const char *, struct dirent ***, void *, void *),                       \
	  (g->path, &entries, 0, 0))                                                               \
	X(scandirat, int, (int, const char *, struct dirent ***, void *, void *),                  \
	  (g->dirfd, g->path, &entries, 0, 0))                                                     \
	X(scandirat64, int, (int, const char *, struct dirent ***, void *, void *),                \
	  (g->dirfd, g->path, &entries, 0, 0))                                                     \
	X(glob, int, (const char *, int, void *, void *), (g->path, 0, NULL, &out))                \
	X(glob64, int, (const char *, int, void *, void *), (g->path, 0, NULL, &out))              \
	X(readdir, void *, (void *), (g->dir))                                                     \
	X(readdir64, void *, (void *), (g->dir))                                                   \
	X(readdir_r, int, (void *, void *, struct dirent **), (g->dir, &out, &entry))              \
	X(readdir64_r, int, (void *, void *, struct dirent **), (g->dir, &out, &entry))            \
	X(telldir, long, (void *), (g->dir))                                                       \
	X(seekdir, void *, (void *, long), (g->dir, 0))                                            \
	X(rewinddir, void *, (void *), (g->dir))                                                   \
	X(dirfd, int, (void *), (g->dir))                                                          \
	X(closedir, int, (void *), (opened))                                                       \
	X(setuid, int, (uid_t), (NOBODY))                                                          \
	X(seteuid, int, (uid_t), (NOBODY))                                                         \
	X(setreuid, int, (uid_t, uid_t), (NOBODY, NOBODY))                                         \
	X(setresuid, int, (uid_t, uid_t, uid_t), (NOBODY, NOBODY, NOBODY))                         \
	X(setfsuid, int, (uid_t), (NOBODY))                                                        \
	X(madvise, int, (void *, size_t, int), (NULL, 4096, MADV_DONTNEED))                        \
	X(mremap, void *, (void *, size_t, size_t, int, ...), (NULL, 4096, 4096, 0))               \
	X(sigaction, int, (int, const void *, void *), (SIGSEGV, NULL, &out))                      \
	X(signal, void *, (int, void *), (SIGUSR1, NULL))                                          \
	X(sigprocmask, int, (int, const void *, void *), (SIG_BLOCK, NULL, &out))                  \
	X(pthread_sigmask, int, (int, const void *, void *), (SIG_BLOCK, NULL, &out))              \
	X(prctl, int, (int, ...), (PR_SET_DUMPABLE, 0ul))                                          \
	X(dlopen, void *, (const char *, int), (g->path, RTLD_NOW))

static void *opened; /* a stream for closedir() */

#define DEFINE(name, type, params, args)                                                           \
	static void call_##name(void *fn, const struct given *g)                                   \
	{                                                                                          \
		((type(*) params)fn) args;                                                         \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-result"
CALLS(DEFINE)
#pragma GCC diagnostic pop

static const struct call {
	const char *name;
	void (*fn)(void *fn, const struct given *g);
} calls[] = {
#define ROW(name, type, params, args) { #name, call_##name },
	CALLS(ROW)
};
#define CALL_COUNT (sizeof(calls) / sizeof(calls[0]))

/* ---- measurement ------------------------------------------------------------------ */

static struct {
	const struct call *call;
	void *fn;
	const struct given *given;
	int err;
} job;
static ucontext_t here, there;

static void run_job(void)
{
	errno = 0;
	job.call->fn(job.fn, job.given);
	job.err = errno;
}

/* Calls a function on a new stack. Returns the bytes of it that were used. */
static size_t used_by(const struct call *call, void *fn, const struct given *given)
{
	uint8_t *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	size_t n;

	memset(stack, PAINT, STACK);
	job.call = call;
	job.fn = fn;
	job.given = given;
	opened = strcmp(call->name, "closedir") ? NULL : opendir("/proc/self");
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK;
	there.uc_link = &here;
	makecontext(&there, run_job, 0);
	swapcontext(&here, &there);
	for (n = 0; n < STACK && stack[n] == PAINT; n++)
		;
	munmap(stack, STACK);
	return STACK - n;
}

struct result {
	size_t used;
	int err;
};

/* In a process of its own: calls change descriptors, and the first one of a kind needs more. */
static struct result measure(const struct call *call, void *fn, const struct given *given)
{
	struct result *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct result r = { .used = STACK };
	pid_t pid = fork();

	if (!pid) {
		r.used = used_by(call, fn, given);
		r.err = job.err;
		*shared = r;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	r = *shared;
	munmap(shared, sizeof(*shared));
	return r;
}

static void *libc;

static void *real_function(const char *name)
{
	void *fn = dlsym(libc, name);

	return fn ? fn : dlvsym(libc, name, "GLIBC_2.2.5");
}

static void check(const struct call *call, const struct given *given, size_t n)
{
	void *real = real_function(call->name), *ours = dlsym(RTLD_DEFAULT, call->name);
	long more, most = 0;
	bool same = true;

	if (!real) {
		tap_skip(call->name, "this libc does not have it");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		struct result with = measure(call, ours, &given[i]);
		struct result without = measure(call, real, &given[i]);

		more = (long)with.used - (long)without.used;
		if (more >= MORE_MAX || !without.used || with.err != without.err)
			printf("# %s of %s: %zu bytes, %zu without, errno %d and %d\n", call->name,
			       given[i].path, with.used, without.used, with.err, without.err);
		most = more > most ? more : most;
		same = same && without.used && with.err == without.err;
	}
	TAP_OK(real != ours && most < MORE_MAX && same, "%s: %ld bytes more, the same errno",
	       call->name, most);
}

/* Every function of libc that the library exports is in the table. */
static void completeness(const char *library)
{
	char command[PATH_MAX], name[256];
	unsigned int functions = 0, missing = 0;
	size_t i;
	FILE *nm;

	snprintf(command, sizeof(command), "LD_PRELOAD= nm -D --defined-only %s", library);
	nm = popen(command, "r");
	while (nm && fscanf(nm, "%*s %*s %255s", name) == 1) {
		name[strcspn(name, "@")] = 0;
		if (!real_function(name))
			continue;
		for (i = 0; i < CALL_COUNT && strcmp(calls[i].name, name); i++)
			;
		functions++;
		missing += i == CALL_COUNT;
		if (i == CALL_COUNT)
			printf("# %s is not tested\n", name);
	}
	if (nm)
		pclose(nm);
	TAP_OK(functions && !missing, "all %u interposed functions of libc are tested", functions);
}

/* Makes all conditions true under which the functions look at more than one flag. */
static void use_emulated_files(void)
{
	int fd = open("/sys/class/infiniband/" FAKE_DEVICE "/node_guid", O_RDONLY);
	DIR *dir = opendir("/sys/class/infiniband");

	TAP_OK(fd >= 0 && dir && read(fd, text, 5) == 5 && !lseek(fd, 0, SEEK_SET),
	       "an emulated file and an emulated directory are open");
}

int main(void)
{
	struct fixture f;
	int regular, directory;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	tap_skip("stack of interposed functions", "sanitizers need more of it");
	return tap_end();
#endif
	setup(&f);
	libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	completeness(getenv("LD_PRELOAD"));
	use_emulated_files();
	regular = open(f.dir, O_TMPFILE | O_RDWR, 0600);
	directory = open("/proc/self", O_RDONLY | O_DIRECTORY);
	const struct given given[] = {
		{ "/nonexistent/file", AT_FDCWD, regular, opendir("/proc/self") },
		{ "nonexistent", AT_FDCWD, regular, opendir("/proc/self") },
		{ "nonexistent", directory, directory, opendir("/proc/self") },
		{ "/dev/nonexistent", directory, -1, opendir("/proc/self") },
		{ "/sys/class/nonexistent", AT_FDCWD, -1, opendir("/proc/self") },
		{ "/etc/infiniband/nonexistent", AT_FDCWD, -1, opendir("/proc/self") },
		{ "/proc/self/status", AT_FDCWD, regular, opendir("/proc/self") },
		{ "status", directory, directory, opendir("/proc/self") },
		{ "/proc/self", directory, regular, opendir("/proc/self") },
	};
	for (size_t i = 0; i < CALL_COUNT; i++)
		check(&calls[i], given, sizeof(given) / sizeof(given[0]));
	teardown(&f);
	return tap_end();
}
