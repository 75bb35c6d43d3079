/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Descriptors of completion channels of direct contexts. */
#ifndef XP_CHANNEL_SET_H
#define XP_CHANNEL_SET_H

#include <stdbool.h>

struct xp_channel;

/*
 * Their descriptor is an epoll set, readable while there are events. For a program that never
 * blocks on the channel, the socket of packets is in it, too: a packet wakes the program, which
 * runs a round in ibv_get_cq_event(). If the round makes no event, as the packet was an ACK or a
 * part of a message, that function returns an early one: comp_channel.c. The socket is in one set
 * of the context: the round makes the descriptors of all channels readable that have events, and a
 * packet wakes no more of them. If the program does not look at that channel any more, the socket
 * moves to the set of another one. For programs that wait for the descriptor of a channel that
 * blocks, another thread runs the round.
 */

/* Returns true if the program has set O_NONBLOCK. */
bool xp_channel_never_blocks(const struct xp_channel *ch);
/* A CQ of the channel, of any context, was armed. */
void xp_channel_armed(struct xp_channel *ch);
/*
 * Not every completion of a CQ of the channel is to make an event: the CQ is moderated, or about to
 * be armed for solicited events only. From now on, packets do not make the descriptor readable.
 */
void xp_channel_events_only(struct xp_channel *ch);
/* Closes the descriptor, unless the context is not direct: then it is the event socket. */
void xp_channel_close_set(struct xp_channel *ch);

#endif /* XP_CHANNEL_SET_H */
