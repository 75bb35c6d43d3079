#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Many connections of rdma_cm: at once, one after the other, with programs and daemons that are killed.

load helpers
load rdmacm

setup_file() {
	requires root
	hosts_up
	daemons_up
}

teardown() {
	report_failure
	jobs -p | xargs -r kill 2>/dev/null || true
}

# serve MODE ARG...: starts a server on host a, with the mode and arguments of rdma_connect
serve() {
	spawn a "$BATS_TEST_TMPDIR/server" "$BIN/rdma_connect" "$1" "$A4" "$PORT" "${@:2}"
	SERVER=$!
	wait_for 30 listens a "$PORT"
}

# The server runs still: it has ended only if something failed.
server_down() {
	alive "$SERVER" || { cat "$BATS_TEST_TMPDIR/server"; return 1; }
	kill "$SERVER"
	wait "$SERVER" || true
}

# at_once N ARG...: opens and closes N connections at once, of which nothing may remain
at_once() {
	local before

	run_on b timeout $((60 * SLOW)) "$BIN/rdma_connect" once "$A4" "$PORT"
	before=$(cm_counter a RTU_received)
	run_on b timeout $((120 * SLOW)) "$BIN/rdma_connect" many "$A4" "$PORT" "$@"
	(($(cm_counter a RTU_received) >= before + $1))
}

@test "the port of a killed listener is free at once" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_connect" restart "$A4" "$PORT" "$(iterations 200)"
	no_cm_ids
}

@test "a thousand connections are open at the same time" {
	local a b

	a=$(resources a) b=$(resources b)
	serve serve
	at_once "$(iterations 1000)"
	server_down
	resources_restored a "$a"
	resources_restored b "$b"
}

@test "hundreds of connections have an event channel each" {
	local a b

	a=$(resources a) b=$(resources b)
	serve serve own
	at_once "$(iterations 700)" own
	server_down
	resources_restored a "$a"
	resources_restored b "$b"
}
