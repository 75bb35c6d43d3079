# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run rdma_datagram: `load datagram` after the helpers.

# datagram HOST COMMAND ADDRESS ARG...: runs a command of rdma_datagram from the GID with that address
datagram() {
	run_on "$1" timeout $((40 * SLOW)) "$BIN/rdma_datagram" "$2" "$(gid_index "$1" "$3")" "${@:4}"
}

# listener HOST NAME ADDRESS COUNT [GROUP]: starts a listener in the background. Sets LISTENER to its PID and QPN
# to its QP number; its output is in $BATS_TEST_TMPDIR/NAME. The variable LISTEN replaces the command `listen`.
# shellcheck disable=SC2034	# LISTENER and QPN are used by callers
listener() {
	local file=$BATS_TEST_TMPDIR/$2

	spawn "$1" "$file" "$BIN/rdma_datagram" "${LISTEN:-listen}" "$(gid_index "$1" "$3")" "${@:4}"
	LISTENER=$!
	wait_for 10 grep -q ready "$file" || { cat "$file"; return 1; }
	QPN=$(awk '/ready/ { print $2 }' "$file")
}
