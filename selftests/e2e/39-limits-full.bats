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

# victims: prints the processes that fill the device
victims() {
	pids '^(rdma_(cm_full|limits|mad)|xroce)$'
}

teardown() {
	local victims

	report_failure
	mapfile -t victims < <(victims)
	((${#victims[@]} == 0)) || kill -KILL "${victims[@]}"
	daemon_down a
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

# fill KIND [OPTION...]: starts rdma_limits, which creates all objects of a kind and waits
fill() {
	local kind=$1

	shift
	run_on a env "$@" "$BIN/rdma_limits" -w -g "$(gid_index a "$A4")" "$kind" <&7 \
		>"$BATS_TEST_TMPDIR/$kind" 3>&- 7>&- &
	wait_for 180 filled "$kind"
}

# Starts the processes that fill() needs to wait.
begin_to_fill() {
	mkfifo "$BATS_TEST_TMPDIR/wait"
	exec 7<>"$BATS_TEST_TMPDIR/wait"
}

# kill_all COUNT: kills the programs that have filled the device, while others connect, and waits until nothing is left
kill_all() {
	local victims

	exec 7>&-
	mapfile -t victims < <(victims)
	((${#victims[@]} >= $1))
	connects
	kill -KILL "${victims[@]}"
	for _ in 1 2 3 4 5; do
		connects
	done
	wait_for 60 eval "ctl a status -j xra | jq -e '.objects | .cm_ids + .qps + .ahs + .srqs + .xrcds + .cqs + .mws + .mrs +
		.dms + .pds == 0'"
}

# The time is processor time of the control thread, so it does not depend on what else the machine does.
short_turns() {
	local longest

	longest=$(status_of a .turns.longest_cpu_ns)
	echo "longest turn: $longest ns"
	((longest < 100000000))
}

# The longest turn is mostly that of malloc_trim(), which returns the memory of all these objects at once.
@test "programs with as many objects as possible are killed, and nobody waits for 100 ms" {
	local kind

	(($(memory_gib) >= 4)) || skip "needs 4 GiB of free memory"
	daemon_up a --user-max-memory 4G --max-mr 60000 --client-max-qp 60000
	spawn a "$BATS_TEST_TMPDIR/ids" "$BIN/rdma_cm_full" "$A4" 24000
	wait_for 120 grep -q ready "$BATS_TEST_TMPDIR/ids"
	begin_to_fill
	for kind in qp ah xrcd mw; do
		fill "$kind"
	done
	kill_all 5
	short_turns
}

@test "the same with CQs, SRQs and PDs" {
	local kind

	(($(memory_gib) >= 5)) || skip "needs 5 GiB of free memory"
	daemon_up a --user-max-memory 5G --client-max-cq 60000 --client-max-srq 60000 --client-max-pd 60000
	begin_to_fill
	for kind in cq srq pd; do
		fill "$kind"
	done
	kill_all 3
	short_turns
}

# An address comes and goes meanwhile, so that all paths are looked at again, and the port is down once.
@test "the same with regions, device memory, groups, and events that nobody reads" {
	local kind

	(($(memory_gib) >= 4)) || skip "needs 4 GiB of free memory"
	printf 'drop tx qp %d every 3\n' {16000001..16000016} >"$BATS_TEST_TMPDIR/rules"
	daemon_up a --user-max-memory 4G --client-max-mr 60000 --max-mr 131072 --client-max-qp 60000
	ctl a fault xra load "$BATS_TEST_TMPDIR/rules"
	begin_to_fill
	mkfifo "$BATS_TEST_TMPDIR/unread"
	exec 8<>"$BATS_TEST_TMPDIR/unread"
	for _ in {1..16}; do
		on a "$XROCE" -r "$RUN/a" monitor xra <&7 >&8 3>&- &
	done
	for kind in mr dm group; do
		fill "$kind" XROCE_FAULT="$BATS_TEST_TMPDIR/rules"
	done
	fill event
	for _ in 1 2; do
		on a ip address add 10.77.1.1/24 dev va
		on a ip address del 10.77.1.1/24 dev va
	done
	on a ip link set va down
	on a ip link set va up
	wait_for 5 on a ping -q -c 1 -W 1 "$B4"
	kill_all 20
	short_turns
}

# Each of the received MADs is compared with what these files have.
@test "the same with files of umad, and floods of MADs" {
	local kind mac pid full="$BIN/rdma_mad full xra ::ffff:$B4"

	daemon_up a --user-max-memory 1G --max-clients 2000
	spawn a "$BATS_TEST_TMPDIR/umad" bash -c "ulimit -n 4096 && exec $full $(gid_index a "$A4") 1000"
	wait_for 180 grep -q files "$BATS_TEST_TMPDIR/umad"
	mac=$(on a ip -j link show va | jq -r '.[0].address')
	for kind in response other; do
		spawn b "$BATS_TEST_TMPDIR/flood" "$BIN/mad_flood" vb "$mac" "$B4" "$A4" "$kind" 5000
		pid=$!
		connects
		kill -KILL "$pid"
	done
	kill_all 1
	short_turns
}
