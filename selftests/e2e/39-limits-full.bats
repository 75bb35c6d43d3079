#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# As much as the device says that there may be, with its limits as they are by default.

load helpers
load limits

@test "limits: 64 K queue pairs" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a
	equal "QPs" "$(limits qp)" "65536 qps"
	below 60000
}

@test "limits: 64 K completion queues" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a
	equal "CQs" "$(limits cq)" "65536 cqs"
}

@test "limits: 64 K protection domains, shared receive queues, address handles, XRC domains" {
	daemon_up a
	equal "PDs" "$(limits pd)" "65536 pds"
	equal "SRQs" "$(limits srq)" "65536 srqs"
	equal "AHs" "$(limits ah)" "65536 ahs"
	equal "XRC domains" "$(limits xrcd)" "65536 xrcds"
}

# More regions of memory that is there than the daemon can map
@test "limits: 60 000 memory regions, and windows" {
	daemon_up a --max-mr 60000
	equal "MRs" "$(limits mr)" "60000 mrs"
	equal "MWs" "$(limits mw)" "60000 mws"
}
