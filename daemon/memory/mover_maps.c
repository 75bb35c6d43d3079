// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists of mappings, which a mover reads. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "mover.h"
#include "mover_internal.h"

#define MAX_MAPPINGS (1u << 20) /* of a client: more would use up the daemon's memory */

static int add_mappings(const struct xd_maps_reply *reply, struct xd_vma **list, size_t *count)
{
	struct xd_vma *more;

	if (*count + reply->count > MAX_MAPPINGS)
		return -E2BIG;
	more = realloc(*list, (*count + reply->count) * sizeof(**list));
	if (!more)
		return -ENOMEM;
	memcpy(more + *count, reply->vma, reply->count * sizeof(*more));
	*list = more;
	*count += reply->count;
	return 0;
}

/* Returns 1 after the last reply. */
static int receive_mappings(struct xd_mover *m, struct xd_vma **list, size_t *count)
{
	const size_t head = offsetof(struct xd_maps_reply, vma);
	struct xd_maps_reply reply;
	ssize_t n = recv(m->sock, &reply, sizeof(reply), 0);

	if (n < (ssize_t)head || reply.count > XD_MAPS_BATCH ||
	    (size_t)n != head + reply.count * sizeof(reply.vma[0]))
		return -ESRCH;
	if (!reply.count)
		return reply.err < 0 ? reply.err : 1;
	return add_mappings(&reply, list, count);
}

int xd_mover_maps(struct xd_mover *m, uint64_t start, uint64_t end, struct xd_vma **list,
		  size_t *count)
{
	struct xd_maps_request request = { start, end };
	int err = 0;

	*list = NULL;
	*count = 0;
	pthread_mutex_lock(&m->list_lock);
	if (send(m->sock, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		err = -ESRCH;
	while (!err)
		err = receive_mappings(m, list, count);
	/* Replies may be left: the mover cannot be used any more. */
	if (err < 0 && err != -ESRCH && err != -EPROTO)
		xd_mover_end(m);
	pthread_mutex_unlock(&m->list_lock);
	return err < 0 ? err : 0;
}
