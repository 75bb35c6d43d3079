#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_late: the peer changes no memory after its right to it has ended, also if it is in the middle of a transfer then.
# XR_LATE_RUNS sets the number of transfers of each test.

load helpers

# late WAY [RUNS]
late() {
	both -t 550 "$BIN/rdma_late" -g @4 -n "${XR_LATE_RUNS:-${2:-40}}" -t "$1"
}

@test "nothing is written after LOCAL_INV of a fast region has completed" { late fast; }
@test "nothing is written after SEND with Invalidate by another QP was received" { late send-inv; }
@test "nothing is written after LOCAL_INV of a type 2 MW has completed" { late window; }
@test "nothing is written after a type 1 MW was unbound" { late unbind; }
@test "nothing is written after a type 1 MW was deallocated" { late dealloc-window; }
@test "nothing is written after xrocedv_flush_pool" { late pool; }
@test "nothing is written after ibv_rereg_mr has taken the right away" { late rereg; }
@test "nothing is written after ibv_dereg_mr of a region on demand" { late dereg; }
@test "nothing is written after ibv_dereg_mr of a plain region" { late dereg-plain; }
@test "nothing is written after ibv_dereg_mr of a fast region" { late dereg-fast; }
@test "nothing is written after a QP was reset" { late reset 5; }
@test "nothing is written after a QP was moved to ERR" { late error 5; }
@test "nothing is written after a QP was destroyed" { late destroy 5; }
@test "nothing is written after a READ was flushed" { late flushed-read; }

# These need new programs for each transfer.
@test "nothing is written after ibv_close_device, whatever is left" {
	local i

	for ((i = 0; i < ${XR_LATE_DEATHS:-5}; i++)); do
		late close
	done
}

@test "nothing is written after DEVICE_FATAL of a killed daemon" {
	local i

	for ((i = 0; i < ${XR_LATE_DEATHS:-5}; i++)); do
		both -t 60 "$BIN/rdma_late" -g @4 -t killed -x "kill -KILL $(daemon_pid a)"
		daemon_down a KILL
		daemon_up a
	done
}
