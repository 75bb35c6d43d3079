#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_direct: direct verbs that kernel programs have, between two hosts.

load helpers

# direct TEST...
direct() {
	local test tests=()

	for test; do
		tests+=(-t "$test")
	done
	both -t 60 "$BIN/rdma_direct" -g @4 "${tests[@]}"
}

@test "queues are drained, in RESET they are not" { direct drain drain-reset; }
@test "a QP with an SRQ is drained" { direct drain-srq; }
