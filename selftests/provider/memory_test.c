// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory regions of every kind; adoption while threads use the memory */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "../lib/tap.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MIB (1ul << 20)
#define PAGE 4096ul

enum { NONE, FD, MAPPING, PRIVATE };

static bool can_adopt;

static uint8_t *map(size_t len, int prot, int flags, int fd)
{
	uint8_t *p = mmap(NULL, len, prot, flags, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint8_t *anonymous(size_t len)
{
	return map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = (i * 2654435761u + seed) >> 7;
}

static bool filled(const uint8_t *p, size_t len, unsigned int seed)
{
	size_t i;

	for (i = 0; i < len && p[i] == (uint8_t)((i * 2654435761u + seed) >> 7); i++)
		;
	return i == len;
}

/*
 * Checks that the daemon reads what the program wrote and vice versa, near both ends and in the
 * middle. The fake daemon does not access across segments, so only aligned words are used.
 */
static bool reachable(struct fixture *f, struct ibv_mr *mr)
{
	uintptr_t start = (uintptr_t)mr->addr;
	uintptr_t at[] = { start + 7, start + mr->length / 2, start + mr->length - 8 };
	uint64_t value, i;
	uint8_t *p;

	for (i = 0; i < 3; i++) {
		p = (uint8_t *)(at[i] & ~7ul);
		if (!fake_read(&f->daemon, mr->rkey, (uintptr_t)p, &value, 8) ||
		    memcmp(&value, p, 8))
			return false;
		value = ~value;
		if (!fake_write(&f->daemon, mr->rkey, (uintptr_t)p, &value, 8) ||
		    memcmp(&value, p, 8))
			return false;
		value = ~value;
		memcpy(p, &value, 8);
		if (!fake_read(&f->daemon, mr->rkey, (uintptr_t)p, &value, 8) ||
		    memcmp(&value, p, 8))
			return false;
	}
	return true;
}

static bool kinds_are(struct fixture *f, struct ibv_mr *mr, unsigned int fd, unsigned int mapping,
		      unsigned int private)
{
	unsigned int k[4];

	fake_segments(&f->daemon, mr->rkey, k);
	if (k[FD] == fd && k[MAPPING] == mapping && k[PRIVATE] == private)
		return true;
	printf("# segments: %u adopted, %u shared, %u private\n", k[FD], k[MAPPING], k[PRIVATE]);
	return false;
}

/* ---- kinds of memory ---------------------------------------------------------- */

/* Expected segments */
struct tiers {
	unsigned int fd, mapping, private;
};

static void one_kind(struct fixture *f, const char *what, uint8_t *p, size_t len,
		     struct tiers tiers)
{
	struct ibv_mr *mr;

	if (!p) {
		tap_skip(what, strerror(errno));
		return;
	}
	if (!can_adopt && tiers.fd)
		tiers = (struct tiers){ 0, tiers.mapping, 1 };
	fill(p, len, 1);
	mr = ibv_reg_mr(f->pd, p, len, ALL);
	TAP_OK(mr, "%s: registered", what);
	if (!mr)
		return;
	TAP_OK(kinds_are(f, mr, tiers.fd, tiers.mapping, tiers.private), "%s: expected tiers",
	       what);
	TAP_OK(filled(p, len, 1) && reachable(f, mr), "%s: both sides see the same bytes", what);
	fill(p, len, 2);
	TAP_OK(!ibv_dereg_mr(mr) && filled(p, len, 2), "%s: unchanged by dereg_mr", what);
}

static void kinds(struct fixture *f)
{
	uint8_t *p, *q, stack[3 * PAGE];
	int fd, id;

	one_kind(f, "anonymous", anonymous(3 * MIB), 3 * MIB, (struct tiers){ 1, 0, 0 });
	p = anonymous(MIB);
	one_kind(f, "unaligned ends", p + 100, MIB - 300, (struct tiers){ 1, 0, 2 });
	one_kind(f, "less than a page", p + 100, 300, (struct tiers){ 0, 0, 1 });
	p = malloc(1000);
	one_kind(f, "malloc, small", p, 1000, (struct tiers){ 0, 0, 1 });
	free(p);
#ifndef __SANITIZE_THREAD__ /* whose malloc() has another layout */
	p = malloc(MIB);
	one_kind(f, "malloc, large", p, MIB, (struct tiers){ 1, 0, 2 });
	free(p);
#endif
	one_kind(f, "stack", stack, sizeof(stack), (struct tiers){ 0, 0, 1 });
	one_kind(f, "shared anonymous",
		 map(MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1), MIB,
		 (struct tiers){ 0, 1, 0 });
	fd = memfd_create("test", 0);
	(void)!ftruncate(fd, MIB);
	one_kind(f, "memfd", map(MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd), MIB,
		 (struct tiers){ 0, 1, 0 });
	one_kind(f, "private memfd", map(MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd), MIB,
		 (struct tiers){ 0, 0, 1 });
	id = shmget(IPC_PRIVATE, MIB, 0600);
	p = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	one_kind(f, "System V", p, MIB, (struct tiers){ 0, 1, 0 });
	shmdt(p);
	fd = open("/dev/shm/xroce-test", O_RDWR | O_CREAT, 0600);
	(void)!ftruncate(fd, MIB);
	one_kind(f, "/dev/shm", map(MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd), MIB,
		 (struct tiers){ 0, 1, 0 });
	unlink("/dev/shm/xroce-test");
	one_kind(f, "/dev/shm, unlinked", map(MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd), MIB,
		 (struct tiers){ 0, 1, 0 });
	fd = open(f->dir, O_RDWR | O_TMPFILE, 0600);
	(void)!ftruncate(fd, MIB);
	p = map(MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
	one_kind(f, "private file", p, MIB, (struct tiers){ 0, 0, 1 });

	p = map(2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	one_kind(f, "huge pages, shared", p, 2 * MIB, (struct tiers){ 0, 1, 0 });
	p = map(2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	one_kind(f, "huge pages, private", p, 2 * MIB, (struct tiers){ 0, 0, 1 });

	/* anonymous, shared and anonymous memory in one region */
	p = anonymous(3 * MIB);
	q = mmap(p + MIB, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0);
	one_kind(f, "several mappings", q - MIB + 8, 3 * MIB - 16, (struct tiers){ 2, 1, 2 });
}

static void odd_ranges(struct fixture *f)
{
	uint8_t *p = anonymous(10 * PAGE), *q;
	struct ibv_mr *mr;

	munmap(p + 8 * PAGE, 2 * PAGE);
	mr = ibv_reg_mr(f->pd, p, 0, ALL);
	TAP_OK(mr && kinds_are(f, mr, 0, 0, 0) && !ibv_dereg_mr(mr), "reg_mr: accepts length 0");
	TAP_OK(!ibv_reg_mr(f->pd, p, SIZE_MAX, ALL) && errno == EINVAL,
	       "reg_mr: a range that wraps around is EINVAL");
	munmap(p + 3 * PAGE, PAGE);
	TAP_OK(!ibv_reg_mr(f->pd, p, 8 * PAGE, ALL) && errno == EFAULT,
	       "reg_mr: a range with a hole is EFAULT");
	TAP_OK(!ibv_reg_mr(f->pd, p + 7 * PAGE, 2 * PAGE, 0) && errno == EFAULT,
	       "reg_mr: a range beyond the mapping is EFAULT");
	mprotect(p, PAGE, PROT_READ);
	TAP_OK(!ibv_reg_mr(f->pd, p, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT,
	       "reg_mr: write access to read-only memory is EFAULT");
	mr = ibv_reg_mr(f->pd, p, PAGE, IBV_ACCESS_REMOTE_READ);
	TAP_OK(mr && kinds_are(f, mr, 0, 0, 1) && !ibv_dereg_mr(mr),
	       "reg_mr: accepts read access to read-only memory");
	mprotect(p, PAGE, PROT_WRITE);
	mr = ibv_reg_mr(f->pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE);
	TAP_OK(mr && !ibv_dereg_mr(mr) && !ibv_reg_mr(f->pd, p, PAGE, IBV_ACCESS_REMOTE_READ) &&
		       errno == EFAULT,
	       "reg_mr: accepts write-only memory for writing only");
	mprotect(p, PAGE, PROT_NONE);
	TAP_OK(!ibv_reg_mr(f->pd, p, PAGE, 0) && errno == EFAULT, "reg_mr: PROT_NONE is EFAULT");
	TAP_OK(!ibv_reg_mr(f->pd, p + PAGE, PAGE, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL,
	       "reg_mr: remote write without local write is EINVAL");
	TAP_OK(!ibv_reg_mr(f->pd, p + PAGE, PAGE, IBV_ACCESS_REMOTE_ATOMIC) && errno == EINVAL,
	       "reg_mr: remote atomic without local write is EINVAL");
	TAP_OK(!ibv_reg_mr(f->pd, p + PAGE, PAGE, 1 << 15) && errno == EINVAL,
	       "reg_mr: unknown access flags are EINVAL");
	mr = ibv_reg_mr_iova(f->pd, p + PAGE, PAGE, 0x1000, ALL | IBV_ACCESS_RELAXED_ORDERING);
	TAP_OK(mr && !ibv_dereg_mr(mr), "reg_mr_iova: accepts another iova and optional flags");
	TAP_OK(!ibv_reg_mr_iova(f->pd, p + PAGE, PAGE, 0x1008, ALL) && errno == EINVAL,
	       "reg_mr_iova: an iova with another offset in a page is EINVAL");
	TAP_OK(!ibv_reg_mr_iova(f->pd, p + PAGE, 2 * PAGE, -PAGE, ALL) && errno == EINVAL,
	       "reg_mr_iova: an iova that wraps around is EINVAL");
	/* more mappings than a message can hold segments: every other page is shared */
	p = anonymous(1200 * PAGE);
	for (q = p; q < p + 1200 * PAGE; q += 2 * PAGE)
		mmap(q, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
		     0);
	mr = ibv_reg_mr(f->pd, p, 1200 * PAGE, ALL);
	TAP_OK(mr && kinds_are(f, mr, 0, 0, 1) && reachable(f, mr),
	       "reg_mr: too many segments fall back to the private tier");
	ibv_dereg_mr(mr);
	munmap(p, 1200 * PAGE);
}

static void rereg(struct fixture *f)
{
	uint8_t *p = anonymous(4 * PAGE), *q = anonymous(MIB);
	struct ibv_mr *mr = ibv_reg_mr(f->pd, p, 4 * PAGE, ALL);
	struct ibv_pd *pd = ibv_alloc_pd(f->ctx);

	TAP_OK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, MIB, 0) &&
		       mr->addr == q && mr->length == MIB && reachable(f, mr),
	       "rereg_mr: changes the memory");
	TAP_OK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, pd, NULL, 0,
			     0) &&
		       mr->pd == pd,
	       "rereg_mr: changes PD and access");
	TAP_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 8, 0) ==
		       IBV_REREG_MR_ERR_INPUT,
	       "rereg_mr: address NULL is an input error");
	TAP_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_INPUT,
	       "rereg_mr: remote write without local write is an input error");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd), "dereg_mr: succeeds after rereg_mr");
}

/* ---- adoption ----------------------------------------------------------------- */

static bool is_shared(const void *addr)
{
	unsigned long start, end;
	char line[512], perms[5];
	bool shared = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), maps)) {
		sscanf(line, "%lx-%lx %4s", &start, &end, perms);
		if (start <= (uintptr_t)addr && (uintptr_t)addr < end)
			shared = perms[3] == 's';
	}
	fclose(maps);
	return shared;
}

/* Pages that the daemon writes through /proc/self/mem are excluded from adoption. */
static void exclusion(struct fixture *f)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *some, *demand, *all, *look;

	fill(p, MIB, 4);
	some = ibv_reg_mr(f->pd, p + 4 * PAGE + 10, 100, ALL);
	all = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(kinds_are(f, some, 0, 0, 1) && kinds_are(f, all, 2, 0, 1) && is_shared(p) &&
		       !is_shared(p + 4 * PAGE) && is_shared(p + 5 * PAGE),
	       "a page that another region has in the private tier is not adopted");
	TAP_OK(reachable(f, all) && filled(p, MIB, 4), "the daemon can access a region around it");
	ibv_dereg_mr(some);
	ibv_dereg_mr(all);
	all = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(is_shared(p + 4 * PAGE),
	       "an excluded page is adopted after that region is deregistered");
	demand = ibv_reg_mr(f->pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	TAP_OK(is_shared(p) && reachable(f, all),
	       "a region of the whole address space does not affect adopted pages");
	ibv_dereg_mr(all);
	all = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(kinds_are(f, all, 0, 0, 1),
	       "nothing is adopted while there is a region of the whole address space");
	ibv_dereg_mr(all);
	ibv_dereg_mr(demand);
	look = ibv_reg_mr(f->pd, p + 4 * PAGE, 100, IBV_ACCESS_REMOTE_READ);
	all = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(is_shared(p + 4 * PAGE),
	       "pages that are only read through /proc/self/mem are adopted");
	ibv_dereg_mr(look);
	ibv_dereg_mr(all);
	TAP_OK(!is_shared(p) && filled(p, MIB, 4), "all pages are private at the end");
	munmap(p, MIB);
}

static void overlaps(struct fixture *f)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *a, *b, *c, *d;

	fill(p, MIB, 3);
	a = ibv_reg_mr(f->pd, p, MIB / 2, ALL);
	b = ibv_reg_mr(f->pd, p + MIB / 4, MIB / 2, ALL);
	c = ibv_reg_mr(f->pd, p, MIB, ALL);
	d = ibv_reg_mr(f->pd, p + MIB / 2 + 100, 1000, ALL);
	TAP_OK(kinds_are(f, a, 1, 0, 0) && kinds_are(f, b, 2, 0, 0) && kinds_are(f, c, 4, 0, 0) &&
		       kinds_are(f, d, 1, 0, 0),
	       "overlapping regions share adopted pages");
	TAP_OK(filled(p, MIB, 3) && reachable(f, a) && reachable(f, b) && reachable(f, c) &&
		       reachable(f, d),
	       "the daemon can access all overlapping regions");
	ibv_dereg_mr(a);
	TAP_OK(is_shared(p) && reachable(f, c),
	       "pages stay shared while another region references them");
	ibv_dereg_mr(c);
	TAP_OK(!is_shared(p) && is_shared(p + MIB / 4) && is_shared(p + MIB / 2) &&
		       !is_shared(p + MIB - PAGE),
	       "pages without a region are private again");
	TAP_OK(reachable(f, b) && reachable(f, d), "the daemon can access the remaining regions");
	ibv_dereg_mr(b);
	TAP_OK(is_shared(p + MIB / 2) && !is_shared(p + MIB / 2 + PAGE) && reachable(f, d),
	       "only the page of the last region is shared");
	ibv_dereg_mr(d);
	TAP_OK(!is_shared(p + MIB / 2) && filled(p, MIB, 3),
	       "no page is shared after the last region");
	madvise(p, MIB, MADV_DONTNEED);
	TAP_OK(!p[0] && !p[MIB / 3] && !p[MIB - 1], "MADV_DONTNEED gives zeros again");
	fill(p, MIB, 4);
	a = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(is_shared(p) && filled(p, MIB, 4) && reachable(f, a),
	       "the memory can be adopted again");
	ibv_dereg_mr(a);
	munmap(p, MIB);
}

/* The program unmaps memory of a region and maps something else there. */
static void remapped(struct fixture *f)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *a, *b;

	fill(p, MIB, 5);
	a = ibv_reg_mr(f->pd, p, MIB, ALL);
	munmap(p, MIB);
	mmap(p, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	fill(p, MIB, 6);
	TAP_OK(!ibv_dereg_mr(a) && filled(p, MIB, 6),
	       "dereg_mr does not change memory that was mapped anew");

	a = ibv_reg_mr(f->pd, p, MIB, ALL);
	munmap(p + MIB / 4, MIB / 4);
	mmap(p + MIB / 4, MIB / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
	     -1, 0);
	fill(p, MIB, 7);
	b = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(b && filled(p, MIB, 7) && reachable(f, b),
	       "a region can have adopted pages and new ones");
	ibv_dereg_mr(a);
	TAP_OK(reachable(f, b) && is_shared(p + MIB / 4) && is_shared(p),
	       "a new region keeps its pages when the old one is deregistered");
	ibv_dereg_mr(b);
	TAP_OK(!is_shared(p) && !is_shared(p + MIB / 4) && filled(p, MIB, 7),
	       "all pages are private when the new region is deregistered");

	a = ibv_reg_mr(f->pd, p, MIB, ALL);
	mprotect(p, PAGE, PROT_READ);
	ibv_dereg_mr(a);
	TAP_OK(filled(p, MIB, 7), "dereg_mr keeps the content of write-protected memory");
	munmap(p, MIB);
}

static void heap_reuse(struct fixture *f)
{
	int i, good = 0;

	for (i = 0; i < 200; i++) {
		size_t len = 4096 + (i * 7919) % 300000;
		uint8_t *p = calloc(1, len), *zero = calloc(1, len);
		struct ibv_mr *mr = ibv_reg_mr(f->pd, p, len, ALL);

		fill(p, len, i);
		good += reachable(f, mr) && filled(p, len, i);
		ibv_dereg_mr(mr);
		p = realloc(p, len * 2);
		good += filled(p, len, i) && !zero[0] && !memcmp(zero, zero + 1, len - 1);
		free(p);
		free(zero);
	}
	TAP_OK(good == 400, "malloc, realloc and calloc work between registrations");
}

/* ---- threads that use the memory ---------------------------------------------- */

#define WORKERS 3

struct worker {
	pthread_t thread;
	uint64_t *counter; /* one for each page */
	size_t pages;
	uint64_t rounds;
	bool stop;
	int pipe[2];
};

static void *count_up(void *arg)
{
	struct worker *w = arg;
	size_t i;

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		for (i = 0; i < w->pages; i++)
			w->counter[i * PAGE / 8]++;
		w->rounds++;
	}
	return NULL;
}

/* System calls that write to the memory must wait, not fail. */
static void *count_by_syscalls(void *arg)
{
	struct worker *w = arg;
	uint64_t value;
	size_t i;

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		for (i = 0; i < w->pages; i++) {
			value = w->counter[i * PAGE / 8] + 1;
			if (write(w->pipe[1], &value, 8) != 8 ||
			    read(w->pipe[0], &w->counter[i * PAGE / 8], 8) != 8)
				return "a system call failed";
		}
		w->rounds++;
	}
	return NULL;
}

static void under_load(struct fixture *f)
{
	size_t len = 6 * MIB, i, j;
	uint8_t *p = anonymous(len);
	struct worker w[WORKERS] = { 0 };
	void *failed = NULL, *result;
	struct ibv_mr *mr;
	int n, lost = 0;

	memset(p, 0, len);
	for (i = 0; i < WORKERS; i++) {
		w[i].counter = (uint64_t *)p + i;
		w[i].pages = len / PAGE;
		if (pipe(w[i].pipe))
			return;
		pthread_create(&w[i].thread, NULL, i ? count_up : count_by_syscalls, &w[i]);
	}
	for (n = 0; n < 60; n++) {
		mr = ibv_reg_mr(f->pd, p + (n % 3) * 1000, len - 5000, ALL);
		if (!mr || !is_shared(p + MIB))
			break;
		ibv_dereg_mr(mr);
	}
	TAP_OK(n == 60, "memory is registered and deregistered 60 times while threads write");
	for (i = 0; i < WORKERS; i++) {
		__atomic_store_n(&w[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(w[i].thread, &result);
		if (result)
			failed = result;
		for (j = 0; j < w[i].pages; j++)
			lost += w[i].counter[j * PAGE / 8] != w[i].rounds;
		close(w[i].pipe[0]);
		close(w[i].pipe[1]);
	}
	TAP_OK(!failed, "system calls of threads that write succeed");
	TAP_OK(!lost, "no write is lost (%lu rounds)", w[1].rounds + w[2].rounds);
	munmap(p, len);
}

struct registrar {
	pthread_t thread;
	struct fixture *f;
	uint8_t *p;
	unsigned int seed;
	int bad;
};

static void *register_at_random(void *arg)
{
	struct registrar *r = arg;
	struct ibv_mr *mr[4] = { 0 };
	int i;

	for (i = 0; i < 300; i++) {
		size_t off = rand_r(&r->seed) % MIB, len = rand_r(&r->seed) % (MIB - off) + 8;
		int k = rand_r(&r->seed) % 4;

		if (mr[k])
			ibv_dereg_mr(mr[k]);
		mr[k] = ibv_reg_mr(r->f->pd, r->p + off, len, ALL);
		r->bad += !mr[k];
	}
	for (i = 0; i < 4; i++) {
		if (mr[i])
			ibv_dereg_mr(mr[i]);
	}
	return NULL;
}

static void at_once(struct fixture *f)
{
	struct registrar r[4];
	uint8_t *p = anonymous(2 * MIB);
	int i, bad = 0;

	fill(p, 2 * MIB, 9);
	for (i = 0; i < 4; i++) {
		r[i] = (struct registrar){ .f = f, .p = p, .seed = i };
		pthread_create(&r[i].thread, NULL, register_at_random, &r[i]);
	}
	for (i = 0; i < 4; i++) {
		pthread_join(r[i].thread, NULL);
		bad += r[i].bad;
	}
	TAP_OK(!bad && filled(p, 2 * MIB, 9), "four threads register overlapping ranges");
	for (i = 0; i < 512 && !is_shared(p + i * PAGE); i += 7)
		;
	TAP_OK(i >= 512, "no page is shared at the end");
	munmap(p, 2 * MIB);
}

static void in_children(struct fixture *f)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr;
	int status = -1;
	pid_t pid;

	fill(p, MIB, 11);
	mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	pid = fork();
	if (!pid) {
		if (is_shared(p) || !filled(p, MIB, 11))
			_exit(1);
		fill(p, MIB, 12);
		_exit(ibv_dereg_mr(mr) || !filled(p, MIB, 12) ? 2 : 0);
	}
	waitpid(pid, &status, 0);
	TAP_OK(!status, "child: its writes do not reach the parent (%x)", status);
	TAP_OK(is_shared(p) && filled(p, MIB, 11) && reachable(f, mr),
	       "parent: its memory is unchanged");
	ibv_dereg_mr(mr);
	munmap(p, MIB);
}

/* ---- regions without layout --------------------------------------------------- */

static void not_laid_out(struct fixture *f)
{
	uint8_t *p = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(f->pd, p, MIB, ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = { 0 };
	unsigned int kinds[4] = { 0 };

	if (mr)
		fake_segments(&f->daemon, mr->rkey, kinds);
	TAP_OK(mr && !kinds[1] && !kinds[2] && !kinds[3],
	       "on demand: a region is registered without layout");
	TAP_OK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + 8, 100, 0) &&
		       !ibv_dereg_mr(mr),
	       "on demand: rereg_mr changes the memory");
	munmap(p, MIB);
	mr = ibv_reg_mr(f->pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	TAP_OK(mr && !ibv_dereg_mr(mr), "on demand: the whole address space is registered");
	mr = ibv_alloc_null_mr(f->pd);
	TAP_OK(mr && mr->length == SIZE_MAX && !mr->addr && mr->pd == f->pd,
	       "null region: alloc_null_mr returns address 0 and length SIZE_MAX");
	TAP_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, f->pd, NULL, 0, 0) ==
			       IBV_REREG_MR_ERR_INPUT &&
		       errno == EINVAL && !ibv_dereg_mr(mr),
	       "null region: rereg_mr is refused");
	TAP_OK(!ibv_reg_dmabuf_mr(f->pd, 0, 4096, 0, -1, ALL) && errno == EBADF &&
		       !ibv_reg_dmabuf_mr(f->pd, 8, 4096, 0, 0, ALL) && errno == EINVAL &&
		       !ibv_reg_dmabuf_mr(f->pd, 0, 0, 0, 0, ALL) && errno == EINVAL &&
		       !ibv_reg_dmabuf_mr(f->pd, 0, 4096, 0, 0, ALL | IBV_ACCESS_ON_DEMAND) &&
		       errno == EINVAL,
	       "reg_dmabuf_mr: refuses invalid arguments");
	TAP_OK(ibv_advise_mr(f->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0) == EINVAL &&
		       ibv_advise_mr(f->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1) == EINVAL &&
		       ibv_advise_mr(f->pd, 3, 0, &sge, 1) == EOPNOTSUPP,
	       "advise_mr: invalid ranges are EINVAL, unknown advice is EOPNOTSUPP");
}

/* Adopted pages are written to a file, which is larger than the limit that the program sets. */
static void file_size_limit(struct fixture *f)
{
	struct rlimit before, low;
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr;

	getrlimit(RLIMIT_FSIZE, &before);
	low = (struct rlimit){ MIB, before.rlim_max };
	setrlimit(RLIMIT_FSIZE, &low);
	fill(p, MIB, 1);
	mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(mr && kinds_are(f, mr, 0, 0, 1) && reachable(f, mr) && filled(p, MIB, 1),
	       "memory registered below a low RLIMIT_FSIZE is not adopted, and no signal is "
	       "raised");
	ibv_dereg_mr(mr);
	setrlimit(RLIMIT_FSIZE, &before);
	mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	TAP_OK(mr && kinds_are(f, mr, 1, 0, 0) && filled(p, MIB, 1),
	       "it is adopted once the limit is high again");
	ibv_dereg_mr(mr);
	munmap(p, MIB);
}

int main(void)
{
	struct fixture f;
	uint8_t *probe;
	struct ibv_mr *mr;

	setup(&f);
	probe = anonymous(MIB);
	mr = ibv_reg_mr(f.pd, probe, MIB, ALL);
	can_adopt = mr && is_shared(probe);
	ibv_dereg_mr(mr);
	kinds(&f);
	odd_ranges(&f);
	rereg(&f);
	not_laid_out(&f);
	if (can_adopt) {
		overlaps(&f);
		exclusion(&f);
		remapped(&f);
		heap_reuse(&f);
		under_load(&f);
		at_once(&f);
		in_children(&f);
		file_size_limit(&f);
	} else {
		tap_skip("adoption", "no access to /dev/userfaultfd");
	}
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
