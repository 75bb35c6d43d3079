// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The order in which a message arrives in memory of several tiers. Mapped bytes are stored at once,
 * others when their access ends: the end of the message must come last, and accesses to it are
 * marked.
 */
#include "slow.h"

#define AT 4096		  /* offset of the message in region SLOW */
#define EARLIER 100000	  /* offset of the bytes of an earlier message */
#define SOURCE (SIZE / 2) /* offset of the bytes in region FAST */
#define GRH (type == XR_QPT_UD ? 40u : 0u)

/* Region SLOW in three segments, which are mapped and not mapped in turn */
struct layout {
	const char *name;
	bool mapped_first;
	int cut[2]; /* bytes from the start of the message; negative: from its end */
};

struct message {
	const char *name;
	uint8_t opcode;
	uint8_t types; /* 1 << enum xr_qp_type */
	bool split; /* the first half comes from memory that has to be read, the rest is mapped */
};

#define ALL_TYPES (1u << XR_QPT_RC | 1u << XR_QPT_UC | 1u << XR_QPT_UD)
#define CONNECTED (1u << XR_QPT_RC | 1u << XR_QPT_UC)

static struct xt_mem_seg segs[3];
static uint32_t len;

static uint64_t cut_at(int cut)
{
	return AT + GRH + (cut < 0 ? len : 0) + cut;
}

static void divide(const struct layout *l)
{
	uint64_t at[] = { 0, cut_at(l->cut[0]), cut_at(l->cut[1]), SIZE };

	for (unsigned i = 0; i < 3; i++) {
		bool mapped = l->mapped_first == !(i & 1);

		segs[i] = (struct xt_mem_seg){
			.off = at[i],
			.len = at[i + 1] - at[i],
			.ptr = mapped ? slow + at[i] : NULL,
			.addressed = mapped,
			.writable = true,
		};
	}
	slow_mr.mem.seg = segs;
	slow_mr.mem.nseg = 3;
}

static void post_message(const struct message *m)
{
	bool read = m->opcode == XR_WR_RDMA_READ;
	uint64_t from = FAST + SOURCE, to = SLOW + AT;
	struct xr_send_wqe *w;
	struct xr_sge *sge;

	if (m->opcode == XR_WR_SEND)
		h_post_recv(&b, 1, to, GRH + len, slow_key);
	w = post(&a, 2, m->opcode, read ? to : from, read ? from : to, len);
	sge = (struct xr_sge *)(w + 1);
	if (m->split) {
		memcpy(slow + SOURCE, fast + SOURCE, len / 2);
		sge[0] = (struct xr_sge){ SLOW + SOURCE, len / 2, slow_key };
		sge[1] = (struct xr_sge){ from + len / 2, len - len / 2, fast_key };
		w->num_sge = 2;
	}
	if (type == XR_QPT_UD) {
		w->ud.ah = AH;
		w->ud.remote_qpn = b.qpn;
		w->ud.remote_qkey = QKEY;
	}
}

/* Returns true if the end of the message is in memory, but not all before it. */
static bool too_early(void)
{
	const uint8_t *got = slow + AT + GRH, *sent = fast + SOURCE;

	if (got[len - 1] != sent[len - 1])
		return false;
	return memcmp(got, sent, len) || (GRH && !got[20 - (int)GRH]);
}

/* Returns true if a write belongs to the packet that ends a message, over loopback to the piece. */
static bool ends_message(const struct xt_mem_io *io, bool loopback)
{
	return io->at + io->len > AT + GRH + (loopback ? 0 : (len - 1) / MTU * MTU);
}

/* The GRH of a datagram is written together with the payload if possible. */
static bool only_grh(const struct xt_mem_io *io)
{
	return io->at >= AT && io->at + io->len <= AT + GRH;
}

/* Counts the writes after number *seen whose mark is wrong. */
static unsigned wrong_marks(unsigned *seen, bool loopback)
{
	unsigned wrong = 0;

	for (; *seen < submissions; ++*seen) {
		const struct xt_mem_io *io = submitted[*seen];

		if (io->op == XT_MEM_WRITE && !only_grh(io))
			wrong += io->last != ends_message(io, loopback);
	}
	return wrong;
}

/* Returns true if the message arrives in order; *marks: number of wrong marks. */
static bool arrives(bool loopback, unsigned *marks)
{
	bool early = false;
	unsigned seen = 0;

	do {
		settle();
		*marks += wrong_marks(&seen, loopback);
		early |= too_early();
	} while (finish(0));
	settle();
	return !early && !memcmp(slow + AT + GRH, fast + SOURCE, len);
}

static bool in_order(const struct message *m, const struct layout *l, bool loopback, bool busy,
		     unsigned *marks)
{
	bool right;

	begin(loopback);
	divide(l);
	memset(fast + SOURCE, 0x5a, len);
	memset(slow + AT, 0, GRH + len);
	if (busy)
		post(&a, 3, XR_WR_RDMA_WRITE, FAST, SLOW + EARLIER, 64);
	post_message(m);
	ring(&a);
	right = arrives(loopback, marks);
	h_destroy(&a);
	h_destroy(&b);
	h_free(h);
	return right && !allocated;
}

static const char *type_name(void)
{
	return type == XR_QPT_RC ? "RC" : type == XR_QPT_UC ? "UC" : "UD";
}

static void test_message(const struct message *m, bool loopback)
{
	static const struct layout layouts[] = {
		{ "not mapped, mapped", false, { -200, 100000 } },
		{ "mapped, not mapped", true, { -200, 100000 } },
		{ "not mapped, mapped, not mapped", false, { -200, -100 } },
		{ "mapped, not mapped, mapped", true, { -200, -100 } },
		{ "cut at the start: not mapped, mapped", false, { 100, 100000 } },
		{ "cut at the start: mapped, not mapped", true, { 100, 100000 } },
		{ "not mapped", false, { 100000, 100001 } },
	};
	static const uint32_t lengths[] = { 700, 3 * MTU - 100 };
	bool datagrams = type == XR_QPT_UD;
	unsigned wrong = 0, tried = 0, marks = 0;
	const char *first = "-";

	for (unsigned i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		for (unsigned j = 0; j < (datagrams ? 1 : 4); j++, tried++) {
			len = lengths[j & 1];
			if (in_order(m, &layouts[i], loopback, j & 2, &marks))
				continue;
			first = wrong++ ? first : layouts[i].name;
		}
	}
	TAP_OK(!wrong, "%s, %s, %s: the end comes last in %u cases (%u wrong, first: %s)", m->name,
	       type_name(), loopback ? "over loopback" : "on the wire", tried, wrong, first);
	TAP_OK(!marks, "%s, %s, %s: the accesses that end the message are marked (%u wrong)",
	       m->name, type_name(), loopback ? "over loopback" : "on the wire", marks);
}

int main(void)
{
	static const struct message messages[] = {
		{ "WRITE", XR_WR_RDMA_WRITE, CONNECTED, false },
		{ "WRITE from two places", XR_WR_RDMA_WRITE, CONNECTED, true },
		{ "SEND", XR_WR_SEND, ALL_TYPES, false },
		{ "SEND from two places", XR_WR_SEND, ALL_TYPES, true },
		{ "READ", XR_WR_RDMA_READ, 1u << XR_QPT_RC, false },
	};
	static const uint32_t types[] = { XR_QPT_RC, XR_QPT_UC, XR_QPT_UD };

	for (unsigned t = 0; t < sizeof(types) / sizeof(*types); t++) {
		type = types[t];
		for (unsigned i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
			if (!(messages[i].types & 1u << type))
				continue;
			test_message(&messages[i], false);
			test_message(&messages[i], true);
		}
	}
	return tap_end();
}
