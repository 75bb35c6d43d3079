// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The transport engine with hostile peers, a lossy network and a correct client. The completions of
 * the client must be right whatever packets arrive.
 *
 * Input: steps, each an action byte followed by the values that the action reads; see step().
 */
#include <endian.h>
#include <netinet/in.h>

#include "selftests/lib/ipv4.h"
#include "selftests/lib/parse.h"
#include "world.h"

#define FRAME_ROOM 4400

struct frame {
	uint8_t data[FRAME_ROOM];
	uint32_t len;
	unsigned ip_off, bth_off;
};

static void put(struct frame *f, const void *bytes, size_t len)
{
	MUST(f->len + len <= FRAME_ROOM);
	memcpy(f->data + f->len, bytes, len);
	f->len += (uint32_t)len;
}

static void put_be(struct frame *f, uint64_t value, unsigned bytes)
{
	uint64_t be = htobe64(value << (64 - 8 * bytes));

	put(f, &be, bytes);
}

/* Adds Ethernet, IP and UDP headers of a packet from the QP's peer. seal() sets the lengths. */
static void put_lower(struct frame *f, const struct xt_path *path, bool other_source)
{
	static const uint8_t macs[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };
	struct xr_addr src = path->dgid;

	src.raw[14] ^= other_source;
	put(f, macs, sizeof(macs));
	put_be(f, path->ip_version == 4 ? 0x0800 : 0x86dd, 2);
	f->ip_off = f->len;
	if (path->ip_version == 4) {
		put_be(f, 0x45000000, 4);
		put_be(f, 0x00004000, 4);
		put_be(f, 0x40110000, 4);
		put(f, src.raw + 12, 4);
		put(f, path->sgid.raw + 12, 4);
	} else {
		put_be(f, 0x60000000, 4);
		put_be(f, IPPROTO_UDP << 8 | 64, 4);
		put(f, src.raw, 16);
		put(f, path->sgid.raw, 16);
	}
	put_be(f, 0xc000, 2);
	put_be(f, XR_UDP_PORT, 2);
	put_be(f, 0, 4);
	f->bth_off = f->len;
}

static void set_be16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* Sets the lengths and the ICRC. */
static void seal(struct frame *f)
{
	struct xt_seg seg = { f->data, f->len };
	unsigned udp_len = f->len - (f->bth_off - 8);

	if (f->data[f->ip_off] >> 4 == 4)
		set_be16(f->data + f->ip_off + 2, f->len - f->ip_off);
	else
		set_be16(f->data + f->ip_off + 4, udp_len);
	if (f->data[f->ip_off] >> 4 == 4)
		ipv4_seal(f->data + f->ip_off);
	set_be16(f->data + f->bth_off - 4, udp_len);
	xt_icrc_seal(&seg, 1, f->ip_off, f->bth_off);
}

/* Picks a PSN, in most cases near a current PSN of the QP. */
static uint32_t pick_psn(struct stream *in, const struct fuzz_qp *q)
{
	const struct xr_psn_entry *psn = &q->world->psns[xt_qp_info(q->qp)->slot];
	uint8_t how = input_u8(in);
	int8_t delta = how & 4 ? (int8_t)input_u8(in) : 0;

	switch (how & 3) {
	case 0:
		return psn->expected + (uint32_t)delta;
	case 1:
		return psn->unacked + (uint32_t)delta;
	case 2:
		return psn->next + (uint32_t)delta;
	default:
		return input_u32(in);
	}
}

/*
 * Picks a region and an address near its start. Bit 7 of the first byte selects an arbitrary key.
 */
static uint32_t pick_key(struct stream *in, const struct world *w, uint64_t *va)
{
	uint8_t how = input_u8(in);
	const struct region *r = &w->region[(how & 0xf) % REG_TOTAL];

	*va = r->va + (uint64_t)(int16_t)input_u16(in);
	return how & 0x80 ? input_u32(in) : r->key;
}

static uint32_t pick_len(struct stream *in)
{
	uint8_t how = input_u8(in);

	if (how < 0xe0)
		return how;
	if (how < 0xf0)
		return 256u << (how & 7);
	return how < 0xfe ? input_u16(in) : input_u32(in);
}

static uint32_t pick_srq(struct stream *in, const struct world *w)
{
	uint8_t how = input_u8(in);

	return how & 0xf0 ? w->srq[how & 1 ? SRQ_FOREIGN : SRQ_XRC].xt.number : input_u32(in);
}

static void put_extensions(struct frame *f, struct stream *in, const struct fuzz_qp *q,
			   uint16_t flags)
{
	uint64_t va = 0;
	uint32_t key = 0;

	if (flags & (XR_EXT_RETH | XR_EXT_ATOMICETH))
		key = pick_key(in, q->world, &va);
	if (flags & XR_EXT_XRCETH)
		put_be(f, pick_srq(in, q->world), 4);
	if (flags & XR_EXT_DETH) {
		put_be(f, FUZZ_QKEY + !(input_u8(in) & 7), 4);
		put_be(f, input_u8(in), 4);
	}
	if (flags & XR_EXT_FETH)
		put_be(f, input_u8(in), 4);
	if (flags & XR_EXT_RETH) {
		put_be(f, va, 8);
		put_be(f, key, 4);
		put_be(f, pick_len(in), 4);
	}
	if (flags & XR_EXT_ATOMICETH) {
		put_be(f, va, 8);
		put_be(f, key, 4);
		put_be(f, input_u8(in), 8);
		put_be(f, input_u8(in), 8);
	}
	if (flags & XR_EXT_AETH)
		put_be(f, input_u32(in), 4);
	if (flags & XR_EXT_ATOMICACKETH)
		put_be(f, input_u8(in), 8);
	if (flags & (XR_EXT_IMMDT | XR_EXT_IETH))
		put_be(f, input_u32(in), 4);
}

static void put_payload(struct frame *f, struct stream *in, uint8_t opcode)
{
	static const uint8_t zeros[4];
	uint16_t flags = xr_opcodes[opcode].flags;
	uint32_t len = flags & XR_OPF_PAYLOAD ? pick_len(in) % 4097 : 0;
	uint8_t fill = input_u8(in);
	uint32_t pad = -len & 3;

	memset(f->data + f->len, fill, len);
	f->len += len;
	put(f, zeros, pad);
	f->data[f->bth_off + 1] |= (uint8_t)(pad << XR_BTH_PAD_SHIFT);
	put(f, zeros, XR_ICRC_LEN);
}

static uint8_t class_of(const struct fuzz_qp *q)
{
	switch (q->type) {
	case XR_QPT_UC:
		return XR_CLASS_UC;
	case XR_QPT_UD:
		return XR_CLASS_UD;
	case XR_QPT_XRC_SEND:
	case XR_QPT_XRC_RECV:
		return XR_CLASS_XRC;
	default:
		return XR_CLASS_RC;
	}
}

/* Receives a packet of the QP's peer. `odd` selects a field with a wrong value. */
static void packet(struct world *w, struct stream *in)
{
	struct fuzz_qp *q = &w->qp[input_u8(in) % QP_COUNT];
	uint8_t opcode = input_u8(in), odd = input_u8(in), bits = input_u8(in);
	uint32_t qpn = xt_qp_info(q->qp)->qpn;
	struct frame f = { .len = 0 };
	struct xt_path path;

	if ((odd & 7) != 5)
		opcode = (opcode & ~XR_CLASS_MASK) | class_of(q);
	if (!xr_opcodes[opcode].flags)
		opcode = class_of(q) | XR_OP_SEND_ONLY;
	path = *xt_qp_path(q->qp);
	if (q->type == XR_QPT_UD) { /* no path: from any address, to this device or the group */
		path = *xt_ahs_path(w->ahs, AH_FAR);
		path.sgid = (odd & 7) == 6 ? fuzz_group : path.sgid;
		qpn = (odd & 7) == 6 ? XR_MULTICAST_QPN : qpn;
	}
	put_lower(&f, &path, (odd & 7) == 1);
	put_be(&f, opcode, 1);
	put_be(&f, (bits & XR_BTH_SE) | XR_BTH_MIGREQ, 1);
	put_be(&f, (odd & 7) == 2 ? input_u16(in) : XR_DEFAULT_PKEY, 2);
	put_be(&f, (odd & 7) == 3 ? input_u32(in) : qpn, 4);
	put_be(&f, (pick_psn(in, q) & XR_PSN_MASK) | (bits & 1 ? XR_BTH_ACKREQ : 0), 4);
	put_extensions(&f, in, q, xr_opcodes[opcode].flags);
	put_payload(&f, in, opcode);
	seal(&f);
	if ((odd & 7) == 4)
		f.data[f.len - 1 - (bits >> 1 & 3)] ^= 1;
	if ((odd & 7) == 7)
		world_rx_large(w, f.data, f.len, 2 + (bits >> 3) % (XT_LARGE_PACKETS - 1),
			       bits & 4 ? pick_len(in) % 4096 : 1024);
	else
		world_rx(w, f.data, f.len);
}

/* Takes the oldest queued frame and delivers it once or more, drops it, or changes it. */
static void deliver(struct world *w, struct stream *in)
{
	uint8_t how = input_u8(in), times = how & 0xc ? 1 : 1 + (how & 3);
	uint32_t len;
	uint8_t *data = world_take(w, &len);

	if (!data)
		return;
	if ((how & 0xf0) == 0x10) {
		struct frame f;

		memcpy(f.data, data, len);
		f.len = len;
		f.data[input_u16(in) % len] ^= input_u8(in);
		if (!(how & 2))
			ipv4_seal_frame(f.data, len);
		if (!(how & 1)) {
			struct xt_frame flat = { .nseg = 1,
						 .len = len,
						 .seg = { { f.data, len } } };

			if (parse_frame(&flat) == XR_OK)
				xt_icrc_seal(flat.seg, 1, flat.meta.ip_off, flat.meta.bth_off);
		}
		world_rx(w, f.data, f.len);
	} else if ((how & 0xf0) != 0x20) {
		while (times--)
			world_rx(w, data, len);
	}
	free(data);
}

static void deliver_all(struct world *w)
{
	for (int i = 0; i < 4 * MAX_QUEUED && w->queued; i++) {
		uint32_t len;
		uint8_t *data = world_take(w, &len);

		world_rx(w, data, len);
		free(data);
		if (!w->queued)
			world_run(w);
	}
}

static struct xr_sge pick_sge(struct stream *in, const struct world *w, const struct fuzz_qp *q)
{
	uint8_t how = input_u8(in);
	unsigned id = q->id >= QP_GOOD_A ? REG_GOOD : how & 1 ? REG_PIECES : REG_ALL;
	uint32_t off = input_u8(in) * 4u, len = pick_len(in) % 3000;

	return world_sge(w, id, off, off + len <= w->region[id].size ? len : 0);
}

static void send_work(struct world *w, struct stream *in)
{
	static const uint8_t opcodes[] = {
		XR_WR_SEND,
		XR_WR_SEND_WITH_IMM,
		XR_WR_RDMA_WRITE,
		XR_WR_RDMA_WRITE_WITH_IMM,
		XR_WR_RDMA_READ,
		XR_WR_ATOMIC_CMP_AND_SWP,
		XR_WR_ATOMIC_FETCH_AND_ADD,
		XR_WR_ATOMIC_WRITE,
		XR_WR_FLUSH,
	};
	struct fuzz_qp *q = &w->qp[input_u8(in) % QP_COUNT];
	uint8_t op = input_u8(in), flags = input_u8(in);
	struct xr_send_wqe wqe = { .opcode = opcodes[op % (sizeof(opcodes) / sizeof(opcodes[0]))] };
	struct xr_sge sge[MAX_SGES];
	uint8_t data[MAX_INLINE] = { 0 };
	uint64_t va;
	bool atomic = wqe.opcode == XR_WR_ATOMIC_CMP_AND_SWP ||
		      wqe.opcode == XR_WR_ATOMIC_FETCH_AND_ADD;

	if (!qp_may_post(&q->sq) || xt_qp_info(q->qp)->state < XR_QPS_RTS)
		return;
	wqe.flags = flags & (XR_SEND_FENCE | XR_SEND_SIGNALED | XR_SEND_SOLICITED);
	wqe.rkey = pick_key(in, w, &va);
	wqe.remote_addr = va;
	if (atomic) {
		wqe.atomic.compare_add = input_u8(in);
		wqe.atomic.swap = input_u8(in);
	}
	if (wqe.opcode == XR_WR_FLUSH) {
		wqe.flush.length = pick_len(in);
		wqe.flush.type = input_u8(in);
		wqe.flush.level = op >> 7;
	}
	if (q->type == XR_QPT_UD || q->type == XR_QPT_XRC_SEND)
		qp_add_destination(q, &wqe, input_u8(in));
	if (flags & XR_SEND_INLINE && wqe.opcode <= XR_WR_SEND_WITH_IMM) {
		wqe.flags |= XR_SEND_INLINE;
		wqe.inline_len = input_u8(in) % (MAX_INLINE + 1);
		qp_post_send(q, &wqe, data, wqe.inline_len);
		return;
	}
	wqe.num_sge = atomic ? 1 : (op >> 4) % (MAX_SGES + 1);
	for (unsigned i = 0; i < wqe.num_sge; i++)
		sge[i] = pick_sge(in, w, q);
	if (atomic)
		sge[0].length = XR_ATOMIC_LEN;
	qp_post_send(q, &wqe, sge, wqe.num_sge * sizeof(*sge));
}

static void receive_work(struct world *w, struct stream *in)
{
	struct fuzz_qp *q = &w->qp[input_u8(in) % QP_COUNT];
	uint8_t how = input_u8(in);
	unsigned n = (how & 0xf) % (MAX_SGES + 1);
	struct xr_sge sge[MAX_SGES];

	if (qp_srq(q) && how & 0x80)
		xt_srq_arm(&qp_srq(q)->xt, how >> 4 & 7);
	if (!qp_may_post_recv(q) || xt_qp_info(q->qp)->state == XR_QPS_RESET)
		return;
	for (unsigned i = 0; i < n; i++)
		sge[i] = pick_sge(in, w, q);
	qp_post_recv(q, n, sge);
}

/*
 * Brings a QP up, creates it again, or modifies it with arbitrary attributes. Arbitrary attributes
 * are rarely valid and could not bring the QP up again.
 */
static void modify(struct world *w, struct stream *in)
{
	struct fuzz_qp *q = &w->qp[input_u8(in) % QP_COUNT];
	uint8_t how = input_u8(in);
	struct xr_qp_attr attr;
	struct xt_path path = *xt_qp_path(q->qp);
	uint32_t mask;

	if (how < 0x40) {
		qp_bring_up(q, how & 3);
		return;
	}
	if (how < 0x80) {
		/* the QPs of the good client do not change */
		qp_remake(q, q->id < QP_GOOD_A ? how >> 2 & (KIND_COUNT - 1) : KIND_RC,
			  how & 0x20 && q->id < QP_GOOD_A);
		qp_bring_up(q, how & 3);
		return;
	}
	input_bytes(in, &attr, sizeof(attr));
	mask = input_u32(in);
	if (how & 1)
		attr.qp_state &= 7;
	/* Not to RESET: the client would have to post again. Without a path the state stays. */
	if (attr.qp_state == XR_QPS_RESET || path.ip_version == 0)
		mask &= ~(uint32_t)IBV_QP_STATE;
	if (!xt_qp_modify_check(q->qp, &attr, mask, NULL))
		xt_qp_modify(q->qp, &attr, mask, &path, 4096, w->now);
	else
		MUST(xt_qp_modify(q->qp, &attr, mask, &path, 4096, w->now));
	xt_qp_query(q->qp, &attr);
	MUST(attr.qp_state == xt_qp_info(q->qp)->state);
}

/* Polls, arms or resizes the CQ. */
static void poll_or_arm(struct world *w, uint8_t how)
{
	if (how & 0x20)
		__atomic_fetch_or(&w->cq[0].ring->word, XR_ARM_ANY, __ATOMIC_SEQ_CST);
	if (how & 0x40)
		__atomic_fetch_or(&w->cq[0].ring->word, XR_ARM_SOLICITED, __ATOMIC_SEQ_CST);
	if (how & 0x10)
		world_resize(w, CQ_DEPTH << (how >> 7));
	else
		world_poll(w);
}

static void tune(struct world *w, struct stream *in)
{
	uint32_t window = input_u8(in);
	struct xt_tuning tuning = {
		.window = window,
		.short_window = window * 2,
		.engine_window = input_u8(in) * 4u,
		.read_packets = input_u8(in),
	};

	xt_engine_tune(w->engine, &tuning);
}

static void step(struct world *w, struct stream *in)
{
	struct region *lost;
	uint8_t action = input_u8(in);

	switch (action & 0xf) {
	case 0 ... 4:
		packet(w, in);
		break;
	case 5 ... 6:
		deliver(w, in);
		break;
	case 7:
		deliver_all(w);
		break;
	case 8 ... 9:
		send_work(w, in);
		break;
	case 10:
		receive_work(w, in);
		break;
	case 11:
		world_finish(w, action >> 4 & 3, false);
		world_advance(w, (uint64_t)input_u8(in) << (action >> 4) * 2);
		break;
	case 12:
		modify(w, in);
		break;
	case 13:
		poll_or_arm(w, action);
		break;
	case 14:
		w->no_room = action & 0x10;
		w->slow = action & 0x20;
		w->no_staging = action & 0x40;
		break;
	case 15:
		lost = &w->region[REG_PIECES];
		lost->mem.length = action & 0x10 ? 0 : lost->size;
		w->took_memory = true;
		if (action & 0x20)
			world_finish(w, UINT32_MAX, true);
		break;
	}
	if (!(action & 0x80))
		world_run(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream in = { data, size };
	static struct world w;

	world_open(&w, true);
	tune(&w, &in);
	for (int i = 0; i < 200 && !input_end(&in); i++)
		step(&w, &in);
	world_close(&w);
	return 0;
}
