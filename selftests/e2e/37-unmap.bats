#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Direct contexts access the memory of the program where it is, so a program can unmap it under a transfer.

export XR_PATH=direct
load helpers

@test "an access to memory that is no longer mapped fails and the program goes on" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_unmap"
}
