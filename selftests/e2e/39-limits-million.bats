#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A million memory regions. A file of its own, because it takes long on a busy machine.

load helpers
load limits

# On-demand regions: registering others takes longer, because their pages are looked up.
@test "1048576 MRs can be created, and their memory is freed with them" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a --max-mr 1048576 --user-max-memory 2G --client-max-load 10000
	equal "MRs" "$(limits -d mr)" "1048576 mrs"
	# 690 MB before the regions are freed. The slots of their keys are kept, 224 bytes each (struct xt_key).
	rss_below 350000
}
