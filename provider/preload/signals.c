// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interposed functions for SIGSEGV and SIGBUS: programs with direct contexts keep a handler of ours
 * (provider/base/fault_signals.h). Nothing changes before such a context is opened.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "provider/base/export.h"
#include "provider/base/fault_signals.h"
#include "provider/preload/next.h"

typedef void handler_fn(int);

#define FUNCTIONS(X)                                                                               \
	X(sigaction, int, (int, const struct sigaction *, struct sigaction *))                     \
	X(signal, handler_fn *, (int, handler_fn *))                                               \
	X(sigprocmask, int, (int, const sigset_t *, sigset_t *))                                   \
	X(pthread_sigmask, int, (int, const sigset_t *, sigset_t *))
XP_NEXT_TABLE(signals, FUNCTIONS)

XP_PUBLIC XP_UNCHECKED int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (!xp_fault_signals_has(sig))
		return XP_NEXT(sigaction)(sig, act, old);
	xp_fault_signals_change(sig, act, old);
	return 0;
}

XP_PUBLIC handler_fn *signal(int sig, handler_fn *handler)
{
	struct sigaction sa, old;

	if (!xp_fault_signals_has(sig) || handler == SIG_ERR)
		return XP_NEXT(signal)(sig, handler);
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = SA_RESTART;
	sigaddset(&sa.sa_mask, sig);
	xp_fault_signals_change(sig, &sa, &old);
	return old.sa_handler;
}

XP_PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t changed;

	return XP_NEXT(sigprocmask)(how, xp_fault_signals_unblocked(how, set, &changed), old);
}

XP_PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t changed;

	return XP_NEXT(pthread_sigmask)(how, xp_fault_signals_unblocked(how, set, &changed), old);
}
