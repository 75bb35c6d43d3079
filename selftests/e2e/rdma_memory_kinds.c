/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tests of rdma_memory: kinds of memory, and the boundaries of regions. */
#include "rdma_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- kinds of memory ------------------------ */

static bool check_mapping(struct owner *o, const char *what, int flags, int fd)
{
	uint8_t *p = mmap(NULL, EP_BUF_SIZE, RW, flags, fd, 0);
	bool ok;

	if (p == MAP_FAILED)
		return fail(o, "mmap for %s: %s", what, strerror(errno));
	ok = check_memory(o, what, p, EP_BUF_SIZE) && check_memory(o, what, p + 77, 1000001);
	munmap(p, EP_BUF_SIZE);
	return ok;
}

/* Like check_mapping(), for memory that the daemon must be able to map */
static bool check_shared(struct owner *o, const char *what, int flags, int fd)
{
	uint8_t *p = mmap(NULL, EP_BUF_SIZE, RW, MAP_SHARED | flags, fd, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : reg(o, p, EP_BUF_SIZE, EP_ACCESS);
	bool ok;

	if (!mr)
		return fail(o, "mmap for %s: %s", what, strerror(errno));
	ok = expect_tier(o, mr, "shared");
	ok = dereg(o, mr) && ok;
	munmap(p, EP_BUF_SIZE);
	return ok && check_mapping(o, what, MAP_SHARED | flags, fd);
}

static bool test_anonymous(struct owner *o)
{
	return check_mapping(o, "private anonymous", MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static bool test_shared_anonymous(struct owner *o)
{
	return check_shared(o, "shared anonymous", MAP_ANONYMOUS, -1);
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
	int fd = open_shm(EP_BUF_SIZE);
	bool ok;

	if (fd < 0)
		return fail(o, "shm_open: %s", strerror(errno));
	ok = check_shared(o, "shm", 0, fd);
	close(fd);
	return ok;
}

static bool test_memfd(struct owner *o)
{
	int fd = memfd_create("rdma-memory", MFD_CLOEXEC);
	bool ok;

	if (fd < 0 || ftruncate(fd, EP_BUF_SIZE))
		return fail(o, "memfd: %s", strerror(errno));
	ok = check_shared(o, "memfd", 0, fd) &&
	     check_mapping(o, "private mapping of a memfd", MAP_PRIVATE, fd);
	close(fd);
	return ok;
}

/* Creates an unlinked file of EP_BUF_SIZE zeros. */
static int open_file(struct owner *o)
{
	char name[] = "/var/tmp/rdma-memory.XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0 || unlink(name) || ftruncate(fd, EP_BUF_SIZE)) {
		fail(o, "file in /var/tmp: %s", strerror(errno));
		return -1;
	}
	return fd;
}

static bool file_holds(struct owner *o, int fd, size_t len, uint32_t seed)
{
	uint8_t *p = malloc(len);
	bool ok = p && pread(fd, p, len, 0) == (ssize_t)len && has_pattern(p, len, seed, 0);

	free(p);
	return ok || fail(o, "the file has the wrong content");
}

static bool test_file_private(struct owner *o)
{
	int fd = open_file(o);
	uint8_t *p = malloc(EP_BUF_SIZE);
	bool ok;

	if (fd < 0 || !p)
		return false;
	fill_pattern(p, EP_BUF_SIZE, 9, 0);
	ok = pwrite(fd, p, EP_BUF_SIZE, 0) == EP_BUF_SIZE &&
	     check_mapping(o, "private mapping of a file", MAP_PRIVATE, fd) &&
	     file_holds(o, fd, EP_BUF_SIZE, 9);
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
	p = mmap(NULL, EP_BUF_SIZE, RW, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		ok = check_memory(o, "shared mapping of a file", p, EP_BUF_SIZE) &&
		     file_holds(o, fd, EP_BUF_SIZE, 4);
		munmap(p, EP_BUF_SIZE);
	}
	close(fd);
	return ok;
}

/* Memory that cannot be written: both programs can read it, neither can write it. */
static bool check_read_only(struct owner *o, const char *what, void *p, size_t len, uint32_t seed)
{
	struct ibv_mr *mr = reg(o, p, len, IBV_ACCESS_REMOTE_READ);
	bool ok;

	if (!mr)
		return false;
	ok = check_partner_read(o, mr, p, len, seed) && check_own_write(o, mr, p, len, seed) &&
	     expect(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, p, len),
		    IBV_WC_REM_ACCESS_ERR) &&
	     reconnect(o) &&
	     expect(o, "own READ into read-only memory", own_rdma(o, IBV_WR_RDMA_READ, mr, p, len),
		    IBV_WC_LOC_PROT_ERR) &&
	     reconnect(o) && (has_pattern(p, len, seed, 0) || fail(o, "read-only memory changed"));
	return dereg(o, mr) && ok && reg_fails(o, what, p, len, EP_ACCESS, EFAULT);
}

static bool test_read_only(struct owner *o)
{
	int fd = open_file(o);
	uint8_t *p = map_anonymous(MIB), *q;
	bool ok;

	if (fd < 0 || !p)
		return false;
	fill_pattern(p, MIB, 5, 0);
	ok = pwrite(fd, p, MIB, 0) == MIB && !mprotect(p, MIB, PROT_READ) &&
	     check_read_only(o, "anonymous, read-only", p, MIB, 5);
	munmap(p, MIB);
	q = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE, fd, 0);
	ok = ok && q != MAP_FAILED && check_read_only(o, "file, read-only", q, MIB, 5);
	munmap(q, MIB);
	close(fd);
	return ok;
}

static bool test_constant(struct owner *o)
{
	static const char text[] = "a constant in the read-only data of the program";
	struct ibv_mr *mr = reg(o, (void *)text, sizeof(text), IBV_ACCESS_REMOTE_READ);
	char *copy = (char *)o->ep.buf;
	struct ibv_sge back = { (uintptr_t)copy, sizeof(text), o->ep.mr->lkey };
	bool ok;

	if (!mr)
		return false;
	ok = expect_ok(o, "partner's READ", partner_rdma(o, EP_READ, mr, text, sizeof(text))) &&
	     expect_ok(o, "READ back",
		       ep_rdma(&o->ep, IBV_WR_RDMA_READ, &back, o->ep.peer.addr, o->ep.peer.rkey));
	return dereg(o, mr) && ok && (!memcmp(copy, text, sizeof(text)) || fail(o, "wrong data"));
}

static bool test_stack(struct owner *o)
{
	uint8_t p[20000];

	return check_memory(o, "stack", p, sizeof(p));
}

static bool test_static(struct owner *o)
{
	static uint8_t zeros[300000], data[100000] = { 1 };

	return check_memory(o, "bss", zeros, sizeof(zeros)) &&
	       check_memory(o, "data", data, sizeof(data));
}

static bool test_malloc(struct owner *o)
{
	static const size_t sizes[] = { 1, 100, 5000, 100000, 3000000 };
	bool ok = true;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && ok; i++) {
		uint8_t *p = malloc(sizes[i]);

		ok = p && check_memory(o, "malloc", p, sizes[i]);
		free(p);
	}
	return ok;
}

static bool check_huge_pages(struct owner *o, const char *what, int flags)
{
	uint8_t *p = mmap(NULL, EP_BUF_SIZE, RW, flags | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	bool ok;

	if (p == MAP_FAILED)
		return skip(o, "the system has too few free huge pages (vm.nr_hugepages)");
	ok = check_memory(o, what, p, EP_BUF_SIZE) && check_memory(o, what, p + 5000, 2500000);
	munmap(p, EP_BUF_SIZE);
	return ok;
}

static bool test_hugetlb(struct owner *o)
{
	return check_huge_pages(o, "private huge pages", MAP_PRIVATE) &&
	       (o->skip || check_huge_pages(o, "shared huge pages", MAP_SHARED));
}

/* ---- what a registration touches ------------------------ */

struct handler {
	int uffd;
	size_t len;
	uint8_t *page; /* content of all pages */
	unsigned int faults;
};

/* Fills each page that is accessed, until the descriptor is closed by the end of the thread. */
static void *handle_faults(void *arg)
{
	struct handler *h = arg;
	struct uffd_msg msg;

	while (read(h->uffd, &msg, sizeof(msg)) == sizeof(msg)) {
		struct uffdio_copy copy = {
			.dst = msg.arg.pagefault.address & ~(uint64_t)(PAGE - 1),
			.src = (uintptr_t)h->page,
			.len = PAGE,
		};

		h->faults++;
		if (ioctl(h->uffd, UFFDIO_COPY, &copy))
			break;
	}
	return NULL;
}

static bool open_handler(struct handler *h, uint8_t *p)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)p, h->len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	h->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	return h->uffd >= 0 && !ioctl(h->uffd, UFFDIO_API, &api) &&
	       !ioctl(h->uffd, UFFDIO_REGISTER, &reg);
}

/* Registration waits for the thread that fills the pages, as it would with other devices. */
static bool test_userfault(struct owner *o)
{
	struct handler h = { .len = 16 * PAGE, .page = map_anonymous(PAGE) };
	uint8_t *p = map_anonymous(h.len);
	struct ibv_mr *mr;
	pthread_t thread;
	bool ok;

	if (!open_handler(&h, p))
		return skip(o, "the program may not use userfaultfd");
	fill_pattern(h.page, PAGE, 30, 0);
	if (pthread_create(&thread, NULL, handle_faults, &h))
		return fail(o, "pthread_create: %s", strerror(errno));
	mr = reg(o, p, h.len, EP_ACCESS);
	ok = mr && (h.faults == 16 || fail(o, "%u pages were requested, not 16", h.faults)) &&
	     (has_pattern(p + 5 * PAGE, PAGE, 30, 0) || fail(o, "wrong bytes")) &&
	     check_access(o, mr, p, h.len) && dereg(o, mr);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	close(h.uffd);
	munmap(p, h.len);
	munmap(h.page, PAGE);
	return ok;
}

/* Returns the first page of a mapping with that name, or NULL. */
static void *named_mapping(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long start = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, name) && sscanf(line, "%lx-", &start) == 1)
			break;
		else
			start = 0;
	if (f)
		fclose(f);
	return (void *)start;
}

/* [vvar] has pages of the kernel (VM_PFNMAP), memfd_secret(2) pages that nothing else may map. */
static bool test_unpinnable(struct owner *o)
{
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
	void *vvar = named_mapping("[vvar]"), *p;
	bool ok = !vvar ||
		  reg_fails(o, "pages of the kernel", vvar, PAGE, IBV_ACCESS_REMOTE_READ, EFAULT);

	if (fd < 0 || ftruncate(fd, 2 * PAGE))
		return ok && skip(o, "the system has no memfd_secret");
	p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	ok = ok && p != MAP_FAILED && reg_fails(o, "secret memory", p, PAGE, EP_ACCESS, EFAULT) &&
	     reg_fails(o, "secret memory, to be read", p, PAGE, IBV_ACCESS_REMOTE_READ, EFAULT);
	munmap(p, 2 * PAGE);
	close(fd);
	return ok;
}

static bool check_end_of_file(struct owner *o, const char *what, int fd, int flags)
{
	uint8_t *p = mmap(NULL, 4 * PAGE, RW, flags, fd, 0);
	bool ok = p != MAP_FAILED && reg_fails(o, what, p, 4 * PAGE, EP_ACCESS, EFAULT) &&
		  reg_fails(o, what, p + 2 * PAGE, 8, IBV_ACCESS_REMOTE_READ, EFAULT) &&
		  check_memory(o, what, p, 2 * PAGE);

	munmap(p, 4 * PAGE);
	return ok;
}

static bool test_end_of_file(struct owner *o)
{
	int file = open_file(o), shm = open_shm(2 * PAGE);
	bool ok = file >= 0 && shm >= 0 && !ftruncate(file, 2 * PAGE) &&
		  check_end_of_file(o, "behind the end of a file", file, MAP_SHARED) &&
		  check_end_of_file(o, "behind the end of a file, private", file, MAP_PRIVATE) &&
		  check_end_of_file(o, "behind the end of shared memory", shm, MAP_SHARED) &&
		  check_end_of_file(o, "behind the end of shared memory, private", shm,
				    MAP_PRIVATE);

	close(file);
	close(shm);
	return ok;
}

/* The processor can read such memory, but the kernel refuses a registration that only reads. */
static bool check_write_only(struct owner *o, const char *what, int flags)
{
	uint8_t *p = mmap(NULL, MIB, PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	bool ok = p != MAP_FAILED && check_memory(o, what, p, MIB) &&
		  check_memory(o, what, p + 100, MIB - 300) &&
		  reg_fails(o, what, p, MIB, IBV_ACCESS_REMOTE_READ, EFAULT);

	munmap(p, MIB);
	return ok;
}

static bool test_write_only(struct owner *o)
{
	return check_write_only(o, "write-only, private", MAP_PRIVATE) &&
	       check_write_only(o, "write-only, shared", MAP_SHARED);
}

/* ---- boundaries of regions ------------------------ */

bool all_bytes(const uint8_t *p, size_t len, uint8_t value)
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
	uint8_t *p = map_anonymous(2 * MIB);
	bool ok = !!p;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && ok; i++) {
		size_t start = ends[i][0], end = start + ends[i][1];

		memset(p, 0xa5, 2 * MIB);
		ok = check_memory(o, "unaligned", p + start, end - start) &&
		     ((all_bytes(p, start, 0xa5) && all_bytes(p + end, 2 * MIB - end, 0xa5)) ||
		      fail(o, "bytes outside the region changed (%zu bytes at %zu)", end - start,
			   start));
	}
	munmap(p, 2 * MIB);
	return ok;
}

static bool check_zero_length(struct owner *o, uint8_t *p)
{
	struct ibv_mr *mr = reg(o, p, 0, EP_ACCESS);
	bool ok;

	if (!mr)
		return false;
	ok = expect_ok(o, "WRITE of 0 bytes", partner_rdma(o, EP_WRITE, mr, p, 0)) &&
	     expect_ok(o, "READ of 0 bytes", partner_rdma(o, EP_READ, mr, p, 0)) &&
	     expect(o, "WRITE of 1 byte", partner_rdma(o, EP_WRITE, mr, p, 1),
		    IBV_WC_REM_ACCESS_ERR) &&
	     reconnect(o);
	return dereg(o, mr) && ok;
}

static bool test_zero_length(struct owner *o)
{
	uint8_t *p = map_anonymous(PAGE);
	bool ok = p && check_zero_length(o, p) && check_zero_length(o, p + 100) &&
		  check_zero_length(o, NULL) &&
		  (all_bytes(p, PAGE, 0) || fail(o, "bytes outside the region changed"));

	munmap(p, PAGE);
	return ok;
}

static bool map_mib(uint8_t *p, int flags, int fd)
{
	return mmap(p, MIB, RW, MAP_FIXED | flags, fd, 0) == p;
}

/* Four adjacent mappings of different kinds, 1 MiB each. */
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
		return fail(o, "mmap: %s", strerror(errno));
	ok = check_memory(o, "four mappings", p, 4 * MIB) &&
	     check_memory(o, "four mappings", p + 333, 4 * MIB - 700) &&
	     check_memory(o, "from the second to the third", p + 2 * MIB - 5001, 10001);
	munmap(p, 4 * MIB);
	close(fd);
	return ok;
}

static bool test_hole(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	bool ok;

	munmap(p + 100 * PAGE, PAGE);
	ok = reg_fails(o, "a hole inside", p, MIB, EP_ACCESS, EFAULT) &&
	     reg_fails(o, "a hole at the end", p, 100 * PAGE + 1, EP_ACCESS, EFAULT) &&
	     reg_fails(o, "a hole at the start", p + 101 * PAGE - 1, 2, EP_ACCESS, EFAULT) &&
	     reg_fails(o, "only a hole", p + 100 * PAGE, PAGE, EP_ACCESS, EFAULT) &&
	     check_memory(o, "before the hole", p, 100 * PAGE) &&
	     check_memory(o, "after the hole", p + 101 * PAGE, MIB - 101 * PAGE);
	munmap(p, MIB);
	return ok;
}

#define SPARSE_LEN (128ul << 20)

/* Registration allocates the pages of shared memory that the program never accessed. */
static bool test_sparse(struct owner *o)
{
	int fd = memfd_create("sparse", MFD_CLOEXEC), err = ftruncate(fd, SPARSE_LEN);
	uint8_t *p = mmap(NULL, SPARSE_LEN, RW, MAP_SHARED, fd, 0);
	struct ibv_mr *mr = err || p == MAP_FAILED ? NULL : reg(o, p, SPARSE_LEN, EP_ACCESS);
	struct stat st;
	bool ok;

	if (!mr)
		return fail(o, "memfd: %s", strerror(errno));
	ok = !fstat(fd, &st) &&
	     ((uint64_t)st.st_blocks * 512 >= SPARSE_LEN ||
	      fail(o, "only %lu pages are allocated", st.st_blocks / 8)) &&
	     check_access(o, mr, p + 50 * MIB, MIB);
	ok = dereg(o, mr) && ok;
	munmap(p, SPARSE_LEN);
	close(fd);
	return ok;
}

static bool test_bad_range(struct owner *o)
{
	void *last = (void *)(UINTPTR_MAX - PAGE + 1);

	return reg_fails(o, "an end beyond the last address", last, 2 * PAGE, EP_ACCESS, EINVAL) &&
	       reg_fails(o, "a range that wraps around", last, SIZE_MAX, EP_ACCESS, EINVAL) &&
	       reg_fails(o, "every address", NULL, SIZE_MAX, EP_ACCESS, EFAULT) &&
	       reg_fails(o, "remote write without local write", o->ep.buf, PAGE,
			 IBV_ACCESS_REMOTE_WRITE, EINVAL) &&
	       reg_fails(o, "the first page", NULL, PAGE, EP_ACCESS, EFAULT);
}

/* ---- the tests ------------------------ */

const struct test memory_kinds[] = {
	{ "anonymous", test_anonymous, "private anonymous memory can be read and written" },
	{ "shared-anonymous", test_shared_anonymous,
	  "shared anonymous memory can be read and written" },
	{ "shm", test_shm, "POSIX shared memory can be read and written" },
	{ "memfd", test_memfd, "a memfd can be read and written, mapped shared and private" },
	{ "file-private", test_file_private,
	  "WRITEs to a private file mapping leave the file unchanged" },
	{ "file-shared", test_file_shared, "WRITEs to a shared file mapping change the file" },
	{ "read-only", test_read_only, "read-only memory can be registered for reading only" },
	{ "constant", test_constant, "a constant of the program can be read" },
	{ "stack", test_stack, "the stack can be read and written" },
	{ "static", test_static, "static data can be read and written, bss and data" },
	{ "malloc", test_malloc, "memory from malloc can be read and written, 1 byte to 3 MB" },
	{ "hugetlb", test_hugetlb, "huge pages can be read and written, private and shared" },
	{ "userfault", test_userfault,
	  "registration waits for a userfaultfd of the program, and the memory can be accessed" },
	{ "unpinnable", test_unpinnable, "memory that cannot be pinned cannot be registered" },
	{ "end-of-file", test_end_of_file, "pages behind the end of a file cannot be registered" },
	{ "write-only", test_write_only, "write-only memory can be registered for writing" },
	{ "unaligned", test_unaligned,
	  "regions can have any start and end, and bytes outside do not change" },
	{ "zero-length", test_zero_length, "a region of 0 bytes allows transfers of 0 bytes only" },
	{ "several-mappings", test_several_mappings, "a region can span several mappings" },
	{ "sparse", test_sparse, "registration allocates pages that were never accessed" },
	{ "hole", test_hole, "a range with a hole cannot be registered" },
	{ "bad-range", test_bad_range, "invalid ranges and access flags are refused" },
	{ 0 },
};
