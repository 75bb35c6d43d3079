/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls on the emulated tree (tree.h). Some programs look for files of the kernel's RDMA core
 * before they use a device, and ignore the device if they are missing.
 *
 * The functions are called when the function of libc failed with ENOENT or ENOTDIR. Each returns
 * what that would for the emulated file. For all other paths it fails with the same errno.
 *
 * The kernel cannot make an emulated directory the working directory. chdir() stores its path
 * here, and the kernel's one is the parent of the tree, in which nothing can be created or removed.
 * Relative paths must not be passed to the kernel then. A child that is executed takes over the
 * path from PWD, which shells set.
 *
 * An opened file or directory is a memfd with the path in its name, so it can be recognized after
 * dup(), fork() and exec() without any table.
 */
#ifndef XP_PATHS_H
#define XP_PATHS_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

int xp_emulate_open(int dirfd, const char *path, int flags);

/*
 * A file that is read again from its start has its current text then. xp_emulate_rewind() is called
 * when the position of a descriptor has become 0, xp_emulate_read() before such a descriptor is
 * read.
 */
extern bool xp_files_opened; /* by this process, ever */
extern bool xp_any_rewound;  /* ever */
void xp_emulate_rewind(int fd);
void xp_emulate_read(int fd);

int xp_emulate_stat(int dirfd, const char *path, struct stat *st, bool follow);
int xp_emulate_access(int dirfd, const char *path, int mode);
ssize_t xp_emulate_readlink(int dirfd, const char *path, char *text, size_t size);
/* result: as of realpath() */
char *xp_emulate_realpath(const char *path, char *result);
/* Emulated files have no extended attributes: fails with EOPNOTSUPP. */
ssize_t xp_emulate_xattr(const char *path);

int xp_emulate_chdir(const char *path);
int xp_emulate_fchdir(int fd);
/* The working directory is one of the kernel now. */
void xp_changed_directory(void);
/* Path of the working directory if it is emulated, or NULL */
extern const char *xp_working_directory;

/* Returns true if a path is relative to an emulated working directory. dirfd as for openat(). */
static inline bool xp_is_inside(int dirfd, const char *path)
{
	return __atomic_load_n(&xp_working_directory, __ATOMIC_RELAXED) && dirfd == AT_FDCWD &&
	       path && *path != '/' && *path;
}

#define XP_DIRECTORY_MODE 0555
/* Corrects the result of fstat() of an emulated directory. */
void xp_emulate_fstat(int fd, struct stat *st);
/* Returns true if it may be one. Only a memfd is like this: a file that never had a name. */
static inline bool xp_may_be_directory(const struct stat *st)
{
	return !st->st_nlink && !st->st_size && st->st_mode == (S_IFREG | XP_DIRECTORY_MODE);
}

/*
 * The functions above and below use 10 KB of stack or more, because they hold paths. A thread or a
 * signal handler of the program may not have that. So the interposed functions ask these first,
 * which use little stack, keep errno, and are async-signal-safe. They return false for all paths
 * and descriptors that have nothing to do with the tree.
 *
 * xp_path_may_be_ours(): dirfd as for openat()
 * xp_path_may_list(): the same for a path that may be a directory of the kernel in which the tree
 * has names
 * xp_fd_may_be_directory(), xp_fd_may_be_file(): an open directory, an open file
 */
bool xp_path_may_be_ours(int dirfd, const char *path);
bool xp_path_may_list(int dirfd, const char *path);
bool xp_fd_may_be_directory(int fd);
bool xp_fd_may_be_file(int fd);
/* Takes the mark of xp_emulate_rewind(). Returns true if the descriptor had it. */
bool xp_take_rewound(int fd);

/*
 * Returns true if the path is one of the kernel's RDMA core that the program must not see
 * (XROCE_HIDE): the kernel is not asked for it then. dirfd as for openat()
 */
bool xp_path_is_hidden(int dirfd, const char *path);
/* The same for a name in a directory with a canonical path */
bool xp_name_is_hidden(const char *directory, const char *name);

/*
 * Stores the canonical path if it may be one of the tree, or of a directory that the tree has names
 * in, or is relative to an emulated working directory. dirfd as for openat(). No links are
 * followed.
 */
bool xp_path_of_interest(int dirfd, const char *path, char canonical[PATH_MAX]);
/* The same for an open directory */
bool xp_fd_of_interest(int fd, char canonical[PATH_MAX]);

/*
 * Follows the links of the tree. Returns true if the path led through one to a path that is not in
 * the tree, which is stored.
 */
bool xp_path_follow(char canonical[PATH_MAX]);

#endif /* XP_PATHS_H */
