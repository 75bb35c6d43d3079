#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# ibv_rc_pingpong: sizes, path MTUs, events, address families. -c compares what arrived.

load helpers

@test "pingpong: 1 byte to 8 MiB" {
	local size

	for size in $(some 1 2 63 64 1023 1024 1025 4096 65536 1048576 8388608); do
		echo "size $size"
		both ibv_rc_pingpong -g @4 -c -m "$PMTU" -s "$size" -n "$(few $((size > 65536 ? 5 : 50)))"
	done
}

@test "pingpong: path MTU 256 to 2048" {
	local mtu

	for mtu in $(some 256 512 1024 2048); do
		echo "mtu $mtu"
		both ibv_rc_pingpong -g @4 -c -m "$mtu" -s 100000 -n "$(few 20)"
	done
}

@test "pingpong: path MTU 4096" {
	requires pmtu=4096
	both ibv_rc_pingpong -g @4 -c -m 4096 -s 100000 -n 20
}

@test "pingpong: completion events (-e)" {
	both ibv_rc_pingpong -g @4 -c -e -n $((200 / SLOW))
	both ibv_rc_pingpong -g @4 -c -e -n "$(few 20)" -s 1000000 -m "$PMTU"
}

@test "pingpong: over IPv6" {
	both ibv_rc_pingpong -g @6 -c -n $((100 / SLOW))
	both ibv_rc_pingpong -g @6 -c -e -n $((100 / SLOW)) -m "$PMTU" -s 300000
}

@test "pingpong: over IPv6 link-local addresses" {
	both ibv_rc_pingpong -g 0 -c -n $((100 / SLOW))
}

# refused ARG...: neither side starts, and both say why
refused() {
	both -t 8 ibv_rc_pingpong "$@" >/dev/null && return 1
	tail -n 3 "$OUT/server" "$OUT/client"
	equal "status of the server" "$(cat "$OUT/server.status")" 1
	equal "status of the client" "$(cat "$OUT/client.status")" 1
}

@test "pingpong: extended CQs with timestamps (-t), extended QPs (-N), device memory (-j)" {
	both ibv_rc_pingpong -g @4 -c -n 100 -t
	grep 'Average receive completion clock cycles = [0-9]' "$OUT/server"
	both ibv_rc_pingpong -g @4 -c -n 100 -N
	# not with -e as well: the program takes an event for what was polled already for an error
	both ibv_rc_pingpong -g @4 -c -n 100 -N -t
	both ibv_rc_pingpong -g @4 -n 100 -j -s 1024
}

@test "pingpong: a GID index without a GID fails" {
	refused -g 200
}

@test "pingpong: a GID index beyond the table fails" {
	fails run_on a timeout $((10 * SLOW)) ibv_rc_pingpong -g 256
}

@test "pingpong: a peer that is not there fails in time" {
	fails run_on b timeout $((10 * SLOW)) ibv_rc_pingpong -g 1 "$A4"
}

@test "pingpong: transport counters moved, none says malformed" {
	local h

	for h in a b; do
		(($(counter $h rx_packets) > 1000 / SLOW))
		(($(counter $h tx_packets) > 1000 / SLOW))
		equal "malformed on $h" "$(counter $h rx_malformed)" 0
		equal "wrong ICRC on $h" "$(counter $h rx_icrc_errors)" 0
	done
}
