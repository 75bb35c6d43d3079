// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Direct verbs: each refused call has a reason, which XROCE_DEBUG prints. Every test makes one call
 * that fails, and checks its error and words of what is printed.
 */
#include "fixture.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../lib/direct_verbs.h"
#include "../lib/tap.h"

#define PAGE 4096u
#define ADDR 0x7000000000ull
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct direct_verbs dv;

static struct objects {
	struct fixture *f;
	struct ibv_cq *cq;
	struct ibv_qp *qp;	 /* in RTS */
	struct ibv_qp *init;	 /* in INIT */
	struct ibv_qp *all, *uc; /* with sq_sig_all; UC */
	struct ibv_pd *other;
	struct ibv_mr *mr, *stranger, *small, *plain, *pi;
	struct ibv_context foreign;
	struct ibv_pd foreign_pd;
	struct ibv_qp foreign_qp;
} o;

/* ---- what is printed ---------------------------------------------------------------- */

static int printed_to, before;
static char printed[2048];

static void redirect(void)
{
	printed_to = memfd_create("stderr", 0);
	before = dup(2);
	dup2(printed_to, 2);
}

static const char *restore(void)
{
	ssize_t n;

	dup2(before, 2);
	n = pread(printed_to, printed, sizeof(printed) - 1, 0);
	printed[n > 0 ? n : 0] = 0;
	close(before);
	close(printed_to);
	return printed;
}

/*
 * Makes the call, whose result is an errno of either sign, or 0. The reason must begin with the
 * name of the verb and have the words.
 */
#define REFUSED(call, error, verb, words)                                                          \
	do {                                                                                       \
		int err_;                                                                          \
                                                                                                   \
		redirect();                                                                        \
		err_ = (call);                                                                     \
		restore();                                                                         \
		err_ = err_ < 0 ? -err_ : err_;                                                    \
		TAP_OK(err_ == (error) &&                                                          \
			       !strncmp(printed, "xroce: " verb, strlen("xroce: " verb)) &&        \
			       strstr(printed, words),                                             \
		       verb ": " words);                                                           \
		if (err_ != (error) || !strstr(printed, words))                                    \
			printf("# %d, expected %d; %s\n", err_, (error), printed);                 \
	} while (0)

/* The error of a function that returns a pointer */
#define ERRNO(call) (errno = 0, (call) ? 0 : errno)

/* ---- regions -------------------------------------------------------------------------- */

static int map_sg(struct ibv_mr *mr, struct xrocedv_sg a, struct xrocedv_sg b, uint64_t off,
		  uint32_t page_size)
{
	struct xrocedv_sg sg[2] = { a, b };
	int n = dv.map_mr_sg(mr, sg, 2, &off, page_size);

	return n < 0 ? n : 0;
}

#define GOOD ((struct xrocedv_sg){ ADDR, PAGE })
#define EMPTY ((struct xrocedv_sg){ ADDR, 0 })
#define HIGH ((struct xrocedv_sg){ 1ull << 52, PAGE })

static int fill_queue(void)
{
	int err;

	do
		err = dv.post_reg_mr(o.qp, o.mr, 1, RW, 0);
	while (!err);
	return err;
}

static void regions(void)
{
	struct xrocedv_sg good = GOOD;

	REFUSED(ERRNO(dv.alloc_mr(&o.foreign_pd, 1)), EOPNOTSUPP, "xrocedv_alloc_mr",
		"not of an xroce device");
	REFUSED(ERRNO(dv.alloc_mr(o.f->pd, 0)), EINVAL, "xrocedv_alloc_mr",
		"max_pages 0; 1 to 4096");
	REFUSED(map_sg(o.plain, GOOD, GOOD, 0, PAGE), EINVAL, "xrocedv_map_mr_sg",
		"not one of xrocedv_alloc_mr()");
	REFUSED(map_sg(o.mr, GOOD, GOOD, 0, 5000), EINVAL, "xrocedv_map_mr_sg",
		"page_size 5000; a power of two from 4096 to 1073741824");
	REFUSED(dv.map_mr_sg(o.mr, &good, 0, NULL, PAGE), EINVAL, "xrocedv_map_mr_sg",
		"nents 0; 1 or more");
	REFUSED(map_sg(o.mr, GOOD, GOOD, PAGE, PAGE), EINVAL, "xrocedv_map_mr_sg",
		"sg_offset is not within the first element");
	REFUSED(map_sg(o.mr, GOOD, EMPTY, 0, PAGE), EINVAL, "xrocedv_map_mr_sg",
		"an element is empty");
	REFUSED(map_sg(o.small, GOOD, GOOD, 0, XROCEDV_SG_GAPS), EINVAL, "xrocedv_map_mr_sg",
		"XROCEDV_SG_GAPS needs max_pages of 2");
	REFUSED(map_sg(o.mr, GOOD, HIGH, 0, XROCEDV_SG_GAPS), EINVAL, "xrocedv_map_mr_sg",
		"beyond address 2^52");
	REFUSED(dv.post_reg_mr(o.qp, o.plain, 1, RW, 0), EINVAL, "xrocedv_post_reg_mr",
		"not one of xrocedv_alloc_mr()");
	REFUSED(dv.post_reg_mr(o.qp, o.mr, 1, RW, 0), EINVAL, "xrocedv_post_reg_mr",
		"no pages are set");
	dv.map_mr_sg(o.mr, &good, 1, NULL, PAGE);
	dv.map_mr_sg(o.stranger, &good, 1, NULL, PAGE);
	REFUSED(dv.post_reg_mr(o.qp, o.mr, 1, RW, IBV_SEND_INLINE), EINVAL, "xrocedv_post_reg_mr",
		"send_flags 0x8, known 0x3");
	REFUSED(dv.post_reg_mr(o.qp, o.stranger, 1, RW, 0), EPERM, "xrocedv_post_reg_mr",
		"region and QP are of different protection domains");
	REFUSED(dv.post_reg_mr(o.init, o.mr, 1, RW, 0), EINVAL, "xrocedv_post_reg_mr",
		"the QP is in state 1");
	REFUSED(fill_queue(), ENOMEM, "xrocedv_post_reg_mr", "the queue is full: max_send_wr is 8");
}

/* ---- integrity regions ---------------------------------------------------------------- */

static int post_pi(uint32_t block, enum xrocedv_signature_type memory,
		   enum xrocedv_signature_type wire, struct ibv_sge data, uint32_t num_pi)
{
	struct ibv_sge pi = { ADDR, 8, 1 };
	struct xrocedv_integrity_attr a = {
		.access = RW,
		.block_size = block,
		.memory = { .type = memory },
		.wire = { .type = wire },
		.data = &data,
		.num_data = 1,
		.pi = &pi,
		.num_pi = num_pi,
	};

	return dv.post_reg_integrity(o.init, o.pi, &a);
}

#define BLOCK ((struct ibv_sge){ ADDR, 512, 1 })

static void integrity(void)
{
	struct xrocedv_integrity_error error;
	struct xrocedv_integrity_attr attr = { .send_flags = 0 };

	REFUSED(ERRNO(dv.alloc_integrity_mr(&o.foreign_pd, 1)), EOPNOTSUPP,
		"xrocedv_alloc_integrity_mr", "not of an xroce device");
	REFUSED(ERRNO(dv.alloc_integrity_mr(o.f->pd, 1025)), EINVAL, "xrocedv_alloc_integrity_mr",
		"max_pieces 1025; 1 to 1024");
	REFUSED(dv.post_reg_integrity(o.qp, o.mr, &attr), EINVAL, "xrocedv_post_reg_integrity",
		"not one of xrocedv_alloc_integrity_mr()");
	REFUSED(dv.check_integrity(o.mr, &error), EINVAL, "xrocedv_check_integrity",
		"not one of xrocedv_alloc_integrity_mr()");
	REFUSED(post_pi(512, XROCEDV_SIG_NONE, 77, BLOCK, 0), EINVAL, "xrocedv_post_reg_integrity",
		"a signature has an unknown type");
	REFUSED(post_pi(512, XROCEDV_SIG_NONE, XROCEDV_SIG_NONE, BLOCK, 0), EINVAL,
		"xrocedv_post_reg_integrity", "neither memory nor wire has a signature");
	REFUSED(post_pi(1000, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32, BLOCK, 0), EINVAL,
		"xrocedv_post_reg_integrity", "block_size 1000; 512, 520, 4096 or 4104");
	REFUSED(post_pi(512, XROCEDV_SIG_CRC32, XROCEDV_SIG_CRC32, BLOCK, 9), EINVAL,
		"xrocedv_post_reg_integrity", "num_data 1 and num_pi 9");
	REFUSED(post_pi(512, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32, BLOCK, 1), EINVAL,
		"xrocedv_post_reg_integrity", "but memory has no signature");
	REFUSED(post_pi(512, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32, ((struct ibv_sge){ ADDR, 0, 1 }),
			0),
		EINVAL, "xrocedv_post_reg_integrity", "a piece is empty");
	REFUSED(post_pi(520, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32, BLOCK, 0), EINVAL,
		"xrocedv_post_reg_integrity", "do not hold whole blocks");
	REFUSED(post_pi(512, XROCEDV_SIG_CRC32, XROCEDV_SIG_NONE, BLOCK, 1), EINVAL,
		"xrocedv_post_reg_integrity", "do not hold the PI of all blocks");
	REFUSED(post_pi(512, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32,
			((struct ibv_sge){ -515ull, 512, 1 }), 0),
		EINVAL, "xrocedv_post_reg_integrity", "the region exceeds the address space");
	REFUSED(post_pi(512, XROCEDV_SIG_NONE, XROCEDV_SIG_CRC32, BLOCK, 0), EINVAL,
		"xrocedv_post_reg_integrity", "the QP is in state 1");
}

/* ---- RW contexts ----------------------------------------------------------------------- */

static struct ibv_sge pieces[2] = { { 0x10000, 100, 1 }, { 0x20000, 100, 1 } };

static struct xrocedv_rw_attr rw_attr(void)
{
	return (struct xrocedv_rw_attr){ .direction = XROCEDV_RW_READ,
					 .remote_addr = ADDR,
					 .sg = pieces,
					 .nents = 2,
					 .page_size = PAGE };
}

static int create_rw(struct ibv_qp *qp, struct xrocedv_rw_attr a)
{
	struct xrocedv_rw *rw = dv.rw_create(qp, &a);

	if (rw)
		dv.rw_destroy(rw);
	return rw ? 0 : errno;
}

#define CREATE_RW(qp, field, value, error, words)                                                  \
	do {                                                                                       \
		struct xrocedv_rw_attr a_ = rw_attr();                                             \
                                                                                                   \
		a_.field = value;                                                                  \
		REFUSED(create_rw(qp, a_), error, "xrocedv_rw_create", words);                     \
	} while (0)

static int create_rw_with(struct ibv_mr *first, struct ibv_mr *second)
{
	struct ibv_mr *mr[2] = { first, second };
	struct xrocedv_rw_attr a = rw_attr();

	a.mr = mr;
	a.num_mr = second ? 2 : 1;
	return create_rw(o.qp, a);
}

static void rw_contexts(void)
{
	CREATE_RW(&o.foreign_qp, nents, 2, EOPNOTSUPP, "not of an xroce device");
	CREATE_RW(o.qp, direction, 7, EINVAL, "direction 7 is not known");
	CREATE_RW(o.uc, nents, 2, EINVAL, "type is not RC, nor UC for WRITEs");
	CREATE_RW(o.all, nents, 2, EINVAL, "the QP has sq_sig_all");
	CREATE_RW(o.qp, nents, 0, EINVAL, "nents 0; 1 or more");
	CREATE_RW(o.qp, sg_offset, 200, EINVAL, "sg_offset skips all pieces");
	CREATE_RW(o.qp, remote_addr, -100ull, EINVAL, "the remote memory exceeds");
	pieces[1].length = 0;
	CREATE_RW(o.qp, nents, 2, EINVAL, "a piece is empty");
	pieces[1].length = 100;
	REFUSED(create_rw_with(o.plain, NULL), EINVAL, "xrocedv_rw_create",
		"or not one of xrocedv_alloc_mr()");
	REFUSED(create_rw_with(o.stranger, NULL), EPERM, "xrocedv_rw_create",
		"region and QP are of different protection domains");
	REFUSED(create_rw_with(o.mr, o.mr), EINVAL, "xrocedv_rw_create", "mr has a region twice");
	REFUSED(create_rw_with(o.mr, NULL), ENOSPC, "xrocedv_rw_create",
		"1 regions cannot hold all of 2 pieces");
}

/* The queue of o.qp is full; that of o.init, which has 8 entries, is empty. */
static void rw_posts(void)
{
	struct xrocedv_rw_attr a = rw_attr();
	struct ibv_send_wr chain[9] = { { .opcode = IBV_WR_SEND } }, bad = { .num_sge = 9 };
	struct xrocedv_rw *full = dv.rw_create(o.qp, &a), *rw = dv.rw_create(o.init, &a);
	struct ibv_mw *window = ibv_alloc_mw(o.f->pd, IBV_MW_TYPE_1);
	struct ibv_send_wr bind = { .opcode = IBV_WR_BIND_MW, .bind_mw.mw = window };

	for (int i = 1; i < 9; i++)
		chain[i] = (struct ibv_send_wr){ .opcode = IBV_WR_SEND, .next = &chain[i - 1] };
	REFUSED(dv.rw_post(full, 1, NULL), ENOMEM, "xrocedv_rw_post",
		"the queue is full: max_send_wr is 8");
	REFUSED(dv.rw_post(rw, 1, NULL), EINVAL, "xrocedv_rw_post", "the QP is in state 1");
	to_state(o.init, IBV_QPS_RTS);
	REFUSED(dv.rw_post(rw, 1, &chain[8]), EINVAL, "xrocedv_rw_post",
		"a chain of 9 WRs, but max_send_wr is 8");
	REFUSED(dv.rw_post(rw, 1, &bad), EINVAL, "xrocedv_rw_post", "num_sge 9, limit 2");
	REFUSED(dv.rw_post(rw, 1, &bind), EINVAL, "xrocedv_rw_post",
		"a window of type 1; ibv_bind_mw is for type 1, this for type 2");
	dv.rw_post(rw, 1, NULL);
	REFUSED(dv.rw_post(rw, 1, NULL), EALREADY, "xrocedv_rw_post",
		"the context was posted before");
	dv.rw_destroy(rw);
	dv.rw_destroy(full);
	ibv_dealloc_mw(window);
}

/* ---- pools ------------------------------------------------------------------------------ */

static struct xrocedv_pool_attr pool_attr(void)
{
	return (struct xrocedv_pool_attr){
		.max_pages = 2, .page_size = PAGE, .pool_size = 1, .access = RW
	};
}

#define CREATE_POOL(field, value, words)                                                           \
	do {                                                                                       \
		struct xrocedv_pool_attr a_ = pool_attr();                                         \
                                                                                                   \
		a_.field = value;                                                                  \
		REFUSED(ERRNO(dv.create_pool(o.f->pd, &a_)), EINVAL, "xrocedv_create_pool",        \
			words);                                                                    \
	} while (0)

static void pools(void)
{
	struct xrocedv_pool_attr a = pool_attr();
	struct xrocedv_sg three = { ADDR, 3 * PAGE }, one = GOOD, empty = EMPTY;
	const struct xrocedv_mapping *m;
	struct xrocedv_pool *pool;

	REFUSED(ERRNO(dv.create_pool(&o.foreign_pd, &a)), EOPNOTSUPP, "xrocedv_create_pool",
		"not of an xroce device");
	CREATE_POOL(max_pages, 0, "max_pages 0; 1 to 4096");
	CREATE_POOL(pool_size, 70000, "pool_size 70000; 1 to 65536");
	CREATE_POOL(dirty_watermark, 2, "dirty_watermark 2, limit 1");
	CREATE_POOL(flags, 6, "flags 0x6, known 0x1");
	CREATE_POOL(page_size, 4097, "page_size 4097; a power of two");
	CREATE_POOL(access, IBV_ACCESS_REMOTE_WRITE, "access 0x2");
	fake_automatic(&o.f->daemon, true, 0);
	pool = dv.create_pool(o.f->pd, &a);
	REFUSED(ERRNO(dv.pool_map(pool, &empty, 1)), EINVAL, "xrocedv_pool_map",
		"sg_offset is not within the first element");
	REFUSED(ERRNO(dv.pool_map(pool, &three, 1)), EINVAL, "xrocedv_pool_map",
		"one mapping cannot hold the list: max_pages is 2");
	m = dv.pool_map(pool, &one, 1);
	one.addr += PAGE;
	REFUSED(ERRNO(dv.pool_map(pool, &one, 1)), EAGAIN, "xrocedv_pool_map",
		"all regions are mapped: pool_size is 1");
	REFUSED(dv.destroy_pool(pool), EBUSY, "xrocedv_destroy_pool", "mapping 0 is in use");
	dv.pool_unmap(m);
	REFUSED(dv.pool_unmap(m), EINVAL, "xrocedv_pool_unmap", "the mapping is not mapped");
	fake_automatic(&o.f->daemon, true, 1);
	REFUSED(dv.flush_pool(pool), EIO, "xrocedv_flush_pool", "could not invalidate all");
	fake_automatic(&o.f->daemon, true, 1);
	REFUSED(ERRNO(dv.pool_map(pool, &one, 1)), EIO, "xrocedv_pool_map",
		"could not register the pages");
	dv.destroy_pool(pool);
	fake_automatic(&o.f->daemon, false, 0);
}

/* ---- other direct verbs ------------------------------------------------------------------- */

static int never(struct ibv_cq *cq, void *arg)
{
	return 0;
}

static void others(void)
{
	struct xrocedv_drain_attr attr = { .timeout_ms = 1, .poll = never };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD };
	__typeof__(xrocedv_create_gsi_qp) *gsi = dlsym(RTLD_DEFAULT, "xrocedv_create_gsi_qp");
	__typeof__(xrocedv_set_faults) *faults = dlsym(RTLD_DEFAULT, "xrocedv_set_faults");
	uint32_t key;

	REFUSED(ERRNO(gsi(&o.foreign_pd, &init)), EOPNOTSUPP, "xrocedv_create_gsi_qp",
		"not of an xroce device");
	REFUSED(dv.reserved_lkey(&o.foreign_pd, &key), EOPNOTSUPP, "xrocedv_reserved_lkey",
		"not of an xroce device");
	REFUSED(faults(&o.foreign, ""), EOPNOTSUPP, "xrocedv_set_faults", "not of an xroce device");
	REFUSED(dv.drain_sq(&o.foreign_qp, &attr), EOPNOTSUPP, "xrocedv_drain",
		"not of an xroce device");
	REFUSED(dv.drain_sq(o.qp, &attr), ETIMEDOUT, "xrocedv_drain",
		"timeout_ms 1: completions of the send queue were not polled");
	attr.timeout_ms = 2;
	REFUSED(dv.drain_rq(o.qp, &attr), ETIMEDOUT, "xrocedv_drain",
		"timeout_ms 2: completions of the receive queue were not polled");
}

/* Prints the tests of a child process, which the parent counts as one. */
static void in_child(void)
{
	struct xrocedv_drain_attr attr = { .timeout_ms = 1 };
	struct xrocedv_rw_attr a = rw_attr();
	struct xrocedv_rw *rw = dv.rw_create(o.uc, (a.direction = XROCEDV_RW_WRITE, &a));
	struct ibv_wc wc;
	int status = -1;
	pid_t child;

	redirect();
	child = fork();
	if (!child)
		_exit(dv.post_reg_mr(o.init, o.mr, 1, RW, 0) != EIO ||
		      dv.rw_post(rw, 1, NULL) != EIO || dv.drain_sq(o.init, &attr) != EIO ||
		      ibv_poll_cq(o.cq, 1, &wc) != -1);
	waitpid(child, &status, 0);
	restore();
	TAP_OK(!status && strstr(printed, "xrocedv_post_reg_mr: Input/output error: the object") &&
		       strstr(printed, "xrocedv_rw_post: Input/output error: the object") &&
		       strstr(printed, "xrocedv_drain_sq, _rq, _qp: Input/output error: the obj") &&
		       strstr(printed, "ibv_poll_cq: Input/output error: the object"),
	       "child process: reasons");
	dv.rw_destroy(rw);
}

/* malloc() fails once the address space is exhausted. */
static void without_memory(void)
{
	struct xrocedv_pool_attr a = pool_attr();
	struct rlimit old, none = { 0 };
	int err;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	tap_skip("xrocedv_create_pool: the program cannot allocate memory",
		 "sanitizers need address space");
	return;
#endif
	a.pool_size = XROCEDV_MAX_POOL;
	a.max_pages = XROCEDV_MAX_PAGES;
	redirect();
	getrlimit(RLIMIT_AS, &old);
	none.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_AS, &none);
	err = ERRNO(dv.create_pool(o.f->pd, &a));
	setrlimit(RLIMIT_AS, &old);
	restore();
	TAP_OK(err == ENOMEM && strstr(printed, "xrocedv_create_pool: Cannot allocate memory: the "
						"program cannot allocate memory"),
	       "xrocedv_create_pool: the program cannot allocate memory");
}

static void set_up(struct fixture *f)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UC,
					 .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	static uint8_t buf[64];

	o.f = f;
	o.cq = ibv_create_cq(f->ctx, 64, NULL, NULL, 0);
	o.qp = make_qp(f, o.cq, o.cq, IBV_QPS_RTS);
	o.init = make_qp(f, o.cq, o.cq, IBV_QPS_INIT);
	init.send_cq = init.recv_cq = o.cq;
	o.uc = ibv_create_qp(f->pd, &init);
	init.qp_type = IBV_QPT_RC;
	init.sq_sig_all = 1;
	o.all = ibv_create_qp(f->pd, &init);
	o.other = ibv_alloc_pd(f->ctx);
	o.mr = dv.alloc_mr(f->pd, 2);
	o.small = dv.alloc_mr(f->pd, 1);
	o.stranger = dv.alloc_mr(o.other, 2);
	o.pi = dv.alloc_integrity_mr(f->pd, 2);
	o.plain = ibv_reg_mr(f->pd, buf, sizeof(buf), 0);
	o.foreign_pd.context = o.foreign_qp.context = &o.foreign;
}

static void tear_down(struct fixture *f)
{
	struct ibv_mr *mr[] = { o.mr, o.small, o.stranger, o.pi, o.plain };
	struct ibv_qp *qp[] = { o.qp, o.init, o.uc, o.all };

	for (unsigned int i = 0; i < sizeof(mr) / sizeof(mr[0]); i++)
		ibv_dereg_mr(mr[i]);
	for (unsigned int i = 0; i < sizeof(qp) / sizeof(qp[0]); i++)
		ibv_destroy_qp(qp[i]);
	ibv_destroy_cq(o.cq);
	ibv_dealloc_pd(o.other);
	teardown(f);
}

int main(void)
{
	struct fixture f;

	TAP_OK(find_direct_verbs(&dv), "libxroce.so exports the direct verbs");
	setup(&f);
	set_up(&f);
	setenv("XROCE_DEBUG", "1", 1);
	alarm(100);
	regions();
	integrity();
	rw_contexts();
	rw_posts();
	pools();
	others();
	in_child();
	without_memory();
	tear_down(&f);
	return tap_end();
}
