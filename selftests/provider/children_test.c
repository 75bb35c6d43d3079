// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Adopted memory across fork, after the program changed the mapping */
#include "fixture.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../lib/tap.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MIB (1ul << 20)
#define PAGE 4096ul
#define RW (PROT_READ | PROT_WRITE)

static uint8_t *anonymous(size_t len)
{
	uint8_t *p = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool holds(const uint8_t *p, size_t len, uint8_t value)
{
	size_t i;

	for (i = 0; i < len && p[i] == value; i++)
		;
	return i == len;
}

/* Stores the permissions of the mapping at an address ("rw-p"), or "" if there is none. */
static void perms_at(const void *addr, char perms[5])
{
	unsigned long start, end;
	char line[512], these[5];
	FILE *maps = fopen("/proc/self/maps", "r");

	perms[0] = 0;
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, these) == 3 &&
		    start <= (uintptr_t)addr && (uintptr_t)addr < end)
			strcpy(perms, these);
	if (maps)
		fclose(maps);
}

static bool is_shared(const void *addr)
{
	char perms[5];

	perms_at(addr, perms);
	return perms[3] == 's';
}

/* Runs a function in a child process and returns its result. */
static int in_child(int (*does)(uint8_t *p), uint8_t *p)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(does(p));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int overwrite(uint8_t *p)
{
	if (!holds(p, MIB, 1))
		return 1;
	memset(p, 2, MIB);
	return 0;
}

static void advised(struct fixture *f)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	int status;

	memset(p, 1, MIB);
	madvise(p + MIB / 4, MIB / 4, MADV_DONTDUMP);
	status = in_child(overwrite, p);
	TAP_OK(!status && holds(p, MIB, 1),
	       "madvise of a part: the child's writes do not reach the parent (%d)", status);
	ibv_dereg_mr(mr);
	TAP_OK(!is_shared(p) && !is_shared(p + MIB / 4) && !is_shared(p + MIB / 2) &&
		       holds(p, MIB, 1),
	       "madvise of a part: memory is private after deregistration");
	munmap(p, MIB);
}

static int overwrite_rest(uint8_t *p)
{
	memset(p + MIB / 2, 2, MIB / 2);
	return 0;
}

static void partly_unmapped(struct fixture *f)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	int status;

	memset(p, 1, MIB);
	munmap(p, MIB / 2);
	status = in_child(overwrite_rest, p);
	TAP_OK(!status && holds(p + MIB / 2, MIB / 2, 1),
	       "munmap of a part: the child's writes do not reach the parent");
	ibv_dereg_mr(mr);
	TAP_OK(!is_shared(p + MIB / 2),
	       "munmap of a part: the rest is private after deregistration");
	munmap(p + MIB / 2, MIB / 2);
}

static void moved(struct fixture *f)
{
	uint8_t *p = anonymous(MIB), *q = anonymous(MIB);
	struct ibv_mr *mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	int status;

	memset(p, 1, MIB);
	q = mremap(p, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	status = in_child(overwrite, q);
	TAP_OK(!status && holds(q, MIB, 1), "mremap: the child's writes do not reach the parent");
	ibv_dereg_mr(mr);
	status = in_child(overwrite, q);
	TAP_OK(!status && holds(q, MIB, 1),
	       "mremap: the child's writes do not reach the parent after deregistration");
	munmap(q, MIB);
}

static int protection(uint8_t *p)
{
	char perms[5];

	perms_at(p, perms);
	return strcmp(perms, "r--p") != 0;
}

static void protected(struct fixture *f)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	char perms[5];

	mprotect(p, PAGE, PROT_READ);
	TAP_OK(!in_child(protection, p), "mprotect: the child keeps the protection");
	mprotect(p, MIB, RW | PROT_EXEC);
	ibv_dereg_mr(mr);
	perms_at(p, perms);
	TAP_OK(!strcmp(perms, "rwxp"), "mprotect: memory stays executable after deregistration");
	munmap(p, MIB);
}

/* Returns the bytes that page files hold. */
static long in_file(void)
{
	char path[32], link[64];
	struct stat st;
	long bytes = 0;
	int fd;

	for (fd = 3; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		memset(link, 0, sizeof(link));
		if (readlink(path, link, sizeof(link) - 1) > 0 &&
		    !strncmp(link, "/memfd:xroce-adopted", 20) && !fstat(fd, &st))
			bytes += st.st_blocks * 512;
	}
	return bytes;
}

static struct fixture *fixture;
static int there[2], go[2];

static int nothing(uint8_t *p)
{
	return !p;
}

/* The child has children before and after it registers memory itself. */
static int look_later(uint8_t *p)
{
	struct ibv_pd *pd = ibv_alloc_pd(fixture->ctx);
	uint8_t *own = anonymous(MIB);
	char byte;

	if (in_child(nothing, p))
		return 2;
	if (!pd || !ibv_reg_mr(pd, own, MIB, ALL) || !is_shared(own) || in_child(nothing, p))
		return 2;
	if (write(there[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
		return 3;
	return !holds(p, MIB, 1);
}

static void parent_deregisters(struct fixture *f)
{
	long before = in_file();
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	int status = -1;
	char byte;
	pid_t pid;

	memset(p, 1, MIB);
	if (pipe(there) || pipe(go))
		return;
	pid = fork();
	if (!pid)
		_exit(look_later(p));
	close(there[1]);
	if (read(there[0], &byte, 1) == 1 && !ibv_dereg_mr(mr) && write(go[1], "", 1) != 1)
		perror("write");
	waitpid(pid, &status, 0);
	TAP_OK(!status, "the child keeps pages that the parent deregisters (%x)", status);
	TAP_OK(in_file() == before + (long)MIB, "the page file keeps these pages");
	mr = ibv_reg_mr(f->pd, p, MIB, ALL);
	ibv_dereg_mr(mr);
	TAP_OK(in_file() == before && holds(p, MIB, 1),
	       "the page file frees the pages after the child has exited");
	munmap(p, MIB);
}

/* The program replaces the memory of a region and registers it before it deregisters the region. */
static void replaced(struct fixture *f)
{
	long before = in_file();
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *old = ibv_reg_mr(f->pd, p, MIB, ALL), *new;

	munmap(p, MIB);
	mmap(p, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(p, 3, MIB);
	new = ibv_reg_mr(f->pd, p, MIB, ALL);
	ibv_dereg_mr(old);
	TAP_OK(is_shared(p) && holds(p, MIB, 3),
	       "deregistering the old region does not change the new memory");
	ibv_dereg_mr(new);
	TAP_OK(!is_shared(p) && holds(p, MIB, 3), "the new memory is private after deregistration");
	TAP_OK(in_file() == before, "the page file frees the pages of both regions");
	munmap(p, MIB);
}

int main(void)
{
	struct fixture f;

	setup(&f);
	fixture = &f;
	advised(&f);
	partly_unmapped(&f);
	moved(&f);
	protected(&f);
	parent_deregisters(&f);
	replaced(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
