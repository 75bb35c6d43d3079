/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Transfers patterns between two programs, over a new RC QP for each test, and verifies every byte
 * and every completion. Uses plain verbs and runs on any device.
 *
 *   rdma_verify [options]            the passive side: waits for a connection
 *   rdma_verify [options] HOST       the active side: connects
 *
 *   -d DEV   device (default: the first)     -g N     GID index (default 1)
 *   -m MTU   path MTU in bytes (1024)        -p PORT  TCP port for set-up (18516)
 *   -n N     rounds of each data test (20)   -s SEED  of patterns and sizes (1)
 *   -t NAME  run one test (may be repeated)  -l       list the tests
 *   -b BYTES size of the region (8 MiB), at least 1 MiB; each round copies and compares all of it
 *   -E       do not expect asynchronous events at the passive side (rdma_rxe raises none)
 *   -x CMD   shell command that the passive side runs after each test
 *
 * Both sides must be given the same tests. Prints a line for each test. Exit status 0 if all
 * succeeded.
 */
#include "rdma_verify.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_SECONDS 30 /* multiplied by XR_SLOW on an emulated processor */

/* ---- helpers ------------------------------------------------------------ */

uint64_t rnd(struct verify *v)
{
	v->rng ^= v->rng << 13;
	v->rng ^= v->rng >> 7;
	v->rng ^= v->rng << 17;
	return v->rng;
}

bool fail(struct verify *v, const char *fmt, ...)
{
	va_list ap;

	if (!v->error) {
		va_start(ap, fmt);
		vsnprintf(v->text, sizeof(v->text), fmt, ap);
		va_end(ap);
		v->error = v->text;
	}
	return false;
}

bool same(struct verify *v, const char *what)
{
	if (!memcmp(v->buf, v->want, v->size))
		return true;
	for (size_t i = 0; i < v->size; i++)
		if (v->buf[i] != v->want[i])
			return fail(v, "%s: byte %zu is %02x, expected %02x", what, i, v->buf[i],
				    v->want[i]);
	return true;
}

int wait_seconds(void)
{
	const char *slow = getenv("XR_SLOW");

	return WAIT_SECONDS * (slow ? atoi(slow) : 1);
}

/* ---- the TCP connection -------------------------------------------------------------- */

bool xfer(struct verify *v, void *out, const void *in, size_t len)
{
	if (send(v->sock, in, len, MSG_NOSIGNAL) != (ssize_t)len ||
	    recv(v->sock, out, len, MSG_WAITALL) != (ssize_t)len)
		return fail(v, "the other side closed the connection");
	return true;
}

bool barrier(struct verify *v)
{
	char byte = 1, other;

	return xfer(v, &other, &byte, 1);
}

/* ---- verbs --------------------------------------------------------------------------- */

static bool set_up(struct verify *v)
{
	v->ctx = open_device(v->dev_name);
	if (!v->ctx)
		return fail(v, "cannot open device %s", v->dev_name ? v->dev_name : "(first)");
	v->pd = ibv_alloc_pd(v->ctx);
	v->cq = ibv_create_cq(v->ctx, 4 * DEPTH, NULL, NULL, 0);
	v->buf = mmap(NULL, v->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	v->want = malloc(v->size);
	if (!v->pd || !v->cq || v->buf == MAP_FAILED || !v->want)
		return fail(v, "set-up: %s", strerror(errno));
	if (ibv_query_gid(v->ctx, 1, v->gid_index, &v->me.gid))
		return fail(v, "no GID with index %d", v->gid_index);
	return true;
}

static enum ibv_mtu path_mtu(int bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 256 << mtu <= bytes)
		mtu++;
	return mtu;
}

/* Moves the QP from RESET to RTS; peer is valid. */
static bool qp_to_rts(struct verify *v)
{
	struct ibv_qp_attr attr = rc_attr(v->gid_index, v->peer.gid, v->peer.qpn);

	attr.path_mtu = path_mtu(v->mtu);
	attr.rq_psn = v->peer.psn;
	attr.sq_psn = v->me.psn;
	attr.timeout = v->timeout;
	attr.retry_cnt = v->retry_cnt;
	attr.rnr_retry = v->rnr_retry;
	attr.qp_access_flags = (unsigned int)ALL_ACCESS;
	return !reset_to_rts(v->qp, &attr) || fail(v, "to RTS: %s", strerror(errno));
}

bool bring_up(struct verify *v)
{
	v->me.qpn = v->qp->qp_num;
	v->me.psn = (uint32_t)rnd(v) & 0xffffff;
	v->me.rkey = v->mr->rkey;
	v->me.addr = (uintptr_t)v->buf;
	v->me.length = v->size;
	return xfer(v, &v->peer, &v->me, sizeof(v->me)) && qp_to_rts(v) && barrier(v);
}

bool connect_qp(struct verify *v, int access)
{
	struct ibv_qp_init_attr init = {
		.send_cq = v->cq,
		.recv_cq = v->cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 0,
		.cap = { DEPTH, DEPTH, MAX_SGE, MAX_SGE, MAX_INLINE },
	};

	v->mr = ibv_reg_mr(v->pd, v->buf, v->size, access);
	v->qp = ibv_create_qp(v->pd, &init);
	if (!v->mr || !v->qp)
		return fail(v, "%s: %s", v->mr ? "QP" : "region", strerror(errno));
	return bring_up(v);
}

void disconnect_qp(struct verify *v)
{
	if (v->qp)
		ibv_destroy_qp(v->qp);
	if (v->mr)
		ibv_dereg_mr(v->mr);
	v->qp = NULL;
	v->mr = NULL;
}

bool next_wc(struct verify *v, struct ibv_wc *wc)
{
	int n = next_completion(v->cq, wc, wait_seconds());

	return n == 1 ||
	       fail(v, n ? "ibv_poll_cq failed" : "no completion within %d s", wait_seconds());
}

bool good_wc(struct verify *v, struct ibv_wc *wc, enum ibv_wc_opcode opcode)
{
	if (!next_wc(v, wc))
		return false;
	if (wc->status)
		return fail(v, "completion: %s (vendor 0x%x)", ibv_wc_status_str(wc->status),
			    wc->vendor_err);
	return wc->opcode == opcode ||
	       fail(v, "completion has opcode %d, expected %d", wc->opcode, opcode);
}

bool post(struct verify *v, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(v->qp, wr, &bad);

	return !err || fail(v, "ibv_post_send: %s", strerror(err));
}

bool post_recv(struct verify *v, struct ibv_sge *sge, int n, uint64_t id)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad;
	int err = ibv_post_recv(v->qp, &wr, &bad);

	return !err || fail(v, "ibv_post_recv: %s", strerror(err));
}

/* ---- main ------------------------------------------------------------------------------- */

static const struct test *tests[64];
static size_t n_tests;

static void list(const struct test *subject)
{
	for (; subject->name; subject++)
		tests[n_tests++] = subject;
}

static bool run_test(struct verify *v, const struct test *test)
{
	uint64_t rng = v->rng;
	bool ok;

	v->error = NULL;
	ok = test->run(v) && !v->error;
	disconnect_qp(v);
	/* keeps both sides equal, however often they called rnd() */
	v->rng = rng + 0x9e3779b97f4a7c15ull;
	if (v->hook && !v->host && system(v->hook))
		ok = fail(v, "%s failed", v->hook);
	printf("%s %s: %s%s%s\n", ok ? "ok" : "FAILED", test->name, test->text, ok ? "" : ": ",
	       ok ? "" : v->error);
	fflush(stdout);
	return ok;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: rdma_verify [-d DEV] [-g GID-INDEX] [-m MTU] [-n ROUNDS] [-p PORT]\n"
		"                   [-s SEED] [-b BYTES] [-t TEST]... [-E] [-x COMMAND] [HOST]\n"
		"       rdma_verify -l\n");
	return 2;
}

static int print_tests(void)
{
	for (size_t i = 0; i < n_tests; i++)
		printf("%-16s %s\n", tests[i]->name, tests[i]->text);
	return 0;
}

static bool choose(bool *chosen, const char *name)
{
	for (size_t i = 0; i < n_tests; i++)
		if (!strcmp(tests[i]->name, name))
			return chosen[i] = true;
	fprintf(stderr, "rdma_verify: no test is named '%s'\n", name);
	return false;
}

/* Stops at the first failure. */
static bool run_tests(struct verify *v, const bool *chosen, bool every)
{
	bool ok = true;

	for (size_t i = 0; i < n_tests && ok; i++)
		if (every || chosen[i])
			ok = run_test(v, tests[i]);
	return ok;
}

int main(int argc, char **argv)
{
	struct verify v = { .gid_index = 1,
			    .mtu = 1024,
			    .port = 18516,
			    .rounds = 20,
			    .rng = 1,
			    .size = BUF_SIZE,
			    .timeout = ack_timeout(),
			    .retry_cnt = 7,
			    .rnr_retry = 7 };
	bool chosen[sizeof(tests) / sizeof(tests[0])] = { false }, every = true, ok;
	int c;

	list(verify_data);
	list(verify_connections);
	list(verify_refusals);
	while ((c = getopt(argc, argv, "b:d:g:m:n:p:s:t:x:lE")) != -1) {
		switch (c) {
		case 'b':
			v.size = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'd':
			v.dev_name = optarg;
			break;
		case 'g':
			v.gid_index = atoi(optarg);
			break;
		case 'm':
			v.mtu = atoi(optarg);
			break;
		case 'n':
			v.rounds = atoi(optarg);
			break;
		case 'p':
			v.port = atoi(optarg);
			break;
		case 's':
			v.rng = strtoull(optarg, NULL, 0) * 2 + 1;
			break;
		case 'E':
			v.no_events = true;
			break;
		case 'x':
			v.hook = optarg;
			break;
		case 'l':
			return print_tests();
		case 't':
			if (!choose(chosen, optarg))
				return 2;
			every = false;
			break;
		default:
			return usage();
		}
	}
	if (v.size < MIN_SIZE || v.size > BUF_SIZE)
		return usage();
	v.host = argv[optind];
	if (!set_up(&v)) {
		fprintf(stderr, "rdma_verify: %s\n", v.error);
		return 1;
	}
	v.sock = v.host ? tcp_connect(v.host, v.port) : tcp_accept(v.port, wait_seconds());
	if (v.sock < 0) {
		fprintf(stderr, "rdma_verify: cannot connect to the other side\n");
		return 1;
	}
	ok = run_tests(&v, chosen, every);
	close(v.sock);
	return ok ? 0 : 1;
}
