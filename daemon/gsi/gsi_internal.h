/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by gsi.c (the QP and received MADs) and send.c (next hops and sent MADs). */
#ifndef XD_GSI_INTERNAL_H
#define XD_GSI_INTERNAL_H

#include "daemon/cm/cm.h"
#include "daemon/transport/transport.h"
#include "gsi.h"
#include "pma.h"

struct xd_watch;

#define GSI_WORKER 0 /* the worker whose engine has QP 1 */
#define GSI_SENDS 256
#define GSI_RECEIVES 1024
#define GSI_CQES 2048 /* holds all receives, so that the CQ never overruns */
#define GSI_SEND_STRIDE (sizeof(struct xr_send_wqe) + XC_MAD_LEN)
#define GSI_RECEIVE_STRIDE (sizeof(struct xr_recv_wqe) + sizeof(struct xr_sge))
#define GSI_HOPS 256	   /* resolved next hops that are kept */
#define GSI_WAITING 256	   /* MADs that wait for their next hop */
#define GSI_WAITING_PMA 32 /* the same, while responses of performance management may join them */

struct gsi_buffer {
	uint8_t grh[XR_GRH_LEN];
	uint8_t mad[XC_MAD_LEN];
};

/* The rings of QP 1 and the memory that its engine accesses */
struct gsi_rings {
	struct xr_queue sq;
	uint8_t send[GSI_SENDS][GSI_SEND_STRIDE];
	struct xr_queue rq;
	uint8_t receive[GSI_RECEIVES][GSI_RECEIVE_STRIDE];
	struct xr_queue cq;
	struct xr_cqe cqe[GSI_CQES];
	struct gsi_buffer buffer[GSI_RECEIVES];
};

/* Next hop of a pair of addresses; unused: until is 0 */
struct gsi_hop {
	struct xr_addr local, peer;
	struct xt_path path;
	uint64_t until; /* xd_now() */
};

/* One instance of QP 1; there is none while it is lent. */
struct gsi_qp {
	struct xt_qp *xt;
	struct xt_cq cq; /* without owner */
	int event_fd;	 /* of struct xd_gsi */
	struct xt_flow flow;
	struct xt_ahs *ahs;		   /* by send queue slot: path of the slot's MAD */
	struct xt_path path[GSI_SENDS];	   /* the same, until the MADs are published */
	struct xt_mem memory, *memory_ptr; /* the receive buffers */
	struct xt_mem_seg segment;
	struct gsi_rings *rings;
	uint32_t sends, published, receives, polled; /* indices of SQ, RQ and CQ */
	struct xt_list waiting, peers;		     /* struct gsi_waiting, struct gsi_peer */
	uint32_t waiting_count;
};

struct xd_gsi {
	struct xd_gsi_config config;
	struct gsi_qp *qp;
	bool lent;
	bool receiving; /* in the callback: sent MADs are published afterwards */
	uint32_t holders;
	int event_fd; /* readable if the CQ may have completions */
	struct xd_watch *watch;
	xd_gsi_received_fn received;
	void *ctx;
	xd_gsi_others_fn others;
	void *others_ctx;
	xd_gsi_counters_fn add_counters;
	void *add_counters_ctx;
	struct xd_pma pma;
	uint64_t pma_bucket; /* of XD_GSI_PMA_RATE */
	struct gsi_hop hop[GSI_HOPS];
	struct xd_gsi_counters counters;
};

/* Passes queued MADs to the worker. */
void xd_gsi_publish(struct xd_gsi *g);
/* Forgets the MADs that wait for their next hop. */
void xd_gsi_drop_waiting(struct gsi_qp *q);

#endif /* XD_GSI_INTERNAL_H */
