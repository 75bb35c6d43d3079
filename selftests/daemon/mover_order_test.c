// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The order in which a mover stores the bytes that end a message: programs poll the last of them.
 *
 *     mover_order [WRITES]    number of writes beside a thread that polls, for each length (100000)
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "movers.h"
#include "selftests/lib/tap.h"

#define PAGE 4096u
#ifdef __SANITIZE_THREAD__ /* accesses are slow then */
#define WRITES 5000u
#else
#define WRITES 100000u
#endif

/* ---- writes of the mover ----------------------------------------------------------------- */

/* The latest writes to /proc/PID/mem, in memory that the mover and this process share */
#define STORES 16
static struct stores {
	uint32_t n;
	struct {
		uint64_t addr;
		size_t len;
	} store[STORES];
} * stores;

ssize_t __real_pwrite(int fd, const void *p, size_t len, off_t at);
ssize_t __real_pwritev(int fd, const struct iovec *v, int n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t len, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *v, int n, off_t at);

static void note(uint64_t addr, size_t len)
{
	if (stores->n < STORES) {
		stores->store[stores->n].addr = addr;
		stores->store[stores->n].len = len;
	}
	stores->n++;
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t len, off_t at)
{
	note((uint64_t)at, len);
	return __real_pwrite(fd, p, len, at);
}

/* The kernel writes the parts of a vector to /proc/PID/mem one after the other. */
ssize_t __wrap_pwritev(int fd, const struct iovec *v, int n, off_t at)
{
	uint64_t addr = (uint64_t)at;

	for (int i = 0; i < n; addr += v[i++].iov_len)
		note(addr, v[i].iov_len);
	return __real_pwritev(fd, v, n, at);
}

static bool stored(uint32_t i, const uint8_t *p, size_t len)
{
	return i < stores->n && stores->store[i].addr == (uintptr_t)p &&
	       stores->store[i].len == len;
}

/* ---- the last bytes ---------------------------------------------------------------------- */

static uint8_t target[4 * PAGE] __attribute__((aligned(4096)));

/* Writes bytes to an address, or to two parts of it if cut is not 0. Returns the error. */
static int write_to(struct xd_mover *m, uint8_t *p, uint32_t len, uint32_t cut, bool last)
{
	struct xt_mem_io *io = io_new(m, 0, XT_MEM_WRITE, len);
	struct xt_mem_piece part[2] = { { (uintptr_t)p, cut }, { (uintptr_t)p + cut, len - cut } };
	int err;

	for (uint32_t i = 0; i < len; i++)
		io->data[i] = (uint8_t)(1 + i % 255);
	io->last = last;
	stores->n = 0;
	memset(target, 0, sizeof(target));
	if (cut)
		xd_mover_io_submit_parts(io, part, 2, false);
	else
		submit(io, p, false);
	err = finishes(0, io) ? io->err : -ETIMEDOUT;
	if (!err && memcmp(p, io->data, len))
		err = -EILSEQ;
	xd_mover_io_free(io);
	return err;
}

static uint32_t tail_of(const uint8_t *end)
{
	return (uintptr_t)end & 3 ? 1 : (uintptr_t)end & 7 ? 4 : 8;
}

/* Writes that end at each place of two words, in front of and behind the border of two pages */
static void test_tails(struct xd_mover *m)
{
	static const uint32_t lengths[] = {
		1, 2, 4, 7, 8, 9, 12, 16, 64, 1000, PAGE, 2 * PAGE + 1
	};
	unsigned wrong = 0, tried = 0;

	for (uint32_t end = 3 * PAGE - 8; end <= 3 * PAGE + 8; end++) {
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++, tried++) {
			uint32_t len = lengths[i], tail = tail_of(target + end), head = len - tail;
			uint8_t *p = target + end - len;

			wrong += write_to(m, p, len, 0, true) != 0;
			if (len <= tail)
				wrong += stores->n != 1 || !stored(0, p, len);
			else
				wrong += stores->n != 2 || !stored(0, p, head) ||
					 !stored(1, p + head, tail);
		}
	}
	TAP_OK(!wrong, "the last word, or a part of it, is stored last, %u cases (%u wrong)", tried,
	       wrong);
}

static void test_parts(struct xd_mover *m)
{
	uint8_t *p = target + 100;

	TAP_OK(!write_to(m, p, 1500, 700, true) && stores->n == 3 && stored(0, p, 700) &&
		       stored(1, p + 700, 792) && stored(2, p + 1492, 8),
	       "parts of a group: the last bytes of the last part are stored last");
	TAP_OK(!write_to(m, p, 700, 696, true) && stores->n == 2 && stored(0, p, 696) &&
		       stored(1, p + 696, 4),
	       "a last part of one word is stored at once");
}

static void test_others(struct xd_mover *m)
{
	TAP_OK(!write_to(m, target, 4000, 0, false) && stores->n == 1 && stored(0, target, 4000),
	       "bytes that do not end a message are stored by one write");
	TAP_OK(!write_to(m, target, 2000, 700, false) && stores->n == 2,
	       "so is each part of a group");
}

static void test_faults(struct xd_mover *m)
{
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	struct xt_mem_io *io[2] = { io_new(m, 0, XT_MEM_WRITE, 64),
				    io_new(m, 0, XT_MEM_WRITE, 64) };

	munmap(p + PAGE, PAGE);
	io[0]->last = io[1]->last = true;
	submit(io[0], p + PAGE - 56, false);
	submit(io[1], p + PAGE + 64, false);
	TAP_OK(finishes(0, io[0]) && io[0]->err == -EFAULT, "the last word is not mapped: -EFAULT");
	TAP_OK(finishes(0, io[1]) && io[1]->err == -EFAULT, "nothing is mapped: -EFAULT");
	xd_mover_io_free(io[0]);
	xd_mover_io_free(io[1]);
	munmap(p, PAGE);
}

/* ---- a thread polls the last word -------------------------------------------------------- */

/* Message number n consists of words with n in both halves. */
static struct {
	uint64_t *words;
	uint32_t count; /* words in a message */
	bool stop;	/* atomic */
	uint64_t polled, late, torn;
} polling;

/* Other words must not be older than the last one. They may be newer: the mover does not wait. */
static void *poll_last_word(void *arg)
{
	while (!__atomic_load_n(&polling.stop, __ATOMIC_RELAXED)) {
		uint64_t n = __atomic_load_n(&polling.words[polling.count - 1], __ATOMIC_ACQUIRE);

		polling.polled++;
		polling.torn += n >> 32 != (uint32_t)n;
		for (uint32_t i = 0; i < polling.count; i++)
			polling.late += (uint32_t)__atomic_load_n(&polling.words[i],
								  __ATOMIC_RELAXED) < (uint32_t)n;
	}
	return NULL;
}

/* Writes under way at a time */
#define FLIGHT 32

static void write_message(struct xd_mover *m, struct xt_mem_io **io, uint64_t n, uint32_t len)
{
	if (*io) {
		finishes(0, *io);
		xd_mover_io_free(*io);
	}
	*io = io_new(m, 0, XT_MEM_WRITE, len);
	(*io)->last = true;
	for (uint32_t i = 0; i < len / sizeof(n); i++)
		((uint64_t *)(void *)(*io)->data)[i] = n << 32 | n;
	submit(*io, polling.words, false);
}

static void test_poller(struct xd_mover *m, uint32_t len, unsigned writes)
{
	struct xt_mem_io *io[FLIGHT] = { 0 };
	pthread_t thread;

	memset(target, 0, sizeof(target));
	memset(&polling, 0, sizeof(polling));
	polling.words = (void *)target;
	polling.count = len / sizeof(uint64_t);
	pthread_create(&thread, NULL, poll_last_word, NULL);
	for (uint64_t n = 1; n <= writes; n++)
		write_message(m, &io[n % FLIGHT], n, len);
	for (unsigned i = 0; i < FLIGHT; i++) {
		finishes(0, io[i]);
		xd_mover_io_free(io[i]);
	}
	__atomic_store_n(&polling.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	TAP_OK(!polling.late && !polling.torn,
	       "%u writes of %u bytes, last word polled %llu times: %llu words late, %llu torn",
	       writes, len, (unsigned long long)polling.polled, (unsigned long long)polling.late,
	       (unsigned long long)polling.torn);
}

int main(int argc, char **argv)
{
	unsigned writes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : WRITES;
	struct xd_mover *m;

	stores = mmap(NULL, sizeof(*stores), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	start();
	m = new_mover();
	test_tails(m);
	test_parts(m);
	test_others(m);
	test_faults(m);
	test_poller(m, 200, writes);
	test_poller(m, 1024, writes);
	test_poller(m, 4096, writes);
	xd_mover_put(m);
	stop();
	return tap_end();
}
