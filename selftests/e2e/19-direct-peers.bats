#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Direct programs whose peers go the daemon's way, and direct peers, on another host and on the same one

load helpers
load direct

SERVER='' CLIENT='' # set by each_way

setup_file() {
	requires root ib_write_bw
	hosts_up
	daemons_up --io socket
}

# perftest_of CLIENT_HOST PROGRAM ARG...: a pair of programs of perftest, with the ways of each_way
perftest_of() {
	local h=$1 program=$2 server

	shift 2
	expand_args a "$@"
	server=("${ARGS[@]}")
	expand_args "$h" "$@"
	pair -t 40 -c "$h" env XROCE_PATH="$SERVER" "$program" -F -p "$PORT" "${server[@]}" -- \
		env XROCE_PATH="$CLIENT" "$program" -F -p "$PORT" "${ARGS[@]}" "$A4" || return
	has_result "$OUT/client" || {
		show_output
		return 1
	}
}

@test "perftest runs between hosts with one or two direct ends" {
	each_way perftest_of b ib_write_bw -x @4 -n 200
	each_way perftest_of b ib_read_lat -x @6 -n 200
	each_way perftest_of b ib_send_lat -c UD -x @4 -n 200
}

@test "RC and UC run within one host with one or two direct ends" {
	each_way perftest_of a ib_write_bw -x @4 -n 200
	each_way perftest_of a ib_send_bw -b -x @6 -n 200
	each_way perftest_of a ib_read_lat -x @4 -n 200
	each_way perftest_of a ib_send_lat -c UC -x @4 -n 200
}

# count_packets COMMAND...: runs a pair of programs of host a, and sets PACKETS to those that passed through memory
count_packets() {
	local before

	before=$(status_of a .slots.tx_by_memory)
	"$@" || {
		show_output
		return 1
	}
	PACKETS=$(($(status_of a .slots.tx_by_memory) - before))
	echo "$PACKETS packets passed through memory"
}

by_kernel() {
	count_packets "$@" && [ "$PACKETS" -eq 0 ]
}

# Each end sends 20000 messages. Those that come while the peer sleeps, or has no processor, pass through the kernel.
by_memory() {
	count_packets "$@" && [ "$PACKETS" -gt 1000 ]
}

# direct_pair PROGRAM ARG...: direct programs of host a that poll
direct_pair() {
	SERVER=direct CLIENT=direct perftest_of a "$@" -n 20000
}

@test "direct programs of one host that poll reach each other without the kernel" {
	by_memory direct_pair ib_send_lat -x @4
	by_memory direct_pair ib_send_lat -x @6
	by_memory direct_pair ib_send_lat -c UC -x @4
	# without memory for the inbox they use their sockets
	ulimit -f 20000
	by_kernel direct_pair ib_send_lat -x @4
}

@test "every byte arrives within a host, also if packets are lost" {
	export XROCE_PATH=direct
	both_on_a -t 60 "$BIN/rdma_verify" -n "$(iterations 20)" -g @4
	both_on_a -t 60 "$BIN/rdma_verify" -n "$(iterations 20)" -b 1048576 -m "$PMTU" -g @6 -t write -t send-imm -t read -t mixed
	ctl a fault xra drop 10 corrupt 10 reorder 10 seed 3
	both_on_a -t 60 "$BIN/rdma_verify" -n "$(iterations 10)" -s 5 -g @4 -t write -t send-imm -t read -t mixed -t atomic
	ctl a fault xra off
}

# The client knows nothing of the server's rules, and sends large frames while the server polls.
@test "rules of one end apply to each packet that comes through memory" {
	local rule program

	for program in ib_send_bw ib_write_bw ib_read_bw; do
		expand_args a env XROCE_PATH=direct "$program" -F -b -x @4 -p "$PORT" -m 1024 -s 4096 -n 5000
		for rule in 'delay 20us rx' 'dup rx prob 1%' 'reorder rx prob 1%' 'corrupt rx prob 1%'; do
			echo "$rule" >"$BATS_TEST_TMPDIR/rules"
			by_memory pair -t 60 -c a env XROCE_FAULT="$BATS_TEST_TMPDIR/rules" "${ARGS[@]}" -- "${ARGS[@]}" "$A4"
			has_result "$OUT/client"
		done
	done
}

# pair_of_users SERVER_UID CLIENT_UID
pair_of_users() {
	local program

	expand_args a env XROCE_PATH=direct ib_send_lat -F -p "$PORT" -n 20000 -x @4
	program=("${ARGS[@]}")
	pair -t 40 -c a setpriv --reuid "$1" --regid 65534 --clear-groups "${program[@]}" -- \
		setpriv --reuid "$2" --regid 65534 --clear-groups "${program[@]}" "$A4" && has_result "$OUT/client"
}

@test "direct programs of different users of one host use the kernel" {
	daemon_down a
	daemon_up a --io socket --group nogroup --direct-users 64790,64791
	by_memory pair_of_users 64790 64790
	by_kernel pair_of_users 64790 64791
	daemon_down a
	daemon_up a --io socket
}

@test "UD runs within one host with one or two direct ends" {
	each_way perftest_of a ib_send_lat -c UD -x @4 -n 200
	each_way perftest_of a ib_send_lat -c UD -x @6 -n 200
}

on_lo() {
	local args

	for args in ib_write_bw ib_send_bw "ib_send_lat -c UD"; do
		# shellcheck disable=SC2086
		pair -t 40 -c a env XROCE_PATH="$SERVER" $args -F -p "$PORT" -n 200 -- \
			env XROCE_PATH="$CLIENT" $args -F -p "$PORT" -n 200 127.0.0.1 || return
		has_result "$OUT/client" || {
			show_output
			return 1
		}
	done
}

@test "perftest runs on the loopback interface with one or two direct ends" {
	lo_daemon_up
	each_way on_lo
}
