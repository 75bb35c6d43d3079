#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Rules of fault injection: which packets they hit, and whose.

load helpers

setup() {
	ctl a fault xra off
	ctl b fault xrb off
	FILE=$BATS_TEST_TMPDIR/rules
}

teardown() {
	ctl a fault xra off
	ctl b fault xrb off
}

# rule HOST NUMBER MEMBER: a member of a rule in force
rule() {
	ctl "$1" fault -j "xr$1" | jq ".rules[$2].$3"
}

@test "a rule hits as many packets of an opcode as it says" {
	ctl b fault xrb rules 'drop tx opcode WRITE_LAST after 10 times 3'
	both -t 60 ib_write_bw -x @4 -F -s 65536 -n 100
	equal "hits" "$(rule b 0 hits)" 3
	(($(rule b 0 packets) >= 103))
	equal "hits of the worker" "$(ctl b status -j xrb | jq '[.workers[].faults] | add >= 3')" true
}

@test "rules select programs by their command" {
	ctl b fault xrb rules 'drop tx command ib_read_bw; drop rx command nobody'
	both -t 60 ib_write_bw -x @4 -F -n 100
	equal "packets of others" "$(rule b 0 packets)" 0
	run ! both -t $((20 * SLOW)) ib_read_bw -x @4 -F -n 5 -u 8 --retry_count=1
	(($(rule b 0 hits) > 0))
	equal "packets of nobody" "$(rule b 1 packets)" 0
}

@test "the same seed gives the same number of hits to the same packets" {
	local hits=()

	while ((${#hits[@]} < 2)); do
		ctl b fault xrb rules 'seed 5; delay 1us tx prob 20% opcode UD_SEND_ONLY'
		both -t 60 ibv_ud_pingpong -g @4 -n 500
		equal "packets" "$(rule b 0 packets)" 500
		hits+=("$(rule b 0 hits)")
	done
	echo "${hits[*]}"
	((hits[0] > 50 && hits[0] < 150 && hits[0] == hits[1]))
}

@test "a rate limits the throughput" {
	ctl b fault xrb rules 'rate 200mbit tx'
	both -t 60 ib_write_bw -x @4 -F -s 65536 -n $((200 / SLOW)) --report_gbits
	grep -A 1 '#bytes' "$OUT/client"
	awk '/#bytes/ { getline; exit !($4 > 0 && $4 <= 0.2) }' "$OUT/client"
}

@test "XROCE_FAULT gives a program faults of its own" {
	echo 'drop tx opcode WRITE_FIRST every 5 # a comment' >"$FILE"
	XROCE_FAULT=$FILE both -t 60 ib_write_bw -x @4 -F -s 65536 -n 50
	equal "rules that are left" "$(ctl b fault -j xrb | jq '.rules | length')" 0
	(($(ctl b status -j xrb | jq '[.workers[].faults] | add') > 0))
	echo 'drop opcode WRITE_FIRST opcode SEND_ONLY prob 1%; loose' >"$FILE"
	XROCE_FAULT=$FILE run -1 run_on b ibv_devinfo -d xrb
	echo "$output"
	[[ $output == *"xroce: XROCE_FAULT=$FILE: "*"line 1: there is no fault 'loose'"* ]]
	XROCE_FAULT=$FILE.absent run -1 run_on b ibv_devinfo -d xrb
	echo "$output"
	[[ $output == *"XROCE_FAULT=$FILE.absent: No such file"* ]]
}

@test "xroce fault loads a file, and explains errors" {
	printf 'drop prob 1e-6\n\n# nothing\ndelay 2ms jitter 1ms qp 0x11\n' >"$FILE"
	ctl b fault xrb load "$FILE"
	equal "rules" "$(ctl b fault -j xrb | jq -c '[.rules[].rule]')" '["drop prob 1e-6","delay 2ms jitter 1ms qp 0x11"]'
	ctl b fault xrb load - <<<'dup'
	equal "rules" "$(ctl b fault -j xrb | jq -c '[.rules[].rule]')" '["dup"]'
	run -1 ctl b fault xrb rules drop prob 2
	echo "$output"
	[[ $output == *"line 1: 'prob' needs a probability from 0 to 1"*"not '2'"* ]]
	run -1 ctl b fault xrb load "$FILE.absent"
	[[ $output == *"$FILE.absent: No such file"* ]]
	run -2 ctl b fault xrb drop
	[[ $output == *"'drop' needs a number from 0 to 1000"* ]]
	equal "rules that are left" "$(ctl b fault -j xrb | jq -c '[.rules[].rule]')" '["dup"]'
}

@test "NAKs of each kind fail the request at one end and the QP at the other" {
	local kind status=([9]=request [10]=access [11]=operation [15]=rd) n

	for n in "${!status[@]}"; do
		kind=${status[n]}
		ctl a fault xra rules "nak $kind opcode WRITE_LAST after 3 times 1"
		fails both -t $((30 * SLOW)) ib_write_bw -x @4 -F -s 65536 -n 100
		equal "hits of nak $kind" "$(rule a 0 hits)" 1
		grep "Failed status $n:" "$OUT/client"
	done
}

@test "a NAK for a PSN sequence error and RNR NAKs cost time only" {
	ctl a fault xra rules 'nak sequence opcode WRITE_MIDDLE every 100; rnr timer 1 every 10'
	counter_grows a seq_naks_sent 3 both -t 60 ib_write_bw -x @4 -F -s 65536 -n 100
	(($(rule a 0 hits) >= 3))
	counter_grows a rnr_naks_sent 5 both -t 60 ibv_rc_pingpong -g @4 -n 100
	(($(rule a 1 hits) >= 5))
}

@test "a QP and a CQ fail as the rule says" {
	ctl b fault xrb rules 'qp-error status FATAL_ERR tx opcode SEND_ONLY after 20 times 1'
	fails both -t $((30 * SLOW)) ibv_rc_pingpong -g @4 -s 64 -n 1000
	equal "hits" "$(rule b 0 hits)" 1
	ctl b fault xrb rules 'cq-error rx opcode SEND_ONLY after 20 times 1'
	fails both -t $((30 * SLOW)) ibv_rc_pingpong -g @4 -s 64 -n 1000
	equal "hits" "$(rule b 0 hits)" 1
}

@test "an event of a QP reaches its program, which goes on" {
	ctl b fault xrb rules 'event PATH_MIG tx opcode SEND_ONLY after 20 times 1'
	both -t 60 ibv_rc_pingpong -g @4 -s 64 -n 100
	equal "hits" "$(rule b 0 hits)" 1
}

@test "verbs fail and take long as the rule says" {
	ctl b fault xrb rules 'fail reg_mr ENOMEM after 1 times 1; slow create_cq 300ms'
	run -1 run_on b ibv_rc_pingpong -d xrb -g 1 "$A4"
	echo "$output"
	[[ $output == *"Couldn't register MR"* ]]
	(($(rule b 0 hits) > 0))
	equal "slow ones" "$(rule b 1 hits)" 0
	ctl b fault xrb rules 'slow create_cq 300ms; slow modify_qp 10ms jitter 5ms'
	both -t 60 ibv_rc_pingpong -g @4 -n 10
	equal "slow ones" "$(rule b 0 hits)" 1
	equal "states" "$(rule b 1 hits)" 3
}

@test "a program meets the same faults when it runs again" {
	local run

	cat >"$FILE" <<-END
		seed 9
		slow any 1ms prob 30% command ibv_ud_pingpong
		delay 1us tx prob 10% opcode UD_SEND_ONLY command ibv_ud_pingpong
	END
	for run in 1 2; do
		ctl b fault xrb load "$FILE"
		both -t 60 ibv_ud_pingpong -g @4 -n 200
		ctl b fault -j xrb | jq -c '[.rules[] | [.packets, .hits]]' >"$BATS_TEST_TMPDIR/hits$run"
	done
	cat "$BATS_TEST_TMPDIR"/hits?
	cmp "$BATS_TEST_TMPDIR"/hits1 "$BATS_TEST_TMPDIR"/hits2
	(($(rule b 0 hits) > 0 && $(rule b 1 hits) > 0))
}

@test "the port is down for a time, again and again" {
	ctl b fault xrb rules 'port-down period 2s length 300ms after 1 times 3 command ib_write_bw'
	both -t 60 ib_write_bw -x @4 -F -s 65536 -D 3
	(($(rule b 0 hits) > 0))
	ctl b fault xrb rules 'port-down'
	run_on b ibv_devinfo -d xrb >"$BATS_TEST_TMPDIR/info"
	grep PORT_DOWN "$BATS_TEST_TMPDIR/info"
	ctl b fault xrb off
	run_on b ibv_devinfo -d xrb >"$BATS_TEST_TMPDIR/info"
	grep PORT_ACTIVE "$BATS_TEST_TMPDIR/info"
}

@test "traffic within one device meets faults while there are rules, and only then" {
	local before after

	ctl a fault xra rules 'drop tx opcode WRITE_MIDDLE every 40 times 5; nak sequence every 300'
	both_on_a -t 60 ib_write_bw -x @4 -F -s 65536 -n 100
	equal "hits" "$(rule a 0 hits)" 5
	(($(rule a 1 hits) > 0))
	both_on_a -t 60 ibv_ud_pingpong -g @4 -n 50
	ctl a fault xra rules 'nak access opcode WRITE_LAST after 3 times 1'
	fails both_on_a -t $((30 * SLOW)) ib_write_bw -x @4 -F -s 65536 -n 100
	grep "Failed status 10:" "$OUT/client"
	ctl a fault xra off
	before=$(counter a tx_packets)
	both_on_a -t 60 ib_write_bw -x @4 -F -s 65536 -n 100
	after=$(counter a tx_packets)
	((after - before < 100))
}

@test "XROCE_FAULT works within one device, and rules may come and go" {
	echo 'drop tx opcode WRITE_FIRST every 5' >"$FILE"
	XROCE_FAULT=$FILE both_on_a -t 60 ib_write_bw -x @4 -F -s 65536 -n 50
	(($(ctl a status -j xra | jq '[.workers[].faults] | add') > 0))
	(for _ in {1..10}; do
		ctl a fault xra rules 'delay 10us prob 1%'
		sleep 0.2
		ctl a fault xra off
		sleep 0.2
	done) &
	both_on_a -t 60 ib_write_bw -x @4 -F -s 65536 -D 3
	wait
}

# The program that has the region is stopped, so that the region stays when the QP has failed.
@test "xroce mr --detail names the last use that was refused" {
	local detail receiver sender

	spawn a "$BATS_TEST_TMPDIR/receiver" ib_write_bw -F -D 90 -p 18713 -x "$(gid_index a "$A4")"
	receiver=$!
	wait_for 10 listens a 18713
	spawn b "$BATS_TEST_TMPDIR/sender" ib_write_bw -F -D 90 -p 18713 -x "$(gid_index b "$B4")" "$A4"
	sender=$!
	moves() { (($(ctl a qp -dj xra pid "$receiver" | jq '.[0].rx_messages') > 100)); }
	wait_for 20 moves
	kill -STOP "$receiver"
	ctl a mr -dj xra pid "$receiver" | jq -e '.[0] | .refused == 0 and (has("last_error") | not)'
	# byte 12 of the packet is the first of the address in RETH
	ctl b fault xrb rules 'corrupt field syndrome 255 icrc right tx opcode WRITE_FIRST times 1'
	refused() {
		detail=$(ctl a mr -dj xra pid "$receiver" | jq -c '.[] | select(.refused > 0)')
		[[ $detail ]]
	}
	wait_for 30 refused
	ctl b fault xrb off
	echo "$detail"
	jq -e '.last_error | .reason == "address range is not inside the memory of the R_Key" and .qpn > 1' <<<"$detail"
	kill -KILL "$receiver" "$sender" || true
}
