#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The limits that ibv_query_device reports: as many objects can be created, and not one more. Limits of users: one
# user locks out neither other users nor root.

load helpers
load limits
load memory

teardown() {
	report_failure
	daemon_down a
	teardown_cgroup
}

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
	equal "lists" "$(limits list)" "32 elements, 128 READs"
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
	if [[ ${XR_PATH:-daemon} == daemon ]]; then
		((after - before > 4000 && after - before < 32000))
	else
		((after - before < 1000)) # they are in the program
	fi
}

# bats test_tags=stock
@test "queues are charged to the memory cgroup of the program" {
	daemon_path "queues in the program take the pages that are used"
	memory_cgroup
	daemon_up a
	in_cgroup limits depth
	echo $((32 << 20)) >"$CGROUP_MAX"
	# the kernel kills it
	not in_cgroup limits depth
	ctl a status xra >/dev/null
}

# ---- limits of users ---------------------------------------------------------------------

# as UID PROGRAM...: runs the program on host a as a user of the group 65534
as() {
	local uid=$1

	shift
	run_on a setpriv --reuid "$uid" --regid 65534 --clear-groups "$@"
}

# daemon_for_users [OPTION...]: starts a daemon that members of the group 65534 may use
daemon_for_users() {
	GROUP=$(getent group 65534 | cut -d: -f1)
	[[ $GROUP ]] || skip "needs a group 65534"
	daemon_up a --group "$GROUP" ${XR_PATH:+--direct-users 1001,1002} "$@"
}

# hold FILE UID PROGRAM...: runs the program as that user until `release`; its output goes to FILE
hold() {
	local file=$1

	mkfifo "$file.go"
	as "${@:2}" <"$file.go" >"$file" 2>&1 3>&- &
	HELD=$!
	exec 9>"$file.go"
}

release() {
	exec 9>&-
	wait "$HELD"
}

# root_gets_in: an operator can look at the daemon, and a program of root can open the device
root_gets_in() {
	ctl a status xra >/dev/null
	[[ $(run_on a ibv_devinfo -d xra) == *PORT_ACTIVE* ]]
}

@test "a user who creates as many QPs as possible leaves some to others" {
	local file=$BATS_TEST_TMPDIR/first index

	daemon_for_users --max-qp 60 --user-max-qp 20
	index=$(gid_index a "$A4")
	hold "$file" 1001 "$BIN/rdma_limits" -u -w -g "$index" qp
	wait_for 20 grep -q "20 qps" "$file"
	equal "QPs of another user" "$(as 1002 "$BIN/rdma_limits" -u -g "$index" qp)" "20 qps"
	equal "QPs in use" "$(ctl a limits -j xra | jq -c '[.limits[] | select(.limit == "qps") | .used, .user, .device]')" \
		"[20,20,60]"
	equal "QPs by user" "$(ctl a limits -j xra | jq -c '[.users[] | select(.uid == 1001) | .qps]')" "[20]"
	root_gets_in
	release
}

@test "programs that start with 1000 QPs never meet the limit of requests" {
	local dir=$BATS_TEST_TMPDIR index i clients

	daemon_for_users
	index=$(gid_index a "$A4")
	mkfifo "$dir/go"
	for i in 1 2 3; do
		as 1001 "$BIN/rdma_limits" -w -g "$index" start <"$dir/go" >"$dir/out.$i" 2>&1 3>&- &
	done
	exec 9>"$dir/go"
	for i in 1 2 3; do
		wait_for 60 grep -q "1000 QPs are connected" "$dir/out.$i" || { cat "$dir/out.$i"; return 1; }
	done
	clients=$(ctl a client -j xra | jq -c '[.[] | select(.uid == 1001) | .delays]')
	exec 9>&-
	wait
	equal "delays of the three programs" "$clients" "[0,0,0]"
}

@test "the limit that a program reaches is named" {
	local out=$BATS_TEST_TMPDIR/out

	daemon_for_users --user-max-qp 20 --user-max-memory 8M
	XROCE_DEBUG=1 as 1001 "$BIN/rdma_limits" -u -g "$(gid_index a "$A4")" qp 2>"$out" ||
		{ cat "$out"; return 1; }
	grep -q "request CREATE_QP: .*: --user-max-qp is 20" "$out"
	[[ ${XR_PATH:-daemon} == daemon ]] || return 0 # direct contexts use no memory of the daemon
	XROCE_DEBUG=1 as 1001 "$BIN/rdma_limits" depth 2>"$out" || true
	grep -q "request CREATE_CQ: .*: --user-max-memory is 8388608" "$out"
}

@test "a user who takes all connections locks out neither other users nor root" {
	local file=$BATS_TEST_TMPDIR/out

	daemon_for_users --max-clients 30 --user-max-clients 20
	hold "$file.1" 1001 "$BATS_TEST_DIRNAME/connect.py" "$RUN/a/xra.sock" 100
	wait_for 10 grep -q connections "$file.1"
	equal "first user" "$(cat "$file.1")" "20 connections: --user-max-clients is 20"
	as 1002 ibv_devinfo -d xra >/dev/null
	equal "second user" "$(as 1002 "$BATS_TEST_DIRNAME/connect.py" "$RUN/a/xra.sock" 100 </dev/null)" \
		"10 connections: --max-clients is 30"
	root_gets_in
	run as 1001 "$XROCE" -r "$RUN/a" status xra
	[[ $output == *"--user-max-clients is 20"* ]]
	release
}

@test "a program that is refused in a loop writes little to the log" {
	local before after

	daemon_for_users --user-max-clients 1
	before=$(stat -c %s "$RUN/a/log")
	equal "refused" "$(as 1001 "$BATS_TEST_DIRNAME/connect.py" -l "$RUN/a/xra.sock" 5000 </dev/null)" \
		"1 connections: --user-max-clients is 1"
	daemon_down a
	after=$(stat -c %s "$RUN/a/log")
	echo "$((after - before)) bytes"
	grep -q "messages suppressed, the last one: .*--user-max-clients is 1" "$RUN/a/log"
	((after - before < 65536))
}

@test "a user without access is told which group may connect" {
	daemon_for_users
	run -1 setpriv --reuid 1001 --regid 1001 --clear-groups "$XROCE" -r "$RUN/a" status xra
	[[ $output == *"only root and the group '$GROUP' may connect"* ]]
	run setpriv --reuid 1001 --regid 1001 --clear-groups env XROCE_DEBUG=1 "$XROCE" -r "$RUN/a" run ibv_devices
	[[ $output == *"xra.sock: Permission denied: only root and the group '$GROUP' may connect"* ]]
}
