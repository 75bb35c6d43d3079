#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two devices of one host: the interfaces of both daemons are in one network namespace, where each address is local.

load helpers

setup() {
	requires root io=xdp	# by sockets, packets to addresses of the host take lo
	hosts_up
	on b ip link set vb netns "$ID-a"
	# host b is host a from now on
	umount "/run/netns/$ID-b"
	mount --bind "/run/netns/$ID-a" "/run/netns/$ID-b"
}

teardown() {
	report_failure
	hosts_down
}

# addresses: gives both interfaces their addresses and starts the daemons
addresses() {
	local h

	for h in a b; do
		on a ip address flush dev "v$h" scope global
		on a ip link set "v$h" up
	done
	on a ip address add "$A4/24" dev va
	on a ip address add "$A6/64" dev va nodad
	on a ip address add "$B4/24" dev vb
	on a ip address add "$B6/64" dev vb nodad
	daemons_up
}

# separate: connects va and vb to a peer each, pa and pb
separate() {
	on a ip link del va
	for h in a b; do
		on a ip link add "v$h" mtu "$MTU" type veth peer name "p$h" mtu "$MTU"
		on a ip link set "p$h" up
	done
}

# reach: programs on both devices exchange messages by frames, without neighbours that are known before
reach() {
	on a ip neighbour flush all
	both ibv_rc_pingpong -g @4 -c -n 100
	both ibv_rc_pingpong -g @6 -c -n 100
	both ibv_ud_pingpong -g @6 -n 20
	(($(counter a tx_packets) >= 220))
}

@test "two devices on both ends of a veth pair reach each other" {
	addresses
	reach
}

@test "two devices of a host at one bridge reach each other" {
	separate
	on a ip link add br0 type bridge
	on a ip link set br0 up
	on a ip link set pa master br0
	on a ip link set pb master br0
	addresses
	reach
}

@test "two devices of a host with addresses of different networks reach each other" {
	A4=10.78.1.1 B4=10.78.2.1 A6=fd78:1::1 B6=fd78:2::1
	addresses
	reach
}

@test "rping connects two devices of a host" {
	load rdmacm
	addresses
	pair rping -s -a "$A4" -p "$PORT" -C 20 -v -V -- rping -c -a "$A4" -I "$B4" -p "$PORT" -C 20 -v -V
	pair rping -s -a "$A6" -p "$PORT" -C 20 -v -V -- rping -c -a "$A6" -I "$B6" -p "$PORT" -C 20 -v -V
	(($(counter a tx_packets) > 80))
}

# The device of an address is that of the client, too, if the program does not bind another one.
@test "rping reaches each device of a host from a runtime folder with both" {
	load rdmacm
	addresses
	ln -s "$RUN/b/xrb.sock" "$RUN/a/xrb.sock"
	ln -s "$RUN/a/xra.sock" "$RUN/b/xra.sock"
	pair rping -s -a "$A4" -p "$PORT" -C 20 -v -V -- rping -c -a "$A4" -p "$PORT" -C 20 -v -V
	pair -c a rping -s -a "$A6" -p "$PORT" -C 20 -v -V -- rping -c -a "$A6" -p "$PORT" -C 20 -v -V
	pair rping -s -p "$PORT" -C 20 -v -V -- rping -c -a "$A4" -I "$B4" -p "$PORT" -C 20 -v -V
}

@test "an error names the cause if frames do not get from one device of a host to the other" {
	separate
	addresses
	export XROCE_DEBUG=1
	fails both -t 30 ibv_rc_pingpong -g @4 -n 20
	grep -q "MODIFY_QP: .*: dgid is an address of another interface of this host, and frames of v[ab]" \
		"$OUT/server" "$OUT/client"
	fails both -t 30 ibv_rc_pingpong -g @6 -n 20
	grep -q "MODIFY_QP: .*: dgid is an address of another interface of this host, and frames of v[ab]" \
		"$OUT/server" "$OUT/client"
}
