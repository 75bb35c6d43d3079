#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Faults injected by the daemons, 1 % of packets: every byte still right.

load helpers

setup() {
	ctl a fault xra off
	ctl b fault xrb off
}

# with FAULT...: on both hosts, each direction
with() {
	ctl a fault xra "$@" seed 7
	ctl b fault xrb "$@" seed 8
	both -t 90 "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -m "$PMTU" -n "$(few 10)" -s 5 -t write -t send-imm \
		-t read -t mixed -t pipeline -t atomic
}

@test "loss: drop" {
	local before

	before=$(counter b tx_retransmits)
	with drop 10
	(($(counter b tx_retransmits) > before))
}

@test "loss: duplicate" {
	with dup 10
}

@test "loss: reorder" {
	with reorder 10
}

@test "loss: corrupt" {
	with corrupt 10
	(($(counter a rx_icrc_errors) + $(counter a rx_malformed) > 0))
}

@test "loss: delay" {
	with delay 10 300
}

@test "loss: all of them" {
	with drop 5 dup 5 reorder 5 corrupt 5 delay 5 200
}

@test "loss: pingpong" {
	ctl a fault xra drop 10
	ctl b fault xrb drop 10
	both -t 60 ibv_rc_pingpong -g @4 -c -n $((300 / SLOW))
	both -t 60 ibv_rc_pingpong -g @4 -c -e -n "$(few 20)" -s 500000 -m "$PMTU"
}

@test "loss: perftest" {
	ctl a fault xra drop 10
	ctl b fault xrb drop 10
	both -t 60 ib_write_bw -x @4 -F -n $((500 / SLOW))
	both -t 60 ib_read_bw -x @4 -F -n $((300 / SLOW))
	both -t 60 ib_send_bw -x @4 -F -n $((500 / SLOW))
}

@test "loss: a peer that vanishes ends in retry exceeded" {
	ctl a fault xra drop 1000
	both -t $((8 / SLOW + 1)) ibv_rc_pingpong -g @4 -n 5 >/dev/null || true
	cat "$OUT/client"
	grep -iq 'retry' "$OUT/client"
	equal "client's status" "$(cat "$OUT/client.status")" 1
}
