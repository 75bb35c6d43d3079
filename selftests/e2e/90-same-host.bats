#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Both programs on one device: memory to memory, with the same checks and the same behaviour.

load helpers

# same PROGRAM ARG...: both sides on host a, in rdma style: server first
same() {
	local status=0 out=$BATS_TEST_TMPDIR/out.$PORT g server

	g=$(gid_index a "$A4")
	set -- "${@/#@4/$g}"
	run_on a timeout $((60 * SLOW)) "$@" -p "$PORT" >"$out.server" 2>&1 3>&- &
	server=$!
	wait_for 5 listens a "$PORT"
	run_on a timeout $((60 * SLOW)) "$@" -p "$PORT" "$A4" >"$out.client" 2>&1 || status=$?
	wait "$server" || status=$?
	((status == 0)) || tail -n 30 "$out".*
	return "$status"
}

@test "same host: pingpong" {
	same ibv_rc_pingpong -g @4 -c -n $((200 / SLOW))
	same ibv_rc_pingpong -g @4 -c -e -n "$(few 50)" -s 1000000
}

@test "same host: nothing of it goes to the wire" {
	local before

	before=$(counter a tx_packets)
	same ibv_rc_pingpong -g @4 -c -n $((100 / SLOW))
	equal "packets sent" "$(counter a tx_packets)" "$before"
	(($(counter a loopback_operations) > 0))
}

@test "same host: rdma_verify, data and protection" {
	same "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -m "$PMTU"
}

@test "same host: perftest" {
	same ib_write_bw -x @4 -F -n $((1000 / SLOW))
	same ib_read_bw -x @4 -F -n $((1000 / SLOW))
	same ib_send_bw -x @4 -F -n $((1000 / SLOW))
	same ib_atomic_bw -x @4 -F -n $((1000 / SLOW))
	same ib_send_lat -x @4 -F -n $((1000 / SLOW))
	same ib_write_bw -x @4 -F -q 16 -n 100
}

@test "same host: over IPv6" {
	same ibv_rc_pingpong -g "$(gid_index a "$A6")" -c -n 50
}
