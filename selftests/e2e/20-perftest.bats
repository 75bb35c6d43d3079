#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# perftest between the two hosts. Checks that each program runs and prints results, not how fast they are.

load helpers

@test "ib_write_bw reports a bandwidth" {
	perftest ib_write_bw -x @4 -n $((1000 / SLOW))
	perftest ib_write_bw -x @4 -n $((500 / SLOW)) -s 1048576 -t 16
}

@test "ib_read_bw reports a bandwidth" {
	perftest ib_read_bw -x @4 -n $((1000 / SLOW))
}

@test "ib_send_bw reports a bandwidth" {
	perftest ib_send_bw -x @4 -n $((1000 / SLOW))
}

@test "ib_atomic_bw reports a bandwidth" {
	perftest ib_atomic_bw -x @4 -n $((2000 / SLOW))
	perftest ib_atomic_bw -x @4 -n $((2000 / SLOW)) -A CMP_AND_SWAP
}

@test "ib_write_lat reports a latency" {
	perftest ib_write_lat -x @4 -n $((1000 / SLOW))
}

@test "ib_read_lat reports a latency" {
	perftest ib_read_lat -x @4 -n $((1000 / SLOW))
}

@test "ib_send_lat reports a latency" {
	perftest ib_send_lat -x @4 -n $((1000 / SLOW))
	perftest ib_send_lat -x @4 -n $((200 / SLOW)) -s 65536
}

@test "ib_atomic_lat reports a latency" {
	perftest ib_atomic_lat -x @4 -n $((1000 / SLOW))
}

@test "ib_write_bw transfers all message sizes (-a)" {
	both -t 60 ib_write_bw -x @4 -F -a -n $((100 / SLOW))
	grep -Eq '^ *8388608 +'$((100 / SLOW))' ' "$OUT/client"
}

@test "perftest works with completion events (-e)" {
	perftest ib_send_bw -x @4 -e -n $((500 / SLOW))
	perftest ib_send_lat -x @4 -e -n $((200 / SLOW))
	perftest ib_read_bw -x @4 -e -n $((500 / SLOW))
}

@test "perftest works in both directions (-b)" {
	perftest ib_write_bw -x @4 -b -n $((1000 / SLOW))
	perftest ib_send_bw -x @4 -b -n $((1000 / SLOW))
	perftest ib_read_bw -x @4 -b -n $((500 / SLOW))
}

@test "perftest works with 64 QPs (-q 64)" {
	perftest ib_write_bw -x @4 -q 64 -n $((100 / SLOW)) -s 8192
	perftest ib_send_bw -x @4 -q 64 -n $((100 / SLOW)) -s 8192
}

@test "perftest works with inline data (-I) and WR lists (-l)" {
	perftest ib_send_bw -x @4 -I 64 -s 64 -n $((1000 / SLOW))
	perftest ib_write_bw -x @4 -l 16 -s 4096 -n $((1600 / SLOW / 16 * 16))
}

@test "perftest works with ibv_post_send() (--use_old_post_send)" {
	perftest ib_send_bw -x @4 --use_old_post_send -n $((500 / SLOW))
}

@test "ib_write_bw works over IPv6" {
	both -t 30 ib_write_bw -x @6 -F -n $((500 / SLOW))
}

@test "two perftest pairs run at the same time" {
	local first status=0

	PORT=18600 both -t 60 ib_write_bw -x @4 -F -n $((2000 / SLOW)) &
	first=$!
	PORT=18700 both -t 60 ib_send_bw -x @4 -F -n $((2000 / SLOW)) || status=$?
	wait "$first" || status=$?
	((status == 0))
}

@test "perftest pairs with opposite directions run at the same time" {
	local first status=0 b4

	b4=$(gid_index b "$B4")
	PORT=18600 both -t 60 ib_write_bw -x @4 -F -n $((2000 / SLOW)) &
	first=$!
	run_on b timeout $((60 * SLOW)) ib_read_bw -x "$b4" -F -n $((500 / SLOW)) -p 18700 >"$BATS_TEST_TMPDIR/s" 2>&1 3>&- &
	wait_for 5 listens b 18700
	run_on a timeout $((60 * SLOW)) ib_read_bw -x "$(gid_index a "$A4")" -F -n $((500 / SLOW)) -p 18700 "$B4" || status=$?
	wait "$first" || status=$?
	wait
	((status == 0))
}
