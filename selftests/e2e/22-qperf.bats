#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# qperf between the two hosts. Its RC tests work with rdma_cm (-cm1); the others send no GRH, which RoCE needs.

load helpers

setup_file() {
	requires root qperf
	hosts_up
	daemons_up
}

# qperf_test CLIENT_HOST TEST: runs the test with rdma_cm for a second. The server sends its port to the client before
# it listens; a client that connects in between is rejected.
qperf_test() {
	local try

	for try in 1 2 3; do
		run run_on "$1" timeout $((10 * SLOW)) qperf -lp "$PORT" -cm1 -t 1 "$A4" "$2"
		echo "$output"
		[[ $output == *"Event rejected"* ]] || break
		((try < 3))
	done
	[[ $status == 0 ]] && grep -Eq '^ +(bw|latency|msg_rate) +=' <<<"$output"
}

# qperf_tests CLIENT_HOST TEST...: runs the tests with one server on host a
qperf_tests() {
	local server t status=0

	spawn a "$BATS_TEST_TMPDIR/server" qperf -lp "$PORT"
	server=$!
	wait_for 5 listens a "$PORT" || status=1
	for t in "${@:2}"; do
		qperf_test "$1" "$t" || { status=1; break; }
	done
	run_on a timeout 5 qperf -lp "$PORT" "$A4" quit || kill "$server"
	wait "$server" || true
	return "$status"
}

@test "qperf sends and receives by rdma_cm" {
	qperf_tests b rc_bw rc_bi_bw rc_lat
}

@test "qperf reads and writes remote memory by rdma_cm" {
	qperf_tests b rc_rdma_read_bw rc_rdma_write_bw rc_rdma_write_poll_lat
}

@test "qperf runs and verifies atomics by rdma_cm" {
	qperf_tests b rc_compare_swap_mr ver_rc_fetch_add
}

@test "qperf connects by rdma_cm within one host" {
	qperf_tests a rc_bw rc_rdma_write_bw
}
