// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Direct verbs of the provider on a simulated engine, with lost, late and damaged packets.
 *
 *     direct [-n RUNS] [-s SEED] [-t drain|rw]
 *
 * The program is one thread. While it waits in the provider, by nanosleep(), virtual time passes;
 * the linker replaces nanosleep() and clock_gettime() by the functions of this file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "direct.h"
#include "provider/verbs/qp.h"
#include "selftests/lib/tap.h"

/* ---- virtual time ------------------------------------------------------------------- */

static struct world *current_world;

static void nothing(void *arg)
{
}

void world_step(struct world *w)
{
	uint64_t next;

	host_doorbells(&w->host[0]);
	host_doorbells(&w->host[1]);
	next = xt_engine_run(w->h->engine, w->h->now);
	lossy_collect(&w->net, &w->rng, w->h);
	if (next == XT_NEVER || w->net.pooled || next < w->h->now + USEC)
		next = w->h->now + USEC;
	w->h->now = next < w->h->now + 50 * USEC ? next : w->h->now + 50 * USEC;
	lossy_deliver(&w->net, &w->rng, w->h, nothing, NULL);
	CHECK(w, w->h->now < w->ends, "posted work requests do not complete");
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	struct world *w = current_world;
	uint64_t end = w->h->now + (uint64_t)time->tv_nsec;

	do
		world_step(w);
	while (w->h->now < end);
	if (w->idle)
		w->idle(w->idle_arg);
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	uint64_t now = current_world->h->now;

	*time = (struct timespec){ (time_t)(now / 1000000000), (long)(now % 1000000000) };
	return 0;
}

/* ---- connections ---------------------------------------------------------------------- */

static int to_rts(struct ibv_qp *qp, const struct ibv_qp *peer, uint32_t peer_ip)
{
	static const int rc = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.rq_psn = 0xffffe0,
		.sq_psn = 0xffffe0,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.port_num = 1,
		.timeout = 8,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 },
	};
	bool reliable = qp->qp_type == IBV_QPT_RC;
	struct xr_addr gid;
	int err;

	xr_gid_set_ipv4(&gid, htobe32(peer_ip));
	memcpy(&attr.ah_attr.grh.dgid, &gid, sizeof(gid));
	err = xp_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = xp_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | (reliable ? rc : 0));
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = xp_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_SQ_PSN |
					   (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
							       IBV_QP_RNR_RETRY |
							       IBV_QP_MAX_QP_RD_ATOMIC
						     : 0));
	return err;
}

void world_connect(struct world *w, struct ibv_qp *a, struct ibv_qp *b)
{
	int err = to_rts(a, b, w->host[1].ip);

	if (!err)
		err = to_rts(b, a, w->host[0].ip);
	CHECK(w, !err, "the QPs cannot be connected");
}

/* ---- seeds ---------------------------------------------------------------------------- */

struct test {
	const char *name, *counted;
	size_t memory;
	void (*run)(struct world *w);
};

static bool run(const struct test *t, uint64_t seed, unsigned *done)
{
	struct world *w = current_world = calloc(1, sizeof(*w));
	bool local, ok;

	w->rng.state = seed;
	w->h = h_new(16);
	w->ends = 10000 * MSEC;
	w->size = t->memory;
	w->memory = aligned_alloc(DIRECT_PAGE, w->size);
	memset(w->memory, 0, w->size);
	w->key = h_reg(w->h, &w->mr, w->memory, w->size, DIRECT_BASE);
	local = rng_chance(&w->rng, 15);
	lossy_plan(&w->net, &w->rng);
	host_open(&w->host[0], w, 0x0a000001);
	host_open(&w->host[1], w, local ? 0x0a000001 : 0x0a000002);
	t->run(w);
	ok = !w->wrong;
	if (!ok)
		printf("# seed %llu, at %llu us: %s; replay: direct -n 1 -s %llu -t %s\n",
		       (unsigned long long)seed, (unsigned long long)(w->h->now / USEC), w->wrong,
		       (unsigned long long)seed, t->name);
	*done += w->done;
	if (ok) { /* else objects may be left */
		lossy_free(&w->net);
		h_free(w->h);
		free(w->memory);
		free(w);
	}
	return ok;
}

static const struct test tests[] = {
	{ "drain", "queues are drained", DRAIN_MEMORY, direct_drain },
	{ "rw", "transfers of RW contexts complete", RW_MEMORY, direct_rw },
};

int main(int argc, char **argv)
{
	unsigned runs = 1000, i;
	const char *only = NULL;
	uint64_t seed = 1;
	int c;

	while ((c = getopt(argc, argv, "n:s:t:")) != -1) {
		if (c == 'n')
			runs = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 't')
			only = optarg;
		else
			return 2;
	}
	for (const struct test *t = tests; t < tests + sizeof(tests) / sizeof(*tests); t++) {
		unsigned bad = 0, done = 0;

		if (only && strcmp(only, t->name))
			continue;
		for (i = 0; i < runs && bad < 5; i++)
			bad += !run(t, seed + i, &done);
		TAP_OK(!bad, "seeds %llu to %llu: %u %s", (unsigned long long)seed,
		       (unsigned long long)(seed + i - 1), done, t->counted);
	}
	return tap_end();
}
