#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Shared receive queues: rdma-core's and perftest's programs, and one of our own for events.

load helpers

@test "SRQ: ibv_srq_pingpong, 16 queue pairs" {
	both -t 40 ibv_srq_pingpong -g @4 -c -n $((2000 / SLOW))
}

@test "SRQ: ibv_srq_pingpong with few receives for many queue pairs" {
	both -t 40 ibv_srq_pingpong -g @6 -c -q 32 -r 40 -s 10000 -n $((1000 / SLOW))
}

@test "SRQ: ibv_srq_pingpong with completion events (-e)" {
	both -t 40 ibv_srq_pingpong -g @4 -c -e -n $((500 / SLOW))
}

@test "SRQ: perftest (--use-srq)" {
	both -t 40 ib_send_bw -x @4 -F --use-srq -n $((1000 / SLOW))
	both -t 40 ib_send_bw -x @4 -F --use-srq -q 8 -s 8192 -n $((200 / SLOW))
	both -t 40 ib_send_lat -x @4 -F --use-srq -n $((500 / SLOW))
	both -t 40 ib_send_lat -x @4 -F -c UD --use-srq -s 1024 -n $((500 / SLOW))
	both -t 40 ib_send_lat -x @4 -F -c UC --use-srq -n $((500 / SLOW))
}

@test "SRQ: limit, another size, the last WQE reached, and what stays for other queue pairs" {
	run_on a timeout $((20 * SLOW)) "$XR_BUILD/selftests/e2e/rdma_srq"
}

@test "SRQ: receives of a dead daemon's SRQ are flushed" {
	local seen=$BATS_TEST_TMPDIR/seen pid

	spawn a "$seen" "$XR_BUILD/selftests/e2e/rdma_srq" death
	pid=$!
	wait_for 5 grep -q ready "$seen"
	daemon_down a KILL
	wait "$pid" || { cat "$seen"; return 1; }
	daemon_up a
}
