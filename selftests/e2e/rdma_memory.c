/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registers every kind of memory that a program can have, has another program read and write it,
 * and unmaps, truncates, forks, ... while it is registered. Uses plain verbs and runs on any
 * device.
 *
 *   rdma_memory [options]            the owner of the memory: runs the tests, waits for its partner
 *   rdma_memory [options] HOST       the partner: executes requests of the owner (endpoint.h)
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -t NAME  run one test (may be repeated)  -p PORT  TCP port for set-up (18516)
 *   -l       list the tests
 *
 * RDMA_MEMORY_TIER: command that prints the tier of the region whose L_Key is its argument; makes
 * the tests of shared memory check the tier.
 *
 * Prints a line for each test: "ok", "FAILED" or "skipped". Exit status 0 if none failed.
 */
#include "rdma_memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- results ------------------------ */

bool fail(struct owner *o, const char *fmt, ...)
{
	va_list ap;

	if (!o->error[0]) {
		va_start(ap, fmt);
		vsnprintf(o->error, sizeof(o->error), fmt, ap);
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

bool expect(struct owner *o, const char *step, int result, int wanted)
{
	return result == wanted ||
	       fail(o, "%s: %s, not %s", step, result_text(result), result_text(wanted));
}

bool expect_ok(struct owner *o, const char *step, int result)
{
	return expect(o, step, result, 0);
}

bool expect_tier(struct owner *o, const struct ibv_mr *mr, const char *tier)
{
	const char *command = getenv("RDMA_MEMORY_TIER");
	char text[256], got[64] = "";
	FILE *f;

	if (!command)
		return true;
	snprintf(text, sizeof(text), "%s %u", command, mr->lkey);
	f = popen(text, "r");
	if (!f || !fgets(got, sizeof(got), f))
		got[0] = '\0';
	if (f)
		pclose(f);
	got[strcspn(got, "\n")] = '\0';
	return !strcmp(got, tier) || fail(o, "the tier is '%s', not %s", got, tier);
}

struct ibv_mr *reg(struct owner *o, void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(o->ep.pd, p, len, access);

	if (!mr)
		fail(o, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

bool dereg(struct owner *o, struct ibv_mr *mr)
{
	int err = ibv_dereg_mr(mr);

	return !err || fail(o, "ibv_dereg_mr: %s", strerror(err));
}

bool reg_fails(struct owner *o, const char *what, void *p, size_t len, int access, int wanted)
{
	struct ibv_mr *mr;
	int err;

	errno = 0;
	mr = ibv_reg_mr(o->ep.pd, p, len, access);
	err = errno;
	if (mr) {
		ibv_dereg_mr(mr);
		return fail(o, "%s: not refused", what);
	}
	return err == wanted || fail(o, "%s: %s, not %s", what, strerror(err), strerror(wanted));
}

/* ---- transfers ------------------------ */

int fill_partner(struct owner *o, uint32_t seed, size_t len)
{
	return ep_call(&o->ep,
		       &(struct ep_request){ .op = EP_FILL, .len = (uint32_t)len, .seed = seed });
}

static int check_partner(struct owner *o, uint32_t seed, size_t len)
{
	return ep_call(&o->ep,
		       &(struct ep_request){ .op = EP_CHECK, .len = (uint32_t)len, .seed = seed });
}

int partner_rdma(struct owner *o, uint32_t op, struct ibv_mr *mr, const void *p, size_t len)
{
	return ep_call(&o->ep, &(struct ep_request){ .op = op,
						     .len = (uint32_t)len,
						     .rkey = mr->rkey,
						     .addr = (uintptr_t)p });
}

int own_rdma(struct owner *o, enum ibv_wr_opcode opcode, struct ibv_mr *mr, const void *p,
	     size_t len)
{
	struct ibv_sge sge = { (uintptr_t)p, (uint32_t)len, mr->lkey };

	return ep_rdma(&o->ep, opcode, &sge, o->ep.peer.addr, o->ep.peer.rkey);
}

static bool check_partner_write(struct owner *o, struct ibv_mr *mr, void *p, size_t len,
				uint32_t seed)
{
	return expect_ok(o, "fill", fill_partner(o, seed, len)) &&
	       expect_ok(o, "partner's WRITE", partner_rdma(o, EP_WRITE, mr, p, len)) &&
	       (has_pattern(p, len, seed, 0) || fail(o, "partner's WRITE: wrong data"));
}

bool check_partner_read(struct owner *o, struct ibv_mr *mr, const void *p, size_t len,
			uint32_t seed)
{
	return expect_ok(o, "partner's READ", partner_rdma(o, EP_READ, mr, p, len)) &&
	       expect_ok(o, "bytes of partner's READ", check_partner(o, seed, len));
}

bool check_own_write(struct owner *o, struct ibv_mr *mr, const void *p, size_t len, uint32_t seed)
{
	return expect_ok(o, "own WRITE", own_rdma(o, IBV_WR_RDMA_WRITE, mr, p, len)) &&
	       expect_ok(o, "bytes of own WRITE", check_partner(o, seed, len));
}

static bool check_own_read(struct owner *o, struct ibv_mr *mr, void *p, size_t len, uint32_t seed)
{
	return expect_ok(o, "fill", fill_partner(o, seed, len)) &&
	       expect_ok(o, "own READ", own_rdma(o, IBV_WR_RDMA_READ, mr, p, len)) &&
	       (has_pattern(p, len, seed, 0) || fail(o, "own READ: wrong data"));
}

bool check_access(struct owner *o, struct ibv_mr *mr, void *p, size_t len)
{
	if (!check_partner_write(o, mr, p, len, 1))
		return false;
	fill_pattern(p, len, 2, 0);
	if (!check_partner_read(o, mr, p, len, 2))
		return false;
	fill_pattern(p, len, 3, 0);
	return check_own_write(o, mr, p, len, 3) && check_own_read(o, mr, p, len, 4);
}

bool check_memory(struct owner *o, const char *what, void *p, size_t len)
{
	struct ibv_mr *mr = reg(o, p, len, EP_ACCESS);

	if (!mr || !check_access(o, mr, p, len) || !dereg(o, mr) ||
	    !(has_pattern(p, len, 4, 0) || fail(o, "deregistering changed the memory"))) {
		size_t n = strlen(o->error);

		snprintf(o->error + n, sizeof(o->error) - n, " (%s, %zu bytes)", what, len);
		return false;
	}
	return true;
}

bool reconnect(struct owner *o)
{
	return expect_ok(o, "reconnect", ep_reconnect(&o->ep));
}

/* ---- main ------------------------ */

static const struct test *const lists[] = { memory_kinds, memory_special, memory_uses };
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

	o->error[0] = '\0';
	o->skip = NULL;
	ok = t->run(o);
	if (o->skip && ok)
		printf("skipped %s: %s\n", t->name, o->skip);
	else
		printf("%s %s: %s (%.2f s)%s%s\n", ok ? "ok" : "FAILED", t->name, t->text,
		       now() - start, ok ? "" : ": ", o->error);
	fflush(stdout);
	return ok;
}

/* Stops at the first failure: later tests would fail for the same reason. */
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
	if (!ep_open(&o.ep, dev, gid_index) || !ep_connect(&o.ep, host, port))
		return 1;
	if (host)
		ok = ep_serve(&o.ep);
	else
		ok = (n ? run_chosen(&o, chosen, n) : run_all(&o)) &&
		     !ep_call(&o.ep, &(struct ep_request){ .op = EP_END });
	if (ok)
		ep_close(&o.ep);
	return ok ? 0 : 1;
}
