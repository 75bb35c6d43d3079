/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kinds of memory, and where a region begins and ends */
#include "rdma_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- kinds of memory ------------------------ */

static bool mapped_usable(struct owner *o, const char *what, int flags, int fd)
{
	uint8_t *p = mmap(NULL, SIDE_BUF, RW, flags, fd, 0);
	bool ok;

	if (p == MAP_FAILED)
		return wrong(o, "mmap for %s: %s", what, strerror(errno));
	ok = usable(o, what, p, SIDE_BUF) && usable(o, what, p + 77, 1000001);
	munmap(p, SIDE_BUF);
	return ok;
}

static bool test_anonymous(struct owner *o)
{
	return mapped_usable(o, "private anonymous", MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static bool test_shared_anonymous(struct owner *o)
{
	return mapped_usable(o, "shared anonymous", MAP_SHARED | MAP_ANONYMOUS, -1);
}

int open_shm(size_t len)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "/rdma-memory-%d", getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd >= 0) {
		shm_unlink(name);
		if (ftruncate(fd, (off_t)len)) {
			close(fd);
			fd = -1;
		}
	}
	return fd;
}

static bool test_shm(struct owner *o)
{
	int fd = open_shm(SIDE_BUF);
	bool ok;

	if (fd < 0)
		return wrong(o, "shm_open: %s", strerror(errno));
	ok = mapped_usable(o, "shm", MAP_SHARED, fd);
	close(fd);
	return ok;
}

static bool test_memfd(struct owner *o)
{
	int fd = memfd_create("rdma-memory", MFD_CLOEXEC);
	bool ok;

	if (fd < 0 || ftruncate(fd, SIDE_BUF))
		return wrong(o, "memfd: %s", strerror(errno));
	ok = mapped_usable(o, "memfd", MAP_SHARED, fd) &&
	     mapped_usable(o, "private mapping of a memfd", MAP_PRIVATE, fd);
	close(fd);
	return ok;
}

/* A file of zeros that has no name any more */
static int open_file(struct owner *o)
{
	char name[] = "/var/tmp/rdma-memory.XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0 || unlink(name) || ftruncate(fd, SIDE_BUF)) {
		wrong(o, "file in /var/tmp: %s", strerror(errno));
		return -1;
	}
	return fd;
}

static bool file_holds(struct owner *o, int fd, size_t len, uint32_t seed)
{
	uint8_t *p = malloc(len);
	bool ok = p && pread(fd, p, len, 0) == (ssize_t)len && holds(p, len, seed, 0);

	free(p);
	return ok || wrong(o, "the file holds something else");
}

static bool test_file_private(struct owner *o)
{
	int fd = open_file(o);
	uint8_t *p = malloc(SIDE_BUF);
	bool ok;

	if (fd < 0 || !p)
		return false;
	pattern(p, SIDE_BUF, 9, 0);
	ok = pwrite(fd, p, SIDE_BUF, 0) == SIDE_BUF &&
	     mapped_usable(o, "private mapping of a file", MAP_PRIVATE, fd) &&
	     file_holds(o, fd, SIDE_BUF, 9);
	free(p);
	close(fd);
	return ok;
}

static bool test_file_shared(struct owner *o)
{
	int fd = open_file(o);
	bool ok = false;
	uint8_t *p;

	if (fd < 0)
		return false;
	p = mmap(NULL, SIDE_BUF, RW, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		ok = usable(o, "shared mapping of a file", p, SIDE_BUF) &&
		     file_holds(o, fd, SIDE_BUF, 4);
		munmap(p, SIDE_BUF);
	}
	close(fd);
	return ok;
}

/* Only for reading: by both sides, and by nobody for writing */
static bool readable(struct owner *o, const char *what, void *p, size_t len, uint32_t seed)
{
	struct ibv_mr *mr = reg(o, p, len, IBV_ACCESS_REMOTE_READ);
	bool ok;

	if (!mr)
		return false;
	ok = remote_read(o, mr, p, len, seed) && local_write(o, mr, p, len, seed) &&
	     expect(o, "partner's WRITE", remote(o, ASK_WRITE, mr, p, len),
		    IBV_WC_REM_ACCESS_ERR) &&
	     reconnect(o) &&
	     expect(o, "own READ into it", local(o, IBV_WR_RDMA_READ, mr, p, len),
		    IBV_WC_LOC_PROT_ERR) &&
	     reconnect(o) && (holds(p, len, seed, 0) || wrong(o, "it changed"));
	return dereg(o, mr) && ok && refused(o, what, p, len, SIDE_ACCESS, EFAULT);
}

static bool test_read_only(struct owner *o)
{
	int fd = open_file(o);
	uint8_t *p = anonymous(MIB), *q;
	bool ok;

	if (fd < 0 || !p)
		return false;
	pattern(p, MIB, 5, 0);
	ok = pwrite(fd, p, MIB, 0) == MIB && !mprotect(p, MIB, PROT_READ) &&
	     readable(o, "anonymous, read-only", p, MIB, 5);
	munmap(p, MIB);
	q = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE, fd, 0);
	ok = ok && q != MAP_FAILED && readable(o, "file, read-only", q, MIB, 5);
	munmap(q, MIB);
	close(fd);
	return ok;
}

static bool test_constant(struct owner *o)
{
	static const char text[] = "what a compiler puts beside the code";
	struct ibv_mr *mr = reg(o, (void *)text, sizeof(text), IBV_ACCESS_REMOTE_READ);
	char *copy = (char *)o->s.buf;
	struct ibv_sge back = { (uintptr_t)copy, sizeof(text), o->s.mr->lkey };
	bool ok;

	if (!mr)
		return false;
	ok = good(o, "partner's READ", remote(o, ASK_READ, mr, text, sizeof(text))) &&
	     good(o, "READ back",
		  side_rdma(&o->s, IBV_WR_RDMA_READ, &back, o->s.peer.addr, o->s.peer.rkey));
	return dereg(o, mr) && ok &&
	       (!memcmp(copy, text, sizeof(text)) || wrong(o, "another text arrived"));
}

static bool test_stack(struct owner *o)
{
	uint8_t p[20000];

	return usable(o, "stack", p, sizeof(p));
}

static bool test_static(struct owner *o)
{
	static uint8_t zeros[300000], data[100000] = { 1 };

	return usable(o, "bss", zeros, sizeof(zeros)) && usable(o, "data", data, sizeof(data));
}

static bool test_malloc(struct owner *o)
{
	static const size_t sizes[] = { 1, 100, 5000, 100000, 3000000 };
	bool ok = true;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && ok; i++) {
		uint8_t *p = malloc(sizes[i]);

		ok = p && usable(o, "malloc", p, sizes[i]);
		free(p);
	}
	return ok;
}

static bool huge_pages_usable(struct owner *o, const char *what, int flags)
{
	uint8_t *p = mmap(NULL, SIDE_BUF, RW, flags | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	bool ok;

	if (p == MAP_FAILED)
		return skip(o, "the system has too few free huge pages (vm.nr_hugepages)");
	ok = usable(o, what, p, SIDE_BUF) && usable(o, what, p + 5000, 2500000);
	munmap(p, SIDE_BUF);
	return ok;
}

static bool test_hugetlb(struct owner *o)
{
	return huge_pages_usable(o, "private huge pages", MAP_PRIVATE) &&
	       (o->skip || huge_pages_usable(o, "shared huge pages", MAP_SHARED));
}

/* ---- where a region begins and ends ------------------------ */

bool all(const uint8_t *p, size_t len, uint8_t value)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != value)
			return false;
	return true;
}

static bool test_unaligned(struct owner *o)
{
	static const size_t ends[][2] = { { 123, 1000001 }, { 4090, 12 },   { 4095, 2 },
					  { 1, 4095 },	    { 4095, 4098 }, { 4096, 1 },
					  { 8191, 8193 } };
	uint8_t *p = anonymous(2 * MIB);
	bool ok = !!p;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && ok; i++) {
		size_t start = ends[i][0], end = start + ends[i][1];

		memset(p, 0xa5, 2 * MIB);
		ok = usable(o, "unaligned", p + start, end - start) &&
		     ((all(p, start, 0xa5) && all(p + end, 2 * MIB - end, 0xa5)) ||
		      wrong(o, "bytes beside the region changed (%zu bytes at %zu)", end - start,
			    start));
	}
	munmap(p, 2 * MIB);
	return ok;
}

static bool no_bytes(struct owner *o, uint8_t *p)
{
	struct ibv_mr *mr = reg(o, p, 0, SIDE_ACCESS);
	bool ok;

	if (!mr)
		return false;
	ok = good(o, "WRITE of nothing", remote(o, ASK_WRITE, mr, p, 0)) &&
	     good(o, "READ of nothing", remote(o, ASK_READ, mr, p, 0)) &&
	     expect(o, "WRITE of a byte", remote(o, ASK_WRITE, mr, p, 1), IBV_WC_REM_ACCESS_ERR) &&
	     reconnect(o);
	return dereg(o, mr) && ok;
}

static bool test_zero_length(struct owner *o)
{
	uint8_t *p = anonymous(PAGE);
	bool ok = p && no_bytes(o, p) && no_bytes(o, p + 100) && no_bytes(o, NULL) &&
		  (all(p, PAGE, 0) || wrong(o, "bytes beside the region changed"));

	munmap(p, PAGE);
	return ok;
}

static bool map_mib(uint8_t *p, int flags, int fd)
{
	return mmap(p, MIB, RW, MAP_FIXED | flags, fd, 0) == p;
}

/* Four mappings of different kinds side by side, a MiB each */
static uint8_t *four_mappings(int fd)
{
	uint8_t *p = mmap(NULL, 4 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || !map_mib(p, MAP_PRIVATE | MAP_ANONYMOUS, -1) ||
	    !map_mib(p + MIB, MAP_SHARED | MAP_ANONYMOUS, -1) ||
	    !map_mib(p + 2 * MIB, MAP_PRIVATE, fd) ||
	    !map_mib(p + 3 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1))
		return NULL;
	return p;
}

static bool test_several_mappings(struct owner *o)
{
	int fd = open_file(o);
	uint8_t *p = fd < 0 ? NULL : four_mappings(fd);
	bool ok;

	if (!p)
		return wrong(o, "mmap: %s", strerror(errno));
	ok = usable(o, "four mappings", p, 4 * MIB) &&
	     usable(o, "four mappings", p + 333, 4 * MIB - 700) &&
	     usable(o, "from the second to the third", p + 2 * MIB - 5001, 10001);
	munmap(p, 4 * MIB);
	close(fd);
	return ok;
}

static bool test_hole(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	bool ok;

	munmap(p + 100 * PAGE, PAGE);
	ok = refused(o, "a hole inside", p, MIB, SIDE_ACCESS, EFAULT) &&
	     refused(o, "a hole at the end", p, 100 * PAGE + 1, SIDE_ACCESS, EFAULT) &&
	     refused(o, "a hole at the start", p + 101 * PAGE - 1, 2, SIDE_ACCESS, EFAULT) &&
	     refused(o, "nothing but a hole", p + 100 * PAGE, PAGE, SIDE_ACCESS, EFAULT) &&
	     usable(o, "before the hole", p, 100 * PAGE) &&
	     usable(o, "behind the hole", p + 101 * PAGE, MIB - 101 * PAGE);
	munmap(p, MIB);
	return ok;
}

static bool test_bad_range(struct owner *o)
{
	void *last = (void *)(UINTPTR_MAX - PAGE + 1);

	return refused(o, "beyond the last address", last, 2 * PAGE, SIDE_ACCESS, EINVAL) &&
	       refused(o, "round and beyond the start", last, SIZE_MAX, SIDE_ACCESS, EINVAL) &&
	       refused(o, "every address", NULL, SIZE_MAX, SIDE_ACCESS, EFAULT) &&
	       refused(o, "remote write without local write", o->s.buf, PAGE,
		       IBV_ACCESS_REMOTE_WRITE, EINVAL) &&
	       refused(o, "the first page", NULL, PAGE, SIDE_ACCESS, EFAULT);
}

/* ---- the list ------------------------ */

const struct test memory_kinds[] = {
	{ "anonymous", test_anonymous, "private anonymous memory" },
	{ "shared-anonymous", test_shared_anonymous, "shared anonymous memory" },
	{ "shm", test_shm, "POSIX shared memory" },
	{ "memfd", test_memfd, "a memfd, mapped shared and private" },
	{ "file-private", test_file_private, "a private mapping of a file, which stays as it was" },
	{ "file-shared", test_file_shared, "a shared mapping of a file, which changes" },
	{ "read-only", test_read_only, "read-only memory, for reading alone" },
	{ "constant", test_constant, "a constant of the program" },
	{ "stack", test_stack, "the stack" },
	{ "static", test_static, "static data, with and without a value" },
	{ "malloc", test_malloc, "what malloc gives, from 1 byte to 3 MB" },
	{ "hugetlb", test_hugetlb, "huge pages, private and shared" },
	{ "unaligned", test_unaligned, "any start and end; bytes beside the region stay" },
	{ "zero-length", test_zero_length, "regions of no bytes" },
	{ "several-mappings", test_several_mappings, "one region over several mappings" },
	{ "hole", test_hole, "a range with a hole is refused" },
	{ "bad-range", test_bad_range, "ranges and rights that cannot be are refused" },
	{ 0 },
};
