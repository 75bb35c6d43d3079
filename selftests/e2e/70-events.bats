#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Asynchronous events: GID and port changes while a program runs, and events of QPs, CQs and SRQs. The SRQ limit event
# is tested in 25-srq, DEVICE_FATAL in 75-daemon-death.

load helpers

setup() {
	LOG=$BATS_TEST_TMPDIR/log
	spawn a "$LOG" "$BIN/rdma_watch" events $((120 * SLOW))
	WATCH=$!
	wait_for 5 grep -q ready "$LOG"
}

teardown() {
	cat "$LOG"
	kill "$WATCH" 2>/dev/null
	wait "$WATCH" 2>/dev/null
	return 0
}

# saw REGEX: waits until rdma_watch prints a matching line
saw() {
	wait_for 5 grep -qiE "$1" "$LOG" || {
		echo "no such event: $1"
		return 1
	}
}

# bats test_tags=stock
@test "a new address raises GID_CHANGE and adds a GID" {
	on a ip address add 10.77.9.1/24 dev va
	saw 'gid.*change'
	wait_for 5 gid_index a 10.77.9.1
	run_on a ibv_devinfo -v | grep -q '::ffff:10.77.9.1'
}

@test "a deleted address raises GID_CHANGE and removes its GID" {
	local before

	before=$(gid_index a "$A6")
	on a ip address del 10.77.9.1/24 dev va
	saw 'gid.*change'
	wait_for 5 not gid_index a 10.77.9.1
	equal "index of another GID" "$(gid_index a "$A6")" "$before"
}

@test "link changes raise PORT_ERR and PORT_ACTIVE" {
	on b ip link set vb down
	saw 'port error.*DOWN|port.*err'
	equal "link" "$(ctl a status -j xra | jq -r .link)" down
	on b ip link set vb up
	saw 'port active.*ACTIVE'
	equal "link" "$(ctl a status -j xra | jq -r .link)" up
}

@test "QP, CQ and SRQ events name the right object" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_events"
}

@test "a CQ that is armed with unpolled completions raises an event" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_notify" -n "$(iterations 5000)" late solicited
}

@test "events of a moderated CQ wait for the count or the period" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_notify" -n "$(iterations 5000)" moderate
}

@test "a program that waits for the descriptor of a channel takes an event, never an error" {
	both "$BIN/rdma_channel" pingpong -g @4
	both -t 60 "$BIN/rdma_channel" beside -g @4
}

@test "packets wake a program that has stopped looking at one of its channels" {
	both -t 60 "$BIN/rdma_channel" left -g @4
}

@test "each event of a channel that does not block needs an arming, and is waited for" {
	both "$BIN/rdma_channel" count -g @4
}

@test "the descriptor of a channel is quiet while solicited completions are waited for, and moderated ones held" {
	both "$BIN/rdma_channel" solicited -g @4
	both "$BIN/rdma_channel" moderated -g @4
}

@test "traffic works after address and link changes" {
	on b ip address replace "$B6/64" dev vb nodad
	wait_for 5 on b ping -q -c 1 -W 1 "$A4"
	wait_for 5 gid_index b "$B6"
	both ibv_rc_pingpong -g @4 -c -n 50
}
