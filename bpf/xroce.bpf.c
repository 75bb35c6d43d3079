// SPDX-License-Identifier: GPL-2.0-only
/*
 * The maps and two XDP programs, of which the daemon loads one: `xroce` for linear frames,
 * `xroce_frags` if frames can consist of several buffers. gso.bpf.c has a third one.
 */
#include "program.h"

SEC("xdp")
int xroce(struct xdp_md *ctx)
{
	return handle(ctx, 0);
}

SEC("xdp.frags")
int xroce_frags(struct xdp_md *ctx)
{
	return handle(ctx, 0);
}

char _license[] SEC("license") = "GPL";
