// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory regions: their tiers, who may do what with which key, memory that goes away. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/if_xdp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/memory/proc_maps.h"
#include "daemon/memory/tiers.h"
#include "daemon/objects/objects.h"
#include "control.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif
#define SEALED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The bytes behind a key, as a QP of the domain would get them */
static int use_key(struct conn *c, uint32_t pd, uint32_t key, const void *at, size_t len,
		   uint32_t access, void *data)
{
	struct xd_pd *domain = xd_object_get(c->client, XD_PD, pd);
	struct xt_mem *mem;
	uint64_t off;

	if (xt_keys_check(fake.dev.shared.keys, key, domain->d.number, 2, access, (uintptr_t)at,
			  len, &mem, &off) != XR_OK)
		return -EACCES;
	if (!mem)
		return 0;
	return access & XR_ACCESS_REMOTE_WRITE ? xt_mem_write(mem, off, data, len) :
						 xt_mem_read(mem, off, data, len);
}

static struct xr_reg_mr_rep mr_of(struct conn *c)
{
	return *(struct xr_reg_mr_rep *)c->body;
}

static struct xd_mr *the_mr(struct conn *c)
{
	return xd_object_get(c->client, XD_MR, mr_of(c).handle);
}

static void test_private_memory(void)
{
	uint8_t *p = pages(6, PROT_READ | PROT_WRITE, MAP_PRIVATE), byte = 0, b16[16];
	struct xr_reg_mr_rep mr;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	memset(p, 0x11, 6 * PAGE);
	proc_sent = true;
	TAP_OK(reg_private(&c, pd, p, PAGE, RW) == -EINVAL, "private memory without its files");
	proc_sent = false;
	TAP_OK(!reg_private(&c, pd, p + 100, 5000, RW) && fake.map_keys == 1, "private memory");
	proc_sent = true;
	mr = mr_of(&c);
	memset(b16, 0x22, sizeof(b16));
	TAP_OK(!use_key(&c, pd, mr.rkey, p + 100, 16, XR_ACCESS_REMOTE_WRITE, b16) &&
	       p[99] == 0x11 && p[100] == 0x22 && p[115] == 0x22 && p[116] == 0x11, "write");
	TAP_OK(!use_key(&c, pd, mr.rkey, p + 5099, 1, 0, &byte) && byte == 0x11,
	       "read the last byte");
	TAP_OK(use_key(&c, pd, mr.rkey, p + 5100, 1, 0, &byte) &&
	       use_key(&c, pd, mr.rkey, p + 99, 1, 0, &byte), "one beyond either end");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, mr.handle));
	TAP_OK(use_key(&c, pd, mr.rkey, p + 100, 1, 0, &byte) && !fake.map_keys, "after dereg");

	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	munmap(p + 4 * PAGE, PAGE);
	TAP_OK(reg_private(&c, pd, p, 3 * PAGE, RW) == -EFAULT, "a read-only page in the middle");
	TAP_OK(!reg_private(&c, pd, p, 3 * PAGE, XR_ACCESS_REMOTE_READ), "which may be read");
	TAP_OK(reg_private(&c, pd, p, 5 * PAGE, XR_ACCESS_REMOTE_READ) == -EFAULT,
	       "a hole at the end");
	TAP_OK(reg_private(&c, pd, p + 3 * PAGE, 3 * PAGE, 0) == -EFAULT, "a hole in the middle");
	TAP_OK(!reg_private(&c, pd, p, 0, RW), "nothing at all");
	TAP_OK(reg_private(&c, pd, p, 10, XR_ACCESS_REMOTE_WRITE) == -EINVAL,
	       "remote write without local write");
	TAP_OK(reg_private(&c, pd, p, 10, 1 << 15) == -EOPNOTSUPP, "unknown access");
	TAP_OK(reg_private(&c, pd, (void *)-PAGE, 2 * PAGE, 0) == -EINVAL, "around the end");
	TAP_OK(reg_private(&c, pd, NULL, SIZE_MAX, 0) == -EDQUOT, "everything there is");
	TAP_OK(reg_private(&c, pd, p, 1ul << 30, RW) == -EDQUOT, "more than the user may have");
	TAP_OK(reg_private(&c, pd + 1, p, 10, RW) == -ENOENT, "no such PD");

	MUST(!reg_private(&c, pd, p + 3 * PAGE, PAGE, RW));
	mr = mr_of(&c);
	munmap(p + 3 * PAGE, PAGE);
	TAP_OK(use_key(&c, pd, mr.rkey, p + 3 * PAGE, 1, 0, &byte) == -EFAULT,
	       "memory that is gone is a fault");
	munmap(p, 4 * PAGE);
	munmap(p + 5 * PAGE, PAGE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Nothing is looked at before it is used, and then its protection counts. */
static void test_on_demand(void)
{
	uint8_t *p = pages(4, PROT_READ | PROT_WRITE, MAP_PRIVATE), b = 0x77, got;
	const uint32_t demand = RW | XR_ACCESS_ON_DEMAND;
	uint8_t across[2 * PAGE] = { 0 };
	struct xr_reg_mr_rep mr;
	struct conn c;
	struct reg r;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	munmap(p + PAGE, PAGE);
	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	mprotect(p + 3 * PAGE, PAGE, PROT_NONE);
	r = reg_of(pd, p, 4 * PAGE, demand);
	TAP_OK(!send_reg(&c, &r, NULL, 0), "on demand: memory that is not all there");
	proc_sent = true;
	mr = mr_of(&c);
	TAP_OK(!use_key(&c, pd, mr.rkey, p, 1, XR_ACCESS_REMOTE_WRITE, &b) && p[0] == 0x77,
	       "on demand: write");
	TAP_OK(use_key(&c, pd, mr.rkey, p + PAGE, 1, 0, &got) == -EFAULT, "on demand: a hole");
	TAP_OK(!use_key(&c, pd, mr.rkey, p + 2 * PAGE, 1, 0, &got) &&
	       use_key(&c, pd, mr.rkey, p + 2 * PAGE, 1, XR_ACCESS_REMOTE_WRITE, &b) == -EFAULT &&
	       p[2 * PAGE] == 0, "on demand: a read-only page is read, and not written");
	TAP_OK(use_key(&c, pd, mr.rkey, p + 3 * PAGE, 1, 0, &got) == -EFAULT,
	       "on demand: a page that nobody may read");
	mprotect(p + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
	TAP_OK(!use_key(&c, pd, mr.rkey, p + 2 * PAGE, 2 * PAGE, XR_ACCESS_REMOTE_WRITE, across),
	       "on demand: what is there now");
	mprotect(p + 3 * PAGE, PAGE, PROT_READ);
	TAP_OK(use_key(&c, pd, mr.rkey, p + 2 * PAGE, 2 * PAGE, XR_ACCESS_REMOTE_WRITE, across) ==
	       -EFAULT, "on demand: a write that ends in a read-only page");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, mr.handle));

	r = reg_of(pd, NULL, SIZE_MAX, demand);
	TAP_OK(!send_reg(&c, &r, NULL, 0), "on demand: the whole address space");
	mr = mr_of(&c);
	TAP_OK(!use_key(&c, pd, mr.rkey, &got, 1, XR_ACCESS_REMOTE_WRITE, &b) && got == 0x77,
	       "on demand: a byte of the stack");
	TAP_OK(use_key(&c, pd, mr.rkey, NULL, 8, 0, across) == -EFAULT &&
	       use_key(&c, pd, mr.rkey, (void *)-9, 8, 0, across) == -EFAULT &&
	       use_key(&c, pd, mr.rkey, (void *)-1, 1, 0, across) == -EACCES,
	       "on demand: the ends of it");
	r = reg_of(pd, p, 8, demand);
	add_segment(&r, XR_SEG_PRIVATE, p, 8);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "on demand: a segment");
	r = reg_of(pd, p, SIZE_MAX, demand);
	r.q.iova = 0;
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "on demand: around the end");
	munmap(p, PAGE);
	munmap(p + 2 * PAGE, 2 * PAGE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static int memfd(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && !ftruncate(fd, (off_t)size));
	if (seals)
		MUST(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static int reg_fd(struct conn *c, uint32_t pd, int fd, const void *addr, uint64_t off,
		  size_t length, uint32_t access)
{
	struct reg r = reg_of(pd, addr, length, access);

	add_segment(&r, XR_SEG_FD, addr, length);
	r.segment[0].offset = off;
	return send_reg(c, &r, &fd, 1);
}

static int read_only(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void test_adopted_memory(void)
{
	int fd = memfd(4 * PAGE, SEALED), soft = memfd(4 * PAGE, 0), ro = read_only(fd);
	int plain = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_RDWR);
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), b = 0x33;
	struct xd_mem_totals totals;
	struct xr_reg_mr_rep mr;
	struct reg r;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(!reg_fd(&c, pd, fd, p + 10, 10, 2 * PAGE, RW), "a sealed memfd");
	mr = mr_of(&c);
	xd_mem_totals(&totals);
	TAP_OK(totals.mapped == 3 * PAGE, "whole pages of it are mapped");
	if (the_mr(&c)->mem->pinned)
		TAP_OK(totals.pinned == 3 * PAGE, "and pinned");
	else
		tap_skip("and pinned", "no AF_XDP sockets here");
	TAP_OK(!use_key(&c, pd, mr.rkey, p + 10, 1, XR_ACCESS_REMOTE_WRITE, &b) && p[10] == 0x33,
	       "one write, seen by both");
	TAP_OK(reg_fd(&c, pd, soft, p, 0, PAGE, RW) == -EINVAL, "a memfd that can shrink");
	TAP_OK(reg_fd(&c, pd, plain, p, 0, PAGE, 0) == -EINVAL, "a file on disk");
	TAP_OK(reg_fd(&c, pd, null, p, 0, PAGE, RW) == -EINVAL, "a device");
	TAP_OK(reg_fd(&c, pd, ro, p, 0, PAGE, RW) == -EINVAL,
	       "read-only descriptor, to be written");
	TAP_OK(!reg_fd(&c, pd, ro, p, 0, PAGE, XR_ACCESS_REMOTE_READ), "read-only, to be read");
	TAP_OK(reg_fd(&c, pd, fd, p, 3 * PAGE + 1, PAGE, RW) == -EFAULT, "one byte beyond the end");
	TAP_OK(reg_fd(&c, pd, fd, p, -PAGE, PAGE, RW) == -EINVAL, "an offset around the end");
	r = reg_of(pd, p, PAGE, RW);
	add_segment(&r, XR_SEG_FD, p, PAGE);
	r.segment[0].fd_index = 1;
	TAP_OK(send_reg(&c, &r, &fd, 1) == -EINVAL, "a descriptor that did not come");
	r = reg_of(pd, p, 2 * PAGE, RW);
	add_segment(&r, XR_SEG_FD, p, PAGE);
	add_segment(&r, XR_SEG_PRIVATE, p + PAGE + 1, PAGE - 1);
	TAP_OK(send_reg(&c, &r, &fd, 1) == -EINVAL, "segments with a gap");
	r.segment[1] = (struct xr_mr_segment){
		.kind = XR_SEG_PRIVATE, .addr = (uintptr_t)p + PAGE, .length = PAGE,
	};
	proc_sent = false;
	TAP_OK(!send_reg(&c, &r, &fd, 1), "two tiers in one region");
	proc_sent = true;
	mr = mr_of(&c);
	TAP_OK(the_mr(&c)->mem->tiers == (1u << XR_SEG_FD | 1u << XR_SEG_PRIVATE), "known as such");
	{
		uint8_t across[16] = { [0 ... 15] = 0x44 };

		TAP_OK(!use_key(&c, pd, mr.rkey, p + PAGE - 8, 16, XR_ACCESS_REMOTE_WRITE,
				across) &&
			       p[PAGE - 8] == 0x44 && p[PAGE + 7] == 0x44,
		       "one write across both");
	}
	munmap(p, 4 * PAGE);
	close(fd), close(soft), close(ro), close(plain), close(null);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Bytes of address space that this program has */
static rlim_t space(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long n = 0;

	MUST(f && fscanf(f, "%lu", &n) == 1);
	fclose(f);
	return n * PAGE;
}

/* The daemon can have no more mappings: what is adopted is reached like private memory. */
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
	err = reg_fd(&c, pd, fd, p, 0, size, RW);
	MUST(!setrlimit(RLIMIT_AS, &old));
	TAP_OK(!err && the_mr(&c)->mem->tiers == 1u << XR_SEG_PRIVATE,
	       "adopted memory that cannot be mapped");
	TAP_OK(!use_key(&c, pd, mr_of(&c).rkey, p + size - 1, 1, XR_ACCESS_REMOTE_WRITE, &b) &&
	       p[size - 1] == 0x66, "is reached like private memory");
	limit.rlim_cur = space() + size / 2;
	MUST(!setrlimit(RLIMIT_AS, &limit));
	err = reg_fd(&c, pd, fd, (uint8_t *)PAGE, 0, size, RW);
	MUST(!setrlimit(RLIMIT_AS, &old));
	TAP_OK(err == -ENOMEM, "but not where the client has nothing");
	fake.opt.user_max_pinned = quota;
	munmap(p, size);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* The mapping that starts at an address, as the maps file has it */
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
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
	       "a shared mapping is mapped here");
	proc_sent = true;
	mr = mr_of(&c);
	TAP_OK(!use_key(&c, pd, mr.rkey, p + 5, 1, XR_ACCESS_REMOTE_WRITE, &b) && p[5] == 0x55,
	       "one write, seen by both");
	r.segment[0].offset += PAGE;
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "a wrong offset");
	r = mapping_reg(pd, p, PAGE, RW);
	r.segment[0].map_end += PAGE;
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "no such mapping");
	r = mapping_reg(pd, copy, PAGE, RW);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "a private mapping is no shared one");
	r = mapping_reg(pd, look, PAGE, RW);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EFAULT, "a read-only one, to be written");
	r = mapping_reg(pd, look, PAGE, XR_ACCESS_REMOTE_READ);
	TAP_OK(!send_reg(&c, &r, NULL, 0), "a read-only one, to be read");

	/* the client takes the pages away; pinned ones stay with the daemon's mapping */
	MUST(!ftruncate(fd, 0));
	use_key(&c, pd, mr.rkey, p + 5, 1, 0, &b);
	TAP_OK(use_key(&c, pd, mr.rkey, p + 5, 1, 0, &b) == -EFAULT ||
	       the_mr(&c)->mem->xt.broken, "a file that was truncated is a fault");
	TAP_OK(!ask(&c, XR_MSG_ALLOC_PD, NULL, 0), "and nothing else");
	r = mapping_reg(pd, p, PAGE, RW);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EFAULT, "it cannot be registered any more");
	munmap(p, 4 * PAGE), munmap(copy, 4 * PAGE), munmap(look, 4 * PAGE);
	close(fd), close(ro);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* The tier by which a file with this owner, group and mode is reached */
static uint32_t tier_of_file(struct conn *c, uint32_t pd, int fd, uint8_t *p, uid_t uid, gid_t gid,
			     mode_t mode)
{
	struct reg r = mapping_reg(pd, p, PAGE, RW);

	MUST(!fchown(fd, uid, gid) && !fchmod(fd, mode));
	MUST(!send_reg(c, &r, NULL, 0));
	return the_mr(c)->mem->tiers;
}

/* Shared memory of others is mapped only where its mode would let the client open it. */
static void test_file_modes(void)
{
	const uint32_t mapped = 1u << XR_SEG_MAPPING, not_mapped = 1u << XR_SEG_PRIVATE;
	int fd = memfd(PAGE, 0);
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct conn c;
	uint32_t pd;

	open_client(&c);
	c.client->uid = 1000;
	c.client->gid = 1001;
	free(c.client->groups.gid);
	c.client->groups.gid = malloc(2 * sizeof(gid_t));
	c.client->groups.gid[0] = 1002;
	c.client->groups.gid[1] = 1003;
	c.client->groups.count = 2;
	pd = alloc_pd(&c);
	proc_sent = false;
	TAP_OK(tier_of_file(&c, pd, fd, p, 1000, 0, 0600) == mapped, "the owner's file");
	proc_sent = true;
	TAP_OK(tier_of_file(&c, pd, fd, p, 1000, 1001, 0466) == not_mapped,
	       "which he may not write");
	TAP_OK(tier_of_file(&c, pd, fd, p, 0, 1001, 0060) == mapped, "the group's");
	TAP_OK(tier_of_file(&c, pd, fd, p, 0, 1003, 0060) == mapped, "another group's of his");
	TAP_OK(tier_of_file(&c, pd, fd, p, 0, 1003, 0606) == not_mapped,
	       "which that group may not write");
	TAP_OK(tier_of_file(&c, pd, fd, p, 0, 1004, 0060) == not_mapped, "a foreign group's");
	TAP_OK(tier_of_file(&c, pd, fd, p, 0, 1004, 0006) == mapped, "everybody's");
	munmap(p, PAGE);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_wrong_proc_files(void)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int good[2] = { proc_fd[0], proc_fd[1] };
	int ro = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), fake_mem = memfd(PAGE, 0);
	int parent[2];
	char path[40];
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	proc_fd[0] = ro;
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL, "mem opened for reading only");
	proc_fd[0] = fake_mem;
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL, "a memfd for mem");
	proc_fd[0] = good[1];
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL, "maps for mem");
	snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	parent[0] = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", getppid());
	parent[1] = open(path, O_RDONLY | O_CLOEXEC);
	memcpy(proc_fd, parent, sizeof(parent));
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL, "those of another process");
	memcpy(proc_fd, good, sizeof(good));
	TAP_OK(!reg_private(&c, pd, p, 8, RW), "the right ones");
	proc_sent = true;
	munmap(p, PAGE);
	close(ro), close(fake_mem), close(parent[0]), close(parent[1]);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static int rereg(struct conn *c, uint32_t handle, uint32_t flags, struct reg *r)
{
	uint8_t data[8 + sizeof(*r)];
	uint32_t front[2] = { handle, flags };
	size_t list = r->q.segments * sizeof(r->segment[0]);

	memcpy(data, front, 8);
	memcpy(data + 8, &r->q, sizeof(r->q));
	memcpy(data + 8 + sizeof(r->q), r->segment, list);
	return ask(c, XR_MSG_REREG_MR, data, 8 + sizeof(r->q) + list);
}

static void test_rereg(void)
{
	uint8_t *p = pages(4, PROT_READ | PROT_WRITE, MAP_PRIVATE), b = 0;
	struct xr_reg_mr_rep mr, next;
	uint32_t pd, other;
	struct conn c;
	struct reg r;

	open_client(&c);
	pd = alloc_pd(&c);
	other = alloc_pd(&c);
	proc_sent = false;
	MUST(!reg_private(&c, pd, p, PAGE, XR_ACCESS_REMOTE_READ));
	proc_sent = true;
	mr = mr_of(&c);
	r = reg_of(pd, p, PAGE, RW);
	add_segment(&r, XR_SEG_PRIVATE, p, PAGE);
	TAP_OK(rereg(&c, mr.handle, 0, &r) == -EINVAL && rereg(&c, mr.handle, 8, &r) == -EINVAL,
	       "rereg: flags that are none");
	TAP_OK(!rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_ACCESS, &r), "rereg: access");
	next = mr_of(&c);
	TAP_OK(next.handle == mr.handle && next.rkey == mr.rkey && fake.map_keys == 1,
	       "the key stays the same");
	TAP_OK(!use_key(&c, pd, next.rkey, p, 1, XR_ACCESS_REMOTE_WRITE, &b), "and may write now");
	r = reg_of(other, p, PAGE, RW);
	add_segment(&r, XR_SEG_PRIVATE, p, PAGE);
	TAP_OK(!rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_PD, &r) &&
	       !use_key(&c, other, mr_of(&c).rkey, p, 1, 0, &b), "rereg: domain");
	TAP_OK(!ask_handle(&c, XR_MSG_DEALLOC_PD, pd), "the old domain is free");
	r = reg_of(other, p + PAGE, 2 * PAGE, 0);
	add_segment(&r, XR_SEG_PRIVATE, p + PAGE, 2 * PAGE);
	TAP_OK(!rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_TRANSLATION, &r), "rereg: memory");
	next = mr_of(&c);
	TAP_OK(next.rkey != mr.rkey && use_key(&c, other, mr.rkey, p, 1, 0, &b) == -EACCES,
	       "the old key is stale");
	TAP_OK(use_key(&c, other, next.rkey, p, 1, 0, &b) == -EACCES &&
	       !use_key(&c, other, next.rkey, p + 3 * PAGE - 1, 1, 0, &b), "the new range counts");
	r = reg_of(other, NULL, PAGE, 0);
	add_segment(&r, XR_SEG_PRIVATE, NULL, PAGE);
	TAP_OK(rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_TRANSLATION, &r) == -EFAULT &&
		       !use_key(&c, other, next.rkey, p + PAGE, 1, 0, &b),
	       "after an error all is as before");
	fake.maps_full = true;
	TAP_OK(reg_private(&c, other, p, PAGE, RW) == -E2BIG, "a key that XDP cannot know");
	fake.maps_full = false;
	munmap(p, 4 * PAGE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- device memory, no memory, advice --------------------------------------------- */

static uint32_t alloc_dm(struct conn *c, uint64_t length, int *status)
{
	struct xr_alloc_dm_req q = { .length = length, .log_align = 12 };

	*status = ask(c, XR_MSG_ALLOC_DM, &q, sizeof(q));
	return *status ? 0 : ((struct xr_alloc_dm_rep *)c->body)->handle;
}

static int reg_alone(struct conn *c, uint32_t pd, uint32_t kind, uint32_t dm, uint64_t off,
		     uint64_t length, uint32_t access)
{
	struct reg r = reg_of(pd, NULL, length, access);

	add_segment(&r, kind, NULL, length);
	r.segment[0].fd_index = dm;
	r.segment[0].offset = off;
	return send_reg(c, &r, NULL, 0);
}

static void test_device_memory(void)
{
	uint8_t data[16] = { [0 ... 15] = 0x5a }, got[16] = { 0 };
	struct xr_reg_mr_rep mr;
	struct xd_dm *object;
	uint32_t pd, dm;
	struct conn c, other;
	struct reg r;
	int status;

	open_client(&c);
	open_client(&other);
	pd = alloc_pd(&c);
	alloc_dm(&c, 0, &status);
	TAP_OK(status == -EINVAL, "device memory of no bytes");
	alloc_dm(&c, fake.opt.client_max_dm + 1, &status);
	TAP_OK(status == -ENOMEM, "more device memory than there is");
	alloc_dm(&c, -1ull, &status);
	TAP_OK(status == -ENOMEM, "all that a number can say");
	dm = alloc_dm(&c, fake.opt.client_max_dm - PAGE, &status);
	TAP_OK(dm, "nearly all of it");
	alloc_dm(&c, PAGE + 1, &status);
	TAP_OK(status == -ENOMEM, "not the same again");
	MUST(!ask_handle(&c, XR_MSG_FREE_DM, dm));
	dm = alloc_dm(&c, 5000, &status);
	object = xd_object_get(c.client, XD_DM, dm);
	TAP_OK(!reg_alone(&c, pd, XR_SEG_DM, dm, 1000, 4000, RW), "a region of a part");
	mr = mr_of(&c);
	TAP_OK(!use_key(&c, pd, mr.rkey, (void *)3984, 16, XR_ACCESS_REMOTE_WRITE, data) &&
	       !memcmp(object->piece.ptr + 4984, data, 16), "its last bytes are those");
	TAP_OK(use_key(&c, pd, mr.rkey, (void *)3985, 16, 0, data) == -EACCES, "one beyond");
	TAP_OK(ask_handle(&c, XR_MSG_FREE_DM, dm) == -EBUSY, "a region holds it");
	TAP_OK(reg_alone(&c, pd, XR_SEG_DM, dm, 1001, 4000, RW) == -EINVAL &&
	       reg_alone(&c, pd, XR_SEG_DM, dm, -8ull, 8, RW) == -EINVAL &&
	       reg_alone(&c, pd, XR_SEG_DM, dm, -8ull, 16, RW) == -EINVAL &&
	       reg_alone(&c, pd, XR_SEG_DM, dm + 1, 0, 8, RW) == -ENOENT, "what lies beyond it");
	TAP_OK(reg_alone(&other, alloc_pd(&other), XR_SEG_DM, dm, 0, 8, RW) == -ENOENT,
	       "another's");
	r = reg_of(pd, NULL, 16, RW);
	add_segment(&r, XR_SEG_DM, NULL, 8);
	add_segment(&r, XR_SEG_DM, (void *)8, 8);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "two in one region");
	r = reg_of(pd, NULL, 4000, RW);
	add_segment(&r, XR_SEG_DM, NULL, 4000);
	TAP_OK(rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_ACCESS, &r) == -EINVAL, "rereg of it");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, mr.handle));
	MUST(!ask_handle(&c, XR_MSG_FREE_DM, dm));
	dm = alloc_dm(&c, 5000, &status);
	MUST(!reg_alone(&c, pd, XR_SEG_DM, dm, 0, 5000, RW));
	mr = mr_of(&c);
	TAP_OK(!use_key(&c, pd, mr.rkey, (void *)4984, 16, 0, got) && !got[0] && !got[15],
	       "new device memory is empty");
	close_client(&other);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_null_region(void)
{
	uint8_t got[16] = { [0 ... 15] = 1 };
	struct xr_reg_mr_rep mr;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(reg_alone(&c, pd, XR_SEG_NULL, 0, 0, SIZE_MAX, RW) == -EINVAL,
	       "no memory, for peers");
	TAP_OK(!reg_alone(&c, pd, XR_SEG_NULL, 0, 0, SIZE_MAX, XR_ACCESS_LOCAL_WRITE),
	       "no memory");
	mr = mr_of(&c);
	TAP_OK(mr.lkey && !mr.rkey, "has no key for peers");
	TAP_OK(!use_key(&c, pd, mr.lkey, (void *)0x123456, 16, 0, got) && !got[0] && !got[15],
	       "reads as zeros");
	TAP_OK(use_key(&c, pd, mr.lkey, (void *)8, 8, XR_ACCESS_REMOTE_READ, got) == -EACCES,
	       "not by peers");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

static int advise(struct conn *c, uint32_t pd, uint32_t key, const void *at, uint32_t length,
		  bool write)
{
	struct {
		struct xr_advise_mr_req q;
		struct xr_sge range;
	} req = { { .pd = pd, .write = write, .ranges = 1 }, { (uintptr_t)at, length, key } };

	return ask(c, XR_MSG_ADVISE_MR, &req, sizeof(req));
}

static void test_advice(void)
{
	uint8_t *p = pages(2, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	const struct xr_advise_mr_rep *rep;
	struct xr_advise_mr_req head = { 0 };
	struct xr_reg_mr_rep mr, plain;
	uint32_t pd, other;
	struct conn c;
	struct reg r;

	open_client(&c);
	rep = (const void *)c.body;
	head.pd = pd = alloc_pd(&c);
	other = alloc_pd(&c);
	proc_sent = false;
	MUST(!reg_private(&c, pd, p, PAGE, RW));
	proc_sent = true;
	plain = mr_of(&c);
	r = reg_of(pd, p, 2 * PAGE, XR_ACCESS_ON_DEMAND | XR_ACCESS_REMOTE_READ);
	r.q.iova = 0x1000;
	MUST(!send_reg(&c, &r, NULL, 0));
	mr = mr_of(&c);
	TAP_OK(!advise(&c, pd, mr.lkey, (void *)0x1100, 2 * PAGE - 0x100, false) &&
	       rep->ranges == 1 && rep->addr[0] == (uintptr_t)p + 0x100, "advice: where it lies");
	TAP_OK(advise(&c, pd, mr.lkey, (void *)0x1100, 2 * PAGE, false) == -EFAULT &&
	       advise(&c, pd, mr.lkey, (void *)0xfff, 1, false) == -EFAULT, "advice: beyond it");
	TAP_OK(advise(&c, pd, mr.lkey, (void *)0x1100, 8, true) == -EPERM,
	       "advice: to write what is not to be written");
	TAP_OK(advise(&c, other, mr.lkey, (void *)0x1100, 8, false) == -EPERM,
	       "advice: another domain");
	TAP_OK(advise(&c, pd, mr.lkey ^ 1, (void *)0x1100, 8, false) == -ENOENT &&
	       advise(&c, pd, mr.lkey + 0x10000, (void *)0x1100, 8, false) == -ENOENT &&
	       advise(&c, pd, plain.lkey, p, 8, false) == -ENOENT, "advice: other keys");
	TAP_OK(advise(&c, 99, mr.lkey, (void *)0x1100, 8, false) == -EINVAL, "advice: no domain");
	TAP_OK(ask(&c, XR_MSG_ADVISE_MR, &head, sizeof(head)) == -EINVAL, "advice: of nothing");
	head.ranges = XR_ADVISE_MAX + 1;
	TAP_OK(ask(&c, XR_MSG_ADVISE_MR, &head, sizeof(head)) == -EINVAL, "advice: of too much");
	head.ranges = 2;
	TAP_OK(ask(&c, XR_MSG_ADVISE_MR, &head, sizeof(head)) == -EINVAL, "advice: cut short");
	munmap(p, 2 * PAGE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- import ----------------------------------------------------------------------- */

static int import_from(struct conn *c, const uint8_t *token)
{
	struct xr_hello_req q = { .version = XR_PROTOCOL_VERSION, .flags = XR_HELLO_IMPORT };

	memcpy(q.token, token, sizeof(q.token));
	connect_client(c);
	return ask(c, XR_MSG_HELLO, &q, sizeof(q));
}

static int import_mr(struct conn *c, uint32_t pd, uint32_t handle)
{
	struct xr_import_mr_req q = { .pd = pd, .handle = handle };

	return ask(c, XR_MSG_IMPORT_MR, &q, sizeof(q));
}

static void test_refused_import(struct conn *owner, const uint8_t *token)
{
	struct xr_hello_req q = { .version = XR_PROTOCOL_VERSION, .flags = XR_HELLO_IMPORT };
	uint8_t none[XR_TOKEN_LEN] = { 0 }, wrong[XR_TOKEN_LEN];
	struct conn c;

	memcpy(wrong, token, sizeof(wrong));
	wrong[XR_TOKEN_LEN - 1] ^= 1;
	TAP_OK(import_from(&c, wrong) == -ENOENT, "import: a wrong token");
	disconnect(&c);
	TAP_OK(import_from(&c, none) == -ENOENT, "import: no token");
	disconnect(&c);
	connect_client(&c);
	TAP_OK(ask(&c, XR_MSG_HELLO, &q, offsetof(struct xr_hello_req, token)) == -EINVAL,
	       "import: a message without one");
	disconnect(&c);
	owner->client->uid++;
	TAP_OK(import_from(&c, token) == -ENOENT, "import: of another user");
	owner->client->uid--;
	disconnect(&c);
}

static void test_import(void)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE), token[XR_TOKEN_LEN], b = 0;
	uint32_t pd, other, alias, number;
	struct xr_import_mr_rep theirs;
	struct xr_reg_mr_rep mr;
	struct conn owner, c;

	open_client(&owner);
	memcpy(token, owner.client->token, sizeof(token));
	pd = alloc_pd(&owner);
	other = alloc_pd(&owner);
	proc_sent = false;
	MUST(!reg_private(&owner, pd, p, 100, RW));
	proc_sent = true;
	mr = mr_of(&owner);
	test_refused_import(&owner, token);
	TAP_OK(ask_handle(&owner, XR_MSG_IMPORT_PD, pd) == -ENOENT, "import: from nobody");
	MUST(!import_from(&c, token));
	TAP_OK(ask_handle(&c, XR_MSG_IMPORT_PD, 99) == -ENOENT, "import: no such domain");
	TAP_OK(!ask_handle(&c, XR_MSG_IMPORT_PD, pd), "import: a domain");
	alias = handle_of(&c);
	TAP_OK(!import_mr(&c, alias, mr.handle), "import: a region");
	theirs = *(struct xr_import_mr_rep *)c.body;
	TAP_OK(theirs.rkey == mr.rkey && theirs.length == 100 &&
	       !use_key(&c, alias, theirs.lkey, p, 1, 0, &b), "import: its keys are good");
	TAP_OK(import_mr(&c, alias, 99) == -ENOENT && import_mr(&c, 99, mr.handle) == -ENOENT,
	       "import: no such region or domain");
	MUST(!ask_handle(&c, XR_MSG_IMPORT_PD, other));
	TAP_OK(import_mr(&c, handle_of(&c), mr.handle) == -EINVAL, "import: of another domain");
	number = ((struct xd_pd *)xd_object_get(c.client, XD_PD, alias))->d.number;
	close_client(&owner);
	TAP_OK(use_key(&c, alias, theirs.lkey, p, 1, 0, &b) == -EACCES,
	       "import: the region goes with its owner");
	TAP_OK(ask_handle(&c, XR_MSG_IMPORT_PD, pd) == -ENOENT &&
	       import_mr(&c, alias, mr.handle) == -ENOENT, "import: and there is no other");
	MUST(!ask(&c, XR_MSG_ALLOC_PD, NULL, 0));
	TAP_OK(((struct xd_pd *)xd_object_get(c.client, XD_PD, handle_of(&c)))->d.number !=
	       number, "import: the domain's number is not given out again");
	disconnect(&c);
	munmap(p, PAGE);
	TAP_OK(nothing_left(), "nothing is left");
}

static void test_pin_socket(void)
{
	uint8_t *p = pages(4, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct xdp_umem_reg umem = { .addr = (uintptr_t)p, .len = 4 * PAGE, .chunk_size = PAGE };
	struct reg r;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	r = reg_of(pd, p, 4 * PAGE, RW);
	r.q.flags = XR_REGF_PINNED;
	add_segment(&r, XR_SEG_PRIVATE, p, 4 * PAGE);
	proc_sent = false;
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "pinned by a socket that was never asked for");
	if (ask(&c, XR_MSG_PIN_SOCKET, NULL, 0)) {
		tap_skip("private memory, pinned", "no socket to pin with");
	} else {
		struct sockaddr_xdp sxdp = { .sxdp_family = AF_XDP, .sxdp_ifindex = 1 };
		int one = 64;

		setsockopt(c.fds[0], SOL_XDP, XDP_RX_RING, &one, sizeof(one));
		setsockopt(c.fds[0], SOL_XDP, XDP_UMEM_FILL_RING, &one, sizeof(one));
		setsockopt(c.fds[0], SOL_XDP, XDP_UMEM_COMPLETION_RING, &one, sizeof(one));
		TAP_OK(!setsockopt(c.fds[0], SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)),
		       "private memory, pinned by its owner");
		sxdp.sxdp_ifindex = 2;
		TAP_OK(bind(c.fds[0], (struct sockaddr *)&sxdp, sizeof(sxdp)),
		       "with a socket that reaches no interface");
		TAP_OK(!send_reg(&c, &r, NULL, 0) && the_mr(&c)->mem->pinned,
		       "the daemon keeps it");
	}
	proc_sent = true;
	munmap(p, 4 * PAGE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- a client that makes its own registration hang ------------------------------- */

static void *read_maps(void *page)
{
	return (void *)pread(proc_fd[1], page, PAGE, 0);
}

/*
 * It reads its list of mappings into memory that is a userfaultfd's: the read holds the lock
 * of the open file, which the daemon needs too.
 */
static void test_hanging_job(void)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	uint8_t *page = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct uffdio_register reg = { .range = { (uintptr_t)page, PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)page, PAGE } };
	struct uffdio_api api = { .api = UFFD_API };
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), fd;
	struct conn hostile, other;
	pthread_t reader;
	uint32_t pd;

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg)) {
		tap_skip("a registration that its client makes hang", "no userfaultfd");
		return;
	}
	open_client(&hostile);
	fd = events_fd;
	pd = alloc_pd(&hostile);
	open_client(&other);
	MUST(!pthread_create(&reader, NULL, read_maps, page));
	usleep(100000);
	job_hangs = true;
	proc_sent = false;
	TAP_OK(reg_private(&hostile, pd, p, 8, RW) == 1,
	       "a registration that its client makes hang");
	TAP_OK(!ask(&other, XR_MSG_ALLOC_PD, NULL, 0), "others are served");
	alloc_pd(&other);
	proc_sent = true;
	MUST(!ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	pthread_join(reader, NULL);
	job_hangs = false;
	settle();
	TAP_OK(!answer(&hostile), "it goes on when its client lets it");
	close(fd);
	close(uffd);
	disconnect(&hostile);
	close_client(&other);
	munmap(p, PAGE);
	munmap(page, PAGE);
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
		p = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		tap_skip("a part of a huge page", "there are none");
		close(fd);
		return;
	}
	MUST(!fcntl(fd, F_ADD_SEALS, SEALED));
	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(!reg_fd(&c, pd, fd, p + 5000, 5000, 100, RW), "a part of a huge page");
	xd_mem_totals(&totals);
	TAP_OK(totals.mapped == huge, "is mapped whole");
	TAP_OK(!use_key(&c, pd, mr_of(&c).rkey, p + 5099, 1, XR_ACCESS_REMOTE_WRITE, &b) &&
	       p[5099] == 0x66, "one write, seen by both");
	munmap(p, huge);
	close(fd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("regions");
	test_private_memory();
	test_on_demand();
	test_adopted_memory();
	test_no_mappings();
	test_shared_mapping();
	test_file_modes();
	test_wrong_proc_files();
	test_rereg();
	test_device_memory();
	test_null_region();
	test_advice();
	test_import();
	test_pin_socket();
	test_hanging_job();
	test_huge_pages();

	xd_server_stop(&fake.dev);
	return tap_end();
}
