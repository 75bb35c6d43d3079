#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# librdmacm with several daemons on a host, and with daemons that restart while programs listen.
#
# Beside the link of lib/hosts.bash there is a second one: vc 10.77.9.1 on host a, vd 10.77.9.2 on host b.

load helpers
load rdmacm

C4=10.77.9.1 D4=10.77.9.2

# second_up HOST INTERFACE: starts another daemon on the host
second_up() {
	nsenter --net="/run/netns/$ID-$1" -- "$XROCED" --interface "$2" --name "xr_$2" --spin-us 0 \
		--runtime-dir "$RUN/$1" --bpffs "$RUN/bpf" --io "$(packets_by)" </dev/null >>"$RUN/$1/log" 2>&1 3>&- &
	echo $! >"$RUN/$1/pid2"
	disown $!
	wait_for 10 ctl "$1" status "xr_$2"
}

# second_down HOST [SIGNAL]
second_down() {
	local pid

	pid=$(cat "$RUN/$1/pid2")
	kill -s "${2:-TERM}" "$pid"
	wait_for 10 not alive "$pid"
}

setup_file() {
	requires root rping ucmatose
	hosts_up
	daemons_up
	ip link add vc mtu "$MTU" netns "$ID-a" type veth peer name vd mtu "$MTU" netns "$ID-b"
	on a ip address add "$C4/24" dev vc
	on b ip address add "$D4/24" dev vd
	on a ip link set vc up
	on b ip link set vd up
	second_up a vc
	second_up b vd
}

teardown_file() {
	second_down a || true
	second_down b || true
	on a ip link del vc
	hosts_down
}

teardown() {
	report_failure
	jobs -p | xargs -r kill 2>/dev/null || true
}

# server ADDRESS: starts an rping server on host a that serves clients until `server_down`
server() {
	spawn a "$BATS_TEST_TMPDIR/server" rping -s -P -p "$PORT" -a "$1"
	SERVER=$!
	wait_for 5 listens a "$PORT"
}

server_down() {
	kill "$SERVER"
	wait "$SERVER" || true
}

# ping HOST ADDRESS
ping_once() {
	run_on "$1" timeout $((20 * SLOW)) rping -c -a "$2" -p "$PORT" -C 3 -V
}

# listener_at DEVICE: whether the server listens at that device of host a
listener_at() {
	[[ $(ctl a cm -l -j "$1" | jq "any(.[]; .port == $PORT)") == true ]]
}

@test "a wildcard listener serves the devices of all daemons" {
	server 0.0.0.0
	wait_for 5 listener_at xra
	wait_for 5 listener_at xr_vc
	ping_once b "$A4"
	ping_once b "$C4"
	ping_once a "$A4"
	ping_once a "$C4"
	ping_once a 127.0.0.1
	server_down
}

@test "a listener with an address serves the device that has it" {
	server "$A4"
	not listener_at xr_vc
	ping_once b "$A4"
	refused "error 8" ping_once b "$C4"
	server_down
	no_cm_ids
}

@test "one program connects by several devices at the same time" {
	local server

	spawn a "$BATS_TEST_TMPDIR/server" ucmatose -p "$PORT" -c 2
	server=$!
	wait_for 5 listens a "$PORT"
	run_on b timeout $((20 * SLOW)) ucmatose -s "$A4" -p "$PORT" &
	run_on b timeout $((20 * SLOW)) ucmatose -s "$C4" -p "$PORT"
	wait $!
	wait "$server"
	no_cm_ids
}

@test "a listener goes on when one of the daemons is killed and started again" {
	server 0.0.0.0
	ping_once b "$C4"
	second_down a KILL
	ping_once b "$A4"
	second_up a vc
	wait_for 5 listener_at xr_vc
	ping_once b "$C4"
	ping_once b "$A4"
	server_down
}

@test "a listener goes on when its only daemon restarts" {
	second_down a
	server 0.0.0.0
	ping_once b "$A4"
	daemon_down a
	daemon_up a
	wait_for 5 listener_at xra
	ping_once b "$A4"
	server_down
	second_up a vc
}

# The program only polls a channel without O_NONBLOCK, and calls no other function until poll() returns.
@test "a listener that waits in poll() goes on when its only daemon restarts" {
	second_down a
	spawn a "$BATS_TEST_TMPDIR/server" timeout $((40 * SLOW)) "$BIN/rdma_cm_events" -p listen 0.0.0.0 "$PORT"
	SERVER=$!
	wait_for 5 listens a "$PORT"
	daemon_down a
	daemon_up a
	wait_for 10 listener_at xra
	equal "events" "$(cat "$BATS_TEST_TMPDIR/server")" ""
	run_on b timeout $((20 * SLOW)) "$BIN/rdma_cm_events" connect "$A4" "$PORT"
	ends $((40 * SLOW)) "$SERVER"
	grep -q TIMEWAIT_EXIT "$BATS_TEST_TMPDIR/server"
	second_up a vc
}

@test "a listener gets the device of a daemon that starts later" {
	second_down a
	server 0.0.0.0
	second_up a vc
	wait_for 5 listener_at xr_vc
	ping_once b "$C4"
	server_down
}

# established_at DEVICE: whether a program on host a has a connection by that device
established_at() {
	ctl a cm -s ESTABLISHED -j "$1" | jq -e 'length > 0'
}

@test "a connection ends at both ends when a daemon is killed" {
	local server client

	spawn a "$BATS_TEST_TMPDIR/server" rping -s -p "$PORT" -a "$C4"
	server=$!
	wait_for 5 listener_at xr_vc
	spawn b "$BATS_TEST_TMPDIR/client" rping -c -p "$PORT" -a "$C4" -C 0
	client=$!
	wait_for 5 established_at xr_vc
	second_down a KILL
	wait_for 10 not alive "$server"
	grep -q "DEVICE_REMOVAL\|cma detected device removal\|poll error\|failed" "$BATS_TEST_TMPDIR/server"
	wait_for 10 not alive "$client"
	second_up a vc
}
