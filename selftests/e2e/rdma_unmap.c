// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Accesses registered memory that the program has unmapped: the work request ends with an error,
 * and the program goes on. Its own handlers of SIGSEGV and SIGBUS get its own faults only, whenever
 * they are installed, also in threads that never use verbs.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_util.h"

#define GID_INDEX 1
#define SIZE 65536
#define WAIT_S 10

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *good;
static char good_memory[SIZE];
static uint32_t psn;

/* ---- requests of a QP that is connected to itself ------------------------------------------- */

static void open_all(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 1, 1, 0 },
					 .sq_sig_all = 1 };

	ctx = open_device(NULL);
	MUST(ctx, "no device");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	good = ibv_reg_mr(pd, good_memory, SIZE,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_READ);
	MUST(pd && cq && qp && good, "objects");
}

static void connect_to_itself(void)
{
	struct ibv_qp_attr attr = rc_attr(GID_INDEX, own_gid(ctx, GID_INDEX), qp->qp_num);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	MUST(!ibv_modify_qp(qp, &reset, IBV_QP_STATE), "RESET");
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	attr.sq_psn = attr.rq_psn = psn += 4096;
	MUST(!reset_to_rts(qp, &attr), "RTS");
}

static enum ibv_wc_status transfer(enum ibv_wr_opcode opcode, const struct ibv_mr *local,
				   const struct ibv_mr *remote)
{
	struct ibv_sge sge = { (uintptr_t)local->addr, SIZE, local->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)remote->addr;
	wr.wr.rdma.rkey = remote->rkey;
	connect_to_itself();
	MUST(!ibv_post_send(qp, &wr, &bad), "post");
	MUST(next_completion(cq, &wc, WAIT_S) == 1, "no completion");
	return wc.status;
}

static char *map(int prot)
{
	char *p = mmap(NULL, SIZE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED, "mmap");
	return p;
}

static struct ibv_mr *registered(char *p)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p, SIZE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ);

	MUST(mr, "ibv_reg_mr");
	return mr;
}

static void refused(enum ibv_wr_opcode opcode, const struct ibv_mr *local,
		    const struct ibv_mr *remote, const char *what)
{
	MUST(transfer(opcode, local, remote) != IBV_WC_SUCCESS, what);
	MUST(transfer(IBV_WR_RDMA_WRITE, good, good) == IBV_WC_SUCCESS, "the QP works again");
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_unmapped(void)
{
	char *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = registered(p);

	MUST(transfer(IBV_WR_RDMA_WRITE, good, mr) == IBV_WC_SUCCESS, "mapped");
	MUST(!munmap(p + 4096, SIZE - 4096), "munmap");
	refused(IBV_WR_RDMA_WRITE, good, mr, "WRITE to unmapped memory");
	refused(IBV_WR_RDMA_READ, good, mr, "READ of unmapped memory");
	refused(IBV_WR_RDMA_READ, mr, good, "READ to unmapped memory");
	refused(IBV_WR_RDMA_WRITE, mr, good, "WRITE of unmapped memory");
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	munmap(p, 4096);
}

static void test_protected(void)
{
	char *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = registered(p);

	MUST(!mprotect(p, SIZE, PROT_READ), "mprotect");
	refused(IBV_WR_RDMA_WRITE, good, mr, "WRITE to protected memory");
	MUST(!mprotect(p, SIZE, PROT_NONE), "mprotect");
	refused(IBV_WR_RDMA_READ, good, mr, "READ of protected memory");
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	munmap(p, SIZE);
}

/* SIGBUS */
static void test_truncated(void)
{
	int fd = memfd_create("truncated", MFD_CLOEXEC);
	struct ibv_mr *mr;
	char *p;

	MUST(fd >= 0 && !ftruncate(fd, SIZE), "memfd");
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(p != MAP_FAILED, "mmap");
	mr = registered(p);
	MUST(!ftruncate(fd, 4096), "ftruncate");
	refused(IBV_WR_RDMA_WRITE, good, mr, "WRITE behind the end of a file");
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	munmap(p, SIZE);
	close(fd);
}

/* Memory that cannot be registered */
static void test_registration(void)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE;
	char *p = map(PROT_READ | PROT_WRITE);

	MUST(!munmap(p + SIZE / 2, SIZE / 2), "munmap");
	MUST(!ibv_reg_mr(pd, p, SIZE, rights) && errno == EFAULT, "partly mapped memory");
	MUST(!mprotect(p, 4096, PROT_READ), "mprotect");
	MUST(!ibv_reg_mr(pd, p, SIZE / 2, rights) && errno == EFAULT, "read-only memory");
	MUST(!mprotect(p, 4096, PROT_NONE), "mprotect");
	MUST(!ibv_reg_mr(pd, p, SIZE / 2, 0) && errno == EFAULT, "memory without rights");
	munmap(p, SIZE / 2);
}

/* ---- the program's own faults -------------------------------------------------------------- */

static volatile int *volatile nowhere = (int *)16;
static sigjmp_buf back;
static volatile sig_atomic_t own, plain;

static void on_own(int sig, siginfo_t *info, void *context)
{
	(void)context;
	own += sig == SIGSEGV && info->si_addr == (void *)nowhere;
	siglongjmp(back, 1);
}

static void on_plain(int sig)
{
	plain += sig == SIGSEGV;
	siglongjmp(back, 1);
}

static void fault(void)
{
	if (!sigsetjmp(back, 1))
		*nowhere = 1;
}

static void install_own(void)
{
	struct sigaction sa = { .sa_sigaction = on_own, .sa_flags = SA_SIGINFO };

	MUST(!sigaction(SIGSEGV, &sa, NULL), "sigaction");
}

static void *fault_in_thread(void *arg)
{
	fault();
	return arg;
}

static void test_own_faults(void)
{
	struct sigaction sa;
	sigset_t mask;
	pthread_t t;

	own = plain = 0;
	for (int i = 1; i <= 3; i++) {
		fault();
		MUST(own == i, "own fault");
		test_unmapped();
	}
	MUST(!pthread_create(&t, NULL, fault_in_thread, NULL) && !pthread_join(t, NULL), "thread");
	MUST(own == 4, "own fault in a thread without verbs");
	MUST(!pthread_sigmask(SIG_BLOCK, NULL, &mask) && !sigismember(&mask, SIGSEGV), "mask");
	MUST(!sigaction(SIGSEGV, NULL, &sa) && sa.sa_sigaction == on_own, "sigaction() reports");
	MUST(sa.sa_flags & SA_SIGINFO, "sigaction() reports the flags");
	MUST((void *)signal(SIGSEGV, on_plain) == (void *)on_own, "signal() reports");
	fault();
	MUST(plain == 1 && own == 4, "handler of signal()");
	test_unmapped();
	install_own();
}

/* A thread that blocks all signals polls the CQ. */
static void *blocked(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	test_unmapped();
	return arg;
}

static void test_blocked(void)
{
	pthread_t t;

	MUST(!pthread_create(&t, NULL, blocked, NULL) && !pthread_join(t, NULL), "thread");
}

/* Without a handler, a fault of the program ends it as usual. */
static void test_ends(int how)
{
	pid_t pid = fork();
	int status;

	MUST(pid >= 0, "fork");
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		if (how)
			raise(SIGSEGV);
		else
			*nowhere = 1;
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
	     "the program ends with SIGSEGV");
}

int main(void)
{
	install_own();
	open_all();
	test_unmapped();
	test_protected();
	test_truncated();
	test_registration();
	test_own_faults();
	install_own();
	test_own_faults();
	test_blocked();
	test_ends(0);
	test_ends(1);
	MUST(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(good) &&
		     !ibv_dealloc_pd(pd) && !ibv_close_device(ctx),
	     "clean-up");
	return 0;
}
