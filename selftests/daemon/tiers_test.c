// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory that the daemon maps: adopted, shared, huge pages; permissions and limits of mappings */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/helper/execute.h"
#include "daemon/memory/proc_maps.h"
#include "daemon/memory/region.h"
#include "control.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif
#define SEALED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A region of reg_of() that lies in a file */
static int reg_fd(struct conn *c, int fd, uint64_t off, struct reg r)
{
	add_segment(&r, XR_SEG_FD, (void *)r.q.addr, r.q.length);
	r.segment[0].offset = off;
	return send_reg(c, &r, &fd, 1);
}

/* Maps a file and allocates its pages. */
static uint8_t *map_pages(int fd, size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
}

static int read_only(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Returns what the process has locked in memory. */
static unsigned locked_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned kib = UINT_MAX;
	char line[128];

	MUST(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "VmLck: %u", &kib) != 1)
		;
	fclose(f);
	MUST(kib != UINT_MAX);
	return kib;
}

static void test_adopted_memory(void)
{
	int fd = memfd(4 * PAGE, SEALED), soft = memfd(4 * PAGE, 0), ro = read_only(fd);
	int plain = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_RDWR);
	uint8_t *p = map_pages(fd, 4 * PAGE), b = 0x33;
	struct xd_mem_totals totals;
	unsigned locked = locked_kib();
	struct xr_reg_mr_rep mr;
	struct reg r;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(!reg_fd(&c, fd, 10, reg_of(pd, p + 10, 2 * PAGE, RW)),
	       "adopted: a sealed memfd is registered");
	mr = mr_of(&c);
	xd_mem_totals(&totals);
	TAP_OK(totals.mapped == 3 * PAGE, "adopted: whole pages are mapped");
	TAP_OK(the_mr(&c)->mem->pinned && totals.pinned == 3 * PAGE &&
		       locked_kib() == locked + 3 * PAGE / 1024,
	       "adopted: pages are locked in memory");
	TAP_OK(!remote_write_key(&c, pd, mr.rkey, p + 10, 1, &b) && p[10] == 0x33,
	       "client and daemon see the same bytes");
	TAP_OK(reg_fd(&c, soft, 0, reg_of(pd, p, PAGE, RW)) == -EINVAL,
	       "adopted: a memfd that can shrink is refused");
	TAP_OK(reg_fd(&c, plain, 0, reg_of(pd, p, PAGE, 0)) == -EINVAL,
	       "adopted: a file on disk is refused");
	TAP_OK(reg_fd(&c, null, 0, reg_of(pd, p, PAGE, RW)) == -EINVAL,
	       "adopted: a device is refused");
	TAP_OK(reg_fd(&c, ro, 0, reg_of(pd, p, PAGE, RW)) == -EINVAL,
	       "adopted: a read-only descriptor is refused for writing");
	TAP_OK(reg_fd(&c, fd, 3 * PAGE + 1, reg_of(pd, p, PAGE, RW)) == -EFAULT,
	       "adopted: one byte beyond the end is refused");
	TAP_OK(reg_fd(&c, fd, -PAGE, reg_of(pd, p, PAGE, RW)) == -EINVAL,
	       "adopted: a wrap-around of the offset is refused");
	r = reg_of(pd, p, PAGE, RW);
	add_segment(&r, XR_SEG_FD, p, PAGE);
	r.segment[0].fd_index = 1;
	TAP_OK(send_reg(&c, &r, &fd, 1) == -EINVAL, "adopted: a missing descriptor is refused");
	r = reg_of(pd, p, 2 * PAGE, RW);
	add_segment(&r, XR_SEG_FD, p, PAGE);
	add_segment(&r, XR_SEG_PRIVATE, p + PAGE + 1, PAGE - 1);
	TAP_OK(send_reg(&c, &r, &fd, 1) == -EINVAL, "segments with a gap are refused");
	r.segment[1] = (struct xr_mr_segment){
		.kind = XR_SEG_PRIVATE,
		.addr = (uintptr_t)p + PAGE,
		.length = PAGE,
	};
	proc_sent = false;
	TAP_OK(!send_reg(&c, &r, &fd, 1), "a region can have two tiers");
	proc_sent = true;
	mr = mr_of(&c);
	TAP_OK(the_mr(&c)->mem->tiers == (1u << XR_SEG_FD | 1u << XR_SEG_PRIVATE),
	       "the region has both tiers");
	{
		uint8_t across[16] = { [0 ... 15] = 0x44 };

		TAP_OK(!remote_write_key(&c, pd, mr.rkey, p + PAGE - 8, 16, across) &&
			       p[PAGE - 8] == 0x44 && p[PAGE + 7] == 0x44,
		       "a write can cross from one tier to the other");
	}
	TAP_OK(!reg_fd(&c, ro, 0, reg_of(pd, p, PAGE, XR_ACCESS_REMOTE_READ)) &&
		       the_mr(&c)->mem->tiers == 1u << XR_SEG_PRIVATE,
	       "adopted: a read-only descriptor is accessed like private memory");
	munmap(p, 4 * PAGE);
	close(fd), close(soft), close(ro), close(plain), close(null);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Returns the size of this program's address space. */
static rlim_t space(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long n = 0;

	MUST(f && fscanf(f, "%lu", &n) == 1);
	fclose(f);
	return n * PAGE;
}

/* If the daemon cannot create more mappings, it accesses adopted memory like private memory. */
static void test_no_mappings(void)
{
	const size_t size = 1ul << 30;
	uint64_t quota = fake.opt.user_max_pinned;
	struct rlimit old, limit;
	uint8_t *p, b = 0x66;
	struct conn c;
	uint32_t pd;
	int fd = memfd(size, SEALED), err;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(p != MAP_FAILED && !getrlimit(RLIMIT_AS, &old));
	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	MUST(!reg_private(&c, pd, p, 8, RW));
	proc_sent = true;
	fake.opt.user_max_pinned = 4 * size;
	limit = (struct rlimit){ space() + size / 2, old.rlim_max };
	MUST(!setrlimit(RLIMIT_AS, &limit));
	err = reg_fd(&c, fd, 0, reg_of(pd, p, size, RW));
	MUST(!setrlimit(RLIMIT_AS, &old));
	TAP_OK(!err && the_mr(&c)->mem->tiers == 1u << XR_SEG_PRIVATE,
	       "adopted memory that cannot be mapped is registered");
	TAP_OK(!remote_write_key(&c, pd, mr_of(&c).rkey, p + size - 1, 1, &b) &&
		       p[size - 1] == 0x66,
	       "adopted memory that cannot be mapped is accessed like private memory");
	limit.rlim_cur = space() + size / 2;
	MUST(!setrlimit(RLIMIT_AS, &limit));
	err = reg_fd(&c, fd, 0, reg_of(pd, (uint8_t *)PAGE, size, RW));
	MUST(!setrlimit(RLIMIT_AS, &old));
	TAP_OK(err == -ENOMEM,
	       "adopted memory that cannot be mapped is refused if the client has not mapped it");
	fake.opt.user_max_pinned = quota;
	munmap(p, size);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Reads the mapping that starts at an address from the maps file. */
static struct xd_vma vma_at(const void *p)
{
	struct xd_vma *list, vma;
	size_t n;

	MUST(!xd_proc_maps(proc_fd[1], (uintptr_t)p, (uintptr_t)p + 1, &list, &n) && n == 1);
	vma = list[0];
	free(list);
	return vma;
}

static struct reg mapping_reg(uint32_t pd, uint8_t *p, size_t length, uint32_t access)
{
	struct reg r = reg_of(pd, p, length, access);
	struct xd_vma vma = vma_at(p);

	add_segment(&r, XR_SEG_MAPPING, p, length);
	r.segment[0].map_start = vma.start;
	r.segment[0].map_end = vma.end;
	r.segment[0].offset = vma.offset + (uintptr_t)p - vma.start;
	return r;
}

static void test_shared_mapping(void)
{
	int fd = memfd(4 * PAGE, 0), ro = read_only(fd);
	uint8_t *p = map_pages(fd, 4 * PAGE);
	uint8_t *copy = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	uint8_t *look = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, ro, 0), b = 0x55;
	struct xr_reg_mr_rep mr;
	struct conn c;
	struct reg r;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	r = mapping_reg(pd, p + 5, PAGE, RW);
	TAP_OK(!send_reg(&c, &r, NULL, 0) && the_mr(&c)->mem->tiers == 1u << XR_SEG_MAPPING,
	       "shared: the daemon maps the file");
	proc_sent = true;
	mr = mr_of(&c);
	TAP_OK(!remote_write_key(&c, pd, mr.rkey, p + 5, 1, &b) && p[5] == 0x55,
	       "client and daemon see the same bytes");
	r.segment[0].offset += PAGE;
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "shared: a wrong offset is refused");
	r = mapping_reg(pd, p, PAGE, RW);
	r.segment[0].map_end += PAGE;
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "shared: an unknown mapping is refused");
	r = mapping_reg(pd, copy, PAGE, RW);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "shared: a private mapping is refused");
	r = mapping_reg(pd, look, PAGE, RW);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EFAULT,
	       "shared: writing to a read-only mapping is refused");
	r = mapping_reg(pd, look, PAGE, XR_ACCESS_REMOTE_READ);
	TAP_OK(!send_reg(&c, &r, NULL, 0), "shared: reading of a read-only mapping");

	MUST(!ftruncate(fd, 0));
	TAP_OK(read_key(&c, pd, mr.rkey, p + 5, 1, &b) == -EFAULT,
	       "shared: access to a truncated file fails");
	TAP_OK(!ask(&c, XR_MSG_ALLOC_PD, NULL, 0), "shared: other memory is not affected");
	r = mapping_reg(pd, p, PAGE, RW);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EFAULT,
	       "shared: a truncated file cannot be registered");
	munmap(p, 4 * PAGE), munmap(copy, 4 * PAGE), munmap(look, 4 * PAGE);
	close(fd), close(ro);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static uint64_t allocated(int fd)
{
	struct stat st;

	MUST(!fstat(fd, &st));
	return (uint64_t)st.st_blocks * 512;
}

#define PRIVATE (1u << XR_SEG_PRIVATE)

static void punch(int fd)
{
	MUST(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE));
	MUST(!allocated(fd));
}

/* Accesses to the memory after a client's mappings of it are no longer used */
static void check_unmapped(struct conn *c, uint32_t pd, uint32_t rkey, uint8_t *p)
{
	uint8_t b = 0x78;

	TAP_OK(!remote_write_key(c, pd, rkey, p + PAGE, 1, &b) && p[PAGE] == 0x78,
	       "absent pages: the mover writes, which allocates the page for the client");
	MUST(!mprotect(p + PAGE, PAGE, PROT_READ));
	TAP_OK(remote_write_key(c, pd, rkey, p + PAGE, 1, &b),
	       "absent pages: the mover does not write to a page that became read-only");
	MUST(!munmap(p + PAGE, PAGE));
	TAP_OK(read_key(c, pd, rkey, p + PAGE, 1, &b) == -EFAULT,
	       "absent pages: the mover does not read a page that was unmapped");
}

/*
 * The daemon must not allocate pages of a program's file: they would be charged to the daemon. And
 * an access to a hole that is being punched waits, so after the first absent page the mover
 * accesses the client's memory.
 */
static void test_absent_pages(void)
{
	int fd = memfd(4 * PAGE, SEALED);
	uint8_t *p = map_pages(fd, 4 * PAGE), b = 0x77;
	struct xd_mr *adopted, *shared, *others;
	struct conn c, other;
	uint32_t pd, rkey;
	struct reg r;

	MUST(p != MAP_FAILED);
	open_client(&other);
	close(events_fd);
	pd = alloc_pd(&other);
	MUST(!reg_fd(&other, fd, 0, reg_of(pd, p, 4 * PAGE, RW)));
	others = the_mr(&other);
	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	r = mapping_reg(pd, p, 4 * PAGE, RW);
	MUST(!send_reg(&c, &r, NULL, 0));
	proc_sent = true;
	shared = the_mr(&c);
	MUST(!reg_fd(&c, fd, 0, reg_of(pd, p, 4 * PAGE, RW)));
	adopted = the_mr(&c);
	rkey = mr_of(&c).rkey;
	MUST(!remote_write_key(&c, pd, rkey, p + PAGE, 1, &b) && p[PAGE] == 0x77);
	punch(fd);
	TAP_OK(remote_write_key(&c, pd, rkey, p + PAGE, 1, &b) && !allocated(fd),
	       "absent pages: a write to a hole fails, and allocates nothing");
	settle();
	TAP_OK(adopted->mem->tiers == PRIVATE && shared->mem->tiers == PRIVATE,
	       "absent pages: no region of the client is accessed by a mapping any more");
	TAP_OK(others->mem->tiers == 1u << XR_SEG_FD,
	       "absent pages: regions of another client of an operator stay mapped");
	MUST(!reg_fd(&c, fd, 0, reg_of(pd, p, 4 * PAGE, RW)));
	TAP_OK(the_mr(&c)->mem->tiers == PRIVATE,
	       "absent pages: neither is a region that the client registers later");
	check_unmapped(&c, pd, rkey, p);
	munmap(p, 4 * PAGE);
	close(fd);
	close_client(&c);
	disconnect(&other);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_absent_at_registration(void)
{
	int fd = memfd(4 * PAGE, SEALED);
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), b;
	struct conn c;
	uint32_t pd;

	MUST(p != MAP_FAILED);
	open_client(&c);
	pd = alloc_pd(&c);
	MUST(!reg_fd(&c, fd, 0, reg_of(pd, p, 4 * PAGE, RW)));
	TAP_OK(!allocated(fd) && !the_mr(&c)->mem->pinned,
	       "absent pages: registration neither allocates nor pins them");
	TAP_OK(read_key(&c, pd, mr_of(&c).rkey, p, 1, &b) == -EFAULT && !allocated(fd),
	       "absent pages: memory of a client that sent no descriptors cannot be accessed");
	settle();
	TAP_OK(reg_fd(&c, fd, 0, reg_of(pd, p, 4 * PAGE, RW)) == -EOPNOTSUPP,
	       "absent pages: nor can it register more");
	munmap(p, 4 * PAGE);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* DEREG_MR ends the daemon's mapping, although the client keeps its own. */
static void test_deregistered(void)
{
	int fd = memfd(4 * PAGE, SEALED), i, fds;
	uint8_t *p = map_pages(fd, 4 * PAGE);
	struct xd_mem_totals totals;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	MUST(!reg_fd(&c, fd, 0, reg_of(pd, p, PAGE, RW)));
	proc_sent = true;
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, handle_of(&c)));
	fds = open_fds();
	for (i = 0; i < 100; i++)
		MUST(!reg_fd(&c, fd, 0, reg_of(pd, p, 4 * PAGE, RW)) &&
		     !ask_handle(&c, XR_MSG_DEREG_MR, handle_of(&c)));
	xd_mem_totals(&totals);
	TAP_OK(!totals.mapped && !totals.pinned && !c.client->user->bytes.pinned &&
		       open_fds() == fds,
	       "deregistered memory is neither mapped nor pinned nor charged");
	TAP_OK(allocated(fd) == 4 * PAGE, "its pages stay");
	munmap(p, 4 * PAGE);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

struct mapped_file {
	struct conn *c;
	uint32_t pd;
	int fd;
	uint8_t *p;
};

/* Returns the tier of a region of the file with this owner, group and mode. */
static uint32_t tier_of_file(const struct mapped_file *f, uid_t uid, gid_t gid, mode_t mode)
{
	struct reg r = mapping_reg(f->pd, f->p, PAGE, RW);

	MUST(!fchown(f->fd, uid, gid) && !fchmod(f->fd, mode));
	MUST(!send_reg(f->c, &r, NULL, 0));
	return the_mr(f->c)->mem->tiers;
}

/* A shared file is mapped only if its mode would let the client open it. */
static void test_file_modes(void)
{
	const uint32_t mapped = 1u << XR_SEG_MAPPING, not_mapped = 1u << XR_SEG_PRIVATE;
	int fd = memfd(PAGE, 0);
	uint8_t *p = map_pages(fd, PAGE);
	struct mapped_file file = { .fd = fd, .p = p };
	struct xd_helper_peer peer = {
		.pid = getpid(),
		.pidfd = -1,
		.uid = 1000,
		.gid = 1001,
		.groups = { .gid = (gid_t[]){ 1002, 1003 }, .count = 2 },
	};
	struct conn c;

	open_client(&c);
	fake.peer = &peer;
	file.c = &c;
	file.pd = alloc_pd(&c);
	proc_sent = false;
	TAP_OK(tier_of_file(&file, 1000, 0, 0600) == mapped, "mode: the owner may write");
	proc_sent = true;
	TAP_OK(tier_of_file(&file, 1000, 1001, 0466) == not_mapped,
	       "mode: the owner may only read");
	TAP_OK(tier_of_file(&file, 0, 1001, 0060) == mapped, "mode: the group may write");
	TAP_OK(tier_of_file(&file, 0, 1003, 0060) == mapped,
	       "mode: a supplementary group may write");
	TAP_OK(tier_of_file(&file, 0, 1003, 0606) == not_mapped,
	       "mode: a supplementary group has no access");
	TAP_OK(tier_of_file(&file, 0, 1004, 0060) == not_mapped,
	       "mode: only another group may write");
	TAP_OK(tier_of_file(&file, 0, 1004, 0006) == mapped, "mode: everybody may write");
	fake.peer = NULL;
	munmap(p, PAGE);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_huge_pages(void)
{
	size_t huge = 2 << 20;
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
	struct xd_mem_totals totals;
	uint8_t *p = MAP_FAILED, b = 0x66;
	struct conn c;
	uint32_t pd;

	if (fd >= 0 && !ftruncate(fd, (off_t)huge))
		p = map_pages(fd, huge);
	if (p == MAP_FAILED) {
		tap_skip("a part of a huge page", "no huge pages here");
		close(fd);
		return;
	}
	MUST(!fcntl(fd, F_ADD_SEALS, SEALED));
	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(!reg_fd(&c, fd, 5000, reg_of(pd, p + 5000, 100, RW)),
	       "a part of a huge page is registered");
	xd_mem_totals(&totals);
	TAP_OK(totals.mapped == huge, "the whole huge page is mapped");
	TAP_OK(!remote_write_key(&c, pd, mr_of(&c).rkey, p + 5099, 1, &b) && p[5099] == 0x66,
	       "client and daemon see the same bytes");
	MUST(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)huge));
	TAP_OK(remote_write_key(&c, pd, mr_of(&c).rkey, p + 5099, 1, &b) && !allocated(fd),
	       "a write to an absent huge page fails");
	munmap(p, huge);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("tiers");
	test_adopted_memory();
	test_no_mappings();
	test_shared_mapping();
	test_absent_pages();
	test_absent_at_registration();
	test_deregistered();
	test_file_modes();
	test_huge_pages();

	fake_server_stop();
	return tap_end();
}
