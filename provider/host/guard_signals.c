// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "guard_signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "daemon/transport/guard.h"

static struct sigaction program[2]; /* handlers of SIGSEGV, SIGBUS before ours */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int result;

static void pass_on(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *sa = &program[sig == SIGBUS];

	if (sa->sa_flags & SA_SIGINFO) {
		sa->sa_sigaction(sig, info, context);
	} else if (sa->sa_handler == SIG_DFL || sa->sa_handler == SIG_IGN) {
		/* The access faults again and ends the process. */
		signal(sig, SIG_DFL);
	} else {
		sa->sa_handler(sig);
	}
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	/* Does not return if the engine made the access. */
	xt_guard_fault(info->si_addr);
	pass_on(sig, info, context);
	errno = saved;
}

static void install(void)
{
	const struct sigaction sa = {
		.sa_sigaction = on_fault,
		.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK,
	};

	if (sigaction(SIGSEGV, &sa, &program[0]) || sigaction(SIGBUS, &sa, &program[1]))
		result = -errno;
}

int xp_guard_signals(void)
{
	pthread_once(&once, install);
	return result;
}
