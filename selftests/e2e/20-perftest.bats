#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# perftest between the two hosts. Not for its figures: that it runs, and that what it reports is complete.

load helpers

# bandwidth PROGRAM ARG...: a figure above zero comes out
bandwidth() {
	both -t 40 "$1" -x @4 -F "${@:2}"
	grep -Eq '^ *[0-9]+ +[0-9]+ .*[1-9]' "$OUT/client" || {
		show_output
		return 1
	}
}
latency() {
	bandwidth "$@"
}

@test "perftest: ib_write_bw" {
	bandwidth ib_write_bw -n $((1000 / SLOW))
	bandwidth ib_write_bw -n $((500 / SLOW)) -s 1048576 -t 16
}

@test "perftest: ib_read_bw" {
	bandwidth ib_read_bw -n $((1000 / SLOW))
}

@test "perftest: ib_send_bw" {
	bandwidth ib_send_bw -n $((1000 / SLOW))
}

@test "perftest: ib_atomic_bw" {
	bandwidth ib_atomic_bw -n $((2000 / SLOW))
	bandwidth ib_atomic_bw -n $((2000 / SLOW)) -A CMP_AND_SWAP
}

@test "perftest: ib_write_lat" {
	latency ib_write_lat -n $((1000 / SLOW))
}

@test "perftest: ib_read_lat" {
	latency ib_read_lat -n $((1000 / SLOW))
}

@test "perftest: ib_send_lat" {
	latency ib_send_lat -n $((1000 / SLOW))
	latency ib_send_lat -n $((200 / SLOW)) -s 65536
}

@test "perftest: ib_atomic_lat" {
	latency ib_atomic_lat -n $((1000 / SLOW))
}

@test "perftest: all sizes" {
	both -t 60 ib_write_bw -x @4 -F -a -n $((100 / SLOW))
	grep -Eq '^ *8388608 +'$((100 / SLOW))' ' "$OUT/client"
}

@test "perftest: completion events (-e)" {
	bandwidth ib_send_bw -e -n $((500 / SLOW))
	latency ib_send_lat -e -n $((200 / SLOW))
	bandwidth ib_read_bw -e -n $((500 / SLOW))
}

@test "perftest: bidirectional (-b)" {
	bandwidth ib_write_bw -b -n $((1000 / SLOW))
	bandwidth ib_send_bw -b -n $((1000 / SLOW))
	bandwidth ib_read_bw -b -n $((500 / SLOW))
}

@test "perftest: 64 queue pairs (-q 64)" {
	bandwidth ib_write_bw -q 64 -n $((100 / SLOW)) -s 8192
	bandwidth ib_send_bw -q 64 -n $((100 / SLOW)) -s 8192
}

@test "perftest: inline (-I) and lists of requests (-l)" {
	bandwidth ib_send_bw -I 64 -s 64 -n $((1000 / SLOW))
	bandwidth ib_write_bw -l 16 -s 4096 -n $((1600 / SLOW / 16 * 16))
}

@test "perftest: the old way of posting" {
	bandwidth ib_send_bw --use_old_post_send -n $((500 / SLOW))
}

@test "perftest: over IPv6" {
	both -t 30 ib_write_bw -x @6 -F -n $((500 / SLOW))
}

@test "perftest: two pairs at once" {
	local first status=0

	PORT=18600 both -t 60 ib_write_bw -x @4 -F -n $((2000 / SLOW)) &
	first=$!
	PORT=18700 both -t 60 ib_send_bw -x @4 -F -n $((2000 / SLOW)) || status=$?
	wait "$first" || status=$?
	((status == 0))
}

@test "perftest: opposite directions at once" {
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
