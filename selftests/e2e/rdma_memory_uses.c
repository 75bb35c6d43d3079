/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What programs do to registered memory and to queues */
#include "rdma_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- several regions on the same bytes ------------------------ */

/* Regions over the same bytes; as each goes, the others stay what they were. */
static bool test_overlap(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	const size_t at[3] = { 0, 300000, 0 }, len[3] = { MIB, 400000, MIB };
	struct ibv_mr *mr[3];
	bool ok = !!p;

	for (int i = 0; i < 3; i++)
		if (!(mr[i] = reg(o, p + at[i], len[i], SIDE_ACCESS)))
			return false;
	for (int i = 0; i < 3 && ok; i++) {
		for (int k = i; k < 3 && ok; k++)
			ok = four_ways(o, mr[k], p + at[k], len[k]);
		ok = ok && dereg(o, mr[i]) &&
		     (holds(p, MIB, 4, 0) || wrong(o, "deregistering one changed the bytes"));
	}
	munmap(p, MIB);
	return ok;
}

struct adopter {
	struct ibv_pd *pd;
	uint8_t *p;
	unsigned int times;
	bool stop;
};

static void *adopt_again(void *arg)
{
	struct adopter *a = arg;
	struct ibv_mr *mr;

	for (; !__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE); a->times++) {
		mr = ibv_reg_mr(a->pd, a->p, MIB, SIDE_ACCESS);
		if (!mr || ibv_dereg_mr(mr))
			break;
	}
	return NULL;
}

/* A hundred bytes are written from afar while a region of all around them comes and goes. */
static bool test_beneath(struct owner *o)
{
	struct adopter a = { .pd = o->s.pd, .p = anonymous(MIB) };
	uint8_t *p = a.p + 5 * PAGE + 10;
	struct ibv_mr *mr = reg(o, p, 100, SIDE_ACCESS);
	pthread_t thread;
	bool ok = mr && !pthread_create(&thread, NULL, adopt_again, &a);

	if (!ok)
		return false;
	for (int i = 0; i < 100 && ok; i++)
		ok = four_ways(o, mr, p, 100);
	__atomic_store_n(&a.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	ok = (a.times || wrong(o, "nothing came and went")) && ok && dereg(o, mr);
	munmap(a.p, MIB);
	return ok;
}

static bool test_again(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	bool ok = !!p;

	for (int i = 0; i < 10 && ok; i++)
		ok = usable(o, "the same again", p + (i % 3) * 1000, MIB - 3000);
	munmap(p, MIB);
	return ok;
}

/* A completion with an error it must be: neither success nor silence */
static bool bad(struct owner *o, const char *step, int result)
{
	return result > 0 ||
	       wrong(o, "%s: %s, not a completion with an error", step, result_text(result));
}

/* Memory that has nothing to do with what went wrong before */
static bool others_usable(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	bool ok = p && usable(o, "other memory", p, MIB);

	munmap(p, MIB);
	return ok;
}

/* ---- what programs do to registered memory ------------------------ */

/* The file loses its pages under the region: requests fail, and nobody else notices. */
static bool test_truncated(struct owner *o)
{
	int fd = open_shm(SIDE_BUF);
	uint8_t *p = mmap(NULL, SIDE_BUF, RW, MAP_SHARED, fd, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : reg(o, p, SIDE_BUF, SIDE_ACCESS);
	bool ok;

	if (!mr)
		return wrong(o, "shm: %s", strerror(errno));
	ok = four_ways(o, mr, p, SIDE_BUF) &&
	     (!ftruncate(fd, PAGE) || wrong(o, "ftruncate: %s", strerror(errno))) &&
	     bad(o, "partner's WRITE", remote(o, ASK_WRITE, mr, p, SIDE_BUF)) && reconnect(o) &&
	     bad(o, "partner's READ", remote(o, ASK_READ, mr, p, SIDE_BUF)) && reconnect(o) &&
	     bad(o, "own WRITE", local(o, IBV_WR_RDMA_WRITE, mr, p, SIDE_BUF)) && reconnect(o) &&
	     bad(o, "own READ", local(o, IBV_WR_RDMA_READ, mr, p, SIDE_BUF)) && reconnect(o);
	ok = dereg(o, mr) && ok;
	munmap(p, SIDE_BUF);
	close(fd);
	return ok && others_usable(o);
}

/* Whether the pages live on in the region or not: each request ends, one way or the other. */
static bool ends(struct owner *o, const char *step, int result)
{
	if (result < 0)
		return wrong(o, "%s: %s", step, result_text(result));
	return !result || reconnect(o);
}

static bool unmapped(struct owner *o, size_t at, size_t len)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr = reg(o, p + at, len, SIDE_ACCESS);

	if (!mr)
		return false;
	munmap(p, MIB);
	return ends(o, "partner's WRITE", remote(o, ASK_WRITE, mr, p + at, len)) &&
	       ends(o, "partner's READ", remote(o, ASK_READ, mr, p + at, len)) &&
	       ends(o, "own READ", local(o, IBV_WR_RDMA_READ, mr, p + at, len)) && dereg(o, mr);
}

static bool map_anew(void *p)
{
	return mmap(p, MIB, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p;
}

/* Something new at the same place, and a region of its own on it */
static bool mapped_anew(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *old = reg(o, p, MIB, SIDE_ACCESS), *mr;
	bool ok;

	if (!old || !map_anew(p) || !(mr = reg(o, p, MIB, SIDE_ACCESS)))
		return wrong(o, "mapping: %s", strerror(errno));
	ok = four_ways(o, mr, p, MIB) && dereg(o, old) && four_ways(o, mr, p, MIB);
	ok = dereg(o, mr) && ok && (holds(p, MIB, 4, 0) || wrong(o, "the new pages changed"));
	munmap(p, MIB);
	return ok;
}

static bool left_alone(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *old = reg(o, p, MIB, SIDE_ACCESS);
	bool ok;

	if (!old || !map_anew(p))
		return wrong(o, "mapping: %s", strerror(errno));
	pattern(p, MIB, 8, 0);
	ok = dereg(o, old) &&
	     (holds(p, MIB, 8, 0) || wrong(o, "deregistering changed a new mapping"));
	munmap(p, MIB);
	return ok;
}

static bool test_munmap(struct owner *o)
{
	return unmapped(o, 0, MIB) && unmapped(o, 100, 4000) && unmapped(o, 77, MIB - 100) &&
	       left_alone(o) && mapped_anew(o) && others_usable(o);
}

/* It may move or not; the program's bytes and the memory behind them must be there. */
static bool test_grown(struct owner *o)
{
	uint8_t *p = malloc(MIB);
	struct ibv_mr *mr = reg(o, p, MIB, SIDE_ACCESS);
	bool ok;

	if (!mr)
		return false;
	pattern(p, MIB, 6, 0);
	p = realloc(p, 8 * MIB);
	ok = (p && holds(p, MIB, 6, 0)) || wrong(o, "realloc lost bytes");
	if (ok)
		memset(p + MIB, 1, 7 * MIB);
	ok = dereg(o, mr) && ok && usable(o, "after realloc", p, SIDE_BUF) &&
	     (all(p + SIDE_BUF, SIDE_BUF, 1) || wrong(o, "bytes behind the region changed"));
	free(p);
	return ok;
}

/* The child, told by a byte from `in` each time: 0 where its own copy is what it should be */
static int child_of_fork(uint8_t *p, int in, int out)
{
	char byte;

	if (!holds(p, MIB, 20, 0))
		return 1;
	pattern(p, MIB, 21, 0);
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		return 2;
	return holds(p, MIB, 21, 0) ? 0 : 3;
}

static bool child_ended(struct owner *o, pid_t pid)
{
	int status = -1;

	return (waitpid(pid, &status, 0) == pid && status == 0) ||
	       wrong(o, "the child's status is 0x%x", (unsigned int)status);
}

static bool fork_with_region(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	int to[2], from[2];
	char byte;
	pid_t pid;
	bool ok;

	if (pipe(to) || pipe(from))
		return wrong(o, "pipe: %s", strerror(errno));
	pattern(p, MIB, 20, 0);
	pid = fork();
	if (!pid)
		_exit(child_of_fork(p, to[0], from[1]));
	close(from[1]);
	ok = (read(from[0], &byte, 1) == 1 && holds(p, MIB, 20, 0)) ||
	     wrong(o, "what the child wrote is in the parent");
	ok = ok && four_ways(o, mr, p, MIB);
	close(to[0]);
	ok = (write(to[1], "", 1) == 1 || wrong(o, "the child has gone")) && ok;
	ok = child_ended(o, pid) && ok;
	close(to[1]);
	close(from[0]);
	return ok && four_ways(o, mr, p, MIB);
}

static bool test_fork(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	struct ibv_mr *mr = reg(o, p, MIB, SIDE_ACCESS);
	pid_t pid;
	bool ok;

	if (!mr)
		return false;
	ok = fork_with_region(o, mr, p);
	pid = ok ? fork() : 0;
	if (ok && !pid)
		exit(0); /* with what libraries do at exit */
	ok = ok && child_ended(o, pid) && four_ways(o, mr, p, MIB);
	ok = dereg(o, mr) && ok && (holds(p, MIB, 4, 0) || wrong(o, "deregistering changed it"));
	munmap(p, MIB);
	return ok;
}

/* ---- limits of messages and queues ------------------------ */

/* Lengths and places that share nothing with the sender's */
static uint32_t odd_pieces(struct owner *o, struct ibv_sge *sge, uint32_t n)
{
	uint32_t left = n * SEND_PIECE;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = i + 1 < n ? SEND_PIECE - 1 : left;

		sge[i] = (struct ibv_sge){ (uintptr_t)o->s.buf + i * 7001 + 3, len, o->s.mr->lkey };
		left -= len;
	}
	return n * SEND_PIECE;
}

/* The message is n pieces of the pattern, SEND_STRIDE apart. */
static bool message_right(const struct ibv_sge *sge, uint32_t n, uint32_t seed)
{
	uint8_t *message = malloc(n * SEND_PIECE);
	size_t at = 0;
	bool ok = !!message;

	for (uint32_t i = 0; i < n && ok; i++) {
		memcpy(message + at, (void *)(uintptr_t)sge[i].addr, sge[i].length);
		at += sge[i].length;
	}
	for (uint32_t i = 0; i < n && ok; i++)
		ok = holds(message + i * SEND_PIECE, SEND_PIECE, seed, (size_t)i * SEND_STRIDE);
	free(message);
	return ok;
}

static bool too_many_pieces(struct owner *o, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = SIDE_SGE + 1 };
	struct ibv_recv_wr rr = { .sg_list = sge, .num_sge = SIDE_SGE + 1 }, *bad_rr = NULL;
	struct ibv_send_wr *bad_wr = NULL;
	int send = ibv_post_send(o->s.qp, &wr, &bad_wr);
	int recv = ibv_post_recv(o->s.qp, &rr, &bad_rr);

	return (send == EINVAL && bad_wr == &wr && recv == EINVAL && bad_rr == &rr) ||
	       wrong(o, "%d pieces: send gives %d, receive %d", SIDE_SGE + 1, send, recv);
}

static bool test_pieces(struct owner *o)
{
	struct ibv_sge sge[SIDE_SGE + 1] = { 0 };
	struct ibv_recv_wr rr = { .wr_id = 5, .sg_list = sge, .num_sge = SIDE_SGE }, *bad_rr;
	uint32_t len = odd_pieces(o, sge, SIDE_SGE);
	struct ibv_wc wc;

	if (!good(o, "fill", fill(o, 61, MIB)) ||
	    !good(o, "post a receive", -ibv_post_recv(o->s.qp, &rr, &bad_rr)) ||
	    !good(o, "partner's SEND",
		  ask(&o->s, &(struct side_request){ .what = ASK_SEND, .len = SIDE_SGE })) ||
	    !good(o, "receive", side_completion(&o->s, &wc)))
		return false;
	if (wc.wr_id != 5 || wc.byte_len != len || !message_right(sge, SIDE_SGE, 61))
		return wrong(o, "another message arrived (%u bytes)", wc.byte_len);
	sge[SIDE_SGE] = sge[0];
	return too_many_pieces(o, sge);
}

struct load { /* WRITEs under way, numbered */
	uint64_t posted, done;
	unsigned int resized;
};

static bool post_load(struct owner *o, struct load *l)
{
	struct ibv_sge sge = { (uintptr_t)o->s.buf, 8, o->s.mr->lkey };
	struct ibv_send_wr *bad_wr, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { o->s.peer.addr, o->s.peer.rkey },
	};

	for (; l->posted - l->done < SIDE_DEPTH - 4; l->posted++) {
		wr.wr_id = l->posted;
		if (!good(o, "post under load", -ibv_post_send(o->s.qp, &wr, &bad_wr)))
			return false;
	}
	return true;
}

static bool poll_load(struct owner *o, struct load *l)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(o->s.cq, 1, &wc);

	if (!n)
		return true;
	if (n < 0 || wc.status || wc.wr_id != l->done)
		return wrong(o, "completion %lu: %s", (unsigned long)l->done,
			     n < 0 ? "ibv_poll_cq failed" : ibv_wc_status_str(wc.status));
	l->done++;
	return true;
}

static bool resize(struct owner *o, struct load *l)
{
	static const int sizes[] = { 64, 4096, 128, 1000, 70 };
	int cqe = sizes[l->resized % 5], err = ibv_resize_cq(o->s.cq, cqe);

	if (err || o->s.cq->cqe < cqe)
		return wrong(o, "ibv_resize_cq to %d: %s, %d entries", cqe, strerror(err),
			     o->s.cq->cqe);
	l->resized++;
	return true;
}

static bool test_resize_cq(struct owner *o)
{
	struct load l = { 0 };
	double end = now() + 1;
	bool ok = true;

	for (unsigned int i = 0; ok && (now() < end || l.resized < 10); i++)
		ok = post_load(o, &l) && (i % 97 || resize(o, &l)) && poll_load(o, &l);
	for (end = now() + 10; ok && l.done < l.posted && now() < end;)
		ok = poll_load(o, &l);
	if (ok && l.done < l.posted)
		return wrong(o, "%lu completions are missing", (unsigned long)(l.posted - l.done));
	return ok && (ibv_resize_cq(o->s.cq, 0) == EINVAL || wrong(o, "resized to nothing")) &&
	       good(o, "back to what it was", -ibv_resize_cq(o->s.cq, 4 * SIDE_DEPTH));
}

/* An error, a reset, and the same queue pairs again; keys are new each time. */
static bool test_reset(struct owner *o)
{
	uint8_t *p = anonymous(MIB);
	bool ok = !!p;

	for (int i = 0; i < 20 && ok; i++) {
		struct ibv_mr *mr = reg(o, p, 65536, SIDE_ACCESS);

		ok = mr && four_ways(o, mr, p, 65536) &&
		     expect(o, "a byte too much", remote(o, ASK_WRITE, mr, p, 65537),
			    IBV_WC_REM_ACCESS_ERR) &&
		     dereg(o, mr) && reconnect(o);
	}
	ok = ok && (all(p + 65536, MIB - 65536, 0) || wrong(o, "bytes behind the region changed"));
	munmap(p, MIB);
	return ok;
}

static size_t free_gib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %lu", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib >> 20;
}

/* Shared memory, which is used where it is: two private copies of 2 GiB would take long to make. */
static bool test_longest(struct owner *o)
{
	struct ibv_mr *mr;
	size_t stale;
	uint8_t *p;
	bool ok;

	if (free_gib() < 4)
		return skip(o, "needs 4 GiB of free memory");
	p = mmap(NULL, SIDE_HUGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mr = p == MAP_FAILED ? NULL : reg(o, p, SIDE_HUGE, SIDE_ACCESS);
	if (!mr)
		return wrong(o, "2 GiB: %s", strerror(errno));
	ok = good(o, "partner's WRITE", remote(o, ASK_HUGE, mr, p, SIDE_HUGE));
	stale = wrong_stamps(p, SIDE_HUGE);
	ok = ok && (!stale || wrong(o, "%zu pages are wrong", stale));
	ok = dereg(o, mr) && ok;
	munmap(p, SIDE_HUGE);
	return ok;
}

/* ---- the list ------------------------ */

const struct test memory_uses[] = {
	{ "overlap", test_overlap, "regions that overlap" },
	{ "beneath", test_beneath, "a region within another that comes and goes" },
	{ "again", test_again, "the same memory again and again" },
	{ "truncated", test_truncated, "shared memory truncated under its region" },
	{ "munmap", test_munmap, "memory unmapped under its region" },
	{ "grown", test_grown, "memory that realloc grows under its region" },
	{ "fork", test_fork, "fork while a region lives" },
	{ "pieces", test_pieces, "64 KiB in 32 pieces; 33 are refused" },
	{ "resize-cq", test_resize_cq, "a completion queue resized under load" },
	{ "reset", test_reset, "queue pairs reset and used again" },
	{ "longest", test_longest, "one message of 2^31 bytes" },
	{ 0 },
};
