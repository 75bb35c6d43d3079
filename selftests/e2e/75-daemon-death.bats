#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon is killed or stopped while programs run: they get DEVICE_FATAL, nothing hangs, the interface has no XDP
# program any more, and a new daemon works.

load helpers
load datagram

# watch_death SIGNAL: ends the daemon by that signal and starts a new one; rdma_watch must see each step
watch_death() {
	local log=$BATS_TEST_TMPDIR/log watch

	spawn a "$log" "$BIN/rdma_watch" death $((60 * SLOW))
	watch=$!
	wait_for 5 grep -q ready "$log"
	daemon_down a "$1"
	wait_for 10 grep -q closed "$log" || { cat "$log"; return 1; }
	daemon_up a
	wait "$watch" || { cat "$log"; return 1; }
	equal "log" "$(tr '\n' ' ' <"$log")" "ready fatal flushed closed opened again "
}

@test "killing the daemon raises DEVICE_FATAL and flushes all work" {
	watch_death KILL
}

@test "stopping the daemon raises DEVICE_FATAL and flushes all work" {
	watch_death TERM
}

@test "QPNs are others after a restart, and not sequential" {
	local before QPN LISTENER

	listener a first "$A4" 1
	before=$QPN
	kill "$LISTENER"
	daemon_down a
	daemon_up a
	listener a second "$A4" 1
	kill "$LISTENER"
	((before != QPN))
	before=$QPN
	listener a third "$A4" 1
	kill "$LISTENER"
	((QPN != before && QPN != before + 1))
}

@test "killing the daemon removes the XDP program" {
	daemon_down a KILL
	equal "XDP program" "$(on a ip -j link show va | jq -c '.[0].xdp')" null
	on b ping -q -c 1 -W 20 "$A4"
	daemon_up a
}

@test "what a killed daemon created in file systems is removed" {
	daemon_down a KILL
	removed() {
		[[ ! -e $RUN/a/xra.sock && ! -e $RUN/a/xra.lock && ! -e $RUN/bpf/xroce/xra ]]
	}
	wait_for 10 removed
	daemon_up a
}

@test "perftest ends on both hosts when a daemon is killed" {
	local pid before status=0

	both -t 100 ib_write_bw -x @4 -F -D $((90 * SLOW)) >/dev/null 2>&1 &
	pid=$!
	wait_for 5 sh -c "$XROCE -r $RUN/b qp | grep -q RTS"
	before=$(counter b rx_packets)
	wait_for 5 eval "((\$(counter b rx_packets) > before + 100))"
	daemon_down b KILL
	wait "$pid" || status=$?
	OUT=$(out)
	tail -n 3 "$OUT/server" "$OUT/client"
	equal "status of the client" "$(cat "$OUT/client.status")" 1
	equal "status of the server" "$(cat "$OUT/server.status")" 1
	((status != 0))
	daemon_up b
}

@test "a daemon for a device name in use ends, however often it is started" {
	for _ in 1 2 3; do
		run on a timeout $((30 * SLOW)) "$XROCED" --interface va --name xra --runtime-dir "$RUN/a" \
			--bpffs "$RUN/bpf" --io "$(packets_by)"
		echo "$output"
		equal "status" "$status" 1
		[[ $output == *"another xroced serves xra"* ]]
	done
}

@test "traffic works after daemons were killed and restarted" {
	both ibv_rc_pingpong -g @4 -c -n 20
}
