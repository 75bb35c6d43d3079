#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# xroce capture: what it writes is read by tshark, and icrc.py computes the ICRCs independently.

load helpers
load capture

@test "a capture has every packet of both directions, with correct ICRCs, none malformed" {
	requires tshark capinfos python3
	local file=$RUN/both.pcapng rx tx

	rx=$(counter a rx_packets) tx=$(counter a tx_packets)
	capture_on a -w "$file"
	both "$BIN/rdma_verify" -g @4 -n 3 -m 1024 -t write -t send-imm -t read -t atomic
	both "$BIN/rdma_verify" -g @6 -n 2 -m "$PMTU" -t write -t send
	both ibv_ud_pingpong -g @6 -n 3 -s 100
	capture_end
	rx=$(($(counter a rx_packets) - rx)) tx=$(($(counter a tx_packets) - tx))
	echo "received $rx, sent $tx"
	((rx > 100 && tx > 100))
	equal "captured, received" "$(packets "$file" 'frame.packet_flags_direction == 1 && infiniband.bth')" "$rx"
	equal "captured, sent" "$(packets "$file" 'frame.packet_flags_direction == 2 && infiniband.bth')" "$tx"
	# tshark takes some of the shortest SENDs for RPC over RDMA; see 88-tshark.bats
	equal "malformed" "$(packets "$file" '(_ws.malformed || _ws.short) && udp.length > 40')" 0
	right_icrcs "$file" 10
}

@test "the file has nanoseconds, the interface, comments with QP and verdict, and statistics" {
	requires tshark capinfos
	local file=$RUN/both.pcapng

	capinfos "$file" | tee "$RUN/infos"
	grep -q 'timestamp precision: *nanoseconds' "$RUN/infos"
	grep -q 'Name = va' "$RUN/infos"
	grep -q 'Description = xra' "$RUN/infos"
	grep -q 'Number of stat entries = 1' "$RUN/infos"
	grep -q 'Strict time order: *True' "$RUN/infos"
	# the QP of a received packet is its destination
	local qpn comment where="queue 0" n=0
	! direct_contexts || where=direct
	while IFS=$'\t' read -r qpn comment; do
		equal "comment" "$comment" "QP $((qpn)), $where, verdict OK"
		n=$((n + 1))
	done < <(tshark -r "$file" -Y 'frame.packet_flags_direction == 1 && infiniband.bth' -T fields \
		-e infiniband.bth.destqp -e frame.comment 2>/dev/null | head -n 100)
	((n == 100))
	(($(packets "$file" 'frame.verdict.ebpf_xdp == 4') > 100))
}

@test "filters by direction, QP, peer, opcode and verdict" {
	requires tshark
	local file=$RUN/filter.pcapng qpn

	capture_on a -w "$file" tx opcode send,ack peer "$B4"
	both ibv_rc_pingpong -g @4 -n 5 -s 100
	both ibv_rc_pingpong -g @6 -n 5 -s 100
	capture_end
	(($(packets "$file") >= 10))
	equal "to other peers" "$(packets "$file" "ip.dst != $B4 || ipv6")" 0
	equal "of other operations" "$(packets "$file" "infiniband.bth.opcode != 4 && infiniband.bth.opcode != 17")" 0

	capture_on a -w "$file" qp 1
	both ibv_rc_pingpong -g @4 -n 5
	capture_end
	equal "of QP 1" "$(packets "$file")" 0

	capture_on a -w "$file" verdict key_range
	both "$BIN/rdma_verify" -g @4 -t read-one-above -t write
	capture_end
	(($(packets "$file") > 0))
	equal "with another verdict" "$(packets "$file" '!(frame.comment contains "verdict KEY_RANGE: ")')" 0
}

# QP 17 does not exist
@test "packets that XDP refuses are captured with their headers and the verdict" {
	requires tshark python3
	local file=$RUN/refused.pcapng line

	capture_on a -w "$file" refused
	for _ in 1 2 3; do
		run_on b "$XR_TOP/selftests/e2e/roce_datagram.py" "$B6" "$A6" 17 right "$(printf 'x%.0s' {1..200})"
	done
	both ibv_rc_pingpong -g @6 -n 5
	capture_end
	equal "refused" "$(packets "$file")" 3
	tshark -r "$file" -T fields -e frame.comment -e frame.len -e frame.cap_len -e frame.verdict.ebpf_xdp \
		-e infiniband.bth.destqp 2>/dev/null | tee "$RUN/fields"
	line=$'^QP 17, queue 0, verdict NO_QP: destination QP does not exist\t2[0-9][0-9]\t132\t1\t0x000011$'
	equal "as expected" "$(grep -c "$line" "$RUN/fields")" 3
	capture_on a -c 1 verdict no_qp
	run_on b "$XR_TOP/selftests/e2e/roce_datagram.py" "$B6" "$A6" 17 right text
	wait "$CAPTURE"
	grep -E " refused $B6 > $A6 UD SEND_ONLY_IMM dest QP 17 .* verdict NO_QP: " "$RUN/output"
}

@test "traffic within a host is captured as packets with correct ICRCs" {
	requires tshark python3
	local file=$RUN/local.pcapng op before

	daemon_path "its loopback sends no packets"
	before=$(counter a tx_packets)
	capture_on a -w "$file" local
	both_on_a "$BIN/rdma_verify" -g @4 -n 3 -m 1024 -t write -t write-imm -t send -t send-imm -t read -t atomic
	both_on_a "$BIN/rdma_verify" -g @6 -n 2 -m "$PMTU" -t write -t read-one-above
	both_on_a ibv_ud_pingpong -g @4 -n 3 -s 100
	both_on_a ibv_uc_pingpong -g @4 -n 3 -m 1024 -s 5000
	both_on_a ibv_rc_pingpong -g @4 -n 3 -s 100
	capture_end
	equal "sent" "$(counter a tx_packets)" "$before"
	equal "malformed" "$(packets "$file" '(_ws.malformed || _ws.short) && udp.length > 40 && frame.len == frame.cap_len')" 0
	# SEND, WRITE, READ request and responses, ACK, atomics, UC, UD
	for op in 4 10 12 13 15 16 17 18 20 32 100; do
		(($(packets "$file" "infiniband.bth.opcode == $op") > 0)) || { echo "no packet with opcode $op"; false; }
	done
	(($(packets "$file" 'infiniband.aeth.syndrome.opcode == 3') > 0))
	equal "without comment" "$(packets "$file" '!(frame.comment contains ", within the host")')" 0
	right_icrcs "$file" 15
}

@test "--on drop sees packets that XDP refuses" {
	requires tshark python3
	local file=$RUN/drop.pcapng

	capture_on a -w "$file" --on drop
	run_on b "$XR_TOP/selftests/e2e/roce_datagram.py" "$B6" "$A6" 17 right text
	wait "$CAPTURE"
	grep -q "event 'drop'" "$RUN/messages"
	equal "refused" "$(packets "$file" 'frame.verdict.ebpf_xdp == 1')" 1
}

@test "a snap length cuts packets, whose length stays known" {
	requires tshark
	local file=$RUN/snap.pcapng

	capture_on a -w "$file" -s 128
	both ibv_rc_pingpong -g @4 -n 3 -s 4000 -m 1024
	capture_end
	(($(packets "$file" 'frame.len > 1000 && frame.cap_len == 128') >= 6))
	equal "longer" "$(packets "$file" 'frame.cap_len > 128')" 0
}

@test "tshark shows packets while they are captured" {
	requires tshark
	local pipe=$RUN/pipe shark

	mkfifo "$pipe"
	tshark -l -i - <"$pipe" >"$RUN/live" 2>/dev/null 3>&- &
	shark=$!
	"$XROCE" -r "$RUN/a" capture xra -w - </dev/null >"$pipe" 2>"$RUN/live.log" 3>&- &
	CAPTURE=$!
	captures() { [[ $(ls -l "/proc/$CAPTURE/map_files" 2>/dev/null) == *memfd:xroce-rings* ]]; }
	wait_for 10 captures
	both ibv_rc_pingpong -g @4 -n 5
	shown() { (($(grep -c RRoCE "$RUN/live") >= 20)); }
	wait_for 20 shown
	kill -0 "$CAPTURE"
	# the capture ends without an error when nobody reads its output any more
	kill "$shark"
	wait "$shark" || true
	both ibv_rc_pingpong -g @4 -n 5
	wait "$CAPTURE"
	cat "$RUN/live.log"
}

@test "without a file, there is a line for each packet; -c ends the capture" {
	local where="queue 0"

	! direct_contexts || where=direct
	capture_on a -c 8
	both ibv_rc_pingpong -g @4 -n 5 -s 1000
	wait "$CAPTURE"
	cat "$RUN/output"
	equal "lines" "$(wc -l <"$RUN/output")" 8
	grep -Eq "^[0-9:]{8}\.[0-9]{9} rx $B4 > $A4 RC SEND_ONLY dest QP " "$RUN/output"
	grep -Eq " dest QP ([0-9]+) PSN [0-9]+( ackreq)? length 1058, QP \1, $where, verdict OK$" "$RUN/output"
	grep -Eq " tx $A4 > $B4 RC SEND_ONLY dest QP [0-9]+ PSN [0-9]+( ackreq)? length 1058, QP [0-9]+, $where$" "$RUN/output"
}

# has_line REGEX: the output of the capture has such a line
has_line() {
	grep -Eq "$1" "$RUN/output" || {
		echo "no line with $1 in:"
		head -n 40 "$RUN/output"
		return 1
	}
}

@test "lines show addresses and keys of requests, immediate data, and NAKs" {
	capture_on a
	both "$BIN/rdma_opcodes" -g @4
	ctl a fault xra rules 'rnr timer 3 opcode SEND_ONLY times 1; nak sequence opcode WRITE_MIDDLE times 1
		nak access opcode WRITE_LAST after 5 times 1'
	both ibv_rc_pingpong -g @4 -n 5 -s 64
	both ibv_ud_pingpong -g @4 -n 5
	fails both -t $((30 * SLOW)) ib_write_bw -x @4 -F -s 65536 -n 100
	ctl a fault xra off
	capture_end
	has_line " RC WRITE_FIRST dest QP [0-9]+ PSN [0-9]+ va 0x[0-9a-f]+ rkey [0-9]+ bytes 65536 length "
	has_line " RC SEND_ONLY dest QP [0-9]+ PSN [0-9]+ ackreq length "
	has_line " UD SEND_ONLY dest QP [0-9]+ PSN [0-9]+ source QP [0-9]+ length "
	has_line " tx .* RC ACK dest QP [0-9]+ PSN [0-9]+ length "
	has_line " tx .* RC ACK dest QP [0-9]+ PSN [0-9]+ NAK remote access length "
	has_line " tx .* RC ACK dest QP [0-9]+ PSN [0-9]+ NAK PSN sequence length "
	has_line " tx .* RC ACK dest QP [0-9]+ PSN [0-9]+ RNR NAK timer 3 length "
	has_line " RC SEND_ONLY_IMM dest QP [0-9]+ PSN [0-9]+( ackreq)? immediate 0x[0-9a-f]+ length "
	has_line " RC WRITE_ONLY_IMM .* va 0x[0-9a-f]+ rkey [0-9]+ bytes [0-9]+ immediate 0x[0-9a-f]+ length "
}

@test "--on keeps the last packets, and writes them when the event happens" {
	requires tshark
	local file=$RUN/event.pcapng

	rm -f "$file"
	capture_on a -w "$file" -b 1 --on nak,error
	both ibv_rc_pingpong -g @4 -n 2000
	[[ ! -e $file ]]
	kill -0 "$CAPTURE"
	both "$BIN/rdma_verify" -g @4 -t read-one-above
	wait "$CAPTURE"
	cat "$RUN/messages"
	grep -Eq "event '(nak|error)': packets written" "$RUN/messages"
	(($(packets "$file" 'infiniband.aeth.syndrome.opcode == 3') > 0))
	(($(stat -c %s "$file") <= (1 << 20) + 2000))
	(($(packets "$file") > 100))
}

@test "--on retry and --on error wait for their event alone" {
	requires tshark
	local file=$RUN/one.pcapng

	rm -f "$file"
	capture_on b -w "$file" --on error
	ctl a fault xra rules 'drop rx prob 2%'
	both ib_write_bw -x @4 -F -n 200 -s 65536
	kill -0 "$CAPTURE"
	ctl a fault xra off
	both "$BIN/rdma_verify" -g @4 -t read-one-above
	wait_for 20 not alive "$CAPTURE"
	grep -q "event 'error': packets written" "$RUN/messages"
	(($(packets "$file") > 0))
	rm "$file"
	capture_on b -w "$file" --on retry
	both "$BIN/rdma_verify" -g @4 -t read-one-above
	kill -0 "$CAPTURE"
	ctl a fault xra rules 'drop rx opcode WRITE_MIDDLE prob 2%'
	both ib_write_bw -x @4 -F -n 200 -s 65536
	ctl a fault xra off
	wait_for 20 not alive "$CAPTURE"
	grep -q "event 'retry': packets written" "$RUN/messages"
	(($(packets "$file") > 0))
}

@test "--on nak waits for a NAK: at the host that sends it, and at the one that receives it" {
	requires tshark
	local file=$RUN/nak.pcapng h

	for h in a b; do
		rm -f "$file"
		capture_on "$h" -w "$file" --on nak
		# a completion with an error, without a NAK
		ctl "$h" fault "xr$h" rules 'qp-error tx opcode SEND_ONLY times 1'
		fails both -t 20 ibv_rc_pingpong -g @4 -s 64 -n 100
		equal "injected" "$(ctl "$h" fault -j "xr$h" | jq '.rules[0].hits')" 1
		ctl "$h" fault "xr$h" off
		kill -0 "$CAPTURE"
		[[ ! -e $file ]]
		both "$BIN/rdma_verify" -g @4 -t read-one-above
		wait_for 20 not alive "$CAPTURE"
		grep -q "event 'nak': packets written" "$RUN/messages"
		(($(packets "$file" 'infiniband.aeth.syndrome.opcode == 3') > 0))
	done
}

@test "packets that a slow reader misses are counted" {
	requires tshark
	local file=$RUN/slow.pcapng line captured lost

	capture_on a -w "$file" -b 1
	kill -STOP "$CAPTURE"
	both ib_write_bw -x @4 -F -n 500 -s 65536
	kill -CONT "$CAPTURE"
	capture_end
	read -r _ captured _ _ lost _ < <(tail -n 1 "$RUN/messages")
	echo "$captured captured, $lost lost"
	((lost > 1000))
	equal "packets in the file" "$(packets "$file")" "$captured"
	equal "received and dropped" "$(statistics "$file")" "$((captured + lost)) $lost"
}

# statistics FILE: prints the numbers of packets received and dropped, from the last block, which tshark does not show
statistics() {
	python3 - "$1" <<-'END'
		import struct, sys
		data = open(sys.argv[1], "rb").read()
		block = data[-struct.unpack("<I", data[-4:])[0]:]
		assert struct.unpack_from("<I", block)[0] == 5
		at, values = 20, {}
		while struct.unpack_from("<H", block, at)[0]:
		    code, length = struct.unpack_from("<HH", block, at)
		    values[code] = struct.unpack_from("<Q", block, at + 4)[0]
		    at += 4 + (length + 3) // 4 * 4
		print(values[4], values[5])
	END
}

@test "a capture ends with its process, and does not disturb the traffic" {
	requires tshark
	local before

	before=$(counter a tx_packets)
	capture_on a -w "$RUN/killed.pcapng"
	kill -KILL "$CAPTURE"
	wait "$CAPTURE" || true
	both ibv_rc_pingpong -g @4 -c -n 100
	(($(counter a tx_packets) > before))
	no_bad_packets 0
}

@test "a capture whose daemon ends writes what it has, says so, and ends with status 1" {
	requires tshark
	local file=$RUN/ended.pcapng status=0

	capture_on a -w "$file"
	both ibv_rc_pingpong -g @4 -c -n 100
	daemon_down a
	wait "$CAPTURE" || status=$?
	equal "status" "$status" 1
	equal "message" "$(tail -n 1 "$RUN/messages")" "xroce: xra: the daemon has ended"
	(($(packets "$file" infiniband.bth) >= 200))
	daemon_up a
}

@test "a capture is for root and the user of the daemon only, and errors name what is wrong" {
	local program=("$XROCE" -r "$RUN/a" capture)

	fails "${program[@]}" 2>&1 | grep -q 'DEV is missing'
	fails "${program[@]}" nodevice 2>&1 | grep -q "no device 'nodevice'"
	fails "${program[@]}" xra port 5 2>&1 | grep -q "'port' is not a word of a filter"
	fails "${program[@]}" xra peer nobody 2>&1 | grep -q "'nobody' is not a valid value of 'peer': an IPv4"
	fails "${program[@]}" xra qp 5,x7 2>&1 | grep -q "'x7' is not a valid value of 'qp': the number"
	fails "${program[@]}" xra opcode write,scribble 2>&1 | grep -q "'scribble' is not a valid value of 'opcode': a number"
	fails "${program[@]}" xra verdict fine 2>&1 | grep -q "'fine' is not a valid value of 'verdict'"
	fails "${program[@]}" xra qp "$(seq -s, 100)" 2>&1 | grep -q "' is one value of 'qp' too many"
	fails "${program[@]}" xra opcode 2>&1 | grep -q "'opcode' needs a value"
	fails "${program[@]}" xra -s many 2>&1 | grep -q "'many' is not a number"
	fails "${program[@]}" xra --on never -w "$RUN/x" 2>&1 | grep -q "unknown event 'never'"
	fails "${program[@]}" xra --on nak 2>&1 | grep -q "needs a file"
	fails "${program[@]}" xra -w /nowhere/file 2>&1 | grep -q "/nowhere/file: No such file"
	# DAEMON_USER may capture, other users of the group may not
	chmod 666 "$RUN/a/xra.sock"
	fails setpriv --reuid 64999 --regid 64999 --clear-groups "${program[@]}" xra 2>&1 | tee "$RUN/refused"
	chmod 600 "$RUN/a/xra.sock"
	grep -Eq "may not connect|for root and the user of the daemon only" "$RUN/refused"
}
