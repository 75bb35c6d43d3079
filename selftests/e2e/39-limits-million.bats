#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A million memory regions; a file of its own for the time that they take on a busy machine.

load helpers
load limits

# Of memory on demand: what is looked at when it is registered takes longer
@test "limits: a million memory regions, and their memory is given back" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a
	equal "MRs" "$(limits -d mr)" "1048576 mrs"
	below 200000
}
