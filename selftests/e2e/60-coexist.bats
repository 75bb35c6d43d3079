#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Other traffic through the same interface while xroced runs and RDMA programs transfer data.

load helpers

# bats test_tags=stock
@test "ping works over IPv4 and IPv6, also with more than a page" {
	local size

	for size in 56 1400 5000; do
		on b ping -q -c 3 -i 0.05 -W 20 -s "$size" "$A4"
		on b ping -q -c 3 -i 0.05 -W 20 -s "$size" "$A6"
	done
}

@test "fragmented IPv4 and IPv6 packets pass" {
	on b ping -q -c 3 -i 0.05 -W 20 -s 20000 "$A4"
	on b ping -q -c 3 -i 0.05 -W 20 -s 20000 "$A6"
}

# bats test_tags=stock
@test "TCP data passes unchanged" {
	head -c $((20000000 / SLOW)) /dev/urandom >"$BATS_TEST_TMPDIR/sent"
	on a timeout $((20 * SLOW)) nc -l 5000 >"$BATS_TEST_TMPDIR/got" </dev/null 3>&- &
	wait_for 5 listens a 5000
	on b timeout $((20 * SLOW)) nc -N "$A4" 5000 <"$BATS_TEST_TMPDIR/sent"
	wait $!
	cmp "$BATS_TEST_TMPDIR/sent" "$BATS_TEST_TMPDIR/got"
}

# udp_echo PORT ADDRESS: sends a datagram to host a and receives it back, bytes reversed
udp_echo() {
	on a timeout $((30 * SLOW)) python3 - "$1" "$2" <<'PYTHON' 3>&- &
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.bind((sys.argv[2], int(sys.argv[1])))
data, peer = s.recvfrom(9000)
s.sendto(data[::-1], peer)
PYTHON
	udp_bound() { on a ss -Hlun "sport = :$1" | grep -q .; }
	wait_for 5 udp_bound "$1"
	on b timeout $((30 * SLOW)) python3 - "$1" "$2" <<'PYTHON'
import os, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(20)
data = os.urandom(3000)
s.sendto(data, (sys.argv[2], int(sys.argv[1])))
assert s.recv(9000) == data[::-1]
PYTHON
	wait
}

@test "UDP datagrams to other ports pass, also 4790 and 4792" {
	requires python3
	udp_echo 5001 "$A4"
	udp_echo 4790 "$A4"
	udp_echo 4792 "$A6"
}

@test "UDP port 4791 of an address without a GID goes to the kernel" {
	requires python3 io=xdp
	on a ip address add 10.78.0.1/32 dev lo
	on b ip route add 10.78.0.1 via "$A4"
	udp_echo 4791 10.78.0.1
	(($(counter a NOT_OUR_ADDR) > 0))
}

@test "iperf3 and ib_write_bw run at the same time" {
	local first status=0

	on a timeout $((30 * SLOW)) iperf3 -s -1 >/dev/null 2>&1 3>&- &
	wait_for 5 listens a 5201
	both -t 40 ib_write_bw -x @4 -F -n $((2000 / SLOW)) &
	first=$!
	on b timeout $((30 * SLOW)) iperf3 -c "$A4" -t 2 || status=$?
	wait "$first" || status=$?
	((status == 0))
}

# pingpong NETWORK DEVICE-A DEVICE-B TCP-PORT: runs ibv_rc_pingpong on these devices, with the addresses NETWORK.1
# and NETWORK.2
pingpong() {
	local ga gb server status=0

	ga=$(gid_of "$(ctl a status -j "$2")" "$1.1")
	gb=$(gid_of "$(ctl b status -j "$3")" "$1.2")
	run_on a timeout $((30 * SLOW)) ibv_rc_pingpong -d "$2" -g "$ga" -p "$4" -c -n 500 3>&- &
	server=$!
	wait_for 5 listens a "$4"
	run_on b timeout $((30 * SLOW)) ibv_rc_pingpong -d "$3" -g "$gb" -p "$4" -c -n 500 "$A4" ||
		status=$?
	wait "$server" || status=$?
	return "$status"
}

# second_daemon HOST INTERFACE: starts another daemon in the background; $! is its PID
second_daemon() {
	nsenter --net="/run/netns/$ID-$1" -- "$XROCED" --interface "$2" --name "xr_$2" \
		--runtime-dir "$RUN/$1" --bpffs "$RUN/bpf" --io "$(packets_by)" </dev/null >>"$RUN/$1/log" 2>&1 3>&- &
}

@test "two daemons on each host serve two interfaces" {
	local pids=() first status=0

	ip link add vc mtu "$MTU" netns "$ID-a" type veth peer name vd mtu "$MTU" netns "$ID-b"
	on a ip address add 10.77.9.1/24 dev vc
	on b ip address add 10.77.9.2/24 dev vd
	on a ip link set vc up
	on b ip link set vd up
	second_daemon a vc
	pids+=($!)
	second_daemon b vd
	pids+=($!)
	wait_for 10 ctl a status xr_vc
	wait_for 10 ctl b status xr_vd
	equal "devices" "$(run_on a ibv_devices | awk '/xr/ { print $1 }' | sort | paste -sd ' ')" "xr_vc xra"
	pingpong 10.77.0 xra xrb 18600 &
	first=$!
	pingpong 10.77.9 xr_vc xr_vd 18601 || status=$?
	wait "$first" || status=$?
	# the other daemons' device must keep working when these two end
	kill "${pids[@]}"
	wait "${pids[@]}" || status=$?
	pingpong 10.77.0 xra xrb 18602 || status=$?
	on a ip link del vc
	((status == 0))
}

@test "passed packets are counted by reason, none is dropped" {
	requires io=xdp	# by sockets, no other packets are seen
	on b ping -q -c 1 -W 20 "$A4"
	on b bash -c "echo >/dev/udp/$A4/9"
	wait_for 5 eval "((\$(counter a NOT_UDP) > 0))"
	wait_for 5 eval "((\$(counter a NOT_ROCE_PORT) > 0))"
	# NO_QP: a program on host b sent again what its peer had received before it ended
	equal "dropped by host a" "$(ctl a counters -j xra |
		jq -c '[.xdp[] | select(.action == "drop" and .packets > 0 and .name != "NO_QP") | .name]')" "[]"
}

# bats test_tags=stock
@test "the kernel receives all packets after the daemon ends" {
	daemon_down a
	on b ping -q -c 2 -i 0.05 -W 20 "$A4"
	equal "XDP program" "$(on a ip -j link show va | jq -c '.[0].xdp')" null
	daemon_up a
	both ibv_rc_pingpong -g @4 -c -n 10
}
