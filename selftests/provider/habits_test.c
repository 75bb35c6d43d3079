// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Unusual uses: cancelled threads, signals, dropped privileges, stale descriptors and pointers */
#include "fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "../lib/tap.h"
#include "../lib/wait.h"

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MIB (1ul << 20)
#define NOBODY 65534

/* ---- cancellation ------------------------------------------------------------- */

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
	j->done += !post_send(j->qp, 1, 1); /* wakes the worker, which sleeps */
	munmap(p, MIB);
	pthread_testcancel();
	return NULL;
}

/* Polls long enough for a check of the connection. */
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

/* Verbs are not cancellation points: a thread that ended in a verb would leave locks held. */
static void cancelled(struct fixture *f)
{
	struct job j = { .f = f, .cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0) };
	unsigned int wakes = 0;
	bool rang;

	j.qp = make_qp(f, j.cq, j.cq, IBV_QPS_RTS);
	fake_doorbell(&f->daemon, true, &rang, &wakes);
	TAP_OK(is_cancelled(use_verbs, &j) && j.done == 3,
	       "a cancelled thread completes its verbs (%d)", j.done);
	fake_doorbell(&f->daemon, false, &rang, &wakes);
	TAP_OK(wakes == 1, "a cancelled thread wakes the worker after ringing the doorbell");
	fake_complete(&f->daemon, j.qp->qp_num, false, 1, 0, false);
	TAP_OK(is_cancelled(poll_cq, &j) && j.done == 1, "a cancelled thread completes its polls");
	ibv_destroy_qp(j.qp);
	ibv_destroy_cq(j.cq);
}

#ifdef __SANITIZE_ADDRESS__
#define ADDRESS_SANITIZER true
#else
#define ADDRESS_SANITIZER false
#endif

/* A thread cancelled in ibv_get_cq_event() leaves no lock: stale events are still dropped. */
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
	WAIT_UNTIL(other_thread_sleeps_in(SYS_read));
	pthread_cancel(thread);
	pthread_join(thread, &result);
	TAP_OK(result == PTHREAD_CANCELED, "a thread that waits for an event is cancelled");
	post_send(qp, 1, 1);
	ibv_req_notify_cq(cq, 0);
	fake_complete(&f->daemon, qp->qp_num, false, 1, 0, false);
	TAP_OK(poll(&readable, 1, 20000) == 1, "the channel has an unread event");
	ibv_destroy_qp(qp);
	TAP_OK(is_cancelled(destroy_cq, &j) && j.done == 1 && !poll(&readable, 1, 0) &&
		       !ibv_destroy_comp_channel(ch),
	       "destroy_cq drops the unread event");
}

/* ---- signals ------------------------------------------------------------------ */

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

/* Fills the backlog of the daemon, so that others cannot connect until it continues. */
static void crowd(struct fixture *f)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd[64], n = 0;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" FAKE_DEVICE ".sock", f->dir);
	do {
		fd[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	} while (!connect(fd[n], (struct sockaddr *)&sun, sizeof(sun)) && ++n < 63);
	TAP_OK(n < 63, "the backlog of the daemon is full");
	while (n >= 0)
		close(fd[n--]);
}

/* A timer, as of a profiler, interrupts all system calls. Time limits must still be kept. */
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
	TAP_OK(!ibv_query_device(f->ctx, &attr), "a program with a timer waits for a reply");
	wait(&status);
	stop_daemon(f);
	crowd(f);
	let_it_go_on_soon(f);
	ctx = open_fake();
	TAP_OK(ctx && !ibv_close_device(ctx), "a program with a timer waits for a full backlog");
	wait(&status);
	stop_daemon(f);
	pid = fork();
	if (!pid) {
		/* The parent kills this process if it hangs. */
		setitimer(ITIMER_REAL, &tick, NULL);
		_exit(open_fake() ? 1 : 0);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	status = -1;
	for (int i = 0; i < 300 && !waitpid(pid, &status, WNOHANG); i++)
		usleep(100000);
	TAP_OK(!status, "a program with a timer does not wait for a stopped daemon");
	if (status == -1) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	kill(f->daemon.pid, SIGCONT);
	sigaction(SIGALRM, &before, NULL);
}

/* ---- stale descriptors and pointers ------------------------------------------- */

static void closed_descriptor(struct fixture *f)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = 987,
		.oflags = O_CREAT,
	};
	struct ibv_device_attr device;

	TAP_OK((errno = 0, !ibv_open_xrcd(f->ctx, &attr)) && errno == EBADF,
	       "open_xrcd: EBADF for a closed descriptor");
	TAP_OK(!ibv_query_device(f->ctx, &device), "after EBADF the context is still usable");
}

/* ibv_get_device_list(3) forbids this, but it works with libibverbs, so programs do it. */
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
	/* Reuse the memory that was freed. */
	for (i = 0; i < 64; i++)
		other[i] = memset(malloc(i * 32 + 16), 0x41, i * 32 + 16);
	f->ctx = device ? ibv_open_device(device) : NULL;
	f->pd = f->ctx ? ibv_alloc_pd(f->ctx) : NULL;
	TAP_OK(f->pd, "a device is opened after its list was freed");
	for (i = 0; i < 64; i++)
		free(other[i]);
}

/* ---- privileges --------------------------------------------------------------- */

static int drop_by_setuid(void)
{
	return setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY);
}

static int drop_by_seteuid(void)
{
	return seteuid(NOBODY);
}

static int drop_by_setresuid(void)
{
	return setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY);
}

/* A user without privileges, who can open its memory until then */
static int set_not_dumpable(void)
{
	return setresuid(NOBODY, NOBODY, NOBODY) || prctl(PR_SET_DUMPABLE, 1) ||
	       prctl(PR_SET_DUMPABLE, 0);
}

/* What the program does, and where: in a forked child, before or after it opens the device */
static int registers_as_nobody(int (*drop)(void), bool after_open)
{
	static uint8_t buf[64];
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	if (!after_open && drop())
		return 1;
	ctx = open_fake();
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	if (!pd || (after_open && drop()))
		return 2;
	if (syscall(SYS_open, "/proc/self/mem", O_RDWR) >= 0)
		return 0; /* no restriction to test */
	return ibv_reg_mr(pd, buf, sizeof(buf), ALL) ? 0 : 3;
}

/* Exit status of a child that does it */
static int in_child(int (*drop)(void), bool after_open)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(registers_as_nobody(drop, after_open));
	waitpid(pid, &status, 0);
	return status;
}

/* Returns 0 if a child of a process that dropped its privileges has no descriptor of its memory. */
static int memory_is_inherited(void)
{
	char link[64], target[64];
	int status = -1;
	pid_t pid;

	if (drop_by_setuid())
		return 1;
	pid = fork();
	for (int fd = 0; !pid && fd < 1024; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = 0;
		if (n > 4 && !strcmp(target + n - 4, "/mem"))
			_exit(2);
	}
	if (!pid)
		_exit(0);
	waitpid(pid, &status, 0);
	return status;
}

/* After these calls, /proc/self/mem cannot be opened. */
static void privileges(struct fixture *f)
{
	static const struct {
		const char *call;
		int (*drop)(void);
	} calls[] = {
		{ "setuid()", drop_by_setuid },
		{ "seteuid()", drop_by_seteuid },
		{ "setresuid()", drop_by_setresuid },
		{ "PR_SET_DUMPABLE 0 as a user", set_not_dumpable },
	};
	int status = -1;
	char path[128];
	pid_t pid;

	if (geteuid()) {
		tap_skip("privileges", "not root");
		return;
	}
	snprintf(path, sizeof(path), "%s/" FAKE_DEVICE ".sock", f->dir);
	TAP_OK(!chmod(f->dir, 0755) && !chmod(path, 0666), "other users may connect");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		status = in_child(calls[i].drop, true);
		TAP_OK(!status, "%s after opening the device: memory can be registered (%x)",
		       calls[i].call, status);
		status = in_child(calls[i].drop, false);
		TAP_OK(!status, "%s before opening it: the same (%x)", calls[i].call, status);
	}
	pid = fork();
	if (!pid)
		_exit(memory_is_inherited());
	waitpid(pid, &status, 0);
	TAP_OK(!status, "a child inherits no descriptor of its parent's memory (%x)", status);
}

/* ---- messages ------------------------------------------------------------------ */

/* Runs create_qp() with stderr redirected. Returns what was printed. */
static const char *printed_by_create_qp(struct fixture *f, struct ibv_qp_init_attr *init)
{
	int fd = memfd_create("stderr", 0), before = dup(2);
	static char text[256];
	ssize_t n;

	dup2(fd, 2);
	ibv_create_qp(f->pd, init);
	dup2(before, 2);
	n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	close(before);
	close(fd);
	return text;
}

static void messages(struct fixture *f)
{
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap.max_send_wr = 5000,
	};

	TAP_OK(!*printed_by_create_qp(f, &init), "without XROCE_DEBUG nothing is printed");
	setenv("XROCE_DEBUG", "1", 1);
	TAP_OK(!strcmp(printed_by_create_qp(f, &init),
		       "xroce: ibv_create_qp: Invalid argument: max_send_wr 5000, limit 4096\n"),
	       "with XROCE_DEBUG, field, value and limit are printed");
	TAP_OK(!*printed_by_create_qp(f, &init), "the same text is printed once");
	unsetenv("XROCE_DEBUG");
	ibv_destroy_cq(cq);
}

int main(void)
{
	struct fixture f;

	setup(&f);
	alarm(100);
	messages(&f);
	cancelled(&f);
	if (ADDRESS_SANITIZER)
		tap_skip("cancellation of a thread that waits for an event",
			 "AddressSanitizer misreads the stack of the thread");
	else
		cancelled_waiting(&f);
	closed_descriptor(&f);
	device_of_a_freed_list(&f);
	privileges(&f);
	interrupted(&f);
	TAP_OK(fake_objects(&f.daemon) == 1, "all objects but the PD are destroyed");
	teardown(&f);
	return tap_end();
}
