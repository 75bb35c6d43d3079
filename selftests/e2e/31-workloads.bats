#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The programs of `make bench T=programs` (selftests/bench/workloads), which compare every byte here (-c). Their credits make
# sure that no SEND and no WRITE with immediate data finds the peer without receive request: they permit no RNR retries.

load helpers

WORKLOADS=$XR_BUILD/bench

# all_ways PROGRAM OPTION...: runs server and client, by verbs, TCP, and datagrams if it can; the client prints three numbers
all_ways() {
	local way ways=("-g @4" -t)

	[[ $1 != */reply ]] || ways+=(-u)
	for way in "${ways[@]}"; do
		# shellcheck disable=SC2086
		both -t 60 "$@" $way -c -T 0.1
		[[ $(cat "$OUT/client") =~ ^[0-9]+\ [0-9.]+\ [0-9.]+$ ]]
	done
}

@test "a server with an event loop answers requests of one and of many connections by WRITEs with immediate data" {
	local shape

	for shape in $(sample 1/1 1/16 16/1 5/16); do
		all_ways "$WORKLOADS/reply" -e -n "${shape%/*}" -d "${shape#*/}"
	done
}

@test "a server that polls answers requests of one and of many connections by WRITEs with immediate data" {
	local shape

	for shape in $(sample 1/1 1/16 16/1 5/16); do
		all_ways "$WORKLOADS/reply" -n "${shape%/*}" -d "${shape#*/}"
	done
}

@test "a block target reads written data from the initiator and writes read data there" {
	local size depth

	for size in 4096 131072; do
		for depth in 1 32; do
			all_ways "$WORKLOADS/block" -s "$size" -d "$depth"
			all_ways "$WORKLOADS/block" -s "$size" -d "$depth" -w
		done
	done
}

# ranks OPTION...: runs two ranks on each host
ranks() {
	local hosts=(a a b b) pids=() rank status=0 gid

	OUT=$(out)
	rm -rf "$OUT"
	mkdir -p "$OUT"
	for rank in 0 1 2 3; do
		[[ ${hosts[rank]} == a ]] && gid=$(gid_index a "$A4") || gid=$(gid_index b "$B4")
		run_role 60 "rank$rank" "${hosts[rank]}" "$WORKLOADS/alltoall" "$@" -g "$gid" -c -T 0.1 \
			-p "$PORT" "$rank" "$A4" "$A4" "$B4" "$B4" &
		pids+=($!)
	done
	for rank in 0 1 2 3; do
		wait "${pids[rank]}" || status=1
		cat "$OUT/rank$rank.cmd" "$OUT/rank$rank"
	done
	return "$status"
}

@test "four ranks on two hosts exchange messages, each with each" {
	local size

	for size in $(sample 8 72 4096 65536); do
		ranks -s "$size"
		ranks -s "$size" -t
	done
}

@test "credits of WRITEs with immediate data and of commands hold while packets are lost" {
	ctl a fault xra drop 20 seed 1
	both -t 60 "$WORKLOADS/reply" -g @4 -c -n 3 -d 16 -T 0.5
	both -t 60 "$WORKLOADS/block" -g @4 -c -d 32 -T 0.5
	both -t 60 "$WORKLOADS/block" -g @4 -c -d 32 -T 0.5 -w
	ranks -s 65536
	ctl a fault xra off
	(($(counter a tx_retransmits) > 0))
}
