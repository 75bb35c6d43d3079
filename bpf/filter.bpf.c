// SPDX-License-Identifier: GPL-2.0-only
/*
 * The filters of UDP sockets at the RoCE v2 port: the checks of the XDP program, on the same maps.
 * xroce_filter is for the sockets of the daemon's workers, xroce_slot for those that direct
 * programs borrow. docs/xdp.md describes them.
 *
 * The kernel can join the packets of a flow into one frame (UDP GRO). A frame that has a packet for
 * the engine is kept as a whole, and nothing is counted: user space, which has the same checks,
 * counts its packets and drops those that are invalid. Other frames are dropped, and their packets
 * are counted here. So each packet is counted once.
 */
#include <linux/bpf.h>

#include <xroce/verdict.h>

#include "count.h"
#include "refused.h"
#include "view.h"

/* Keys of direct programs. The daemon sets the sizes of this map and the next one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
	__uint(max_entries, 4096);
	__type(key, struct xr_direct_key);
	__type(value, struct xr_key_entry);
} direct_keys SEC(".maps");

/* By the cookie of the socket, as one program serves all slots */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct xr_slot_entry);
} slots SEC(".maps");

/* Packets of a frame, as many as the kernel joins. Frames with more are left to user space. */
#define MOST_PACKETS 64

struct frame {
	/* all but the addresses and offsets are those of the packet checked last */
	struct xr_packet pkt;
	__u32 bth_off;	 /* from the Ethernet header on, of the first packet */
	__u32 payload;	 /* bytes behind UDP */
	__u32 each;	 /* of those, in each packet but the last */
	__u32 first_qpn; /* of the first packet */
	bool keep;
	__u8 reason[MOST_PACKETS];
};

/*
 * The frame that is being checked. The verifier does not follow the contents of maps: on the stack,
 * each combination of values would be a state of its own. Filters run with softirqs disabled, one
 * at a time on a CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame);
} frames SEC(".maps");

struct xr_view {
	const struct xr_slot_entry *slot; /* NULL: the socket is that of a worker */
};

struct run {
	struct __sk_buff *skb;
	struct frame *f;
	struct xr_view view;
};

static __always_inline const struct xr_key_entry *xr_find_key(struct xr_view *view, __u32 index)
{
	struct xr_direct_key key = { .index = index };

	if (!view->slot)
		return bpf_map_lookup_elem(&keys, &index);
	key.slot = view->slot->slot;
	return bpf_map_lookup_elem(&direct_keys, &key);
}

/* ---- the frame -------------------------------------------------------------------------- */

/* Of the groups that direct programs have joined, only they know. */
static __always_inline bool is_ours(struct xr_view *view, struct xr_packet *pkt)
{
	if (!view->slot || !xr_gid_is_multicast(&pkt->dst))
		return xr_is_ours(view, pkt);
	pkt->group = true;
	return true;
}

/*
 * Parses and checks what all packets of the frame have in common. Offsets are as if the frame had
 * an Ethernet header, which an interface need not have. The kernel has compared the length of the
 * IP packet with the frame, and has cut off what is behind the UDP datagram.
 */
static __always_inline enum xr_reason check_frame(struct run *r)
{
	struct __sk_buff *skb = r->skb;
	struct frame *f = r->f;
	__u8 buf[sizeof(struct xr_ipv6) + sizeof(struct xr_udp)] __attribute__((aligned(8))) = {};
	struct xr_cursor c = {
		.pos = buf,
		.end = buf + sizeof(buf),
		.off = sizeof(struct xr_eth),
		.left = 0xffffff,
	};
	__be16 type = skb->protocol;
	__u32 n = type == xr_be16(ETH_P_IP) ? sizeof(struct xr_ipv4) + sizeof(struct xr_udp)
					    : sizeof(buf);
	struct xr_outer outer;

	if (bpf_skb_load_bytes_relative(skb, 0, buf, n, BPF_HDR_START_NET))
		return XR_TRUNC_IP;
	XR_REQUIRE(xr_parse_ip_udp(&c, &f->pkt, type, &outer));
	if (!is_ours(&r->view, &f->pkt))
		return XR_NOT_OUR_ADDR;
	XR_REQUIRE(xr_check_ip(&outer));
	XR_REQUIRE(xr_check_lengths(&c, &outer, 0));
	f->bth_off = c.off;
	f->payload = c.left;
	return XR_OK;
}

/* ---- its packets ------------------------------------------------------------------------ */

/* Returns the bytes behind UDP of a packet. */
static __always_inline __u32 bytes_of(const struct frame *f, __u32 i)
{
	__u32 off = i * f->each;

	return f->payload - off < f->each ? f->payload - off : f->each;
}

/* A slot gets the packets of its QPNs and of groups only, however they reached its socket. */
static __always_inline bool is_of_slot(const struct run *r, __u32 qpn)
{
	const struct xr_slot_entry *slot = r->view.slot;

	return r->f->pkt.group || (qpn & 1 && (qpn >> 1) % slot->slots == slot->slot);
}

/* What the tables have no room for, the program checks. */
static __always_inline enum xr_reason check_for_slot(struct run *r)
{
	const struct xr_slot_entry *slot = r->view.slot;
	const struct xr_packet *pkt = &r->f->pkt;
	enum xr_reason reason;

	if (!is_of_slot(r, pkt->qpn))
		return XR_NO_QP;
	reason = xr_check_packet(&r->view, pkt);
	if ((reason == XR_NO_QP && !pkt->group && slot->flags & XR_SLOT_MORE_QPS) ||
	    (reason == XR_KEY_INDEX && slot->flags & XR_SLOT_MORE_KEYS))
		return XR_OK;
	return reason;
}

static __always_inline enum xr_reason check_one(struct run *r, __u32 i)
{
	__u8 buf[XR_MAX_PARSED_BTH] __attribute__((aligned(8))) = {};
	struct frame *f = r->f;
	struct xr_cursor c = {
		.pos = buf,
		.end = buf + sizeof(buf),
		.off = f->bth_off,
		.left = bytes_of(f, i),
	};
	__u32 n = c.left;

	if (n > sizeof(buf))
		n = sizeof(buf);
	/* keep the compiler from joining comparisons of n: the verifier has to see its bounds */
	barrier_var(n);
	if (n < sizeof(struct xr_bth))
		return XR_TRUNC_BTH;
	barrier_var(n);
	if (n > sizeof(buf) ||
	    bpf_skb_load_bytes(r->skb, sizeof(struct xr_udp) + i * f->each, buf, n))
		return XR_TRUNC_BTH;
	f->pkt.qpn = 0;
	XR_REQUIRE(xr_parse_bth(&c, &f->pkt));
	return r->view.slot ? check_for_slot(r) : xr_check_packet(&r->view, &f->pkt);
}

/* Checks a packet. Returns 1 to stop: the frame is to be kept. */
static int check_packet(__u32 i, void *arg)
{
	struct run *r = arg;
	enum xr_reason reason = check_one(r, i);
	struct frame *f = r->f;

	if (!i)
		f->first_qpn = f->pkt.qpn;
	if (xr_is_for_engine(&f->pkt, reason)) {
		f->keep = xr_actions[reason] != XR_ACT_ANSWER || may_answer();
		if (f->keep)
			return 1;
		reason = XR_RATE_LIMIT;
	}
	if (i < MOST_PACKETS)
		f->reason[i] = reason;
	return 0;
}

static int count_packet(__u32 i, void *arg)
{
	const struct run *r = arg;
	struct frame *f = r->f;

	if (i < MOST_PACKETS)
		count(f->reason[i], 1, f->bth_off + bytes_of(f, i));
	return 0;
}

/* ---- reports ---------------------------------------------------------------------------- */

/* Copies the headers from IP on, and what is behind them. Returns the bytes, 0 if it fails. */
static __always_inline __u32 copy_bytes(const struct run *run, struct xr_refused *r, __u32 ip_len)
{
	const __u32 at = sizeof(struct xr_eth) + ip_len;
	__u32 n = sizeof(struct xr_udp) + run->f->payload;

	if (n > sizeof(r->bytes) - at)
		n = sizeof(r->bytes) - at;
	barrier_var(n);
	if (bpf_skb_load_bytes_relative(run->skb, 0, r->bytes + sizeof(struct xr_eth), ip_len,
					BPF_HDR_START_NET))
		return 0;
	if (n < sizeof(struct xr_udp))
		return 0;
	barrier_var(n);
	if (n > sizeof(r->bytes) - at || bpf_skb_load_bytes(run->skb, 0, r->bytes + at, n))
		return 0;
	return ip_len + n;
}

/* Reports the first packet of a dropped frame, like the XDP program. */
static __always_inline void report(const struct run *run, enum xr_reason reason, __u32 frame_len)
{
	struct xr_eth eth = { .type = run->skb->protocol };
	struct xr_refused *r = reserve_report();
	struct frame *f = run->f;

	if (!r)
		return;
	f->pkt.qpn = f->first_qpn;
	f->pkt.bth_off = f->bth_off;
	xr_fill_refused(r, &f->pkt, reason, frame_len, bpf_ktime_get_ns());
	r->queue = 0;
	__builtin_memcpy(r->bytes, &eth, sizeof(eth));
	r->captured = sizeof(eth) + (eth.type == xr_be16(ETH_P_IP)
					     ? copy_bytes(run, r, sizeof(struct xr_ipv4))
					     : copy_bytes(run, r, sizeof(struct xr_ipv6)));
	submit_report(r);
}

/* ---- the filter -------------------------------------------------------------------------- */

static __always_inline int drop_whole(const struct run *run, enum xr_reason reason)
{
	__u32 len = sizeof(struct xr_eth) + run->skb->len +
		    (run->skb->protocol == xr_be16(ETH_P_IP) ? sizeof(struct xr_ipv4)
							     : sizeof(struct xr_ipv6));

	count(reason, 1, len);
	if (xr_actions[reason] != XR_ACT_PASS)
		report(run, reason, len);
	return 0;
}

/* A frame of too many packets: that of a slot is steered by its first one, as all frames are. */
static __always_inline int keep_unchecked(struct run *r)
{
	if (!r->view.slot)
		return r->skb->len;
	bpf_loop(1, check_packet, r, 0);
	return is_of_slot(r, r->f->first_qpn) ? (int)r->skb->len : drop_whole(r, XR_NO_QP);
}

/* Returns the number of packets in the frame. */
static __always_inline __u32 divide(const struct __sk_buff *skb, struct frame *f)
{
	f->each = f->payload;
	if (!skb->gso_size || skb->gso_size >= f->payload)
		return 1;
	f->each = skb->gso_size;
	return (f->payload + f->each - 1) / f->each;
}

/* Returns the bytes to keep: all or none. */
static __always_inline int filter(struct __sk_buff *skb, const struct xr_slot_entry *slot)
{
	struct run run = { .skb = skb, .view.slot = slot };
	enum xr_reason reason;
	__u32 packets, zero = 0;

	run.f = bpf_map_lookup_elem(&frames, &zero);
	if (!run.f)
		return skb->len;
	__builtin_memset(run.f, 0, offsetof(struct frame, reason));
	reason = check_frame(&run);
	if (reason != XR_OK)
		return drop_whole(&run, reason);
	packets = divide(skb, run.f);
	if (packets > MOST_PACKETS)
		return keep_unchecked(&run);
	bpf_loop(packets, check_packet, &run, 0);
	if (run.f->keep)
		return skb->len;
	bpf_loop(packets, count_packet, &run, 0);
	report(&run, run.f->reason[0], run.f->bth_off + run.f->payload);
	return 0;
}

SEC("socket")
int xroce_filter(struct __sk_buff *skb)
{
	return filter(skb, NULL);
}

SEC("socket")
int xroce_slot(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);
	const struct xr_slot_entry *slot = bpf_map_lookup_elem(&slots, &cookie);

	return slot ? filter(skb, slot) : 0;
}

char _license[] SEC("license") = "GPL";
