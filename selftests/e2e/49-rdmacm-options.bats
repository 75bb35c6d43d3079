#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Addresses, ports and events of rdma_cm that the programs of rdmacm-utils do not use by themselves. Options that change
# packets are in 88-tshark.

load helpers
load rdmacm

setup_file() {
	requires root rping ucmatose
	hosts_up
	daemons_up
}

teardown() {
	report_failure
	jobs -p | xargs -r kill 2>/dev/null || true
}

# link_local HOST: prints the link-local address of the host's interface
link_local() {
	on "$1" ip -j -6 address show dev "v$1" scope link | jq -r '.[].addr_info[].local // empty'
}

@test "rping connects by IPv6 link-local addresses, whose scope is an interface" {
	local address

	address=$(link_local a)
	pair rping -s -a "$address%va" -p "$PORT" -C 5 -v -V -- rping -c -a "$address%vb" -p "$PORT" -C 5 -v -V
	equal "pings" "$(grep -c '^ping data' "$OUT/client")" 5
	pair -c a rping -s -a "$address%va" -p "$PORT" -C 5 -- rping -c -a "$address%va" -p "$PORT" -C 5
	refused "rdma_resolve_addr: Invalid argument" run_on b timeout 20 rping -c -a "$address" -p "$PORT" -C 1
	refused "rdma_resolve_addr: No such device" run_on b timeout 20 rping -c -a "$address%lo" -p "$PORT" -C 1
	refused "rdma_bind_addr: Invalid argument" run_on a timeout 20 rping -s -a "$address" -p "$PORT" -C 1
	no_cm_ids
}

@test "rping connects by loopback addresses" {
	pair -c a rping -s -a 127.0.0.1 -p "$PORT" -C 5 -- rping -c -a 127.0.0.1 -p "$PORT" -C 5
	pair -c a rping -s -a ::1 -p "$PORT" -C 5 -- rping -c -a ::1 -p "$PORT" -C 5
	pair -c a rping -s -p "$PORT" -C 5 -- rping -c -a 127.8.9.10 -p "$PORT" -C 5
	no_cm_ids
}

@test "only operators listen on ports below 1024" {
	local user group port PORT

	group=$(getent group 65534 | cut -d: -f1)
	[[ $group ]] || skip "needs a group 65534"
	user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	PORT=700
	pair rping -s -a "$A4" -p 700 -C 3 -- rping -c -a "$A4" -p 700 -C 3
	daemon_down a
	daemon_up a --group "$group" --direct-users 65534
	for port in 1 700 1023; do
		refused "rdma_bind_addr: Permission denied" run_on a timeout 20 "${user[@]}" rping -s -a "$A4" -p $port -C 1
	done
	refused "port 700 is for operators" run_on a timeout 20 "${user[@]}" env XROCE_DEBUG=1 rping -s -a "$A4" -p 700 -C 1
	PORT=1024
	pair "${user[@]}" rping -s -a "$A4" -p 1024 -C 3 -- rping -c -a "$A4" -p 1024 -C 3
	no_cm_ids
	daemon_down a
	daemon_up a
}

# events HOST ARG...: starts rdma_cm_events, with its output in $OUT/HOST; $! is its PID
events() {
	spawn "$1" "$OUT/$1" timeout $((40 * SLOW)) "$BIN/rdma_cm_events" "${@:2}"
}

# has_event HOST NAME
has_event() {
	grep -q "^RDMA_CM_EVENT_$2 0$" "$OUT/$1"
}

@test "both ends of a connection get TIMEWAIT_EXIT after DISCONNECTED" {
	local server client end

	OUT=$BATS_TEST_TMPDIR
	events a listen "$A4" "$PORT"
	server=$!
	wait_for 5 listens a "$PORT"
	events b connect "$A4" "$PORT"
	client=$!
	ends $((40 * SLOW)) "$client" || { cat "$OUT/b"; return 1; }
	ends $((40 * SLOW)) "$server" || { cat "$OUT/a"; return 1; }
	end="DISCONNECTED 0 TIMEWAIT_EXIT 0"
	equal "server" "$(sed s/RDMA_CM_EVENT_// "$OUT/a" | xargs)" "CONNECT_REQUEST 0 ESTABLISHED 0 $end"
	equal "client" "$(sed s/RDMA_CM_EVENT_// "$OUT/b" | xargs)" "ADDR_RESOLVED 0 ROUTE_RESOLVED 0 ESTABLISHED 0 $end"
	no_cm_ids
}

@test "events of resolving make the channel readable, move with their id and end with it" {
	run_on b timeout $((20 * SLOW)) "$BIN/rdma_cm_unread" "$A4"
	no_cm_ids
}

@test "a listener gets ADDR_CHANGE when its address goes, and DEVICE_REMOVAL when its daemon does" {
	local server address=10.77.0.41

	OUT=$BATS_TEST_TMPDIR
	on a ip address add $address/24 dev va
	has_gid() { ctl a status -j xra | grep -q "$address"; }
	wait_for 5 has_gid
	events a listen $address "$PORT"
	server=$!
	wait_for 5 listens a "$PORT"
	on a ip address del $address/24 dev va
	wait_for 10 has_event a ADDR_CHANGE
	daemon_down a
	ends 20 "$server" || { cat "$OUT/a"; return 1; }
	equal "events" "$(xargs <"$OUT/a")" "RDMA_CM_EVENT_ADDR_CHANGE 0 RDMA_CM_EVENT_DEVICE_REMOVAL 0"
	daemon_up a
}
