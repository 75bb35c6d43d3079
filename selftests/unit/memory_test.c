// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Region access: segments, mapped and unmapped memory, atomics, errors. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/transport/memory/guard.h"
#include "daemon/transport/memory/memory.h"
#include "selftests/lib/tap.h"

#define SIZE 60000

/* Regions have three segments. Those that are not mapped are accessed through xt_mem_ops only. */
static uint8_t backing[3][SIZE];
static uint8_t shadow[SIZE];
static int fail_with;
static unsigned calls;

#define AT(mem, off) (&(struct xt_mem_at){ mem, off })

static int fake_read(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off, void *dst,
		     size_t len)
{
	calls++;
	if (fail_with)
		return fail_with;
	memcpy(dst, (void *)(uintptr_t)(seg->addr + off), len);
	return 0;
}

static int fake_write(struct xt_mem *mem, const struct xt_mem_seg *seg, uint64_t off,
		      const void *src, size_t len)
{
	calls++;
	if (fail_with)
		return fail_with;
	memcpy((void *)(uintptr_t)(seg->addr + off), src, len);
	return 0;
}

static const struct xt_mem_ops ops = { .read = fake_read, .write = fake_write };

/* @cut: lengths of the three segments. @mapped: one bit per segment. */
static struct xt_mem make(uint8_t *base, struct xt_mem_seg *seg, const uint32_t *cut,
			  unsigned mapped)
{
	struct xt_mem mem = { .ops = &ops, .nseg = 3, .seg = seg };

	for (int i = 0; i < 3; i++) {
		seg[i] = (struct xt_mem_seg){
			.off = mem.length,
			.len = cut[i],
			.ptr = mapped & (1 << i) ? base + mem.length : NULL,
			.addr = (uintptr_t)(base + mem.length),
			.writable = true,
		};
		mem.length += cut[i];
	}
	return mem;
}

static void fill(uint8_t *p, unsigned seed)
{
	for (unsigned i = 0; i < SIZE; i++)
		p[i] = (i * 31 + seed * 17 + (i >> 8)) & 0xff;
}

static void test_read_write(void)
{
	static const uint32_t cut[3] = { 4097, 20000, SIZE - 24097 };
	struct xt_mem_seg seg[3];
	static uint8_t buf[SIZE];
	unsigned wrong = 0, tried = 0;

	for (unsigned mapped = 0; mapped < 8; mapped++) {
		struct xt_mem mem = make(backing[0], seg, cut, mapped);

		fill(backing[0], mapped);
		memcpy(shadow, backing[0], SIZE);
		for (unsigned off = 0; off < SIZE; off += 977) {
			unsigned len = (off * 7919) % (SIZE - off) + 1;

			tried++;
			wrong += xt_mem_read(NULL, &mem, off, buf, len) ||
				 memcmp(buf, shadow + off, len);
			memset(buf, off, len);
			memcpy(shadow + off, buf, len);
			wrong += xt_mem_write(NULL, &mem, off, buf, len) ||
				 memcmp(shadow, backing[0], SIZE);
		}
	}
	TAP_OK(!wrong, "%u reads and writes across segment boundaries", tried);
}

static void test_ptr(void)
{
	static const uint32_t cut[3] = { 100, 200, 300 };
	struct xt_mem_seg seg[3];
	struct xt_mem mem = make(backing[0], seg, cut, 5);

	TAP_OK(xt_mem_ptr(&mem, 0, 100) == backing[0], "ptr: a whole segment");
	TAP_OK(xt_mem_ptr(&mem, 99, 1) == backing[0] + 99, "ptr: the last byte of a segment");
	TAP_OK(!xt_mem_ptr(&mem, 99, 2), "ptr: NULL across a segment boundary");
	TAP_OK(!xt_mem_ptr(&mem, 100, 1), "ptr: NULL in an unmapped segment");
	TAP_OK(xt_mem_ptr(&mem, 300, 300) == backing[0] + 300, "ptr: the last segment");
	TAP_OK(!xt_mem_ptr(&mem, 300, 301), "ptr: NULL if the range exceeds the region");
	TAP_OK(!xt_mem_ptr(&mem, 600, 1), "ptr: NULL after the end of the region");
	TAP_OK(!xt_mem_ptr(&mem, 300, UINT64_MAX), "ptr: NULL if the range overflows");
}

static void test_copy(void)
{
	static const uint32_t cut_a[3] = { 4097, 20000, SIZE - 24097 };
	static const uint32_t cut_b[3] = { 16384, 1, SIZE - 16385 };
	struct xt_mem_seg seg_a[3], seg_b[3];
	unsigned wrong = 0, tried = 0;
	bool of_src;

	for (unsigned mapped = 0; mapped < 64; mapped++) {
		struct xt_mem a = make(backing[0], seg_a, cut_a, mapped & 7);
		struct xt_mem b = make(backing[1], seg_b, cut_b, mapped >> 3);

		fill(backing[0], mapped);
		fill(backing[1], mapped + 100);
		memcpy(shadow, backing[1], SIZE);
		for (unsigned i = 0; i < 16; i++, tried++) {
			unsigned from = i * 3001 % SIZE, to = i * 4999 % SIZE;
			unsigned most = SIZE - (from > to ? from : to), len = i * 7919 % most + 1;

			memcpy(shadow + to, backing[0] + from, len);
			wrong += xt_mem_copy(NULL, AT(&b, to), AT(&a, from), len, &of_src) != 0;
			wrong += memcmp(shadow, backing[1], SIZE) != 0;
		}
	}
	TAP_OK(!wrong, "%u copies between regions, mapped and unmapped", tried);
	{
		struct xt_mem a = make(backing[0], seg_a, cut_a, 7);

		memcpy(shadow, backing[0], SIZE);
		memmove(shadow + 100, shadow, 4000 - 100);
		wrong = xt_mem_copy(NULL, AT(&a, 100), AT(&a, 0), 4000 - 100, &of_src);
		TAP_OK(!wrong && !memcmp(shadow, backing[0], SIZE),
		       "source and target of a copy may overlap in one segment");
	}
}

static void test_atomics(void)
{
	static const uint32_t cut[3] = { 64, 64, 64 };
	static uint64_t words[24];
	struct xt_mem_seg seg[3];
	struct xt_mem mem = make((uint8_t *)words, seg, cut, 1);
	uint64_t old;

	for (unsigned w = 0; w < 16; w += 8) {
		const char *tier = w ? "not mapped" : "mapped";

		words[w] = 5;
		TAP_OK(!xt_mem_fetch_add(NULL, AT(&mem, w * 8), 3, &old) && old == 5 &&
			       words[w] == 8,
		       "fetch and add, %s", tier);
		TAP_OK(!xt_mem_fetch_add(NULL, AT(&mem, w * 8), -9ull, &old) && old == 8 &&
			       words[w] == -1ull,
		       "fetch and add wraps, %s", tier);
		TAP_OK(!xt_mem_cmp_swap(NULL, AT(&mem, w * 8), -1ull, 77, &old) && old == -1ull &&
			       words[w] == 77,
		       "compare and swap of an equal value changes it, %s", tier);
		TAP_OK(!xt_mem_cmp_swap(NULL, AT(&mem, w * 8), 1, 2, &old) && old == 77 &&
			       words[w] == 77,
		       "compare and swap of an unequal value does not change it, %s", tier);
	}
	seg[0].writable = false;
	TAP_OK(xt_mem_fetch_add(NULL, AT(&mem, 0), 1, &old) == -EACCES,
	       "no atomics on read-only memory");
}

static void test_failures(void)
{
	static const uint32_t cut[3] = { 100, 200, 300 };
	struct xt_mem_seg seg[3];
	struct xt_mem mem = make(backing[0], seg, cut, 5);
	struct xt_mem other = make(backing[1], seg, cut, 5);
	struct xt_mem_seg all_mapped[3];
	struct xt_mem mapped = make(backing[2], all_mapped, cut, 7);
	uint8_t buf[600];
	bool of_src;
	uint64_t old;

	fail_with = -EFAULT;
	TAP_OK(xt_mem_read(NULL, &mem, 0, buf, 101) == -EFAULT, "a read returns a tier's error");
	TAP_OK(xt_mem_write(NULL, &mem, 0, buf, 101) == -EFAULT, "a write returns a tier's error");
	TAP_OK(xt_mem_copy(NULL, AT(&other, 0), AT(&mem, 0), 300, &of_src) == -EFAULT && of_src,
	       "a copy returns a tier's read error as one of the source");
	TAP_OK(xt_mem_copy(NULL, AT(&mem, 0), AT(&mapped, 0), 300, &of_src) == -EFAULT && !of_src,
	       "a copy returns a tier's write error as one of the target");
	TAP_OK(xt_mem_fetch_add(NULL, AT(&mem, 104), 1, &old) == -EFAULT,
	       "an atomic returns a tier's error");
	calls = 0;
	TAP_OK(!xt_mem_read(NULL, &mem, 0, buf, 100) && !calls,
	       "reading a mapped segment calls no tier function");
	fail_with = 0;
	TAP_OK(xt_mem_read(NULL, &mem, 599, buf, 2) == -EFAULT, "a read past the end fails");
	TAP_OK(!xt_mem_read(NULL, &mem, 600, buf, 0), "a read of length 0 at the end succeeds");
	seg[0].writable = false;
	TAP_OK(xt_mem_write(NULL, &mem, 0, buf, 1) == -EACCES, "a write to read-only memory fails");
	TAP_OK(xt_mem_copy(NULL, AT(&mem, 0), AT(&other, 0), 1, &of_src) == -EACCES && !of_src,
	       "a copy to read-only memory fails");
}

/* Like the handler of daemon/memory/sigbus.c */
static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	xt_guard_fault(info->si_addr);
	_exit(1);
}

static struct xt_mem *absent_in; /* the region of the last absent page */
static unsigned absent_pages;

static void note_absent(struct xt_mem *mem)
{
	absent_in = mem;
	absent_pages++;
}

/* A file of one page in a mapping of two: an access to the second page raises SIGBUS. */
static void test_absent_page(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };
	int fd = memfd_create("one page", MFD_CLOEXEC);
	struct xt_mem_seg seg = { .len = 8192, .writable = true }, present = seg;
	const struct xt_mem_ops mapped = { .absent = note_absent };
	struct xt_mem mem = { .ops = &mapped, .length = 8192, .nseg = 1, .seg = &seg };
	struct xt_mem other = { .ops = &mapped, .length = 8192, .nseg = 1, .seg = &present };
	uint8_t buf[200];
	uint64_t old;
	bool of_src;

	if (fd < 0 || ftruncate(fd, 4096) || sigaction(SIGBUS, &sa, NULL))
		abort();
	seg.ptr = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	present.ptr = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TAP_OK(xt_mem_read(NULL, &mem, 4000, buf, 200) == -EFAULT,
	       "a read that reaches an absent page fails");
	TAP_OK(xt_mem_write(NULL, &mem, 4000, buf, 200) == -EFAULT,
	       "a write that reaches an absent page fails");
	TAP_OK(!xt_mem_read(NULL, &mem, 0, buf, 200) && !xt_mem_write(NULL, &mem, 3896, buf, 200),
	       "other pages of the region can be accessed");
	TAP_OK(xt_mem_copy(NULL, AT(&other, 0), AT(&mem, 4000), 200, &of_src) == -EFAULT && of_src,
	       "a copy from an absent page fails because of the source");
	TAP_OK(xt_mem_copy(NULL, AT(&mem, 4000), AT(&other, 0), 200, &of_src) == -EFAULT && !of_src,
	       "a copy to an absent page fails because of the target");
	TAP_OK(xt_mem_cmp_swap(NULL, AT(&mem, 4096), 0, 1, &old) == -EFAULT &&
		       xt_mem_fetch_add(NULL, AT(&mem, 4104), 1, &old) == -EFAULT &&
		       xt_mem_atomic_write(NULL, AT(&mem, 8184), 1) == -EFAULT,
	       "atomics on an absent page fail");
	TAP_OK(!xt_mem_probe(&mem, seg.ptr + 1, 4095) &&
		       xt_mem_probe(&mem, seg.ptr + 1, 4096) == -EFAULT &&
		       xt_mem_probe(&mem, seg.ptr + 4097, 1) == -EFAULT,
	       "probe: finds an absent page");
	TAP_OK(absent_pages == 9 && absent_in == &mem,
	       "each access that found an absent page is reported with its region");
	if (ftruncate(fd, 8192))
		abort();
	TAP_OK(!xt_mem_write(NULL, &mem, 4000, buf, 200), "a page that is there again is written");
	munmap(seg.ptr, 8192), munmap(present.ptr, 8192);
	close(fd);
}

int main(void)
{
	test_read_write();
	test_ptr();
	test_copy();
	test_atomics();
	test_failures();
	test_absent_page();
	return tap_end();
}
