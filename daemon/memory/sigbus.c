// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sigbus.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "daemon/transport/memory/guard.h"

#define SLOTS 65536 /* more than the default limit for mappings of a process */

struct slot {
	uintptr_t start; /* 0: free */
	uintptr_t end;
	bool *broken;
};

static struct slot slots[SLOTS];
static uint32_t used_end; /* slots from here on were never used */
static uint32_t lowest_free;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of writers */

/*
 * Runs in the signal handler and takes no lock: the interrupted thread may hold it. The slot of
 * the faulting address cannot change, as its mapping is in use. Other slots may change between
 * the two loads, so start is read twice.
 */
static struct slot *sigbus_find(uintptr_t addr)
{
	uint32_t i, n = __atomic_load_n(&used_end, __ATOMIC_ACQUIRE);
	uintptr_t start, end;

	for (i = 0; i < n; i++) {
		start = __atomic_load_n(&slots[i].start, __ATOMIC_ACQUIRE);
		end = __atomic_load_n(&slots[i].end, __ATOMIC_ACQUIRE);
		if (start && addr >= start && addr < end &&
		    start == __atomic_load_n(&slots[i].start, __ATOMIC_ACQUIRE))
			return &slots[i];
	}
	return NULL;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	int saved = errno;
	struct slot *s;

	xt_guard_fault(info->si_addr);
	s = sigbus_find((uintptr_t)info->si_addr);
	if (!s || mmap((void *)s->start, s->end - s->start, PROT_READ | PROT_WRITE, flags, -1, 0) ==
			  MAP_FAILED)
		signal(SIGBUS, SIG_DFL); /* the access faults again and ends the process */
	else
		__atomic_store_n(s->broken, true, __ATOMIC_RELEASE);
	errno = saved;
}

int xd_sigbus_start(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };

	return sigaction(SIGBUS, &sa, NULL) ? -errno : 0;
}

int xd_sigbus_add(void *start, uint64_t length, bool *broken, uint32_t *slot)
{
	uint32_t i;

	pthread_mutex_lock(&lock);
	for (i = lowest_free; i < SLOTS && slots[i].start; i++)
		;
	if (i == SLOTS) {
		pthread_mutex_unlock(&lock);
		return -ENOSPC;
	}
	slots[i].broken = broken;
	__atomic_store_n(&slots[i].end, (uintptr_t)start + length, __ATOMIC_RELEASE);
	__atomic_store_n(&slots[i].start, (uintptr_t)start, __ATOMIC_RELEASE);
	if (i >= used_end)
		__atomic_store_n(&used_end, i + 1, __ATOMIC_RELEASE);
	lowest_free = i + 1;
	pthread_mutex_unlock(&lock);
	*slot = i;
	return 0;
}

void xd_sigbus_del(uint32_t slot)
{
	pthread_mutex_lock(&lock);
	__atomic_store_n(&slots[slot].start, 0, __ATOMIC_RELEASE);
	if (slot < lowest_free)
		lowest_free = slot;
	pthread_mutex_unlock(&lock);
}
