#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make demo` works, and cleans up also when it is interrupted or a step fails. Brings its own hosts.

load helpers

setup_file() {
	requires root
}

teardown_file() {
	sweep
}

# hosts_left PID: of the demo with that process number
hosts_left() {
	local owner

	for owner in /run/xroce-test.*/owner; do
		[[ -r $owner && $(cat "$owner") == "$1" ]] && echo "${owner%/owner}"
	done
	return 0
}

@test "demo: all steps succeed within a minute" {
	local start=$SECONDS

	timeout $((100 * SLOW)) "$XR_TOP/selftests/demo.sh" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- ||
		{ cat "$BATS_TEST_TMPDIR/out"; return 1; }
	((SECONDS - start < 60 * SLOW))
	grep -q 'all steps succeeded' "$BATS_TEST_TMPDIR/out"
}

# interrupted SIGNAL STEP: a demo of its own session, as Ctrl-C would hit it in that step
interrupted() {
	local pid status=0 out=$BATS_TEST_TMPDIR/out

	# An interactive shell starts its jobs without ignoring SIGINT; bash -c alone would not.
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
	! grep -q 'all steps succeeded' "$out"
	grep -q '^demo: failed at: ' "$out"
}

@test "demo: Ctrl-C cleans up, early" {
	interrupted INT 'two hosts'
}

@test "demo: Ctrl-C cleans up, while programs run" {
	interrupted INT 'ib_write_bw'
}

@test "demo: SIGTERM cleans up" {
	interrupted TERM 'ibv_devinfo'
}

@test "demo: a step that fails is a failure, named, and cleans up" {
	local out=$BATS_TEST_TMPDIR/out bin=$BATS_TEST_TMPDIR/bin

	mkdir "$bin"
	printf '#!/bin/sh\nexit 1\n' >"$bin/ib_read_bw"
	chmod +x "$bin/ib_read_bw"
	PATH=$bin:$PATH not timeout $((60 * SLOW)) "$XR_TOP/selftests/demo.sh" >"$out" 2>&1 3>&-
	tail -n 5 "$out"
	grep -q 'demo: failed at: ib_read_bw' "$out"
}
