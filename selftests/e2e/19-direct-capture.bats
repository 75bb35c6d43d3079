#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# xroce capture: packets of direct programs, which write them to rings themselves.

load helpers
load capture

setup_file() {
	requires root tshark python3
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

# Runs a ping-pong in the background.
runs() {
	spawn a "$BATS_TEST_TMPDIR/server" ibv_rc_pingpong -g "$(gid_index a "$A4")" -p 18703 -s 1000 -n 100000000
	SERVER=$!
	server_listens() { listens a 18703; }
	wait_for 10 server_listens
	spawn b "$BATS_TEST_TMPDIR/client" ibv_rc_pingpong -g "$(gid_index b "$B4")" -p 18703 -s 1000 -n 100000000 "$A4"
	CLIENT=$!
	wait_for 10 is_connected
}

is_connected() {
	[[ $(ctl b qp -j xrb | jq -r '.[].state') == RTS ]]
}

ends() {
	kill "$SERVER" "$CLIENT" 2>/dev/null || true
	wait "$SERVER" "$CLIENT" 2>/dev/null || true
	wait_for 10 is_empty
}

is_empty() {
	[[ $(status_of a .slots.lent)$(status_of b .slots.lent) == 00 ]]
}

# has_comments FILE LEAST TEXT: whether a file that grows has so many packets with that in their comments
has_comments() {
	(($(grep -aoF "$3" "$1" | head -n "$2" | wc -l) == $2))
}

# numbers: prints the packets captured and lost, as the capture says
numbers() {
	awk '/packets captured/ { print $2, $5 }' "$RUN/messages"
}

@test "a capture has every packet of contexts that are opened later, with correct ICRCs, none malformed" {
	local file=$RUN/both.pcapng rx tx

	rx=$(counter a rx_packets) tx=$(counter a tx_packets)
	capture_on a -w "$file"
	both ib_send_bw -x @4 -F -n 300 -s 20000
	both ib_write_bw -x @4 -F -n 100 -s 65536
	both ib_read_bw -x @6 -F -n 100 -s 65536
	both ib_atomic_lat -x @4 -F -n 100
	wait_for 10 is_empty
	capture_end
	cat "$RUN/messages"
	rx=$(($(counter a rx_packets) - rx)) tx=$(($(counter a tx_packets) - tx))
	echo "received $rx, sent $tx"
	((rx > 2000 && tx > 500))
	equal "captured, received" "$(packets "$file" 'frame.packet_flags_direction == 1 && infiniband.bth')" "$rx"
	equal "captured, sent" "$(packets "$file" 'frame.packet_flags_direction == 2 && infiniband.bth')" "$tx"
	equal "captured, lost" "$(numbers)" "$((rx + tx)) 0"
	equal "malformed" "$(packets "$file" '(_ws.malformed || _ws.short) && udp.length > 40')" 0
	capinfos "$file" | grep 'Strict time order: *True'
	right_icrcs "$file" 10
}

@test "a capture has all kinds of requests of short programs" {
	local file=$RUN/kinds.pcapng op

	capture_on a -w "$file"
	both "$BIN/rdma_verify" -g @4 -n 3 -m 1024 -t write -t send-imm -t read -t atomic
	both "$BIN/rdma_verify" -g @6 -n 2 -m "$PMTU" -t write -t send
	both ibv_ud_pingpong -g @6 -n 3 -s 100
	capture_end
	for op in 4 10 12 13 17 18 20 100; do
		(($(packets "$file" "infiniband.bth.opcode == $op") > 0)) || { echo "no packet with opcode $op"; false; }
	done
	equal "malformed" "$(packets "$file" '(_ws.malformed || _ws.short) && udp.length > 40')" 0
	right_icrcs "$file" 10
}

# The program that sends leaves out the ICRC only while nothing is captured, so it is running by then.
@test "what contexts of one host send through memory is captured with correct ICRCs" {
	local file=$RUN/memory.pcapng server

	spawn a "$BATS_TEST_TMPDIR/server" ib_send_bw -x "$(gid_index a "$A4")" -F -p 18705 -D 6 -s 65536
	server=$!
	server_listens() { listens a 18705; }
	wait_for 10 server_listens
	spawn a "$BATS_TEST_TMPDIR/client" ib_send_bw -x "$(gid_index a "$A4")" -F -p 18705 -D 6 -s 65536 "$A4"
	sleep 2
	"$XROCE" -r "$RUN/a" capture xra -c 3000 -w "$file"
	wait "$server" || { cat "$BATS_TEST_TMPDIR"/{server,client}; return 1; }
	equal "captured" "$(packets "$file" 'infiniband.bth')" 3000
	right_icrcs "$file" 4
}

@test "comments have the QP, that it is direct, and the verdict" {
	local file=$RUN/both.pcapng qpn comment n=0

	while IFS=$'\t' read -r qpn comment; do
		equal "comment" "$comment" "QP $((qpn)), direct, verdict OK"
		n=$((n + 1))
	done < <(tshark -r "$file" -Y 'frame.packet_flags_direction == 1 && infiniband.bth' -T fields \
		-e infiniband.bth.destqp -e frame.comment 2>/dev/null | head -n 100)
	((n == 100))
	equal "sent" "$(packets "$file" 'frame.packet_flags_direction == 2 && !(frame.comment contains ", direct")')" 0
}

@test "a capture sees a context that was idle when it began from its first packet on" {
	spawn a "$BATS_TEST_TMPDIR/server" ib_send_lat -x "$(gid_index a "$A4")" -F -p 18704 -n 100
	SERVER=$!
	server_listens() { listens a 18704; }
	wait_for 10 server_listens
	capture_on a -w "$RUN/idle.pcapng"
	run_on b ib_send_lat -x "$(gid_index b "$B4")" -F -p 18704 -n 100 "$A4"
	wait "$SERVER"
	capture_end
	(($(packets "$RUN/idle.pcapng" 'infiniband.bth.opcode == 4') >= 200))
	equal "lost" "$(numbers | cut -d ' ' -f 2)" 0
}

@test "a capture that begins and ends while a program runs; two captures at a time; filters" {
	local qpn file=$RUN/second.pcapng

	runs
	qpn=$(ctl a qp -j xra | jq '.[].qpn')
	capture_on a -w "$RUN/first.pcapng" rx qp "$qpn" opcode ack
	"$XROCE" -r "$RUN/a" capture xra -c 50 -s 100 -w "$file" tx peer "$B4" 2>"$RUN/second" >/dev/null
	cat "$RUN/second"
	wait_for 10 has_comments "$RUN/first.pcapng" 50 ", direct"
	capture_end
	grep "50 packets captured" "$RUN/second"
	equal "second" "$(packets "$file" "ip.dst == $B4 && frame.cap_len <= 100")" 50
	equal "other packets" "$(packets "$file" "ip.dst != $B4")" 0
	equal "not ACKs" "$(packets "$RUN/first.pcapng" "infiniband.bth.opcode != 17")" 0
	equal "of another QP" "$(packets "$RUN/first.pcapng" "infiniband.bth.destqp != $qpn")" 0
	capture_on a -w "$RUN/first.pcapng" qp $((qpn + 2))
	sleep 0.3
	capture_end
	equal "of no QP" "$(packets "$RUN/first.pcapng")" 0
	ends
}

@test "lines of text" {
	runs
	# each by itself: while the peer does not run, only probes leave
	capture_on a -c 20 opcode send rx
	wait "$CAPTURE"
	cp "$RUN/output" "$RUN/received"
	capture_on a -c 20 opcode send tx
	wait "$CAPTURE"
	cat "$RUN/received" "$RUN/output"
	ends
	grep -Eq " rx $B4 > $A4 RC SEND_ONLY dest QP ([0-9]+) PSN [0-9]+( ackreq)? length [0-9]+, QP \1, direct, verdict OK$" \
		"$RUN/received"
	grep -Eq " tx $A4 > $B4 RC SEND_ONLY dest QP [0-9]+ PSN [0-9]+( ackreq)? length [0-9]+, QP [0-9]+, direct$" "$RUN/output"
}

# The program has no QP of that number.
# refused_by WHO MODE: what a capture says of packets that the kernel or the program refuses
refused_by() {
	local qpn line

	daemon_down a
	daemon_up a --io socket --direct-verdict "$2"
	capture_on a -w "$RUN/refused.pcapng" refused
	runs
	qpn=$(ctl a qp -j xra | jq '.[].qpn')
	for _ in 1 2 3; do
		run_on b "$XR_TOP/selftests/e2e/roce_datagram.py" "$B6" "$A6" $((qpn ^ 1 << 20)) right text
	done
	wait_for 10 has_comments "$RUN/refused.pcapng" 3 "verdict NO_QP"
	capture_end
	ends
	tshark -r "$RUN/refused.pcapng" -T fields -e frame.comment -e frame.verdict.ebpf_xdp 2>/dev/null | tee "$RUN/fields"
	line="^QP [0-9]*, $1, verdict NO_QP: destination QP does not exist"$'\t1$'
	equal "refused" "$(grep -c "$line" "$RUN/fields")" 3
}

@test "packets that the program refuses are captured with the verdict" {
	refused_by direct program
}

@test "packets to a program that the kernel refuses are captured with the verdict" {
	refused_by 'queue 0' auto
}

@test "messages within a context are captured as packets" {
	capture_on a -w "$RUN/local.pcapng" local
	truncate -s 2M "$RUN/file"
	spawn a "$BATS_TEST_TMPDIR/out" "$BIN/rdma_neighbours" "$(gid_index a "$A4")" file "$RUN/file" 10
	wait_for 10 grep -q completed "$BATS_TEST_TMPDIR/out"
	capture_end
	(($(packets "$RUN/local.pcapng") >= 20))
	equal "comments" "$(packets "$RUN/local.pcapng" '!(frame.comment contains ", direct, within the host")')" 0
	right_icrcs "$RUN/local.pcapng" 2
}

@test "faults: received packets are captured before, sent ones after them" {
	local file=$RUN/faults.pcapng

	capture_on b -w "$file" opcode send
	ctl b fault xrb rules 'drop tx opcode SEND times 5; drop rx opcode SEND times 5'
	both ibv_rc_pingpong -g @4 -n 200 -s 64
	capture_end
	equal "hits" "$(ctl b fault -j xrb | jq '[.. | objects | select(.rule) | .hits] | add')" 10
	# a received one that is dropped comes twice
	(($(packets "$file" 'frame.packet_flags_direction == 1') >= 205))
	right_icrcs "$file" 1
}

@test "a program that is killed while it is captured leaves its packets" {
	capture_on a -w "$RUN/killed.pcapng"
	runs
	wait_for 10 has_comments "$RUN/killed.pcapng" 1000 ", direct"
	kill -KILL "$SERVER" "$CLIENT"
	wait_for 10 is_empty
	both ibv_rc_pingpong -g @4 -n 100
	capture_end
	(($(packets "$RUN/killed.pcapng" 'frame.comment contains ", direct"') >= 1200))
	equal "status of the messages" "$(grep -c damaged "$RUN/messages" || true)" 0
}

@test "a capture that is killed does not disturb the program, and another one follows" {
	runs
	for _ in 1 2 3; do
		capture_on a -w "$RUN/first.pcapng"
		sleep 0.1
		kill -KILL "$CAPTURE"
		wait "$CAPTURE" || true
	done
	capture_on a -w "$RUN/second.pcapng"
	wait_for 10 has_comments "$RUN/second.pcapng" 100 ", direct"
	capture_end
	# memory of the rings is given back
	wait_for 10 rings_are_empty
	ends
}

# The file of the view has few pages.
rings_are_empty() {
	local fd blocks

	for fd in /proc/"$(pid_of_daemon)"/fd/*; do
		[[ $(readlink "$fd") == /memfd:xroce-view* ]] || continue
		blocks=$(stat -L -c %b "$fd")
		((blocks < 2048)) || return 1
	done
}

pid_of_daemon() {
	cat "$RUN/a/pid" 2>/dev/null || status_of a .pid
}

@test "a slow reader misses packets, whose number is known" {
	local captured lost

	capture_on a -w "$RUN/slow.pcapng" -b 1
	kill -STOP "$CAPTURE"
	both ib_write_bw -x @4 -F -n 500 -s 65536
	kill -CONT "$CAPTURE"
	capture_end
	read -r captured lost < <(numbers)
	echo "$captured captured, $lost lost"
	((captured > 30 && lost > 1000))
	equal "packets in the file" "$(packets "$RUN/slow.pcapng")" "$captured"
	both ibv_rc_pingpong -g @4 -n 100
}

@test "--on keeps the last packets of direct programs, and writes them when the event happens" {
	local file=$RUN/event.pcapng before

	rm -f "$file"
	runs
	capture_on a -w "$file" -b 1 --on nak
	before=$(counter a rx_packets)
	has_received() { (($(counter a rx_packets) - before > 2000)); }
	wait_for 10 has_received
	[[ ! -e $file ]]
	kill -0 "$CAPTURE"
	ctl a fault xra rules 'nak sequence opcode SEND_ONLY prob 1%'
	wait_for 20 not alive "$CAPTURE"
	cat "$RUN/messages"
	grep "event 'nak': packets written" "$RUN/messages"
	ends
	(($(packets "$file" 'frame.comment contains ", direct"') > 500))
	(($(stat -c %s "$file") <= (1 << 20) + 2000))
	capinfos "$file" | grep 'Strict time order: *True'
	right_icrcs "$file" 2
}

@test "a context without rings is named" {
	ulimit -S -f $((32 << 10)) # the view has room, its rings do not
	runs
	ulimit -S -f unlimited
	capture_on b -w "$RUN/none.pcapng"
	capture_end
	cat "$RUN/messages"
	grep "not captured are the packets of a direct context of pid $CLIENT: it has no ring for a capture" "$RUN/messages"
	ends
}

@test "a program that stores anything in its ring neither stops a capture nor spoils the file" {
	local pids=() n status=0

	runs
	mkfifo "$RUN/spoil"
	for n in 1 2 3; do
		on a "$BIN/spoil_rings" "$RUN/a/xra.sock" <"$RUN/spoil" >"$BATS_TEST_TMPDIR/spoil$n" 2>&1 3>&- &
		pids+=($!)
	done
	exec 7>"$RUN/spoil"
	for n in 1 2 3; do
		wait_for 10 grep -q ready "$BATS_TEST_TMPDIR/spoil$n"
	done
	for n in 1 2 3 4 5 6; do
		capture_on a -w "$RUN/spoilt.pcapng"
		"$XROCE" -r "$RUN/a" capture xra -c 300 >"$RUN/text" 2>"$RUN/text.messages"
		# the packets of the honest program are there
		wait_for 10 has_comments "$RUN/spoilt.pcapng" 100 "verdict OK"
		capture_end
		capinfos "$RUN/spoilt.pcapng" >"$RUN/infos"
		grep 'Strict time order: *True' "$RUN/infos"
		! grep -q "$(printf '\033')" "$RUN/text" "$RUN/spoilt.pcapng"
		capture_on a -w "$RUN/spoilt.pcapng" -b 1 --on error
		sleep 0.3
		kill -INT "$CAPTURE" 2>/dev/null || true
		wait "$CAPTURE" || status=$?
		((status < 128))
	done
	cat "$RUN/messages"
	exec 7>&-
	wait "${pids[@]}"
	ends
	daemon_running a
}
