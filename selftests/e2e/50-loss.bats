#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Faults injected by the daemons into 1 % of the packets: every byte must still be correct.

load helpers

setup() {
	ctl a fault xra off
	ctl b fault xrb off
}

# verify_with FAULT...: runs rdma_verify while both hosts inject these faults, in both directions
verify_with() {
	ctl a fault xra "$@" seed 7
	ctl b fault xrb "$@" seed 8
	both -t 90 "$BIN/rdma_verify" -g @4 -m "$PMTU" -n "$(iterations 10)" -s 5 -t write -t send-imm \
		-t read -t mixed -t pipeline -t atomic
}

@test "RC data is correct with 1 % of packets dropped" {
	counter_grows b tx_retransmits 1 verify_with drop 10
}

@test "RC data is correct with 1 % of packets duplicated" {
	verify_with dup 10
}

@test "RC data is correct with 1 % of packets reordered" {
	verify_with reorder 10
}

@test "RC data is correct with 1 % of packets corrupted" {
	verify_with corrupt 10
	(($(counter a rx_icrc_errors) + $(counter a rx_malformed) > 0))
}

@test "RC data is correct with 1 % of packets delayed" {
	verify_with delay 10 300
}

@test "RC data is correct with all faults together" {
	verify_with drop 5 dup 5 reorder 5 corrupt 5 delay 5 200
}

# peer_left: succeeds if one end of the last pair finished and the other end got no more ACKs. The program that
# finishes first destroys its queue pair without a word; when the ACK of the last message was lost, nobody is left
# to answer the message that the other end sends again.
peer_left() {
	local first=client last=server

	(($(cat "$OUT/client.status") == 0)) || first=server last=client
	(($(cat "$OUT/$first.status") == 0)) && grep -q 'iters in' "$OUT/$first" &&
		grep -q 'transport retry counter exceeded' "$OUT/$last"
}

# pingpong_with_loss ARG...: runs ibv_rc_pingpong on both hosts, again when the last ACK was lost
pingpong_with_loss() {
	local attempt

	for attempt in 1 2 3 4; do
		if both -t 60 ibv_rc_pingpong -g @4 -c "$@"; then
			return 0
		fi
		peer_left || return 1
		echo "attempt $attempt: the last ACK was lost"
	done
	return 1
}

@test "ibv_rc_pingpong works with 1 % packet loss" {
	ctl a fault xra drop 10
	ctl b fault xrb drop 10
	pingpong_with_loss -n $((300 / SLOW))
	pingpong_with_loss -e -n "$(iterations 20)" -s 500000 -m "$PMTU"
}

@test "perftest works with 1 % packet loss" {
	ctl a fault xra drop 10
	ctl b fault xrb drop 10
	both -t 60 ib_write_bw -x @4 -F -n $((500 / SLOW))
	both -t 60 ib_read_bw -x @4 -F -n $((300 / SLOW))
	both -t 60 ib_send_bw -x @4 -F -n $((500 / SLOW))
}

@test "a request to a silent peer fails with retry exceeded" {
	local server

	ctl a fault xra drop 1000
	spawn a "$BATS_TEST_TMPDIR/server" ibv_rc_pingpong -g "$(gid_index a "$A4")" -p "$PORT" -n 5
	server=$!
	wait_for 5 listens a "$PORT"
	run -1 run_on b timeout $((20 * SLOW)) ibv_rc_pingpong -g "$(gid_index b "$B4")" -p "$PORT" -n 5 "$A4"
	kill "$server"
	wait "$server" || true
	echo "$output"
	grep -iq retry <<<"$output"
}
