// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"

/*
 * Bytes of a mapping that are populated by one call. The kernel holds the lock of the daemon's
 * address space meanwhile, which takes at most 30 ms for this size.
 */
#define POPULATE_SLICE (256ull << 20)

static struct xd_mem_totals totals; /* atomic */
static uint32_t mappings;	    /* atomic */

void xd_mem_totals(struct xd_mem_totals *out)
{
	out->mapped = __atomic_load_n(&totals.mapped, __ATOMIC_RELAXED);
	out->pinned = __atomic_load_n(&totals.pinned, __ATOMIC_RELAXED);
}

/* ---- pins ------------------------------------------------------------------------- */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* Maps the pages, the absence of which is an error: see refuse_absent_pages(). */
static int populate(const struct xd_mapping *m)
{
	uint64_t off, size;

	for (off = 0; off < m->size; off += size) {
		size = m->size - off < POPULATE_SLICE ? m->size - off : POPULATE_SLICE;
		if (madvise(m->base + off, size, MADV_POPULATE_READ))
			return -errno;
	}
	return 0;
}

/* Logs once that this daemon may not pin as much memory as it needs. */
static void log_unpinned(int err)
{
	static bool logged; /* atomic */

	if (!__atomic_exchange_n(&logged, true, __ATOMIC_RELAXED))
		xd_log(XD_NOTICE,
		       "memory of programs is not pinned and can be swapped out: mlock2: %s "
		       "(limit: RLIMIT_MEMLOCK)",
		       strerror(-err));
}

/*
 * Locks the pages that are mapped, now and later. Failure is not an error: memory can be used
 * without pins, as the next access brings back pages that were swapped out.
 */
static bool lock_pages(const struct xd_mapping *m)
{
	if (!mlock2(m->base, m->size, MLOCK_ONFAULT))
		return true;
	log_unpinned(-errno);
	return false;
}

bool xd_mapping_pin(struct xd_mapping *m)
{
	bool locked = lock_pages(m);
	int err = populate(m);

	m->absent = err == -EFAULT;
	m->pinned = locked && !err;
	if (m->pinned)
		__atomic_add_fetch(&totals.pinned, m->size, __ATOMIC_RELAXED);
	else if (locked)
		munlock(m->base, m->size);
	return m->pinned;
}

/* ---- absent pages ----------------------------------------------------------------- */

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1 /* Linux 5.11 */
#endif

static int uffd = -1;

int xd_mapping_start(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM |
			    UFFD_FEATURE_MISSING_HUGETLBFS,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY), err;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api)) {
		err = -errno;
		close(fd);
		return err;
	}
	xd_mapping_stop();
	uffd = fd;
	return 0;
}

void xd_mapping_stop(void)
{
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
}

/*
 * Registers a mapping with the userfaultfd, so that an access to an absent page raises SIGBUS
 * instead of allocating the page, and pinning fails. Nothing reads faults from the descriptor. The
 * kernel refuses mappings of a file that was opened read-only.
 */
static int refuse_absent_pages(const struct xd_mapping *m)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)m->base, m->size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &reg) ? -EPERM : 0;
}

/* ---- mappings --------------------------------------------------------------------- */

/*
 * The number of mappings of a process is limited. Regions get three quarters, which leaves some
 * for rings and the C library; memory of regions beyond that is accessed like private memory.
 */
static uint32_t max_mappings(void)
{
	static uint32_t max; /* atomic; every thread computes the same value */
	FILE *f = __atomic_load_n(&max, __ATOMIC_RELAXED)
			  ? NULL
			  : fopen("/proc/sys/vm/max_map_count", "re");
	uint32_t n = 0;

	if (f && fscanf(f, "%u", &n) == 1)
		__atomic_store_n(&max, n / 4 * 3, __ATOMIC_RELAXED);
	if (f)
		fclose(f);
	n = __atomic_load_n(&max, __ATOMIC_RELAXED);
	return n ? n : 49152;
}

static bool take_mapping(void)
{
	if (__atomic_add_fetch(&mappings, 1, __ATOMIC_RELAXED) <= max_mappings())
		return true;
	__atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
	return false;
}

/* Huge pages are not reserved: only the program may allocate them. */
static int map_guarded(struct xd_mapping *m, const struct xd_file *f, uint64_t start, bool writable)
{
	int prot = PROT_READ | (writable ? PROT_WRITE : 0), err = 0;

	m->base = mmap(NULL, m->size, prot, MAP_SHARED | MAP_NORESERVE, f->fd, (off_t)start);
	if (m->base == MAP_FAILED)
		return -errno;
	if (f->sparse)
		err = refuse_absent_pages(m);
	if (err)
		munmap(m->base, m->size);
	return err;
}

int xd_mapping_new(struct xd_mapping *m, const struct xd_file *f, uint64_t offset, uint64_t length,
		   bool writable)
{
	uint64_t start = offset & ~(f->unit - 1);
	uint64_t end = (offset + length + f->unit - 1) & ~(f->unit - 1);
	int err;

	if (offset + length > f->size)
		return -EFAULT;
	if (f->sparse && uffd < 0)
		return -ENOSYS;
	*m = (struct xd_mapping){ .size = end - start, .sparse = f->sparse };
	if (!take_mapping())
		return -ENOSPC;
	err = map_guarded(m, f, start, writable);
	if (err) {
		__atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
		return err;
	}
	__atomic_add_fetch(&totals.mapped, m->size, __ATOMIC_RELAXED);
	m->ptr = m->base + (offset - start);
	return 0;
}

void xd_mapping_free(struct xd_mapping *m)
{
	munmap(m->base, m->size);
	if (m->pinned)
		__atomic_sub_fetch(&totals.pinned, m->size, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&totals.mapped, m->size, __ATOMIC_RELAXED);
}
