#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The limits that ibv_query_device reports: as many objects can be created, and not one more.

load helpers
load limits

LOWERED=(--max-pd 50 --max-cq 60 --max-qp 70 --max-mr 80 --max-srq 40 --max-ah 30)

@test "device limits are reported and enforced" {
	daemon_up a "${LOWERED[@]}"
	equal "PDs" "$(limits pd)" "50 pds"
	equal "CQs" "$(limits cq)" "60 cqs"
	equal "QPs" "$(limits qp)" "70 qps"
	equal "MRs" "$(limits mr)" "80 mrs"
	equal "MWs" "$(limits mw)" "80 mws"
	equal "SRQs" "$(limits srq)" "40 srqs"
	equal "AHs" "$(limits ah)" "30 ahs"
	equal "XRC domains" "$(limits xrcd)" "50 xrcds"
}

@test "limits of one client are reported and enforced" {
	local kind

	daemon_up a "${LOWERED[@]/#--/--client-}"
	for kind in pd cq qp mr mw srq ah xrcd; do
		limits "$kind"
	done
}

@test "the longest CQ and QP can be created and filled" {
	daemon_up a
	equal "queues" "$(limits depth)" "1048576 entries of a CQ, 32768 of a QP"
}

@test "the limits of SGEs and outstanding READs are enforced" {
	daemon_up a
	equal "lists" "$(limits list)" "32 elements, 16 READs"
}

@test "the limits of multicast groups and members are enforced" {
	daemon_up a
	equal "groups" "$(limits group)" "128 groups"
	equal "members" "$(limits member)" "128 members"
}

@test "higher limits alone need no memory" {
	local small large

	daemon_up a "${LOWERED[@]}"
	small=$(rss a)
	daemon_down a
	daemon_up a
	large=$(rss a)
	echo "$small KiB with small limits, $large KiB with the default ones"
	((large - small < 8192))
}

@test "1000 QPs take at most 32 MB of the daemon's memory" {
	local before after program

	daemon_up a --max-qp 1000
	before=$(rss a)
	mkfifo "$BATS_TEST_TMPDIR/go"
	run_on a "$BIN/rdma_limits" -w -g "$(gid_index a "$A4")" qp \
		<"$BATS_TEST_TMPDIR/go" >"$BATS_TEST_TMPDIR/out" 3>&- &
	program=$!
	exec 9>"$BATS_TEST_TMPDIR/go"
	wait_for 20 grep -q "1000 qps" "$BATS_TEST_TMPDIR/out"
	after=$(rss a)
	exec 9>&-
	wait "$program"
	echo "$before KiB, then $after KiB"
	((after - before > 4000 && after - before < 32000))
}
