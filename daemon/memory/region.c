// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <linux/if_xdp.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/clients/client.h"
#include "proc_maps.h"
#include "region.h"

#define PAGE 4096u
/*
 * Pinned by one socket. The kernel holds our address space's lock while it pins; in
 * pieces of this size that is some 30 ms at worst.
 */
#define PIN_SLICE (256ull << 20)
/* Unpinning is asynchronous: memory that was just given back may still count. */
#define PIN_TRIES 20
#define PIN_PAUSE_US 5000

struct xd_map {
	uint8_t *base;
	uint64_t size;
	uint32_t place; /* in the guard's list */
	int *pin;	/* sockets */
	uint32_t pins;
};

static struct xd_mem_totals totals; /* atomic */
static uint32_t mappings;	    /* of regions, atomic */

void xd_mem_totals(struct xd_mem_totals *out)
{
	out->mapped = __atomic_load_n(&totals.mapped, __ATOMIC_RELAXED);
	out->pinned = __atomic_load_n(&totals.pinned, __ATOMIC_RELAXED);
}

/* ---- what a request must look like ----------------------------------------------- */

static bool segment_sane(const struct xr_mr_segment *s, uint32_t nfds)
{
	if ((!s->length && s->kind < XR_SEG_DM) || s->addr + s->length < s->addr ||
	    s->offset + s->length < s->offset || s->flags & ~(uint32_t)XR_SEGF_READONLY)
		return false;
	switch (s->kind) {
	case XR_SEG_FD:
		return s->fd_index < nfds;
	case XR_SEG_MAPPING:
		return s->map_start <= s->addr && s->addr + s->length <= s->map_end;
	case XR_SEG_PRIVATE:
		return true;
	case XR_SEG_DM:
	case XR_SEG_NULL:
		return !s->addr;
	default:
		return false;
	}
}

int xd_mem_check(const struct xr_mr_segment *segment, uint32_t segments, uint64_t addr,
		 uint64_t length, uint32_t nfds)
{
	uint64_t at = addr;
	uint32_t i;

	if (segments > XR_MR_SEGMENTS_MAX || addr + length < addr)
		return -EINVAL;
	for (i = 0; i < segments; i++) {
		if (segment[i].kind >= XR_SEG_DM && segments > 1)
			return -EINVAL;
		if (segment[i].addr != at || !segment_sane(&segment[i], nfds))
			return -EINVAL;
		at += segment[i].length;
	}
	return at == addr + length ? 0 : -EINVAL;
}

/* ---- a process's own descriptors ------------------------------------------------- */

/* The path of a file of procfs, less its last part, which must be `name`. */
static int proc_folder(int fd, const char *name, char *path, size_t size)
{
	struct statfs fs;
	char link[40];
	ssize_t n;
	char *slash;

	if (fstatfs(fd, &fs) || fs.f_type != PROC_SUPER_MAGIC)
		return -EINVAL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, size - 1);
	if (n <= 0 || (size_t)n >= size - 1)
		return -EINVAL;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash || strcmp(slash + 1, name))
		return -EINVAL;
	*slash = '\0';
	return 0;
}

/* Whose folder it is can be told where the procfs is ours. */
static bool other_process(int fd, const char *folder, pid_t pid)
{
	struct stat file, ours;
	const char *last = strrchr(folder, '/');

	if (fstat(fd, &file) || stat("/proc", &ours))
		return true;
	return file.st_dev == ours.st_dev && (!last || atol(last + 1) != pid);
}

static int check_proc(int mem_fd, int maps_fd, pid_t pid)
{
	char mem[256], maps[256];
	int flags;

	if (proc_folder(mem_fd, "mem", mem, sizeof(mem)) ||
	    proc_folder(maps_fd, "maps", maps, sizeof(maps)) || strcmp(mem, maps) ||
	    other_process(mem_fd, mem, pid))
		return -EINVAL;
	flags = fcntl(mem_fd, F_GETFL);
	return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) == O_RDWR ? 0 : -EINVAL;
}

/*
 * It is of whatever program the process executes by now, which its own memory, bound to mem_fd, is
 * not: that is gone then. -1: not to be had, and nothing on demand.
 */
static int open_for_workers(int maps_fd)
{
	char path[40];

	if (xd_proc_can_query(maps_fd))
		return maps_fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", maps_fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

int xd_proc_new(int mem_fd, int maps_fd, pid_t pid, struct xd_proc **proc)
{
	struct xd_proc *p = NULL;
	int err = check_proc(mem_fd, maps_fd, pid);

	if (!err)
		p = malloc(sizeof(*p));
	if (!p) {
		close(mem_fd);
		close(maps_fd);
		return err ? err : -ENOMEM;
	}
	*p = (struct xd_proc){ .refs = 1, .pid = pid, .mem_fd = mem_fd, .maps_fd = maps_fd };
	p->look_fd = open_for_workers(maps_fd);
	*proc = p;
	return 0;
}

struct xd_proc *xd_proc_get(struct xd_proc *proc)
{
	if (proc)
		__atomic_add_fetch(&proc->refs, 1, __ATOMIC_RELAXED);
	return proc;
}

void xd_proc_put(struct xd_proc *proc)
{
	if (!proc || __atomic_sub_fetch(&proc->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (proc->look_fd != proc->maps_fd && proc->look_fd >= 0)
		close(proc->look_fd);
	close(proc->mem_fd);
	close(proc->maps_fd);
	free(proc);
}

/* ---- private memory -------------------------------------------------------------- */

int xd_proc_read(struct xd_proc *proc, uint64_t addr, void *dst, size_t len)
{
	ssize_t n;

	for (; len; addr += (uint64_t)n, dst = (uint8_t *)dst + n, len -= (size_t)n) {
		n = pread(proc->mem_fd, dst, len, (off_t)addr);
		if (n <= 0)
			return -EFAULT;
	}
	return 0;
}

int xd_proc_write(struct xd_proc *proc, uint64_t addr, const void *src, size_t len)
{
	ssize_t n;

	for (; len; addr += (uint64_t)n, src = (const uint8_t *)src + n, len -= (size_t)n) {
		n = pwrite(proc->mem_fd, src, len, (off_t)addr);
		if (n <= 0)
			return -EFAULT;
	}
	return 0;
}

/* The first member of struct xd_mem is its struct xt_mem. */
static int private_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
			size_t len)
{
	return xd_proc_read(((struct xd_mem *)mem)->proc, seg->addr + off, dst, len);
}

static int private_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
			 const void *src, size_t len)
{
	return xd_proc_write(((struct xd_mem *)mem)->proc, seg->addr + off, src, len);
}

static const struct xt_mem_ops private_ops = { private_read, private_write };

/* ---- no memory at all ------------------------------------------------------------ */

static int null_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		     size_t len)
{
	memset(dst, 0, len);
	return 0;
}

static int null_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		      const void *src, size_t len)
{
	return 0;
}

static const struct xt_mem_ops null_ops = { null_read, null_write };

/* ---- mapped memory --------------------------------------------------------------- */

struct file {
	int fd;
	uint64_t size;
	uint64_t unit; /* of mappings: a page, or a huge page */
	struct stat st;
};

/* Only memory file systems: their pages stay, and none of their calls waits for somebody else. */
static int check_file(struct file *f)
{
	struct statfs fs;

	if (fstat(f->fd, &f->st) || !S_ISREG(f->st.st_mode) || fstatfs(f->fd, &fs) ||
	    (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC))
		return -EINVAL;
	f->size = (uint64_t)f->st.st_size;
	f->unit = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)f->st.st_blksize : PAGE;
	return 0;
}

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

/* Who made a dma-buf: only the driver of /dev/udmabuf gives ordinary memory. */
static bool is_udmabuf(int fd)
{
	char path[40], line[128];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strcmp(line, "exp_name:\tudmabuf\n");
	if (f)
		fclose(f);
	return found;
}

/* It consists of pages of a memfd that cannot shrink: the driver sees to that. */
static int check_dmabuf(struct file *f)
{
	off_t end = lseek(f->fd, 0, SEEK_END);

	if (!is_udmabuf(f->fd))
		return -EOPNOTSUPP;
	if (end <= 0)
		return -EINVAL;
	f->size = (uint64_t)end;
	f->unit = PAGE;
	return 0;
}

/*
 * Adopted memory, or a buffer that the program shares with others: the client passed the file, so it
 * may do with it what the descriptor allows.
 */
static int check_passed(struct file *f, bool write)
{
	int flags = fcntl(f->fd, F_GETFL), seals;
	struct statfs fs;

	if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY ||
	    (write && (flags & O_ACCMODE) != O_RDWR))
		return -EINVAL;
	if (!fstatfs(f->fd, &fs) && fs.f_type == DMA_BUF_MAGIC)
		return check_dmabuf(f);
	seals = fcntl(f->fd, F_GET_SEALS);
	return seals < 0 || !(seals & F_SEAL_SHRINK) ? -EINVAL : check_file(f);
}

static bool may_access(const struct stat *st, const struct xd_mem_request *req, bool write)
{
	mode_t need = write ? 06 : 04;

	if (!req->uid)
		return true;
	if (st->st_uid == req->uid)
		need <<= 6;
	else if (xd_in_groups(st->st_gid, req->gid, req->groups))
		need <<= 3;
	return (st->st_mode & need) == need;
}

bool xd_process_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&p, 1, 0) > 0;
}

/* The file of a mapping, looked at before it is opened: it might be a device. */
static int find_mapped(const struct xd_mem_request *req, const struct xd_vma *vma, bool write,
		       struct file *f)
{
	char path[80];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", req->pid,
		 (unsigned long long)vma->start, (unsigned long long)vma->end);
	f->fd = open(path, O_PATH | O_CLOEXEC);
	if (f->fd < 0)
		return -errno;
	err = check_file(f);
	/*
	 * Was the process another program meanwhile, or its list garbled, then this is some other
	 * file. What protects that one is that the client must be allowed to open it.
	 */
	if (!err && (f->st.st_dev != vma->dev || f->st.st_ino != vma->inode ||
		     !may_access(&f->st, req, write) || xd_process_ended(req->pidfd)))
		err = -EACCES;
	if (err)
		close(f->fd);
	return err;
}

static int open_mapped(const struct xd_mem_request *req, const struct xd_vma *vma, bool write,
		       struct file *f)
{
	int err = find_mapped(req, vma, write, f), path_fd = f->fd;
	char path[40];

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	f->fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	err = f->fd < 0 ? -errno : 0;
	close(path_fd);
	return err;
}

static int pin_slice(struct xd_map *map, uint64_t off, uint64_t size)
{
	struct xdp_umem_reg reg = {
		.addr = (uintptr_t)map->base + off,
		.len = size,
		.chunk_size = PAGE,
	};
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), tries;

	if (fd < 0)
		return -errno;
	for (tries = 0; setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)); tries++) {
		if ((errno != ENOBUFS && errno != ENOMEM) || tries == PIN_TRIES) {
			close(fd);
			return -errno;
		}
		usleep(PIN_PAUSE_US);
	}
	return fd;
}

static void unpin(struct xd_server *s, struct xd_map *map)
{
	if (map->pins) {
		xd_fds_put(s, map->pins);
		__atomic_sub_fetch(&totals.pinned, map->size, __ATOMIC_RELAXED);
	}
	while (map->pins)
		close(map->pin[--map->pins]);
	free(map->pin);
	map->pin = NULL;
}

/*
 * All or nothing. Shared memory works without: what was swapped out comes back with the next
 * access. So running out of descriptors, or read-only memory, costs the pin only.
 */
static bool pin(struct xd_server *s, struct xd_map *map)
{
	uint32_t slices = (map->size + PIN_SLICE - 1) / PIN_SLICE, i;
	uint64_t off, size;
	int fd;

	map->pin = calloc(slices, sizeof(*map->pin));
	if (!map->pin || !xd_fds_take(s, slices))
		return false;
	for (i = 0; i < slices; i++) {
		off = i * PIN_SLICE;
		size = map->size - off < PIN_SLICE ? map->size - off : PIN_SLICE;
		fd = pin_slice(map, off, size);
		if (fd < 0)
			break;
		map->pin[i] = fd;
	}
	if (i == slices) {
		map->pins = slices;
		__atomic_add_fetch(&totals.pinned, map->size, __ATOMIC_RELAXED);
		return true;
	}
	while (i)
		close(map->pin[--i]);
	xd_fds_put(s, slices);
	return false;
}

/*
 * A process has a limited number of mappings. Regions get three quarters, so that rings and the C library
 * find some; those that come later are reached like private memory.
 */
static uint32_t most_mappings(void)
{
	static uint32_t most; /* the same for whoever is first */
	FILE *f = most ? NULL : fopen("/proc/sys/vm/max_map_count", "re");
	uint32_t n = 0;

	if (f && fscanf(f, "%u", &n) == 1)
		__atomic_store_n(&most, n / 4 * 3, __ATOMIC_RELAXED);
	if (f)
		fclose(f);
	n = __atomic_load_n(&most, __ATOMIC_RELAXED);
	return n ? n : 49152;
}

static bool take_mapping(void)
{
	if (__atomic_add_fetch(&mappings, 1, __ATOMIC_RELAXED) <= most_mappings())
		return true;
	__atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
	return false;
}

static int map_guarded(struct xd_mem *mem, struct xd_map *map, const struct file *f, uint64_t start)
{
	int err;

	map->base = mmap(NULL, map->size, PROT_READ | (mem->writable ? PROT_WRITE : 0), MAP_SHARED,
			 f->fd, (off_t)start);
	if (map->base == MAP_FAILED)
		return -errno;
	err = xd_sigbus_add(map->base, map->size, &mem->xt.broken, &map->place);
	if (err)
		munmap(map->base, map->size);
	return err;
}

/* Maps [offset, offset + length) of a file as the next segment. */
static int map_file(struct xd_mem *mem, const struct file *f, uint64_t offset, uint64_t length,
		    uint8_t **ptr)
{
	uint64_t start = offset & ~(f->unit - 1);
	uint64_t end = (offset + length + f->unit - 1) & ~(f->unit - 1);
	struct xd_map *map = &mem->map[mem->maps];
	int err;

	if (offset + length > f->size)
		return -EFAULT;
	*map = (struct xd_map){ .size = end - start };
	if (!take_mapping())
		return -ENOSPC;
	err = map_guarded(mem, map, f, start);
	if (err) {
		__atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
		return err;
	}
	mem->maps++;
	__atomic_add_fetch(&totals.mapped, map->size, __ATOMIC_RELAXED);
	*ptr = map->base + (offset - start);
	return 0;
}

static void unmap(struct xd_mem *mem, struct xd_map *map)
{
	unpin(mem->server, map);
	xd_sigbus_del(map->place);
	munmap(map->base, map->size);
	__atomic_sub_fetch(&mappings, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&totals.mapped, map->size, __ATOMIC_RELAXED);
}

/* ---- regions --------------------------------------------------------------------- */

static const struct xd_vma *vma_of(const struct xr_mr_segment *s, const struct xd_vma *vma,
				   size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (vma[i].start == s->map_start && vma[i].end == s->map_end)
			return &vma[i];
	}
	return NULL;
}

static int build_adopted(struct xd_mem *mem, const struct xd_mem_request *req,
			 const struct xr_mr_segment *s, uint8_t **ptr)
{
	struct file f = { .fd = req->fds[s->fd_index] };
	int err = check_passed(&f, mem->writable);

	return err ? err : map_file(mem, &f, s->offset, s->length, ptr);
}

/* -EINVAL: the client does not know its own memory. Other errors: not to be had this way. */
static int build_shared(struct xd_mem *mem, const struct xd_mem_request *req,
			const struct xr_mr_segment *s, const struct xd_vma *vma, size_t count,
			uint8_t **ptr)
{
	struct file f;
	int err;

	vma = vma_of(s, vma, count);
	if (!vma || !vma->shared || vma->offset + (s->addr - vma->start) != s->offset)
		return -EINVAL;
	err = open_mapped(req, vma, mem->writable, &f);
	if (err)
		return err == -EINVAL ? -EACCES : err;
	err = map_file(mem, &f, s->offset, s->length, ptr);
	close(f.fd);
	return err;
}

/*
 * What cannot be mapped is reached like private memory, unless the client does not know its own, or the file
 * is no memory of the client (dma-buf: address 0).
 */
static bool private_instead(const struct xd_mem_request *req, const struct xr_mr_segment *s,
			    int err, bool write)
{
	if (!err || err == -EINVAL || err == -EFAULT || err == -EOPNOTSUPP || !req->proc ||
	    !s->addr)
		return false;
	return !xd_proc_check(req->proc->maps_fd, s->addr, s->length, write);
}

static int build_segment(struct xd_mem *mem, const struct xd_mem_request *req, uint32_t i,
			 const struct xd_vma *vma, size_t count)
{
	const struct xr_mr_segment *s = &req->segment[i];
	uint32_t kind = s->kind;
	uint8_t *ptr = NULL;
	int err = 0;

	if (mem->writable && s->flags & XR_SEGF_READONLY)
		return -EFAULT;
	if (kind == XR_SEG_FD) {
		err = build_adopted(mem, req, s, &ptr);
	} else if (kind == XR_SEG_DM) {
		ptr = req->dm + s->offset;
	} else if (kind == XR_SEG_NULL) {
		mem->xt.ops = &null_ops;
	} else {
		/* Writing through /proc/PID/mem would not mind read-only pages. */
		err = xd_vma_check(vma, count, s->addr, s->length, mem->writable);
		if (!err && kind == XR_SEG_MAPPING)
			err = build_shared(mem, req, s, vma, count, &ptr);
	}
	if (private_instead(req, s, err, mem->writable)) {
		kind = XR_SEG_PRIVATE;
		err = 0;
	}
	if (err)
		return err;
	mem->tiers |= 1u << kind;
	mem->xt.seg[i] = (struct xt_mem_seg){
		.off = s->addr - req->addr,
		.len = s->length,
		.ptr = ptr,
		.addr = s->addr,
		.writable = mem->writable,
	};
	mem->xt.nseg++;
	return 0;
}

static int build_segments(struct xd_mem *mem, const struct xd_mem_request *req)
{
	struct xd_vma *vma = NULL;
	size_t count = 0;
	bool ask = false;
	uint32_t i;
	int err = 0;

	for (i = 0; i < req->segments; i++)
		ask |= req->segment[i].kind == XR_SEG_MAPPING ||
		       req->segment[i].kind == XR_SEG_PRIVATE;
	if (ask && !req->proc)
		return -EINVAL;
	if (ask)
		err = xd_proc_maps(req->proc->maps_fd, req->addr, req->addr + req->length, &vma,
				   &count);
	for (i = 0; i < req->segments && !err; i++)
		err = build_segment(mem, req, i, vma, count);
	free(vma);
	return err;
}

static void pin_all(struct xd_mem *mem, const struct xd_mem_request *req)
{
	bool all = !xd_seg_alone(req->segment, req->segments);
	uint32_t i;

	for (i = 0; i < mem->maps; i++)
		all &= pin(mem->server, &mem->map[i]);
	mem->pinned = all && !(mem->tiers & 1u << XR_SEG_PRIVATE);
}

static struct xd_mem *mem_alloc(const struct xd_mem_request *req)
{
	struct xd_mem *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return NULL;
	mem->server = req->server;
	mem->proc = xd_proc_get(req->proc);
	mem->writable = xd_access_writes(req->access);
	mem->xt.ops = &private_ops;
	mem->xt.length = req->length;
	mem->xt.seg = calloc(req->segments + 1, sizeof(*mem->xt.seg));
	mem->map = calloc(req->segments + 1, sizeof(*mem->map));
	if (!mem->xt.seg || !mem->map) {
		xd_mem_free(mem);
		return NULL;
	}
	return mem;
}

uint64_t xd_mem_overhead(uint32_t segments)
{
	return segments * (sizeof(struct xt_mem_seg) + sizeof(struct xd_map));
}

int xd_mem_new(const struct xd_mem_request *req, struct xd_mem **out)
{
	struct xd_mem *mem;
	int err;

	if (req->access & XR_ACCESS_ON_DEMAND)
		return xd_mem_on_demand(req->server, req->proc, req->addr, req->length,
					xd_access_writes(req->access), out);
	mem = mem_alloc(req);
	if (!mem)
		return -ENOMEM;
	err = build_segments(mem, req);
	if (err) {
		xd_mem_free(mem);
		return err;
	}
	pin_all(mem, req);
	*out = mem;
	return 0;
}

void xd_mem_free(struct xd_mem *mem)
{
	if (!mem)
		return;
	while (mem->maps)
		unmap(mem, &mem->map[--mem->maps]);
	xd_proc_put(mem->proc);
	free(mem->map);
	free(mem->xt.seg);
	free(mem);
}
