// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The floor of a reliable transport over AF_XDP in user space: processes that do what no such
 * transport can leave out, and nothing else.
 *
 *   floor NETNS-FILE IF NETNS-FILE IF SECONDS FRAME PAYLOAD [MEMORY]
 *   floor SECONDS
 *
 * A worker copies PAYLOAD bytes of a message of 64 KiB into each frame of FRAME bytes and adds a
 * CRC. The worker of the other side checks the CRC, copies the payload to memory, and acknowledges
 * what it found in its ring by a frame of 64 bytes. The frames under way fill half of the ring of
 * the receiver at most. A program polls for the ends of messages, as programs poll a CQ. Prints
 * "floor FRAME FRAMES-PER-SECOND" and the processor time of sender, receiver and program in ns a
 * frame, tab-separated. Messages are in MEMORY bytes on each side, 64 KiB by default.
 *
 * With FRAME 0, a program on each side exchanges words with its worker in shared memory, and the
 * workers exchange frames of 64 bytes. Prints half of the time of round trips in us, one a line,
 * sorted. With PAYLOAD 1 each word is a WRITE: the worker that receives it acknowledges it by a
 * further frame. A program yields until its word is acknowledged, and then waits for the next one
 * without yielding. The workers sleep, and are woken by programs and by frames.
 *
 * With SECONDS only, one worker carries the words between the two programs, as within one host.
 *
 * Otherwise all processes yield the processor if they have nothing to do.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <isa-l/crc.h>

#include "../lib/clock.h"
#include "daemon/base/slice.h"
#include "raw.h"
#include "times.h"

#define MESSAGE (64u << 10)
#define ACK_SIZE 64
#define CRC_SIZE 4
#define HEADERS (RAW_HEADER + 8) /* with the number of the frame */
#define IS_ACK (1ull << 63)	 /* in a word */
#define END_MS 10		 /* a sleeping worker notices the end this late */
#define RING 64 /* as in xdp_ceiling; larger ones are slower, as frames leave the cache */

enum role { SENDER, RECEIVER, PROGRAM, ROLES };

struct shared {
	struct raw_control control;
	/* a cache line each: word that one process writes and another one polls */
	struct {
		uint64_t word __attribute__((aligned(64)));
	} completed, to_worker[2], to_program[2], asleep[2], acked[2];
	uint64_t used[ROLES]; /* processor time */
};

static struct shared *shared;
static bool writes;    /* words are WRITEs: see above */
static int wake_fd[2]; /* of sleeping workers */

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static bool running(void)
{
	return raw_running(&shared->control);
}

/* ---- payload ------------------------------------------------------------------------------- */

struct stream {
	struct raw_side side;
	uint8_t *memory;
	uint32_t frame, payload;
	uint32_t memory_size;
	uint32_t at;	/* in memory */
	uint32_t crc;	/* of the frame that is being received */
	uint32_t taken; /* its bytes */
	uint64_t sent;	/* frames; receiver: received */
	uint64_t acked;
};

/* Copies the next bytes of the message into a chunk, and returns their number. */
static uint32_t copy_out(struct stream *s, uint8_t *to, uint32_t room, uint32_t left)
{
	uint32_t n = left < room ? left : room;

	memcpy(to, s->memory + s->at, n);
	s->at = (s->at + n) % s->memory_size;
	return n;
}

/* payload divides MESSAGE, so a frame never crosses the end of the area. */
static void build(void *arg, uint8_t *const *chunk)
{
	struct stream *s = arg;
	uint32_t headers = s->frame - s->payload - CRC_SIZE, first, rest = 0, crc;

	memcpy(chunk[0] + RAW_HEADER, &s->sent, sizeof(s->sent));
	s->sent++;
	first = copy_out(s, chunk[0] + headers, RAW_CHUNK - headers, s->payload);
	crc = crc32_gzip_refl(0, chunk[0] + RAW_HEADER, headers - RAW_HEADER + first);
	if (first < s->payload) {
		rest = copy_out(s, chunk[1], RAW_CHUNK, s->payload - first);
		crc = crc32_gzip_refl(crc, chunk[1], rest);
		memcpy(chunk[1] + rest, &crc, CRC_SIZE);
	} else if (headers + first + CRC_SIZE <= RAW_CHUNK) {
		memcpy(chunk[0] + headers + first, &crc, CRC_SIZE);
	}
}

/* A frame that begins: its header has the number of the frame. */
static void begin_frame(struct stream *s, const uint8_t *data)
{
	uint64_t number;

	memcpy(&number, data + RAW_HEADER, sizeof(number));
	if (number != s->sent++)
		raw_die("a frame was lost", EBADMSG);
	s->crc = 0;
}

static void take(void *arg, const uint8_t *data, uint32_t len, bool last)
{
	struct stream *s = arg;
	uint32_t skip = s->taken ? 0 : s->frame - s->payload - CRC_SIZE, crc;
	uint32_t from = s->taken ? 0 : RAW_HEADER, end = last ? len - CRC_SIZE : len;

	if (!s->taken)
		begin_frame(s, data);
	s->crc = crc32_gzip_refl(s->crc, data + from, end - from);
	memcpy(s->memory + s->at, data + skip, end - skip);
	s->at = (s->at + end - skip) % s->memory_size;
	s->taken += len;
	if (!last)
		return;
	memcpy(&crc, data + end, CRC_SIZE);
	if (crc != s->crc || s->taken != s->frame)
		raw_die("CRC of a frame", EBADMSG);
	s->taken = 0;
}

/* ---- a stream ------------------------------------------------------------------------------ */

static void take_ack(void *arg, const uint8_t *data, uint32_t len, bool last)
{
	struct stream *s = arg;

	if (len == ACK_SIZE)
		memcpy(&s->acked, data + RAW_HEADER, sizeof(s->acked));
}

static void build_ack(void *arg, uint8_t *const *chunk)
{
	struct stream *s = arg;

	memcpy(chunk[0] + RAW_HEADER, &s->sent, sizeof(s->sent));
}

/* Frames that may be sent now: those under way fill half of the receiver's ring at most. */
static uint32_t window(const struct stream *s)
{
	uint32_t parts = (s->frame + RAW_CHUNK - 1) / RAW_CHUNK, most = RING / 2 / parts;

	return most - (uint32_t)(s->sent - s->acked);
}

static void send_stream(struct stream *s)
{
	uint32_t n;

	while (running()) {
		raw_reap(&s->side);
		if (raw_receive(&s->side, take_ack, s))
			store(&shared->completed.word, s->acked * s->payload / MESSAGE);
		n = raw_send(&s->side, s->frame, window(s), build, s);
		if (n)
			raw_kick(&s->side);
		else
			sched_yield();
	}
}

/* Acknowledges each batch. */
static void receive_for(struct stream *s, uint64_t duration)
{
	uint64_t until = now_ns() + duration, got;

	while (now_ns() < until) {
		got = raw_receive(&s->side, take, s);
		raw_reap(&s->side);
		if (!got) {
			sched_yield();
			continue;
		}
		raw_send(&s->side, ACK_SIZE, 1, build_ack, s);
		raw_kick(&s->side);
	}
}

static void poll_completions(void)
{
	uint64_t last = 0, now;

	while (running()) {
		now = load(&shared->completed.word);
		if (now == last)
			sched_yield();
		last = now;
	}
}

static void print_rate(struct stream *s, double seconds)
{
	printf("floor\t%u\t%.0f", s->frame, (double)s->sent / seconds);
	for (int i = 0; i < ROLES; i++)
		printf("\t%.0f", (double)shared->used[i] / (double)s->sent);
	printf("\n");
}

/* ---- round trips ----------------------------------------------------------------------------- */

/* The last word and the last acknowledgement in a batch; 0: none */
struct words {
	uint64_t word, ack;
};

static void take_word(void *arg, const uint8_t *data, uint32_t len, bool last)
{
	struct words *got = arg;
	uint64_t word;

	memcpy(&word, data + RAW_HEADER, sizeof(word));
	if (word & IS_ACK)
		got->ack = word & ~IS_ACK;
	else
		got->word = word;
}

static void build_word(void *arg, uint8_t *const *chunk)
{
	memcpy(chunk[0] + RAW_HEADER, arg, sizeof(uint64_t));
}

/* Sleeps unless the program has stored another word than that one. */
static void sleep_until_woken(struct raw_side *side, unsigned me, uint64_t sent)
{
	struct pollfd fds[] = {
		{ .fd = side->fd, .events = POLLIN },
		{ .fd = wake_fd[me], .events = POLLIN },
	};
	uint64_t count;

	__atomic_store_n(&shared->asleep[me].word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&shared->to_worker[me].word, __ATOMIC_SEQ_CST) == sent)
		poll(fds, 2, END_MS);
	store(&shared->asleep[me].word, 0);
	if (fds[1].revents && read(wake_fd[me], &count, sizeof(count)) < 0)
		raw_die("eventfd", errno);
}

static void send_word(struct raw_side *side, uint64_t word)
{
	if (!raw_send(side, ACK_SIZE, 1, build_word, &word))
		raw_die("no room for a frame", ENOBUFS);
}

/* Returns true if it carried a word. */
static bool carry_words(struct raw_side *side, unsigned me, uint64_t *sent)
{
	uint64_t word;
	struct words got = { 0 };
	bool received, posted;

	raw_reap(side);
	received = raw_receive(side, take_word, &got);
	if (got.ack)
		store(&shared->acked[me].word, got.ack);
	if (got.word)
		store(&shared->to_program[me].word, got.word);
	if (got.word && writes)
		send_word(side, got.word | IS_ACK);
	word = load(&shared->to_worker[me].word);
	posted = word != *sent;
	if (posted)
		send_word(side, word);
	*sent = word;
	if (posted || (got.word && writes))
		raw_kick(side);
	return received || posted;
}

/* Carries words between the program of its side and the other worker. */
static void carry(struct raw_side *side, unsigned me)
{
	uint64_t sent = 0;

	if (writes)
		xd_set_slice(XD_SHORT_SLICE_NS); /* its wake-up preempts a spinning thread */
	while (running()) {
		if (carry_words(side, me, &sent))
			continue;
		if (writes)
			sleep_until_woken(side, me, sent);
		else
			sched_yield();
	}
}

/* Carries words between the two programs. */
static void carry_within_host(void)
{
	uint64_t carried[2] = { 0, 0 }, word;
	bool idle;

	while (running()) {
		idle = true;
		for (int i = 0; i < 2; i++) {
			word = load(&shared->to_worker[i].word);
			if (word == carried[i])
				continue;
			store(&shared->to_program[!i].word, word);
			carried[i] = word;
			idle = false;
		}
		if (idle)
			sched_yield();
	}
}

/* Returns false at the end. */
static bool wait_for(const uint64_t *word, uint64_t value, bool yields)
{
	while (load(word) != value) {
		if (!running())
			return false;
		if (yields)
			sched_yield();
	}
	return true;
}

/* Hands a word to the worker of program @me, and waits until a WRITE is acknowledged. */
static void post(unsigned me, uint64_t word)
{
	uint64_t one = 1;

	__atomic_store_n(&shared->to_worker[me].word, word, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&shared->asleep[me].word, 0, __ATOMIC_SEQ_CST) &&
	    write(wake_fd[me], &one, sizeof(one)) < 0)
		raw_die("eventfd", errno);
	if (writes)
		wait_for(&shared->acked[me].word, word, true);
}

static void reply(void)
{
	uint64_t n = 1;

	while (wait_for(&shared->to_program[1].word, n, !writes))
		post(1, n++);
}

static void ask(uint64_t duration)
{
	struct times times;
	uint64_t until = now_ns() + duration, begin, n = 1;

	if (!times_new(&times))
		raw_die("memory", ENOMEM);
	while (now_ns() < until) {
		begin = now_ns();
		post(0, n);
		if (!wait_for(&shared->to_program[0].word, n++, !writes))
			break;
		times_add(&times, now_ns() - begin);
	}
	raw_stop(&shared->control);
	times_print(&times);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Returns 0 in the new process, which ends with its parent. */
static pid_t new_process(void)
{
	pid_t child = fork();

	if (child < 0)
		raw_die("fork", errno);
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

static void wait_for_all(int n)
{
	int status;

	while (n--)
		if (wait(&status) < 0 || status)
			raw_die("a process failed", ECHILD);
}

static void open_stream(struct stream *s, char **where)
{
	s->memory = mmap(NULL, s->memory_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->memory == MAP_FAILED)
		raw_die("memory", errno);
	raw_open(&s->side, where[0], where[1], RING);
}

static void measure_stream(char **where, uint64_t duration, struct stream s)
{
	pid_t sender = new_process();
	uint64_t begin;

	open_stream(&s, where + (sender ? 0 : 2));
	raw_wait_for_peers(&shared->control, 2, sender);
	if (!sender) {
		send_stream(&s);
		shared->used[SENDER] = cpu_ns();
		_exit(0);
	}
	if (!new_process()) {
		poll_completions();
		shared->used[PROGRAM] = cpu_ns();
		_exit(0);
	}
	begin = now_ns();
	receive_for(&s, duration);
	duration = now_ns() - begin;
	raw_stop(&shared->control);
	shared->used[RECEIVER] = cpu_ns();
	wait_for_all(2);
	print_rate(&s, (double)duration / 1e9);
}

static void measure_round_trips(char **where, uint64_t duration)
{
	struct raw_side side;
	pid_t peer = new_process();

	raw_open(&side, where[peer ? 0 : 2], where[peer ? 1 : 3], RING);
	raw_wait_for_peers(&shared->control, 2, peer);
	if (!new_process()) {
		if (peer)
			ask(duration);
		else
			reply();
		exit(0);
	}
	carry(&side, peer ? 0 : 1);
	wait_for_all(peer ? 2 : 1);
	if (!peer)
		_exit(0);
}

static void measure_within_host(uint64_t duration)
{
	if (!new_process()) {
		reply();
		exit(0);
	}
	if (!new_process()) {
		ask(duration);
		exit(0);
	}
	carry_within_host();
	wait_for_all(2);
}

static void measure_hosts(char **argv, int argc, uint64_t duration)
{
	struct stream s = {
		.frame = (uint32_t)atoi(argv[6]),
		.payload = (uint32_t)atoi(argv[7]),
		.memory_size = argc > 8 ? (uint32_t)atoi(argv[8]) : MESSAGE,
	};

	if (!s.frame) {
		writes = s.payload;
		for (int i = 0; i < 2; i++)
			wake_fd[i] = eventfd(0, EFD_NONBLOCK);
		measure_round_trips(argv + 1, duration);
	} else if (!s.payload || MESSAGE % s.payload || s.frame < s.payload + HEADERS + CRC_SIZE) {
		raw_die(argv[7], EINVAL);
	} else if (!s.memory_size || s.memory_size % MESSAGE) {
		raw_die(argv[8], EINVAL);
	} else {
		measure_stream(argv + 1, duration, s);
	}
}

int main(int argc, char **argv)
{
	bool within = argc == 2;
	uint64_t duration;

	if (argc < 2 || (!within && argc < 8) || argc > 9 || atof(argv[within ? 1 : 5]) <= 0) {
		fprintf(stderr, "usage: floor [NETNS-FILE IF NETNS-FILE IF] SECONDS "
				"[FRAME PAYLOAD [MEMORY]]\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		raw_die("memory", errno);
	duration = (uint64_t)(1e9 * atof(argv[within ? 1 : 5]));
	if (within)
		measure_within_host(duration);
	else
		measure_hosts(argv, argc, duration);
	return 0;
}
