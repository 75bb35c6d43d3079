// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long a worker is paused, in steps: basic blocks of the daemon's code that run between pause
 * and resume. The compiler inserts a call at the start of each (-fsanitize-coverage=trace-pc), so
 * the result does not depend on the machine's load. A step takes 1 to 10 ns.
 *
 * Steps do not show system calls and page faults, which take longer. So the test also counts in
 * pauses: allocations, which may cause both; updates of BPF maps, each a system call; page faults.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include <infiniband/verbs.h>

#include <xroce/ring.h>

#include "control.h"
#include "daemon/objects/mcast.h"

#define MANY 20000   /* objects of one client */
#define LIMIT 25000u /* steps: pauses must not last longer than 200 us */
#define WINDOWS 1000u

/* ---- counting ------------------------------------------------------------------ */

static __thread uint64_t steps, all_steps;
static uint64_t longest, pauses, faults, allocations;
static unsigned updates, most_updates; /* of BPF maps: before this pause, in one pause */
static __thread unsigned int depth;    /* of pauses; job threads run meanwhile */

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	steps++;
	all_steps++;
}

static uint64_t faults_so_far(void)
{
	struct rusage r;

	MUST(!getrusage(RUSAGE_THREAD, &r));
	return (uint64_t)(r.ru_minflt + r.ru_majflt);
}

static void begin(void)
{
	if (depth++)
		return;
	pauses++;
	steps = 0;
	updates = fake.map_updates;
	faults -= faults_so_far();
}

static void end(void)
{
	if (--depth)
		return;
	faults += faults_so_far();
	if (steps > longest)
		longest = steps;
	if (fake.map_updates - updates > most_updates)
		most_updates = fake.map_updates - updates;
}

/* The linker redirects allocations. */
#define ALLOCATOR(name, params, args)                                                              \
	void *__real_##name params;                                                                \
	void *__wrap_##name params;                                                                \
	void *__wrap_##name params                                                                 \
	{                                                                                          \
		if (depth)                                                                         \
			allocations++;                                                             \
		return __real_##name args;                                                         \
	}
ALLOCATOR(malloc, (size_t size), (size))
ALLOCATOR(calloc, (size_t count, size_t size), (count, size))
ALLOCATOR(realloc, (void *memory, size_t size), (memory, size))

/* The linker redirects these functions of the fake device. */
#define PAUSE(name, what)                                                                          \
	void __real_##name(struct xd_workers *ws, uint32_t index);                                 \
	void __wrap_##name(struct xd_workers *ws, uint32_t index);                                 \
	void __wrap_##name(struct xd_workers *ws, uint32_t index)                                  \
	{                                                                                          \
		what();                                                                            \
		__real_##name(ws, index);                                                          \
	}
PAUSE(xd_worker_pause, begin)
PAUSE(xd_worker_resume, end)
PAUSE(xd_worker_resume_no_wake, end)
PAUSE(xd_worker_resume_if_due, end)

static void short_pauses_with(const char *what, unsigned max_updates)
{
	TAP_OK(longest && longest <= LIMIT && !allocations && most_updates <= max_updates,
	       "%s: %llu steps, %llu allocations, %u updates of maps", what,
	       (unsigned long long)longest, (unsigned long long)allocations, most_updates);
	longest = allocations = most_updates = 0;
}

/* Nothing was done in a pause since `before`, as requests that workers need not be stopped for. */
static void no_pauses(const char *what, uint64_t before)
{
	TAP_OK(pauses == before, "%s: %llu pauses", what, (unsigned long long)(pauses - before));
}

static void short_pauses(const char *what)
{
	short_pauses_with(what, 0);
}

/* ---- objects --------------------------------------------------------------------- */

static struct conn c;
static uint32_t pd, cq;
static uint8_t memory[4096];

static uint32_t must_create(uint32_t type, const void *body, size_t len)
{
	MUST(!ask_now(&c, type, body, len));
	return handle_of(&c);
}

static void must_destroy(uint32_t type, uint32_t handle)
{
	struct xr_handle_req q = { .handle = handle };

	MUST(!ask_now(&c, type, &q, sizeof(q)));
}

static void test_qps(void)
{
	struct xr_create_qp_req q = qp_request(pd, cq);
	static uint32_t qp[MANY];

	q.max_send_wr = q.max_recv_wr = 1;
	for (unsigned i = 0; i < MANY; i++)
		qp[i] = must_create(XR_MSG_CREATE_QP, &q, sizeof(q));
	short_pauses("creating 20000 QPs");
	for (unsigned i = 0; i < MANY; i += 2)
		must_destroy(XR_MSG_DESTROY_QP, qp[i]);
	short_pauses("destroying every other QP");
	for (unsigned i = 0; i < MANY; i += 2)
		must_create(XR_MSG_CREATE_QP, &q, sizeof(q));
	short_pauses("creating them again");
}

/* Sets the indices as if the program had posted as many work requests as fit. */
static void post_all(struct xd_qp *qp)
{
	__atomic_store_n(&((struct xr_queue *)qp->sq.ptr)->producer, XR_MAX_WR, __ATOMIC_RELEASE);
	__atomic_store_n(&((struct xr_queue *)qp->rq.ptr)->producer, XR_MAX_WR, __ATOMIC_RELEASE);
}

static unsigned int completions(struct xd_cq *to)
{
	return ((struct xr_queue *)to->ring.ptr)->producer;
}

static void test_full_queues(void)
{
	struct xr_create_qp_req q = qp_request(pd, create_cq(&c, 2 * XR_MAX_WR, 0));
	struct xt_engine *engine = xd_worker_engine(fake.dev.workers, 0);
	struct xr_qp_attr none = { 0 };
	struct xd_qp *qp;
	uint32_t h;

	q.max_send_wr = q.max_recv_wr = XR_MAX_WR;
	h = must_create(XR_MSG_CREATE_QP, &q, sizeof(q));
	qp = xd_object_get(c.client, XD_QP, h);
	MUST(!to_init(&c, h) && !to_rtr(&c, h, rtr_attr()) && !to_rts(&c, h));
	post_all(qp);
	MUST(!modify(&c, h, XR_QPS_ERR, none, 0));
	short_pauses_with("RTS, and ERR with 32768 work requests in each queue", 1);
	MUST(completions(qp->send_cq) < 2 * XR_MAX_WR);
	for (unsigned i = 0; i < XR_MAX_WR && completions(qp->send_cq) < 2 * XR_MAX_WR; i++)
		xt_engine_run(engine, 0);
	TAP_OK(completions(qp->send_cq) == 2 * XR_MAX_WR, "the worker flushes all of them");
	MUST(!modify(&c, h, XR_QPS_RESET, none, 0));
	must_destroy(XR_MSG_DESTROY_QP, h);
	short_pauses("RESET and destruction of this QP");
}

/* A QP in SQE flushes what was posted before it moves to RTS. */
static void test_send_queue_error(void)
{
	struct xr_create_qp_req q = qp_request(pd, create_cq(&c, 2 * XR_MAX_WR, 0));
	struct xd_qp *qp;
	uint32_t h;

	q.type = XR_QPT_UD;
	q.max_send_wr = q.max_recv_wr = XR_MAX_WR;
	h = must_create(XR_MSG_CREATE_QP, &q, sizeof(q));
	qp = xd_object_get(c.client, XD_QP, h);
	MUST(!modify(&c, h, XR_QPS_INIT, (struct xr_qp_attr){ .port_num = 1 },
		     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	MUST(!modify(&c, h, XR_QPS_RTR, (struct xr_qp_attr){ 0 }, 0));
	MUST(!modify(&c, h, XR_QPS_RTS, (struct xr_qp_attr){ 0 }, IBV_QP_SQ_PSN));
	post_all(qp);
	/* the first work request names an address handle that does not exist */
	xt_qp_doorbell(qp->xt, 0);
	xt_engine_run(xd_worker_engine(fake.dev.workers, 0), 0);
	MUST(state_of(&c, h) == XR_QPS_SQE);
	longest = most_updates = 0;
	MUST(!modify(&c, h, XR_QPS_RTS, (struct xr_qp_attr){ .cur_qp_state = XR_QPS_SQE },
		     IBV_QP_CUR_STATE));
	short_pauses_with("SQE to RTS with 32768 work requests posted", 1);
}

static void test_rings(void)
{
	struct xr_create_srq_req create = { .pd = pd, .max_wr = XR_MAX_WR, .max_sge = 2 };
	struct xr_modify_srq_req grow = { .mask = IBV_SRQ_MAX_WR, .max_wr = XR_MAX_WR };
	struct xr_resize_cq_req resize = { .depth = 65536 };
	struct xr_create_qp_req q = qp_request(pd, cq);
	struct xd_srq *srq;
	struct xd_cq *to;

	grow.handle = must_create(XR_MSG_CREATE_SRQ, &create, sizeof(create));
	q.srq = grow.handle;
	must_create(XR_MSG_CREATE_QP, &q, sizeof(q));
	srq = xd_object_get(c.client, XD_SRQ, grow.handle);
	__atomic_store_n(&srq->xt.queue->producer, XR_MAX_WR, __ATOMIC_RELEASE);
	MUST(!ask(&c, XR_MSG_MODIFY_SRQ, &grow, sizeof(grow)));
	short_pauses("resizing an SRQ with 32768 receives");
	resize.handle = create_cq(&c, 32768, 0);
	to = xd_object_get(c.client, XD_CQ, resize.handle);
	to->xt.producer = 32768;
	MUST(!ask(&c, XR_MSG_RESIZE_CQ, &resize, sizeof(resize)));
	short_pauses("resizing a CQ with 32768 completions");
}

static void test_keys(void)
{
	struct xr_alloc_mw_req q = { .pd = pd, .type = IBV_MW_TYPE_2 };
	static uint32_t mw[MANY];
	uint64_t before = pauses;

	for (unsigned i = 0; i < MANY; i++)
		mw[i] = must_create(XR_MSG_ALLOC_MW, &q, sizeof(q));
	for (unsigned i = 0; i < MANY; i += 2)
		must_destroy(XR_MSG_DEALLOC_MW, mw[i]);
	for (unsigned i = 0; i < MANY; i += 2)
		must_create(XR_MSG_ALLOC_MW, &q, sizeof(q));
	no_pauses("allocating and freeing 20000 windows", before);
	proc_sent = false;
	MUST(!reg_private(&c, pd, memory, sizeof(memory), RW));
	MUST(!ask_handle(&c, XR_MSG_DEREG_MR, mr_of(&c).handle));
	no_pauses("registering and deregistering a region", before);
}

static void post_bind(struct xd_qp *qp, uint32_t i, uint32_t rkey, uint32_t lkey)
{
	struct xr_queue *q = qp->sq.ptr;
	uint32_t stride = xr_send_stride(qp->max_send_sge, qp->max_inline);
	struct xr_send_wqe wqe = {
		.opcode = XR_WR_BIND_MW,
		.remote_addr = (uintptr_t)memory,
		.bind = { rkey, ibv_inc_rkey(rkey), lkey, XR_ACCESS_REMOTE_READ },
		.bind_len = sizeof(memory),
	};

	memcpy((uint8_t *)(q + 1) + (size_t)i * stride, &wqe, sizeof(wqe));
	__atomic_store_n(&q->producer, i + 1, __ATOMIC_RELEASE);
}

/* Returns a QP that has bound many windows to a region. */
static uint32_t bind_windows(uint32_t lkey)
{
	struct xr_alloc_mw_req alloc = { .pd = pd, .type = IBV_MW_TYPE_2 };
	struct xr_create_qp_req q = qp_request(pd, create_cq(&c, 2 * WINDOWS, 0));
	struct xt_engine *engine = xd_worker_engine(fake.dev.workers, 0);
	struct xd_qp *qp;
	uint32_t h;

	q.max_send_wr = WINDOWS;
	h = must_create(XR_MSG_CREATE_QP, &q, sizeof(q));
	qp = xd_object_get(c.client, XD_QP, h);
	MUST(!to_init(&c, h) && !to_rtr(&c, h, rtr_attr()) && !to_rts(&c, h));
	for (uint32_t i = 0; i < WINDOWS; i++) {
		MUST(!ask_now(&c, XR_MSG_ALLOC_MW, &alloc, sizeof(alloc)));
		post_bind(qp, i, ((struct xr_alloc_mw_rep *)c.body)->rkey, lkey);
	}
	xt_qp_doorbell(qp->xt, 0);
	for (uint32_t i = 0; i < WINDOWS; i++)
		xt_engine_run(engine, 0);
	MUST(xt_keys_by_index(fake.dev.shared.keys, XR_KEY_INDEX(lkey))->windows == WINDOWS);
	longest = allocations = most_updates = 0;
	return h;
}

static void test_windows(void)
{
	uint32_t lkey;

	MUST(!reg_private(&c, pd, memory, sizeof(memory), RW | XR_ACCESS_MW_BIND));
	proc_sent = true;
	lkey = mr_of(&c).lkey;
	MUST(!modify(&c, bind_windows(lkey), XR_QPS_RESET, (struct xr_qp_attr){ 0 }, 0));
	short_pauses_with("RESET of a QP with 1000 bound windows", XD_UNBIND_AT_ONCE);
	MUST(!ask_handle(&c, XR_MSG_DESTROY_QP, bind_windows(lkey)));
	short_pauses_with("destroying a QP with 1000 bound windows", XD_UNBIND_AT_ONCE);
}

static void test_groups(void)
{
	struct xr_create_qp_req q = qp_request(pd, cq);
	uint32_t qp[XD_CLIENT_ATTACHED];
	uint64_t before;

	q.type = XR_QPT_UD;
	for (unsigned i = 0; i < XD_CLIENT_ATTACHED; i++)
		qp[i] = must_create(XR_MSG_CREATE_QP, &q, sizeof(q));
	before = pauses;
	for (unsigned i = 0; i < XD_CLIENT_ATTACHED; i++)
		MUST(!mcast(&c, XR_MSG_ATTACH_MCAST, qp[i], 1));
	no_pauses("attaching as many QPs to a multicast group as possible", before);
	for (unsigned i = 0; i < XD_CLIENT_ATTACHED; i++)
		MUST(!mcast(&c, XR_MSG_DETACH_MCAST, qp[i], 1));
	no_pauses("detaching them", before);
}

static void test_address_handles(void)
{
	struct xr_create_ah_req q = { .pd = pd, .attr = rtr_attr().ah };

	uint64_t before = pauses;
	uint32_t first = must_create(XR_MSG_CREATE_AH, &q, sizeof(q));

	for (unsigned i = 1; i < MANY; i++)
		must_create(XR_MSG_CREATE_AH, &q, sizeof(q));
	must_destroy(XR_MSG_DESTROY_AH, first);
	no_pauses("creating 20000 address handles, and destroying one", before);
	must_create(XR_MSG_CREATE_AH, &q, sizeof(q));
	before = all_steps;
	must_create(XR_MSG_CREATE_AH, &q, sizeof(q));
	TAP_OK(all_steps - before < MANY / 10,
	       "a slot is found at once after the first one was free: %llu steps",
	       (unsigned long long)(all_steps - before));
}

static void open_large_client(void)
{
	struct xd_options *o = &fake.opt;

	o->max_qp = o->max_mr = o->max_ah = 2 * MANY;
	o->client_max_qp = o->client_max_mr = o->client_max_ah = 2 * MANY;
	o->user_max_memory = 4ull << 30;
	open_client(&c);
	pd = alloc_pd(&c);
	cq = create_cq(&c, 16, 0);
	longest = most_updates = 0;
}

int main(void)
{
	start_server("pauses");
	open_large_client();
	test_qps();
	test_full_queues();
	test_send_queue_error();
	test_rings();
	test_keys();
	test_windows();
	test_groups();
	test_address_handles();
	close_client(&c);
	short_pauses("the end of the client with all of this");
	TAP_OK(nothing_left(), "nothing is left");
#ifdef __SANITIZE_THREAD__
	tap_skip("page faults in pauses", "memory of ThreadSanitizer causes page faults");
#else
	/* the kernel may take away pages that were in use */
	TAP_OK(faults <= pauses / 50, "%llu page faults in %llu pauses", (unsigned long long)faults,
	       (unsigned long long)pauses);
#endif
	fake_server_stop();
	return tap_end();
}
