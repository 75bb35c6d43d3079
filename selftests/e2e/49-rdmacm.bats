#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The programs of rdmacm-utils: connections by address, between two hosts and within one, IPv4 and IPv6.

load helpers
load datagram
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

# rping_both CLIENT_HOST ADDRESS ARG...: the server listens on ADDRESS of host a; both get ARG...
rping_both() {
	local h=$1 address=$2

	shift 2
	pair -c "$h" rping -s -a "$address" -p "$PORT" "$@" -- rping -c -a "$address" -p "$PORT" "$@"
	# every ping was printed by the client with -v
	[[ " $* " != *" -v "* ]] || grep -q "^ping data: rdma-ping" "$OUT/client"
}

# ---- rping -------------------------------------------------------------------------------------

@test "rping pings over IPv4 and IPv6" {
	rping_both b "$A4" -v -V -C 20
	equal "pings" "$(grep -c '^ping data' "$OUT/client")" 20
	rping_both b "$A6" -v -V -C 20
	equal "pings" "$(grep -c '^ping data' "$OUT/client")" 20
	no_cm_ids
}

@test "rping pings within one host" {
	rping_both a "$A4" -v -V -C 20
	rping_both a "$A6" -v -V -C 20
	no_cm_ids
}

@test "rping has all its sizes (-S)" {
	local size

	for size in 64 1000 65535; do
		rping_both b "$A4" -v -V -C 10 -S "$size"
	done
}

@test "rping works with a QP that it creates and modifies itself (-q)" {
	rping_both b "$A4" -v -V -C 10 -q
	rping_both b "$A6" -v -V -C 10 -q
}

@test "rping binds the client to a source address (-I)" {
	pair rping -s -a "$A4" -p "$PORT" -C 5 -- rping -c -a "$A4" -I "$B4" -p "$PORT" -C 5
	pair rping -s -a "$A6" -p "$PORT" -C 5 -- rping -c -a "$A6" -I "$B6" -p "$PORT" -C 5
}

@test "rping listens on wildcard addresses" {
	pair rping -s -p "$PORT" -C 5 -v -- rping -c -a "$A4" -p "$PORT" -C 5 -v
	pair rping -s -a ::0 -p "$PORT" -C 5 -v -- rping -c -a "$A6" -p "$PORT" -C 5 -v
	pair rping -s -a ::0 -p "$PORT" -C 5 -v -- rping -c -a "$A4" -p "$PORT" -C 5 -v
}

@test "rping prints its steps (-d)" {
	rping_both b "$A4" -d -C 2
	grep -q "ESTABLISHED" "$OUT/client"
	grep -q "rdma_resolve_addr - rdma_resolve_route successful" "$OUT/client"
}

# One after the other: rping has one variable for the id of a request, and a request that arrives before its thread
# has started overwrites it.
@test "rping -P serves many clients" {
	local server i clients=$((100 / SLOW))

	spawn a "$BATS_TEST_TMPDIR/server" rping -s -P -p "$PORT" -a "$A4"
	server=$!
	wait_for 5 listens a "$PORT"
	for ((i = 0; i < clients; i++)); do
		run_on b timeout $((20 * SLOW)) rping -c -a "$A4" -p "$PORT" -C 5 -v -V >>"$BATS_TEST_TMPDIR/clients"
	done
	equal "pings" "$(grep -c '^ping data' "$BATS_TEST_TMPDIR/clients")" $((clients * 5))
	kill "$server"
	wait "$server" || true
	no_cm_ids
}

# ---- ucmatose ----------------------------------------------------------------------------------

# ucmatose_both CLIENT_HOST ADDRESS ARG...
ucmatose_both() {
	local h=$1 address=$2

	shift 2
	pair -t 40 -c "$h" ucmatose -b "$address" -p "$PORT" "$@" -- ucmatose -s "$address" -p "$PORT" "$@"
	grep -q "return status 0" "$OUT/client"
	grep -q "return status 0" "$OUT/server"
}

@test "ucmatose exchanges messages, over IPv4 and IPv6" {
	ucmatose_both b "$A4"
	ucmatose_both b "$A6" -f ipv6
	ucmatose_both a "$A4"
	ucmatose_both a "$A6" -f ipv6
	no_cm_ids
}

@test "ucmatose has many connections and messages (-c, -C, -S)" {
	ucmatose_both b "$A4" -c 20 -C 50 -S 4000
	ucmatose_both a "$A4" -c 20 -C 50 -S 4000
}

@test "ucmatose sets options: type of service, ACK timeout, migration (-t, -a, -m)" {
	ucmatose_both b "$A4" -t 64
	ucmatose_both b "$A4" -a 14
	ucmatose_both b "$A4" -m
}

@test "ucmatose connects by GID and in the IB port space (-f gid, -P ib)" {
	ucmatose_both b "$A4" -P ib
	ucmatose_both b "$A6" -f gid -P ib
}

# ---- udaddy, mckey -----------------------------------------------------------------------------

udaddy_both() {
	local h=$1 address=$2

	shift 2
	pair -t 40 -c "$h" udaddy -b "$address" "$@" -- udaddy -s "$address" "$@"
	grep -q "return status 0" "$OUT/client"
	grep -q "return status 0" "$OUT/server"
}

@test "udaddy exchanges datagrams, over IPv4 and IPv6" {
	PORT=7174
	udaddy_both b "$A4"
	udaddy_both b "$A6"
	udaddy_both a "$A4"
	udaddy_both a "$A6"
	udaddy_both b "$A4" -c 10 -C 20 -S 1000
	no_cm_ids
}

@test "udaddy works in the port space of IPoIB (-p 2)" {
	udaddy_both b "$A4" -p 0x2
}

# mckey_both SENDER_HOST GROUP RECEIVER SENDER ARG...: addresses of both ends
mckey_both() {
	local h=$1 group=$2 receiver=$3 sender=$4 pid log=$BATS_TEST_TMPDIR/mckey.$RANDOM

	shift 4
	spawn a "$log" mckey -m "$group" -b "$receiver" "$@"
	pid=$!
	joined() { [[ $(ctl a mcast -j xra) == *"$group"* ]]; }
	wait_for 5 joined || { cat "$log"; kill "$pid"; return 1; }
	run_on "$h" timeout $((20 * SLOW)) mckey -m "$group" -b "$sender" -s "$@"
	ends 20 "$pid" || { cat "$log"; return 1; }
	grep -q "return status 0" "$log"
}

@test "mckey sends to a multicast group, over IPv4 and IPv6, with and without receivers" {
	local alone

	spawn b "$BATS_TEST_TMPDIR/alone" mckey -m 239.7.7.8 -b "$B4" -s
	alone=$!
	mckey_both b 239.7.7.9 "$A4" "$B4"
	mckey_both a 239.7.7.9 "$A4" "$A4"
	mckey_both b ff0e::79 "$A6" "$B6"
	mckey_both a ff0e::79 "$A6" "$A6"
	mckey_both b 239.7.7.9 "$A4" "$B4" -c 3 -C 20 -S 1000
	ends 20 "$alone" || { cat "$BATS_TEST_TMPDIR/alone"; return 1; }
	no_cm_ids
}

@test "mckey joins as a sender only (-o)" {
	local log=$BATS_TEST_TMPDIR/log pid

	spawn a "$log" mckey -m 239.7.7.10 -b "$A4"
	pid=$!
	wait_for 5 eval "ctl a mcast -j xra | grep -q 239.7.7.10"
	run_on b timeout $((20 * SLOW)) mckey -m 239.7.7.10 -b "$B4" -s -o
	ends 20 "$pid" || { cat "$log"; return 1; }
}

# ---- the others --------------------------------------------------------------------------------

@test "cmtime measures connects and disconnects" {
	local server h address

	for address in "$A4" "$A6"; do
		# the server does not end
		spawn a "$BATS_TEST_TMPDIR/server" cmtime -b "$address" -p "$PORT" -c 100
		server=$!
		wait_for 5 listens a "$PORT"
		for h in a b; do
			run_on "$h" timeout $((20 * SLOW)) cmtime -s "$address" -p "$PORT" -c 100 | tee "$BATS_TEST_TMPDIR/client"
			grep -q "^destroy " "$BATS_TEST_TMPDIR/client"
			not grep "^event:" "$BATS_TEST_TMPDIR/client"	# of a connection that failed
		done
		kill "$server"
		wait "$server" || true
		no_cm_ids
	done
}

@test "rdma_server and rdma_client exchange a message" {
	local h address

	for h in a b; do
		for address in "$A4" "$A6"; do
			pair -c "$h" rdma_server -s "$address" -p "$PORT" -- rdma_client -s "$address" -p "$PORT"
			grep -q "end 0" "$OUT/client"
			grep -q "end 0" "$OUT/server"
		done
	done
	no_cm_ids
}

# rdma_xserver listens on the IPv4 wildcard address and has no option for another one.
@test "rdma_xserver and rdma_xclient exchange a message by RC and XRC" {
	local kind h

	for h in a b; do
		for kind in r x; do
			pair -c "$h" rdma_xserver -p "$PORT" -c "$kind" -- rdma_xclient -s "$A4" -p "$PORT" -c "$kind"
			grep -q "end 0" "$OUT/client"
		done
	done
	no_cm_ids
}

# ---- errors ------------------------------------------------------------------------------------

@test "without a server every client fails" {
	local address kind

	for address in "$A4" "$A6"; do
		refused REJECTED run_on b timeout 20 rping -c -a "$address" -p 9999 -C 1
		refused REJECTED run_on a timeout 20 rping -c -a "$address" -p 9999 -C 1
		refused "REJECTED, error: 8" run_on b timeout 20 ucmatose -s "$address" -p 9999
		refused "UNREACHABLE, error: 1" run_on b timeout 20 udaddy -s "$address"
		refused "rconnect: Connection refused" run_on b timeout 20 rstream -s "$address" -p 9999 -T b
		refused "rconnect: Connection refused" run_on b timeout 20 riostream -s "$address" -p 9999 -T b
		refused "rdma_connect: Connection refused" run_on b timeout 20 rdma_client -s "$address" -p 9999
		for kind in r x; do
			refused "rdma_connect: Connection refused" run_on b timeout 20 rdma_xclient -s "$address" -p 9999 -c $kind
		done
		# cmtime prints the error and exits with 0
		run_on b timeout 20 cmtime -s "$address" -p 9999 -c 2 | tee "$BATS_TEST_TMPDIR/log"
		equal "errors" "$(grep -c "REJECTED, error: 8" "$BATS_TEST_TMPDIR/log")" 2
	done
	refused "Connection refused" run_on b timeout 20 rcopy /etc/hosts "$A4:/dev/null" -p 9999	# takes no IPv6 address
	(($(cm_counter a REJ_sent_SERVICE_ID) >= 4))
	(($(cm_counter b REJ_received_SERVICE_ID) >= 4))
	no_cm_ids
}

@test "a name that no host has is an error, and so are sizes and groups that do not exist" {
	local program name=host.invalid

	for program in ucmatose udaddy cmtime rdma_client rdma_xclient rstream riostream udpong; do
		refused getaddrinfo run_on b timeout 20 $program -s $name
	done
	refused getaddrinfo run_on b timeout 20 rping -c -a $name -C 1
	refused getaddrinfo run_on b timeout 20 mckey -m $name -b "$B4" -s
	refused getaddrinfo run_on b timeout 20 rcopy /etc/hosts $name:/dev/null
	refused "Invalid size" run_on b timeout 20 rping -c -a "$A4" -S 70000 -C 1
	refused "resolve addr failure" run_on b timeout 20 mckey -m 10.1.2.3 -b "$B4" -s
	no_cm_ids
}

@test "an address without a host or without a route is an error" {
	refused ADDR_ERROR run_on b timeout 30 rping -c -a 10.77.0.77 -p 9999 -C 1
	refused ADDR_ERROR run_on b timeout 30 rping -c -a fd77::77 -p 9999 -C 1
	refused "" run_on b timeout 30 rping -c -a 192.0.2.1 -p 9999 -C 1
	no_cm_ids
}

# cmtime of rdmacm-utils 44 crashes after it has printed the error.
@test "an address of another host cannot be bound, nor a port twice" {
	local server address error="Cannot assign requested address"

	for address in "$B4" "$B6"; do
		refused "rdma_bind_addr: $error" run_on a timeout 20 rping -s -a "$address" -p "$PORT" -C 1
		refused "$error" run_on a timeout 20 ucmatose -b "$address" -p "$PORT"
		refused "$error" run_on a timeout 20 udaddy -b "$address"
		refused "$error" run_on a timeout 20 mckey -m 239.7.7.7 -b "$address"
		refused "rbind: $error" run_on a timeout 20 rstream -b "$address" -p "$PORT"
		refused "rbind: $error" run_on a timeout 20 riostream -b "$address" -p "$PORT"
		refused "rbind: $error" run_on a timeout 20 udpong -b "$address" -p "$PORT"
		refused "rdma_create_ep: $error" run_on a timeout 20 rdma_server -s "$address" -p "$PORT"
	done
	spawn a "$BATS_TEST_TMPDIR/log" rping -s -a "$A4" -p "$PORT" -C 1
	server=$!
	wait_for 5 listens a "$PORT"
	refused "Address already in use" run_on a timeout 20 ucmatose -b "$A4" -p "$PORT"
	refused "port $PORT is in use" run_on a env XROCE_DEBUG=1 timeout 20 rping -s -a "$A4" -p "$PORT" -C 1
	refused "source address is not one of the device" run_on a env XROCE_DEBUG=1 timeout 20 rping -s -a "$B4" -C 1
	kill "$server"
	wait "$server" || true
	no_cm_ids
}

@test "xroce cm shows listeners and connections" {
	local server client ids

	spawn a "$BATS_TEST_TMPDIR/server" rping -s -a "$A4" -p "$PORT"
	server=$!
	wait_for 5 listens a "$PORT"
	equal "listener" "$(ctl a cm -l -j xra | jq -c '.[] | [.comm, .state, .address, .port]')" \
		"[\"rping\",\"listen\",\"$A4\",$PORT]"
	spawn b "$BATS_TEST_TMPDIR/client" rping -c -a "$A4" -p "$PORT" -C 100000000
	client=$!
	wait_for 5 eval "ctl b cm -s ESTABLISHED -j xrb | grep -q ESTABLISHED"
	ctl a cm xra
	ids=$(ctl b cm -s established -j xrb)
	echo "$ids"
	equal "peer" "$(jq -c '.[] | [.comm, .address, .peer, .peer_port]' <<<"$ids")" "[\"rping\",\"$B4\",\"$A4\",$PORT]"
	equal "QPN" "$(jq '.[].qpn' <<<"$ids")" "$(ctl b qp -j xrb | jq '.[].qpn')"
	equal "peer's QPN" "$(jq '.[].peer_qpn' <<<"$ids")" "$(ctl a qp -j xra | jq '.[].qpn')"
	kill "$server" "$client"
	wait || true
	no_cm_ids
}

@test "rdma_cm and a program that has QP 1 exclude each other" {
	daemon_path "direct contexts have no QP 1"
	local server

	spawn a "$BATS_TEST_TMPDIR/server" rping -s -a "$A4" -p "$PORT" -C 1
	server=$!
	wait_for 5 listens a "$PORT"
	refused "Device or resource busy" datagram a mad-request "$A4" "$B4" 1 0x80010000 x
	run_on b timeout 20 rping -c -a "$A4" -p "$PORT" -C 1
	wait "$server"
	no_cm_ids

	LISTEN=mad-listen listener a gsi "$A4" 1
	equal "QP 1 lent" "$(ctl a status -j xra | jq .cm.gsi_lent)" true
	refused "Device or resource busy" run_on a timeout 20 rping -s -a "$A4" -p "$PORT" -C 1
	kill "$LISTENER"
	wait "$LISTENER" || true
	wait_for 5 eval "ctl a status -j xra | jq -e '.cm.gsi_lent == false'"
	rping_both b "$A4" -C 3
}

@test "a flood of MADs keeps the daemon from no other work" {
	daemon_path "direct contexts have no QP 1"
	local flood

	spawn b "$BATS_TEST_TMPDIR/flood" "$BIN/rdma_datagram" mad-send "$(gid_index b "$B4")" "$A4" 1 0x80010000 x 100000000
	flood=$!
	wait_for 5 eval "((\$(cm_counter a REQ_received) > 1000))"
	timeout 20 "$XROCE" -r "$RUN/a" status xra >/dev/null
	rping_both a "$A4" -C 20 -V
	alive "$flood"
	kill "$flood"
	wait "$flood" || true
	ctl a counters xra
	no_cm_ids
	rping_both b "$A4" -C 3
}

# Hosts that do not exist keep the answers to them waiting for their neighbours.
@test "a flood of MADs from forged addresses keeps nobody from connecting" {
	local flood mac

	mac=$(on a ip -br link show va | awk '{ print $3 }')
	spawn b "$BATS_TEST_TMPDIR/flood" "$BIN/mad_flood" vb "$mac" 10.77.0.3 "$A4" request 5000 250
	flood=$!
	wait_for 5 eval "((\$(cm_counter a REQ_received) > 1000))"
	for _ in 1 2 3; do
		rping_both b "$A4" -C 1
	done
	alive "$flood"
	kill "$flood"
	wait "$flood" || true
	(($(cm_counter a mads_no_room) > 100))
	no_cm_ids
}

# ---- lost MADs, killed programs ----------------------------------------------------------------

# disconnects HOST: prints how often a connection of the host ended by a DREQ of the peer or by its own, which the
# peer answered
disconnects() {
	echo $(($(cm_counter "$1" DREQ_received) + $(cm_counter "$1" DREP_received)))
}

# killed_while_connected ROLE: kills that end of a running rping. The connection must end on the host of the other end.
# Usually the host of the killed program sends a DREQ. But if the other program has a READ of the memory that is gone,
# that fails, and the DREQ of the other host may come first. That program may end without printing the event, because
# librdmacm stops the queue pair before it returns the event.
killed_while_connected() {
	local server client victim survivor h=a before status=0

	spawn a "$BATS_TEST_TMPDIR/server" rping -s -a "$A4" -p "$PORT" -v
	server=$!
	wait_for 5 listens a "$PORT"
	spawn b "$BATS_TEST_TMPDIR/client" rping -c -a "$A4" -p "$PORT" -C 100000000
	client=$!
	wait_for 5 eval "ctl a cm -s ESTABLISHED -j xra | grep -q ESTABLISHED"
	victim=$client survivor=$server
	[[ $1 == client ]] || victim=$server survivor=$client h=b
	before=$(disconnects "$h")
	kill -KILL "$victim"
	wait "$victim" || true
	wait_for 5 eval "((\$(disconnects $h) > $before))" || {
		tail -n 5 "$BATS_TEST_TMPDIR/server" "$BATS_TEST_TMPDIR/client"
		ctl "$h" cm
		ctl a counters xra
		ctl b counters xrb
		return 1
	}
	ends 10 "$survivor" || status=$?
	# 137: it was killed because it did not end
	((status != 137))
	no_cm_ids
}

@test "killed programs leave no ids, and their peers see the end of the connection" {
	killed_while_connected client
	killed_while_connected server
}

@test "programs connect and disconnect although MADs are lost, late and doubled" {
	local h

	for h in a b; do
		ctl "$h" fault "xr$h" mads drop 200 dup 100 delay 100 20000 seed 3
	done
	pair -t 120 rping -s -a "$A4" -p "$PORT" -C 5 -V -- rping -c -a "$A4" -p "$PORT" -C 5 -V
	pair -t 120 ucmatose -b "$A4" -p "$PORT" -c 5 -- ucmatose -s "$A4" -p "$PORT" -c 5
	(($(injected a) > 0))
	for h in a b; do
		ctl "$h" fault "xr$h" off
	done
	no_cm_ids
}

@test "a forked child connects by librdmacm like its parent" {
	local how

	for how in closed open; do
		pair -t 40 "$BIN/rdma_cm_fork" "serve-$how" "$A4" "$PORT" -- "$BIN/rdma_cm_fork" "$how" "$A4" "$PORT"
	done
	no_cm_ids
}
