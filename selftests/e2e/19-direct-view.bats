#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What operators see of direct programs, and faults in them: lists, sums, events, rules.

load helpers

setup_file() {
	requires root
	hosts_up
	daemon_up a --io socket
	daemon_up b --io socket
	export XROCE_PATH=direct
}

teardown() {
	# shellcheck disable=SC2046
	kill -KILL $(jobs -p) 2>/dev/null || true
	ctl a fault xra off || true
	ctl b fault xrb off || true
	report_failure
}

# runs COUNT: a ping-pong in the background
runs() {
	local size=${2:-4096}

	spawn a "$BATS_TEST_TMPDIR/server" ibv_rc_pingpong -g "$(gid_index a "$A4")" -p 18702 -s "$size" -n "$1" 3>&-
	SERVER=$!
	server_listens() { listens a 18702; }
	wait_for 10 server_listens
	spawn b "$BATS_TEST_TMPDIR/client" ibv_rc_pingpong -g "$(gid_index b "$B4")" -p 18702 -s "$size" -n "$1" "$A4" 3>&-
	CLIENT=$!
	wait_for 10 is_connected
}

is_connected() {
	[[ $(qp b .state) == RTS ]]
}

ends() {
	kill "$SERVER" "$CLIENT" 2>/dev/null || true
	wait "$SERVER" "$CLIENT" 2>/dev/null || true
	wait_for 10 is_empty
}

is_empty() {
	[[ $(qps a)$(qps b) == 00 ]]
}

# rows HOST COMMAND [OPTION]: prints the rows of a list
rows() {
	ctl "$1" "$2" -j ${3:+"$3"} "xr$1" | jq -c '.[]'
}

qp() {
	rows "$1" qp -d | jq -r "$2"
}

qps() {
	rows "$1" qp | jq -s length
}

# hits HOST: prints the hits of all rules
hits() {
	ctl "$1" fault -j "xr$1" | jq '[.. | objects | select(.rule) | .hits] | add // 0'
}

@test "objects of direct programs are in the lists" {
	runs 100000000
	equal "QP" "$(qp b '[.type, .state, .path, .peer, .comm, .worker] | @text')" \
		"[\"RC\",\"RTS\",\"direct\",\"$A4\",\"ibv_rc_pingpong\",null]"
	equal "peer's QP" "$(qp a .qpn)" "$(qp b .dest_qpn)"
	equal "region" "$(rows b mr | jq -c '[.length, .path, .state, .pid]')" "[4096,\"direct\",\"valid\",$CLIENT]"
	equal "CQ" "$(rows b cq | jq -c '[.path, .overrun]')" '["direct",false]'
	equal "client" "$(rows b client | jq -c 'select(.direct) | [.qps, .mrs, .cqs]')" "[1,1,1]"
	equal "limits" "$(ctl b limits -j xrb | jq '[.. | objects | select(.limit == "qps") | .direct] | add')" 1
	equal "status" "$(status_of b '.slots.loans[] | [.view, .qps] | @text')" "[true,1]"
	ctl b top -b -n 1 xrb | grep ibv_rc_pingpong
	ends
}

@test "counters move while a direct program runs, and are right after it" {
	local before first

	before=$(counter b rx_packets)
	runs 100000000
	first=$(qp b .tx_packets)
	moves() { (($(qp b .tx_packets) > first)); }
	wait_for 10 moves
	(($(qp b '.rtt.usual_ns') > 0))
	ends
	before=$(counter b completions)
	both ibv_rc_pingpong -g @4 -n 1000
	equal "completions" "$(($(counter b completions) - before))" 2000
	ctl b metrics xrb | grep -E 'program_tx_messages_total.*comm="ibv_rc_pingpong"' | grep -v ' 0$'
}

@test "a program that is killed leaves its counters, and no rows" {
	local before

	before=$(counter b tx_packets)
	runs 100000000
	sleep 0.3
	kill -KILL "$CLIENT" "$SERVER"
	wait_for 10 is_empty
	(($(counter b tx_packets) > before + 100))
}

@test "events of direct QPs" {
	"$XROCE" -r "$RUN/b" monitor xrb -j >"$BATS_TEST_TMPDIR/events" 2>&1 3>&- &
	sleep 0.5
	runs 100000000
	sleep 0.5
	ends
	sleep 0.5
	kill %1
	for event in qp_created qp_state qp_destroyed; do
		grep "\"$event\"" "$BATS_TEST_TMPDIR/events" | grep '"comm": *"ibv_rc_pingpong"' || {
			cat "$BATS_TEST_TMPDIR/events"
			return 1
		}
	done
}

@test "rules of operators act in direct programs, and count" {
	ctl b fault xrb drop 20 seed 4
	# its programs end together, so the last ACK can be lost as well
	both -t 60 ib_send_lat -x @4 -F -n 1500
	(($(hits b) > 20))
}

@test "rules that are set while a direct program runs act at once, and no more when they are removed" {
	runs 100000000
	ctl b fault xrb drop 100
	lossy() { (($(hits b) > 0)); }
	wait_for 10 lossy
	ctl b fault xrb rules "drop prob 0%"
	sleep 0.3
	equal "hits" "$(hits b)" 0
	ends
}

@test "rules for another program do not act" {
	ctl b fault xrb rules "drop prob 100% command other"
	both ibv_rc_pingpong -g @4 -n 100
	equal "hits" "$(hits b)" 0
}

@test "XROCE_FAULT acts on the program's own packets and requests" {
	echo "fail reg_mr ENOMEM after 0 times 1" >"$BATS_TEST_TMPDIR/rules"
	XROCE_FAULT=$BATS_TEST_TMPDIR/rules run_on b ibv_rc_pingpong -g "$(gid_index b "$B4")" 2>&1 | grep "Couldn't register MR"
	echo "qp-error tx after 50 times 1" >"$BATS_TEST_TMPDIR/rules"
	XROCE_FAULT=$BATS_TEST_TMPDIR/rules run ! both ibv_rc_pingpong -g @4 -n 1000
}

@test "errors are injected into direct QPs" {
	ctl b fault xrb rules "qp-error tx after 50 times 1"
	run ! both ibv_rc_pingpong -g @4 -n 1000
}

# ---- objects of all kinds -----------------------------------------------------------------

# holds KIND TEXT: a program that creates as many objects of the kind as the daemon of host a permits, until `lets_go`. TEXT is
# the output of the program then.
holds() {
	mkfifo "$BATS_TEST_TMPDIR/$1.go"
	run_on a "$BIN/rdma_limits" -w -g "$(gid_index a "$A4")" "$1" <"$BATS_TEST_TMPDIR/$1.go" \
		>"$BATS_TEST_TMPDIR/$1" 2>&1 3>&- &
	HELD=$!
	exec 9>"$BATS_TEST_TMPDIR/$1.go"
	wait_for 20 grep -q "$2" "$BATS_TEST_TMPDIR/$1" || {
		cat "$BATS_TEST_TMPDIR/$1"
		return 1
	}
}

lets_go() {
	exec 9>&-
	wait "$HELD"
}

# listed COMMAND FILTER: prints the number of rows of direct contexts in a list, and in the list with details
listed() {
	echo "$(rows a "$1" | jq -c "select(.path == \"direct\" and ($2))" | wc -l)" \
		"$(rows a "$1" -d | jq -c "select(.path == \"direct\" and ($2))" | wc -l)"
}

@test "objects of all kinds are in the lists, with the columns of those by the daemon" {
	local kind

	daemon_down a
	daemon_up a --io socket --max-srq 3 --max-ah 2 --max-pd 5 --max-mr 6 --client-max-dm 16K
	holds srq "3 srqs"
	equal "SRQs" "$(listed srq '.type == "basic" and .depth >= 1 and .dead == false')" "3 3"
	equal "limits" "$(ctl a limits -j xra | jq -c '[.limits[] | select(.limit == "srqs") | .used, .direct, .device]')" \
		"[3,3,3]"
	equal "status" "$(status_of a .objects.srqs)" 3
	equal "client" "$(rows a client | jq -c 'select(.direct) | .srqs')" 3
	ctl a metrics xra | grep -E 'xroce_objects\{.*kind="srqs"\} 3'
	ctl a metrics xra | grep -E 'xroce_client_objects\{.*comm="rdma_limits".*kind="srqs"\} 3'
	lets_go
	holds ah "2 ahs"
	equal "AHs" "$(listed ah '.peer != "::" and .mac and .hop_limit > 0')" "2 2"
	lets_go
	holds mw "6 mws"
	equal "windows" "$(listed mw '.pd > 0 and .type > 0')" "6 6"
	lets_go
	holds xrcd "5 xrcds"
	equal "XRC domains" "$(listed xrcd '.domain > 0 and .opened == 1')" "5 5"
	lets_go
	holds group "128 groups"
	equal "groups" "$(listed mcast '.qpn > 0 and (.group | startswith("239.") or startswith("ff"))')" "128 128"
	lets_go
	holds dm "4 dms"
	equal "device memory" "$(listed dm '.length > 0')" "4 4"
	lets_go
	for kind in srq ah mw xrcd mcast dm; do
		equal "$kind" "$(listed "$kind" true)" "0 0"
	done
	equal "limits" "$(ctl a limits -j xra | jq -c '[.limits[] | select(.direct > 0 or .reserved > 0)]')" "[]"
}

@test "the limits include direct contexts and those by the daemon" {
	local out=$BATS_TEST_TMPDIR/out

	daemon_down a
	daemon_up a --io socket --max-qp 5 --user-max-pinned 1M
	holds qp "5 qps"
	for XROCE_PATH in direct daemon; do
		XROCE_DEBUG=1 not run_on a ibv_rc_pingpong -g "$(gid_index a "$A4")" 2>"$out"
		grep "request CREATE_QP: .*: --max-qp is 5" "$out" || { cat "$out"; return 1; }
	done
	lets_go
	for XROCE_PATH in direct daemon; do
		XROCE_DEBUG=1 not run_on a ibv_rc_pingpong -g "$(gid_index a "$A4")" -s 2000000 2>"$out"
		grep "request REG_MR: .*: --user-max-pinned is 1048576" "$out" || { cat "$out"; return 1; }
	done
	XROCE_PATH=direct
	equal "reserved" "$(ctl a limits -j xra | jq -c '[.limits[] | select(.reserved > 0)]')" "[]"
}

@test "a direct region shows what accessed it, and a CQ its completions" {
	daemon_down a
	daemon_up a --io socket
	runs 100000000
	accessed() {
		(($(rows a mr -d | jq .local_reads) > 0 && $(rows a mr -d | jq .local_write_bytes) > 0 &&
			$(rows a cq -d | jq .completions) > 0))
	}
	wait_for 10 accessed
	equal "CQ" "$(rows a cq -d | jq -c '[.references > 0, .vector, .completions_lost]')" "[true,0,0]"
	ends
}
