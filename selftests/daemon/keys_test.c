// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests for windows, regions for fast registration, integrity regions, the reserved L_Key */
#include <errno.h>
#include <grp.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "daemon/transport/memory/integrity.h"

#define NOBODY 65534

/* Sends the descriptors of the process's address space. */
static void send_memory(struct conn *c, uint32_t pd)
{
	static uint8_t byte;

	proc_sent = false;
	MUST(!reg_private(c, pd, &byte, 1, RW));
	proc_sent = true;
	MUST(!ask_handle(c, XR_MSG_DEREG_MR, mr_of(c).handle));
}

/* ---- windows ------------------------------------------------------------------------- */

static int alloc_mw(struct conn *c, uint32_t pd, uint32_t type)
{
	struct xr_alloc_mw_req q = { .pd = pd, .type = type };

	return ask(c, XR_MSG_ALLOC_MW, &q, sizeof(q));
}

static void test_windows(void)
{
	struct xr_alloc_mw_rep first, second;
	struct conn c, other;
	const struct xt_key *key;
	uint32_t pd, caps;

	open_client(&c);
	open_client(&other);
	MUST(!ask(&c, XR_MSG_QUERY_DEVICE, NULL, 0));
	caps = ((struct xr_query_device_rep *)c.body)->device_cap_flags;
	TAP_OK(caps & IBV_DEVICE_MEM_WINDOW && caps & IBV_DEVICE_MEM_WINDOW_TYPE_2B &&
		       !(caps & IBV_DEVICE_MEM_WINDOW_TYPE_2A),
	       "type 2 windows are type 2B");
	pd = alloc_pd(&c);
	TAP_OK(!alloc_mw(&c, pd, IBV_MW_TYPE_1), "a window of type 1 is allocated");
	first = *(struct xr_alloc_mw_rep *)c.body;
	TAP_OK(!alloc_mw(&c, pd, IBV_MW_TYPE_2), "a window of type 2 is allocated");
	second = *(struct xr_alloc_mw_rep *)c.body;
	key = xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(second.rkey));
	TAP_OK(key && key->entry.state == XR_KEY_FREE && key->entry.type == XR_KEY_MW &&
		       key->entry.flags == XR_KEYF_TYPE_2 && xt_key_value(key) == second.rkey,
	       "the key is free and has the type");
	TAP_OK(alloc_mw(&c, pd, 0) == -EINVAL && alloc_mw(&c, pd, 3) == -EINVAL &&
		       alloc_mw(&c, pd, -1u) == -EINVAL,
	       "an unknown type is refused");
	TAP_OK(alloc_mw(&c, pd + 1, IBV_MW_TYPE_1) == -ENOENT &&
		       alloc_mw(&c, 0, IBV_MW_TYPE_1) == -ENOENT,
	       "a window of an unknown PD is refused");
	TAP_OK(alloc_mw(&other, pd, IBV_MW_TYPE_1) == -ENOENT,
	       "a window of another client's PD is refused");
	TAP_OK(ask(&c, XR_MSG_ALLOC_MW, &pd, sizeof(pd)) == -EINVAL, "a short request is refused");
	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -EBUSY,
	       "the PD of a window is not deallocated");
	TAP_OK(ask_handle(&other, XR_MSG_DEALLOC_MW, first.handle) == -ENOENT,
	       "a window of another client is refused");
	TAP_OK(ask_handle(&c, XR_MSG_DEREG_MR, first.handle) == -ENOENT,
	       "DEREG_MR of a window is refused");
	TAP_OK(!ask_handle(&c, XR_MSG_DEALLOC_MW, first.handle) &&
		       ask_handle(&c, XR_MSG_DEALLOC_MW, first.handle) == -ENOENT,
	       "a window is deallocated only once");
	TAP_OK(!xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(first.rkey)),
	       "the key of a deallocated window is released");
	close_client(&other);
	close_client(&c);
	TAP_OK(!xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(second.rkey)) && nothing_left(),
	       "windows end with their client");
}

/* A bound window keeps its region from being deregistered. */
static void test_bound(void)
{
	struct xr_alloc_mw_rep mw;
	struct xr_reg_mr_rep mr;
	struct xt_key *window, *region;
	static uint8_t bytes[64];
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	MUST(!reg_private(&c, pd, bytes, sizeof(bytes), RW | XR_ACCESS_MW_BIND));
	proc_sent = true;
	mr = mr_of(&c);
	MUST(!alloc_mw(&c, pd, IBV_MW_TYPE_1));
	mw = *(struct xr_alloc_mw_rep *)c.body;
	window = xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(mw.rkey));
	region = xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(mr.lkey));
	/* the state after an engine has bound the window */
	window->parent = region;
	window->mem = region->mem;
	window->entry.state = XR_KEY_VALID;
	region->windows = 1;
	TAP_OK(ask_handle(&c, XR_MSG_DEREG_MR, mr.handle) == -EBUSY,
	       "a region with a bound window is not deregistered");
	TAP_OK(!ask_handle(&c, XR_MSG_DEALLOC_MW, mw.handle) && !region->windows,
	       "a bound window is deallocated");
	TAP_OK(!ask_handle(&c, XR_MSG_DEREG_MR, mr.handle),
	       "the region is deregistered when its window is gone");
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left");
}

/* ---- fast registration --------------------------------------------------------------- */

static int alloc_fast(struct conn *c, uint32_t pd, uint32_t max_pages)
{
	struct xr_alloc_fast_mr_req q = { .pd = pd, .max_pages = max_pages };

	return ask(c, XR_MSG_ALLOC_FAST_MR, &q, sizeof(q));
}

static void test_fast(void)
{
	struct xr_alloc_fast_mr_rep rep;
	const struct xt_key *key;
	struct conn c, other;
	struct reg r;
	uint32_t pd;

	open_client(&c);
	open_client(&other);
	pd = alloc_pd(&c);
	TAP_OK(alloc_fast(&c, pd, 8) == -EINVAL, "fast: refused before the address space is known");
	send_memory(&c, pd);
	TAP_OK(alloc_fast(&c, pd, 0) == -EINVAL &&
		       alloc_fast(&c, pd, XR_FAST_MAX_PAGES + 1) == -EINVAL &&
		       alloc_fast(&c, pd, -1u) == -EINVAL,
	       "fast: an invalid number of pages is refused");
	TAP_OK(alloc_fast(&c, pd + 1, 8) == -ENOENT && alloc_fast(&other, pd, 8) == -ENOENT,
	       "fast: an unknown PD is refused");
	TAP_OK(ask(&c, XR_MSG_ALLOC_FAST_MR, &pd, sizeof(pd)) == -EINVAL,
	       "fast: a short request is refused");
	TAP_OK(!alloc_fast(&c, pd, XR_FAST_MAX_PAGES),
	       "fast: the largest number of pages is accepted");
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, ((struct xr_alloc_fast_mr_rep *)c.body)->handle));
	TAP_OK(!alloc_fast(&c, pd, 8), "fast: a region is allocated");
	rep = *(struct xr_alloc_fast_mr_rep *)c.body;
	key = xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(rep.key));
	TAP_OK(key && key->entry.state == XR_KEY_FREE && key->entry.type == XR_KEY_MR &&
		       key->entry.flags == XR_KEYF_FAST && !key->entry.access &&
		       key->max_pages == 8 && rep.lists.length >= XR_FAST_LISTS * 8 * 8,
	       "fast: the key is free, the lists have room");
	TAP_OK(read_key(&c, pd, rep.key, &pd, 4, &pd) == -EACCES, "fast: the key allows no access");
	r = reg_of(pd, &pd, 4, RW);
	add_segment(&r, XR_SEG_PRIVATE, &pd, 4);
	TAP_OK(rereg(&c, rep.handle, IBV_REREG_MR_CHANGE_ACCESS, &r) == -EINVAL,
	       "fast: REREG_MR is refused");
	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -EBUSY,
	       "fast: the PD of a region is not deallocated");
	TAP_OK(ask_handle(&other, XR_MSG_DEREG_MR, rep.handle) == -ENOENT,
	       "fast: a region of another client is refused");
	TAP_OK(!ask_handle(&c, XR_MSG_DEREG_MR, rep.handle) &&
		       ask_handle(&c, XR_MSG_DEREG_MR, rep.handle) == -ENOENT,
	       "fast: a region is deregistered only once");
	MUST(!alloc_fast(&c, pd, 8));
	close_client(&other);
	close_client(&c);
	TAP_OK(nothing_left(), "fast: nothing is left");
}

/* ---- integrity regions ------------------------------------------------------------------ */

static int alloc_integrity(struct conn *c, uint32_t pd, uint32_t max_pieces)
{
	struct xr_alloc_integrity_mr_req q = { .pd = pd, .max_pieces = max_pieces };

	return ask(c, XR_MSG_ALLOC_INTEGRITY_MR, &q, sizeof(q));
}

static void test_integrity(void)
{
	struct xr_alloc_fast_mr_rep rep;
	const struct xt_key *key;
	struct conn c, other;
	struct reg r;
	uint32_t pd;

	open_client(&c);
	open_client(&other);
	pd = alloc_pd(&c);
	TAP_OK(alloc_integrity(&c, pd, 0) == -EINVAL &&
		       alloc_integrity(&c, pd, XR_INTEGRITY_MAX_PIECES + 1) == -EINVAL &&
		       alloc_integrity(&c, pd, -1u) == -EINVAL,
	       "integrity: an invalid number of pieces is refused");
	TAP_OK(alloc_integrity(&c, pd + 1, 8) == -ENOENT &&
		       alloc_integrity(&other, pd, 8) == -ENOENT,
	       "integrity: an unknown PD is refused");
	TAP_OK(!alloc_integrity(&c, pd, XR_INTEGRITY_MAX_PIECES),
	       "integrity: the largest number of pieces is accepted");
	rep = *(struct xr_alloc_fast_mr_rep *)c.body;
	key = xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(rep.key));
	TAP_OK(key && key->entry.state == XR_KEY_FREE && key->entry.type == XR_KEY_MR &&
		       key->entry.flags == XR_KEYF_INTEGRITY && !key->entry.access &&
		       key->mem->integrity->max_pieces == XR_INTEGRITY_MAX_PIECES &&
		       rep.lists.length >= sizeof(struct xr_integrity) +
						   2 * xr_integrity_stride(XR_INTEGRITY_MAX_PIECES),
	       "integrity: the key is free, the lists have room");
	TAP_OK(read_key(&c, pd, rep.key, &pd, 4, &pd) == -EACCES,
	       "integrity: the key allows no access");
	r = reg_of(pd, &pd, 4, RW);
	add_segment(&r, XR_SEG_PRIVATE, &pd, 4);
	TAP_OK(rereg(&c, rep.handle, IBV_REREG_MR_CHANGE_ACCESS, &r) == -EINVAL,
	       "integrity: REREG_MR is refused");
	TAP_OK(ask_handle(&c, XR_MSG_DEALLOC_PD, pd) == -EBUSY,
	       "integrity: the PD of a region is not deallocated");
	TAP_OK(ask_handle(&other, XR_MSG_DEREG_MR, rep.handle) == -ENOENT,
	       "integrity: a region of another client is refused");
	TAP_OK(!ask_handle(&c, XR_MSG_DEREG_MR, rep.handle) &&
		       ask_handle(&c, XR_MSG_DEREG_MR, rep.handle) == -ENOENT,
	       "integrity: a region is deregistered only once");
	MUST(!alloc_integrity(&c, pd, 8));
	close_client(&other);
	close_client(&c);
	TAP_OK(nothing_left(), "integrity: nothing is left");
}

/* Starts to write a byte to a region, through an integrity region or not. */
static struct xt_mem_io *start_write(struct xt_mem *mem, const struct xt_integrity *through)
{
	struct xt_mem_pool *pool;
	struct xt_mem_io *io = mem->ops->io_new(mem, &fake.dev, 1, &pool);

	MUST(io);
	io->op = XT_MEM_WRITE;
	io->mem = mem;
	io->seg = &mem->seg[0];
	io->off = 0;
	io->data[0] = 0x77;
	io->through = through;
	mem->ops->io_submit(io);
	return io;
}

/* DEREG_MR of an integrity region replies when writes to its pieces have ended. */
static void test_written(void)
{
	struct xr_handle_req first, second;
	struct xt_integrity *in;
	struct xt_mem_io *io;
	static uint8_t bytes[8];
	struct xd_mr *piece;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	proc_sent = false;
	MUST(!reg_private(&c, pd, bytes, sizeof(bytes), RW));
	proc_sent = true;
	piece = the_mr(&c);
	MUST(!alloc_integrity(&c, pd, 8));
	first.handle = handle_of(&c);
	in = the_mr(&c)->mem->xt.integrity;
	MUST(!alloc_integrity(&c, pd, 8));
	second.handle = handle_of(&c);
	/* the results of accesses are collected by settle() only */
	io = start_write(&piece->mem->xt, in);
	TAP_OK(!ask_now(&c, XR_MSG_DEREG_MR, &second, sizeof(second)),
	       "integrity: DEREG_MR does not wait for a write through another region");
	TAP_OK(ask_now(&c, XR_MSG_DEREG_MR, &first, sizeof(first)) == 1,
	       "integrity: DEREG_MR waits for a write to a piece");
	settle();
	TAP_OK(!read_reply(&c) && io->done && bytes[0] == 0x77,
	       "integrity: it replies when the write has ended");
	piece->mem->xt.ops->io_free(io);
	close_client(&c);
	TAP_OK(nothing_left(), "integrity: nothing is left");
}

/* ---- requests that end a right to memory --------------------------------------------- */

static uint8_t used[64];

/*
 * The request must not be answered before an access to the region has ended, whose result is
 * collected by settle() only.
 */
static void check_waits(struct conn *c, struct xt_mem *mem, const char *what, uint32_t type,
			const void *body, size_t len)
{
	const struct xt_mem_ops *ops = mem->ops;
	struct xt_mem_io *io;

	used[0] = 0;
	io = start_write(mem, NULL);
	TAP_OK(ask_now(c, type, body, len) == 1, "%s waits for a write to the region", what);
	settle();
	TAP_OK(!read_reply(c) && io->done && used[0] == 0x77,
	       "%s: the reply follows when the write has ended", what);
	ops->io_free(io);
}

static uint32_t register_used(struct conn *c, uint32_t pd, uint32_t access)
{
	struct reg r = reg_of(pd, used, sizeof(used), access);

	MUST(!(access & XR_ACCESS_ON_DEMAND ? send_reg(c, &r, NULL, 0)
					    : reg_private(c, pd, used, sizeof(used), access)));
	return mr_of(c).handle;
}

/* Takes the right to write away from a region on demand. */
static void check_rereg(struct conn *c, uint32_t pd)
{
	struct {
		uint32_t handle, flags;
		struct xr_reg_mr_req q;
	} q = {
		.handle = register_used(c, pd, RW | XR_ACCESS_ON_DEMAND),
		.flags = IBV_REREG_MR_CHANGE_ACCESS,
		.q = reg_of(pd, used, sizeof(used), XR_ACCESS_ON_DEMAND).q,
	};

	check_waits(c, &the_mr(c)->mem->xt, "REREG_MR", XR_MSG_REREG_MR, &q, sizeof(q));
	MUST(!ask_handle(c, XR_MSG_DEREG_MR, q.handle));
}

/* Returns a window of type 1 in the state after an engine has bound it to a region. */
static struct xr_alloc_mw_rep bound_window(struct conn *c, uint32_t pd, struct xt_key *region)
{
	struct xr_alloc_mw_rep mw;
	struct xt_key *window;

	MUST(!alloc_mw(c, pd, IBV_MW_TYPE_1));
	mw = *(struct xr_alloc_mw_rep *)c->body;
	window = xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(mw.rkey));
	window->parent = region;
	window->mem = region->mem;
	window->entry.state = XR_KEY_VALID;
	region->windows = 1;
	return mw;
}

static void check_dealloc(struct conn *c, uint32_t pd)
{
	struct xr_handle_req q = { .handle = register_used(c, pd, RW | XR_ACCESS_MW_BIND) };
	struct xt_key *region = the_mr(c)->key;
	struct xr_alloc_mw_rep mw = bound_window(c, pd, region);

	check_waits(c, region->mem, "DEALLOC_MW", XR_MSG_DEALLOC_MW,
		    &(struct xr_handle_req){ .handle = mw.handle }, sizeof(q));
	MUST(!ask_handle(c, XR_MSG_DEREG_MR, q.handle));
}

static void test_used(void)
{
	struct xr_handle_req q;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	send_memory(&c, pd);
	q.handle = register_used(&c, pd, RW);
	check_waits(&c, &the_mr(&c)->mem->xt, "DEREG_MR of a plain region", XR_MSG_DEREG_MR, &q,
		    sizeof(q));
	q.handle = register_used(&c, pd, RW | XR_ACCESS_ON_DEMAND);
	check_waits(&c, &the_mr(&c)->mem->xt, "DEREG_MR of a region on demand", XR_MSG_DEREG_MR, &q,
		    sizeof(q));
	check_rereg(&c, pd);
	check_dealloc(&c, pd);
	close_client(&c);
	TAP_OK(nothing_left(), "nothing is left of regions that were in use");
}

/* ---- rounds of workers ----------------------------------------------------------------- */

/* Jobs that wait for the round do not end, so settle() does not wait for them. */
static void begin_round(void)
{
	job_hangs = true;
	__atomic_store_n(&fake.in_round, true, __ATOMIC_RELEASE);
}

static void end_round(void)
{
	__atomic_store_n(&fake.in_round, false, __ATOMIC_RELEASE);
	job_hangs = false;
	settle();
}

/*
 * A round may use keys that it has looked up: no request waits in the control thread until it ends,
 * but the key cannot be looked up any more, and the reply follows.
 */
static void check_round(struct conn *c, uint32_t lkey, const char *what, uint32_t type,
			const void *body, size_t len)
{
	struct xt_key *key = xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(lkey));
	uint8_t variant = key->entry.variant;
	struct xt_mem *mem = key->mem;

	begin_round();
	TAP_OK(ask_now(c, type, body, len) == 1 &&
		       !xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(lkey)),
	       "%s: the key cannot be looked up, and the request waits for a round", what);
	settle();
	TAP_OK(key->mem == mem && key->entry.variant == variant,
	       "%s: the key does not change in the round", what);
	end_round();
	TAP_OK(!read_reply(c), "%s: the reply follows when the round has ended", what);
}

static void test_rounds(void)
{
	struct {
		uint32_t handle, flags;
		struct xr_reg_mr_req q;
	} change = { .flags = IBV_REREG_MR_CHANGE_ACCESS };
	struct xr_handle_req q;
	uint32_t pd, lkey;
	struct conn c;

	open_client(&c);
	pd = alloc_pd(&c);
	send_memory(&c, pd);
	change.handle = q.handle = register_used(&c, pd, RW | XR_ACCESS_ON_DEMAND);
	lkey = mr_of(&c).lkey;
	change.q = reg_of(pd, used, sizeof(used), XR_ACCESS_ON_DEMAND).q;
	check_round(&c, lkey, "REREG_MR", XR_MSG_REREG_MR, &change, sizeof(change));
	TAP_OK(xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(lkey)),
	       "REREG_MR: the key can be looked up again");
	check_round(&c, lkey, "DEREG_MR", XR_MSG_DEREG_MR, &q, sizeof(q));
	MUST(!alloc_mw(&c, pd, IBV_MW_TYPE_2));
	q.handle = ((struct xr_alloc_mw_rep *)c.body)->handle;
	lkey = ((struct xr_alloc_mw_rep *)c.body)->rkey;
	check_round(&c, lkey, "DEALLOC_MW", XR_MSG_DEALLOC_MW, &q, sizeof(q));
	register_used(&c, pd, RW);
	begin_round();
	disconnect(&c);
	end_round();
	TAP_OK(nothing_left(), "nothing is left of keys that were freed in a round");
}

/* The round ends when the window was freed, before the region is. */
static void test_order(void)
{
	struct xt_key *region;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	send_memory(&c, pd);
	register_used(&c, pd, RW | XR_ACCESS_MW_BIND | XR_ACCESS_ON_DEMAND);
	region = the_mr(&c)->key;
	bound_window(&c, pd, region);
	fake.busy = 1;
	disconnect(&c);
	TAP_OK(!region->windows && nothing_left(),
	       "at the end of a client, a region is freed after its windows");
}

/* ---- the reserved L_Key ---------------------------------------------------------------- */

static int ask_lkey(struct conn *c)
{
	return ask(c, XR_MSG_RESERVED_LKEY, NULL, 0);
}

static void test_reserved(void)
{
	struct xt_mem *own;
	uint64_t value = 0;
	struct conn c;
	uint32_t pd;

	open_client(&c);
	pd = alloc_pd(&c);
	TAP_OK(ask_lkey(&c) == -EINVAL && !c.client->objects->memory.xt,
	       "reserved L_Key: refused before the address space is known");
	send_memory(&c, pd);
	TAP_OK(!ask_lkey(&c) && ((struct xr_reserved_lkey_rep *)c.body)->lkey == XR_RESERVED_LKEY,
	       "reserved L_Key: granted to root");
	own = c.client->objects->memory.xt;
	TAP_OK(own && !access_mem(own, (uintptr_t)&pd, &value, sizeof(pd), false) && value == pd &&
		       access_mem(own, 0, &value, sizeof(value), false) == -EFAULT,
	       "reserved L_Key: covers any address of the process");
	TAP_OK(!ask_lkey(&c) && c.client->objects->memory.xt == own,
	       "reserved L_Key: a second request changes nothing");
	TAP_OK(read_key(&c, pd, XR_RESERVED_LKEY, &pd, 4, &value) == -EACCES,
	       "reserved L_Key: refused as a key of a region");
	close_client(&c);
	TAP_OK(nothing_left(), "reserved L_Key: nothing is left");
}

/* Connects as another user with a group and a supplementary group. */
static void open_as(struct conn *c, gid_t group, gid_t other)
{
	gid_t mine = getegid();
	int pair[2];

	/* The socket keeps the credentials of its creator. */
	MUST(!setgroups(1, &other) && !setegid(group) && !seteuid(NOBODY));
	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	MUST(!seteuid(0) && !setegid(mine) && !setgroups(0, NULL));
	*c = (struct conn){ .client = xd_client_new(fake_clients(), pair[0], fake_ticket(pair[0])),
			    .fd = pair[1] };
	MUST(c->client);
	MUST(!hello(c, 0));
}

static void test_privilege(void)
{
	static const struct {
		const char *what;
		gid_t lkey_group, group, other;
		int status;
	} rows[] = {
		{ "no group", XD_NO_GROUP, 7, 8, -EPERM },
		{ "another group is configured", 9, 7, 8, -EPERM },
		{ "its primary group is configured", 7, 7, 8, 0 },
		{ "one of its supplementary groups is configured", 8, 7, 8, 0 },
	};
	struct conn c;
	int status;

	if (geteuid()) {
		tap_skip("reserved L_Key: other users", "needs root");
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fake.server->objects.lkey_group = rows[i].lkey_group;
		open_as(&c, rows[i].group, rows[i].other);
		send_memory(&c, alloc_pd(&c));
		status = ask_lkey(&c);
		TAP_OK(status == rows[i].status && !c.client->objects->memory.xt == !!status &&
			       (!status || reason_has(&c, " --reserved-lkey-group")),
		       "reserved L_Key: another user: %s", rows[i].what);
		close_client(&c);
	}
	fake.server->objects.lkey_group = XD_NO_GROUP;
	TAP_OK(nothing_left(), "reserved L_Key: nothing is left");
}

int main(void)
{
	start_server("keys");
	test_windows();
	test_bound();
	test_fast();
	test_integrity();
	test_written();
	test_used();
	test_rounds();
	test_order();
	test_reserved();
	test_privilege();

	fake_server_stop();
	return tap_end();
}
