#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# librpma of the distribution, which connects by rdma_cm, with a program of ours: rpma_exchange.c checks every value.

load helpers
load rdmacm

setup_file() {
	requires root
	[[ -e /usr/include/librpma.h ]] || skip "needs the Debian package librpma-dev"
	hosts_up
	daemons_up
	gcc -w -O2 -o "$RUN/rpma" selftests/e2e/rpma_exchange.c -lrpma
}

# rpma CLIENT_HOST ADDRESS KIND [wait]: the client waits for its last message to be completed, or disconnects at once
rpma() {
	local n

	n=$(iterations 200)
	[[ ${4:-} == wait ]] || n=3
	pair -c "$1" "$RUN/rpma" server "$2" "$PORT" "$3" -- "$RUN/rpma" client "$2" "$PORT" "$3" "$n" "${@:4}"
	grep -q "the server has the last message" "$OUT/server"
	grep -q "the client has all answers" "$OUT/client"
	no_cm_ids
}

@test "librpma writes, flushes, reads and exchanges messages between two hosts" {
	counter_grows a rx_packets 60 rpma b "$A4" cq wait
	counter_grows a rx_packets 60 rpma b "$A6" cq wait
}

@test "librpma works within one host" {
	grows_within a 20 rpma a "$A4" cq wait
}

@test "librpma finds receives in a CQ of their own, with a completion channel of its own or a shared one" {
	rpma b "$A4" rcq wait
	rpma b "$A4" channel wait
}

@test "librpma receives from a shared receive queue" {
	rpma b "$A4" srq wait
}

@test "the last message of a librpma program that disconnects at once arrives" {
	local kind i

	for kind in cq rcq channel srq; do
		for ((i = 0; i < 3; i++)); do
			rpma b "$A4" $kind
		done
	done
}
