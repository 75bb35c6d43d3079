// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Connects by librdmacm many times:
 *
 *   serve ADDRESS PORT [own]             serves connections
 *   serve-killed ADDRESS PORT MS         kills the server and starts another, each MS ms
 *   restart ADDRESS PORT COUNT           kills a listener and listens again, COUNT times
 *   once ADDRESS PORT                    connects once; the first attempt must succeed
 *   many ADDRESS PORT COUNT [own]        opens COUNT connections at once
 *   storm ADDRESS PORT COUNT CLIENTS MS  connects COUNT times in CLIENTS processes, one of which
 *                                        is killed each MS ms (0: none), at most one for
 *                                        CLIENTS connections
 *
 * own: each connection has an event channel of its own. `serve` and `storm` start processes again
 * whose device is gone.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rdma_connect.h"

#define RETRY_US 50000 /* of a process whose device is gone */

static pid_t start(void)
{
	pid_t parent = getpid(), pid = fork();

	MUST(pid >= 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			exit(1);
	}
	return pid;
}

static void kill_and_wait(pid_t pid)
{
	kill(pid, SIGKILL);
	MUST(waitpid(pid, NULL, 0) == pid, "waitpid");
}

/* ---- servers ---------------------------------------------------------------------- */

/* Starts the server again if its device is gone. */
static void serve_forever(struct address at, bool own)
{
	int status;

	for (;;) {
		if (!start())
			serve(at, own);
		MUST(wait(&status) > 0, "wait");
		if (!WIFEXITED(status) || WEXITSTATUS(status) != DEVICE_GONE)
			exit(1);
		usleep(RETRY_US);
	}
}

static void serve_killed(struct address at, unsigned int ms)
{
	pid_t pid;

	for (;;) {
		pid = start();
		if (!pid)
			serve(at, false);
		usleep(ms * 1000);
		kill_and_wait(pid);
	}
}

struct successor {
	pid_t pid;
	int go, result; /* pipes */
};

static struct successor successor_new(struct address at)
{
	int go[2], result[2];
	pid_t pid;

	MUST(!pipe(go) && !pipe(result), "pipe");
	pid = start();
	if (!pid)
		listen_later(at, go[0], result[1]);
	close(go[0]);
	close(result[1]);
	return (struct successor){ pid, go[1], result[0] };
}

static void succeed(struct successor *s)
{
	int err;

	MUST(write(s->go, "", 1) == 1, "write");
	MUST(read(s->result, &err, sizeof(err)) == sizeof(err), "read");
	errno = err;
	MUST(!err, "listen");
	close(s->go);
	close(s->result);
}

static void restart(struct address at, uint32_t count)
{
	struct successor now = successor_new(at), next;
	uint32_t i;

	succeed(&now);
	for (i = 0; i < count; i++) {
		next = successor_new(at);
		kill_and_wait(now.pid);
		succeed(&next);
		now = next;
	}
	kill_and_wait(now.pid);
	printf("%u restarts\n", count);
}

/* ---- storms ----------------------------------------------------------------------- */

#define CLIENTS_MAX 64

struct storm {
	struct address to;
	struct counters *counters;
	uint32_t clients, ms;
	uint64_t connected; /* when a client was killed last */
	pid_t pid[CLIENTS_MAX];
};

static void start_client(struct storm *s, uint32_t i, uint64_t delay_us)
{
	s->pid[i] = start();
	if (s->pid[i])
		return;
	usleep((useconds_t)delay_us);
	connect_until(s->to, s->counters);
	exit(0);
}

/* Collects the processes that have ended. Returns the number of those that have finished. */
static uint32_t collect(struct storm *s)
{
	uint32_t i, done = 0;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (i = 0; s->pid[i] != pid; i++)
			;
		if (WIFEXITED(status) && !WEXITSTATUS(status)) {
			s->pid[i] = 0;
			done++;
		} else if (WIFEXITED(status) && WEXITSTATUS(status) == DEVICE_GONE) {
			start_client(s, i, RETRY_US);
		} else {
			fprintf(stderr, "a client failed, status %#x\n", (unsigned int)status);
			exit(1);
		}
	}
	return done;
}

/* On a slow machine clients that are killed at fixed times would never connect. */
static void kill_one(struct storm *s)
{
	uint64_t connected = __atomic_load_n(&s->counters->connected, __ATOMIC_RELAXED);
	uint32_t i = (uint32_t)rand() % s->clients;

	if (!s->pid[i] || connected >= s->counters->target || connected < s->connected + s->clients)
		return;
	s->connected = connected;
	kill(s->pid[i], SIGKILL);
	if (waitpid(s->pid[i], NULL, 0) == s->pid[i])
		s->counters->killed++;
	start_client(s, i, 0);
}

static void storm(struct storm *s, uint64_t target)
{
	struct counters *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t begin = now_ns();
	uint32_t i, done = 0;
	double seconds;

	MUST(c != MAP_FAILED && s->clients <= CLIENTS_MAX, "clients");
	s->counters = c;
	c->target = target;
	for (i = 0; i < s->clients; i++)
		start_client(s, i, 0);
	while (done < s->clients) {
		usleep(s->ms ? s->ms * 1000 : RETRY_US);
		done += collect(s);
		if (s->ms)
			kill_one(s);
	}
	seconds = (double)(now_ns() - begin) / 1e9;
	printf("connected %lu in %.1f s, %.0f per second; rejected %lu, stale %lu, unreachable "
	       "%lu, "
	       "broken %lu, device gone %lu; killed %lu; longest outage %.0f ms\n",
	       c->connected, seconds, (double)c->connected / seconds, c->rejected, c->stale,
	       c->unreachable, c->broken, c->device, c->killed, (double)c->longest_ns / 1e6);
}

/* ---- options ---------------------------------------------------------------------- */

static void raise_limits(void)
{
	struct rlimit rl;

	MUST(!getrlimit(RLIMIT_NOFILE, &rl), "getrlimit");
	rl.rlim_cur = rl.rlim_max;
	MUST(!setrlimit(RLIMIT_NOFILE, &rl), "setrlimit");
}

static uint32_t number(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 0);
}

static int usage(void)
{
	fprintf(stderr, "usage: see the head of rdma_connect.c\n");
	return 2;
}

int main(int argc, char **argv)
{
	bool own = argc > 4 && !strcmp(argv[argc - 1], "own");
	const char *what = argc > 3 ? argv[1] : "";
	struct address at;

	if (argc < 4)
		return usage();
	raise_limits();
	setvbuf(stdout, NULL, _IOLBF, 0);
	at = parse_address(argv[2], argv[3]);
	if (!strcmp(what, "serve"))
		serve_forever(at, own);
	else if (!strcmp(what, "once"))
		return !connect_once(at);
	else if (argc < 5)
		return usage();
	else if (!strcmp(what, "serve-killed"))
		serve_killed(at, number(argv[4]));
	else if (!strcmp(what, "restart"))
		restart(at, number(argv[4]));
	else if (!strcmp(what, "many"))
		connect_many(at, number(argv[4]), own);
	else if (!strcmp(what, "storm") && argc == 7)
		storm(&(struct storm){ .to = at,
				       .clients = number(argv[5]),
				       .ms = number(argv[6]) },
		      number(argv[4]));
	else
		return usage();
	return 0;
}
