// SPDX-License-Identifier: GPL-2.0-only
/*
 * The XDP program for GSO frames: several packets behind one Ethernet, IP and UDP header, which the
 * kernel divides when they leave for a driver that cannot do so itself. On a virtual interface they
 * arrive undivided if XDP runs in generic mode. docs/gso.md describes how xroce uses them.
 *
 * It has an object file of its own: libbpf loads no program of a file that calls functions which
 * the kernel does not have, unless it may look for them in modules (CAP_SYS_ADMIN).
 */
#include "program.h"

#include <bpf/bpf_core_read.h>

/* Fields of the kernel's types, at offsets that libbpf takes from the kernel's BTF */
struct skb_shared_info {
	__u16 gso_size;
} __attribute__((preserve_access_index));

struct xdp_buff {
	void *data_hard_start;
	__u32 frame_sz;
} __attribute__((preserve_access_index));

/* Linux 6.2. libbpf 1.4 and later declare the second one, too: the prototypes must be the same. */
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/*
 * Returns the UDP payload in bytes of each packet of a GSO frame but the last; 0 for other frames.
 * An sk_buff's shared info is behind its first buffer, at the end of what XDP sees as the frame's
 * memory (bpf_prog_run_generic_xdp() in the kernel's net/core/dev.c). Only in generic mode: native
 * mode has no sk_buff.
 */
static __always_inline __u16 gso_size(struct xdp_md *ctx)
{
	const __u32 size = (bpf_core_type_size(struct skb_shared_info) + 63) & ~63u;
	const struct skb_shared_info *info;
	const struct xdp_buff *xdp;

	xdp = bpf_cast_to_kern_ctx(ctx);
	info = bpf_rdonly_cast(xdp->data_hard_start + xdp->frame_sz - size,
			       bpf_core_type_id_kernel(struct skb_shared_info));
	return info->gso_size;
}

SEC("xdp.frags")
int xroce_gso(struct xdp_md *ctx)
{
	return handle(ctx, gso_size(ctx));
}

char _license[] SEC("license") = "GPL";
