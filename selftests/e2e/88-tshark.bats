#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Packets on the wire: tshark dissects them, and icrc.py computes the ICRC independently. XDP and AF_XDP bypass packet
# capture on the hosts, so the packets are captured on a bridge between them:
#
#   host a: va ==== pa  bridge  pb ==== vb: host b        (pa to pb: namespace $ID-wire)

load helpers

setup_file() {
	requires root tshark tcpdump rping udaddy ucmatose
	hosts_up
	bridge_between
	# tcpdump would see GSO frames, which tshark takes for long packets
	daemons_up --gso off
	capture
}

# Replaces the veth pair by one pair for each host, joined by a bridge.
bridge_between() {
	local h

	ip netns add "$ID-wire"
	on a ip link del va
	on wire ip link add bridge type bridge
	on wire ip link set bridge mtu "$MTU" up
	for h in a b; do
		ip link add "v$h" mtu "$MTU" netns "$ID-$h" type veth peer name "p$h" mtu "$MTU" netns "$ID-wire"
		on wire ip link set "p$h" master bridge up
	done
	configure_links
}

# Tests of rdma_verify; enough rounds for first, middle, last and only packets of each operation
data=(-t write -t write-imm -t send -t send-imm -t read -t zero -t atomic)

# Captures every operation and some refusals, over IPv4 and IPv6, to $RUN/pcap.
capture() {
	local dump verify=$BIN/rdma_verify

	on wire tcpdump -i pa --immediate-mode -U -B 65536 -w "$RUN/pcap" "udp port 4791 or udp port 9" 2>"$RUN/tcpdump" 3>&- &
	dump=$!
	wait_for 5 grep -q listening "$RUN/tcpdump"
	both "$verify" -g @4 -n 6 -s 2 -m 1024 "${data[@]}"
	both "$verify" -g @6 -n 2 -m "$PMTU" "${data[@]}"
	both "$verify" -g @4 -t wrong-variant -t read-one-above -t short-receive
	both "$BIN/rdma_opcodes" -g @4
	both "$BIN/rdma_opcodes" -g @6
	both ibv_rc_pingpong -g @6 -c -n 5 -s 1
	both ibv_uc_pingpong -g @4 -n 3 -m 1024 -s 5000
	both ib_write_lat -c UC -x @4 -F -n 5 -s 20000
	both ibv_ud_pingpong -g @4 -n 3 -s 100
	both ibv_ud_pingpong -g @6 -n 3 -s 100
	connect_by_address
	# tcpdump writes packets in order: with this one, all are written
	on b bash -c "echo end of capture >/dev/udp/$A4/9"
	wait_for 10 grep -q "end of capture" "$RUN/pcap"
	kill "$dump"
	wait "$dump" || true
	cat "$RUN/tcpdump"
}

# Connections, a service that has no listener, and datagrams by rdma_cm: all MADs but MRA
connect_by_address() (
	# `pair` waits for listeners of rdma_cm from here on
	source "$XR_TOP/selftests/e2e/rdmacm.bash"
	for address in "$A4" "$A6"; do
		pair rping -s -a "$address" -p "$PORT" -C 2 -v -- rping -c -a "$address" -p "$PORT" -C 2 -v
		pair -t 40 udaddy -b "$address" -- udaddy -s "$address"
	done
	refused "REJECTED" run_on b timeout 20 rping -c -a "$A4" -p 9999 -C 1
	# type of service 104, ACK timeout 21
	pair -t 40 ucmatose -b "$A4" -p "$PORT" -- ucmatose -s "$A4" -p "$PORT" -t 104 -a 21
)

# field_values FIELD [FILTER]: prints each value of a field, with the number of packets that have it
field_values() {
	tshark -r "$RUN/pcap" -Y "${2:-infiniband}" -T fields -e "$1" 2>/dev/null | sort | uniq -c
}

@test "tshark dissects every packet as RoCE v2, none as malformed" {
	local all roce

	all=$(tshark -r "$RUN/pcap" -Y 'udp.dstport == 4791' 2>/dev/null | wc -l)
	roce=$(tshark -r "$RUN/pcap" -Y infiniband.bth 2>/dev/null | wc -l)
	echo "$all packets, $roce of them with a BTH"
	((all > 500))
	equal "with a BTH" "$roce" "$all"
	# tshark 4.0 dissects the first four bytes of the payload of every SEND as an EtherType header and reports
	# shorter payloads as malformed (UDP length: headers, payload and ICRC)
	tshark -r "$RUN/pcap" -Y '(_ws.malformed || _ws.short) && udp.length > 28' 2>/dev/null >"$RUN/malformed"
	head -n 5 "$RUN/malformed"
	[[ ! -s $RUN/malformed ]]
}

# RoCE v2 has no UDP checksum, also over IPv6: it must be 0. The kernel segments only packets with one.
@test "IP checksums and UDP lengths are correct" {
	requires io=xdp	# sockets leave checksums and segmentation to the interface
	local bad no_checksum='|| udp.checksum != 0'

	[[ $(packets_by) == xdp ]] || no_checksum=
	bad=$(tshark -o ip.check_checksum:TRUE -r "$RUN/pcap" \
		-Y "udp.port == 4791 && (ip.checksum.status == 0 || udp.length.bad $no_checksum)" 2>/dev/null)
	echo "$bad" | head -n 5
	[[ -z $bad ]]
}

# rdma_opcodes has the list from include/xroce/opcode.h.
@test "every opcode of RC, UC, UD and XRC is on the wire" {
	local op name seen missing=0

	seen=$(field_values infiniband.bth.opcode)
	while read -r op name; do
		grep -qE " $op\$" <<<"$seen" || { echo "no packet of $name ($op)"; missing=1; }
	done < <("$BIN/rdma_opcodes" -l)
	((missing == 0))
}

@test "AETH syndromes are dissected as ACK and NAK" {
	local seen

	seen=$(field_values infiniband.aeth.syndrome.opcode infiniband.aeth)
	echo "$seen"
	grep -qE ' 0$' <<<"$seen"
	seen=$(field_values infiniband.aeth.syndrome.error_code 'infiniband.aeth.syndrome.opcode == 3')
	echo "NAK codes: $seen"
	grep -qE ' 2$' <<<"$seen"
}

@test "MADs of rdma_cm are dissected as those of connection management" {
	local seen attribute bad missing=0

	seen=$(field_values infiniband.mad.attributeid 'infiniband.mad.mgmtclass == 7')
	echo "$seen"
	# REQ, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP
	for attribute in 0x0010 0x0012 0x0013 0x0014 0x0015 0x0016 0x0017 0x0018; do
		grep -q " $attribute\$" <<<"$seen" || { echo "no MAD with attribute $attribute"; missing=1; }
	done
	((missing == 0))
	bad=$(tshark -r "$RUN/pcap" -Y 'infiniband.mad && !(infiniband.bth.destqp == 1 && infiniband.deth.srcqp == 1 &&
		infiniband.deth.q_key == 0x80010000 && infiniband.bth.p_key == 0xffff && udp.length == 288)' 2>/dev/null)
	echo "$bad" | head -n 5
	[[ -z $bad ]]
}

@test "REQs contain the addresses and ports of rdma_cm" {
	local seen

	seen=$(field_values infiniband.cm.req.serviceid.dport infiniband.cm.req)
	echo "destination ports: $seen"
	grep -q " 0x1c06\$" <<<"$seen"	# 7174
	seen=$(field_values infiniband.cm.req.ip_cm.sip4 infiniband.cm.req.ip_cm.sip4)
	echo "source addresses: $seen"
	grep -q " $B4\$" <<<"$seen"
	seen=$(field_values infiniband.cm.req.ip_cm.dip6 infiniband.cm.req.ip_cm.dip6)
	echo "destination addresses: $seen"
	grep -q " $A6\$" <<<"$seen"
	seen=$(field_values infiniband.cm.req.prim_localgid_ipv4 'ip && infiniband.cm.req')
	echo "GIDs: $seen"
	grep -q " $B4\$" <<<"$seen"
}

@test "type of service and ACK timeout of rdma_cm are in REQs, the former in packets of both directions" {
	local seen h

	seen=$(field_values infiniband.cm.req.prim_tfcclass infiniband.cm.req)
	echo "traffic classes: $seen"
	grep -qE " (0x68|104)\$" <<<"$seen"
	seen=$(field_values infiniband.cm.req.prim_localacktout infiniband.cm.req)
	echo "local ACK timeouts: $seen"
	grep -qE " (0x15|21)\$" <<<"$seen"
	for h in "$A4" "$B4"; do
		seen=$(field_values infiniband.bth.opcode "ip.src == $h && ip.dsfield == 0x68 && infiniband.bth.destqp != 1")
		echo "opcodes from $h: $seen"
		[[ $seen ]]
	done
}

@test "every ICRC is correct" {
	requires python3
	local line

	run "$XR_TOP/selftests/e2e/icrc.py" "$RUN/pcap"
	echo "$output"
	((${#lines[@]} >= 21))
	for line in "${lines[@]}"; do
		[[ $line == *" 0" ]]
	done
}
