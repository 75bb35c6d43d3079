// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* mremap() and guard pages on adopted memory, which behaves like private memory */
#include "fixture.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../lib/tap.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PAGE 4096ul
#define LEN (1ul << 20)

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

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

static bool is_adopted(const void *addr)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	bool adopted = false;
	char line[512];

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (uintptr_t)addr &&
		    (uintptr_t)addr < end)
			adopted = strstr(line, "xroce-adopted");
	fclose(maps);
	return adopted;
}

static uint8_t remote_byte(struct fixture *f, struct ibv_mr *mr, uintptr_t addr)
{
	uint8_t b = 0;

	return fake_read(&f->daemon, mr->rkey, addr, &b, 1) ? b : 0xee;
}

/*
 * Three regions next to each other, p[1] with the bytes 1 in the middle. Each was adopted before
 * the one at the higher address, so that its pages are not far behind in the file.
 */
struct three {
	uint8_t *p[3];
	struct ibv_mr *mr[3];
};

static struct three three_regions(struct fixture *f)
{
	uint8_t *p = anonymous(3 * LEN);
	struct three t;
	int i;

	for (i = 0; i < 3; i++) {
		t.p[i] = p + i * LEN;
		memset(t.p[i], i, LEN);
		t.mr[i] = ibv_reg_mr(f->pd, t.p[i], LEN, ALL);
	}
	return t;
}

static bool others_unchanged(const struct three *t)
{
	return all(t->p[0], LEN, 0) && all(t->p[2], LEN, 2);
}

static void end_three(struct three *t, uint8_t *moved, size_t len)
{
	int i;

	for (i = 0; i < 3; i++)
		ibv_dereg_mr(t->mr[i]);
	munmap(moved, len);
	munmap(t->p[0], LEN);
	munmap(t->p[2], LEN);
}

static bool child_keeps_its_writes(uint8_t *p)
{
	uint8_t before = *p;
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		(*p)++;
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && !status && *p == before;
}

static void grows(struct fixture *f)
{
	struct three t = three_regions(f);
	uint8_t *p;

	TAP_OK(mremap(t.p[1], LEN, 2 * LEN, 0) == MAP_FAILED && errno == ENOMEM &&
		       all(t.p[1], LEN, 1),
	       "memory that may not move does not grow over other memory");
	p = mremap(t.p[1], LEN, 9 * LEN, MREMAP_MAYMOVE);
	TAP_OK(p != MAP_FAILED && p != t.p[1] && all(p, LEN, 1) && is_adopted(p),
	       "memory moves to grow, and its pages stay with the region");
	TAP_OK(all(p + LEN, 8 * LEN, 0) && !is_adopted(p + LEN), "it grows by zeros");
	memset(p + LEN, 7, 8 * LEN);
	TAP_OK(others_unchanged(&t) && remote_byte(f, t.mr[2], (uintptr_t)t.p[2]) == 2,
	       "writes there do not reach other regions");
	p[5] = 9;
	TAP_OK(remote_byte(f, t.mr[1], (uintptr_t)t.p[1] + 5) == 9, "the region has the pages");
	p = mremap(p, 9 * LEN, 12 * LEN, MREMAP_MAYMOVE);
	TAP_OK(p != MAP_FAILED && p[5] == 9 && all(p + LEN, 8 * LEN, 7) &&
		       all(p + 9 * LEN, 3 * LEN, 0),
	       "it grows again");
	TAP_OK(child_keeps_its_writes(p) && child_keeps_its_writes(p + 2 * LEN),
	       "children have copies of all of it");
	TAP_OK(!madvise(p, 12 * LEN, MADV_DONTNEED) && all(p, 12 * LEN, 0),
	       "MADV_DONTNEED gives zeros where memory was moved");
	end_three(&t, p, 12 * LEN);
}

static void grows_in_place(struct fixture *f)
{
	struct three t = three_regions(f);
	uint8_t *p;

	munmap(t.p[2], LEN);
	p = mremap(t.p[1], LEN, 2 * LEN, 0);
	TAP_OK(p == t.p[1] && all(p, LEN, 1) && all(p + LEN, LEN, 0) && is_adopted(p) &&
		       !is_adopted(p + LEN),
	       "memory grows in place by zeros");
	memset(p + LEN, 7, LEN);
	TAP_OK(remote_byte(f, t.mr[2], (uintptr_t)t.p[2]) == 2,
	       "the region that was there keeps its pages");
	ibv_dereg_mr(t.mr[1]);
	t.mr[1] = ibv_reg_mr(f->pd, p, 2 * LEN, ALL);
	TAP_OK(t.mr[1] && remote_byte(f, t.mr[1], (uintptr_t)p + LEN) == 7 && all(p, LEN, 1),
	       "all of it can be registered");
	t.p[2] = t.p[0];
	end_three(&t, p, 2 * LEN);
}

static void grows_at_address(struct fixture *f)
{
	struct three t = three_regions(f);
	uint8_t *to = anonymous(2 * LEN), *p;
	int how = MREMAP_MAYMOVE | MREMAP_FIXED;

	TAP_OK(mremap(t.p[1], LEN, 2 * LEN, how, to + 1) == MAP_FAILED && errno == EINVAL,
	       "an unaligned new address is EINVAL");
	TAP_OK(mremap(t.p[1], LEN, 2 * LEN, how, t.p[0]) == MAP_FAILED && errno == EINVAL,
	       "a new range that overlaps the old one is EINVAL");
	TAP_OK(mremap(t.p[1], LEN, 2 * LEN, MREMAP_FIXED, to) == MAP_FAILED && errno == EINVAL &&
		       all(t.p[1], LEN, 1) && others_unchanged(&t),
	       "MREMAP_FIXED alone is EINVAL");
	memset(to, 8, 2 * LEN);
	p = mremap(t.p[1], LEN, 2 * LEN, how, to);
	TAP_OK(p == to && all(p, LEN, 1) && all(p + LEN, LEN, 0) && others_unchanged(&t),
	       "memory grows at another address");
	end_three(&t, p, 2 * LEN);
}

static void as_private_memory(struct fixture *f)
{
	struct three t = three_regions(f);
	uint8_t *p;

	TAP_OK(mremap(t.p[1], 0, LEN, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL,
	       "no second mapping of the pages can be made (EINVAL)");
	p = mremap(t.p[1], LEN, LEN, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	TAP_OK(p != MAP_FAILED && all(p, LEN, 1) && all(t.p[1], LEN, 0) && !is_adopted(t.p[1]),
	       "MREMAP_DONTUNMAP leaves zeros");
	memset(t.p[1], 5, LEN);
	TAP_OK(all(p, LEN, 1) && others_unchanged(&t), "both are separate then");
	munmap(t.p[1], LEN);
	p = mremap(p, LEN, LEN / 2, 0);
	TAP_OK(p != MAP_FAILED && all(p, LEN / 2, 1), "memory becomes shorter");
	TAP_OK(!madvise(p, LEN / 2, MADV_DONTNEED) && all(p, LEN / 2, 0),
	       "MADV_DONTNEED gives zeros there");
	end_three(&t, p, LEN / 2);
}

/* As realloc() of libc does it, whose call of mremap() cannot be interposed */
static void without_library(struct fixture *f)
{
	struct three t = three_regions(f);
	long at = syscall(SYS_mremap, t.p[1], LEN, 9 * LEN, MREMAP_MAYMOVE, 0);
	uint8_t *p = (uint8_t *)at;

	TAP_OK(at != -1 && all(p, LEN, 1) && all(p + LEN, 8 * LEN, 0),
	       "the system call makes memory grow by zeros");
	memset(p + LEN, 7, 8 * LEN);
	TAP_OK(others_unchanged(&t), "writes there do not reach other regions");
	ibv_dereg_mr(t.mr[1]);
	TAP_OK(all(p, LEN, 1) && all(p + LEN, 8 * LEN, 7), "deregistration keeps all of it");
	t.mr[1] = ibv_reg_mr(f->pd, p, 9 * LEN, ALL);
	TAP_OK(t.mr[1] && remote_byte(f, t.mr[1], (uintptr_t)p) == 1 &&
		       remote_byte(f, t.mr[1], (uintptr_t)p + 8 * LEN) == 7,
	       "all of it can be registered");
	end_three(&t, p, 9 * LEN);
}

static void guarded(struct fixture *f)
{
	struct three t = three_regions(f);
	uint8_t *p = t.p[1];
	pid_t pid;
	int status;

	if (madvise(p, PAGE, MADV_GUARD_INSTALL)) {
		tap_skip("guard pages", "MADV_GUARD_INSTALL needs Linux 6.15");
	} else {
		pid = fork();
		if (!pid)
			_exit(*(volatile uint8_t *)p);
		TAP_OK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "guard pages guard");
		TAP_OK(!madvise(p, PAGE, MADV_GUARD_REMOVE) && all(p, PAGE, 0) &&
			       all(p + PAGE, LEN - PAGE, 1),
		       "zeros are there when the guard is removed");
		TAP_OK(remote_byte(f, t.mr[1], (uintptr_t)p) == 1, "the region keeps the old page");
	}
	end_three(&t, p, LEN);
}

int main(void)
{
	struct fixture f;
	uint8_t *probe;
	struct ibv_mr *mr;
	bool can_adopt;

	setup(&f);
	probe = anonymous(PAGE);
	mr = ibv_reg_mr(f.pd, probe, PAGE, ALL);
	can_adopt = mr && is_adopted(probe);
	ibv_dereg_mr(mr);
	if (can_adopt) {
		grows(&f);
		grows_in_place(&f);
		grows_at_address(&f);
		as_private_memory(&f);
		without_library(&f);
		guarded(&f);
	} else {
		tap_skip("mremap of adopted memory", "no access to /dev/userfaultfd");
	}
	munmap(probe, PAGE);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
