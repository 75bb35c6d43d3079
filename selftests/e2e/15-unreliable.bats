#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Unreliable connections and datagrams between the two hosts: pingpong and perftest.

load helpers
load datagram

# Few messages where one that is lost would be waited for for ever: all of them fit into the queues.
# bandwidth PROGRAM ARG...: a figure above zero comes out
bandwidth() {
	both -t 40 "$1" -F "${@:2}"
	grep -Eq '^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9]*\.?[0-9]*[1-9]' "$OUT/client" || {
		show_output
		return 1
	}
}

@test "unreliable: ibv_uc_pingpong, IPv4 and IPv6" {
	both ibv_uc_pingpong -g @4 -n $((200 / SLOW))
	both ibv_uc_pingpong -g @6 -n $((200 / SLOW))
	both ibv_uc_pingpong -g 0 -n $((200 / SLOW))
}

@test "unreliable: ibv_uc_pingpong, 1 byte to 1 MiB, path MTUs" {
	local size mtu

	for size in $(some 1 1023 1024 1025 65536 1048576); do
		echo "size $size"
		both ibv_uc_pingpong -g @4 -m "$PMTU" -s "$size" -n $((20 / SLOW + 1))
	done
	for mtu in $(some 256 512 1024 2048); do
		echo "mtu $mtu"
		both ibv_uc_pingpong -g @4 -m "$mtu" -s 100000 -n "$(few 10)"
	done
}

@test "unreliable: ibv_ud_pingpong, IPv4 and IPv6" {
	both ibv_ud_pingpong -g @4 -n $((200 / SLOW))
	both ibv_ud_pingpong -g @6 -n $((200 / SLOW))
	both ibv_ud_pingpong -g 0 -n $((200 / SLOW))
}

@test "unreliable: ibv_ud_pingpong, 1 byte to a whole packet" {
	local size

	for size in $(some 1 3 63 256 1024 2048 "$PMTU"); do
		echo "size $size"
		both ibv_ud_pingpong -g @4 -s "$size" -n $((20 / SLOW + 1))
	done
}

@test "unreliable: completion events (-e)" {
	both ibv_uc_pingpong -g @4 -e -n $((100 / SLOW))
	both ibv_ud_pingpong -g @4 -e -n $((100 / SLOW))
}

@test "unreliable: perftest over UC" {
	bandwidth ib_send_lat -c UC -x @4 -n $((500 / SLOW))
	bandwidth ib_write_lat -c UC -x @4 -n $((500 / SLOW))
	bandwidth ib_write_bw -c UC -x @4 -n $((500 / SLOW))
	bandwidth ib_write_bw -c UC -x @6 -n $((500 / SLOW))
	bandwidth ib_send_bw -c UC -x @4 -s 4096 -n 100
}

@test "unreliable: perftest over UD" {
	bandwidth ib_send_lat -c UD -x @4 -n $((500 / SLOW))
	bandwidth ib_send_lat -c UD -x @6 -n $((500 / SLOW))
	bandwidth ib_send_bw -c UD -x @4 -s "$PMTU" -n 100
	bandwidth ib_send_bw -c UD -x @6 -s 1024 -n 100
}

@test "unreliable: a datagram is answered at the address that it came from" {
	listener a v4 "$A4" 2
	equal "the answer" "$(tell b ask "$B4" "$A4" "$QPN" 0x11111111 hello)" "re: hello"
	equal "the answer" "$(tell b ask "$B4" "$A4" "$QPN" 0x11111111 "")" "re: "
	wait "$LISTENER"
	listener a v6 "$A6" 1
	equal "the answer" "$(tell b ask "$B6" "$A6" "$QPN" 0x11111111 hello)" "re: hello"
	wait "$LISTENER"
}

@test "unreliable: a datagram on one host goes the direct way" {
	local before

	before=$(counter a tx_packets)
	listener a own "$A4" 1
	equal "the answer" "$(tell a ask "$A4" "$A4" "$QPN" 0x11111111 hello)" "re: hello"
	wait "$LISTENER"
	listener a own6 "$A6" 1
	equal "the answer" "$(tell a ask "$A6" "$A6" "$QPN" 0x11111111 hello)" "re: hello"
	wait "$LISTENER"
	equal "packets sent" "$(counter a tx_packets)" "$before"
}

# One of the port's counters, as verbs have it
port_counter() {
	echo $(($(run_on a ibv_devinfo -v | awk -v name="$1:" '$1 == name { print $2 }')))
}

@test "unreliable: a wrong Q_Key is dropped and counted" {
	local wire direct port

	wire=$(counter a QKEY) direct=$(counter a qkey_errors) port=$(port_counter qkey_viol_cntr)
	listener a keys "$A4" 1
	tell b send "$B4" "$A4" "$QPN" 0x11111112 wrong
	tell a send "$A4" "$A4" "$QPN" 0x11111112 wrong
	equal "the answer" "$(tell b ask "$B4" "$A4" "$QPN" 0x11111111 right)" "re: right"
	wait "$LISTENER"
	equal "dropped by XDP" "$(counter a QKEY)" $((wire + 1))
	equal "dropped by the daemon" "$(counter a qkey_errors)" $((direct + 1))
	equal "counted by the port" "$(port_counter qkey_viol_cntr)" $((port + 2))
	equal "what arrived" "$(grep -c got "$BATS_TEST_TMPDIR/keys")" 1
}

@test "unreliable: a wrong P_Key is dropped and counted" {
	local before qpn

	before=$(port_counter bad_pkey_cntr)
	listener a pkeys "$A4" 1
	qpn=$(printf '\\x%02x' $((QPN >> 16)) $((QPN >> 8 & 255)) $((QPN & 255)))
	# SEND only of UD: BTH with P_Key 0x1234, DETH, ICRC
	run_on b bash -c "printf '\\x64\\0\\x12\\x34\\0$qpn\\0\\0\\0\\0\\x11\\x11\\x11\\x11\\0\\0\\0\\x11\\0\\0\\0\\0' \
		>/dev/udp/$A4/4791"
	equal "the answer" "$(tell b ask "$B4" "$A4" "$QPN" 0x11111111 right)" "re: right"
	wait "$LISTENER"
	equal "counted by the port" "$(port_counter bad_pkey_cntr)" $((before + 1))
}

@test "unreliable: queue pair 1, for management, of either host" {
	local before

	LISTEN=mad-listen listener a gsi "$A4" 3
	equal "its number" "$QPN" 1
	equal "its type" "$(ctl a qp -j xra | jq -r '.[] | select(.qpn == 1).type')" GSI
	fails tell a mad-ask "$A4" "$B4" 1 0x80010000 second 2>"$BATS_TEST_TMPDIR/second"
	grep -q "Device or resource busy" "$BATS_TEST_TMPDIR/second"
	before=$(counter a QKEY)
	tell b send "$B4" "$A4" 1 0x11111111 "another Q_Key"
	equal "the answer" "$(tell b mad-ask "$B4" "$A4" 1 0x80010000 hello)" "re: hello"
	equal "the answer" "$(tell b mad-ask "$B6" "$A6" 1 0x80010000 hello)" "re: hello"
	equal "the answer" "$(tell b mad-ask "$B4" "$A4" 1 0x80010000 "")" "re: "
	wait "$LISTENER"
	equal "dropped" "$(counter a QKEY)" $((before + 1))
}

@test "unreliable: QP 0 is nobody's, and QP 1 as long as nobody asks for it" {
	local before

	before=$(counter a NO_QP)
	tell b send "$B4" "$A4" 0 0x11111111 x
	tell b send "$B4" "$A4" 1 0x80010000 x
	tell b send "$B4" "$A4" 0xffffff 0x11111111 x
	wait_for 5 eval "((\$(counter a NO_QP) == before + 3))"
}

# member HOST ADDRESS: the interface is in that group
member() {
	on "$1" ip maddr show dev "v$1" | grep -qE "inet6? +$2( |\$)"
}

@test "unreliable: multicast, IPv4 and IPv6: to all that are attached, while they are" {
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
			tell b send "$B4" "$group" 0xffffff 0x11111111 one
			tell a send "$A4" "$group" 0xffffff 0x11111111 two
		else
			tell b send "$B6" "$group" 0xffffff 0x11111111 one
			tell a send "$A6" "$group" 0xffffff 0x11111111 two
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

@test "unreliable: perftest over UD by multicast (-g)" {
	bandwidth ib_send_bw -c UD -g -x @6 -s 1024 -n 100
}

@test "unreliable: ibv_resolve_eth_l2_from_gid tells the next hop" {
	local mac

	mac=$(on b ip -j link show vb | jq -r ".[0].address")
	# shellcheck disable=SC2154	# datagram.bash sets $datagram
	equal "to b" "$(run_on a "$datagram" mac "$(gid_index a "$A4")" "$B4")" "$mac 65535"
	equal "to b" "$(run_on a "$datagram" mac "$(gid_index a "$A6")" "$B6")" "$mac 65535"
	equal "to a group" "$(run_on a "$datagram" mac "$(gid_index a "$A4")" 239.129.2.3)" \
		"01:00:5e:01:02:03 65535"
	fails run_on a timeout $((20 * SLOW)) "$datagram" mac "$(gid_index a "$A4")" 10.77.0.99
}

@test "unreliable: transport counters moved, none says malformed" {
	local h

	for h in a b; do
		(($(counter $h rx_packets) > 500 / SLOW))
		equal "malformed on $h" "$(counter $h rx_malformed)" 0
		equal "wrong ICRC on $h" "$(counter $h rx_icrc_errors)" 0
	done
}
