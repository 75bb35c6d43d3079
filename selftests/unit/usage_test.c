// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts of the messages that accessed each region, and of their bytes: each kind of message, over
 * the wire and by loopback; windows; many regions in turn; two engines; keys that are reused.
 */
#include "binding.h"

#include "daemon/transport/engine.h"
#include "daemon/transport/memory/use.h"
#include "selftests/lib/tap.h"

static uint8_t local_memory[SIZE];

/* QP 1 has a region of its own for local buffers. */
static struct h_mr local;
static uint32_t local_key;

static void begin_two(struct world *w)
{
	begin(w);
	local_key = h_reg(w->h, &local, local_memory, SIZE, BASE);
}

static struct xt_usage usage_of(struct world *w, const struct xt_key *key)
{
	xt_usage_settle(w->h->engine);
	return key->usage;
}

/* True if only this use was counted, so often and with so many bytes; XT_USE_NONE: none at all. */
static bool is_only(const struct xt_usage *u, enum xt_use use, uint64_t count, uint64_t bytes)
{
	if (use == XT_USE_NONE)
		count = bytes = 0;
	for (uint32_t i = 0; i < XT_USES; i++) {
		if (u->of[i].count == (i == use ? count : 0) &&
		    u->of[i].bytes == (i == use ? bytes : 0))
			continue;
		printf("# use %u: %llu messages, %llu bytes\n", i,
		       (unsigned long long)u->of[i].count, (unsigned long long)u->of[i].bytes);
		return false;
	}
	return true;
}

static struct xr_send_wqe *post(struct world *w, uint8_t opcode, uint32_t len, uint32_t rkey)
{
	struct xr_send_wqe *wqe = h_post_send(&w->q[1], 7, opcode, BASE, len, local_key);

	wqe->remote_addr = BASE + FROM;
	wqe->rkey = rkey;
	return wqe;
}

/* ---- kinds of messages ------------------------------------------------------------------- */

static void test_kinds(void)
{
	static const struct row {
		const char *what;
		uint8_t opcode;
		uint32_t len;
		enum xt_use target, local; /* of the region of QP 0; of that of QP 1 */
		bool no_key;		   /* the R_Key is wrong */
		unsigned drop;
	} rows[] = {
		{ "WRITE of one packet", XR_WR_RDMA_WRITE, 1000, XT_USE_REMOTE_WRITE,
		  .local = XT_USE_LOCAL_READ },
		{ "WRITE of three packets", XR_WR_RDMA_WRITE, 3000, XT_USE_REMOTE_WRITE,
		  .local = XT_USE_LOCAL_READ },
		{ "WRITE of which a packet is lost", XR_WR_RDMA_WRITE, 3000, XT_USE_REMOTE_WRITE,
		  .local = XT_USE_LOCAL_READ, .drop = 2 },
		{ "READ of three packets", XR_WR_RDMA_READ, 3000, XT_USE_REMOTE_READ,
		  .local = XT_USE_LOCAL_WRITE },
		{ "READ of which a response is lost", XR_WR_RDMA_READ, 3000, XT_USE_REMOTE_READ,
		  .local = XT_USE_LOCAL_WRITE, .drop = 3 },
		{ "atomic", XR_WR_ATOMIC_FETCH_AND_ADD, 8, XT_USE_REMOTE_ATOMIC,
		  .local = XT_USE_LOCAL_WRITE },
		{ "atomic whose response is lost", XR_WR_ATOMIC_FETCH_AND_ADD, 8,
		  XT_USE_REMOTE_ATOMIC, .local = XT_USE_LOCAL_WRITE, .drop = 2 },
		{ "ATOMIC WRITE", XR_WR_ATOMIC_WRITE, 8, XT_USE_REMOTE_WRITE,
		  .local = XT_USE_LOCAL_READ },
		{ "SEND into the same region", XR_WR_SEND, 3000, XT_USE_LOCAL_WRITE,
		  .local = XT_USE_LOCAL_READ },
		{ "WRITE of no bytes", XR_WR_RDMA_WRITE, 0, .local = XT_USE_NONE },
		{ "WRITE that is refused", XR_WR_RDMA_WRITE, 1000, .no_key = true },
		{ "READ that is refused", XR_WR_RDMA_READ, 1000, .no_key = true },
	};
	struct xt_usage of_target, of_local;
	struct world w;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];

		if (r->drop && !over_wire)
			continue;
		begin_two(&w);
		w.drop = r->drop;
		if (r->opcode == XR_WR_SEND)
			h_post_recv(&w.q[0], 1, BASE + FROM, 4000, w.lkey);
		post(&w, r->opcode, r->len, r->no_key ? w.lkey + 0x100 : w.lkey);
		run_until_idle(&w);
		of_target = usage_of(&w, w.mr.key);
		of_local = usage_of(&w, local.key);
		TAP_OK(is_only(&of_target, r->target, 1, r->len) &&
			       is_only(&of_local, r->local, 1, r->len),
		       "%s: %s", path_name(), r->what);
		end(&w);
	}
}

static void test_lists(void)
{
	struct xr_send_wqe *wqe;
	struct xt_usage u;
	struct xr_sge *sge;
	struct world w;

	begin_two(&w);
	h_post_recv(&w.q[0], 1, BASE, 4000, w.lkey);
	wqe = post(&w, XR_WR_SEND, 100, 0);
	wqe->num_sge = 3;
	sge = (struct xr_sge *)(wqe + 1);
	sge[1] = (struct xr_sge){ BASE, 0, local_key };
	sge[2] = (struct xr_sge){ BASE + 5000, 1500, local_key };
	run_until_idle(&w);
	u = usage_of(&w, local.key);
	TAP_OK(is_only(&u, XT_USE_LOCAL_READ, 2, 1600), "%s: each SGE that has bytes counts",
	       path_name());
	u = usage_of(&w, w.mr.key);
	TAP_OK(is_only(&u, XT_USE_LOCAL_WRITE, 1, 1600),
	       "%s: a receive counts the bytes that the message had", path_name());
	end(&w);

	begin_two(&w);
	h_post_recv(&w.q[0], 1, BASE, 4000, w.lkey);
	wqe = post(&w, XR_WR_SEND, 8, 0);
	wqe->flags |= XR_SEND_INLINE;
	wqe->inline_len = 8;
	run_until_idle(&w);
	u = usage_of(&w, local.key);
	TAP_OK(!status_of(&w, 1, NULL) && is_only(&u, XT_USE_NONE, 0, 0),
	       "%s: inline data is of no region", path_name());
	end(&w);
}

static void test_windows(void)
{
	struct xt_usage u;
	struct world w;

	for (int type_2 = 0; type_2 < 2; type_2++) {
		begin_two(&w);
		make_window(&w, type_2);
		do_bind(&w, 1, FROM, LEN, RW);
		post(&w, XR_WR_RDMA_WRITE, 500, xt_key_value(w.window));
		/* a window of type 2 can be used by the peer of QP 0 only, which QP 1 is */
		post(&w, XR_WR_RDMA_READ, 1500, xt_key_value(w.window));
		run_until_idle(&w);
		u = usage_of(&w, w.mr.key);
		TAP_OK(u.of[XT_USE_REMOTE_WRITE].bytes == 500 &&
			       u.of[XT_USE_REMOTE_READ].bytes == 1500,
		       "%s: an access through a window of type %d counts for the region",
		       path_name(), type_2 + 1);
		u = usage_of(&w, w.window);
		TAP_OK(is_only(&u, XT_USE_NONE, 0, 0), "%s: and not for the window of type %d",
		       path_name(), type_2 + 1);
		end(&w);
	}
}

/* ---- the tables of engines --------------------------------------------------------------- */

static void use(struct xt_qp *qp, uint32_t lkey, uint32_t bytes)
{
	const struct xr_sge sge = { BASE, bytes, lkey };

	xt_use_local(qp, XT_USE_LOCAL_READ, &sge, 1, bytes);
}

/* Two regions whose slots have the same place in the table */
static void test_same_place(void)
{
	struct xt_key *key[2];
	struct xt_usage u;
	struct world w;

	begin(&w);
	key[0] = w.mr.key;
	key[1] = xt_keys_alloc(w.h->shared.keys);
	key[1]->place = key[0]->place + XT_USAGE_PLACES;
	for (unsigned i = 0; i < 6; i++)
		use(w.q[0].qp, xt_key_value(key[i % 2]), 10 + i);
	TAP_OK(key[0]->usage.of[XT_USE_LOCAL_READ].bytes == 10 + 12 + 14 &&
		       key[1]->usage.of[XT_USE_LOCAL_READ].bytes == 11 + 13,
	       "an entry is added to its region when another one needs its place");
	u = usage_of(&w, key[0]);
	TAP_OK(is_only(&u, XT_USE_LOCAL_READ, 3, 36), "nothing of the first region is lost");
	u = usage_of(&w, key[1]);
	TAP_OK(is_only(&u, XT_USE_LOCAL_READ, 3, 39), "nothing of the second region is lost");
	u = usage_of(&w, key[1]);
	TAP_OK(is_only(&u, XT_USE_LOCAL_READ, 3, 39), "nothing counts twice");
	end(&w);
}

static void test_two_engines(void)
{
	static const struct xt_ops ops;
	struct xt_engine *own, *other;
	struct xt_usage u;
	struct world w;

	begin(&w);
	own = w.h->engine;
	other = xt_engine_new(&ops, NULL, &w.h->shared);
	w.q[1].qp->engine = other;
	use(w.q[0].qp, w.lkey, 100);
	use(w.q[1].qp, w.lkey, 23);
	TAP_OK(is_only(&w.mr.key->usage, XT_USE_NONE, 0, 0),
	       "engines count in tables of their own");
	xt_usage_settle(other);
	TAP_OK(is_only(&w.mr.key->usage, XT_USE_LOCAL_READ, 1, 23), "one adds its counts");
	u = usage_of(&w, w.mr.key);
	TAP_OK(is_only(&u, XT_USE_LOCAL_READ, 2, 123), "totals have the counts of all engines");
	w.q[1].qp->engine = own;
	xt_engine_free(other);
	end(&w);
}

static void test_reused_slot(void)
{
	struct xt_keys *keys;
	struct xt_key *key;
	struct world w;
	uint32_t place;

	begin(&w);
	keys = w.h->shared.keys;
	place = w.mr.key->place;
	use(w.q[0].qp, w.lkey, 100);
	xt_keys_release(keys, w.mr.key);
	do {
		key = xt_keys_alloc(keys);
		if (key->place != place)
			xt_keys_release(keys, key);
	} while (key->place != place);
	xt_usage_settle(w.h->engine);
	TAP_OK(is_only(&key->usage, XT_USE_NONE, 0, 0),
	       "a region does not inherit what its slot's last one has counted");
	use(w.q[0].qp, xt_key_value(key), 5);
	xt_usage_settle(w.h->engine);
	TAP_OK(is_only(&key->usage, XT_USE_LOCAL_READ, 1, 5), "it counts its own");
	end(&w);
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		over_wire = i;
		test_kinds();
		test_lists();
		test_windows();
	}
	test_same_place();
	test_two_engines();
	test_reused_slot();
	return tap_end();
}
