#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Threads of a direct program that post, poll, wait, and create objects at the same time. Built with SANITIZE=thread, a
# program that ThreadSanitizer has something to report about ends with status 66.

load helpers

setup_file() {
	requires root
	export XROCE_PATH=direct
	hosts_up
	daemon_up a --io socket
}

teardown() {
	ctl a fault xra off || true
}

# threads N ROUNDS WAY...: rdma_threads with N threads
threads() {
	local n=$1 rounds=$2

	shift 2
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_threads" -g "$(gid_index a "$A4")" -t "$n" -n "$(iterations "$rounds")" "$@"
}

@test "one thread, and two with their own CQs, post and poll" {
	threads 1 50 own
	threads 2 50 own
}

@test "eight threads share CQs" {
	threads 8 30 shared
}

@test "eight threads share CQs and an SRQ" {
	threads 8 30 srq
}

@test "threads wait for events while others post" {
	threads 4 30 channel
}

@test "objects come and go while threads post and poll" {
	threads 2 80 churn
}

@test "rules are set and removed while threads post, poll and create objects" {
	local log=$BATS_TEST_TMPDIR/log pid

	spawn a "$log" timeout $((60 * SLOW)) "$BIN/rdma_threads" -g "$(gid_index a "$A4")" -t 2 -n "$(iterations 80)" churn
	pid=$!
	while alive "$pid"; do
		ctl a fault xra rules 'delay 10us rx'
		ctl a fault xra off
	done
	wait "$pid" || { cat "$log"; return 1; }
}
