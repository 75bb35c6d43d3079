#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UC and UD between the two hosts: pingpong, perftest and rdma_datagram.

load helpers
load datagram

@test "ibv_uc_pingpong works over IPv4, IPv6 and link-local addresses" {
	both ibv_uc_pingpong -g @4 -n $((200 / SLOW))
	both ibv_uc_pingpong -g @6 -n $((200 / SLOW))
	both ibv_uc_pingpong -g 0 -n $((200 / SLOW))
}

@test "ibv_uc_pingpong works with 1 byte to 1 MiB and path MTU 256 to 2048" {
	local size mtu

	for size in $(sample 1 1023 1024 1025 65536 1048576); do
		echo "size $size"
		both ibv_uc_pingpong -g @4 -m "$PMTU" -s "$size" -n $((20 / SLOW + 1))
	done
	for mtu in $(sample 256 512 1024 2048); do
		echo "mtu $mtu"
		both ibv_uc_pingpong -g @4 -m "$mtu" -s 100000 -n "$(iterations 10)"
	done
}

@test "ibv_ud_pingpong works over IPv4, IPv6 and link-local addresses" {
	both ibv_ud_pingpong -g @4 -n $((200 / SLOW))
	both ibv_ud_pingpong -g @6 -n $((200 / SLOW))
	both ibv_ud_pingpong -g 0 -n $((200 / SLOW))
}

@test "ibv_ud_pingpong transfers 1 byte to a full packet" {
	local size

	for size in $(sample 1 3 63 256 1024 2048 "$PMTU"); do
		echo "size $size"
		both ibv_ud_pingpong -g @4 -s "$size" -n $((20 / SLOW + 1))
	done
}

@test "ibv_uc_pingpong and ibv_ud_pingpong work with completion events (-e)" {
	both ibv_uc_pingpong -g @4 -e -n $((100 / SLOW))
	both ibv_ud_pingpong -g @4 -e -n $((100 / SLOW))
}

# A lost message is never sent again. Where that would block the test, all messages fit into the queues.
@test "perftest works over UC" {
	perftest ib_send_lat -c UC -x @4 -n $((500 / SLOW))
	perftest ib_write_lat -c UC -x @4 -n $((500 / SLOW))
	perftest ib_write_bw -c UC -x @4 -n $((500 / SLOW))
	perftest ib_write_bw -c UC -x @6 -n $((500 / SLOW))
	perftest ib_send_bw -c UC -x @4 -s 4096 -n 100
}

# Faster senders fill the receive rings while a worker waits for a processor. The number of losses depends on the load of
# the machine, so it is not compared.
@test "UC WRITEs of 64 KiB in both directions at once keep to the rate for UC" {
	local mbytes

	perftest ib_write_bw -c UC -b -x @4 -s 65536 -n $((20000 / SLOW))
	mbytes=$(awk '$1 == 65536 { printf "%d", $4 }' "$OUT/client")	# MiB/s of both directions
	echo "$mbytes MiB/s, $(status_of a ".workers | map(.rx_ring_full) | add") frames lost on host a"
	((mbytes > 0 && mbytes <= 2 * 1250000000 / 1048576 + 50))
}

# Prints how many buffers the kernel has to receive into on host a.
rx_buffers() {
	status_of a '.workers[0].rx_buffers'
}

@test "the kernel receives into few buffers without unreliable QPs, and into all with one" {
	requires io=xdp
	few() { both ibv_rc_pingpong -g @4 -n 20 && (($(rx_buffers) <= 512)); }
	wait_for 10 few
	listener a buffers "$A4" 2
	equal "reply" "$(datagram b request "$B4" "$A4" "$QPN" 0x11111111 one)" "re: one"
	equal "buffers" "$(rx_buffers)" 4096
	equal "reply" "$(datagram b request "$B4" "$A4" "$QPN" 0x11111111 two)" "re: two"
	wait "$LISTENER"
	wait_for 10 few
}

@test "perftest works over UD" {
	perftest ib_send_lat -c UD -x @4 -n $((500 / SLOW))
	perftest ib_send_lat -c UD -x @6 -n $((500 / SLOW))
	perftest ib_send_bw -c UD -x @4 -s "$PMTU" -n 100
	perftest ib_send_bw -c UD -x @6 -s 1024 -n 100
}

@test "an AH made from a UD completion reaches the sender" {
	listener a v4 "$A4" 2
	equal "reply" "$(datagram b request "$B4" "$A4" "$QPN" 0x11111111 hello)" "re: hello"
	equal "reply" "$(datagram b request "$B4" "$A4" "$QPN" 0x11111111 "")" "re: "
	wait "$LISTENER"
	listener a v6 "$A6" 1
	equal "reply" "$(datagram b request "$B6" "$A6" "$QPN" 0x11111111 hello)" "re: hello"
	wait "$LISTENER"
}

# loopback NAME ADDRESS: a message and its reply within host a
loopback() {
	listener a "$1" "$2" 1
	equal "reply" "$(datagram a request "$2" "$2" "$QPN" 0x11111111 hello)" "re: hello"
	wait "$LISTENER"
}

@test "UD messages within one host use loopback" {
	loopback any "$A4"
	daemon_path "direct contexts send packets to each other"
	counter_unchanged a tx_packets loopback v4 "$A4"
	counter_unchanged a tx_packets loopback v6 "$A6"
}

# port_counter NAME: prints a counter of ibv_query_port on host a
port_counter() {
	echo $(($(run_on a ibv_devinfo -v | awk -v name="$1:" '$1 == name { print $2 }')))
}

@test "a UD packet with a wrong Q_Key is dropped and counted" {
	local xdp daemon port packets=1

	# those of the same host are packets of direct contexts
	! direct_contexts || packets=2
	xdp=$(counter a QKEY) daemon=$(counter a qkey_errors) port=$(port_counter qkey_viol_cntr)
	listener a keys "$A4" 1
	datagram b send "$B4" "$A4" "$QPN" 0x11111112 wrong
	datagram a send "$A4" "$A4" "$QPN" 0x11111112 wrong
	equal "reply" "$(datagram b request "$B4" "$A4" "$QPN" 0x11111111 right)" "re: right"
	wait "$LISTENER"
	equal "dropped packets" "$(counter a QKEY)" $((xdp + packets))
	equal "dropped by loopback" "$(counter a qkey_errors)" $((daemon + 2 - packets))
	equal "counted by the port" "$(port_counter qkey_viol_cntr)" $((port + 2))
	equal "messages received" "$(grep -c got "$BATS_TEST_TMPDIR/keys")" 1
}

@test "a UD packet with a wrong P_Key is dropped and counted" {
	local before qpn

	before=$(port_counter bad_pkey_cntr)
	listener a pkeys "$A4" 1
	qpn=$(printf '\\x%02x' $((QPN >> 16)) $((QPN >> 8 & 255)) $((QPN & 255)))
	# SEND only of UD: BTH with P_Key 0x1234, DETH, ICRC
	run_on b bash -c "printf '\\x64\\0\\x12\\x34\\0$qpn\\0\\0\\0\\0\\x11\\x11\\x11\\x11\\0\\0\\0\\x11\\0\\0\\0\\0' \
		>/dev/udp/$A4/4791"
	equal "reply" "$(datagram b request "$B4" "$A4" "$QPN" 0x11111111 right)" "re: right"
	wait "$LISTENER"
	# a program that runs the transport itself stores its counters every 50 ms
	counted() { equal "counted by the port" "$(port_counter bad_pkey_cntr)" $((before + 1)); }
	wait_for 5 counted || counted
}

@test "a UD packet is received if its UDP checksum is 0, right or unfinished, and dropped if it is wrong" {
	local how

	requires python3 io=xdp	# the kernel checks it for UDP sockets
	listener a checksums "$A6" 4
	for how in none wrong right socket; do
		run_on b "$XR_TOP/selftests/e2e/roce_datagram.py" "$B6" "$A6" "$QPN" "$how" "sum $how"
	done
	equal "reply" "$(datagram b request "$B6" "$A6" "$QPN" 0x11111111 end)" "re: end"
	wait "$LISTENER"
	equal "received" "$(awk '/got sum/ { print $3 }' "$BATS_TEST_TMPDIR/checksums" | paste -sd ' ')" \
		"none right socket"
	equal "dropped" "$(counter a UDP_CHECKSUM)" 1
}

@test "QP 1 (GSI) exchanges MADs, has one owner and checks its Q_Key" {
	local before

	daemon_path "direct contexts have no QP 1"
	LISTEN=mad-listen listener a gsi "$A4" 3
	equal "QPN" "$QPN" 1
	equal "type" "$(ctl a qp -j xra | jq -r '.[] | select(.qpn == 1).type')" GSI
	fails datagram a mad-request "$A4" "$B4" 1 0x80010000 second 2>"$BATS_TEST_TMPDIR/second"
	grep -q "Device or resource busy" "$BATS_TEST_TMPDIR/second"
	before=$(counter a QKEY)
	datagram b send "$B4" "$A4" 1 0x11111111 "another Q_Key"
	equal "reply" "$(datagram b mad-request "$B4" "$A4" 1 0x80010000 hello)" "re: hello"
	equal "reply" "$(datagram b mad-request "$B6" "$A6" 1 0x80010000 hello)" "re: hello"
	equal "reply" "$(datagram b mad-request "$B4" "$A4" 1 0x80010000 "")" "re: "
	wait "$LISTENER"
	equal "dropped by XDP" "$(counter a QKEY)" $((before + 1))
}

# pma FROM COMMAND LOCAL REMOTE METHOD ATTRIBUTE: sets STATUS, and WORD to the words of the attribute
pma() {
	local line

	line=$(datagram "${@:1:4}" "${@:5}")
	read -r STATUS WORD <<<"$line"
	read -ra WORD <<<"$WORD"
}

@test "the port counters are read and reset by MADs, from a peer and within the host" {
	local packets how

	both ibv_ud_pingpong -g @4 -n 100
	daemon_path "direct contexts have no QP 1"
	packets=$(counter a rx_packets)
	((packets >= 100))
	for how in "b pma $B4 $A4" "b pma $B6 $A6" "b mad-pma $B4 $A4" "a pma $A4 $A4"; do
		echo "$how"
		# shellcheck disable=SC2086	# words
		pma $how 1 0x12	# Get(PortCounters)
		equal "status" "$STATUS" 0
		((WORD[9] >= packets && WORD[9] <= $(counter a rx_packets)))
		((WORD[7] > WORD[9] && WORD[7] <= $(counter a rx_bytes) / 4))
	done
	pma b pma "$B4" "$A4" 2 0x12	# Set(PortCounters)
	equal "status" "$STATUS" 0
	equal "received after a reset" "${WORD[9]}" 0
	pma b pma "$B4" "$A4" 1 0x12
	((WORD[9] > 0 && WORD[9] < 100))
	pma b pma "$B4" "$A4" 1 0x1d	# Get(PortCountersExtended)
	((WORD[9] >= packets && WORD[8] == 0))
	(($(counter a rx_packets) >= packets))
	pma b pma "$B4" "$A4" 1 0x10	# PortSamplesControl
	equal "status of another attribute" "$STATUS" 12
}

@test "packets to QP 0 or an unknown QPN are dropped" {
	local before

	before=$(counter a NO_QP)
	datagram b send "$B4" "$A4" 0 0x11111111 x
	datagram b send "$B4" "$A4" 0xffffff 0x11111111 x
	wait_for 5 eval "((\$(counter a NO_QP) == before + 2))"
}

# member HOST ADDRESS: whether the interface has joined that multicast group
member() {
	on "$1" ip maddr show dev "v$1" | grep -qE "inet6? +$2( |\$)"
}

@test "multicast reaches every attached QP, over IPv4 and IPv6" {
	local group from pids

	for group in 239.7.7.7 ff0e::77; do
		echo "group $group"
		[[ $group == *:* ]] && from=6 || from=4
		fails member a "$group"
		pids=()
		listener a "m1$from" "$([[ $from == 4 ]] && echo "$A4" || echo "$A6")" 2 "$group"
		pids+=("$LISTENER")
		listener a "m2$from" "$([[ $from == 4 ]] && echo "$A4" || echo "$A6")" 2 "$group"
		pids+=("$LISTENER")
		listener b "m3$from" "$([[ $from == 4 ]] && echo "$B4" || echo "$B6")" 2 "$group"
		pids+=("$LISTENER")
		member a "$group"
		member b "$group"
		equal "attached" "$(ctl a mcast xra | grep -c "^$group ")" 2
		if [[ $from == 4 ]]; then
			datagram b send "$B4" "$group" 0xffffff 0x11111111 one
			datagram a send "$A4" "$group" 0xffffff 0x11111111 two
		else
			datagram b send "$B6" "$group" 0xffffff 0x11111111 one
			datagram a send "$A6" "$group" 0xffffff 0x11111111 two
		fi
		for pid in "${pids[@]}"; do
			wait "$pid" || { cat "$BATS_TEST_TMPDIR"/m*; return 1; }
		done
		equal "messages" "$(cat "$BATS_TEST_TMPDIR"/m?"$from" | grep got | sort | tr '\n' ' ')" \
			"got one got one got one got two got two got two "
		wait_for 5 fails member a "$group"
		wait_for 5 fails member b "$group"
	done
}

@test "perftest works over UD multicast (-g)" {
	requires io=xdp	# its group is of interface-local scope
	perftest ib_send_bw -c UD -g -x @6 -s 1024 -n 100
}

@test "UDP sockets refuse groups of interface-local scope, and tell why" {
	requires io=socket
	XROCE_DEBUG=1 run ! datagram a listen "$A6" 1 ff01::77
	echo "$output"
	[[ $output == *"interface-local scope (ff01::/16)"* ]]
	fails member a ff01::77
}

@test "ibv_resolve_eth_l2_from_gid returns the MAC address of the next hop" {
	local mac

	mac=$(on b ip -j link show vb | jq -r ".[0].address")
	equal "IPv4" "$(datagram a mac "$A4" "$B4")" "$mac 65535"
	equal "IPv6" "$(datagram a mac "$A6" "$B6")" "$mac 65535"
	equal "multicast" "$(datagram a mac "$A4" 239.129.2.3)" "01:00:5e:01:02:03 65535"
	fails datagram a mac "$A4" 10.77.0.99
}

# renice_workers HOST NICE: sets the nice value of all threads of the daemon but the control thread
renice_workers() {
	local pid tid

	pid=$(daemon_pid "$1")
	for tid in "/proc/$pid/task"/*; do
		[[ ${tid##*/} == "$pid" ]] || renice -n "$2" -p "${tid##*/}" >/dev/null
	done
}

# got_last COUNT: the listener has received so many messages, so that its receives are posted again
got_last() {
	(($(grep -c "got last" "$BATS_TEST_TMPDIR/last") == $1))
}

# At nice 19 beside busy processes, the worker waits for a processor, and the control thread nearly
# always handles DESTROY_QP before the worker looks at the doorbell.
@test "messages posted before ibv_destroy_qp are sent" {
	local i burners=()

	listener a last "$A4" 40 239.7.7.8	# with a group it sends no replies
	for ((i = 0; i < $(nproc); i++)); do
		timeout 200 sh -c 'while :; do :; done' 3>&- &
		burners+=($!)
	done
	renice_workers b 19
	for i in 1 2 3 4 5; do
		datagram b leave "$B4" "$A4" "$QPN" 0x11111111 last
		wait_for 20 got_last $((8 * i)) || break
	done
	kill "${burners[@]}"
	renice_workers b 0
	got_last 40 || { kill "$LISTENER"; cat "$BATS_TEST_TMPDIR/last"; return 1; }
	wait "$LISTENER"
}

@test "UC and UD packets are counted, none as malformed" {
	no_bad_packets $((500 / SLOW))
}
