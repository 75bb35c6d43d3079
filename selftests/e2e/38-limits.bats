#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What query_device reports can be had, all of it, and not more.

load helpers

setup_file() {
	requires root
	hosts_up
}

teardown() {
	report_failure
	daemon_down a
}

LOWERED=(--max-pd 50 --max-cq 60 --max-qp 70 --max-mr 80 --max-srq 40 --max-ah 30)

# limits KIND [OPTION...]: prints how many there were
limits() {
	local kind=$1

	shift
	run_on a timeout $((100 * SLOW)) "$XR_BUILD/selftests/e2e/rdma_limits" -g "$(gid_index a "$A4")" \
		"$@" "$kind"
}

# Memory of the daemon, KiB
rss() {
	awk '/^VmRSS/ { print $2 }' "/proc/$(daemon_pid a)/status"
}

memory_gib() {
	awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo
}

@test "limits: of the device, lowered" {
	daemon_up a "${LOWERED[@]}"
	equal "PDs" "$(limits pd)" "50 pds"
	equal "CQs" "$(limits cq)" "60 cqs"
	equal "QPs" "$(limits qp)" "70 qps"
	equal "MRs" "$(limits mr)" "80 mrs"
	equal "MWs" "$(limits mw)" "80 mws"
	equal "SRQs" "$(limits srq)" "40 srqs"
	equal "AHs" "$(limits ah)" "30 ahs"
}

@test "limits: of one client, lowered" {
	local kind

	daemon_up a "${LOWERED[@]/#--/--client-}"
	for kind in pd cq qp mr srq ah; do
		limits "$kind"
	done
}

@test "limits: the longest queues" {
	daemon_up a
	equal "queues" "$(limits depth)" "1048576 entries of a CQ, 32768 of a QP"
}

@test "limits: 64 K queue pairs" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a
	equal "QPs" "$(limits qp)" "65536 qps"
}

@test "limits: 64 K completion queues" {
	(($(memory_gib) >= 3)) || skip "needs 3 GiB of free memory"
	daemon_up a
	equal "CQs" "$(limits cq)" "65536 cqs"
}

@test "limits: 64 K protection domains" {
	daemon_up a
	equal "PDs" "$(limits pd)" "65536 pds"
}

@test "limits: memory is for what there is, not for what there may be" {
	local small large

	daemon_up a "${LOWERED[@]}"
	small=$(rss)
	daemon_down a
	daemon_up a
	large=$(rss)
	echo "$small KiB with small limits, $large KiB with the default ones"
	((large - small < 8192))
}

@test "limits: a thousand queue pairs take little memory" {
	local before after program

	daemon_up a --max-qp 1000
	before=$(rss)
	mkfifo "$BATS_TEST_TMPDIR/go"
	run_on a "$XR_BUILD/selftests/e2e/rdma_limits" -w -g "$(gid_index a "$A4")" qp \
		<"$BATS_TEST_TMPDIR/go" >"$BATS_TEST_TMPDIR/out" 3>&- &
	program=$!
	exec 9>"$BATS_TEST_TMPDIR/go"
	wait_for 20 grep -q "1000 qps" "$BATS_TEST_TMPDIR/out"
	after=$(rss)
	exec 9>&-
	wait "$program"
	echo "$before KiB, then $after KiB"
	((after - before > 4000 && after - before < 32000))
}
