// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What programs do around verbs: threads that are cancelled, signals, privileges that are given up, pointers
 * and descriptors that are no longer good.
 */
#include "fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "../lib/tap.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MIB (1ul << 20)
#define NOBODY 65534

/* ---- cancellation -------------------------------------------------------------- */

struct job {
	struct fixture *f;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int done;
};

static bool is_cancelled(void *(*run)(void *), struct job *j)
{
	void *result = NULL;
	pthread_t thread;

	j->done = 0;
	pthread_create(&thread, NULL, run, j);
	pthread_join(thread, &result);
	return result == PTHREAD_CANCELED;
}

static void *use_verbs(void *arg)
{
	void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_device_attr attr;
	struct job *j = arg;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	pthread_cancel(pthread_self());
	j->done += !ibv_query_device(j->f->ctx, &attr);
	pd = ibv_alloc_pd(j->f->ctx);
	mr = ibv_reg_mr(pd, p, MIB, ALL);
	j->done += mr && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd);
	j->done += !post_send(j->qp, 1, 1); /* the worker is asleep and must be woken */
	munmap(p, MIB);
	pthread_testcancel();
	return NULL;
}

/* Long enough for a look at the connection */
static void *poll_cq(void *arg)
{
	struct timespec start, now;
	struct job *j = arg;
	struct ibv_wc wc;

	pthread_cancel(pthread_self());
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		ibv_poll_cq(j->cq, 1, &wc);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000000l + now.tv_nsec - start.tv_nsec <
		 50000000);
	j->done++;
	pthread_testcancel();
	return NULL;
}

static void *get_event(void *arg)
{
	struct job *j = arg;
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(j->ch, &cq, &context);
	return NULL;
}

static void *destroy_cq(void *arg)
{
	struct job *j = arg;

	pthread_cancel(pthread_self());
	j->done += !ibv_destroy_cq(j->cq);
	pthread_testcancel();
	return NULL;
}

/* Verbs are no cancellation points, for a thread that ended inside one would leave it locked. */
static void cancelled(struct fixture *f)
{
	struct job j = { .f = f, .cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0) };
	unsigned int wakes = 0;
	bool rang;

	j.qp = make_qp(f, j.cq, j.cq, IBV_QPS_RTS);
	fake_doorbell(&f->daemon, true, &rang, &wakes);
	TAP_OK(is_cancelled(use_verbs, &j) && j.done == 3, "cancelled, but not inside a verb (%d)",
	       j.done);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(wakes == 1, "nor between a doorbell and its worker");
	fake_complete(&f->daemon, j.qp->qp_num, false, 1, 0, false);
	TAP_OK(is_cancelled(poll_cq, &j) && j.done == 1, "nor while it polls");
	ibv_destroy_qp(j.qp);
	ibv_destroy_cq(j.cq);
}

/* Such a thread leaves the channel as good as it was: what is stale goes as soon as it is stale. */
static void cancelled_waiting(struct fixture *f)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, ch, 0);
	struct ibv_qp *qp = make_qp(f, cq, cq, IBV_QPS_RTS);
	struct job j = { .f = f, .ch = ch, .cq = cq };
	struct pollfd readable = { .fd = ch->fd, .events = POLLIN };
	void *result = NULL;
	pthread_t thread;

	pthread_create(&thread, NULL, get_event, &j);
	usleep(20000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	TAP_OK(result == PTHREAD_CANCELED, "a thread that waits for an event is cancelled");
	post_send(qp, 1, 1);
	ibv_req_notify_cq(cq, 0);
	fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false);
	TAP_OK(poll(&readable, 1, 1000) == 1, "an event that nobody reads");
	ibv_destroy_qp(qp);
	TAP_OK(is_cancelled(destroy_cq, &j) && j.done == 1 && !poll(&readable, 1, 0) &&
		       !ibv_destroy_comp_channel(ch),
	       "goes with its CQ");
}

/* ---- signals ------------------------------------------------------------------- */

static void nothing(int sig)
{
	(void)sig;
}

static void stop_daemon(struct fixture *f)
{
	int status;

	kill(f->daemon.pid, SIGSTOP);
	waitpid(f->daemon.pid, &status, WUNTRACED);
}

static void let_it_go_on_soon(struct fixture *f)
{
	if (fork())
		return;
	usleep(200000);
	_exit(kill(f->daemon.pid, SIGCONT));
}

/* Nobody else's connection finds room until the daemon takes these. */
static void crowd(struct fixture *f)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd[64], n = 0;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" FAKE_DEVICE ".sock", f->dir);
	do {
		fd[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	} while (!connect(fd[n], (struct sockaddr *)&sun, sizeof(sun)) && ++n < 63);
	TAP_OK(n < 63, "a daemon with a full backlog");
	while (n >= 0)
		close(fd[n--]);
}

/* Timers of profilers interrupt every system call; a daemon that does not answer is given up all the same. */
static void interrupted(struct fixture *f)
{
	struct itimerval tick = { { 0, 2000 }, { 0, 2000 } }, none = { 0 };
	struct sigaction act = { .sa_handler = nothing }, before;
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	int status;
	pid_t pid;

	sigaction(SIGALRM, &act, &before);
	setitimer(ITIMER_REAL, &tick, NULL);
	ctx = open_fake();
	TAP_OK(ctx && !ibv_close_device(ctx), "a program with a timer opens the device");
	stop_daemon(f);
	let_it_go_on_soon(f);
	TAP_OK(!ibv_query_device(f->ctx, &attr), "and waits for its answers");
	wait(&status);
	stop_daemon(f);
	crowd(f);
	let_it_go_on_soon(f);
	ctx = open_fake();
	TAP_OK(ctx && !ibv_close_device(ctx), "and is waited for");
	wait(&status);
	stop_daemon(f);
	pid = fork();
	if (!pid) {
		/* were it to wait for ever, the parent would end it */
		setitimer(ITIMER_REAL, &tick, NULL);
		_exit(open_fake() ? 1 : 0);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	status = -1;
	for (int i = 0; i < 40 && !waitpid(pid, &status, WNOHANG); i++)
		usleep(100000);
	TAP_OK(!status, "and gives up one that is stopped");
	if (status == -1) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	kill(f->daemon.pid, SIGCONT);
	sigaction(SIGALRM, &before, NULL);
}

/* ---- what is no longer good ------------------------------------------------------ */

static void closed_descriptor(struct fixture *f)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = 987,
		.oflags = O_CREAT,
	};
	struct ibv_device_attr device;

	TAP_OK((errno = 0, !ibv_open_xrcd(f->ctx, &attr)) && errno == EBADF,
	       "a descriptor that is none");
	TAP_OK(!ibv_query_device(f->ctx, &device), "which does the context no harm");
}

/* The manual says that one must not, but libibverbs keeps its devices. */
static void device_of_a_freed_list(struct fixture *f)
{
	struct ibv_device **list, *device = NULL;
	void *other[64];
	int i;

	ibv_dealloc_pd(f->pd);
	ibv_close_device(f->ctx);
	list = ibv_get_device_list(NULL);
	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), FAKE_DEVICE))
			device = list[i];
	if (list)
		ibv_free_device_list(list);
	/* what was freed is somebody else's now */
	for (i = 0; i < 64; i++)
		other[i] = memset(malloc(i * 32 + 16), 0x41, i * 32 + 16);
	f->ctx = device ? ibv_open_device(device) : NULL;
	f->pd = f->ctx ? ibv_alloc_pd(f->ctx) : NULL;
	TAP_OK(f->pd, "a device is opened after its list was freed");
	for (i = 0; i < 64; i++)
		free(other[i]);
}

/* ---- privileges ------------------------------------------------------------------ */

static int as_nobody(void)
{
	struct ibv_context *ctx = open_fake();
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	static uint8_t buf[64];

	if (!pd || setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		return 1;
	if (open("/proc/self/mem", O_RDWR) >= 0)
		return 0; /* then there is nothing to be seen here */
	return ibv_reg_mr(pd, buf, sizeof(buf), ALL) ? 0 : 2;
}

/* From then on /proc/self/mem cannot be opened. */
static void privileges(void)
{
	int status = -1;
	pid_t pid;

	if (geteuid()) {
		tap_skip("privileges", "not root");
		return;
	}
	pid = fork();
	if (!pid)
		_exit(as_nobody());
	waitpid(pid, &status, 0);
	TAP_OK(!status, "a program that gives root up after it opened the device has regions (%x)",
	       status);
}

int main(void)
{
	struct fixture f;

	setup(&f);
	alarm(60);
	cancelled(&f);
	cancelled_waiting(&f);
	closed_descriptor(&f);
	device_of_a_freed_list(&f);
	privileges();
	interrupted(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "no object is left but the PD");
	teardown(&f);
	return tap_end();
}
