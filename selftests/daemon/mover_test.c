// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Movers: accesses to the memory of this process, of a process that hangs them, and their end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xroce/procmap.h>

#include "daemon/memory/proc_maps.h"
#include "daemon/transport/memory/ending.h"
#include "movers.h"
#include "selftests/lib/tap.h"

#define PAGE 4096u

/* ---- accesses -------------------------------------------------------------------- */

/* Returns the error of one access; *old: of an atomic. */
static int access_once(struct xd_mover *m, struct xt_mem_io *io, const void *p, uint64_t *old)
{
	int err;

	submit(io, p, false);
	err = finishes(0, io) ? io->err : -ETIMEDOUT;
	if (old)
		*old = io->old;
	xd_mover_io_free(io);
	return err;
}

static int write_bytes(struct xd_mover *m, void *p, const void *src, uint32_t len)
{
	struct xt_mem_io *io = io_new(m, 0, XT_MEM_WRITE, len);

	memcpy(io->data, src, len);
	return access_once(m, io, p, NULL);
}

static int read_bytes(struct xd_mover *m, const void *p, void *dst, uint32_t len)
{
	struct xt_mem_io *io = io_new(m, 0, XT_MEM_READ, len);
	int err;

	submit(io, p, false);
	err = finishes(0, io) ? io->err : -ETIMEDOUT;
	memcpy(dst, io->data, len);
	xd_mover_io_free(io);
	return err;
}

static int atomic(struct xd_mover *m, uint8_t op, uint64_t *p, uint64_t compare, uint64_t value,
		  uint64_t *old)
{
	struct xt_mem_io *io = io_new(m, 0, op, 8);

	io->compare = compare;
	io->value = value;
	return access_once(m, io, p, old);
}

static void test_accesses(void)
{
	struct xd_mover *m = new_mover();
	static uint8_t a[XT_MEM_IO_MAX], b[XT_MEM_IO_MAX], out[XT_MEM_IO_MAX];
	uint64_t word = 5, old = 0;
	struct xd_mover_state s;

	for (uint32_t i = 0; i < sizeof(a); i++)
		a[i] = (uint8_t)(i * 7 + i / 256);
	TAP_OK(m, "a mover starts");
	TAP_OK(!write_bytes(m, b, a, sizeof(a)) && !memcmp(a, b, sizeof(a)), "WRITE of 64 KiB");
	TAP_OK(!read_bytes(m, b + 1, out, 4096) && !memcmp(a + 1, out, 4096), "READ of 4 KiB");
	TAP_OK(write_bytes(m, (void *)PAGE, a, 8) == -EFAULT &&
		       read_bytes(m, (void *)PAGE, out, 8) == -EFAULT,
	       "memory that is not mapped: -EFAULT");
	TAP_OK(!atomic(m, XT_MEM_FETCH_ADD, &word, 0, 3, &old) && word == 8 && old == 5,
	       "fetch and add");
	TAP_OK(!atomic(m, XT_MEM_CMP_SWAP, &word, 7, 1, &old) && word == 8 && old == 8,
	       "compare and swap, not equal");
	TAP_OK(!atomic(m, XT_MEM_CMP_SWAP, &word, 8, 1, &old) && word == 1 && old == 8,
	       "compare and swap, equal");
	TAP_OK(!atomic(m, XT_MEM_ATOMIC_WRITE, &word, 0, 77, NULL) && word == 77, "atomic write");
	xd_mover_state(m, &s);
	TAP_OK(!s.ended && s.pid > 0 && !s.accesses && !s.waiting_ns, "no access is under way");
	xd_mover_put(m);
}

/* ---- checked accesses ------------------------------------------------------------ */

static int checked(struct xd_mover *m, uint8_t op, void *p, uint32_t len)
{
	struct xt_mem_io *io = io_new(m, 0, op, len);
	int err;

	submit(io, p, true);
	err = finishes(0, io) ? io->err : -ETIMEDOUT;
	xd_mover_io_free(io);
	return err;
}

static void check_rights(const char *how)
{
	struct xd_mover *m = new_mover();
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	TAP_OK(!checked(m, XT_MEM_WRITE, p, 2 * PAGE), "%s: writable", how);
	mprotect(p, PAGE, PROT_READ);
	TAP_OK(checked(m, XT_MEM_WRITE, p + PAGE - 8, 16) == -EFAULT &&
		       !checked(m, XT_MEM_READ, p, 2 * PAGE) &&
		       !checked(m, XT_MEM_FETCH_ADD, p + PAGE, 8) &&
		       checked(m, XT_MEM_FETCH_ADD, p, 8) == -EFAULT,
	       "%s: read-only", how);
	mprotect(p, PAGE, PROT_NONE);
	TAP_OK(checked(m, XT_MEM_READ, p, 8) == -EFAULT, "%s: no access", how);
	mprotect(p, PAGE, PROT_READ | PROT_WRITE);
	TAP_OK(!checked(m, XT_MEM_WRITE, p, 8), "%s: writable again", how);
	munmap(p, 2 * PAGE);
	TAP_OK(checked(m, XT_MEM_READ, p, 8) == -EFAULT, "%s: not mapped", how);
	xd_mover_put(m);
}

static void test_staging(void)
{
	struct xd_mover *m = new_mover();
	struct xt_mem_io *io[XD_STAGING_PIECES];
	struct xt_mem_pool *pool;
	uint32_t n;

	for (n = 0; n < XD_STAGING_PIECES && (io[n] = io_new(m, 0, XT_MEM_READ, 8)); n++)
		;
	TAP_OK(n == XD_STAGING_PIECES, "small accesses use all of the staging");
	TAP_OK(!xd_mover_io_new(m, &worker[1], 8, &pool) && pool, "then there is none");
	room = NULL;
	collect(1);
	TAP_OK(!room, "until a piece is released");
	xd_mover_io_free(io[--n]);
	TAP_OK(!xd_movers_arm(movers, 1) && collect(1) && room == pool,
	       "then the QPs of another worker that waited are woken");
	TAP_OK(xd_movers_arm(movers, 1), "once");
	while (n)
		xd_mover_io_free(io[--n]);
	xd_mover_put(m);
}

/* Stops the process and waits until it has stopped. */
static void stop_process(pid_t pid)
{
	char path[40], text[256], *name_end;
	size_t n;
	FILE *f;

	kill(pid, SIGSTOP);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	do {
		sched_yield();
		f = fopen(path, "re");
		if (!f)
			return;
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
		text[n] = '\0';
		name_end = strrchr(text, ')');
	} while (name_end && name_end[2] != 'T');
}

static void test_stopped(void)
{
	struct xd_mover *m = new_mover(), *other = new_mover();
	struct xt_mem_io *a, *b;
	struct xt_mem_pool *pool;
	uint64_t v = 1, w = 2, next;
	struct xd_mover_state s;

	xd_mover_state(m, &s);
	stop_process(s.pid);
	a = io_new(m, 0, XT_MEM_READ, 8);
	b = io_new(m, 0, XT_MEM_WRITE, 8);
	submit(a, &v, false);
	submit(b, &v, false);
	TAP_OK(!write_bytes(other, &v, &w, 8) && v == 2, "another mover goes on");
	usleep(1000);
	collect(0);
	xd_mover_state(m, &s);
	TAP_OK(!a->done && s.accesses == 2 && s.waiting_ns >= 1000000, "the state shows the wait");
	TAP_OK(xd_movers_arm(movers, 0), "a worker sleeps meanwhile");
	xd_mover_io_free(b);
	kill(s.pid, SIGCONT);
	TAP_OK(finishes(0, a) && !a->err, "an access ends later");
	xd_mover_io_free(a);
	while (xd_movers_collect(movers, 0, xd_now(), &next) || next != XT_NEVER)
		;
	TAP_OK(v == 2, "an access that was released in time does not take effect");
	stop_process(s.pid);
	a = io_new(m, 0, XT_MEM_READ, 8);
	submit(a, &v, false);
	xd_mover_end(m);
	TAP_OK(collect(0) && a->done && a->err == -EFAULT,
	       "the end of a mover ends its accesses, also while it does not run");
	TAP_OK(!xd_mover_io_new(m, &worker[0], 8, &pool) && !pool, "and refuses new ones");
	xd_mover_io_free(a);
	xd_mover_put(m);
	xd_mover_put(other);
}

/* Starts a write to a region. */
static struct xt_mem_io *write_to(struct xd_mover *m, uint32_t w, struct xt_mem *mem, uint64_t *v)
{
	struct xt_mem_io *io = io_new(m, w, XT_MEM_WRITE, 8);

	io->mem = mem;
	memset(io->data, 1, 8);
	submit(io, v, false);
	return io;
}

static void test_in_use(void)
{
	struct xd_mover *m = new_mover();
	struct xt_mem first = { 0 }, second = { 0 };
	struct xt_mem_io *a, *b, *c;
	struct xd_mover_state s;
	uint64_t v = 0, w = 0;
	uint32_t mark;

	xd_mover_state(m, &s);
	stop_process(s.pid);
	a = write_to(m, 0, &first, &v);
	mark = xd_mover_mark(m);
	b = write_to(m, 1, &second, &w);
	TAP_OK(xd_mover_in_use(m, &first, mark) && xd_mover_in_use(m, NULL, mark),
	       "a region is in use by an access before the mark");
	TAP_OK(!xd_mover_in_use(m, &second, mark) && xd_mover_in_use(m, &second, xd_mover_mark(m)),
	       "it is not by one behind the mark");
	TAP_OK(!xd_mover_in_use(NULL, &first, mark), "without a mover nothing is in use");
	TAP_OK(xd_mover_io_cancel(b), "an access that waits can be cancelled");
	xd_mover_io_free(a);
	TAP_OK(xd_mover_in_use(m, &first, mark), "a released access is in use until it has ended");
	kill(s.pid, SIGCONT);
	TAP_OK(finishes(1, b) && w == 0, "the cancelled access has no effect");
	xd_mover_io_free(b);
	c = write_to(m, 0, &second, &v);
	TAP_OK(finishes(0, c) && !xd_mover_in_use(m, NULL, xd_mover_mark(m)),
	       "nothing is in use when all have ended");
	TAP_OK(!xd_mover_io_cancel(c) && v, "an access that has begun cannot be cancelled");
	xd_mover_io_free(c);

	stop_process(s.pid);
	a = write_to(m, 0, &first, &v);
	usleep(XT_ENDING_NS / 1000 + 1000);
	TAP_OK(!xd_mover_in_use(m, &first, xd_mover_mark(m)),
	       "nobody waits for a mover that has ended no access for long");
	kill(s.pid, SIGCONT);
	TAP_OK(finishes(0, a), "it goes on");
	xd_mover_io_free(a);
	xd_mover_put(m);
}

static void test_killed(void)
{
	struct xd_mover *m = new_mover();
	struct xt_mem_io *io;
	struct xd_mover_state s;
	uint64_t v = 0;

	xd_mover_state(m, &s);
	kill(s.pid, SIGKILL);
	io = io_new(m, 0, XT_MEM_READ, 8);
	submit(io, &v, false);
	TAP_OK(finishes(0, io) && io->err == -EFAULT, "a mover that was killed: -EFAULT");
	xd_mover_io_free(io);
	xd_mover_put(m);
}

static void test_sleep(void)
{
	struct xd_mover *m = new_mover();
	struct pollfd p = { .fd = wake_fd[0], .events = POLLIN };
	struct xt_mem_io *io = io_new(m, 0, XT_MEM_READ, 8);
	struct xd_mover_state s;
	uint64_t v = 9;

	while (read(wake_fd[0], &v, sizeof(v)) > 0)
		;
	xd_mover_state(m, &s);
	stop_process(s.pid);
	submit(io, &v, false);
	TAP_OK(xd_movers_arm(movers, 0), "a worker that waits may sleep");
	kill(s.pid, SIGCONT);
	TAP_OK(poll(&p, 1, 20000) == 1 && collect(0) && io->done, "the result wakes it");
	xd_movers_disarm(movers, 0);
	xd_mover_io_free(io);
	xd_mover_put(m);
}

#define NEEDS_ROOT "needs root"

/* The files in /proc of a mover, which is not dumpable, are those of root. */
static bool can_watch(const struct xd_mover *m)
{
	struct xd_mover_state state;
	char path[64];
	int fd;

	xd_mover_state(m, &state);
	snprintf(path, sizeof(path), "/proc/%d/io", state.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Waits until the mover has gone to sleep. */
static bool falls_asleep(const struct xd_mover_state *s)
{
	uint64_t end = xd_now() + WAIT_NS;
	char path[64], text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/syscall", s->pid);
	while (strncmp(text, "202 ", 4) && xd_now() < end) { /* futex() */
		fd = open(path, O_RDONLY);
		(void)!read(fd, text, sizeof(text) - 1);
		close(fd);
		sched_yield();
	}
	return !strncmp(text, "202 ", 4);
}

static void test_round(void)
{
	struct xd_mover *m = new_mover();
	uint64_t v[2] = { 3, 4 };
	struct xt_mem_io *io[2] = { io_new(m, 0, XT_MEM_READ, 8), io_new(m, 0, XT_MEM_READ, 8) };
	struct xd_mover_state s;
	bool watched = can_watch(m);
	unsigned i;

	xd_mover_state(m, &s);
	if (watched)
		TAP_OK(falls_asleep(&s), "a mover without accesses sleeps");
	else
		tap_skip("a mover without accesses sleeps", NEEDS_ROOT);
	xd_movers_begin_round(movers, 0);
	submit(io[0], &v[0], false);
	if (watched)
		TAP_OK(falls_asleep(&s) && !collect(0), "accesses of a round do not wake it");
	else
		tap_skip("accesses of a round do not wake it", NEEDS_ROOT);
	TAP_OK(xd_movers_end_round(movers, 0),
	       "a worker that sleeps must be told of the first one");
	xd_movers_begin_round(movers, 0);
	submit(io[1], &v[1], false);
	TAP_OK(!xd_movers_end_round(movers, 0), "... but not of those after it");
	TAP_OK(finishes(0, io[0]) && finishes(0, io[1]) && !memcmp(io[1]->data, &v[1], 8),
	       "the end of the round does");
	for (i = 0; i < 2; i++)
		xd_mover_io_free(io[i]);
	xd_mover_put(m);
}

/* Many accesses of two workers; each must be executed once, those of one worker in order. */
static void test_many(void)
{
	struct xd_mover *m = new_mover();
	struct xt_mem_io *io[2][64] = { 0 };
	uint64_t sum = 0, last[2] = { 0 }, wrong = 0, n = 0;

	while (n < 20000) {
		for (int w = 0; w < 2; w++) {
			for (int i = 0; i < 64; i++) {
				io[w][i] = io_new(m, (uint32_t)w, XT_MEM_FETCH_ADD, 8);
				io[w][i]->value = 1;
				submit(io[w][i], &sum, false);
				n++;
			}
		}
		for (int w = 0; w < 2; w++) {
			for (int i = 0; i < 64; i++) {
				wrong += !finishes((uint32_t)w, io[w][i]) || io[w][i]->err;
				wrong += n > 128 && io[w][i]->old <= last[w];
				last[w] = io[w][i]->old;
				xd_mover_io_free(io[w][i]);
			}
		}
	}
	TAP_OK(!wrong && sum == n, "accesses of two workers are executed once and in order");
	xd_mover_put(m);
}

/* ---- lists of mappings, in this process -------------------------------------------- */

static void *pages(size_t n)
{
	return mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int check(int maps, const void *p, size_t len, bool write)
{
	return xd_proc_check(maps, (uintptr_t)p, len, write);
}

/* One list serves all accesses of an epoch, as long as it allows them. */
static void test_list_of_epoch(void)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uint8_t *p = pages(3);

	xd_proc_new_epoch();
	mprotect(p + 2 * PAGE, PAGE, PROT_NONE);
	TAP_OK(!check(maps, p + PAGE, 1, true), "lists: the list is read");
	mprotect(p, PAGE, PROT_READ);
	TAP_OK(!check(maps, p, 1, true), "lists: a list is used for all accesses of an epoch");
	TAP_OK(check(maps, p + 2 * PAGE, 1, false) == -EFAULT,
	       "lists: unreadable memory is a fault");
	TAP_OK(check(maps, p, 1, true) == -EFAULT, "lists: a refusal reads the list again");
	mprotect(p, 3 * PAGE, PROT_READ | PROT_WRITE);
	TAP_OK(!check(maps, p, 1, true) && !check(maps, p + 2 * PAGE, 1, true),
	       "lists: rights that were granted since are found");
	munmap(p + PAGE, PAGE);
	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	xd_proc_new_epoch();
	TAP_OK(check(maps, p + PAGE, 1, true) == -EFAULT &&
		       check(maps, p + 2 * PAGE, 1, true) == -EFAULT,
	       "lists: a new epoch reads the list again");
	munmap(p, PAGE);
	munmap(p + 2 * PAGE, PAGE);
	close(maps);
}

/* More mappings than are kept; those that are accessed are among them. */
static void test_long_list(void)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const size_t n = 3000;
	uint8_t *p = pages(n);
	bool ok = true;

	for (size_t i = 0; i < n; i += 2)
		mprotect(p + i * PAGE, PAGE, PROT_READ);
	xd_proc_new_epoch();
	for (size_t i = 0; i + 8 <= n; i += 97)
		ok &= !check(maps, p + i * PAGE + 9, 8 * PAGE - 9, false);
	TAP_OK(ok, "lists: reads across many mappings");
	for (size_t i = 0; i < n; i += 97)
		ok &= check(maps, p + i * PAGE, 1, true) == (i % 2 ? 0 : -EFAULT);
	TAP_OK(ok, "lists: writes to writable mappings");
	munmap(p, n * PAGE);
	close(maps);
}

/* Bytes that the process of a mover has read, or -1 */
static long bytes_read(const struct xd_mover *m)
{
	struct xd_mover_state state;
	long n = -1;
	char path[40];
	FILE *f;

	xd_mover_state(m, &state);
	snprintf(path, sizeof(path), "/proc/%d/io", state.pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "rchar: %ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static bool can_query(void)
{
	struct xr_procmap_query q = { .size = sizeof(q), .flags = XR_PROCMAP_NEXT };
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	bool can = !ioctl(fd, XR_PROCMAP_QUERY, &q);

	close(fd);
	return can;
}

static void test_listed_mappings(void)
{
	struct xd_mover *m = new_mover();
	const size_t n = 3000;
	uint8_t *p = pages(n);
	struct xd_vma *list;
	long before;
	size_t count;
	int err;

	for (size_t i = 0; i < n; i += 2)
		mprotect(p + i * PAGE, PAGE, PROT_READ);
	err = xd_mover_maps(m, (uintptr_t)p, (uintptr_t)(p + n * PAGE), &list, &count);
	TAP_OK(!err && count == n && list[0].start == (uintptr_t)p && !list[0].writable &&
		       list[1].writable,
	       "a mover lists mappings");
	free(list);
	before = bytes_read(m);
	err = xd_mover_maps(m, (uintptr_t)p, (uintptr_t)p + 1, &list, &count);
	free(list);
	if (!can_watch(m))
		tap_skip("a mover lists one of many mappings without reading all", NEEDS_ROOT);
	else if (can_query())
		TAP_OK(before >= 0 && !err && count == 1 && bytes_read(m) == before,
		       "a mover lists one of many mappings without reading all");
	else
		tap_skip("a mover lists one of many mappings without reading all",
			 "PROCMAP_QUERY needs Linux 6.11");
	err = xd_mover_maps(m, PAGE, 2 * PAGE, &list, &count);
	TAP_OK(!err && !count && !list, "no mapping in a range");
	munmap(p, n * PAGE);
	xd_mover_end(m);
	TAP_OK(xd_mover_maps(m, PAGE, 2 * PAGE, &list, &count) == -ESRCH && !list,
	       "a mover that has ended lists none");
	xd_mover_put(m);
}

int main(void)
{
	start();
	test_accesses();
	check_rights("mappings by query or list");
	test_staging();
	test_stopped();
	test_in_use();
	test_killed();
	test_sleep();
	test_round();
	test_many();
	test_listed_mappings();
	stop();
	xd_proc_use_lists();
	start();
	check_rights("mappings by list");
	stop();
	test_list_of_epoch();
	test_long_list();
	return tap_end();
}
