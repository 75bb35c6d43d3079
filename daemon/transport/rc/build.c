// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The packets of each kind of work request */

#include "build.h"
#include "daemon/transport/memory/copy.h"
#include "daemon/transport/wire/packet.h"
#include "daemon/transport/qp.h"
#include "daemon/transport/queue/wr_kind.h"

/* ---- SEND and WRITE ------------------------------------------------------------------------- */

uint8_t xt_data_opcode(const struct xt_swqe *w, bool first, bool last)
{
	uint8_t op = w->kind == XT_KIND_SEND ? XR_OP_SEND_FIRST : XR_OP_WRITE_FIRST;
	bool imm = last && xt_has_imm(w);

	if (last && w->opcode == XR_WR_SEND_WITH_INV)
		return first ? XR_OP_SEND_ONLY_INV : XR_OP_SEND_LAST_INV;
	if (first)
		return op + (last ? XR_OP_SEND_ONLY + imm : XR_OP_SEND_FIRST);
	return op + (last ? XR_OP_SEND_LAST + imm : XR_OP_SEND_MIDDLE);
}

void xt_req_data_headers(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	bool first = at->psn == w->psn, last = at->psn + at->span == w->psn + w->npsn;

	p->opcode = xt_data_opcode(w, first, last);
	/* IBTA 9.2.3: only packets that complete a receive */
	p->solicited = last && xt_takes_receive(w) && (w->flags & XR_SEND_SOLICITED);
	if (first && w->kind == XT_KIND_WRITE)
		xt_ext_reth(p, w->remote_addr, w->rkey, w->length);
	if (last && xt_has_imm(w))
		xt_ext_put(p, &w->imm, sizeof(w->imm));
	if (last && w->opcode == XR_WR_SEND_WITH_INV)
		xt_ext_ieth(p, w->inv_rkey);
}

static bool rc_build_data(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	struct xt_swqe *w = xt_swqe(qp, at->index);
	uint32_t off = (at->psn - w->psn) << qp->mtu_shift, left = w->length - off;
	uint32_t most = at->span << qp->mtu_shift;
	bool ok;

	xt_req_data_headers(qp, at, p);
	ok = xt_gather(qp, at->index, off, left < most ? left : most, &p->payload, &w->error);
	if (__builtin_expect(qp->accesses.reads[XT_READS_SEND].used, false) && !off)
		xt_sq_read_ahead(qp, at->index);
	return ok;
}

/* ---- the other kinds ------------------------------------------------------------------------- */

static bool build_read(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	uint32_t off = (at->psn - w->psn) << qp->mtu_shift, left = w->length - off;
	uint64_t len = (uint64_t)at->span << qp->mtu_shift;

	p->opcode = XR_OP_READ_REQUEST;
	xt_ext_reth(p, w->remote_addr + off, w->rkey, left < len ? left : len);
	return true;
}

static bool build_atomic(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	struct xr_atomiceth eth = {
		.va = htobe64(w->remote_addr),
		.rkey = htobe32(w->rkey),
		.swap_add = htobe64(w->atomic.swap_add),
		.compare = htobe64(w->atomic.compare),
	};

	p->opcode = xt_wr_opcode(w->opcode)->op;
	xt_ext_put(p, &eth, sizeof(eth));
	return true;
}

static bool build_atomic_write(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	struct xt_swqe *w = xt_swqe(qp, at->index);

	p->opcode = XR_OP_ATOMIC_WRITE;
	xt_ext_reth(p, w->remote_addr, w->rkey, XR_ATOMIC_LEN);
	return xt_gather(qp, at->index, 0, XR_ATOMIC_LEN, &p->payload, &w->error);
}

static bool build_flush(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	const struct xt_swqe *w = xt_swqe(qp, at->index);
	struct xr_feth feth = { htobe32(w->flush.feth) };

	p->opcode = XR_OP_FLUSH;
	xt_ext_put(p, &feth, sizeof(feth));
	xt_ext_reth(p, w->remote_addr, w->rkey, w->flush.length);
	return true;
}

/* ---- all kinds ------------------------------------------------------------------------------ */

bool xt_req_build(struct xt_qp *qp, const struct xt_cursor *at, struct xt_packet *p)
{
	typedef bool builder(struct xt_qp * qp, const struct xt_cursor *at, struct xt_packet *p);
	static builder *const builders[XT_KIND_COUNT] = {
		[XT_KIND_SEND] = rc_build_data,
		[XT_KIND_WRITE] = rc_build_data,
		[XT_KIND_READ] = build_read,
		[XT_KIND_ATOMIC] = build_atomic,
		[XT_KIND_ATOMIC_WRITE] = build_atomic_write,
		[XT_KIND_FLUSH] = build_flush,
	};

	return builders[xt_swqe(qp, at->index)->kind](qp, at, p);
}
