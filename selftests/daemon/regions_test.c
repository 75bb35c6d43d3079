// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory regions: private memory, regions on demand, REREG_MR, and registrations that block */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/memory/proc_maps.h"
#include "daemon/memory/region.h"
#include "control.h"

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
	TAP_OK(reg_private(&c, pd, p, PAGE, RW) == -EINVAL,
	       "private memory without an address space is refused");
	proc_sent = false;
	TAP_OK(!reg_private(&c, pd, p + 100, 5000, RW) && fake.map_keys == 1,
	       "private memory is registered");
	proc_sent = true;
	mr = mr_of(&c);
	memset(b16, 0x22, sizeof(b16));
	TAP_OK(!remote_write_key(&c, pd, mr.rkey, p + 100, 16, b16) && p[99] == 0x11 &&
		       p[100] == 0x22 && p[115] == 0x22 && p[116] == 0x11,
	       "private memory: a peer can write");
	TAP_OK(!read_key(&c, pd, mr.rkey, p + 5099, 1, &byte) && byte == 0x11,
	       "private memory: a peer can read the last byte");
	TAP_OK(read_key(&c, pd, mr.rkey, p + 5100, 1, &byte) &&
		       read_key(&c, pd, mr.rkey, p + 99, 1, &byte),
	       "private memory: access beyond either end is refused");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, mr.handle));
	TAP_OK(read_key(&c, pd, mr.rkey, p + 100, 1, &byte) && !fake.map_keys,
	       "private memory: no access after DEREG_MR");

	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	munmap(p + 4 * PAGE, PAGE);
	TAP_OK(reg_private(&c, pd, p, 3 * PAGE, RW) == -EFAULT,
	       "a read-only page in the middle is refused");
	TAP_OK(!reg_private(&c, pd, p, 3 * PAGE, XR_ACCESS_REMOTE_READ),
	       "read-only pages are registered for reading");
	TAP_OK(reg_private(&c, pd, p, 5 * PAGE, XR_ACCESS_REMOTE_READ) == -EFAULT,
	       "a hole at the end is refused");
	TAP_OK(reg_private(&c, pd, p + 3 * PAGE, 3 * PAGE, 0) == -EFAULT,
	       "a hole in the middle is refused");
	TAP_OK(!reg_private(&c, pd, p, 0, RW), "a region of length 0 is registered");
	TAP_OK(reg_private(&c, pd, p, 10, XR_ACCESS_REMOTE_WRITE) == -EINVAL,
	       "remote write without local write is refused");
	TAP_OK(reg_private(&c, pd, p, 10, 1 << 15) == -EOPNOTSUPP, "unknown access is refused");
	TAP_OK(reg_private(&c, pd, (void *)-PAGE, 2 * PAGE, 0) == -EINVAL,
	       "a wrap-around is refused");
	TAP_OK(reg_private(&c, pd, NULL, SIZE_MAX, 0) == -EDQUOT,
	       "the whole address space is refused");
	TAP_OK(reg_private(&c, pd, p, 1ul << 30, RW) == -EDQUOT,
	       "a region beyond the quota is refused");
	TAP_OK(reg_private(&c, pd + 1, p, 10, RW) == -ENOENT, "an unknown PD is refused");

	MUST(!reg_private(&c, pd, p + 3 * PAGE, PAGE, RW));
	mr = mr_of(&c);
	munmap(p + 3 * PAGE, PAGE);
	TAP_OK(read_key(&c, pd, mr.rkey, p + 3 * PAGE, 1, &byte) == -EFAULT,
	       "access to unmapped memory fails");
	munmap(p, 4 * PAGE);
	munmap(p + 5 * PAGE, PAGE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* Protection is checked at each access, not at registration. */
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
	TAP_OK(!send_reg(&c, &r, NULL, 0), "on demand: memory with holes is registered");
	proc_sent = true;
	mr = mr_of(&c);
	TAP_OK(!remote_write_key(&c, pd, mr.rkey, p, 1, &b) && p[0] == 0x77,
	       "on demand: a peer can write");
	TAP_OK(read_key(&c, pd, mr.rkey, p + PAGE, 1, &got) == -EFAULT,
	       "on demand: access to a hole fails");
	TAP_OK(!read_key(&c, pd, mr.rkey, p + 2 * PAGE, 1, &got) &&
		       remote_write_key(&c, pd, mr.rkey, p + 2 * PAGE, 1, &b) == -EFAULT &&
		       p[2 * PAGE] == 0,
	       "on demand: a read-only page is readable only");
	TAP_OK(read_key(&c, pd, mr.rkey, p + 3 * PAGE, 1, &got) == -EFAULT,
	       "on demand: access to a PROT_NONE page fails");
	mprotect(p + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
	TAP_OK(!remote_write_key(&c, pd, mr.rkey, p + 2 * PAGE, 2 * PAGE, across),
	       "on demand: memory that was mapped later can be accessed");
	mprotect(p + 3 * PAGE, PAGE, PROT_READ);
	TAP_OK(remote_write_key(&c, pd, mr.rkey, p + 2 * PAGE, 2 * PAGE, across) == -EFAULT,
	       "on demand: a write that ends in a read-only page fails");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, mr.handle));

	r = reg_of(pd, NULL, SIZE_MAX, demand);
	TAP_OK(!send_reg(&c, &r, NULL, 0), "on demand: the whole address space is registered");
	mr = mr_of(&c);
	TAP_OK(!remote_write_key(&c, pd, mr.rkey, &got, 1, &b) && got == 0x77,
	       "on demand: the stack can be accessed");
	TAP_OK(read_key(&c, pd, mr.rkey, NULL, 8, across) == -EFAULT &&
		       read_key(&c, pd, mr.rkey, (void *)-9, 8, across) == -EFAULT &&
		       read_key(&c, pd, mr.rkey, (void *)-1, 1, across) == -EACCES,
	       "on demand: access to the ends of the address space fails");
	r = reg_of(pd, p, 8, demand);
	add_segment(&r, XR_SEG_PRIVATE, p, 8);
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "on demand: a segment is refused");
	r = reg_of(pd, p, SIZE_MAX, demand);
	r.q.iova = 0;
	TAP_OK(send_reg(&c, &r, NULL, 0) == -EINVAL, "on demand: a wrap-around is refused");
	munmap(p, PAGE);
	munmap(p + 2 * PAGE, 2 * PAGE);
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
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL,
	       "a read-only descriptor of mem is refused");
	proc_fd[0] = fake_mem;
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL, "a memfd instead of mem is refused");
	proc_fd[0] = good[1];
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL, "maps instead of mem is refused");
	snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	parent[0] = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", getppid());
	parent[1] = open(path, O_RDONLY | O_CLOEXEC);
	memcpy(proc_fd, parent, sizeof(parent));
	TAP_OK(reg_private(&c, pd, p, 8, RW) == -EINVAL,
	       "descriptors of another process are refused");
	memcpy(proc_fd, good, sizeof(good));
	TAP_OK(!reg_private(&c, pd, p, 8, RW), "mem and maps of the client are accepted");
	proc_sent = true;
	munmap(p, PAGE);
	close(ro), close(fake_mem), close(parent[0]), close(parent[1]);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
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
	       "rereg: unknown flags are refused");
	TAP_OK(!rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_ACCESS, &r), "rereg: access");
	next = mr_of(&c);
	TAP_OK(next.handle == mr.handle && next.rkey == mr.rkey && fake.map_keys == 1,
	       "rereg: access: the key stays the same");
	TAP_OK(!remote_write_key(&c, pd, next.rkey, p, 1, &b),
	       "rereg: access: writing is allowed afterwards");
	r = reg_of(other, p, PAGE, RW);
	add_segment(&r, XR_SEG_PRIVATE, p, PAGE);
	TAP_OK(!rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_PD, &r) &&
		       !read_key(&c, other, mr_of(&c).rkey, p, 1, &b),
	       "rereg: PD");
	TAP_OK(!ask_handle(&c, XR_MSG_DEALLOC_PD, pd), "rereg: PD: the old PD can be deallocated");
	r = reg_of(other, p + PAGE, 2 * PAGE, 0);
	add_segment(&r, XR_SEG_PRIVATE, p + PAGE, 2 * PAGE);
	TAP_OK(!rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_TRANSLATION, &r), "rereg: memory");
	next = mr_of(&c);
	TAP_OK(next.rkey != mr.rkey && read_key(&c, other, mr.rkey, p, 1, &b) == -EACCES,
	       "rereg: memory: the old key is invalid");
	TAP_OK(read_key(&c, other, next.rkey, p, 1, &b) == -EACCES &&
		       !read_key(&c, other, next.rkey, p + 3 * PAGE - 1, 1, &b),
	       "rereg: memory: the new range is valid");
	r = reg_of(other, NULL, PAGE, 0);
	add_segment(&r, XR_SEG_PRIVATE, NULL, PAGE);
	TAP_OK(rereg(&c, mr.handle, IBV_REREG_MR_CHANGE_TRANSLATION, &r) == -EFAULT &&
		       !read_key(&c, other, next.rkey, p + PAGE, 1, &b),
	       "rereg: after an error the region is unchanged");
	fake.maps_full = true;
	TAP_OK(reg_private(&c, other, p, PAGE, RW) == -E2BIG, "a full map of XDP is an error");
	fake.maps_full = false;
	munmap(p, 4 * PAGE);
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
		       rep->ranges == 1 && rep->addr[0] == (uintptr_t)p + 0x100,
	       "advice: returns the address");
	TAP_OK(advise(&c, pd, mr.lkey, (void *)0x1100, 2 * PAGE, false) == -EFAULT &&
		       advise(&c, pd, mr.lkey, (void *)0xfff, 1, false) == -EFAULT,
	       "advice: beyond the region is refused");
	TAP_OK(advise(&c, pd, mr.lkey, (void *)0x1100, 8, true) == -EPERM,
	       "advice: prefetch for writing without write access is refused");
	TAP_OK(advise(&c, other, mr.lkey, (void *)0x1100, 8, false) == -EPERM,
	       "advice: another PD is refused");
	TAP_OK(advise(&c, pd, mr.lkey ^ 1, (void *)0x1100, 8, false) == -ENOENT &&
		       advise(&c, pd, mr.lkey + 0x10000, (void *)0x1100, 8, false) == -ENOENT &&
		       advise(&c, pd, plain.lkey, p, 8, false) == -ENOENT,
	       "advice: unknown keys and regions not on demand are refused");
	TAP_OK(advise(&c, 99, mr.lkey, (void *)0x1100, 8, false) == -EINVAL,
	       "advice: an unknown PD is refused");
	TAP_OK(ask(&c, XR_MSG_ADVISE_MR, &head, sizeof(head)) == -EINVAL,
	       "advice: an empty list of ranges is refused");
	head.ranges = XR_ADVISE_MAX + 1;
	TAP_OK(ask(&c, XR_MSG_ADVISE_MR, &head, sizeof(head)) == -EINVAL,
	       "advice: too many ranges are refused");
	head.ranges = 2;
	TAP_OK(ask(&c, XR_MSG_ADVISE_MR, &head, sizeof(head)) == -EINVAL,
	       "advice: a short request is refused");
	munmap(p, 2 * PAGE);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- a client that blocks its own registration -------------------------------- */

struct hanging {
	uint8_t *page;
	int uffd;
	pthread_t reader;
};

static void *read_maps(void *page)
{
	return (void *)pread(proc_fd[1], page, PAGE, 0);
}

/*
 * Reads the client's list of mappings into memory of a userfaultfd. The read() blocks and holds the
 * lock of the open file, which the daemon needs, too.
 */
static bool hang_list(struct hanging *h)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	struct uffd_msg fault;

	h->page = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	h->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	reg.range = (struct uffdio_range){ (uintptr_t)h->page, PAGE };
	if (h->uffd < 0 || ioctl(h->uffd, UFFDIO_API, &api) ||
	    ioctl(h->uffd, UFFDIO_REGISTER, &reg)) {
		munmap(h->page, PAGE);
		close(h->uffd);
		return false;
	}
	MUST(!pthread_create(&h->reader, NULL, read_maps, h->page));
	/* The fault is reported when the reader waits with the lock held. */
	MUST(read(h->uffd, &fault, sizeof(fault)) == sizeof(fault));
	return true;
}

static void unhang_list(struct hanging *h)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)h->page, PAGE } };

	MUST(!ioctl(h->uffd, UFFDIO_ZEROPAGE, &zero));
	pthread_join(h->reader, NULL);
	close(h->uffd);
	munmap(h->page, PAGE);
}

static void test_hanging_job(void)
{
	uint8_t *p = pages(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct conn hostile, other;
	struct hanging h;
	uint32_t pd;
	int fd;

	open_client(&hostile);
	fd = events_fd;
	pd = alloc_pd(&hostile);
	open_client(&other);
	if (hang_list(&h)) {
		job_hangs = true;
		proc_sent = false;
		TAP_OK(reg_private(&hostile, pd, p, 8, RW) == 1,
		       "a registration that its client blocks");
		TAP_OK(!ask(&other, XR_MSG_ALLOC_PD, NULL, 0), "other clients are served");
		alloc_pd(&other);
		proc_sent = true;
		unhang_list(&h);
		job_hangs = false;
		settle();
		TAP_OK(!read_reply(&hostile),
		       "the registration completes when the client unblocks it");
	} else {
		tap_skip("a registration that its client blocks", "no userfaultfd");
	}
	close(fd);
	disconnect(&hostile);
	close_client(&other);
	munmap(p, PAGE);
	TAP_OK(nothing_left(), "nothing is left");
}

int main(void)
{
	start_server("regions");
	test_private_memory();
	test_on_demand();
	test_wrong_proc_files();
	test_rereg();
	test_advice();

	xd_proc_use_lists();
	start_movers();
	test_on_demand();
	/* A client can block the reading of its list, not a query. */
	test_hanging_job();

	fake_server_stop();
	return tap_end();
}
