#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Direct programs of a user whom the daemons do not trust with sockets: they use them by a restricted io_uring.

load helpers
load datagram

setup_file() {
	requires root setpriv ib_write_bw rping
	export XROCE_PATH=direct XROCE_DEBUG=1
	hosts_up
	daemons_up --io socket --slots 8 --group nogroup
}

AS=(setpriv --reuid 65534 --regid 65534 --clear-groups)

# All programs are of user nobody.
run_on() {
	local h=$1

	shift
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 \
		nsenter --net="/run/netns/$ID-$h" -- "${AS[@]}" "$XROCE" run -r "$RUN/$h" "$@"
}

spawn() {
	local h=$1 file=$2

	shift 2
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 nsenter --net="/run/netns/$ID-$h" -- \
		"${AS[@]}" "$XROCE" run -r "$RUN/$h" "$@" </dev/null >"$file" 2>&1 3>&- &
}

# by_ring PROGRAM ARG...: perftest of both hosts by io_urings
by_ring() {
	perftest "$@"
	grep -q 'direct: the transport runs in this process, by a restricted io_uring' "$OUT/client"
	grep -q 'direct: the transport runs in this process, by a restricted io_uring' "$OUT/server"
}

@test "perftest runs" {
	by_ring ib_write_bw -x @4 -n 500
	by_ring ib_write_lat -x @4 -n 500
	by_ring ib_send_bw -x @6 -n 500
	by_ring ib_read_lat -x @6 -n 500
	by_ring ib_send_lat -c UD -x @4 -n 500
	by_ring ib_atomic_lat -x @4 -n 500
}

@test "perftest runs within a host" {
	both_on_a -t 40 ib_write_bw -F -x @4 -n 500
	both_on_a -t 40 ib_send_lat -F -x @6 -n 500
}

@test "perftest waits for completion events" {
	by_ring ib_send_lat -e -x @4 -n 500
	by_ring ib_send_bw -e -x @6 -n 500
}

@test "one end is direct, the other goes the daemon's way" {
	local server

	expand_args a -x @4 -n 500 -F
	server=("${ARGS[@]}")
	expand_args b -x @4 -n 500 -F
	pair ib_write_bw -p "$PORT" "${server[@]}" -- env XROCE_PATH=daemon ib_write_bw -p "$PORT" "${ARGS[@]}" "$A4"
	pair env XROCE_PATH=daemon ib_read_bw -p "$PORT" "${server[@]}" -- ib_read_bw -p "$PORT" "${ARGS[@]}" "$A4"
}

@test "every byte arrives, also of packets that were lost" {
	both -t 60 "$BIN/rdma_verify" -n "$(iterations 20)" -g @4
	ctl a fault xra drop 10 seed 5
	# not the tests of refusals: a NAK that is lost leaves the requester to its timeout
	both -t 60 "$BIN/rdma_verify" -n "$(iterations 20)" -g @6 -t write -t send-imm -t read -t mixed -t atomic
	ctl a fault xra off
}

@test "programs share the slots of their user" {
	local i said=$BATS_TEST_TMPDIR/said

	for i in 1 2 3 4; do
		spawn a "$said.$i" ib_send_bw -F -p $((PORT + i))
		listening() { listens a $((PORT + i)); }
		wait_for 10 listening
	done
	equal "by" "$(status_of a '[.slots.loans[].by] | unique | join(" ")')" io_uring
	run_on a env XROCE_PATH=auto ibv_devinfo 2>&1 | grep 'by the daemon: uid 65534 has 4 of 8 slots: no more'
	for i in 1 2 3 4; do
		kill "%$i"
	done
	wait || true
}

@test "multicast arrives, over IPv4 and IPv6" {
	local LISTENER one

	listener a one "$A4" 1 239.7.7.7
	one=$LISTENER
	listener a two "$A4" 1 239.7.7.7
	datagram b send "$B4" 239.7.7.7 0xffffff 0x11111111 hello
	wait "$one" "$LISTENER"
	listener a three "$A6" 1 ff0e::77
	datagram b send "$B6" ff0e::77 0xffffff 0x11111111 hello
	wait "$LISTENER"
	equal "messages" "$(cat "$BATS_TEST_TMPDIR"/{one,two,three} | grep -c 'got hello')" 3
}

@test "a program notes that the daemon ends, and opens the next one" {
	local log=$BATS_TEST_TMPDIR/log watch

	spawn a "$log" "$BIN/rdma_watch" death $((60 * SLOW))
	watch=$!
	wait_for 5 grep -q ready "$log"
	daemon_down a KILL
	wait_for 10 grep -q closed "$log"
	daemon_up a --io socket --slots 8 --group nogroup
	wait "$watch" || { cat "$log"; return 1; }
}

# without_ring PATH: ibv_devinfo of a program that may make no io_uring
without_ring() {
	run_on a "$BIN/borrow_ring" - 0 without env XROCE_PATH="$1" ibv_devinfo 2>&1
}

@test "where the kernel refuses io_urings, programs go the daemon's way or fail" {
	without_ring auto | grep 'xra: by the daemon: this user may not borrow sockets, and the kernel refuses an io_uring'
	without_ring direct | grep 'XROCE_PATH is direct: .*the kernel refuses an io_uring: Operation not permitted'
}

@test "the operator says how many such programs there can be" {
	local out

	daemon_down a
	daemon_up a --io socket --slots 8 --ring-slots 0 --group nogroup
	out=$(run_on a env XROCE_PATH=auto ibv_devinfo -d xra 2>&1)
	grep 'by the daemon: uid 65534 may not borrow sockets, and --ring-slots is 0' <<<"$out"
	daemon_down a
	daemon_up a --io socket --slots 8 --ring-slots 1 --group nogroup
	spawn a "$BATS_TEST_TMPDIR/server" ib_send_bw -F -p "$PORT"
	wait_for 10 grep -q 'restricted io_uring' "$BATS_TEST_TMPDIR/server"
	out=$(run_on a env XROCE_PATH=auto ibv_devinfo -d xra 2>&1)
	kill $!
	grep 'by the daemon: all 1 slots for io_urings are lent' <<<"$out"
	daemon_down a
	daemon_up a --io socket --slots 8 --group nogroup
}

@test "rping pings" {
	load rdmacm
	pair rping -s -a "$A4" -p "$PORT" -V -C 20 -- rping -c -a "$A4" -p "$PORT" -v -V -C 20
	equal "pings" "$(grep -c '^ping data' "$OUT/client")" 20
	grep -q 'by a restricted io_uring' "$OUT/client"
}
