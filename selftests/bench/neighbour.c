// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bad neighbours: programs that make a daemon work for them until they are killed. They print
 * "ready" when they begin.
 *
 *   neighbour KIND GID_INDEX [ARG...]
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pair.h"
#include "selftests/e2e/hostile.h"

#define GiB (1ull << 30)
#define MiB (1ull << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static char **args;
static int gid_index;

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void *map(size_t len, int flags, int fd)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);

	MUST(p != MAP_FAILED, "mmap");
	return p;
}

/* The control: consumes the same processor time. */
static void spin(void)
{
	for (;;)
		__asm__ volatile("");
}

static void burn(void)
{
	ready();
	spin();
}

/* ---- doorbells and QPs --------------------------------------------------------------------- */

/* bells COUNT SOCKET: connections without QPs that keep all doorbell bits set */
static void bells(void)
{
	int n = atoi(args[0]);
	struct conn *c = calloc((size_t)n, sizeof(*c));
	struct rlimit files = { 65536, 65536 };

	setrlimit(RLIMIT_NOFILE, &files);
	daemon_path = args[1];
	for (int i = 0; i < n; i++)
		MUST(conn_open(&c[i]), "HELLO");
	ready();
	for (;;) {
		for (int i = 0; i < n; i++) {
			struct xr_doorbell *d = c[i].doorbell;

			memset(d->bits2, 0xff, sizeof(d->bits2));
			memset(d->bits1, 0xff, sizeof(d->bits1));
			__atomic_store_n(&d->bits0, ~0ull, __ATOMIC_SEQ_CST);
			if (__atomic_load_n(&d->sleeping, __ATOMIC_SEQ_CST))
				eventfd_write(c[i].eventfd, 1);
		}
	}
}

/* serve COUNT PORT: the peer of busy QPs */
static void serve(void)
{
	struct pair p;
	char c;

	pair_open(&p, (uint32_t)atoi(args[0]), gid_index);
	pair_connect(&p, NULL, atoi(args[1]));
	while (read(p.sock, &c, 1) > 0)
		;
}

/* busy COUNT PORT HOST: QPs that always have WRITEs of 64 KiB posted */
static void busy(void)
{
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, (uint32_t)atoi(args[0]), gid_index);
	pair_connect(&p, args[2], atoi(args[1]));
	sge = (struct ibv_sge){ (uint64_t)p.buf, PAIR_MESSAGE, p.mr->lkey };
	ready();
	for (uint32_t i = 0; i < 2 * p.n; i++)
		pair_post(&p, i % p.n, IBV_WR_RDMA_WRITE, &sge, p.remote_addr, p.rkey);
	for (;;) {
		if (ibv_poll_cq(p.cq, 1, &wc) < 1)
			continue;
		MUST(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		pair_post(&p, (uint32_t)wc.wr_id, IBV_WR_RDMA_WRITE, &sge, p.remote_addr, p.rkey);
	}
}

/* ---- control requests ---------------------------------------------------------------------- */

/*
 * A program may use much processor time for requests when it starts. The victim is measured after
 * that time.
 */
#define START_NS 2500000000ull

static void ready_after_start(void)
{
	static uint64_t begin;
	static bool said;

	if (!begin)
		begin = now_ns();
	if (said || now_ns() - begin < START_NS)
		return;
	said = true;
	ready();
}

static void registrations(void)
{
	struct ibv_mr *mr;
	struct pair p;
	void *mem = map(GiB, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1);

	pair_open(&p, 1, gid_index);
	for (;;) {
		ready_after_start();
		mr = ibv_reg_mr(p.pd, mem, GiB, ACCESS);
		MUST(mr, "MR");
		ibv_dereg_mr(mr);
	}
}

static void creations(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1 },
	};
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct pair p;

	pair_open(&p, 1, gid_index);
	for (;;) {
		ready_after_start();
		cq = ibv_create_cq(p.ctx, 64, NULL, NULL, 0);
		MUST(cq, "CQ");
		init.send_cq = init.recv_cq = cq;
		qp = ibv_create_qp(p.pd, &init);
		MUST(qp, "QP");
		ibv_destroy_qp(qp);
		ibv_destroy_cq(cq);
	}
}

static void resizes(void)
{
	struct pair p;

	pair_open(&p, 1, gid_index);
	for (int i = 0;; i++) {
		ready_after_start();
		MUST(!ibv_resize_cq(p.cq, i % 2 ? 64 : 65536), "RESIZE_CQ");
	}
}

/* ---- private memory ------------------------------------------------------------------------ */

/* Regions on demand are accessed through the process's own memory file. */
static void stream_to(struct pair *p, uint8_t *to, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(p->pd, to, len, access);
	struct ibv_sge sge = { (uint64_t)p->buf, PAIR_MESSAGE, p->mr->lkey };
	struct ibv_wc wc;
	size_t off = 0;

	MUST(mr, "MR");
	pair_loopback(p);
	for (;;) {
		pair_post(p, 0, IBV_WR_RDMA_WRITE, &sge, (uint64_t)to + off, mr->rkey);
		off = (off + PAIR_MESSAGE) % len;
		MUST(next_completion(p->cq, &wc, 60) == 1, "no completion");
		if (wc.status == IBV_WC_SUCCESS)
			continue;
		/* the region may be broken for good */
		ibv_dereg_mr(mr);
		mr = ibv_reg_mr(p->pd, to, len, access);
		MUST(mr, "MR");
		pair_loopback(p);
	}
}

static void *run_mprotect(void *mem)
{
	for (;;) {
		mprotect(mem, 8 * GiB, PROT_READ);
		mprotect(mem, 8 * GiB, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

static void protections(void)
{
	uint8_t *zeros = map(8 * GiB, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	uint8_t *to = map(64 * MiB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	pthread_t thread;
	struct pair p;

	madvise(zeros, 8 * GiB, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < 8 * GiB; i += 4096)
		(void)*(volatile uint8_t *)(zeros + i);
	pair_open(&p, 1, gid_index);
	pthread_create(&thread, NULL, run_mprotect, zeros);
	ready();
	stream_to(&p, to, 64 * MiB, ACCESS | IBV_ACCESS_ON_DEMAND);
}

/* disk_file FILE */
static void disk_file(void)
{
	int fd = open(args[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct pair p;

	MUST(fd >= 0 && !ftruncate(fd, 256 * MiB), args[0]);
	unlink(args[0]);
	pair_open(&p, 1, gid_index);
	ready();
	stream_to(&p, map(256 * MiB, MAP_SHARED, fd), 256 * MiB, ACCESS);
}

static void transfer(uint8_t *mem, int ready_fd)
{
	struct pair p;

	pair_open(&p, 1, gid_index);
	MUST(write(ready_fd, "", 1) == 1, "pipe");
	stream_to(&p, mem, 64 * MiB, ACCESS | IBV_ACCESS_ON_DEMAND);
}

static void compute(uint8_t *mem, int ready_fd)
{
	(void)mem;
	MUST(write(ready_fd, "", 1) == 1, "pipe");
	spin();
}

/* A child with 6 GiB is killed while it runs, half a second after this program is ready. */
static void kill_child(void (*run)(uint8_t *mem, int ready_fd))
{
	int fds[2];
	pid_t child;
	char c;

	MUST(!pipe(fds), "pipe");
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(map(6 * GiB, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1), fds[1]);
	}
	close(fds[1]);
	MUST(read(fds[0], &c, 1) == 1, "the child has failed");
	ready();
	usleep(500000);
	kill(child, SIGKILL);
	spin();
}

static void killed(void)
{
	kill_child(transfer);
}

/* The control of killed: what it costs to free the memory of a program without RDMA device */
static void killed_loop(void)
{
	kill_child(compute);
}

static int holes_fd;

static void *run_punch(void *arg)
{
	for (;;)
		for (off_t off = 0; off < (off_t)(64 * MiB); off += 2 * (off_t)MiB)
			fallocate(holes_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off,
				  2 * (off_t)MiB);
	return NULL;
}

static void holes(void)
{
	pthread_t thread;
	struct pair p;
	uint8_t *mem;

	holes_fd = memfd_create("holes", 0);
	MUST(!ftruncate(holes_fd, 64 * MiB), "memfd");
	mem = map(64 * MiB, MAP_SHARED, holes_fd);
	pair_open(&p, 1, gid_index);
	pthread_create(&thread, NULL, run_punch, NULL);
	ready();
	stream_to(&p, mem, 64 * MiB, ACCESS);
}

static const struct {
	const char *name;
	void (*run)(void);
	int args;
} kinds[] = {
	{ "burn", burn, 0 },
	{ "bells", bells, 2 },
	{ "serve", serve, 2 },
	{ "busy", busy, 3 },
	{ "registrations", registrations, 0 },
	{ "creations", creations, 0 },
	{ "resizes", resizes, 0 },
	{ "protections", protections, 0 },
	{ "disk_file", disk_file, 1 },
	{ "killed", killed, 0 },
	{ "killed_loop", killed_loop, 0 },
	{ "holes", holes, 0 },
};

int main(int argc, char **argv)
{
	MUST(argc > 2, "arguments");
	gid_index = atoi(argv[2]);
	args = argv + 3;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name) && argc - 3 >= kinds[i].args)
			kinds[i].run();
	return 0;
}
