/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Address handles, address resolution, multicast. */
#ifndef XP_AH_H
#define XP_AH_H

#include <infiniband/verbs.h>
#include <xroce/control.h>

struct xp_context;

struct xp_ah {
	struct ibv_ah ibah;
	struct xp_context *ctx; /* of this process: child.h */
};

static inline struct xp_ah *xp_ah(struct ibv_ah *ibah)
{
	return (struct xp_ah *)ibah;
}

struct ibv_ah *xp_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr);
struct ibv_ah *xp_create_ah_from_wc(struct ibv_pd *ibpd, struct ibv_wc *wc, struct ibv_grh *grh,
				    uint8_t port);
int xp_init_ah_from_wc(struct ibv_context *ibctx, uint8_t port, struct ibv_wc *wc,
		       struct ibv_grh *grh, struct ibv_ah_attr *attr);
int xp_destroy_ah(struct ibv_ah *ibah);
int xp_resolve_eth_l2_from_gid(struct ibv_context *ibctx, struct ibv_ah_attr *attr, uint8_t mac[6],
			       uint16_t *vid);
int xp_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid);
int xp_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid);

/* Convert between the attributes of verbs and those of the control protocol. */
void xp_ah_attr_to_control(struct xr_ah_attr *to, const struct ibv_ah_attr *from);
void xp_ah_attr_from_control(struct ibv_ah_attr *to, const struct xr_ah_attr *from);

#endif /* XP_AH_H */
