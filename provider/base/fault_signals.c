// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/base/fault_signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/base/export.h"

typedef int sigaction_fn(int, const struct sigaction *, struct sigaction *);
typedef int mask_fn(int, const sigset_t *, sigset_t *);

static sigaction_fn *real_sigaction;
static mask_fn *real_mask;
static void (*end_access)(const void *addr);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int result;

/* What the program has installed, for SIGSEGV and SIGBUS */
static struct sigaction program[2];
static bool taken[2];
static int lock;

static struct sigaction *fault_signals_program_of(int sig)
{
	return &program[sig == SIGBUS];
}

/* With all signals blocked: a handler of this thread may use the lock, too. */
static void fault_signals_enter(sigset_t *mask)
{
	sigset_t all;

	sigfillset(&all);
	real_mask(SIG_SETMASK, &all, mask);
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void fault_signals_leave(const sigset_t *mask)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	real_mask(SIG_SETMASK, mask, NULL);
}

/* ---- faults ------------------------------------------------------------------------------- */

/* Without the handler the access faults again; a signal of kill() is sent again. */
static void by_default(int sig, const siginfo_t *info)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_DFL;
	real_sigaction(sig, &sa, NULL);
	if (info->si_code <= 0)
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
}

/* Returns a copy, as the kernel does before it calls a handler. */
static struct sigaction take_program(int sig)
{
	struct sigaction *sa = fault_signals_program_of(sig), copy;
	sigset_t mask;

	fault_signals_enter(&mask);
	copy = *sa;
	if (copy.sa_flags & SA_RESETHAND)
		sa->sa_handler = SIG_DFL;
	fault_signals_leave(&mask);
	return copy;
}

/*
 * The mask is that of the program's handler while it runs; when ours returns, the kernel sets the
 * one that is in the context.
 */
static void fault_signals_pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction sa = take_program(sig);

	/* The kernel ignores SIG_IGN for faults. */
	if (sa.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN) {
		by_default(sig, info);
		return;
	}
	if (!(sa.sa_flags & SA_NODEFER))
		sigaddset(&sa.sa_mask, sig);
	real_mask(SIG_BLOCK, &sa.sa_mask, NULL);
	if (sa.sa_flags & SA_SIGINFO)
		sa.sa_sigaction(sig, info, context);
	else
		sa.sa_handler(sig);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	if (info->si_code > 0)
		end_access(info->si_addr);
	errno = saved;
	fault_signals_pass_on(sig, info, context);
}

/* ---- handlers ----------------------------------------------------------------------------- */

/* The stack and the restart of calls are as the program wants them. */
static int install(int sig, const struct sigaction *wanted)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_fault;
	sa.sa_flags = SA_SIGINFO | SA_NODEFER;
	if (wanted->sa_handler == SIG_DFL || wanted->sa_handler == SIG_IGN)
		sa.sa_flags |= SA_ONSTACK | SA_RESTART;
	else
		sa.sa_flags |= wanted->sa_flags & (SA_ONSTACK | SA_RESTART);
	return real_sigaction(sig, &sa, NULL) ? -errno : 0;
}

static int fault_signals_take(int sig)
{
	struct sigaction *sa = fault_signals_program_of(sig);

	if (real_sigaction(sig, NULL, sa))
		return -errno;
	__atomic_store_n(&taken[sig == SIGBUS], true, __ATOMIC_RELEASE);
	return install(sig, sa);
}

static void take_both(void)
{
	sigset_t both;

	/* Handlers are kept before ours can be called. */
	real_sigaction = dlsym(RTLD_NEXT, "sigaction");
	real_mask = dlsym(RTLD_NEXT, "pthread_sigmask");
	if (!real_sigaction || !real_mask) {
		result = -EOPNOTSUPP;
		return;
	}
	result = fault_signals_take(SIGSEGV);
	if (!result)
		result = fault_signals_take(SIGBUS);
	sigemptyset(&both);
	sigaddset(&both, SIGSEGV);
	sigaddset(&both, SIGBUS);
	real_mask(SIG_UNBLOCK, &both, NULL);
}

int xp_fault_signals_take(void (*ends)(const void *addr))
{
	__atomic_store_n(&end_access, ends, __ATOMIC_RELAXED);
	pthread_once(&once, take_both);
	return result;
}

XP_UNCHECKED bool xp_fault_signals_has(int sig)
{
	return (sig == SIGSEGV || sig == SIGBUS) &&
	       __atomic_load_n(&taken[sig == SIGBUS], __ATOMIC_ACQUIRE);
}

void xp_fault_signals_change(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction wanted, was;
	sigset_t mask;

	if (act)
		wanted = *act;
	fault_signals_enter(&mask);
	was = *fault_signals_program_of(sig);
	if (act) {
		*fault_signals_program_of(sig) = wanted;
		install(sig, &wanted);
	}
	fault_signals_leave(&mask);
	if (old)
		*old = was;
}

const sigset_t *xp_fault_signals_unblocked(int how, const sigset_t *set, sigset_t *changed)
{
	if (!set || how == SIG_UNBLOCK || !xp_fault_signals_has(SIGSEGV))
		return set;
	*changed = *set;
	sigdelset(changed, SIGSEGV);
	sigdelset(changed, SIGBUS);
	return changed;
}
