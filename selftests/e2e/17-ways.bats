#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# One host with XDP, the other one with UDP sockets: first host a with XDP, then host b.

load helpers
load datagram

# The host with XDP lends no sockets.
[[ ${XR_PATH-} != direct ]] || export XROCE_PATH=auto

setup_file() {
	requires root
	hosts_up
	daemons a
}

# daemons HOST: starts both daemons, that host with XDP
daemons() {
	local h

	for h in a b; do
		daemon_down $h
		daemon_up $h --io "$([[ $h == "$1" ]] && echo xdp || echo socket)"
		equal "way of host $h" "$(status_of $h .io)" "$([[ $h == "$1" ]] && echo xdp || echo socket)"
	done
}

# both_ways COMMAND...: runs it with XDP on host a, then on host b
both_ways() {
	local h

	for h in a b; do
		echo "XDP on host $h"
		[[ $(status_of $h .io) == xdp ]] || daemons $h
		"$@"
	done
}

verify() {
	both -t 90 "$BIN/rdma_verify" -g "$1" -m "$PMTU" -n "$(iterations 10)" -s 5 -t write -t send-imm -t read -t mixed \
		-t pipeline -t atomic
	no_bad_packets 100
}

@test "XDP and sockets: RC WRITE, SEND, READ and atomics over IPv4" {
	both_ways verify @4
}

@test "XDP and sockets: RC WRITE, SEND, READ and atomics over IPv6" {
	both_ways verify @6
}

unreliable() {
	both ibv_uc_pingpong -g @4 -n 100 -s 20000
	both ibv_ud_pingpong -g @4 -n 100 -s 1000
	both ibv_ud_pingpong -g @6 -n 100 -s 1000
	no_bad_packets 100
}

@test "XDP and sockets: UC and UD" {
	both_ways unreliable
}

streams() {
	perftest ib_write_bw -x @4 -n "$(iterations 500)" -s 65536
	perftest ib_read_bw -x @4 -n "$(iterations 500)" -s 65536
	perftest ib_send_bw -x @6 -n "$(iterations 500)" -s 65536
	perftest ib_write_bw -x @4 -n "$(iterations 200)" -s 1048576 -b -q 4
	equal "ICRC errors" "$(($(counter a rx_icrc_errors) + $(counter b rx_icrc_errors)))" 0
}

@test "XDP and sockets: streams in one and both directions" {
	both_ways streams
}

connections() {
	(
		load rdmacm
		pair rping -s -a "$A4" -p "$PORT" -C 10 -v -V -- rping -c -a "$A4" -p "$PORT" -C 10 -v -V
		pair rping -s -a "$A6" -p "$PORT" -C 10 -v -V -- rping -c -a "$A6" -p "$PORT" -C 10 -v -V
		pair ucmatose -b "$A4" -p "$PORT" -- ucmatose -s "$A4" -p "$PORT"
	)
}

@test "XDP and sockets: connections by rdma_cm" {
	both_ways connections
}

# multicast GROUP FROM TO: from host b to a
multicast() {
	listener a "group$RANDOM" "$3" 1 "$1"
	datagram b send "$2" "$1" 0xffffff 0x11111111 one
	wait "$LISTENER"
}

@test "XDP and sockets: multicast" {
	both_ways multicast 239.7.7.9 "$B4" "$A4"
	both_ways multicast ff0e::79 "$B6" "$A6"
}

lossy() {
	ctl a fault xra drop 5 corrupt 5 reorder 5
	ctl b fault xrb drop 5 corrupt 5 reorder 5
	both -t 90 "$BIN/rdma_verify" -g @4 -m "$PMTU" -n "$(iterations 10)" -s 5 -t write -t send-imm -t read -t atomic
	ctl a fault xra off
	ctl b fault xrb off
}

@test "XDP and sockets: lost, damaged and reordered packets" {
	both_ways lossy
}
