#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A message that is posted just before its connection ends: the doorbell of hardware has taken it by then.

load helpers
load rdmacm

setup_file() {
	requires root
	hosts_up
	daemons_up
}

# last_messages END CLIENT_HOST SIZE COUNT: the server gets all of the messages
last_messages() {
	echo "$*"
	pair -t 120 -c "$2" "$BIN/rdma_last" serve "$A4" "$PORT" "$4" "$3" -- \
		"$BIN/rdma_last" "$1" "$A4" "$PORT" "$4" "$3"
	grep -qx "received $4 of $4" "$OUT/server"
}

# all_messages END...: inline and not, from another host and within one
all_messages() {
	local how host size

	for how; do
		for host in b a; do
			for size in 64 ${SIZE:-16000}; do
				last_messages "$how" "$host" "$size" $((40 / SLOW))
			done
		done
	done
	no_cm_ids
}

@test "a message posted before rdma_disconnect() arrives" {
	last_messages disconnect b 64 $((400 / SLOW))
	all_messages disconnect disconnect-only
}

@test "a message posted before its QP is destroyed or reset arrives" {
	all_messages destroy reset
}

# Whole pages, which are adopted: private memory is gone with its program.
@test "a message posted before its program ends or is killed arrives" {
	SIZE=16384 all_messages exit kill
}

@test "a message in private memory, posted before its QP ends, arrives" {
	XROCE_ADOPT=never all_messages disconnect destroy reset
}
