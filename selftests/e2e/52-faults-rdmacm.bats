#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Fault injection and rdma_cm: ports, GIDs, MADs and multicast groups.

load helpers
load faults
load rdmacm

setup_file() {
	requires root rping mckey
	hosts_up
	daemons_up
}

teardown() {
	report_failure
	jobs -p | xargs -r kill 2>/dev/null || true
	no_faults
}

# cm_events HOST ARG...: starts rdma_cm_events, with its output in $EVENTS; sets PROGRAM
cm_events() {
	EVENTS=$BATS_TEST_TMPDIR/events
	spawn "$1" "$EVENTS" timeout $((60 * SLOW)) "$BIN/rdma_cm_events" "${@:2}"
	PROGRAM=$!
}

@test "rdma_cm waits for a port that is down" {
	local waiting

	ctl b fault xrb rules 'port-down command rdma_cm_events'
	cm_events b connect "$A4" "$PORT" 500
	fails ends 30 "$PROGRAM"
	grep -x "RDMA_CM_EVENT_ADDR_ERROR -110" "$EVENTS"
	cm_events b connect "$A4" "$PORT" 60000
	waiting=$PROGRAM
	queries() { [[ $(ctl b cm -j xrb | jq -r '.[].state') == "address query" ]]; }
	wait_for 20 queries
	# nobody is cut off from himself
	cm_events b connect "$B4" "$PORT" 60000
	fails ends 30 "$PROGRAM"
	grep -x "RDMA_CM_EVENT_ADDR_RESOLVED 0" "$EVENTS"
	wait_for 10 queries
	ctl b fault xrb off
	fails ends 30 "$waiting"
	equal "ids" "$(ctl b cm -j xrb)" "[]"
}

@test "rdma_cm sees that GIDs are gone" {
	ctl a fault xra rules "gid-gone $A4 command rdma_cm_events"
	cm_events a listen "$A4" "$PORT"
	fails ends 30 "$PROGRAM"
	grep "No such device" "$EVENTS"
	cm_events a connect "$B4" "$PORT"
	fails ends 30 "$PROGRAM"
	grep -E "No such device|ADDR_ERROR -19" "$EVENTS"
	ctl a fault xra off
	# its own rules begin when librdmacm opens the device to bind the address
	echo "gid-gone $A4" >"$BATS_TEST_TMPDIR/rules"
	XROCE_FAULT=$BATS_TEST_TMPDIR/rules cm_events a listen "$A4" "$PORT"
	changed() { grep -qx "RDMA_CM_EVENT_ADDR_CHANGE 0" "$EVENTS"; }
	wait_for 20 changed || { cat "$EVENTS"; return 1; }
	ctl a cm -dj xra | jq -e '.[0] | .events == 1 and .mads_sent == 0 and
		(.last_error | .reason == "ADDR_CHANGE" and (has("status") | not) and .age_ns < 100e9 and .time_ns > 1e18)'
	kill "$PROGRAM"
}

# multicast RECEIVER_HOST: a sends 10 datagrams to a group
multicast() {
	local log=$BATS_TEST_TMPDIR/mckey.$1 h=$1 receiver

	spawn "$h" "$log" mckey -m 239.7.7.20 -b "$(address_of "$h")" -C 10
	receiver=$!
	joined() { [[ $(ctl "$h" mcast -j "xr$h") == *239.7.7.20* ]]; }
	wait_for 10 joined || { cat "$log"; return 1; }
	run_on a timeout $((20 * SLOW)) mckey -m 239.7.7.20 -b "$A4" -s -C 10
	ends 30 "$receiver" || { cat "$log"; return 1; }
	grep "return status 0" "$log"
}

address_of() {
	if [[ $1 == a ]]; then echo "$A4"; else echo "$B4"; fi
}

@test "MADs and datagrams of multicast groups within one device meet faults" {
	local lost

	ctl a fault xra rules 'dup tx mads; delay 1us rx mads'
	pair -c a rping -s -a "$A4" -p "$PORT" -C 3 -- rping -c -a "$A4" -p "$PORT" -C 3
	(($(rule a 0 hits) >= 5 && $(rule a 1 hits) >= $(rule a 0 hits)))
	daemon_path "the kernel copies datagrams of groups to direct contexts, also to that of the sender"
	ctl a fault xra rules 'delay 1us tx opcode UD_SEND_ONLY_IMM; delay 1us rx opcode UD_SEND_ONLY_IMM'
	lost=$(counter a no_receive)
	multicast a
	equal "sent, received" "$(rule a 0 hits) $(rule a 1 hits)" "10 10"
	equal "copies for the sender" "$(counter a no_receive)" "$lost"
	multicast b
	equal "sent to others" "$(rule a 0 hits)" 20
}

# with_rules RULES_OF_LISTENER RULES_OF_CLIENT COMMAND...: runs the command, whose programs have the rules in $RULES.a and
# $RULES.b; sets FAULTS to those that both daemons have injected meanwhile
with_rules() {
	local a b

	RULES=$BATS_TEST_TMPDIR/rules
	echo "$1" >"$RULES.a"
	echo "$2" >"$RULES.b"
	a=$(injected a) b=$(injected b)
	"${@:3}"
	FAULTS="$(($(injected a) - a)) $(($(injected b) - b))"
}

# connect [CLIENT_HOST [OPTION]]: a listens, the client connects and disconnects
connect() {
	local h=${1:-b} server

	XROCE_FAULT=$RULES.a cm_events a "${@:2}" listen "$A4" "$PORT"
	server=$PROGRAM
	listening() { [[ $(ctl a cm -j xra) == *'"listen"'* ]]; }
	wait_for 20 listening
	spawn "$h" "$BATS_TEST_TMPDIR/client" env XROCE_FAULT="$RULES.b" \
		timeout $((60 * SLOW)) "$BIN/rdma_cm_events" "${@:2}" connect "$A4" "$PORT"
	if ! ends 60 $! || ! ends 60 "$server"; then
		cat "$EVENTS" "$BATS_TEST_TMPDIR/client"
		return 1
	fi
	grep -qx "RDMA_CM_EVENT_ESTABLISHED 0" "$EVENTS"
	grep -qx "RDMA_CM_EVENT_ESTABLISHED 0" "$BATS_TEST_TMPDIR/client"
}

# connection RULES_OF_LISTENER RULES_OF_CLIENT [CLIENT_HOST [OPTION]]: connect with these rules; sets FAULTS
connection() {
	with_rules "$1" "$2" connect "${@:3}"
}

@test "rules of a program select the MADs of its ids only" {
	local retried first

	# REQ, REP, RTU, DREQ, DREP
	connection 'delay 1us mads' 'delay 1us rx mads'
	equal "faults of listener and client" "$FAULTS" "5 2"
	connection 'delay 1us mads tx' ''
	equal "faults of listener and client" "$FAULTS" "2 0"
	retried=$(cm_counter b REQ_retried)
	connection '' 'drop tx mads times 1'
	equal "faults of listener and client" "$FAULTS" "0 1"
	equal "REQs sent again" $(($(cm_counter b REQ_retried) - retried)) 1
	# those of one host as well, and the same in each run
	connection '' 'delay 1us mads' a
	equal "faults of a client on the same host" "$FAULTS" "5 0"
	connection '' 'seed 3; delay 1us mads prob 40%'
	first=$FAULTS
	connection '' 'seed 3; delay 1us mads prob 40%'
	equal "faults of the second run" "$FAULTS" "$first"
}

@test "ids that move to another event channel take the rules of their program with them" {
	# REQ at the listener that has moved, REP; RTU, DREQ, DREP of the connection that has moved
	connection 'delay 1us mads' 'delay 1us rx mads' b -m
	equal "faults of listener and client" "$FAULTS" "5 2"
	# a channel that has no rules of its own: those of operators
	ctl a fault xra rules 'delay 1us mads command rdma_cm_events'
	connection '' '' b -m
	equal "packets" "$(rule a 0 packets)" 5
}

# exchange: a client gets the QPs of two listening ids by SIDR
exchange() {
	pair -t 40 env XROCE_FAULT="$RULES.a" udaddy -b "$A4" -c 2 -C 2 -- \
		env XROCE_FAULT="$RULES.b" udaddy -s "$A4" -c 2 -C 2
}

# datagrams RULES_OF_LISTENER RULES_OF_CLIENT: exchange with these rules; sets FAULTS
datagrams() {
	with_rules "$1" "$2" exchange
}

@test "rules of a program select the MADs with which it exchanges QPs of datagrams" {
	requires udaddy
	local retried

	# two SIDR_REQ, two SIDR_REP
	datagrams 'delay 1us mads' 'delay 1us rx mads'
	equal "faults of listener and client" "$FAULTS" "4 2"
	datagrams 'delay 1us rx mads' 'delay 1us tx mads'
	equal "faults of listener and client" "$FAULTS" "2 2"
	retried=$(cm_counter b SIDR_REQ_retried)
	datagrams 'drop tx mads times 1' ''
	equal "faults of listener and client" "$FAULTS" "1 0"
	equal "SIDR_REQs sent again" $(($(cm_counter b SIDR_REQ_retried) - retried)) 1
}

@test "rules of operators select MADs by program, and fail no QP 1" {
	ctl a fault xra rules "delay 1us mads command rdma_cm_events; delay 1us mads command other
		qp-error command rdma_cm_events"
	connection '' ''
	equal "packets" "$(rule a 0 packets) $(rule a 1 packets) $(rule a 2 packets)" "5 0 0"
	ctl a fault xra rules 'qp-error'
	connection '' ''
	equal "packets" "$(rule a 0 packets)" 0
}
