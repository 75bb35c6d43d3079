#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Direct programs whose peers go the daemon's way, and direct peers, on another host and on the same one

load helpers
load direct

SERVER='' CLIENT='' # set by each_way

setup_file() {
	requires root ib_write_bw
	hosts_up
	daemons_up --io socket
}

# perftest_of CLIENT_HOST PROGRAM ARG...: a pair of programs of perftest, with the ways of each_way
perftest_of() {
	local h=$1 program=$2 server

	shift 2
	expand_args a "$@"
	server=("${ARGS[@]}")
	expand_args "$h" "$@"
	pair -t 40 -c "$h" env XROCE_PATH="$SERVER" "$program" -F -p "$PORT" "${server[@]}" -- \
		env XROCE_PATH="$CLIENT" "$program" -F -p "$PORT" "${ARGS[@]}" "$A4" || return
	has_result "$OUT/client" || {
		show_output
		return 1
	}
}

@test "perftest runs between hosts with one or two direct ends" {
	each_way perftest_of b ib_write_bw -x @4 -n 200
	each_way perftest_of b ib_read_lat -x @6 -n 200
	each_way perftest_of b ib_send_lat -c UD -x @4 -n 200
}

@test "RC and UC run within one host with one or two direct ends" {
	each_way perftest_of a ib_write_bw -x @4 -n 200
	each_way perftest_of a ib_send_bw -b -x @6 -n 200
	each_way perftest_of a ib_read_lat -x @4 -n 200
	each_way perftest_of a ib_send_lat -c UC -x @4 -n 200
}

@test "UD runs within one host with one or two direct ends" {
	each_way perftest_of a ib_send_lat -c UD -x @4 -n 200
	each_way perftest_of a ib_send_lat -c UD -x @6 -n 200
}

on_lo() {
	local args

	for args in ib_write_bw ib_send_bw "ib_send_lat -c UD"; do
		# shellcheck disable=SC2086
		pair -t 40 -c a env XROCE_PATH="$SERVER" $args -F -p "$PORT" -n 200 -- \
			env XROCE_PATH="$CLIENT" $args -F -p "$PORT" -n 200 127.0.0.1 || return
		has_result "$OUT/client" || {
			show_output
			return 1
		}
	done
}

@test "perftest runs on the loopback interface with one or two direct ends" {
	daemon_down a
	nsenter --net="/run/netns/$ID-a" -- "$XROCED" --interface lo --name xra --runtime-dir "$RUN/a" \
		--bpffs "$RUN/bpf" --user "$DAEMON_USER" --io socket </dev/null >>"$RUN/a/log" 2>&1 3>&- &
	echo $! >"$RUN/a/pid"
	disown $!
	wait_for 10 daemon_running a
	each_way on_lo
}
