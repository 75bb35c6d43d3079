/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tests of rdma_memory: operations of programs on registered memory and on queues. */
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

/* ---- several regions on the same memory ------------------------ */

/* Regions on the same memory: deregistering one must not affect the others. */
static bool test_overlap(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	const size_t at[3] = { 0, 300000, 0 }, len[3] = { MIB, 400000, MIB };
	struct ibv_mr *mr[3];
	bool ok = !!p;

	for (int i = 0; i < 3; i++)
		if (!(mr[i] = reg(o, p + at[i], len[i], EP_ACCESS)))
			return false;
	for (int i = 0; i < 3 && ok; i++) {
		for (int k = i; k < 3 && ok; k++)
			ok = check_access(o, mr[k], p + at[k], len[k]);
		ok = ok && dereg(o, mr[i]) &&
		     (has_pattern(p, MIB, 4, 0) || fail(o, "deregistering one changed the bytes"));
	}
	munmap(p, MIB);
	return ok;
}

struct registrar {
	struct ibv_pd *pd;
	uint8_t *p;
	unsigned int times;
	bool stop;
};

static void *register_repeatedly(void *arg)
{
	struct registrar *a = arg;
	struct ibv_mr *mr;

	while (!__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE)) {
		mr = ibv_reg_mr(a->pd, a->p, MIB, EP_ACCESS);
		if (!mr || ibv_dereg_mr(mr))
			break;
		__atomic_add_fetch(&a->times, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/*
 * The region of 100 bytes must work while a thread registers and deregisters a larger region around
 * it.
 */
static bool test_nested(struct owner *o)
{
	struct registrar a = { .pd = o->ep.pd, .p = map_anonymous(MIB) };
	uint8_t *p = a.p + 5 * PAGE + 10;
	struct ibv_mr *mr = reg(o, p, 100, EP_ACCESS);
	pthread_t thread;
	bool ok = mr && !pthread_create(&thread, NULL, register_repeatedly, &a);

	if (!ok)
		return false;
	/* on a busy machine, 100 accesses may be over before the thread has registered anything */
	for (int i = 0;
	     ok && i < 10000 && (i < 100 || !__atomic_load_n(&a.times, __ATOMIC_ACQUIRE)); i++)
		ok = check_access(o, mr, p, 100);
	__atomic_store_n(&a.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	ok = (a.times || fail(o, "the thread registered nothing")) && ok && dereg(o, mr);
	munmap(a.p, MIB);
	return ok;
}

static bool test_repeated(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	bool ok = !!p;

	for (int i = 0; i < 10 && ok; i++)
		ok = check_memory(o, "repeated", p + (i % 3) * 1000, MIB - 3000);
	munmap(p, MIB);
	return ok;
}

/* The step must end with a completion error: neither with success nor with a time-out. */
static bool expect_error(struct owner *o, const char *step, int result)
{
	return result > 0 || fail(o, "%s: %s, not a completion error", step, result_text(result));
}

/* Memory that the failed requests did not use must still work. */
static bool check_other_memory(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	bool ok = p && check_memory(o, "other memory", p, MIB);

	munmap(p, MIB);
	return ok;
}

/* ---- memory that changes while it is registered ------------------------ */

/* The file is truncated while it is registered: requests fail, and other memory is not affected. */
static bool test_truncated(struct owner *o)
{
	int fd = open_shm(EP_BUF_SIZE);
	uint8_t *p = mmap(NULL, EP_BUF_SIZE, RW, MAP_SHARED, fd, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : reg(o, p, EP_BUF_SIZE, EP_ACCESS);
	bool ok;

	if (!mr)
		return fail(o, "shm: %s", strerror(errno));
	ok = expect_tier(o, mr, "shared") && check_access(o, mr, p, EP_BUF_SIZE) &&
	     (!ftruncate(fd, PAGE) || fail(o, "ftruncate: %s", strerror(errno))) &&
	     expect_error(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, p, EP_BUF_SIZE)) &&
	     reconnect(o) &&
	     expect_error(o, "partner's READ", partner_rdma(o, EP_READ, mr, p, EP_BUF_SIZE)) &&
	     reconnect(o) &&
	     expect_error(o, "own WRITE", own_rdma(o, IBV_WR_RDMA_WRITE, mr, p, EP_BUF_SIZE)) &&
	     reconnect(o) &&
	     expect_error(o, "own READ", own_rdma(o, IBV_WR_RDMA_READ, mr, p, EP_BUF_SIZE)) &&
	     reconnect(o);
	ok = dereg(o, mr) && ok;
	munmap(p, EP_BUF_SIZE);
	close(fd);
	return ok && check_other_memory(o);
}

/* After munmap or punching, each request must complete, with or without an error. */
static bool completes(struct owner *o, const char *step, int result)
{
	if (result < 0)
		return fail(o, "%s: %s", step, result_text(result));
	return !result || reconnect(o);
}

/*
 * The program punches a hole into registered memory: the first request fails, and later ones are
 * executed by the mover, until the program fills the hole again. The engine of a direct context
 * gets new pages, as the program does.
 */
static bool test_punched(struct owner *o)
{
	int fd = memfd_create("punched", MFD_CLOEXEC), err = ftruncate(fd, EP_BUF_SIZE);
	uint8_t *p = mmap(NULL, EP_BUF_SIZE, RW, MAP_SHARED, fd, 0);
	struct ibv_mr *mr = err || p == MAP_FAILED ? NULL : reg(o, p, EP_BUF_SIZE, EP_ACCESS);
	bool ok;

	if (!mr)
		return fail(o, "memfd: %s", strerror(errno));
	ok = check_access(o, mr, p, EP_BUF_SIZE) &&
	     (!madvise(p, EP_BUF_SIZE, MADV_REMOVE) || fail(o, "madvise: %s", strerror(errno))) &&
	     (is_direct() ? completes(o, "partner's WRITE",
				      partner_rdma(o, EP_WRITE, mr, p, EP_BUF_SIZE))
			  : expect_error(o, "partner's WRITE",
					 partner_rdma(o, EP_WRITE, mr, p, EP_BUF_SIZE))) &&
	     reconnect(o) &&
	     completes(o, "partner's READ", partner_rdma(o, EP_READ, mr, p, EP_BUF_SIZE)) &&
	     completes(o, "own WRITE", own_rdma(o, IBV_WR_RDMA_WRITE, mr, p, EP_BUF_SIZE)) &&
	     completes(o, "own READ", own_rdma(o, IBV_WR_RDMA_READ, mr, p, EP_BUF_SIZE));
	memset(p, 0, EP_BUF_SIZE);
	ok = ok && check_access(o, mr, p, EP_BUF_SIZE);
	ok = dereg(o, mr) && ok;
	munmap(p, EP_BUF_SIZE);
	close(fd);
	return ok && check_other_memory(o);
}

static bool test_unmapped(struct owner *o, size_t at, size_t len)
{
	uint8_t *p = map_anonymous(MIB);
	struct ibv_mr *mr = reg(o, p + at, len, EP_ACCESS);

	if (!mr)
		return false;
	munmap(p, MIB);
	return completes(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, p + at, len)) &&
	       completes(o, "partner's READ", partner_rdma(o, EP_READ, mr, p + at, len)) &&
	       completes(o, "own READ", own_rdma(o, IBV_WR_RDMA_READ, mr, p + at, len)) &&
	       dereg(o, mr);
}

static bool map_again(void *p)
{
	return mmap(p, MIB, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p;
}

/* Another mapping replaces the memory of a region and is registered as well. */
static bool test_mapped_again(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	struct ibv_mr *old = reg(o, p, MIB, EP_ACCESS), *mr;
	bool ok;

	if (!old || !map_again(p) || !(mr = reg(o, p, MIB, EP_ACCESS)))
		return fail(o, "mapping: %s", strerror(errno));
	ok = check_access(o, mr, p, MIB) && dereg(o, old) && check_access(o, mr, p, MIB);
	ok = dereg(o, mr) && ok && (has_pattern(p, MIB, 4, 0) || fail(o, "the new pages changed"));
	munmap(p, MIB);
	return ok;
}

static bool test_dereg_replaced(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	struct ibv_mr *old = reg(o, p, MIB, EP_ACCESS);
	bool ok;

	if (!old || !map_again(p))
		return fail(o, "mapping: %s", strerror(errno));
	fill_pattern(p, MIB, 8, 0);
	ok = dereg(o, old) &&
	     (has_pattern(p, MIB, 8, 0) || fail(o, "deregistering changed a new mapping"));
	munmap(p, MIB);
	return ok;
}

static bool test_munmap(struct owner *o)
{
	return test_unmapped(o, 0, MIB) && test_unmapped(o, 100, 4000) &&
	       test_unmapped(o, 77, MIB - 100) && test_dereg_replaced(o) && test_mapped_again(o) &&
	       check_other_memory(o);
}

/*
 * The program discards memory of a region: it sees zeros. On a device that pins pages, the region
 * keeps the old ones, but they need not be compared.
 */
static bool test_discarded(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	struct ibv_mr *mr = reg(o, p, MIB, EP_ACCESS);
	bool ok;

	if (!mr)
		return false;
	ok = check_access(o, mr, p, MIB) &&
	     (!madvise(p, MIB, MADV_FREE) || fail(o, "MADV_FREE: %s", strerror(errno))) &&
	     (!madvise(p, MIB, MADV_DONTNEED) || fail(o, "MADV_DONTNEED: %s", strerror(errno))) &&
	     (all_bytes(p, MIB, 0) || fail(o, "MADV_DONTNEED left old bytes")) &&
	     expect_ok(o, "partner's READ", partner_rdma(o, EP_READ, mr, p, MIB)) &&
	     expect_ok(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, p, MIB)) &&
	     expect_ok(o, "own READ", own_rdma(o, IBV_WR_RDMA_READ, mr, p, MIB));
	ok = dereg(o, mr) && ok && check_memory(o, "discarded", p, MIB) &&
	     (!madvise(p, MIB, MADV_DONTNEED) || fail(o, "MADV_DONTNEED: %s", strerror(errno))) &&
	     (all_bytes(p, MIB, 0) || fail(o, "old bytes after deregistration"));
	munmap(p, MIB);
	return ok;
}

/* The region keeps its pages when the program moves them elsewhere. */
static bool test_moved(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB), *q = map_anonymous(MIB), *moved;
	struct ibv_mr *mr = reg(o, p, MIB, EP_ACCESS);
	bool ok;

	if (!mr)
		return false;
	if (is_direct())
		return dereg(o, mr) && skip(o, "a direct context accesses memory by its address");
	ok = check_access(o, mr, p, MIB);
	moved = mremap(p, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	if (moved != q)
		return fail(o, "mremap: %s", strerror(errno));
	fill_pattern(q, MIB, 7, 0);
	ok = ok && check_partner_read(o, mr, p, MIB, 7) &&
	     expect_ok(o, "fill", fill_partner(o, 8, MIB)) &&
	     expect_ok(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, p, MIB)) &&
	     (has_pattern(q, MIB, 8, 0) || fail(o, "partner's WRITE: wrong data"));
	ok = dereg(o, mr) && ok && (has_pattern(q, MIB, 8, 0) || fail(o, "the memory changed"));
	munmap(q, MIB);
	return ok;
}

/* realloc may move the memory or not; content and new memory must be correct in either case. */
static bool test_realloc(struct owner *o)
{
	uint8_t *p = malloc(MIB);
	struct ibv_mr *mr = reg(o, p, MIB, EP_ACCESS);
	bool ok;

	if (!mr)
		return false;
	fill_pattern(p, MIB, 6, 0);
	p = realloc(p, 8 * MIB);
	ok = (p && has_pattern(p, MIB, 6, 0)) || fail(o, "realloc lost bytes");
	if (ok)
		memset(p + MIB, 1, 7 * MIB);
	ok = dereg(o, mr) && ok && check_memory(o, "after realloc", p, EP_BUF_SIZE) &&
	     (all_bytes(p + EP_BUF_SIZE, EP_BUF_SIZE, 1) ||
	      fail(o, "bytes after the region changed"));
	free(p);
	return ok;
}

/*
 * The child process, in steps started by a byte on @in. Returns 0 if its private copy is always
 * correct.
 */
static int child_of_fork(uint8_t *p, int in, int out)
{
	char byte;

	if (!has_pattern(p, MIB, 20, 0))
		return 1;
	fill_pattern(p, MIB, 21, 0);
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		return 2;
	return has_pattern(p, MIB, 21, 0) ? 0 : 3;
}

static bool child_ended(struct owner *o, pid_t pid)
{
	int status = -1;

	return (waitpid(pid, &status, 0) == pid && status == 0) ||
	       fail(o, "the child's status is 0x%x", (unsigned int)status);
}

static bool fork_with_region(struct owner *o, struct ibv_mr *mr, uint8_t *p)
{
	int to[2], from[2];
	char byte;
	pid_t pid;
	bool ok;

	if (pipe(to) || pipe(from))
		return fail(o, "pipe: %s", strerror(errno));
	fill_pattern(p, MIB, 20, 0);
	pid = fork();
	if (!pid)
		_exit(child_of_fork(p, to[0], from[1]));
	close(from[1]);
	ok = (read(from[0], &byte, 1) == 1 && has_pattern(p, MIB, 20, 0)) ||
	     fail(o, "a write of the child changed the parent's memory");
	ok = ok && check_access(o, mr, p, MIB);
	close(to[0]);
	ok = (write(to[1], "", 1) == 1 || fail(o, "the child ended early")) && ok;
	ok = child_ended(o, pid) && ok;
	close(to[1]);
	close(from[0]);
	return ok && check_access(o, mr, p, MIB);
}

static bool test_fork(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	struct ibv_mr *mr = reg(o, p, MIB, EP_ACCESS);
	pid_t pid;
	bool ok;

	if (!mr)
		return false;
	ok = fork_with_region(o, mr, p);
	pid = ok ? fork() : 0;
	if (ok && !pid)
		exit(0); /* runs the exit handlers of libraries */
	ok = ok && child_ended(o, pid) && check_access(o, mr, p, MIB);
	ok = dereg(o, mr) && ok &&
	     (has_pattern(p, MIB, 4, 0) || fail(o, "deregistering changed the memory"));
	munmap(p, MIB);
	return ok;
}

/* ---- limits of messages and queues ------------------------ */

/*
 * Fills in SGEs whose lengths and addresses differ from the sender's. Returns the length of the
 * message.
 */
static uint32_t odd_sges(struct owner *o, struct ibv_sge *sge, uint32_t n)
{
	uint32_t left = n * SEND_SGE_LEN;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = i + 1 < n ? SEND_SGE_LEN - 1 : left;

		sge[i] = (struct ibv_sge){ (uintptr_t)o->ep.buf + i * 7001 + 3, len,
					   o->ep.mr->lkey };
		left -= len;
	}
	return n * SEND_SGE_LEN;
}

/*
 * The message consists of n parts of SEND_SGE_LEN bytes, taken from the pattern every SEND_STRIDE
 * bytes.
 */
static bool message_correct(const struct ibv_sge *sge, uint32_t n, uint32_t seed)
{
	uint8_t *message = malloc(n * SEND_SGE_LEN);
	size_t at = 0;
	bool ok = !!message;

	for (uint32_t i = 0; i < n && ok; i++) {
		memcpy(message + at, (void *)(uintptr_t)sge[i].addr, sge[i].length);
		at += sge[i].length;
	}
	for (uint32_t i = 0; i < n && ok; i++)
		ok = has_pattern(message + i * SEND_SGE_LEN, SEND_SGE_LEN, seed,
				 (size_t)i * SEND_STRIDE);
	free(message);
	return ok;
}

static bool too_many_sges(struct owner *o, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = EP_SGE + 1 };
	struct ibv_recv_wr rr = { .sg_list = sge, .num_sge = EP_SGE + 1 }, *bad_rr = NULL;
	struct ibv_send_wr *bad_wr = NULL;
	int send = ibv_post_send(o->ep.qp, &wr, &bad_wr);
	int recv = ibv_post_recv(o->ep.qp, &rr, &bad_rr);

	return (send == EINVAL && bad_wr == &wr && recv == EINVAL && bad_rr == &rr) ||
	       fail(o, "%d SGEs: ibv_post_send returns %d, ibv_post_recv %d", EP_SGE + 1, send,
		    recv);
}

static bool test_max_sge(struct owner *o)
{
	struct ibv_sge sge[EP_SGE + 1] = { 0 };
	struct ibv_recv_wr rr = { .wr_id = 5, .sg_list = sge, .num_sge = EP_SGE }, *bad_rr;
	uint32_t len = odd_sges(o, sge, EP_SGE);
	struct ibv_wc wc;

	if (!expect_ok(o, "fill", fill_partner(o, 61, MIB)) ||
	    !expect_ok(o, "post a receive", -ibv_post_recv(o->ep.qp, &rr, &bad_rr)) ||
	    !expect_ok(o, "partner's SEND",
		       ep_call(&o->ep, &(struct ep_request){ .op = EP_SEND, .len = EP_SGE })) ||
	    !expect_ok(o, "receive", ep_completion(&o->ep, &wc)))
		return false;
	if (wc.wr_id != 5 || wc.byte_len != len || !message_correct(sge, EP_SGE, 61))
		return fail(o, "wrong message (%u bytes)", wc.byte_len);
	sge[EP_SGE] = sge[0];
	return too_many_sges(o, sge);
}

struct load { /* numbers of WRITEs posted and completed */
	uint64_t posted, done;
	unsigned int resized;
};

static bool post_load(struct owner *o, struct load *l)
{
	struct ibv_sge sge = { (uintptr_t)o->ep.buf, 8, o->ep.mr->lkey };
	struct ibv_send_wr *bad_wr, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { o->ep.peer.addr, o->ep.peer.rkey },
	};

	for (; l->posted - l->done < EP_DEPTH - 4; l->posted++) {
		wr.wr_id = l->posted;
		if (!expect_ok(o, "post under load", -ibv_post_send(o->ep.qp, &wr, &bad_wr)))
			return false;
	}
	return true;
}

static bool poll_load(struct owner *o, struct load *l)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(o->ep.cq, 1, &wc);

	if (!n)
		return true;
	if (n < 0 || wc.status || wc.wr_id != l->done)
		return fail(o, "completion %lu: %s", (unsigned long)l->done,
			    n < 0 ? "ibv_poll_cq failed" : ibv_wc_status_str(wc.status));
	l->done++;
	return true;
}

static bool resize(struct owner *o, struct load *l)
{
	static const int sizes[] = { 64, 4096, 128, 1000, 70 };
	int cqe = sizes[l->resized % 5], err = ibv_resize_cq(o->ep.cq, cqe);

	if (err || o->ep.cq->cqe < cqe)
		return fail(o, "ibv_resize_cq to %d: %s, %d entries", cqe, strerror(err),
			    o->ep.cq->cqe);
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
		return fail(o, "%lu completions are missing", (unsigned long)(l.posted - l.done));
	return ok && (ibv_resize_cq(o->ep.cq, 0) == EINVAL || fail(o, "resized to 0")) &&
	       expect_ok(o, "resize to the original size", -ibv_resize_cq(o->ep.cq, 4 * EP_DEPTH));
}

/* The QPs get an error, are reset and connected again; each round uses a new region. */
static bool test_reset(struct owner *o)
{
	uint8_t *p = map_anonymous(MIB);
	bool ok = !!p;

	for (int i = 0; i < 20 && ok; i++) {
		struct ibv_mr *mr = reg(o, p, 65536, EP_ACCESS);

		ok = mr && check_access(o, mr, p, 65536) &&
		     expect(o, "WRITE beyond the end", partner_rdma(o, EP_WRITE, mr, p, 65537),
			    IBV_WC_REM_ACCESS_ERR) &&
		     dereg(o, mr) && reconnect(o);
	}
	ok = ok &&
	     (all_bytes(p + 65536, MIB - 65536, 0) || fail(o, "bytes after the region changed"));
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

/*
 * Uses shared memory, which needs no adoption: copying 2 GiB of private memory twice would take
 * long.
 */
static bool test_max_message(struct owner *o)
{
	struct ibv_mr *mr;
	size_t stale;
	uint8_t *p;
	bool ok;

	if (free_gib() < 4)
		return skip(o, "needs 4 GiB of free memory");
	p = mmap(NULL, EP_HUGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mr = p == MAP_FAILED ? NULL : reg(o, p, EP_HUGE, EP_ACCESS);
	if (!mr)
		return fail(o, "2 GiB: %s", strerror(errno));
	ok = expect_ok(o, "partner's WRITE", partner_rdma(o, EP_WRITE_HUGE, mr, p, EP_HUGE));
	stale = wrong_stamps(p, EP_HUGE);
	ok = ok && (!stale || fail(o, "%zu pages have wrong data", stale));
	ok = dereg(o, mr) && ok;
	munmap(p, EP_HUGE);
	return ok;
}

/* ---- the tests ------------------------ */

const struct test memory_uses[] = {
	{ "overlap", test_overlap, "overlapping regions do not affect each other" },
	{ "nested", test_nested,
	  "a region works while a larger one around it is registered and deregistered" },
	{ "repeated", test_repeated, "the same memory can be registered repeatedly" },
	{ "munmap", test_munmap,
	  "requests to unmapped memory complete, and new mappings are not affected" },
	{ "discarded", test_discarded, "discarded memory of a region has zeros" },
	{ "moved", test_moved, "a region keeps its pages when the program moves them" },
	{ "realloc", test_realloc, "realloc of registered memory keeps its content" },
	{ "fork", test_fork, "regions and private data survive fork" },
	{ "max-sge", test_max_sge, "a SEND with 32 SGEs works, 33 are refused" },
	{ "resize-cq", test_resize_cq, "a CQ can be resized under load" },
	{ "reset", test_reset, "QPs work again after errors and RESET" },
	{ "max-message", test_max_message, "a message of 2^31 bytes arrives" },
	/* the last two: after the first, the mover accesses all memory of the program */
	{ "punched", test_punched, "requests to absent pages fail or are executed by the mover" },
	{ "truncated", test_truncated, "requests to truncated shared memory fail" },
	{ 0 },
};
