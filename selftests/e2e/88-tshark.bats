#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What goes over the wire, as others read it: tshark dissects it, and the ICRC is computed anew by
# a program of its own. XDP takes packets before a capture on the host could see them, and
# AF_XDP sends behind it; so they are captured between the hosts:
#
#   host a: va ==== pa  bridge  pb ==== vb: host b        (pa to pb: namespace $ID-wire)

load helpers

setup_file() {
	requires root tshark tcpdump
	hosts_up
	bridge_between
	daemons_up
	capture
}

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
	on a ip address add "$A4/24" dev va
	on b ip address add "$B4/24" dev vb
	on a ip address add "$A6/64" dev va nodad
	on b ip address add "$B6/64" dev vb nodad
	on a ip link set va up
	on b ip link set vb up
	wait_for 5 on a ping -q -c 1 -W 1 "$B4"
	wait_for 5 on a ping -q -c 1 -W 1 "$B6"
}

# Many enough that first, middle, last and only packets come of each
data=(-t write -t write-imm -t send -t send-imm -t read -t zero -t atomic)

# Every operation and some refusals over both IP versions, to $RUN/pcap
capture() {
	local dump verify=$XR_BUILD/selftests/e2e/rdma_verify

	on wire tcpdump -i pa --immediate-mode -U -B 65536 -w "$RUN/pcap" udp port 4791 2>"$RUN/tcpdump" 3>&- &
	dump=$!
	wait_for 5 grep -q listening "$RUN/tcpdump"
	both "$verify" -g @4 -n 6 -s 2 -m 1024 "${data[@]}"
	both "$verify" -g @6 -n 2 -m "$PMTU" "${data[@]}"
	both "$verify" -g @4 -t wrong-variant -t read-one-above -t short-receive
	both "$XR_BUILD/selftests/e2e/rdma_opcodes" -g @4
	both "$XR_BUILD/selftests/e2e/rdma_opcodes" -g @6
	both ibv_rc_pingpong -g @6 -c -n 5 -s 1
	both ibv_uc_pingpong -g @4 -n 3 -m 1024 -s 5000
	both ib_write_lat -c UC -x @4 -F -n 5 -s 20000
	both ibv_ud_pingpong -g @4 -n 3 -s 100
	both ibv_ud_pingpong -g @6 -n 3 -s 100
	kill "$dump"
	wait "$dump" || true
	cat "$RUN/tcpdump"
}

# of FIELD FILTER: how often which value
of() {
	tshark -r "$RUN/pcap" -Y "${2:-infiniband}" -T fields -e "$1" 2>/dev/null | sort | uniq -c
}

@test "tshark: every packet is dissected as RoCE v2, none is malformed" {
	local all roce

	all=$(tshark -r "$RUN/pcap" -Y 'udp.dstport == 4791' 2>/dev/null | wc -l)
	roce=$(tshark -r "$RUN/pcap" -Y infiniband.bth 2>/dev/null | wc -l)
	echo "$all packets, $roce of them with a BTH"
	((all > 500))
	equal "with a BTH" "$roce" "$all"
	# tshark 4.0 looks for an EtherType header in the payload of every SEND, also where less than
	# these four bytes is left (UDP length: headers, payload and ICRC)
	tshark -r "$RUN/pcap" -Y '(_ws.malformed || _ws.short) && udp.length > 28' 2>/dev/null >"$RUN/malformed"
	head -n 5 "$RUN/malformed"
	[[ ! -s $RUN/malformed ]]
}

# RoCE v2 leaves out the checksum of UDP, also over IPv6
@test "tshark: checksums of IP and lengths of UDP are right" {
	local bad

	bad=$(tshark -o ip.check_checksum:TRUE -r "$RUN/pcap" \
		-Y 'ip.checksum.status == 0 || udp.length.bad || udp.checksum != 0' 2>/dev/null)
	echo "$bad" | head -n 5
	[[ -z $bad ]]
}

# Which ones there are, rdma_opcodes takes from include/xroce/opcode.h.
@test "tshark: every opcode that we send is there, of RC, UC, UD and XRC" {
	local op name seen missing=0

	seen=$(of infiniband.bth.opcode)
	while read -r op name; do
		grep -qE " $op\$" <<<"$seen" || { echo "no packet of $name ($op)"; missing=1; }
	done < <("$XR_BUILD/selftests/e2e/rdma_opcodes" -l)
	((missing == 0))
}

@test "tshark: acknowledgements and NAKs read as such" {
	local seen

	seen=$(of infiniband.aeth.syndrome.opcode infiniband.aeth)
	echo "$seen"
	grep -qE ' 0$' <<<"$seen"
	seen=$(of infiniband.aeth.syndrome.error_code 'infiniband.aeth.syndrome.opcode == 3')
	echo "NAK codes: $seen"
	grep -qE ' 2$' <<<"$seen"
}

@test "tshark: every ICRC is right" {
	requires python3
	local line

	run "$XR_TOP/selftests/e2e/icrc.py" "$RUN/pcap"
	echo "$output"
	((${#lines[@]} >= 21))
	for line in "${lines[@]}"; do
		[[ $line == *" 0" ]]
	done
}
