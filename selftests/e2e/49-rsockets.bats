#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rsockets, the sockets of librdmacm. Datagrams (udpong) need an InfiniBand port: rsockets create address handles
# without GRH, which RoCE does not have (docs/programs.md).

load helpers
load rdmacm

setup_file() {
	requires root rstream riostream rcopy
	hosts_up
	daemons_up
}

# stream PROGRAM ADDRESS ARG...: server on host a, client on host b; data is verified
stream() {
	pair -t 60 "$1" -b "$2" -p "$PORT" "${@:3}" -- "$1" -s "$2" -p "$PORT" "${@:3}"
	no_cm_ids
}

@test "rstream transfers data, over IPv4 and IPv6" {
	local address

	for address in "$A4" "$A6"; do
		stream rstream "$address" -T v -S 100 -C 100 -I "$(iterations 10)"
		stream rstream "$address" -T v -S 65536 -C 20 -I "$(iterations 10)"
	done
	stream rstream "$A4" -T v -S 1048576 -C 5 -I "$(iterations 5)"
}

@test "rstream transfers data with blocking and with nonblocking calls (-T b, -T n)" {
	stream rstream "$A4" -T b -S 4096 -C 100 -I "$(iterations 10)"
	stream rstream "$A4" -T n -S 4096 -C 100 -I "$(iterations 10)"
}

@test "rstream resolves addresses by librdmacm (-T r)" {
	stream rstream "$A4" -T r -S 4096 -C 100 -I "$(iterations 10)"
}

@test "rstream transfers data within one host" {
	local address

	for address in "$A4" "$A6"; do
		pair -t 60 -c a rstream -b "$address" -p "$PORT" -T v -S 4096 -C 100 -I 10 -- \
			rstream -s "$address" -p "$PORT" -T v -S 4096 -C 100 -I 10
	done
}

@test "riostream writes to memory of the peer, over IPv4 and IPv6" {
	local address

	for address in "$A4" "$A6"; do
		stream riostream "$address" -T v -S 4096 -C 100 -I "$(iterations 10)"
	done
}

# The program polls memory, and deregisters it as soon as it has changed.
@test "riostream writes to memory of the peer within one host" {
	local i address

	for ((i = 0; i < $(iterations 5); i++)); do
		for address in "$A4" "$A6"; do
			pair -t 60 -c a riostream -b "$address" -p "$PORT" -S 4096 -C 10 -I 10 -- \
				riostream -s "$address" -p "$PORT" -S 4096 -C 10 -I 10
		done
	done
}

@test "rcopy copies a file" {
	local file=$BATS_TEST_TMPDIR/file server h

	head -c $((10000000 / SLOW)) /dev/urandom >"$file"
	spawn a "$BATS_TEST_TMPDIR/server" rcopy -p "$PORT"
	server=$!
	wait_for 10 listens a "$PORT"
	for h in a b; do
		run_on "$h" timeout $((30 * SLOW)) rcopy "$file" "$A4:$file.$h" -p "$PORT"
		cmp "$file" "$file.$h"
	done
	kill "$server"
	wait "$server" || true
	no_cm_ids
}

# With blocking calls: a nonblocking one prints another message if the rejection comes late.
@test "without a server rstream fails" {
	refused "Connection refused" run_on b timeout $((20 * SLOW)) rstream -s "$A4" -p "$PORT" -T b
}

# under_rsockets ORDER PROGRAM ARG...: replaces the sockets of the program; librspreload comes before or after libxroce
under_rsockets() {
	local library

	library=$(dpkg -L librdmacm1 | grep -m 1 '/librspreload\.so$')
	case $1 in
	before) library="$library:\$LD_PRELOAD" ;;
	after) library="\$LD_PRELOAD:$library" ;;
	esac
	UNDER=(sh -c "LD_PRELOAD=$library exec \"\$@\"" sh "${@:2}")
}

# tcp_echo CLIENT_HOST ADDRESS ORDER
tcp_echo() {
	local server bytes=$((10000000 / SLOW))

	under_rsockets "$3" "$BIN/tcp_echo" -s "$2" "$PORT" 1
	server=("${UNDER[@]}")
	under_rsockets "$3" "$BIN/tcp_echo" -c "$2" "$PORT" "$bytes"
	pair -t 30 -c "$1" "${server[@]}" -- "${UNDER[@]}"
	equal "client" "$(cat "$OUT/client")" "$bytes bytes echoed"
}

@test "a TCP program runs over RDMA with librspreload, over IPv4 and IPv6" {
	local address order

	for order in before after; do
		for address in "$A4" "$A6"; do
			counter_grows b rx_packets 100 tcp_echo b "$address" "$order"
			grows_within a 10 tcp_echo a "$address" "$order"
		done
	done
	no_cm_ids
}

# iperf_over_rsockets CLIENT_HOST ADDRESS [OPTION]: -V for IPv6
iperf_over_rsockets() {
	local server

	under_rsockets after iperf "${@:3}" -s -B "$2" -p "$PORT" -P 1
	server=("${UNDER[@]}")
	under_rsockets after iperf "${@:3}" -c "$2" -p "$PORT" -n $((10000000 / SLOW))
	pair -t 30 -c "$1" "${server[@]}" -- "${UNDER[@]}"
	grep -q '/sec' "$OUT/client"
	grep -q '/sec' "$OUT/server"
}

@test "iperf runs over RDMA with librspreload, between hosts and within one" {
	requires iperf
	counter_grows b rx_packets 100 iperf_over_rsockets b "$A4"
	counter_grows b rx_packets 100 iperf_over_rsockets b "$A6" -V
	grows_within a 10 iperf_over_rsockets a "$A4"
	no_cm_ids
}

# librspreload then uses TCP, where nothing listens either
@test "without a server a TCP program with librspreload fails" {
	under_rsockets after "$BIN/tcp_echo" -c "$A4" "$PORT" 1000
	refused "connect: Connection refused" run_on b timeout $((20 * SLOW)) "${UNDER[@]}"
	no_cm_ids
}

@test "datagrams of rsockets are refused, because their address handles have no GRH" {
	refused "rconnect: " run_on b timeout $((20 * SLOW)) udpong -s "$A4" -C 1 -S 64
	no_cm_ids
}
