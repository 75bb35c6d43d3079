// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The order in which bytes arrive in memory of a program. Programs poll the last byte of a message,
 * so everything before it must be there already.
 *
 *     order [WRITES]    number of writes beside a thread that polls, for each length (300000)
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/transport/memory.h"
#include "selftests/lib/tap.h"

#define PAGE 4096u
#define PAGES 17u
#define LONGEST (PAGES * PAGE)

static const struct xt_mem_ops no_ops;

static struct xt_mem region(uint8_t *base, struct xt_mem_seg *seg)
{
	*seg = (struct xt_mem_seg){ .len = LONGEST, .ptr = base, .writable = true };
	return (struct xt_mem){ .ops = &no_ops, .length = LONGEST, .nseg = 1, .seg = seg };
}

static uint8_t *map(void)
{
	void *p = mmap(NULL, LONGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

/* ---- the last bytes are on a page that cannot be written ------------------------------------- */

/* For the handler of the fault: [dst, last_page) must be equal to src. */
static struct {
	uint8_t *dst, *src, *last_page;
	unsigned faults, early;
} expect;

static void on_fault(int sig)
{
	expect.faults++;
	expect.early += memcmp(expect.dst, expect.src, (size_t)(expect.last_page - expect.dst)) !=
			0;
	mprotect(expect.last_page, PAGE, PROT_READ | PROT_WRITE);
}

/*
 * Writes len bytes, the last `over` of them on the page. copy: from a region, as loopback does.
 * Returns true if all others were there before the first of them.
 */
static bool in_order(uint8_t *dst, uint8_t *src, unsigned len, unsigned over, bool copy)
{
	uint8_t *page = dst + LONGEST - PAGE;
	struct xt_mem_seg to_seg, from_seg;
	struct xt_mem to = region(dst, &to_seg), from = region(src, &from_seg);
	uint64_t off = LONGEST - PAGE + over - len;
	bool src_failed;
	int err;

	memset(dst + off, 0, len);
	expect.dst = dst + off;
	expect.src = src;
	expect.last_page = page;
	expect.faults = expect.early = 0;
	mprotect(page, PAGE, PROT_READ);
	if (copy)
		err = xt_mem_copy(NULL, &(struct xt_mem_at){ &to, off },
				  &(struct xt_mem_at){ &from, 0 }, len, &src_failed);
	else
		err = xt_mem_write(NULL, &to, off, src, len);
	return !err && expect.faults == 1 && !expect.early && !memcmp(dst + off, src, len);
}

static void test_tail(bool copy)
{
	struct sigaction action = { .sa_handler = on_fault }, before;
	uint8_t *dst = map(), *src = map();
	unsigned wrong = 0, tried = 0, first = 0;

	for (unsigned i = 0; i < LONGEST; i++)
		src[i] = (uint8_t)(1 + i % 255);
	sigaction(SIGSEGV, &action, &before);
	for (unsigned len = 1; len <= LONGEST - PAGE; len += 1 + len / 9) {
		for (unsigned over = 1; over <= 8 && over <= len; over++, tried++) {
			if (in_order(dst, src, len, over, copy))
				continue;
			first = first ? first : len;
			wrong++;
		}
	}
	sigaction(SIGSEGV, &before, NULL);
	TAP_OK(!wrong,
	       "%s: the last 1 to 8 bytes are stored last, %u cases (%u wrong, first length %u)",
	       copy ? "copy between regions" : "write", tried, wrong, first);
	munmap(dst, LONGEST);
	munmap(src, LONGEST);
}

/* ---- a thread polls the last word ------------------------------------------------------------ */

/* Message number n consists of words with the value n. */
static struct {
	uint64_t *words;
	uint32_t count; /* words in a message */
	bool stop;	/* atomic */
	uint64_t polled, wrong;
} poll;

/* Other words must not be older than the last one. They may be newer: the writer does not wait. */
static void *poll_last_word(void *arg)
{
	while (!__atomic_load_n(&poll.stop, __ATOMIC_RELAXED)) {
		uint64_t n = __atomic_load_n(&poll.words[poll.count - 1], __ATOMIC_ACQUIRE);

		poll.polled++;
		for (uint32_t i = 0; i < poll.count; i++)
			poll.wrong += __atomic_load_n(&poll.words[i], __ATOMIC_RELAXED) < n;
	}
	return NULL;
}

static void test_poller(uint32_t len, unsigned writes)
{
	uint64_t *src = (void *)map();
	struct xt_mem_seg seg;
	struct xt_mem mem;
	pthread_t thread;

	poll.words = (void *)map();
	poll.count = len / sizeof(uint64_t);
	poll.stop = false;
	poll.polled = poll.wrong = 0;
	mem = region((uint8_t *)poll.words, &seg);
	pthread_create(&thread, NULL, poll_last_word, NULL);
	for (uint64_t n = 1; n <= writes; n++) {
		for (uint32_t i = 0; i < poll.count; i++)
			src[i] = n;
		xt_mem_write(NULL, &mem, 0, src, len);
	}
	__atomic_store_n(&poll.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	TAP_OK(!poll.wrong,
	       "%u writes of %u bytes, last word polled %llu times: %llu words were late", writes,
	       len, (unsigned long long)poll.polled, (unsigned long long)poll.wrong);
	munmap(src, LONGEST);
	munmap(poll.words, LONGEST);
}

int main(int argc, char **argv)
{
	unsigned writes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 300000;

	test_tail(false);
	test_tail(true);
	test_poller(200, writes);
	test_poller(1024, writes);
	test_poller(4096, writes);
	return tap_end();
}
