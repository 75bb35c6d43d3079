#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs of librdmacm with one or two direct ends, between two hosts and within one.

load helpers
load direct

SERVER='' CLIENT='' # set by each_way
load rdmacm

setup_file() {
	requires root rping ucmatose udaddy rstream cmtime
	hosts_up
	daemons_up --io socket
}

teardown() {
	report_failure
	jobs -p | xargs -r kill 2>/dev/null || true
}

# by_cm CLIENT_HOST PROGRAM SERVER_ARGS -- CLIENT_ARGS: a pair of programs, with the ways of each_way
by_cm() {
	local h=$1 program=$2 server=()

	shift 2
	while [[ $1 != -- ]]; do
		server+=("$1")
		shift
	done
	shift
	pair -c "$h" env XROCE_PATH="$SERVER" "$program" "${server[@]}" -- \
		env XROCE_PATH="$CLIENT" "$program" "$@"
}

rping_pings() {
	by_cm "$1" rping -s -a "$2" -p "$PORT" -V -C 20 -- -c -a "$2" -p "$PORT" -v -V -C 20 || return
	equal "pings" "$(grep -c '^ping data' "$OUT/client")" 20
}

@test "rping pings with one or two direct ends" {
	each_way rping_pings b "$A4"
	each_way rping_pings b "$A6"
	no_cm_ids
}

@test "rping pings with direct ends within one host" {
	each_way rping_pings a "$A4"
	each_way rping_pings a "$A6"
	no_cm_ids
}

# pings_from_b ADDRESS
pings_from_b() {
	run_on b timeout $((20 * SLOW)) env XROCE_PATH=direct rping -c -a "$1" -p "$PORT" -v -V -C 20 \
		>"$BATS_TEST_TMPDIR/client"
	equal "pings" "$(grep -c '^ping data' "$BATS_TEST_TMPDIR/client")" 20
}

@test "a direct server takes connections to an address that its host got later" {
	local later=10.79.0.1 server

	spawn a "$BATS_TEST_TMPDIR/server" env XROCE_PATH=direct rping -s -P -p "$PORT" -V
	server=$!
	wait_for 5 listens a "$PORT"
	pings_from_b "$A4"
	on a ip address add "$later/32" dev va
	on b ip route add "$later" via "$A4"
	pings_from_b "$later"
	kill "$server"
	on b ip route del "$later"
	on a ip address del "$later/32" dev va
}

ucmatose_connects() {
	by_cm "$1" ucmatose -p "$PORT" -c 10 -C 5 -- -s "$2" -p "$PORT" -c 10 -C 5
}

@test "ucmatose connects with one or two direct ends" {
	each_way ucmatose_connects b "$A4"
	each_way ucmatose_connects a "$A4"
	no_cm_ids
}

udaddy_sends() {
	by_cm "$1" udaddy -b "$2" -c 4 -C 10 -- -s "$2" -c 4 -C 10
}

@test "udaddy sends datagrams with one or two direct ends" {
	each_way udaddy_sends b "$A4"
	each_way udaddy_sends b "$A6"
	no_cm_ids
}

@test "udaddy sends datagrams with direct ends within one host" {
	each_way udaddy_sends a "$A4"
	each_way udaddy_sends a "$A6"
	no_cm_ids
}

rstream_sends() {
	by_cm "$1" rstream -p "$PORT" -C 20 -S 4096 -- -s "$2" -p "$PORT" -C 20 -S 4096
}

@test "rstream streams with one or two direct ends" {
	each_way rstream_sends b "$A4"
	each_way rstream_sends a "$A4"
}

# the server goes on
cmtime_connects() {
	local server status=0

	spawn a "$BATS_TEST_TMPDIR/server" env XROCE_PATH="$SERVER" timeout $((40 * SLOW)) cmtime -p "$PORT"
	server=$!
	wait_for 10 listens a "$PORT"
	run_on b env XROCE_PATH="$CLIENT" timeout $((30 * SLOW)) cmtime -s "$A4" -p "$PORT" -c 50 || status=$?
	kill "$server"
	wait "$server" || true
	return $status
}

@test "cmtime connects with one or two direct ends" {
	each_way cmtime_connects
	no_cm_ids
}

# Both programs of perftest exit without destroying their QPs as soon as each has the last message of the other.
last_acks() {
	local i

	for ((i = 0; i < $(iterations 3); i++)); do
		by_cm b ib_write_bw -F -z -n 20 -x "$(gid_index a "$A4")" -p "$PORT" -- \
			-F -z -n 20 -x "$(gid_index b "$B4")" -p "$PORT" "$A4" || return
	done
}

@test "the last message to a program that exits at once is acknowledged" {
	each_way last_acks
	no_cm_ids
}
