#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make demo` works, and cleans up when it is interrupted or a step fails. It creates its own hosts.

load helpers

setup_file() {
	requires root
	daemon_path "the demo shows BPF maps"
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
	grep -q 'way of packets: xdp (requested by --io)' "$BATS_TEST_TMPDIR/out"
	grep -q 'way of packets: socket (.* zero-copy AF_XDP' "$BATS_TEST_TMPDIR/out"
	grep -q 'xra: direct: ' "$BATS_TEST_TMPDIR/out"
}

# interrupted SIGNAL STEP [COMMAND...]: runs the demo in a new session and sends the signal to its process group at that
# step, when the command succeeds
interrupted() {
	local signal=$1 step=$2 pid status=0 out=$BATS_TEST_TMPDIR/out

	# bash -c starts background jobs with SIGINT ignored, an interactive shell does not
	# shellcheck disable=SC2016	# $0 is for the inner shell
	setsid bash -c 'trap - INT; exec env --default-signal=INT "$0"' "$XR_TOP/selftests/demo.sh" \
		>"$out" 2>&1 3>&- &
	pid=$!
	shift 2
	wait_for 20 grep -q "^== $step" "$out"
	wait_for 20 "${@:-true}"
	kill -s "$signal" -- "-$pid"
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
	local bin=$BATS_TEST_TMPDIR/bin

	# runs until it is interrupted
	mkdir "$bin"
	cat >"$bin/ib_write_bw" <<-END
		#!/bin/bash
		args=("\$@")
		for i in "\${!args[@]}"; do
			[[ \${args[i]} != -n ]] || args[i]=-D args[i+1]=$((100 * SLOW))
		done
		exec "$(command -v ib_write_bw)" "\${args[@]}"
	END
	chmod +x "$bin/ib_write_bw"
	both_run() { (($(pgrep -c -s "$pid" -x ib_write_bw) == 2)); }
	PATH="$bin:$PATH" interrupted INT 'ib_write_bw' both_run
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
