#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Shared receive queues: programs of rdma-core and perftest, and rdma_srq for events.

load helpers

@test "ibv_srq_pingpong works with 16 QPs" {
	both -t 40 ibv_srq_pingpong -g @4 -c -n $((2000 / SLOW))
}

@test "ibv_srq_pingpong works with 40 receives for 32 QPs" {
	both -t 40 ibv_srq_pingpong -g @6 -c -q 32 -r 40 -s 10000 -n $((1000 / SLOW))
}

@test "ibv_srq_pingpong works with completion events (-e)" {
	both -t 40 ibv_srq_pingpong -g @4 -c -e -n $((500 / SLOW))
}

@test "perftest works with an SRQ (--use-srq)" {
	both -t 40 ib_send_bw -x @4 -F --use-srq -n $((1000 / SLOW))
	both -t 40 ib_send_bw -x @4 -F --use-srq -q 8 -s 8192 -n $((200 / SLOW))
	both -t 40 ib_send_lat -x @4 -F --use-srq -n $((500 / SLOW))
	both -t 40 ib_send_lat -x @4 -F -c UD --use-srq -s 1024 -n $((500 / SLOW))
	both -t 40 ib_send_lat -x @4 -F -c UC --use-srq -n $((500 / SLOW))
}

@test "an SRQ raises its events, can be resized and keeps its receives when a QP fails" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_srq"
}

@test "receives of an SRQ are flushed when the daemon dies" {
	ends_after_daemon_death "$BIN/rdma_srq" death
}
