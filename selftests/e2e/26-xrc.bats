#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Extended reliable connections: rdma-core's and perftest's programs, and domains that processes share.

load helpers

@test "XRC: ibv_xsrq_pingpong" {
	both -t 30 ibv_xsrq_pingpong -g @4 -n $((500 / SLOW))
	both -t 30 ibv_xsrq_pingpong -g @6 -n $((200 / SLOW)) -s 100000
}

@test "XRC: ibv_xsrq_pingpong with completion events (-e)" {
	both -t 30 ibv_xsrq_pingpong -g @4 -e -n $((200 / SLOW))
}

@test "XRC: perftest (-c XRC)" {
	both -t 40 ib_send_bw -x @4 -F -c XRC -n $((1000 / SLOW))
	both -t 40 ib_send_lat -x @4 -F -c XRC -n $((500 / SLOW))
	both -t 40 ib_write_bw -x @4 -F -c XRC -n $((1000 / SLOW))
	both -t 40 ib_read_bw -x @4 -F -c XRC -n $((500 / SLOW))
	both -t 40 ib_atomic_bw -x @4 -F -c XRC -n $((500 / SLOW))
}

@test "XRC: a domain and a target that two clients share, SRQs of each" {
	run_on a timeout $((20 * SLOW)) "$XR_BUILD/selftests/e2e/rdma_xrc" "$BATS_TEST_TMPDIR/domain"
	equal "domains left" "$(objects a xrcds)" 0
}

@test "XRC: receives of a dead daemon's SRQ are flushed" {
	local seen=$BATS_TEST_TMPDIR/seen pid

	spawn a "$seen" "$XR_BUILD/selftests/e2e/rdma_xrc" "$BATS_TEST_TMPDIR/domain" death
	pid=$!
	wait_for 5 grep -q ready "$seen"
	daemon_down a KILL
	wait "$pid" || { cat "$seen"; return 1; }
	daemon_up a
}
