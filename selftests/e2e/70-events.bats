#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Asynchronous events: addresses and the link change under a running program; what happens to queue pairs. The limit
# of SRQs is in 25-srq, the end of the device in 75-daemon-death.

load helpers

setup() {
	SEEN=$BATS_TEST_TMPDIR/seen
	spawn a "$SEEN" "$XR_BUILD/selftests/e2e/rdma_watch" events $((15 * SLOW))
	WATCH=$!
	wait_for 5 grep -q ready "$SEEN"
}

teardown() {
	cat "$SEEN"
	kill "$WATCH" 2>/dev/null
	wait "$WATCH" 2>/dev/null
	return 0
}

saw() {
	wait_for 5 grep -qiE "$1" "$SEEN" || {
		echo "no such event: $1"
		return 1
	}
}

# bats test_tags=stock
@test "events: a new address is a new GID" {
	on a ip address add 10.77.9.1/24 dev va
	saw 'gid.*change'
	wait_for 5 gid_index a 10.77.9.1
	run_on a ibv_devinfo -v | grep -q '::ffff:10.77.9.1'
}

@test "events: an address that goes takes its GID with it" {
	local before

	before=$(gid_index a "$A6")
	on a ip address del 10.77.9.1/24 dev va
	saw 'gid.*change'
	wait_for 5 not gid_index a 10.77.9.1
	equal "index of another GID" "$(gid_index a "$A6")" "$before"
}

@test "events: link down, link up" {
	on b ip link set vb down
	saw 'port error.*DOWN|port.*err'
	equal "link" "$(ctl a status -j xra | jq -r .link)" down
	on b ip link set vb up
	saw 'port active.*ACTIVE'
	equal "link" "$(ctl a status -j xra | jq -r .link)" up
}

@test "events: of queue pairs, completion queues and SRQs, each for what it is meant for" {
	run_on a timeout $((60 * SLOW)) "$XR_BUILD/selftests/e2e/rdma_events"
}

@test "events: traffic after all that" {
	on b ip address replace "$B6/64" dev vb nodad
	wait_for 5 on b ping -q -c 1 -W 1 "$A4"
	wait_for 5 gid_index b "$B6"
	both ibv_rc_pingpong -g @4 -c -n 50
}
