// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* madvise() on adopted memory, which behaves like private memory whose pages are pinned */
#include "fixture.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "../lib/tap.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PAGE 4096ul
#define PAGES 64
#define LEN (PAGES * PAGE)

static uint8_t *anonymous(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool all(const uint8_t *p, size_t len, uint8_t value)
{
	while (len && p[len - 1] == value)
		len--;
	return !len;
}

/* Finds an address in /proc/self/maps. Stores the permissions, and whether a file is mapped. */
static bool mapping_at(const void *addr, char perms[5], bool *file)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, inode;
	bool found = false;
	char line[512];

	while (!found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx %4s %*s %*s %lu", &start, &end, perms, &inode) == 4 &&
			start <= (uintptr_t)addr && (uintptr_t)addr < end;
	fclose(maps);
	*file = found && inode;
	return found;
}

static bool is_adopted(const void *addr)
{
	char perms[5];
	bool file;

	return mapping_at(addr, perms, &file) && perms[3] == 's' && file;
}

static bool is_anonymous(const void *addr)
{
	char perms[5];
	bool file;

	return mapping_at(addr, perms, &file) && perms[3] == 'p' && !file;
}

static uint8_t remote_byte(struct fixture *f, struct ibv_mr *mr, const uint8_t *p)
{
	uint8_t b = 0;

	return fake_read(&f->daemon, mr->rkey, (uintptr_t)p, &b, 1) ? b : 0xee;
}

/* Memory of a region, filled with a byte */
static struct ibv_mr *filled_region(struct fixture *f, uint8_t **p, uint8_t value)
{
	*p = anonymous(LEN);
	memset(*p, value, LEN);
	return ibv_reg_mr(f->pd, *p, LEN, ALL);
}

static void discarded(struct fixture *f)
{
	uint8_t *p, b = 7;
	struct ibv_mr *mr = filled_region(f, &p, 1), *again;

	TAP_OK(is_adopted(p) && !madvise(p + 8 * PAGE, 8 * PAGE, MADV_DONTNEED) &&
		       all(p + 8 * PAGE, 8 * PAGE, 0),
	       "MADV_DONTNEED of adopted pages gives zeros");
	TAP_OK(all(p, 8 * PAGE, 1) && all(p + 16 * PAGE, LEN - 16 * PAGE, 1) && is_adopted(p),
	       "the pages around them are unchanged and adopted");
	TAP_OK(is_anonymous(p + 8 * PAGE), "the new pages are anonymous");
	TAP_OK(remote_byte(f, mr, p + 9 * PAGE) == 1 && remote_byte(f, mr, p) == 1,
	       "the region keeps the old pages");
	fake_write(&f->daemon, mr->rkey, (uintptr_t)(p + 9 * PAGE), &b, 1);
	TAP_OK(!p[9 * PAGE], "writes to the region do not reach the new pages");
	memset(p + 8 * PAGE, 2, 8 * PAGE);
	again = ibv_reg_mr(f->pd, p, LEN, ALL);
	TAP_OK(again && remote_byte(f, again, p + 9 * PAGE) == 2 &&
		       remote_byte(f, again, p + 20 * PAGE) == 1,
	       "a new region has the new pages");
	TAP_OK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(again) && all(p + 8 * PAGE, 8 * PAGE, 2) &&
		       all(p, 8 * PAGE, 1),
	       "deregistration keeps the content");
	TAP_OK(!madvise(p, LEN, MADV_DONTNEED) && all(p, LEN, 0) && is_anonymous(p),
	       "MADV_DONTNEED gives zeros after deregistration, and anonymous memory");
	munmap(p, LEN);
}

static void odd_ranges(struct fixture *f)
{
	struct ibv_mr *mr;
	char perms[5];
	uint8_t *p;
	bool file;

	mr = filled_region(f, &p, 3);

	TAP_OK(madvise(p + 1, PAGE, MADV_DONTNEED) && errno == EINVAL && all(p, LEN, 3),
	       "an unaligned address is EINVAL");
	TAP_OK(!madvise(p, 0, MADV_DONTNEED) && all(p, LEN, 3), "length 0 changes nothing");
	TAP_OK(!madvise(p, 1, MADV_DONTNEED) && all(p, PAGE, 0) && all(p + PAGE, LEN - PAGE, 3),
	       "length 1 is a page");
	munmap(p + 4 * PAGE, PAGE);
	TAP_OK(madvise(p + 2 * PAGE, 4 * PAGE, MADV_DONTNEED) && errno == ENOMEM &&
		       all(p + 2 * PAGE, 2 * PAGE, 0) && !p[5 * PAGE] && p[6 * PAGE] == 3,
	       "a range with a hole is ENOMEM, and its pages are discarded");
	mprotect(p + 8 * PAGE, PAGE, PROT_READ);
	TAP_OK(!madvise(p + 8 * PAGE, PAGE, MADV_DONTNEED) && !p[8 * PAGE] &&
		       mapping_at(p + 8 * PAGE, perms, &file) && !strcmp(perms, "r--p"),
	       "read-only pages are discarded, and stay read-only");
	ibv_dereg_mr(mr);
	munmap(p, LEN);
}

static void other_advice(struct fixture *f)
{
	uint8_t *p;
	struct ibv_mr *mr = filled_region(f, &p, 4);

	TAP_OK(!madvise(p, LEN, MADV_FREE) && is_adopted(p),
	       "MADV_FREE succeeds, and the pages stay with the region");
	p[0] = 5;
	TAP_OK(p[0] == 5 && remote_byte(f, mr, p) == 5, "what is written afterwards is kept");
	TAP_OK(madvise(p, LEN, MADV_REMOVE) && errno == EINVAL && all(p + PAGE, PAGE, 4),
	       "MADV_REMOVE is EINVAL, as for all private memory");
	ibv_dereg_mr(mr);
	TAP_OK(!madvise(p, LEN, MADV_FREE), "MADV_FREE succeeds after deregistration");
	munmap(p, LEN);
}

static bool child_succeeds(int (*run)(uint8_t *p), uint8_t *p)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid)
		_exit(run(p));
	return waitpid(pid, &status, 0) == pid && !status;
}

static int discard_in_child(uint8_t *p)
{
	return madvise(p, LEN, MADV_DONTNEED) || !all(p, LEN, 0);
}

static int is_zero(uint8_t *p)
{
	return !all(p, LEN, 0);
}

static int is_unmapped(uint8_t *p)
{
	return !(msync(p, PAGE, MS_ASYNC) && errno == ENOMEM && !msync(p + PAGE, PAGE, MS_ASYNC));
}

static void in_children(struct fixture *f)
{
	uint8_t *p;
	struct ibv_mr *mr = filled_region(f, &p, 6);
	int status;
	pid_t pid;

	TAP_OK(child_succeeds(discard_in_child, p) && all(p, LEN, 6) && remote_byte(f, mr, p) == 6,
	       "MADV_DONTNEED in a child gives zeros there, and none in the parent");
	madvise(p, PAGE, MADV_DONTFORK);
	TAP_OK(child_succeeds(is_unmapped, p), "after MADV_DONTFORK a child lacks the page");
	madvise(p, PAGE, MADV_DOFORK);
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	ibv_dereg_mr(mr);
	TAP_OK(!madvise(p, LEN, MADV_DONTNEED) && all(p, LEN, 0),
	       "MADV_DONTNEED gives zeros after deregistration while a child has the pages");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	munmap(p, LEN);

	p = anonymous(LEN);
	memset(p, 1, LEN);
	madvise(p, LEN, MADV_WIPEONFORK);
	mr = ibv_reg_mr(f->pd, p, LEN, ALL);
	TAP_OK(mr && child_succeeds(is_zero, p) && all(p, LEN, 1) && remote_byte(f, mr, p) == 1,
	       "a child sees zeros in a region of memory with MADV_WIPEONFORK");
	ibv_dereg_mr(mr);
	munmap(p, LEN);
}

/* ---- userfaultfd ------------------------------------------------------------------- */

/* As in the postcopy migration of QEMU: discard, register for missing pages, copy pages there. */
static void refilled(struct fixture *f)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	uint8_t *p, *page = anonymous(PAGE);
	struct ibv_mr *mr = filled_region(f, &p, 7);
	struct uffdio_register reg = {
		.range = { (uintptr_t)p, LEN },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_copy copy = { .dst = (uintptr_t)p, .src = (uintptr_t)page, .len = PAGE };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)p + PAGE, PAGE } };

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) {
		tap_skip("UFFDIO_COPY after MADV_DONTNEED", "no userfaultfd");
		return;
	}
	memset(page, 8, PAGE);
	TAP_OK(!madvise(p, LEN, MADV_DONTNEED) && !ioctl(fd, UFFDIO_REGISTER, &reg) &&
		       reg.ioctls & 1ull << _UFFDIO_ZEROPAGE && !ioctl(fd, UFFDIO_COPY, &copy) &&
		       !ioctl(fd, UFFDIO_ZEROPAGE, &zero) && all(p, PAGE, 8) &&
		       all(p + PAGE, PAGE, 0),
	       "pages can be copied by a userfaultfd after MADV_DONTNEED");
	close(fd);
	ibv_dereg_mr(mr);
	TAP_OK(all(p, PAGE, 8), "deregistration keeps them");
	munmap(p, LEN);
	munmap(page, PAGE);
}

/* ---- at the same time as registration ----------------------------------------------- */

struct discarder {
	pthread_t thread;
	uint8_t *p;
	bool stop;
	unsigned long times, stale;
};

/* Long enough that the page is often discarded while it is being copied */
#define LONG (512 * PAGE)

/* Only this thread writes to the page, so it must see zero after each MADV_DONTNEED. */
static void *discard_repeatedly(void *arg)
{
	struct discarder *d = arg;
	volatile uint8_t *byte = d->p + LONG - PAGE;

	while (!__atomic_load_n(&d->stop, __ATOMIC_RELAXED)) {
		*byte = 9;
		if (madvise(d->p + LONG - PAGE, PAGE, MADV_DONTNEED) || *byte)
			d->stale++;
		__atomic_add_fetch(&d->times, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void at_once(struct fixture *f)
{
	struct discarder d = { .p = anonymous(LONG) };
	int i, failed = 0;

	pthread_create(&d.thread, NULL, discard_repeatedly, &d);
	for (i = 0; i < 400 || __atomic_load_n(&d.times, __ATOMIC_RELAXED) < 400; i++) {
		struct ibv_mr *mr = ibv_reg_mr(f->pd, d.p, LONG, ALL);

		failed += !mr || ibv_dereg_mr(mr);
	}
	__atomic_store_n(&d.stop, true, __ATOMIC_RELAXED);
	pthread_join(d.thread, NULL);
	TAP_OK(!failed && !d.stale,
	       "memory is discarded while it is registered (%lu times, %lu with old bytes)",
	       d.times, d.stale);
	munmap(d.p, LONG);
}

static uint8_t *handler_page;
static unsigned long handled;

static void on_alarm(int sig)
{
	(void)sig;
	if (!madvise(handler_page, PAGE, MADV_DONTNEED) && !handler_page[0])
		handled++;
	handler_page[0] = 1;
}

static void in_handler(struct fixture *f)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	int failed = 0;
	uint8_t *p;
	struct ibv_mr *mr = filled_region(f, &handler_page, 1);
	int i;

	p = anonymous(LEN);
	sigaction(SIGVTALRM, &sa, NULL);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	for (i = 0; i < 100000 && (i < 300 || handled < 20); i++) {
		struct ibv_mr *other = ibv_reg_mr(f->pd, p, LEN, ALL);

		failed += !other || ibv_dereg_mr(other);
	}
	setitimer(ITIMER_VIRTUAL, &never, NULL);
	TAP_OK(!failed && handled,
	       "a signal handler discards memory during registration (%lu times)", handled);
	ibv_dereg_mr(mr);
	munmap(handler_page, LEN);
	munmap(p, LEN);
}

int main(void)
{
	struct fixture f;
	uint8_t *probe = NULL;
	struct ibv_mr *mr;

	setup(&f);
	mr = filled_region(&f, &probe, 1);
	if (mr && is_adopted(probe)) {
		discarded(&f);
		odd_ranges(&f);
		other_advice(&f);
		in_children(&f);
		refilled(&f);
		at_once(&f);
		in_handler(&f);
	} else {
		tap_skip("madvise of adopted memory", "no access to /dev/userfaultfd");
	}
	ibv_dereg_mr(mr);
	munmap(probe, LEN);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
