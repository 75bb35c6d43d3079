// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/udp/udp.h"
#include "internal.h"
#include "requests.h"
#include "ring.h"

/* Other threads may be in calls with the descriptors, so these keep their numbers. */
void xp_give_back_sockets(struct xp_host *h)
{
	struct xd_udp *u = xd_udp_of(h->socket);
	int nothing = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (nothing < 0)
		return;
	dup3(nothing, u->socket.fd, O_CLOEXEC);
	if (h->ring)
		xp_ring_give_back(h->ring, nothing);
	for (uint32_t i = 0; !h->ring && i < XD_UDP_PORTS; i++)
		if (u->tx.fd[i] >= 0)
			dup3(nothing, u->tx.fd[i], O_CLOEXEC);
	close(nothing);
}

static void host_end_events(struct xp_host *h)
{
	struct xp_channel_object *ch;

	/* A round that runs now ends first. */
	pthread_mutex_lock(&h->lock);
	h->ended = true;
	shutdown(h->env.lent.events, SHUT_WR);
	for (ch = h->channels; ch; ch = ch->next)
		xp_channel_end(ch);
	pthread_mutex_unlock(&h->lock);
}

void xp_daemon_ended(struct xp_host *h)
{
	host_end_events(h);
	pthread_mutex_lock(&h->lock);
	xp_give_back_sockets(h);
	pthread_mutex_unlock(&h->lock);
}
