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

# storm COUNT CLIENTS MS: connects COUNT times in processes of host b, one of which is killed each MS ms if they connect
STORM=(timeout $((1800 * SLOW)) "$BIN/rdma_connect" storm "$A4" "$PORT")
storm() {
	run_on b "${STORM[@]}" "$@" | tee "$BATS_TEST_TMPDIR/storm"
}

# quick TEXT FILE: in the long suite, the last number of ms after TEXT in the file is less than 4.2 s, the time after which
# a REQ is repeated
quick() {
	local ms

	ms=$(sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$2" | tail -n 1)
	[[ -n $ms ]]
	[[ -z ${XR_CONNECTS:-} ]] || ((ms < 4200)) || {
		echo "$1 $ms ms"
		return 1
	}
}

no_stale_connections() {
	local h

	for h in a b; do
		equal "REJ for stale connections, host $h" "$(cm_counter $h REJ_sent_STALE)" 0
	done
}

# Runs with 100 000 connections in the suite long/e2e/49-rdmacm-many.
@test "connections of killed clients and servers leave nothing" {
	local a b n rss

	n=${XR_CONNECTS:-$(iterations 300)}
	a=$(resources a) b=$(resources b)
	serve serve-killed 1000
	storm $((n / 10 + 20)) 4 200
	rss=$(($(rss a) + $(rss b)))
	storm "$n" 4 200
	quick "longest outage" "$BATS_TEST_TMPDIR/storm"
	echo "resident: $rss KiB, then $(($(rss a) + $(rss b))) KiB"
	(($(rss a) + $(rss b) < rss + 4096))
	no_stale_connections
	server_down
	no_cm_ids
	resources_restored a "$a"
	resources_restored b "$b"
}

# Connections are open, being made and being closed when the daemon is killed. A REQ that was sent to the killed daemon
# is repeated after seconds, one that is sent to its successor is not.
@test "the first attempt connects after a daemon was killed" {
	local h storm before log=$BATS_TEST_TMPDIR/log

	serve serve
	for ((n = 0; n < ${XR_CONNECTS:-0} / 5000 + 1; n++)); do
		for h in a b; do
			before=$(cm_counter a RTU_received)
			spawn b "$log" "${STORM[@]}" "$(iterations 300)" 4 400
			storm=$!
			wait_for 10 eval "((\$(cm_counter a RTU_received) > $before + 5))"
			daemon_down $h KILL
			daemon_up $h
			wait_for 30 listens a "$PORT"
			run_on b timeout $((60 * SLOW)) "$BIN/rdma_connect" once "$A4" "$PORT" | tee "$BATS_TEST_TMPDIR/once"
			grep -q "^connected" "$BATS_TEST_TMPDIR/once"
			quick "connected after" "$BATS_TEST_TMPDIR/once"
			ends $((300 * SLOW)) $storm || { cat "$log"; return 1; }
			cat "$log"
			no_stale_connections
		done
	done
	server_down
	no_cm_ids
}

# established HOST: whether a connection of rdma_cm is established on the host
established() {
	ctl "$1" cm -s ESTABLISHED -j "xr$1" | jq -e 'length > 0'
}

# peer_is_told SIGNAL ADDRESS [LOST]: an idle connection from host b to this address of host a; the daemon of a ends
# by the signal, and the program on b gets DISCONNECTED, although so many MADs are lost
peer_is_told() {
	local log=$BATS_TEST_TMPDIR server client

	spawn a "$log/a" timeout $((60 * SLOW)) "$BIN/rdma_cm_events" listen "$2" "$PORT"
	server=$!
	wait_for 5 listens a "$PORT"
	spawn b "$log/b" timeout $((60 * SLOW)) "$BIN/rdma_cm_events" -i connect "$2" "$PORT"
	client=$!
	wait_for 10 established a
	wait_for 10 established b
	((${3:-0} == 0)) || ctl b fault xrb rules "drop rx mads times $3"
	daemon_down a "$1"
	ends $((20 * SLOW)) "$client" || { cat "$log/b"; return 1; }
	ends $((20 * SLOW)) "$server" || { cat "$log/a"; return 1; }
	grep -q "^RDMA_CM_EVENT_DISCONNECTED 0$" "$log/b" || { cat "$log/b"; return 1; }
	daemon_up a
}

@test "peers of a daemon that is killed are disconnected, also those that only wait" {
	for ((n = $(iterations 4); n; n--)); do
		peer_is_told KILL "$A4"
		peer_is_told KILL "$A6"
	done
}

@test "peers of a daemon that ends are disconnected, also if the first two DREQs are lost" {
	peer_is_told TERM "$A4" 2
	peer_is_told KILL "$A4" 2
	ctl b fault xrb off
}

# The server stops reading requests when it has refused one, until it is woken again.
@test "ids move to channels of their own while requests arrive" {
	local n server

	n=$(iterations 400)
	spawn a "$BATS_TEST_TMPDIR/server" timeout $((120 * SLOW)) "$BIN/rdma_migrate" serve "$A4" "$PORT" "$n"
	server=$!
	wait_for 5 listens a "$PORT"
	run_on b timeout $((120 * SLOW)) "$BIN/rdma_migrate" connect "$A4" "$PORT" "$n" 16
	ends $((20 * SLOW)) "$server" || { cat "$BATS_TEST_TMPDIR/server"; return 1; }
	no_cm_ids
}
