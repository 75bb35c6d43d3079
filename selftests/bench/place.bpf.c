// SPDX-License-Identifier: GPL-2.0-only
/*
 * An XDP program that executes a WRITE of 8 bytes: it checks the CRC of the frame, stores the word
 * into memory that the program of the host has mapped, and turns the frame into the
 * acknowledgement. Acknowledgements go to the AF_XDP socket.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "place.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} region SEC(".maps");

/* CRC-32 of each byte, by user space */
const volatile __u32 crc_of_byte[256];

struct frame {
	__u8 ethernet[PLACE_HEADER];
	__u64 word;
	__u8 rest[PLACE_FRAME - PLACE_HEADER - 8 - 4];
	__u32 crc; /* of what follows the Ethernet header */
} __attribute__((packed));

static __always_inline __u32 crc_of(const struct frame *frame)
{
	const __u8 *at = (const __u8 *)&frame->word;
	__u32 crc = ~0u;

	for (int i = 0; i < PLACE_FRAME - PLACE_HEADER - 4; i++)
		crc = crc >> 8 ^ crc_of_byte[(crc ^ at[i]) & 0xff];
	return ~crc;
}

SEC("xdp.frags")
int place(struct xdp_md *ctx)
{
	struct frame *frame = (void *)(long)ctx->data;
	__u32 zero = 0;
	__u64 *memory = bpf_map_lookup_elem(&region, &zero);

	if ((void *)(frame + 1) > (void *)(long)ctx->data_end || !memory)
		return XDP_PASS;
	if (frame->ethernet[12] != PLACE_ETHERTYPE >> 8 ||
	    frame->ethernet[13] != (PLACE_ETHERTYPE & 0xff))
		return XDP_PASS;
	if (frame->word & PLACE_IS_ACK)
		return bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);
	if (frame->crc != crc_of(frame))
		return XDP_DROP;
	*(volatile __u64 *)memory = frame->word;
	frame->word |= PLACE_IS_ACK;
	frame->crc = crc_of(frame);
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
