// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * hanging_fs DIR: a FUSE file system with three files. Reads of pages are never answered, nor are
 * close() of the file "flush", and stat(), statfs() and open() of the file "once" after it was
 * opened. The kernel waits for these without a way to interrupt that. Prints "mounted", and "read",
 * "flush", "stat", "statfs" or "open" for each such request. Everything that waits goes on, with
 * errors, when the program ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER (256u << 10) /* more than the kernel asks for */
#define FILE_ID 2
#define FLUSH_ID 3
#define ONCE_ID 4
#define FILE_SIZE (64u << 20)
#define TTL 3600 /* seconds for which attributes are valid */

static int fuse;
static bool opened; /* the file "once" */

static void reply(const struct fuse_in_header *in, int err, const void *data, size_t len)
{
	struct fuse_out_header out = { .error = -err, .unique = in->unique };
	struct iovec iov[2] = { { &out, sizeof(out) }, { (void *)data, err ? 0 : len } };

	out.len = (uint32_t)(sizeof(out) + iov[1].iov_len);
	(void)!writev(fuse, iov, 2);
}

static struct fuse_attr attr_of(uint64_t node)
{
	struct fuse_attr a = { .ino = node, .nlink = 1, .blksize = 4096 };

	a.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0666;
	a.size = node == FUSE_ROOT_ID ? 0 : FILE_SIZE;
	return a;
}

/* Attributes of the file "once" are valid for one system call only. */
static uint64_t attr_ttl(uint64_t node)
{
	return node == ONCE_ID ? 0 : TTL;
}

static void on_lookup(const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out out = { .entry_valid = TTL };

	if (!strcmp(name, "file"))
		out.nodeid = FILE_ID;
	if (!strcmp(name, "flush"))
		out.nodeid = FLUSH_ID;
	if (!strcmp(name, "once"))
		out.nodeid = ONCE_ID;
	out.attr_valid = attr_ttl(out.nodeid);
	out.attr = attr_of(out.nodeid);
	reply(in, out.nodeid ? 0 : ENOENT, &out, sizeof(out));
}

static void on_getattr(const struct fuse_in_header *in)
{
	struct fuse_attr_out out = {
		.attr_valid = attr_ttl(in->nodeid),
		.attr = attr_of(in->nodeid),
	};

	reply(in, 0, &out, sizeof(out));
}

/* Without FUSE_ASYNC_READ, a page fault waits in a way that no signal ends. */
static void on_init(const struct fuse_in_header *in)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = 31,
		.max_write = 65536,
	};

	reply(in, 0, &out, sizeof(out));
}

static void on_open(const struct fuse_in_header *in)
{
	/* else open() waits for pages that a read has locked */
	struct fuse_open_out out = { .fh = 1, .open_flags = FOPEN_KEEP_CACHE };

	opened |= in->nodeid == ONCE_ID;
	reply(in, 0, &out, sizeof(out));
}

/* Returns true if the request is about the file "once" and is not answered. */
static bool ignore(const struct fuse_in_header *in)
{
	if (in->nodeid != ONCE_ID || !opened)
		return false;
	switch (in->opcode) {
	case FUSE_GETATTR:
		puts("stat");
		return true;
	case FUSE_STATFS:
		puts("statfs");
		return true;
	case FUSE_OPEN:
		puts("open");
		return true;
	default:
		return false;
	}
}

static void serve(const struct fuse_in_header *in)
{
	if (ignore(in))
		return;
	switch (in->opcode) {
	case FUSE_INIT:
		on_init(in);
		return;
	case FUSE_LOOKUP:
		on_lookup(in, (const char *)(in + 1));
		return;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		on_getattr(in);
		return;
	case FUSE_OPEN:
		on_open(in);
		return;
	case FUSE_READ:
		puts("read");
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	case FUSE_FLUSH:
		if (in->nodeid == FLUSH_ID)
			puts("flush");
		else
			reply(in, 0, NULL, 0);
		return;
	case FUSE_RELEASE:
	case FUSE_FSYNC:
		reply(in, 0, NULL, 0);
		return;
	default:
		reply(in, ENOSYS, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	static uint8_t buffer[BUFFER] __attribute__((aligned(8)));
	char options[128];
	ssize_t n;

	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", fuse);
	if (argc != 2 || fuse < 0 ||
	    mount("hanging_fs", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) {
		fprintf(stderr, "hanging_fs: %s\n", strerror(errno));
		return 1;
	}
	setlinebuf(stdout);
	puts("mounted");
	do {
		n = read(fuse, buffer, sizeof(buffer));
		if (n >= (ssize_t)sizeof(struct fuse_in_header))
			serve((const struct fuse_in_header *)buffer);
	} while (n > 0 || errno == EINTR || errno == ENOENT);
	return 0;
}
