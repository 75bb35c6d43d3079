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

# pids PATTERN: prints the processes of host a whose name matches
pids() {
	local p

	for p in $(ip netns pids "$ID-a"); do
		grep -qE "$1" "/proc/$p/comm" && echo "$p"
	done
}

# filled KIND: rdma_limits has created all objects of a kind, and waits
filled() {
	[ -s "$BATS_TEST_TMPDIR/$1" ]
}

# connects: programs open the device, connect and transfer data
connects() {
	local server

	spawn a "$BATS_TEST_TMPDIR/server" timeout $((60 * SLOW)) rping -s -a "$A4" -p 7999 -C 1
	server=$!
	until run_on a timeout $((60 * SLOW)) rping -c -a "$A4" -p 7999 -C 1; do
		alive "$server"
		sleep 0.1
	done
	wait "$server"
}

# The time is processor time of the control thread, so it does not depend on what else the machine does. Most of it is
# that of malloc_trim(), which returns the memory of all these objects at once.
@test "programs with as many objects as possible are killed, and nobody waits for 100 ms" {
	local kind gid victims longest

	(($(memory_gib) >= 4)) || skip "needs 4 GiB of free memory"
	daemon_up a --user-max-memory 4G --max-mr 60000 --client-max-qp 60000
	gid=$(gid_index a "$A4")
	spawn a "$BATS_TEST_TMPDIR/ids" "$BIN/rdma_cm_full" "$A4" 24000
	wait_for 120 grep -q ready "$BATS_TEST_TMPDIR/ids"
	mkfifo "$BATS_TEST_TMPDIR/wait"
	exec 7<>"$BATS_TEST_TMPDIR/wait"
	for kind in qp ah xrcd mw; do
		run_on a "$BIN/rdma_limits" -w -g "$gid" "$kind" <&7 >"$BATS_TEST_TMPDIR/$kind" 3>&- 7>&- &
		wait_for 120 filled "$kind"
	done
	exec 7>&-
	connects
	mapfile -t victims < <(pids 'rdma_(cm_full|limits)')
	((${#victims[@]} >= 5))
	kill -KILL "${victims[@]}"
	for _ in 1 2 3 4 5; do
		connects
	done
	wait_for 60 eval "ctl a status -j xra | jq -e '.objects | .qps == 0 and .cm_ids == 0 and .mws == 0'"
	longest=$(ctl a status -j xra | jq .turns.longest_cpu_ns)
	echo "longest turn: $longest ns"
	((longest < 100000000))
}
