#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# umad: MADs that programs send and receive by libibumad, and perfquery.

load helpers

MAD=$BIN/rdma_mad

# Prints the GID of an IPv4 address.
gid() {
	echo "::ffff:$1"
}

# mad HOST COMMAND [ARG...]
mad() {
	run_on "$1" timeout 60 "$MAD" "$2" "xr$1" "${@:3}"
}

# count HOST NAME: a counter of QP 1
count() {
	ctl "$1" counters -j "xr$1" | jq -er --arg n "$2" '.cm[] | select(.name == $n) | .value'
}

# value NAME: a counter in the output of perfquery
value() {
	sed -n "s/^$1:\\.*//p" <<<"$output"
}

@test "perfquery shows the counters of the own port, and resets them" {
	local before

	requires perfquery
	both -t 20 ib_write_bw -x @4 -F -n 5 -s 1048576
	run -0 run_on a perfquery -x -C xra -P 1
	echo "$output"
	before=$(value PortRcvData)
	((before * 4 > 5 << 20 || $(value PortXmitData) * 4 > 5 << 20))
	run -0 run_on a perfquery -C xra -P 1 -R
	run -0 run_on a perfquery -C xra -P 1
	echo "$output"
	(($(value PortRcvData) < before))
	run -0 run_on a perfquery -a -C xra -P 1
}

@test "port counters of a peer are queried with a GRH" {
	local own peer

	both -t 20 ib_write_bw -x @4 -F -n 5 -s 1048576
	peer=$(mad a counters "$(gid "$B4")" "$(gid_index a "$A4")")
	own=$(mad b counters)
	echo "b, from a: $peer"
	echo "b, itself: $own"
	[[ ${peer#*rcv_pkts } -gt 0 && ${own#*rcv_pkts } -ge ${peer#*rcv_pkts } ]]
	mad a counters fd77::2 "$(gid_index a "$A6")"
}

@test "an agent gets requests of a peer, and its responses arrive" {
	local out=$BATS_TEST_TMPDIR/server n pid

	n=$(iterations 500)
	spawn b "$out" timeout 100 "$MAD" serve xrb "$n"
	pid=$!
	wait_for 20 grep -q ready "$out"
	mad a ping "$(gid "$B4")" "$(gid_index a "$A4")" "$n"
	wait "$pid"
}

@test "programs exchange messages of several segments by their own RMPP" {
	local out=$BATS_TEST_TMPDIR/server n pid

	n=$(iterations 100)
	spawn b "$out" timeout 100 "$MAD" serve-rmpp xrb "$n"
	pid=$!
	wait_for 20 grep -q ready "$out"
	mad a ping-rmpp "$(gid "$B4")" "$(gid_index a "$A4")" "$n"
	wait "$pid"
}

@test "requests and responses that are lost are sent again" {
	local out=$BATS_TEST_TMPDIR/server pid

	ctl a fault xra drop 200
	mad a counters "$(gid "$B4")" "$(gid_index a "$A4")" || { ctl a fault xra off; return 1; }
	spawn b "$out" timeout 100 "$MAD" serve xrb 1000000
	pid=$!
	wait_for 20 grep -q ready "$out"
	mad a ping "$(gid "$B4")" "$(gid_index a "$A4")" 20 || { ctl a fault xra off; kill "$pid"; return 1; }
	ctl a fault xra off
	kill "$pid"
	wait "$pid" || true
}

@test "a request without a response ends with ETIMEDOUT after its retries" {
	local before

	before=$(count b mads_refused)
	mad a timeout "$(gid "$B4")" "$(gid_index a "$A4")"
	equal "requests" $(($(count b mads_refused) - before)) 4
	mad a timeout "$(gid 10.77.0.99)" "$(gid_index a "$A4")"
}

@test "wrong calls fail as in the kernel, and change nothing" {
	mad a refusals
	mad a counters
	XROCE_DEBUG=1 run -1 run_on a "$MAD" ping xra ::1 77 1
	grep -q "GID index 77 is empty" <<<"$output"
}

@test "copies of the descriptor, children, and headers without P_Key index" {
	mad a copies
}

@test "only root may open the file" {
	local group

	group=$(getent group 65534 | cut -d: -f1)
	[[ $group ]] || skip "needs a group 65534"
	daemon_down a
	daemon_up a --group "$group"
	XROCE_DEBUG=1 run -1 run_on a setpriv --reuid 65534 --regid 65534 --clear-groups "$MAD" counters xra
	daemon_down a
	daemon_up a
	echo "$output"
	grep -q "umad is for root" <<<"$output"
}

@test "a program that reads learns that the daemon has ended" {
	local out=$BATS_TEST_TMPDIR/server pid

	spawn a "$out" timeout 60 "$MAD" serve xra 1
	pid=$!
	wait_for 20 grep -q ready "$out"
	daemon_down a
	daemon_up a
	not wait "$pid"
	grep "umad_recv (Input/output error)" "$out"
}

@test "files that programs leave open when they end leave nothing in the daemon" {
	local before pid

	before=$(objects a)
	for _ in 1 2 3; do
		spawn a "$BATS_TEST_TMPDIR/held" "$MAD" serve xra 1
		pid=$!
		wait_for 20 grep -q ready "$BATS_TEST_TMPDIR/held"
		kill -KILL "$pid"
		wait "$pid" || true
	done
	same() { [[ $(objects a) == "$before" ]]; }
	wait_for 10 same || { objects a; echo "$before"; return 1; }
}
