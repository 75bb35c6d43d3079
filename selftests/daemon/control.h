/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The real server on a fake device (fuzz/fake_device.c), and clients of it, in one program. A test
 * sends a request, runs the loop until nothing is left to do, and reads the reply. Steps that are
 * not tested themselves must succeed: MUST().
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "../fuzz/fake_device.h"
#include "../fuzz/input.h"
#include "../lib/tap.h"
#include "daemon/objects/cq.h"
#include "daemon/objects/dm.h"
#include "daemon/objects/engine_events.h"
#include "daemon/objects/mr.h"
#include "daemon/objects/objects.h"
#include "daemon/objects/pd.h"
#include "daemon/objects/qp.h"
#include "daemon/objects/srq.h"
#include "daemon/objects/xrc.h"
#include "daemon/server/server.h"

#define PAGE 4096ul

void start_server(const char *name);
/* Runs the loop until all jobs and events are done. */
void settle(void);
extern bool job_hangs; /* a job blocks, so settle() does not wait for jobs */
/* Returns true if the daemon has no clients, objects or other resources of clients. */
bool nothing_left(void);
/* Returns the number of open descriptors of this program. */
int open_fds(void);

/* ---- clients --------------------------------------------------------------------- */

struct conn {
	struct xd_client *client;
	int fd;
	uint32_t seq;
	/* the last reply */
	uint8_t body[16384] __attribute__((aligned(8)));
	uint32_t length;
	int fds[64];
	uint32_t nfds;
};

void connect_client(struct conn *c);
void disconnect(struct conn *c);
/* Like connect_client(), then sends HELLO and stores the event socket in events_fd. */
extern int events_fd;
void open_client(struct conn *c);
void close_client(struct conn *c);

void send_raw(struct conn *c, const void *data, size_t len, const int *fds, uint32_t nfds);
/* Returns the status of the reply; 1: no reply yet; -EPIPE: the daemon closed the connection. */
int read_reply(struct conn *c);
/* True if the last reply's reason of an error contains `text` */
bool reason_has(const struct conn *c, const char *text);
int ask_fds(struct conn *c, uint32_t type, const void *body, size_t len, const int *fds,
	    uint32_t nfds);
int ask(struct conn *c, uint32_t type, const void *body, size_t len);
/* Does not run the loop, which would take too long for many requests. */
int ask_now(struct conn *c, uint32_t type, const void *body, size_t len);
int ask_handle(struct conn *c, uint32_t type, uint32_t handle);
uint32_t handle_of(struct conn *c);
int hello(struct conn *c, uint32_t flags);

/* ---- objects --------------------------------------------------------------------- */

uint32_t alloc_pd(struct conn *c);
uint32_t create_channel(struct conn *c, int *fd);
uint32_t create_cq(struct conn *c, uint32_t depth, uint32_t channel);
struct xr_create_qp_req qp_request(uint32_t pd, uint32_t cq);
uint32_t create_qp(struct conn *c, uint32_t pd, uint32_t cq);
uint32_t create_datagram_qp(struct conn *c); /* with a PD and a CQ of its own */
uint32_t create_srq(struct conn *c, uint32_t pd, uint32_t max_wr);
/* These three return the status. */
int open_xrcd(struct conn *c, const char *file, uint32_t flags);
int create_ah(struct conn *c, uint32_t pd, uint32_t sgid_index);
int mcast(struct conn *c, uint32_t type, uint32_t qp, uint8_t group);

/* MODIFY_QP; mask: attributes besides the state. Return the status. */
int modify(struct conn *c, uint32_t qp, uint32_t state, struct xr_qp_attr attr, uint32_t mask);
int to_init(struct conn *c, uint32_t qp);
struct xr_qp_attr rtr_attr(void); /* with the address of a reachable peer */
int to_rtr(struct conn *c, uint32_t qp, struct xr_qp_attr attr);
int to_rts(struct conn *c, uint32_t qp);
uint32_t state_of(struct conn *c, uint32_t qp);

/* ---- regions --------------------------------------------------------------------- */

struct reg {
	struct xr_reg_mr_req q;
	struct xr_mr_segment segment[8];
};

/* /proc/self/mem and maps, which are sent with each registration unless proc_sent is set */
extern int proc_fd[2];
extern bool proc_sent;

#define RW (XR_ACCESS_LOCAL_WRITE | XR_ACCESS_REMOTE_WRITE | XR_ACCESS_REMOTE_READ)

struct reg reg_of(uint32_t pd, const void *addr, size_t length, uint32_t access);
void add_segment(struct reg *r, uint32_t kind, const void *addr, size_t length);
int send_reg(struct conn *c, const struct reg *r, const int *fds, uint32_t nfds);
int reg_private(struct conn *c, uint32_t pd, const void *addr, size_t length, uint32_t access);
/* REREG_MR with flags of ibv_rereg_mr(); r is the region as in REG_MR. */
int rereg(struct conn *c, uint32_t handle, uint32_t flags, struct reg *r);
void *pages(size_t n, int prot, int flags);
int memfd(size_t size, int seals);

/* The region of the last reply */
struct xr_reg_mr_rep mr_of(struct conn *c);
struct xd_mr *the_mr(struct conn *c);

/* Starts a spawner; also again, while no client has a mover. */
void start_movers(void);
/* Reads or writes bytes of a region. -EACCES, -EFAULT. */
int access_mem(struct xt_mem *mem, uint64_t off, void *data, size_t len, bool write);
/* Read and write the bytes behind a key, as a QP of the PD would. -EACCES, -EFAULT. */
int read_key(struct conn *c, uint32_t pd, uint32_t key, const void *at, size_t len, void *data);
int remote_read_key(struct conn *c, uint32_t pd, uint32_t key, const void *at, size_t len,
		    void *data);
int remote_write_key(struct conn *c, uint32_t pd, uint32_t key, const void *at, size_t len,
		     void *data);

#endif /* CONTROL_H */
