#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# ibv_rc_pingpong with various sizes, path MTUs, events and address families. -c verifies the received data.

load helpers

@test "ibv_rc_pingpong transfers 1 byte to 8 MiB" {
	local size

	for size in $(sample 1 2 63 64 1023 1024 1025 4096 65536 1048576 8388608); do
		echo "size $size"
		both ibv_rc_pingpong -g @4 -c -m "$PMTU" -s "$size" -n "$(iterations $((size > 65536 ? 5 : 50)))"
	done
}

@test "ibv_rc_pingpong works with path MTU 256 to 2048" {
	local mtu

	for mtu in $(sample 256 512 1024 2048); do
		echo "mtu $mtu"
		both ibv_rc_pingpong -g @4 -c -m "$mtu" -s 100000 -n "$(iterations 20)"
	done
}

@test "ibv_rc_pingpong works with path MTU 4096" {
	requires pmtu=4096
	both ibv_rc_pingpong -g @4 -c -m 4096 -s 100000 -n 20
}

@test "ibv_rc_pingpong works with completion events (-e)" {
	both ibv_rc_pingpong -g @4 -c -e -n $((200 / SLOW))
	both ibv_rc_pingpong -g @4 -c -e -n "$(iterations 20)" -s 1000000 -m "$PMTU"
}

@test "ibv_rc_pingpong works over IPv6" {
	both ibv_rc_pingpong -g @6 -c -n $((100 / SLOW))
	both ibv_rc_pingpong -g @6 -c -e -n $((100 / SLOW)) -m "$PMTU" -s 300000
}

@test "ibv_rc_pingpong works over IPv6 link-local addresses" {
	both ibv_rc_pingpong -g 0 -c -n $((100 / SLOW))
}

# refused ARG...: ibv_rc_pingpong must fail with status 1 on both sides
refused() {
	both ibv_rc_pingpong "$@" >/dev/null && return 1
	tail -n 3 "$OUT/server" "$OUT/client"
	equal "status of the server" "$(cat "$OUT/server.status")" 1
	equal "status of the client" "$(cat "$OUT/client.status")" 1
}

@test "ibv_rc_pingpong works with timestamps (-t), extended QPs (-N) and device memory (-j)" {
	both ibv_rc_pingpong -g @4 -c -n 100 -t
	grep 'Average receive completion clock cycles = [0-9]' "$OUT/server"
	both ibv_rc_pingpong -g @4 -c -n 100 -N
	# Without -e: the program fails if it gets an event whose completion it has already polled.
	both ibv_rc_pingpong -g @4 -c -n 100 -N -t
	both ibv_rc_pingpong -g @4 -n 100 -j -s 1024
}

@test "ibv_rc_pingpong fails if the GID index has no GID" {
	refused -g 200
}

@test "ibv_rc_pingpong fails if the GID index is beyond the table" {
	fails run_on a timeout $((20 * SLOW)) ibv_rc_pingpong -g 256
}

@test "ibv_rc_pingpong fails in time if the peer does not exist" {
	fails run_on b timeout $((20 * SLOW)) ibv_rc_pingpong -g 1 "$A4"
}

@test "RC packets are counted, none as malformed" {
	no_bad_packets $((1000 / SLOW))
}
