#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Unreliable connections and datagrams between the two hosts: pingpong and perftest.

load helpers

# Few messages where one that is lost would be waited for for ever: all of them fit into the queues.
# bandwidth PROGRAM ARG...: a figure above zero comes out
bandwidth() {
	both -t 40 "$1" -F "${@:2}"
	grep -Eq '^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9]*\.?[0-9]*[1-9]' "$OUT/client" || {
		show_output
		return 1
	}
}

@test "unreliable: ibv_uc_pingpong, IPv4 and IPv6" {
	both ibv_uc_pingpong -g @4 -n $((200 / SLOW))
	both ibv_uc_pingpong -g @6 -n $((200 / SLOW))
	both ibv_uc_pingpong -g 0 -n $((200 / SLOW))
}

@test "unreliable: ibv_uc_pingpong, 1 byte to 1 MiB, path MTUs" {
	local size mtu

	for size in $(some 1 1023 1024 1025 65536 1048576); do
		echo "size $size"
		both ibv_uc_pingpong -g @4 -m "$PMTU" -s "$size" -n $((20 / SLOW + 1))
	done
	for mtu in $(some 256 512 1024 2048); do
		echo "mtu $mtu"
		both ibv_uc_pingpong -g @4 -m "$mtu" -s 100000 -n "$(few 10)"
	done
}

@test "unreliable: ibv_ud_pingpong, IPv4 and IPv6" {
	both ibv_ud_pingpong -g @4 -n $((200 / SLOW))
	both ibv_ud_pingpong -g @6 -n $((200 / SLOW))
	both ibv_ud_pingpong -g 0 -n $((200 / SLOW))
}

@test "unreliable: ibv_ud_pingpong, 1 byte to a whole packet" {
	local size

	for size in $(some 1 3 63 256 1024 2048 "$PMTU"); do
		echo "size $size"
		both ibv_ud_pingpong -g @4 -s "$size" -n $((20 / SLOW + 1))
	done
}

@test "unreliable: completion events (-e)" {
	both ibv_uc_pingpong -g @4 -e -n $((100 / SLOW))
	both ibv_ud_pingpong -g @4 -e -n $((100 / SLOW))
}

# bats test_tags=native
@test "unreliable: perftest over UC" {
	bandwidth ib_send_lat -c UC -x @4 -n $((500 / SLOW))
	bandwidth ib_write_lat -c UC -x @4 -n $((500 / SLOW))
	bandwidth ib_write_bw -c UC -x @4 -n $((500 / SLOW))
	bandwidth ib_write_bw -c UC -x @6 -n $((500 / SLOW))
	bandwidth ib_send_bw -c UC -x @4 -s 4096 -n 100
}

# bats test_tags=native
@test "unreliable: perftest over UD" {
	bandwidth ib_send_lat -c UD -x @4 -n $((500 / SLOW))
	bandwidth ib_send_lat -c UD -x @6 -n $((500 / SLOW))
	bandwidth ib_send_bw -c UD -x @4 -s "$PMTU" -n 100
	bandwidth ib_send_bw -c UD -x @6 -s 1024 -n 100
}

@test "unreliable: transport counters moved, none says malformed" {
	local h

	for h in a b; do
		(($(counter $h rx_packets) > 500 / SLOW))
		equal "malformed on $h" "$(counter $h rx_malformed)" 0
		equal "wrong ICRC on $h" "$(counter $h rx_icrc_errors)" 0
	done
}
