// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The order in which bytes arrive in memory of a program. Programs poll the last byte of a message,
 * so everything before it must be there already.
 *
 *     order [WRITES]    number of writes beside a thread that polls, for each length (300000)
 */
#include <endian.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/transport/memory/guard.h"
#include "slow.h"

#define PAGE 4096u
#define PAGES 17u
#define LONGEST (PAGES * PAGE)
#ifdef __SANITIZE_THREAD__ /* copies are slow then */
#define WRITES 20000u
#else
#define WRITES 300000u
#endif

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

/* ---- messages -------------------------------------------------------------------------------- */

/* A message whose last bytes are stored in mapped memory */
struct message {
	const char *name;
	uint8_t opcode;
	uint64_t from; /* where its bytes are: SLOW or FAST */
	bool split;    /* the first half is at SLOW, the rest at FAST */
	bool loopback;
};

/* Mapped bytes that messages are sent from, behind those that they are stored in */
#define SOURCE (FAST + SIZE / 2)

static void post_message(const struct message *m, uint64_t to, uint32_t len)
{
	bool read = m->opcode == XR_WR_RDMA_READ;
	struct xr_send_wqe *w;
	struct xr_sge *sge;

	if (m->opcode == XR_WR_SEND)
		h_post_recv(&b, 1, to, len, fast_key);
	w = post(&a, 2, m->opcode, read ? to : m->from, read ? m->from : to, len);
	if (!m->split)
		return;
	sge = (struct xr_sge *)(w + 1);
	sge[0].length = len / 2;
	sge[1] = (struct xr_sge){ SOURCE + len / 2, len - len / 2, fast_key };
	w->num_sge = 2;
}

/* Sends a message whose last bytes, `over` of them, are on a page that cannot be written. */
static bool arrives_in_order(const struct message *m, uint8_t *dst, unsigned len, unsigned over)
{
	uint64_t off = LONGEST - PAGE + over - len;
	bool right;

	begin(m->loopback);
	fast_mr.seg.ptr = dst;
	for (unsigned i = 0; i < SIZE / 2; i++)
		dst[SIZE / 2 + i] = slow[i] = (uint8_t)(1 + i % 255);
	memset(dst, 0, LONGEST - PAGE);
	expect.dst = dst + off;
	expect.src = slow;
	expect.last_page = dst + LONGEST - PAGE;
	expect.faults = expect.early = 0;
	mprotect(expect.last_page, PAGE, PROT_READ);
	post_message(m, FAST + off, len);
	ring(&a);
	finish_all();
	right = expect.faults == 1 && !expect.early && !memcmp(dst + off, slow, len) &&
		(m->opcode != XR_WR_SEND || completes(1, IBV_WC_SUCCESS)) &&
		completes(2, IBV_WC_SUCCESS);
	h_destroy(&a);
	h_destroy(&b);
	h_free(h);
	return right && !allocated;
}

static void test_message(const struct message *m)
{
	static const unsigned lengths[] = { 9, 64, 700, 1024, 1500, 5000, 60000 };
	struct sigaction action = { .sa_handler = on_fault }, before;
	uint8_t *dst = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned wrong = 0;

	if (dst == MAP_FAILED)
		abort();
	sigaction(SIGSEGV, &action, &before);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (unsigned over = 1; over <= XT_GUARD_TAIL; over += 7)
			wrong += !arrives_in_order(m, dst, lengths[i], over);
	sigaction(SIGSEGV, &before, NULL);
	TAP_OK(!wrong, "%s, %s: the last bytes are stored last (%u wrong)", m->name,
	       m->loopback ? "over loopback" : "on the wire", wrong);
	munmap(dst, SIZE);
}

static void test_messages(void)
{
	static struct message messages[] = {
		{ "WRITE from mapped memory", XR_WR_RDMA_WRITE, SOURCE, false, false },
		{ "WRITE from other memory", XR_WR_RDMA_WRITE, SLOW, false, false },
		{ "WRITE from both", XR_WR_RDMA_WRITE, SLOW, true, false },
		{ "READ from mapped memory", XR_WR_RDMA_READ, SOURCE, false, false },
		{ "READ from other memory", XR_WR_RDMA_READ, SLOW, false, false },
		{ "SEND from mapped memory", XR_WR_SEND, SOURCE, false, false },
		{ "SEND from other memory", XR_WR_SEND, SLOW, false, false },
		{ "SEND from both", XR_WR_SEND, SLOW, true, false },
	};

	for (unsigned i = 0; i < 2 * sizeof(messages) / sizeof(*messages); i++) {
		messages[i / 2].loopback = i & 1;
		test_message(&messages[i / 2]);
	}
}

/* ---- memory whose pages the program freed ---------------------------------------------------- */

static void on_absent(int sig, siginfo_t *info, void *context)
{
	xt_guard_fault(info->si_addr);
	/* the access was not guarded: the daemon would end */
	_exit(1);
}

/* Maps a file whose pages are gone. */
static uint8_t *map_absent(void)
{
	int fd = memfd_create("absent", MFD_CLOEXEC);
	void *p;

	if (fd < 0 || ftruncate(fd, SIZE))
		abort();
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || ftruncate(fd, 0))
		abort();
	close(fd);
	return p;
}

/* A message between memory that is absent and memory that is not mapped */
static void test_absent(const char *name, uint8_t opcode, uint64_t from, uint32_t status)
{
	struct sigaction action = { .sa_sigaction = on_absent,
				    .sa_flags = SA_SIGINFO | SA_NODEFER };
	uint64_t to = from == SLOW ? FAST : SLOW;
	bool read = opcode == XR_WR_RDMA_READ;
	uint8_t *absent = map_absent();
	struct sigaction before;

	sigaction(SIGBUS, &action, &before);
	begin(true);
	fast_mr.mem.ops = &no_ops;
	fast_mr.seg.ptr = absent;
	if (opcode == XR_WR_SEND)
		h_post_recv(&b, 1, to, 700, to == SLOW ? slow_key : fast_key);
	post(&a, 2, opcode, read ? to : from, read ? from : to, 700);
	ring(&a);
	finish_all();
	TAP_OK(completes(2, status), "%s", name);
	end(name);
	sigaction(SIGBUS, &before, NULL);
	munmap(absent, SIZE);
}

static void test_all_absent(void)
{
	test_absent("WRITE over loopback to an absent page", XR_WR_RDMA_WRITE, SLOW,
		    IBV_WC_REM_OP_ERR);
	test_absent("READ over loopback to an absent page", XR_WR_RDMA_READ, SLOW,
		    IBV_WC_LOC_PROT_ERR);
	test_absent("WRITE over loopback from an absent page", XR_WR_RDMA_WRITE, FAST,
		    IBV_WC_LOC_PROT_ERR);
	test_absent("READ over loopback from an absent page", XR_WR_RDMA_READ, FAST,
		    IBV_WC_REM_OP_ERR);
	test_absent("SEND over loopback from an absent page", XR_WR_SEND, FAST,
		    IBV_WC_LOC_PROT_ERR);
}

/* ---- a thread polls the last word ------------------------------------------------------------ */

/*
 * Message number n consists of words with the value n, the most significant byte first: a word of
 * which some bytes are stored is then newer. memmove() of AddressSanitizer stores single bytes.
 */
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
		uint64_t n =
			be64toh(__atomic_load_n(&poll.words[poll.count - 1], __ATOMIC_ACQUIRE));

		poll.polled++;
		for (uint32_t i = 0; i < poll.count; i++)
			poll.wrong += be64toh(__atomic_load_n(&poll.words[i], __ATOMIC_RELAXED)) <
				      n;
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
			src[i] = htobe64(n);
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
	unsigned writes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : WRITES;

	test_tail(false);
	test_tail(true);
	test_messages();
	test_all_absent();
	test_poller(200, writes);
	test_poller(1024, writes);
	test_poller(4096, writes);
	return tap_end();
}
