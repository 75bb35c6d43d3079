// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What registration costs a program with many mappings, and what it leaves of them */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <xroce/procmap.h>

#include "../lib/tap.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PAGE 4096ul
#define REGIONS 3000

static struct ibv_mr *mr[REGIONS];

static uint8_t *anonymous(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Bytes that this process has read by system calls, lists of mappings among them */
static unsigned long bytes_read(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	unsigned long n = 0;

	if (!f || fscanf(f, "rchar: %lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

static long number_in(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (!f || fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static long mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	long n = 0;
	int c;

	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static bool is_shared(const void *addr)
{
	unsigned long start, end;
	char line[512], perms[5];
	bool shared = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3 &&
		    start <= (uintptr_t)addr && (uintptr_t)addr < end)
			shared = perms[3] == 's';
	fclose(maps);
	return shared;
}

static bool can_query(void)
{
	struct xr_procmap_query q = { .size = sizeof(q), .flags = XR_PROCMAP_NEXT };
	FILE *f = fopen("/proc/self/maps", "r");
	bool can = f && !ioctl(fileno(f), XR_PROCMAP_QUERY, &q);

	if (f)
		fclose(f);
	return can;
}

static int register_pages(struct fixture *f, uint8_t *p, size_t distance, int n)
{
	int i;

	for (i = 0; i < n && (mr[i] = ibv_reg_mr(f->pd, p + i * distance, PAGE, ALL)); i++)
		;
	return i;
}

static int deregister(int n)
{
	int i;

	for (i = 0; i < n && !ibv_dereg_mr(mr[i]); i++)
		;
	return i;
}

/* ---- system calls that grow with the number of regions ----------------------------- */

static unsigned long locks_queried; /* fcntl(F_OFD_GETLK) of this process */

/* The library calls this function instead of libc's. */
__attribute__((visibility("default"))) int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	locks_queried += cmd == F_OFD_GETLK;
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

/* Every second page is registered, so the program gets two mappings for each region. */
static void isolated_pages(struct fixture *f)
{
	uint8_t *p = anonymous(REGIONS * 2 * PAGE);
	unsigned long before, one, all;
	int n;

	n = register_pages(f, p, 2 * PAGE, REGIONS - 1);
	before = bytes_read();
	mr[n] = ibv_reg_mr(f->pd, p + n * 2 * PAGE, PAGE, ALL);
	one = bytes_read() - before;
	TAP_OK(n == REGIONS - 1 && mr[n] && is_shared(p) && is_shared(p + n * 2 * PAGE),
	       "%d isolated pages are registered and adopted", REGIONS);
	before = bytes_read();
	n = deregister(REGIONS);
	all = bytes_read() - before;
	TAP_OK(n == REGIONS, "they are deregistered");
	if (can_query())
		TAP_OK(one < 16384 && all < REGIONS * 1000ul,
		       "registration and deregistration do not read the list of mappings (%lu, %lu "
		       "bytes)",
		       one, all);
	else
		tap_skip("registration and deregistration do not read the list of mappings",
			 "PROCMAP_QUERY needs Linux 6.11");
	munmap(p, REGIONS * 2 * PAGE);
}

static void adjacent_pages(struct fixture *f)
{
	uint8_t *p = anonymous(REGIONS * PAGE);
	long before = mappings(), during;
	int n = register_pages(f, p, PAGE, REGIONS);

	during = mappings();
	TAP_OK(n == REGIONS && is_shared(p) && during - before < 10,
	       "%d adjacent pages that are registered one by one are one mapping (%ld more)", n,
	       during - before);
	deregister(n);
	munmap(p, REGIONS * PAGE);
}

static void unmapped_pages(struct fixture *f)
{
	uint8_t *p = anonymous(REGIONS * 2 * PAGE), *q = anonymous(PAGE);
	int n = register_pages(f, p, 2 * PAGE, REGIONS), i;
	unsigned long before;

	memset(p, 1, PAGE);
	for (i = 1; i < n; i++)
		munmap(p + i * 2 * PAGE, PAGE);
	p = mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	before = bytes_read();
	n = deregister(n);
	before = bytes_read() - before;
	TAP_OK(n == REGIONS && (before < REGIONS * 1000ul || !can_query()),
	       "deregistration of unmapped pages does not read the list each time (%lu bytes)",
	       before);
	TAP_OK(q[0] == 1 && !is_shared(q), "a page that was moved is private again");
	munmap(q, PAGE);
}

static void with_child(struct fixture *f)
{
	uint8_t *p = anonymous(REGIONS * 2 * PAGE);
	int n = register_pages(f, p, 2 * PAGE, REGIONS), status;
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	locks_queried = 0;
	n = deregister(n);
	TAP_OK(n == REGIONS && locks_queried < 10ul * REGIONS,
	       "deregistration does not look at all pages that a child may still have (%lu looks)",
	       locks_queried);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	munmap(p, REGIONS * 2 * PAGE);
}

/* ---- the limit --------------------------------------------------------------------- */

static void *nothing(void *arg)
{
	return arg;
}

/* Splits memory into mappings until the process has n. */
static uint8_t *split_memory(long n, size_t *len)
{
	long more = n - mappings(), i;
	uint8_t *p;

	*len = (size_t)more * PAGE;
	p = anonymous(*len);
	for (i = 1; p && i < more; i += 2)
		mprotect(p + i * PAGE, PAGE, PROT_READ);
	return p;
}

static void near_limit(struct fixture *f, bool can_adopt)
{
	long limit = number_in("/proc/sys/vm/max_map_count"), total, own;
	uint8_t *p = anonymous(REGIONS * 2 * PAGE), *many;
	size_t many_len;
	pthread_t thread;
	int n;

	many = split_memory(limit / 2 - REGIONS, &many_len);
	own = mappings();
	n = register_pages(f, p, 2 * PAGE, REGIONS);
	total = mappings();
	TAP_OK(n == REGIONS && total <= limit / 2 + 10,
	       "adoption leaves half of the mappings to the program (%ld, then %ld of %ld)", own,
	       total, limit);
	if (can_adopt)
		TAP_OK(is_shared(p) && !is_shared(p + (REGIONS - 1) * 2 * PAGE),
		       "pages beyond that are registered without adoption");
	TAP_OK(!pthread_create(&thread, NULL, nothing, NULL) && !pthread_join(thread, NULL),
	       "a thread can be created");
	deregister(n);
	munmap(many, many_len);
	munmap(p, REGIONS * 2 * PAGE);
	p = anonymous(REGIONS * PAGE);
	n = register_pages(f, p, PAGE, REGIONS);
	if (can_adopt)
		TAP_OK(is_shared(p + (n - 1) * PAGE),
		       "pages are adopted again when the program has fewer mappings");
	deregister(n);
	munmap(p, REGIONS * PAGE);
}

int main(void)
{
	struct fixture f;
	bool can_adopt;
	uint8_t *probe;

	setup(&f);
	probe = anonymous(PAGE);
	can_adopt = register_pages(&f, probe, PAGE, 1) && is_shared(probe);
	deregister(1);
	if (can_adopt) {
		isolated_pages(&f);
		adjacent_pages(&f);
		unmapped_pages(&f);
		with_child(&f);
	} else {
		tap_skip("adoption", "no access to /dev/userfaultfd");
	}
	if (can_query())
		near_limit(&f, can_adopt);
	else
		tap_skip("half of the mappings", "reading so many takes minutes before Linux 6.11");
	teardown(&f);
	return tap_end();
}
