# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run rdma_memory: `load memory` after the helpers.

# memory TEST: runs one test of rdma_memory, with the owner on host a and the partner on host b. Skips the bats
# test if the program skipped its test.
memory() {
	local reason

	both -t 50 "$BIN/rdma_memory" -g @4 -t "$1" || return
	reason=$(sed -n 's/^skipped [^:]*: //p' "$OUT/server")
	[[ -z $reason ]] || skip "$reason"
}
