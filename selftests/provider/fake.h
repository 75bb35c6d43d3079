/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A daemon for the provider's tests: it speaks the control protocol and owns
 * rings, but moves no data by itself. What it does, and when it dies, is told by the test
 * through a command socket. Runs in a process of its own.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_DEVICE "fake0"
#define FAKE_GUID 0x1122334455667788ull
#define FAKE_SRQN 0x5000 /* numbers of XRC SRQs begin here */
#define FAKE_REFUSED_HOP                                                                           \
	250 /* MODIFY_QP and address handles with this hop limit fail with EHOSTUNREACH */
#define FAKE_VENDOR_ERR 0x99	      /* of what fails; and of what is received */
#define FAKE_RECEIVED(n) (0x40 + (n)) /* length, immediate data, source QPN, P_Key index, SL */

struct fake {
	int pid;
	int cmd; /* socket */
};

/* Starts it on <dir>/fake0.sock; it serves when this returns. */
int fake_start(struct fake *f, const char *dir);
/* kill -9 */
void fake_kill(struct fake *f);

/* From now on it answers each HELLO so late. */
void fake_slow(struct fake *f, unsigned int ms);

/* Completes up to n entries of a queue, with a status; returns how many. */
unsigned int fake_complete(struct fake *f, uint32_t qpn, bool recv, unsigned int n, uint32_t status,
			   bool solicited);
/* A message of an XRC target for an SRQ completes a receive, with success; 0: there was none. */
unsigned int fake_complete_xrc(struct fake *f, uint32_t qpn, uint32_t srqn);
/* Async event of a CQ, QP or SRQ by its cookie, or of port 1 */
void fake_async_event(struct fake *f, uint64_t element, uint32_t type);
/* Moves the QP to ERR as the daemon does by itself: only the rings' words and a query say so. */
void fake_qp_error(struct fake *f, uint32_t qpn);
/*
 * Doorbell bits and wake-ups since the last call; sleeping says what the worker does from now on.
 */
void fake_doorbell(struct fake *f, bool sleeping, bool *rang, unsigned int *wakes);
/* What the segments of a region are: counts by kind */
void fake_segments(struct fake *f, uint32_t rkey, unsigned int kinds[4]);
/* Through whatever segment holds the address; false: it cannot be reached. */
bool fake_read(struct fake *f, uint32_t rkey, uint64_t addr, void *data, unsigned int len);
bool fake_write(struct fake *f, uint32_t rkey, uint64_t addr, const void *data, unsigned int len);
/* The first len bytes of a send queue's slot; returns the producer's index. */
uint32_t fake_send_entry(struct fake *f, uint32_t qpn, uint32_t index, void *entry,
			 unsigned int len);
/* The burst size of the QP's latest rate limit, bytes */
uint32_t fake_burst(struct fake *f, uint32_t qpn);
/* XR_CQF_* that a CQ was created with */
uint32_t fake_cq_flags(struct fake *f, uint32_t handle);
/* The first n pages in a list of a region for fast registration */
void fake_pages(struct fake *f, uint32_t rkey, uint32_t list, uint64_t *pages, unsigned int n);
/* Completes what is posted to send queues by itself, the first `failures` with IBV_WC_MW_BIND_ERR. */
void fake_automatic(struct fake *f, bool on, unsigned int failures);
/* How many objects of all kinds its clients have. */
unsigned int fake_objects(struct fake *f);

#endif /* FAKE_H */
