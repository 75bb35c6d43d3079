/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Channels and their rdma_cm ids.
 *
 * The program knows an id by a number, which the provider chooses. Each source has its own number
 * for the id, the handle. An id has one part for each source that has a handle of it:
 *
 *   open        A new id has a part at every source, as it is not yet known which one will serve
 *               it. It stays open when it is bound to a wildcard address. Commands that such an id
 *               got are recorded and repeated at a source that comes later.
 *   committed   The id was bound to an address or resolved, or is a new connection. It has one part
 *               and keeps it. If the source is lost, the program gets DEVICE_REMOVAL and later
 *               commands fail with EIO.
 *
 * A multicast group that an id joined has a number and a part of its own, as its events do.
 *
 * All functions need the lock of the channel.
 */
#ifndef XP_CM_IDS_H
#define XP_CM_IDS_H

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include "provider/cm/early_replies.h"
#include "provider/cm/source.h"
#include "provider/cm/table.h"

enum xp_cm_kind { XP_CM_ID, XP_CM_GROUP };

struct xp_cm_early_event;

struct xp_cm_part {
	struct xp_cm_entry entry; /* in channel.parts, by source, kind and handle */
	struct xp_cm_part *next;  /* of the id */
	struct xp_cm_id *id;
	struct xp_cm_source *source;
	uint32_t handle;
	uint32_t events; /* that the program has read */
};

/* A command to repeat, with the value of SET_OPTION behind the struct */
struct xp_cm_record {
	struct xp_cm_record *next;
	uint32_t cmd;
	uint16_t in;
	uint16_t extra_len;
	uint8_t bytes[];
};

struct xp_cm_id {
	struct xp_cm_entry entry; /* in channel.numbers; the key is the number */
	struct xp_cm_id *next, **pprev;
	enum xp_cm_kind kind;
	struct xp_cm_id *owner; /* XP_CM_GROUP: the id that joined */
	uint64_t uid;		/* the program's; 0: not yet accepted */
	bool committed;
	bool removed;	/* DEVICE_REMOVAL is to be read */
	bool has_reply; /* the last event is CONNECT_RESPONSE, which was not accepted yet */
	/* Others may wait for the end of the id, or it has events that no part counts. */
	bool ends_late;
	struct xp_cm_part *parts;
	struct xp_cm_record *records, **last_record; /* of an open id */
	struct xp_cm_early_replies early_replies;
	struct xp_cm_early_event *early_event; /* that the program has not read; NULL: none */
};

/* See numbers.h */
struct xp_cm_anchor {
	int fd; /* -1: closed by the program */
	unsigned int channels;
	struct xp_cm_anchor *next;
};

struct xp_cm_channel {
	struct xp_cm_channel *next;  /* in the list of all channels */
	unsigned int refs;	     /* descriptor numbers and running commands; under their lock */
	struct xp_cm_anchor *anchor; /* of numbers.c, under its lock */
	pthread_mutex_t lock;
	int epfd; /* a descriptor number of the epoll set, set by each command */
	struct xp_cm_source *sources;
	uint32_t source_number;
	struct xp_cm_table numbers, parts;
	struct xp_cm_id *ids;
	unsigned int groups;	       /* ids of kind XP_CM_GROUP */
	unsigned int removals;	       /* ids with `removed` */
	struct xp_cm_id *early_events; /* ids with one, the oldest first; see early_events.h */

	/* refresh.c */
	struct timespec scanned; /* time of the last change of the runtime directory */
	bool scan_again;
	unsigned int retries; /* scans since then in which a daemon did not answer */

	int watched; /* a descriptor of the epoll set for watch.c, or -1: no wildcard listener */

	struct xp_umad *umad; /* a file of umad instead of a channel; NULL: none */
};

/* Data of the epoll set's events: number of the source, or this */
#define XP_CM_EPOLL_ANCHOR UINT64_MAX

/* Channels after a fork() choose other numbers than the parent. */
void xp_cm_number_seed(uint32_t seed);

/* Returns an id without parts, or NULL if there is no memory. */
struct xp_cm_id *xp_cm_id_new(struct xp_cm_channel *ch, enum xp_cm_kind kind, uint64_t uid);
/* Frees the id and its parts. Their handles stay as they are. */
void xp_cm_id_free(struct xp_cm_channel *ch, struct xp_cm_id *id);
struct xp_cm_id *xp_cm_id_find(struct xp_cm_channel *ch, enum xp_cm_kind kind, uint32_t number);
uint32_t xp_cm_id_number(const struct xp_cm_id *id);
void xp_cm_id_set_uid(struct xp_cm_channel *ch, struct xp_cm_id *id, uint64_t uid);

struct xp_cm_part *xp_cm_part_new(struct xp_cm_channel *ch, struct xp_cm_id *id,
				  struct xp_cm_source *s, uint32_t handle);
struct xp_cm_part *xp_cm_part_find(struct xp_cm_channel *ch, const struct xp_cm_source *s,
				   enum xp_cm_kind kind, uint32_t handle);
/* Executes a command at the source of the part. The arguments are those of xp_cm_source_call(). */
int xp_cm_part_call(const struct xp_cm_part *p, struct xp_cm_command *c, void *rep, size_t room);
/* The same without waiting for the reply, see xp_cm_source_tell() */
int xp_cm_part_tell(const struct xp_cm_part *p, struct xp_cm_command *c);
/* Executes a RESOLVE command, whose reply may tell an event. Returns 0 or -errno. */
int xp_cm_part_resolve(struct xp_cm_channel *ch, struct xp_cm_part *p, struct xp_cm_command *c);
/* Destroys the handle and frees the part. */
void xp_cm_part_destroy(struct xp_cm_channel *ch, struct xp_cm_part *p);
/* Creates a handle of an open id, which has not been bound yet. Returns 0 or -errno. */
int xp_cm_part_create(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_source *s);

/* Keeps one part of an open id and destroys the others. */
void xp_cm_id_commit(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_part *p);
/* Moves an id to another channel, which must have its sources. */
void xp_cm_id_move(struct xp_cm_channel *from, struct xp_cm_channel *to, struct xp_cm_id *id);

/* Records a command. Without memory for it, a later source does not get it. */
void xp_cm_id_record(struct xp_cm_id *id, const struct xp_cm_command *c);
bool xp_cm_id_has_record(const struct xp_cm_id *id, uint32_t cmd);
/* Gives an open id a part at another source by repeating its commands. Returns 0 or -errno. */
int xp_cm_id_extend(struct xp_cm_channel *ch, struct xp_cm_id *id, struct xp_cm_source *s);

void xp_cm_source_add(struct xp_cm_channel *ch, struct xp_cm_source *s, int events);
/* Returns the channel's connection to a source of another channel, or NULL. */
struct xp_cm_source *xp_cm_source_in(const struct xp_cm_channel *ch, const struct xp_cm_source *s);
/* Returns an id for which DEVICE_REMOVAL is to be read, and takes it as read; NULL: none. */
struct xp_cm_id *xp_cm_id_take_removal(struct xp_cm_channel *ch);
/* Handles the end of all daemons whose connection failed. */
void xp_cm_sources_check(struct xp_cm_channel *ch);

struct xp_cm_channel *xp_cm_channel_new(void);
/* Frees a channel with all ids and closes the connections, which ends the ids at the sources. */
void xp_cm_channel_free(struct xp_cm_channel *ch);

#endif /* XP_CM_IDS_H */
