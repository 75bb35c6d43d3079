#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Extended reliable connections: programs of rdma-core and perftest, and rdma_xrc for shared XRC domains.

load helpers

@test "ibv_xsrq_pingpong works over IPv4 and IPv6" {
	daemon_path "its domain is that of a file"
	both -t 30 ibv_xsrq_pingpong -g @4 -n $((500 / SLOW))
	both -t 30 ibv_xsrq_pingpong -g @6 -n $((200 / SLOW)) -s 100000
}

@test "ibv_xsrq_pingpong works with completion events (-e)" {
	daemon_path "its domain is that of a file"
	both -t 30 ibv_xsrq_pingpong -g @4 -e -n $((200 / SLOW))
}

@test "perftest works over XRC (-c XRC)" {
	daemon_path "its domain is that of a file"
	both -t 40 ib_send_bw -x @4 -F -c XRC -n $((1000 / SLOW))
	both -t 40 ib_send_lat -x @4 -F -c XRC -n $((500 / SLOW))
	both -t 40 ib_write_bw -x @4 -F -c XRC -n $((1000 / SLOW))
	both -t 40 ib_read_bw -x @4 -F -c XRC -n $((500 / SLOW))
	both -t 40 ib_atomic_bw -x @4 -F -c XRC -n $((500 / SLOW))
}

@test "two clients share an XRC domain and a target QP" {
	daemon_path "its domain is that of a file"
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_xrc" "$BATS_TEST_TMPDIR/domain"
	objects_left a 0 xrcds
}

@test "an XRC domain without a file works within a context" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_xrc" -
	objects_left a 0 xrcds
}

@test "receives of an XRC SRQ are flushed when the daemon dies" {
	daemon_path "its domain is that of a file"
	ends_after_daemon_death "$BIN/rdma_xrc" "$BATS_TEST_TMPDIR/domain" death
}
