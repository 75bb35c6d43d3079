#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Creates as many objects as the default limits allow.

load helpers
load limits

@test "65536 QPs can be created" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a --user-max-memory 2G
	equal "QPs" "$(limits qp)" "65536 qps"
	rss_below 60000
}

@test "65536 CQs can be created" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a
	equal "CQs" "$(limits cq)" "65536 cqs"
}

@test "65536 PDs, SRQs, AHs and XRC domains can be created" {
	daemon_up a
	equal "PDs" "$(limits pd)" "65536 pds"
	equal "SRQs" "$(limits srq)" "65536 srqs"
	equal "AHs" "$(limits ah)" "65536 ahs"
	equal "XRC domains" "$(limits xrcd)" "65536 xrcds"
}

# More regions than the daemon can have mappings; their pages exist, unlike those of 39-limits-million.
@test "60000 MRs and MWs can be created" {
	daemon_up a --max-mr 60000
	equal "MRs" "$(limits mr)" "60000 mrs"
	equal "MWs" "$(limits mw)" "60000 mws"
}
