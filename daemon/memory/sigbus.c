// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * SIGBUS in memory that a client shares with us: the pages behind a mapping went away. The
 * handler finds the mapping in a list that it reads without locks, since the list's
 * lock may be held by the thread that it interrupted.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "region.h"

#define PLACES 65536 /* more than a process may have mappings by default */

struct place {
	uintptr_t start; /* 0: free */
	uintptr_t end;
	bool *broken;
};

static struct place places[PLACES];
static uint32_t highest; /* nothing was ever used from here on */
static uint32_t lowest_free;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The place of the mapping that an address lies in cannot change meanwhile: it is being used.
 * Others may, hence the second look at start.
 */
static struct place *find(uintptr_t addr)
{
	uint32_t i, n = __atomic_load_n(&highest, __ATOMIC_ACQUIRE);
	uintptr_t start, end;

	for (i = 0; i < n; i++) {
		start = __atomic_load_n(&places[i].start, __ATOMIC_ACQUIRE);
		end = __atomic_load_n(&places[i].end, __ATOMIC_ACQUIRE);
		if (start && addr >= start && addr < end &&
		    start == __atomic_load_n(&places[i].start, __ATOMIC_ACQUIRE))
			return &places[i];
	}
	return NULL;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	struct place *p = find((uintptr_t)info->si_addr);
	int saved = errno;

	if (!p || mmap((void *)p->start, p->end - p->start, PROT_READ | PROT_WRITE, flags, -1, 0) ==
			  MAP_FAILED)
		signal(SIGBUS, SIG_DFL); /* comes again, and ends us with a core */
	else
		__atomic_store_n(p->broken, true, __ATOMIC_RELEASE);
	errno = saved;
}

int xd_sigbus_start(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO };

	return sigaction(SIGBUS, &sa, NULL) ? -errno : 0;
}

int xd_sigbus_add(void *start, uint64_t length, bool *broken, uint32_t *place)
{
	uint32_t i;

	pthread_mutex_lock(&lock);
	for (i = lowest_free; i < PLACES && places[i].start; i++)
		;
	if (i == PLACES) {
		pthread_mutex_unlock(&lock);
		return -ENOSPC;
	}
	places[i].broken = broken;
	__atomic_store_n(&places[i].end, (uintptr_t)start + length, __ATOMIC_RELEASE);
	__atomic_store_n(&places[i].start, (uintptr_t)start, __ATOMIC_RELEASE);
	if (i >= highest)
		__atomic_store_n(&highest, i + 1, __ATOMIC_RELEASE);
	lowest_free = i + 1;
	pthread_mutex_unlock(&lock);
	*place = i;
	return 0;
}

void xd_sigbus_del(uint32_t place)
{
	pthread_mutex_lock(&lock);
	__atomic_store_n(&places[place].start, 0, __ATOMIC_RELEASE);
	if (place < lowest_free)
		lowest_free = place;
	pthread_mutex_unlock(&lock);
}
