/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registers every kind of memory that a program may have, lets another program read and write it,
 * and does to it what programs do to memory that is registered. An ordinary ibverbs program: it
 * knows nothing of xroce and runs on any device.
 *
 *   rdma_memory [options]            owns the memory and decides; waits for its partner
 *   rdma_memory [options] HOST       the partner (rdma_side.h)
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -t NAME  run one test (may be repeated)  -p PORT  TCP port for set-up (18516)
 *   -l       list the tests
 *
 * Prints a line a test: "ok", "FAILED" or "skipped". Exits 0 when nothing failed.
 */
#include "rdma_memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- small things ------------------------ */

bool wrong(struct owner *o, const char *fmt, ...)
{
	va_list ap;

	if (!o->why[0]) {
		va_start(ap, fmt);
		vsnprintf(o->why, sizeof(o->why), fmt, ap);
		va_end(ap);
	}
	return false;
}

bool skip(struct owner *o, const char *why)
{
	o->skip = why;
	return true;
}

const char *result_text(int result)
{
	return result < 0 ? strerror(-result) : ibv_wc_status_str((enum ibv_wc_status)result);
}

/* The result that a step must have */
bool expect(struct owner *o, const char *step, int result, int wanted)
{
	return result == wanted ||
	       wrong(o, "%s: %s, not %s", step, result_text(result), result_text(wanted));
}

bool good(struct owner *o, const char *step, int result)
{
	return expect(o, step, result, 0);
}

struct ibv_mr *reg(struct owner *o, void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(o->s.pd, p, len, access);

	if (!mr)
		wrong(o, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

bool dereg(struct owner *o, struct ibv_mr *mr)
{
	int err = ibv_dereg_mr(mr);

	return !err || wrong(o, "ibv_dereg_mr: %s", strerror(err));
}

bool refused(struct owner *o, const char *what, void *p, size_t len, int access, int wanted)
{
	struct ibv_mr *mr;
	int err;

	errno = 0;
	mr = ibv_reg_mr(o->s.pd, p, len, access);
	err = errno;
	if (mr) {
		ibv_dereg_mr(mr);
		return wrong(o, "%s: registered", what);
	}
	return err == wanted || wrong(o, "%s: %s, not %s", what, strerror(err), strerror(wanted));
}

/* ---- what the partner does to a region, and what the region does to the partner --------- */

int fill(struct owner *o, uint32_t seed, size_t len)
{
	return ask(&o->s,
		   &(struct side_request){ .what = ASK_FILL, .len = (uint32_t)len, .seed = seed });
}

static int partner_holds(struct owner *o, uint32_t seed, size_t len)
{
	return ask(&o->s,
		   &(struct side_request){ .what = ASK_HOLDS, .len = (uint32_t)len, .seed = seed });
}

int remote(struct owner *o, uint32_t what, struct ibv_mr *mr, const void *p, size_t len)
{
	return ask(&o->s, &(struct side_request){ .what = what,
						  .len = (uint32_t)len,
						  .rkey = mr->rkey,
						  .addr = (uintptr_t)p });
}

int local(struct owner *o, enum ibv_wr_opcode opcode, struct ibv_mr *mr, const void *p, size_t len)
{
	struct ibv_sge sge = { (uintptr_t)p, (uint32_t)len, mr->lkey };

	return side_rdma(&o->s, opcode, &sge, o->s.peer.addr, o->s.peer.rkey);
}

static bool remote_write(struct owner *o, struct ibv_mr *mr, void *p, size_t len, uint32_t seed)
{
	return good(o, "fill", fill(o, seed, len)) &&
	       good(o, "partner's WRITE", remote(o, ASK_WRITE, mr, p, len)) &&
	       (holds(p, len, seed, 0) || wrong(o, "partner's WRITE: other bytes"));
}

bool remote_read(struct owner *o, struct ibv_mr *mr, const void *p, size_t len, uint32_t seed)
{
	return good(o, "partner's READ", remote(o, ASK_READ, mr, p, len)) &&
	       good(o, "bytes of partner's READ", partner_holds(o, seed, len));
}

bool local_write(struct owner *o, struct ibv_mr *mr, const void *p, size_t len, uint32_t seed)
{
	return good(o, "own WRITE", local(o, IBV_WR_RDMA_WRITE, mr, p, len)) &&
	       good(o, "bytes of own WRITE", partner_holds(o, seed, len));
}

static bool local_read(struct owner *o, struct ibv_mr *mr, void *p, size_t len, uint32_t seed)
{
	return good(o, "fill", fill(o, seed, len)) &&
	       good(o, "own READ", local(o, IBV_WR_RDMA_READ, mr, p, len)) &&
	       (holds(p, len, seed, 0) || wrong(o, "own READ: other bytes"));
}

bool four_ways(struct owner *o, struct ibv_mr *mr, void *p, size_t len)
{
	if (!remote_write(o, mr, p, len, 1))
		return false;
	pattern(p, len, 2, 0);
	if (!remote_read(o, mr, p, len, 2))
		return false;
	pattern(p, len, 3, 0);
	return local_write(o, mr, p, len, 3) && local_read(o, mr, p, len, 4);
}

bool usable(struct owner *o, const char *what, void *p, size_t len)
{
	struct ibv_mr *mr = reg(o, p, len, SIDE_ACCESS);

	if (!mr || !four_ways(o, mr, p, len) || !dereg(o, mr) ||
	    !(holds(p, len, 4, 0) || wrong(o, "deregistering changed it"))) {
		size_t n = strlen(o->why);

		snprintf(o->why + n, sizeof(o->why) - n, " (%s, %zu bytes)", what, len);
		return false;
	}
	return true;
}

bool reconnect(struct owner *o)
{
	return good(o, "connecting again", side_reconnect(&o->s));
}

/* ---- running them ------------------------ */

static const struct test *const lists[] = { memory_kinds, memory_uses, memory_special };
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static const struct test *find_test(const char *name)
{
	for (size_t i = 0; i < LISTS; i++)
		for (const struct test *t = lists[i]; t->name; t++)
			if (!strcmp(t->name, name))
				return t;
	return NULL;
}

static int list_tests(void)
{
	for (size_t i = 0; i < LISTS; i++)
		for (const struct test *t = lists[i]; t->name; t++)
			printf("%-16s %s\n", t->name, t->text);
	return 0;
}

static bool run_test(struct owner *o, const struct test *t)
{
	double start = now();
	bool ok;

	o->why[0] = '\0';
	o->skip = NULL;
	ok = t->run(o);
	if (o->skip && ok)
		printf("skipped %s: %s\n", t->name, o->skip);
	else
		printf("%s %s: %s (%.2f s)%s%s\n", ok ? "ok" : "FAILED", t->name, t->text,
		       now() - start, ok ? "" : ": ", o->why);
	fflush(stdout);
	return ok;
}

/* The first failure ends it: what comes behind would only say the same. */
static bool run_all(struct owner *o)
{
	for (size_t i = 0; i < LISTS; i++)
		for (const struct test *t = lists[i]; t->name; t++)
			if (!run_test(o, t))
				return false;
	return true;
}

static bool run_chosen(struct owner *o, const struct test *const *chosen, int n)
{
	for (int i = 0; i < n; i++)
		if (!run_test(o, chosen[i]))
			return false;
	return true;
}

static int usage(void)
{
	fprintf(stderr, "usage: rdma_memory [-d DEV] [-g GID-INDEX] [-p PORT] [-t TEST]... [HOST]\n"
			"       rdma_memory -l\n");
	return 2;
}

int main(int argc, char **argv)
{
	const struct test *chosen[64];
	int c, n = 0, gid_index = 1, port = 18516;
	const char *dev = NULL, *host;
	struct owner o = { 0 };
	bool ok;

	while ((c = getopt(argc, argv, "d:g:p:t:l")) != -1) {
		switch (c) {
		case 'd':
			dev = optarg;
			break;
		case 'g':
			gid_index = atoi(optarg);
			break;
		case 'p':
			port = atoi(optarg);
			break;
		case 'l':
			return list_tests();
		case 't':
			if (n == 64 || !(chosen[n++] = find_test(optarg)))
				return usage();
			break;
		default:
			return usage();
		}
	}
	host = argv[optind];
	if (!side_open(&o.s, dev, gid_index) || !side_meet(&o.s, host, port))
		return 1;
	if (host)
		ok = side_serve(&o.s);
	else
		ok = (n ? run_chosen(&o, chosen, n) : run_all(&o)) &&
		     !ask(&o.s, &(struct side_request){ .what = ASK_END });
	if (ok)
		side_close(&o.s);
	return ok ? 0 : 1;
}
