#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Rules of fault injection: which packets they hit, whose, and what happens to these.

load helpers
load faults

setup_file() {
	requires root
	hosts_up
	daemon_up a
	daemon_up b --direct-users 65534
}

setup() {
	no_faults
	FILE=$BATS_TEST_TMPDIR/rules
}

teardown() {
	report_failure
	no_faults
}

@test "a rule hits as many packets of an opcode as it says" {
	ctl b fault xrb rules 'drop tx opcode WRITE_LAST after 10 times 3'
	both -t 60 ib_write_bw -x @4 -F -s 65536 -n 100
	equal "hits" "$(rule b 0 hits)" 3
	(($(rule b 0 packets) >= 103))
	(($(injected b) >= 3))
}

@test "rules select programs by their command" {
	ctl b fault xrb rules 'drop tx command ib_read_bw; drop rx command nobody'
	both -t 60 ib_write_bw -x @4 -F -n 100
	equal "packets of others" "$(rule b 0 packets)" 0
	run ! both -t $((20 * SLOW)) ib_read_bw -x @4 -F -n 5 -u 8 --retry_count=1
	(($(rule b 0 hits) > 0))
	equal "packets of nobody" "$(rule b 1 packets)" 0
}

# Packets that the hosts have sent again
sent_again() {
	echo $(($(counter a tx_retransmits) + $(counter b tx_retransmits)))
}

# hit TEXT EXPECTED: the packets of 20 messages each way are selected so often, or more often if some are sent again
# because a processor was busy; each of these has an ACK
hit() {
	local n again

	ctl b fault xrb rules "delay 1us $1"
	again=$(sent_again)
	both -t 60 ibv_rc_pingpong -g "${3:-@4}" -s 64 -n 20
	n=$(rule b 0 hits)
	again=$(($(sent_again) - again))
	echo "hits of '$1': $n, expected $2, sent again: $again"
	((n >= $2 && n <= ($2 ? $2 + 2 * again : 0)))
}

@test "rules select directions, opcodes, peers and users" {
	hit 'tx opcode SEND_ONLY' 20
	hit 'rx opcode 4' 20
	hit 'opcode send opcode rc-ack' 80
	hit 'opcode UC_SEND opcode WRITE' 0
	hit "opcode SEND peer $A4" 40
	hit "opcode SEND peer $B4" 0
	hit "opcode SEND peer $A4" 0 @6
	hit "opcode SEND peer $A6" 40 @6
	hit 'opcode SEND uid 0' 40
	hit 'opcode SEND uid 65533' 0
	hit 'opcode SEND mads' 0
}

@test "rules select queues" {
	daemon_path "direct contexts have none"
	hit 'opcode SEND queue 0' 40
	hit 'opcode SEND queue 1' 0
}

# endless PORT [TEST]: starts a test of WRITEs from host b to host a; sets QPN and CLIENT
endless() {
	local test=${2:-ib_write_bw}

	spawn a "$BATS_TEST_TMPDIR/server.$1" timeout $((60 * SLOW)) "$test" -F -D 90 -p "$1" -x "$(gid_index a "$A4")"
	wait_for 10 listens a "$1"
	spawn b "$BATS_TEST_TMPDIR/client.$1" "$test" -F -D 90 -p "$1" -x "$(gid_index b "$B4")" "$A4"
	CLIENT=$!
	moves() { (($(ctl b qp -dj xrb pid "${1:-$CLIENT}" | jq '.[0].tx_messages') > ${2:-100})); }
	wait_for 20 moves
	QPN=$(ctl b qp -j xrb pid "$CLIENT" | jq '.[0].qpn')
}

@test "rules select one QP and one process beside others of the same program" {
	local clients=() qpns=() number

	for number in 18714 18715 18716; do
		endless "$number"
		clients+=("$CLIENT")
		qpns+=("$QPN")
	done
	ctl b fault xrb rules "$(printf 'qp-error qp 0x%x' "${qpns[0]}")"
	wait_for 20 not alive "${clients[0]}"
	ctl b fault xrb rules "qp-error pid ${clients[1]}"
	wait_for 20 not alive "${clients[1]}"
	moves "${clients[2]}"
	ctl b fault xrb rules "qp-error qp ${qpns[2]}"
	wait_for 20 not alive "${clients[2]}"
	grep -h "Failed status\|rror" "$BATS_TEST_TMPDIR"/client.*
	wait
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

@test "delays and their jitter lengthen the round trip" {
	ctl b fault xrb rules 'delay 4ms jitter 2ms tx opcode WRITE_ONLY'
	both -t 60 ib_write_lat -x @4 -F -n 50
	# half of the round trip, of which one direction is delayed
	grep -A 1 '#bytes' "$OUT/client"
	awk '/#bytes/ { getline; exit !($3 >= 2000 && $6 >= 2000) }' "$OUT/client"
}

# Both directions of the client's queue pair take 5 ms longer from some message on. Each message is sent again until there
# is a round-trip time again, that is some times.
@test "a path that becomes slower is not asked again for each message" {
	local before again n

	endless 18714 ib_write_lat
	ctl b fault xrb rules "delay 5ms qp $QPN"
	before=$(sent_again)
	many_packets() { (($(rule b 0 packets) > 1000)); }
	wait_for $((30 * SLOW)) many_packets
	again=$(($(sent_again) - before))
	n=$(rule b 0 packets)
	echo "$n packets, sent again: $again"
	kill "$CLIENT"
	wait
	# A message and its ACK are two of the packets. Delays that the processor adds make some more messages late.
	((again < n / 8))
}

@test "duplicates and late packets reach the other host, which takes each once" {
	counter_grows a rx_duplicates 3 eval "
		ctl b fault xrb rules 'dup late 2ms jitter 1ms tx opcode WRITE_ONLY times 3'
		both -t 60 ib_write_bw -x @4 -F -s 64 -n 100"
	equal "hits" "$(rule b 0 hits)" 3
	counter_grows a rx_out_of_sequence 10 eval "
		ctl b fault xrb rules 'reorder prob 5% tx opcode WRITE_MIDDLE'
		both -t 60 ib_write_bw -x @4 -F -s 65536 -n 200"
}

# damage NAME MIN FIELD: host a counts that packets with a changed field are wrong in this way
damage() {
	counter_grows a "$1" "$2" eval "
		ctl b fault xrb rules 'corrupt $3 tx opcode WRITE_MIDDLE every 30 times 3'
		both -t 60 ib_write_bw -x @4 -F -s 65536 -n 50"
	equal "hits of 'corrupt $3'" "$(rule b 0 hits)" 3
}

@test "corrupted packets are refused for what is wrong in them" {
	requires io=xdp	# the kernel writes the IP header and the UDP checksum for sockets
	damage rx_icrc_errors 1 'bits 1'
	damage rx_icrc_errors 1 'field psn 5'
	damage rx_icrc_errors 1 'field byte 100 7'
	damage NO_QP 1 'field qpn 0x3'
	damage NO_QP 1 'field qpn 0x3 icrc right'
	damage rx_malformed 1 'field pkey 0x1234 icrc right'
	# the payload changes, and nobody notices
	counter_unchanged a rx_icrc_errors damage rx_packets 500 'field byte 100 7 icrc right'
	# an ACK becomes a NAK: invalid request
	ctl b fault xrb rules 'corrupt field syndrome 0x61 icrc right rx opcode ACK times 1'
	fails both -t $((30 * SLOW)) ib_write_bw -x @4 -F -s 65536 -n 100
	grep "Failed status 9:" "$OUT/client"
}

@test "losses are as rare as the rule says" {
	local packets hits

	ctl b fault xrb rules 'drop tx opcode WRITE_MIDDLE prob 1e-4'
	both -t 60 ib_write_bw -x @4 -F -s 1048576 -n $((500 / SLOW)) -m 1024
	packets=$(rule b 0 packets) hits=$(rule b 0 hits)
	echo "$hits of $packets packets lost"
	((packets >= 500000 / SLOW && hits * 10000 > packets / 3 && hits * 10000 < packets * 3))
}

# A host that is not asked to answer gets datagrams; the capture has those that are not lost.
@test "losses come in bursts" {
	requires tshark
	local file=$BATS_TEST_TMPDIR/sent.pcapng n=$((2000 / SLOW)) capture

	ctl b fault xrb rules 'seed 4; drop tx opcode UD_SEND burst 2% 30%'
	"$XROCE" -r "$RUN/b" capture xrb -w "$file" tx opcode ud-send </dev/null 3>&- &
	capture=$!
	captures() { [[ -s $file ]]; }
	wait_for 10 captures
	DEVICE=xrb run_on b "$BIN/rdma_datagram" send "$(gid_index b "$B4")" "$A4" 5 1 text "$n"
	equal "packets" "$(rule b 0 packets)" "$n"
	sleep 0.5
	kill -INT "$capture"
	wait "$capture"
	tshark -r "$file" -T fields -e infiniband.bth.psn | awk -v hits="$(rule b 0 hits)" '
		NR > 1 && $1 > last + 1 { lost += $1 - last - 1; bursts++ }
		{ last = $1 }
		END { print lost, "lost in", bursts, "bursts,", hits, "hits"
			exit !(bursts > 2 && lost > 2 * bursts && lost <= hits && lost > hits - 10) }'
}

@test "losses stop and begin again with the period" {
	ctl b fault xrb rules 'drop tx opcode WRITE_ONLY period 1s length 100ms'
	counter_grows b timeouts 1 both -t 60 ib_write_bw -x @4 -F -s 4096 -D 3 -u 12
	(($(rule b 0 hits) > 0 && $(rule b 0 hits) * 10 < $(rule b 0 packets)))
}

@test "rules of an ordinary user hit his program only" {
	local user=(setpriv --reuid 65534 --regid "$(stat -c %g "$RUN/b/xrb.sock")" --clear-groups) before

	FILE=$RUN/rules
	echo 'drop tx opcode WRITE_FIRST every 5' >"$FILE"
	before=$(injected b)
	faults_of() { echo $(($(injected b) - before)); }
	expand_args a ib_write_bw -x @4 -F -s 65536 -n 50 -p "$PORT"
	local server=("${ARGS[@]}")
	expand_args b env XROCE_FAULT="$FILE" "${user[@]}" ib_write_bw -x @4 -F -s 65536 -n 50 -p "$PORT" "$A4"
	pair -t 60 "${server[@]}" -- "${ARGS[@]}"
	(($(faults_of) >= 10))
	before=$(injected b)
	both -t 60 ib_write_bw -x @4 -F -s 65536 -n 50
	equal "faults of others" "$(faults_of)" 0
	run -1 "${user[@]}" "$XROCE" -r "$RUN/b" fault xrb rules 'drop'
	echo "$output"
	[[ $output == *"fault is for root and the user of the daemon only"* ]]
	echo 'corrupt icrc right' >"$FILE"
	run -1 run_on b env XROCE_FAULT="$FILE" "${user[@]}" ibv_devinfo -d xrb
	echo "$output"
	[[ $output == *"'icrc right' is for received packets (rx)"* ]]
}

@test "XROCE_FAULT gives a program faults of its own" {
	echo 'drop tx opcode WRITE_FIRST every 5 # a comment' >"$FILE"
	XROCE_FAULT=$FILE both -t 60 ib_write_bw -x @4 -F -s 65536 -n 50
	equal "rules that are left" "$(ctl b fault -j xrb | jq '.rules | length')" 0
	(($(injected b) > 0))
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
	daemon_path "its loopback sends no packets"
	before=$(counter a tx_packets)
	both_on_a -t 60 ib_write_bw -x @4 -F -s 65536 -n 100
	after=$(counter a tx_packets)
	((after - before < 100))
}

@test "XROCE_FAULT works within one device, and rules may come and go" {
	# not "every 5": a requester that sends five messages again each time would lose the same one until it gives up
	echo 'drop tx opcode WRITE_FIRST prob 20%' >"$FILE"
	XROCE_FAULT=$FILE both_on_a -t 60 ib_write_bw -x @4 -F -s 65536 -n 50
	(($(injected a) > 0))
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

	daemon_path "direct contexts do not count the uses of regions"
	spawn a "$BATS_TEST_TMPDIR/receiver" ib_write_bw -F -D 90 -p 18713 -x "$(gid_index a "$A4")"
	receiver=$!
	wait_for 10 listens a 18713
	spawn b "$BATS_TEST_TMPDIR/sender" ib_write_bw -F -D 90 -p 18713 -x "$(gid_index b "$B4")" "$A4"
	sender=$!
	moves() { (($(ctl a qp -dj xra pid "$receiver" | jq '.[0].rx_messages') > 100)); }
	wait_for 20 moves
	kill -STOP "$receiver"
	ctl a mr -dj xra pid "$receiver" | jq -e '.[0] | .refused == 0 and (has("last_error") | not)'
	# Byte 12 of the packet is the first of the address in RETH. All are corrupted: one alone may be a packet that is
	# sent again, which the responder does not execute.
	ctl b fault xrb rules 'corrupt field syndrome 255 icrc right tx opcode WRITE_FIRST'
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
