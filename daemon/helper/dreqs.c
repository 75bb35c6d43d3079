// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "dreqs.h"

#include <stdlib.h>
#include <sys/mman.h>

struct dreqs_entry {
	uint32_t used; /* set last, and cleared first: the daemon may end at any time */
	struct xd_dreq c;
};

struct xd_dreqs {
	struct dreqs_entry *entry; /* shared */
	uint32_t max;
	/* Of the daemon alone: entries behind `fresh` were never used; the others are linked. */
	uint32_t fresh, unused;
	uint32_t *next_unused;
};

struct xd_dreqs *xd_dreqs_new(uint32_t max)
{
	struct xd_dreqs *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	list->max = max;
	list->unused = XD_NO_DREQ;
	list->next_unused = calloc(max, sizeof(*list->next_unused));
	list->entry = mmap(NULL, (max + 1ul) * sizeof(*list->entry), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (list->next_unused && list->entry != MAP_FAILED)
		return list;
	xd_dreqs_free(list);
	return NULL;
}

void xd_dreqs_free(struct xd_dreqs *list)
{
	if (!list)
		return;
	if (list->entry != MAP_FAILED)
		munmap(list->entry, (list->max + 1ul) * sizeof(*list->entry));
	free(list->next_unused);
	free(list);
}

uint32_t xd_dreqs_add(struct xd_dreqs *list, const struct xd_dreq *c)
{
	uint32_t number = list->unused;

	if (number != XD_NO_DREQ)
		list->unused = list->next_unused[number];
	else if (list->fresh < list->max)
		number = list->fresh++;
	else
		return XD_NO_DREQ;
	list->entry[number].c = *c;
	__atomic_store_n(&list->entry[number].used, 1, __ATOMIC_RELEASE);
	return number;
}

void xd_dreqs_del(struct xd_dreqs *list, uint32_t number)
{
	__atomic_store_n(&list->entry[number].used, 0, __ATOMIC_RELEASE);
	list->next_unused[number] = list->unused;
	list->unused = number;
}

/* Entries that the daemon has not used are pages of zeros, which the kernel does not allocate. */
bool xd_dreqs_next(const struct xd_dreqs *list, uint32_t *number, struct xd_dreq *c)
{
	for (; *number < list->max; ++*number) {
		if (!__atomic_load_n(&list->entry[*number].used, __ATOMIC_ACQUIRE))
			continue;
		*c = list->entry[(*number)++].c;
		return true;
	}
	return false;
}
