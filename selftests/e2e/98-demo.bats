#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make demo` works, and cleans up when it is interrupted or a step fails. It creates its own hosts.

load helpers

setup_file() {
	requires root
}

teardown_file() {
	sweep
}

# hosts_left PID: prints the run folders that the demo with that PID left behind
hosts_left() {
	local owner

	for owner in /run/xroce-test.*/owner; do
		[[ -r $owner && $(cat "$owner") == "$1" ]] && echo "${owner%/owner}"
	done
	return 0
}

@test "the demo succeeds within a minute" {
	local start=$SECONDS

	timeout $((100 * SLOW)) "$XR_TOP/selftests/demo.sh" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- ||
		{ cat "$BATS_TEST_TMPDIR/out"; return 1; }
	((SECONDS - start < 60 * SLOW))
	grep -q 'all steps succeeded' "$BATS_TEST_TMPDIR/out"
}

# interrupted SIGNAL STEP: runs the demo in a new session and, at that step, sends the signal to its process group
interrupted() {
	local pid status=0 out=$BATS_TEST_TMPDIR/out

	# bash -c starts background jobs with SIGINT ignored, an interactive shell does not
	# shellcheck disable=SC2016	# $0 is for the inner shell
	setsid bash -c 'trap - INT; exec env --default-signal=INT "$0"' "$XR_TOP/selftests/demo.sh" \
		>"$out" 2>&1 3>&- &
	pid=$!
	wait_for 20 grep -q "^== $2" "$out"
	nap 0.2
	kill -s "$1" -- "-$pid"
	wait "$pid" || status=$?
	cat "$out"
	((status != 0))
	equal "hosts" "$(hosts_left "$pid")" ""
	not grep -q 'all steps succeeded' "$out"
	grep -q '^demo: failed at: ' "$out"
}

@test "the demo cleans up after an early Ctrl-C" {
	interrupted INT 'two hosts'
}

@test "the demo cleans up after Ctrl-C while programs run" {
	interrupted INT 'ib_write_bw'
}

@test "the demo cleans up after SIGTERM" {
	interrupted TERM 'ibv_devinfo'
}

@test "the demo names a step that failed and cleans up" {
	local out=$BATS_TEST_TMPDIR/out bin=$BATS_TEST_TMPDIR/bin

	mkdir "$bin"
	printf '#!/bin/sh\nexit 1\n' >"$bin/ib_read_bw"
	chmod +x "$bin/ib_read_bw"
	fails env PATH="$bin:$PATH" timeout $((60 * SLOW)) "$XR_TOP/selftests/demo.sh" >"$out" 2>&1 3>&-
	tail -n 5 "$out"
	grep -q 'demo: failed at: ib_read_bw' "$out"
}
