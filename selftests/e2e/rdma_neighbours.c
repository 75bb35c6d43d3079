// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * rdma_neighbours GID-INDEX MODE ARG...: a program whose memory takes the daemon long, or for ever.
 * It connects a QP to itself and WRITEs from and to such memory until it is killed, or for a number
 * of messages.
 *
 *   hang FILE      reads a mapping of a file on demand; prints "posted", then waits for ever
 *   close FILE     has the daemon close a file; prints "posted", then waits for ever
 *   register SOCKET FILE  registers a mapping of a file; prints "posted", then waits for ever
 *   proc SOCKET FILE      sends a file to the daemon in place of /proc/self/mem; prints "posted"
 *                         when the daemon has refused it, then waits for ever
 *   file FILE N    N WRITEs to a shared mapping of a file, which gets their data
 *   protect N      N WRITEs from memory that another thread protects and unprotects
 *   big N          N WRITEs in a big address space, then more until it is killed
 *   requests       creates and destroys CQs until it is killed
 *
 * The modes with N print "completed" after N WRITEs of 1 MiB, and do not end before they are
 * killed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hostile.h"
#include "verbs_util.h"

#define LEN (1u << 20) /* of one message */
#define BIG (1ul << 30)
#define RW (PROT_READ | PROT_WRITE)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static int gid_index;

static void open_loopback(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr;

	ctx = open_device(NULL);
	MUST(ctx, "open_device");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	MUST(pd && cq, "objects");
	qp = ibv_create_qp(pd, &init);
	MUST(qp, "ibv_create_qp");
	attr = rc_attr(gid_index, own_gid(ctx, gid_index), qp->qp_num);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	MUST(!reset_to_rts(qp, &attr), "connect");
}

static struct ibv_mr *reg_as(void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p, len,
				       access | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	MUST(mr, "ibv_reg_mr");
	return mr;
}

static struct ibv_mr *reg(void *p, size_t len)
{
	return reg_as(p, len, 0);
}

static void *map(int fd, size_t len)
{
	void *p = mmap(NULL, len, RW,
		       fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);

	MUST(p != MAP_FAILED, "mmap");
	return p;
}

static void post(const struct ibv_mr *from, const struct ibv_mr *to, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)from->addr, len, from->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
	wr.wr.rdma.rkey = to->rkey;
	MUST(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

static void complete(void)
{
	struct ibv_wc wc;

	MUST(next_completion(cq, &wc, 60) == 1, "completion");
	if (wc.status)
		fprintf(stderr, "completed with %s\n", ibv_wc_status_str(wc.status));
	MUST(!wc.status, "WRITE");
}

/* For the test, which then looks at this process and its mover */
static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

_Noreturn static void wait_for_end(const char *text)
{
	say(text);
	for (;;)
		pause();
}

_Noreturn static void run_hang(const char *path)
{
	int fd = open(path, O_RDWR);
	struct ibv_mr *from, *to;

	MUST(fd >= 0, path);
	/* on demand: the registration of another region would hang itself */
	from = reg_as(map(fd, LEN), LEN, IBV_ACCESS_ON_DEMAND);
	to = reg(map(-1, LEN), LEN);
	post(from, to, 8);
	wait_for_end("posted");
}

_Noreturn static void run_close(const char *path)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = open(path, O_RDWR),
		.oflags = O_CREAT,
	};

	MUST(attr.fd >= 0, path);
	MUST(ibv_open_xrcd(ctx, &attr), "ibv_open_xrcd");
	wait_for_end("posted");
}

/* The library would ask the file system itself, so these send requests without it. */
_Noreturn static void run_register(const char *daemon, const char *path)
{
	int fd = open(path, O_RDWR);
	struct conn c;

	daemon_path = daemon;
	MUST(fd >= 0, path);
	MUST(conn_open(&c), daemon);
	MUST(make_mr(&c, make_pd(&c), map(fd, LEN), LEN, true), "REG_MR");
	wait_for_end("posted");
}

/* The gate passes an O_PATH descriptor without asking its file system. */
_Noreturn static void run_proc(const char *daemon, const char *path)
{
	int opened = open(path, O_RDWR), fds[2] = { open(path, O_PATH), open(path, O_PATH) };
	struct new_mr mr = { .addr = map(-1, LEN), .length = LEN };
	struct conn c;
	uint32_t key;

	daemon_path = daemon;
	MUST(opened >= 0 && fds[0] >= 0 && fds[1] >= 0, path);
	MUST(conn_open(&c), daemon);
	mr.pd = make_pd(&c);
	MUST(send_mr(&c, &mr, fds, &key) < 0, "a reply with an error");
	wait_for_end("posted");
}

_Noreturn static void run_file(const char *path, int n)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	struct ibv_mr *from = reg(map(-1, LEN), LEN), *to;

	MUST(fd >= 0 && !ftruncate(fd, LEN), path);
	to = reg(map(fd, LEN), LEN);
	for (int i = 0; i < n; i++) {
		fill_pattern(from->addr, LEN, (uint32_t)i, 0);
		post(from, to, LEN);
		complete();
		MUST(has_pattern(to->addr, LEN, (uint32_t)i, 0), "the file has other bytes");
	}
	wait_for_end("completed");
}

static void *protect(void *p)
{
	for (int prot = PROT_READ;; prot ^= PROT_WRITE)
		mprotect(p, BIG, prot);
	return NULL;
}

_Noreturn static void run_protect(int n)
{
	uint8_t *p = map(-1, BIG), *q = map(-1, 2 * LEN) + 1; /* partly private */
	struct ibv_mr *from = reg(p + BIG / 2 + 1, LEN), *to = reg(q, LEN);
	pthread_t thread;

	fill_pattern(from->addr, LEN, 1, 0);
	for (size_t at = 0; at < BIG; at += 2u << 20)
		(void)*(volatile uint8_t *)(p + at);
	MUST(!pthread_create(&thread, NULL, protect, p), "pthread_create");
	for (int i = 0; i < n; i++) {
		memset(to->addr, 0, LEN);
		post(from, to, LEN);
		complete();
		MUST(has_pattern(to->addr, LEN, 1, 0), "wrong bytes");
	}
	wait_for_end("completed");
}

_Noreturn static void run_big(int n)
{
	uint8_t *p = map(-1, BIG);
	struct ibv_mr *from = reg(p + 1, LEN), *to = reg(p + BIG / 2 + 1, LEN);

	memset(p, 1, BIG);
	for (int i = 0;; i++) {
		if (i == n)
			say("completed");
		post(from, to, LEN);
		complete();
	}
}

_Noreturn static void run_requests(void)
{
	struct ibv_cq *more;

	say("requests");
	for (;;) {
		more = ibv_create_cq(ctx, 16, NULL, NULL, 0);
		MUST(more, "CQ");
		ibv_destroy_cq(more);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "";

	MUST(argc > 2, "usage: rdma_neighbours GID-INDEX MODE [FILE] [N]");
	gid_index = atoi(argv[1]);
	open_loopback();
	if (!strcmp(mode, "hang") && argc == 4)
		run_hang(argv[3]);
	if (!strcmp(mode, "close") && argc == 4)
		run_close(argv[3]);
	if (!strcmp(mode, "register") && argc == 5)
		run_register(argv[3], argv[4]);
	if (!strcmp(mode, "proc") && argc == 5)
		run_proc(argv[3], argv[4]);
	if (!strcmp(mode, "file") && argc == 5)
		run_file(argv[3], atoi(argv[4]));
	if (!strcmp(mode, "protect") && argc == 4)
		run_protect(atoi(argv[3]));
	if (!strcmp(mode, "big") && argc == 4)
		run_big(atoi(argv[3]));
	if (!strcmp(mode, "requests"))
		run_requests();
	return 2;
}
