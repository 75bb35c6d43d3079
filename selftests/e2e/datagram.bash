# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run rdma_datagram: `load datagram` after the helpers.

datagram=$XR_BUILD/selftests/e2e/rdma_datagram

# shellcheck disable=SC2034  # LISTENER and QPN are for who calls it
# listener HOST NAME ARG...: its QPN is in QPN, its output in $BATS_TEST_TMPDIR/NAME; LISTEN: how, if not listen
listener() {
	local file=$BATS_TEST_TMPDIR/$2

	spawn "$1" "$file" "$datagram" "${LISTEN:-listen}" "$(gid_index "$1" "$3")" "${@:4}"
	LISTENER=$!
	wait_for 10 grep -q ready "$file" || { cat "$file"; return 1; }
	QPN=$(awk '/ready/ { print $2 }' "$file")
}

# tell HOST HOW ADDRESS...: how is send or ask
tell() {
	run_on "$1" timeout $((20 * SLOW)) "$datagram" "$2" "$(gid_index "$1" "$3")" "${@:4}"
}
