// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_xdp.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/helper/helper.h"

#define PAGE 4096u
/*
 * Bytes that one socket pins. The kernel holds the lock of the daemon's address space while it
 * pins, which takes at most 30 ms for this size.
 */
#define PIN_SLICE (256ull << 20)
/*
 * Pins take descriptors until half of those of the user or of the device are in use. The others are
 * for what fails without: a program with many regions does not keep new ones from connecting.
 */
#define PIN_PARTS 2
/* Unpinning is asynchronous: memory that was just released may still count against the limit. */
#define PIN_TRIES 20
#define PIN_PAUSE_US 5000

static struct xd_mem_totals totals; /* atomic */
static uint32_t mappings;	    /* atomic */

void xd_mem_totals(struct xd_mem_totals *out)
{
	out->mapped = __atomic_load_n(&totals.mapped, __ATOMIC_RELAXED);
	out->pinned = __atomic_load_n(&totals.pinned, __ATOMIC_RELAXED);
}

/* ---- pins ------------------------------------------------------------------------- */

/* Returns the socket or -errno. */
static int pin_slice(struct xd_mapping *m, int ticket, uint64_t off, uint64_t size)
{
	struct xdp_umem_reg reg = {
		.addr = (uintptr_t)m->base + off,
		.len = size,
		.chunk_size = PAGE,
	};
	int fd = xd_helper_xdp_socket(ticket), tries, err;

	if (fd < 0)
		return fd;
	for (tries = 0; setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)); tries++) {
		err = -errno;
		if ((err != -ENOBUFS && err != -ENOMEM) || tries == PIN_TRIES) {
			close(fd);
			return err;
		}
		usleep(PIN_PAUSE_US);
	}
	return fd;
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/*
 * Pinning faults in each page by itself; a read fault maps the pages around it as well. No absent
 * page is allocated, and any error shows again when the page is pinned.
 */
static void map_pages(const struct xd_mapping *m, uint64_t off, uint64_t size)
{
	madvise(m->base + off, size, MADV_POPULATE_READ);
}

/* Logs once that this daemon may not pin memory at all, or not as much as it needs. */
static void log_unpinned(int err)
{
	static bool logged; /* atomic */

	if (err != -EPERM && err != -EACCES && err != -EAFNOSUPPORT && err != -ENOBUFS)
		return;
	if (!__atomic_exchange_n(&logged, true, __ATOMIC_RELAXED))
		xd_log(XD_NOTICE, "memory of programs is not pinned and can be swapped out: %s: %s",
		       err == -ENOBUFS ? "RLIMIT_MEMLOCK" : "AF_XDP sockets", strerror(-err));
}

/*
 * Failure is not an error: memory can be used without pins, as the next access brings back pages
 * that were swapped out. Descriptors may be scarce, and read-only memory cannot be pinned.
 */
bool xd_mapping_pin(struct xd_mapping *m, int ticket, struct xd_fd_quota *quota)
{
	uint32_t slices = (m->size + PIN_SLICE - 1) / PIN_SLICE, i;
	uint64_t off, size;
	int fd;

	m->pin = calloc(slices, sizeof(*m->pin));
	if (!m->pin || !xd_fds_take_part(quota, slices, PIN_PARTS))
		return false;
	for (i = 0; i < slices; i++) {
		off = i * PIN_SLICE;
		size = m->size - off < PIN_SLICE ? m->size - off : PIN_SLICE;
		map_pages(m, off, size);
		fd = pin_slice(m, ticket, off, size);
		if (fd < 0)
			break;
		m->pin[i] = fd;
	}
	if (i == slices) {
		m->pins = slices;
		__atomic_add_fetch(&totals.pinned, m->size, __ATOMIC_RELAXED);
		return true;
	}
	m->absent = fd == -EFAULT;
	log_unpinned(fd);
	while (i)
		close(m->pin[--i]);
	xd_fds_put(quota, slices);
	return false;
}

static void unpin(struct xd_mapping *m, struct xd_fd_quota *quota)
{
	if (m->pins) {
		xd_fds_put(quota, m->pins);
		__atomic_sub_fetch(&totals.pinned, m->size, __ATOMIC_RELAXED);
	}
	while (m->pins)
		close(m->pin[--m->pins]);
	free(m->pin);
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

void xd_mapping_free(struct xd_mapping *m, struct xd_fd_quota *quota)
{
	unpin(m, quota);
	munmap(m->base, m->size);
	__atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&totals.mapped, m->size, __ATOMIC_RELAXED);
}
