#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UDP sockets that are bound to addresses (--bind address, or a dummy interface): packets leave and arrive through any
# interface, by the kernel's routes. Also two devices of one host, and daemons of both kinds beside each other.

load helpers

setup_file() {
	daemon_path "nothing is lent with --bind address"
}

setup() {
	requires root
	export XR_IO=auto	# the daemons find out that they need sockets
	hosts_up "$MTU"
	OTHER=10.79.0
}

teardown() {
	report_failure
	if [[ -e /run/netns/$ID-c ]]; then
		daemon_down c || true
		umount "/run/netns/$ID-c"
		rm -f "/run/netns/$ID-c"
	fi
	hosts_down
}

# routed NAME: gives NAME addresses that are reached through the veth pair, which is in another subnet
routed() {
	on a ip addr add "$OTHER.1/32" dev "$1"
	on b ip addr add "$OTHER.2/32" dev "$1"
	on a ip addr add fd79::1/128 dev "$1" nodad
	on b ip addr add fd79::2/128 dev "$1" nodad
	on a ip route add "$OTHER.2" via "$B4" src "$OTHER.1"
	on b ip route add "$OTHER.1" via "$A4" src "$OTHER.2"
	on a ip route add fd79::2 via "$B6" src fd79::1
	on b ip route add fd79::1 via "$A6" src fd79::2
}

# transfers: RC and UD over IPv4 and IPv6, and rdma_cm, between the routed addresses
transfers() {
	local A4=$OTHER.1 B4=$OTHER.2 A6=fd79::1 B6=fd79::2

	both -t 30 ibv_rc_pingpong -g @4 -c -s 65536 -n "$(iterations 100)"
	both -t 30 ibv_rc_pingpong -g @6 -c -s 65536 -n "$(iterations 100)"
	both -t 30 ibv_ud_pingpong -g @4 -n "$(iterations 100)"
	(
		load rdmacm
		pair rping -s -a "$A4" -p "$PORT" -C 10 -v -V -- rping -c -a "$A4" -p "$PORT" -C 10 -v -V
	)
	equal "refused packets" "$(status_of a .socket.tx_refused)" 0
	equal "what sockets are bound to" "$(status_of a .socket.bind)" address
}

# unrouted NAME: takes these addresses from NAME, and the routes that use them
unrouted() {
	local h

	for h in a b; do
		on $h ip addr del "$OTHER.$([[ $h == a ]] && echo 1 || echo 2)/32" dev "$1"
		on $h ip addr del "fd79::$([[ $h == a ]] && echo 1 || echo 2)/128" dev "$1"
		on $h ip route del "$OTHER.0/30" 2>/dev/null || true
		on $h ip -6 route del fd79::2 2>/dev/null || true
		on $h ip -6 route del fd79::1 2>/dev/null || true
	done
}

# serves HOST COUNT: waits until the daemon has sockets of so many addresses
serves() {
	has_sockets() { [[ $(status_of "$1" .socket.addresses) == "$2" ]]; }
	wait_for 10 has_sockets "$@" || {
		status_of "$1" .socket
		return 1
	}
}

# receiving HOST: prints address and receive buffer of each socket on the RoCE v2 port
receiving() {
	on "$1" ss -OHuanm "sport = :4791" | sed -E 's/^.*\[(::ffff:)?([^]]*)\]:4791 .*,rb([0-9]+),.*/\2 \3/' | sort
}

# twice LINE...
twice() {
	printf '%s\n' "$@" "$@" | sort
}

# change_addresses COUNT: host a gets two addresses and loses them again, so many times
change_addresses() {
	local i

	for ((i = 0; i < $1; i++)); do
		on a ip addr add "$OTHER.5/32" dev va
		on a ip addr add "$OTHER.6/32" dev va
		serves a 4
		on a ip addr del "$OTHER.5/32" dev va
		serves a 3
		on a ip addr del "$OTHER.6/32" dev va
		serves a 2
	done
}

# third_on_a OPTION...: another daemon on host a, called c
third_on_a() {
	if [[ ! -e /run/netns/$ID-c ]]; then
		touch "/run/netns/$ID-c"
		mount --bind "/run/netns/$ID-a" "/run/netns/$ID-c"
		mkdir -p "$RUN/c"
	fi
	daemon_up c "$@"
}

# one_host: moves the interface of host b to host a, which is host b from now on
one_host() {
	on b ip link set vb netns "$ID-a"
	umount "/run/netns/$ID-b"
	mount --bind "/run/netns/$ID-a" "/run/netns/$ID-b"
	on a ip address flush dev va scope global
	on a ip link set vb up
	on a ip address add "$A4/24" dev va
	on a ip address add "$A6/64" dev va nodad
	on a ip address add "$B4/24" dev vb
	on a ip address add "$B6/64" dev vb nodad
}

@test "UDP sockets of a dummy interface: hosts reach each other by routes" {
	local h

	[[ -z ${XROCE_VM-} ]] || modprobe -qa dummy || true
	for h in a b; do
		run on $h ip link add dum0 type dummy
		[[ $output != *"Unknown device type"* ]] || skip "this kernel has no dummy interfaces"
		((status == 0))
		on $h ip link set dum0 up
	done
	routed dum0
	daemon_up a --interface dum0
	daemon_up b --interface dum0
	[[ $(status_of a .io_why) == "dum0 is a dummy interface" ]]
	transfers
}

@test "UDP sockets bound to addresses of lo: hosts reach each other by routes, with two workers as well" {
	routed lo
	daemon_up a --interface lo --bind address --workers 2
	daemon_up b --interface lo --bind address
	transfers
}

@test "UDP sockets bound to addresses: packets to an address arrive that is added later, removed, and added again" {
	local h buffer

	for h in a b; do
		daemon_up $h --interface lo --bind address --workers 2
	done
	serves a 2	# 127.0.0.1 and ::1
	buffer=$(status_of a .socket.receive_buffer)
	routed lo
	serves a 4
	serves b 4
	transfers
	# with the buffers that the daemon had the privilege to set
	large() { [[ $(receiving a) == "$(twice "127.0.0.1 $buffer" "::1 $buffer" "$OTHER.1 $buffer" "fd79::1 $buffer")" ]]; }
	wait_for 5 large || {
		receiving a
		return 1
	}
	not grep "do not arrive" "$RUN/a/log"

	unrouted lo
	serves a 2
	serves b 2
	equal "sockets" "$(receiving a)" "$(twice "127.0.0.1 $buffer" "::1 $buffer")"
	not gid_index a "$OTHER.1"
	not gid_index a fd79::1

	routed lo
	serves a 4
	serves b 4
	transfers
}

@test "UDP sockets bound to addresses: a stream loses nothing while other addresses come and go" {
	requires ib_write_bw
	local h stream

	for h in a b; do
		daemon_up $h --bind address --workers 2
	done
	serves a 2
	both -t 60 ib_write_bw -F -x @4 -s 65536 -n "$(iterations 20000)" -q 4 -u 18 &
	stream=$!
	flows() { (($(counter a rx_packets) > 100)); }
	wait_for 20 flows
	change_addresses 10
	kill -0 $stream	# it was under way all the time
	wait $stream
	equal "packets from b" "$(counter a rx_packets)" "$(counter b tx_packets)"
	equal "packets from a" "$(counter b rx_packets)" "$(counter a tx_packets)"
	equal "dropped by the kernel" "$(ctl a status -j xra | jq '[.workers[].rx_ring_full] | add')" 0
}

@test "UDP sockets bound to addresses: an address that another daemon has arrives when that one gives it up" {
	one_host
	daemon_up a --bind address
	daemon_up b --bind address
	on a ip addr add "$OTHER.1/32" dev va
	serves a 3
	on a ip addr add "$OTHER.1/32" dev vb
	missing() { [[ $(status_of b .socket.addresses_missing) == "$1" ]]; }
	wait_for 5 missing 1
	grep -q "packets to $OTHER.1 do not arrive yet: UDP port 4791: Address already in use, by another daemon" "$RUN/b/log"
	on a ip addr del "$OTHER.1/32" dev va
	serves a 2
	serves b 3
	missing 0
	grep -q "packets to $OTHER.1 arrive now" "$RUN/b/log"
}

@test "UDP sockets bound to addresses: a user without capabilities serves an address that is added later" {
	requires setpriv
	local user=(setpriv --reuid 64793 --regid 64793 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs)
	local options=(--interface lo --name xra --runtime-dir "$RUN/a" --bind address --io socket)

	chown 64793 "$RUN/a"
	nsenter --net="/run/netns/$ID-a" -- "${user[@]}" "$XROCED" "${options[@]}" </dev/null >>"$RUN/a/log" 2>&1 3>&- &
	echo $! >"$RUN/a/pid"
	wait_for 10 daemon_running a
	daemon_up b --interface lo --bind address
	routed lo
	serves a 4
	serves b 4
	transfers
	unrouted lo
	serves a 2
	not grep "do not arrive" "$RUN/a/log"
}

@test "UDP sockets bound to addresses are not lent to programs, and direct contexts say so" {
	daemon_up a --bind address
	run env XROCE_DEBUG=1 XROCE_PATH=direct nsenter --net="/run/netns/$ID-a" -- "$XROCE" run -r "$RUN/a" ibv_devinfo
	echo "$output"
	((status))
	[[ $output == *"no sockets to lend: they are bound to addresses (--bind)"* ]]
}

@test "UDP sockets bound to addresses: two devices of one host reach each other" {
	one_host
	daemon_up a --bind address
	daemon_up b --bind address
	both ibv_rc_pingpong -g @4 -c -s 65536 -n 100
	both ibv_rc_pingpong -g @6 -c -s 65536 -n 100
	both ibv_ud_pingpong -g @6 -n 20
}

@test "UDP sockets bound to an address get its packets beside a daemon of the interface where they arrive" {
	routed lo
	daemon_up a --interface lo --bind address
	daemon_up b --interface lo --bind address
	third_on_a --io socket --interface va
	transfers
	# and the other way round: the first of these sockets come last
	daemon_down a
	daemon_up a --interface lo --bind address
	transfers
	equal "packets of the daemon of the interface" "$(ctl c counters -j xrc | jq '[.xdp[] | .packets // 0] | add')" 0
}

@test "UDP sockets bound to an address that another daemon has: the daemon does not start" {
	daemon_up a --bind address
	for mode in address interface; do
		run third_on_a --interface va --bind $mode
		echo "$output"
		((status))
		[[ $output == *"Address already in use, by another daemon"* ]]
	done
	daemon_down a
	third_on_a --interface va --bind interface
	run daemon_up a --bind address
	echo "$output"
	((status))
	[[ $output == *"Address already in use, by another daemon"* ]]
}

@test "UDP sockets bound to addresses: multicast groups are refused" {
	daemon_up a --bind address
	for group in 239.7.7.7 ff0e::77; do
		run timeout -k 1 10 nsenter --net="/run/netns/$ID-a" -- "$XROCE" run -r "$RUN/a" "$BIN/rdma_datagram" listen \
			"$(gid_index a "$([[ $group == *:* ]] && echo "$A6" || echo "$A4")")" 1 "$group"
		echo "$output"
		((status))
		[[ $output == *attach_mcast* ]]
	done
}
