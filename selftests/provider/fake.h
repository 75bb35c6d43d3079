/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A daemon for the provider's tests: it implements the control protocol and the rings, but moves no
 * data by itself. Tests control it through a command socket. It runs in a process of its own.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_DEVICE "fake0"
#define FAKE_GUID 0x1122334455667788ull
#define FAKE_SRQN 0x5000 /* the first number of an XRC SRQ */
#define FAKE_REFUSED_HOP                                                                           \
	250 /* MODIFY_QP and CREATE_AH with this hop limit fail with EHOSTUNREACH */
#define FAKE_REFUSED_CLASS 0x0f	      /* an agent of umad for this class fails with EBUSY */
#define FAKE_TIMEOUT_SL 7	      /* a MAD with this service level gets no response */
#define FAKE_VENDOR_ERR 0x99	      /* of failed completions; of receives */
#define FAKE_RECEIVED(n) (0x40 + (n)) /* 1: immediate data, 2: source QPN, 3: P_Key index, 4: SL */
#define FAKE_RECEIVED_LENGTH (1u << 20) /* so that four receives in 30 ms are 1 Gbit/s */

struct fake {
	int pid;
	int cmd; /* command socket */
};

/* Interface of the device. Read by fake_start(). */
extern const char *fake_netdev; /* "none" */

/* Starts the daemon with the socket <dir>/fake0.sock and waits until it listens. */
int fake_start(struct fake *f, const char *dir);
/* Kills the daemon with SIGKILL. */
void fake_kill(struct fake *f);

/* Delays all later replies to HELLO. */
void fake_slow(struct fake *f, unsigned int ms);

/* Completes up to n entries of a queue with a status. Returns their number. */
unsigned int fake_complete(struct fake *f, uint32_t qpn, bool recv, unsigned int n, uint32_t status,
			   bool solicited);
/* Completes a receive of an SRQ successfully, for an XRC target. Returns 0 if there is none. */
unsigned int fake_complete_xrc(struct fake *f, uint32_t qpn, uint32_t srqn);
/* Sends an asynchronous event of a CQ, QP or SRQ, by its cookie, or of port 1. */
void fake_async_event(struct fake *f, uint64_t element, uint32_t type);
/* Moves the QP to ERR. Only the state words of its rings and QUERY_QP show it. */
void fake_qp_error(struct fake *f, uint32_t qpn);
/*
 * Returns whether a doorbell was rung and the number of wake-ups since the last call, then sets
 * whether the worker sleeps.
 */
void fake_doorbell(struct fake *f, bool sleeping, bool *rang, unsigned int *wakes);
/* Counts the segments of a region by kind. */
void fake_segments(struct fake *f, uint32_t rkey, unsigned int kinds[4]);
/* Access a region through its segments. Return false if the address cannot be accessed. */
bool fake_read(struct fake *f, uint32_t rkey, uint64_t addr, void *data, unsigned int len);
bool fake_write(struct fake *f, uint32_t rkey, uint64_t addr, const void *data, unsigned int len);
/* Copies the first len bytes of a send queue entry. Returns the producer index. */
uint32_t fake_send_entry(struct fake *f, uint32_t qpn, uint32_t index, void *entry,
			 unsigned int len);
/* Returns the burst size of the QP's last rate limit, in bytes. */
uint32_t fake_burst(struct fake *f, uint32_t qpn);
/* Returns the XR_CQF_* that a CQ was created with. */
uint32_t fake_cq_flags(struct fake *f, uint32_t handle);
/* Returns the moderation of a CQ, as last modified. */
void fake_cq_moderation(struct fake *f, uint32_t handle, uint32_t *count, uint32_t *period);
/* Copies the first n words of a list of a region for fast registration, or an integrity region. */
void fake_pages(struct fake *f, uint32_t rkey, uint32_t list, uint64_t *pages, unsigned int n);
/* Completes all posted sends on its own, the first `failures` with IBV_WC_MW_BIND_ERR. */
void fake_automatic(struct fake *f, bool on, unsigned int failures);
/* Returns the number of objects of all clients. */
unsigned int fake_objects(struct fake *f);

#endif /* FAKE_H */
