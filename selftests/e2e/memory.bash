# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run rdma_memory: `load memory` after the helpers.

# skipped FILE: skip the test where the program's output says that it could not be done
skipped() {
	local why

	why=$(sed -n 's/^skipped [^:]*: //p' "$1")
	[[ -z $why ]] || skip "$why"
}

# memory TEST: the owner on host a, its partner on b
memory() {
	both -t 50 "$XR_BUILD/selftests/e2e/rdma_memory" -g @4 -t "$1" || return
	skipped "$OUT/server"
}

# within_host OPTION...: the owner and its partner both on host a
within_host() {
	local program=$XR_BUILD/selftests/e2e/rdma_memory out=$BATS_TEST_TMPDIR/out g owner status=0

	g=$(gid_index a "$A4")
	run_on a timeout $((60 * SLOW)) "$program" -g "$g" -p "$PORT" "$@" >"$out.owner" 2>&1 3>&- &
	owner=$!
	wait_for 5 listens a "$PORT"
	run_on a timeout $((60 * SLOW)) "$program" -g "$g" -p "$PORT" "$A4" >"$out.partner" 2>&1 3>&- ||
		status=$?
	wait "$owner" || status=$?
	((status == 0)) || cat "$out".*
	return "$status"
}
