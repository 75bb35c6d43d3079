// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider/control/cm_path.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "provider/base/clock.h"
#include "provider/control/sockets.h"

/* The network may change meanwhile, as it may after a request. */
#define VALID_NS (100 * XP_NS_PER_MS)
#define PATHS 64

/* By a hash of the peer's address: one takes the place of another */
static struct told {
	char socket[XP_SOCKET_PATH_MAX];
	struct xr_cm_path path;
	uint64_t until;
} told[PATHS];
/* Nobody waits for it: a child may have been forked while it was held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct told *cm_path_place_of(const struct xr_addr *dgid)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (unsigned int i = 0; i < sizeof(dgid->raw); i++)
		hash = (hash ^ dgid->raw[i]) * 16777619u;
	return &told[hash % PATHS];
}

void xp_cm_path_tell(const char *socket, const struct xr_cm_path *path)
{
	struct told *t = cm_path_place_of(&path->dgid);

	if (pthread_mutex_trylock(&lock))
		return;
	snprintf(t->socket, sizeof(t->socket), "%s", socket);
	t->path = *path;
	t->until = xp_clock() + VALID_NS;
	pthread_mutex_unlock(&lock);
}

bool xp_cm_path_find(const char *socket, const struct xr_ah_attr *attr,
		     struct xr_resolve_ah_rep *rep)
{
	const struct told *t = cm_path_place_of(&attr->dgid);
	bool found;

	if (pthread_mutex_trylock(&lock))
		return false;
	found = xp_clock() < t->until && attr->is_global && attr->port_num == 1 &&
		!memcmp(&t->path.dgid, &attr->dgid, sizeof(attr->dgid)) &&
		t->path.sgid_index == attr->sgid_index && !strcmp(t->socket, socket);
	if (found)
		*rep = t->path.path;
	pthread_mutex_unlock(&lock);
	return found;
}
