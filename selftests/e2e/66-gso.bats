#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# GSO frames (docs/gso.md): at both hosts, and at one of them. Each test creates its own hosts.

load helpers

setup_file() {
	daemon_path "packets go by XDP"
	requires root io=xdp
}

teardown_file() {
	:
}

# Prints the daemons' logs before the hosts are removed.
teardown() {
	report_failure
	hosts_down
}

# packets HOST DIRECTION: prints the number of packets in GSO frames
packets() {
	status_of "$1" "[.workers[].${2}_gso_packets] | add"
}

# requires_whole_frames: skips the test if generic XDP linearizes frames of several buffers
requires_whole_frames() {
	local major minor
	IFS=.- read -r major minor _ < <(uname -r)
	[ "$major" -gt 6 ] || [ "$major$minor" -ge 69 ] || skip "GSO frames are received from Linux 6.9 on"
}

@test "--gso off: no GSO frame is sent, and the reason is shown" {
	hosts_up
	daemons_up --gso off
	verify_data -m "$PMTU"
	equal "send" "$(status_of a .gso.send)" false
	equal "reason" "$(status_of a .gso.why_not)" "turned off by --gso off"
	equal "mode" "$(status_of a .xdp.mode)" "native copy"
	equal "packets in GSO frames" "$(packets a tx)" 0
}

@test "packets are sent and received in GSO frames" {
	requires_whole_frames
	hosts_up
	daemons_up
	equal "receive" "$(status_of a .gso.receive)" true
	equal "send" "$(status_of a .gso.send)" true
	equal "mode" "$(status_of a .xdp.mode)" generic
	verify_data -m "$PMTU"
	verify_data -m 256
	[ "$(packets a tx)" -gt 100 ]
	equal "packets received by b" "$(packets b rx)" "$(packets a tx)"
	equal "packets received by a" "$(packets a rx)" "$(packets b tx)"
	ctl b counters -j xrb | jq -e '[.xdp[] | select(.name == "GSO_PACKET" or .name == "ICRC") | .packets] | add == 0'
}

# The kernel selects a TX queue for each flow, and the peer receives at the queue of that number. Packets of a QP that
# leave alone, as those of short messages, stay in order with its GSO frames.
@test "packets are sent and received in GSO frames by one worker with eight queues, in order" {
	local h s

	requires_whole_frames
	hosts_up "$MTU" 8
	daemons_up --workers 1
	for h in a b; do
		equal "send" "$(status_of "$h" .gso.send)" true
		equal "mode" "$(status_of "$h" .xdp.mode)" generic
	done
	for s in 8 5000 65536; do
		both -t 60 ib_write_bw -x @4 -F -u 19 -s "$s" -q 8 -n $((200 / SLOW))
	done
	verify_data -m "$PMTU"
	[ "$(packets a tx)" -gt 100 ]
	equal "packets received by b" "$(packets b rx)" "$(packets a tx)"
	for h in a b; do
		equal "requests out of order" "$(counter "$h" rx_out_of_sequence) $(counter "$h" rx_early)" "0 0"
	done
}

@test "several workers send no GSO frames, and the reason is shown" {
	hosts_up "$MTU" 2
	daemons_up --workers 2
	verify_data -m "$PMTU"
	equal "send" "$(status_of a .gso.send)" false
	equal "reason" "$(status_of a .gso.why_not)" "the device has several workers"
	equal "mode" "$(status_of a .xdp.mode)" "native copy"
}

# The first packet of a WRITE is longer, so a frame of two packets precedes one with the others.
@test "a short GSO frame and the next one share a system call" {
	local frames kicks

	requires_whole_frames
	hosts_up
	daemons_up
	both ib_write_bw -x @4 -F -s 65536 -m "$PMTU" -n $((1000 / SLOW))
	frames=$(status_of b "[.workers[].tx_gso_frames] | add")
	kicks=$(status_of b "[.workers[].tx_kicks] | add")
	echo "$frames frames, $kicks system calls"
	[ "$frames" -ge $((1500 / SLOW)) ]
	[ "$kicks" -le $((frames * 3 / 4)) ]
}

@test "GSO frames at MTU 1500 and over IPv6" {
	requires_whole_frames
	hosts_up 1500
	daemons_up
	both -t 60 "$BIN/rdma_verify" -g @6 -n "$(iterations 10)" -b 1048576 -t write -t send-imm -t read -t mixed -m 1024
	[ "$(packets a tx)" -gt 100 ]
	equal "packets received by b" "$(packets b rx)" "$(packets a tx)"
}

@test "GSO frames reach a peer with native XDP as single packets" {
	requires_whole_frames
	hosts_up
	daemon_up a
	daemon_up b --attach native
	verify_data -m "$PMTU"
	[ "$(packets a tx)" -gt 100 ]
	equal "GSO frames received by b" "$(packets b rx)" 0
}

@test "XDP counts the packets in GSO frames" {
	requires_whole_frames
	hosts_up
	daemons_up
	both ib_send_bw -x @4 -F -s 65536 -n $((200 / SLOW))
	# b is the client, which sends
	sent=$(ctl b counters -j xrb | jq '[.. | objects | select(.name? == "tx_packets") | .value] | first')
	[ "$sent" -ge $((16 * (200 / SLOW))) ]
	counted=$(ctl a counters -j xra | jq '[.xdp[] | select(.name == "OK") | .packets] | add')
	equal "packets that XDP has counted" "$counted" "$sent"
}

@test "malformed packets in GSO frames are dropped and counted" {
	local bad

	requires_whole_frames
	hosts_up
	daemons_up
	bad=$(on b "$XR_TOP/selftests/e2e/gso_datagrams.py" "$A4")
	dropped_are() { [[ $(ctl a counters -j xra | jq '[.xdp[] | select(.name == "GSO_PACKET") | .packets] | add') == "$1" ]]; }
	wait_for 5 dropped_are "$bad"
	verify_data -m "$PMTU"
}

# Rounds are short after losses. A worker that sent all packets at the end of each would send 32 in three frames, not in
# two and a part.
@test "GSO frames are full while packets are lost" {
	local frames

	requires_whole_frames
	hosts_up
	daemons_up
	ctl a fault xra rules "drop rx every 200"
	both ib_send_bw -x @4 -F -s 1048576 -m "$PMTU" -n $((400 / SLOW))
	frames=$(status_of b "[.workers[].tx_gso_frames] | add")
	echo "$(packets b tx) packets in $frames frames"
	[ "$(packets b tx)" -ge $((frames * 125 / 10)) ]
}
