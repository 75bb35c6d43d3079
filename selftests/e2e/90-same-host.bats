#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Both programs use the device of host a: the daemon copies from memory to memory, with the same checks as over the wire.

load helpers

@test "ibv_rc_pingpong works within one host" {
	both_on_a -t 60 ibv_rc_pingpong -g @4 -c -n $((200 / SLOW))
	both_on_a -t 60 ibv_rc_pingpong -g @4 -c -e -n "$(iterations 50)" -s 1000000
}

@test "traffic within one host sends no packets" {
	daemon_path "its loopback sends none"
	counter_unchanged a tx_packets both_on_a -t 60 ibv_rc_pingpong -g @4 -c -n $((100 / SLOW))
	(($(counter a loopback_operations) > 0))
}

@test "rdma_verify passes within one host" {
	both_on_a -t 60 "$BIN/rdma_verify" -g @4 -m "$PMTU"
}

@test "FLUSH works within one host" {
	both_on_a "$BIN/rdma_flush" -g @4
}

@test "perftest works within one host" {
	both_on_a -t 60 ib_write_bw -x @4 -F -n $((1000 / SLOW))
	both_on_a -t 60 ib_read_bw -x @4 -F -n $((1000 / SLOW))
	both_on_a -t 60 ib_send_bw -x @4 -F -n $((1000 / SLOW))
	both_on_a -t 60 ib_atomic_bw -x @4 -F -n $((1000 / SLOW))
	both_on_a -t 60 ib_send_lat -x @4 -F -n $((1000 / SLOW))
	both_on_a -t 60 ib_write_bw -x @4 -F -q 16 -n 100
}

@test "ibv_rc_pingpong works within one host over IPv6" {
	both_on_a -t 60 ibv_rc_pingpong -g @6 -c -n 50
}
