#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# RDMA by UDP sockets on interfaces of many types, each of them made on both ends of a veth pair. docs/socket.md has the
# table. `make check-vm T=16-interfaces` runs those that this kernel lacks.

load helpers

setup_file() {
	requires root
	hosts_up "$MTU"
}

setup() {
	TUNNELS=()	# processes
	CARDS=()	# their names in the namespace that they came from
	load_modules
}

# Loads the modules of interfaces, in virtual machines; other kernels load it by themselves.
load_modules() {
	[[ -z ${XROCE_VM-} ]] || modprobe -qa 8021q bonding bridge dummy ip_gre ipip ipvlan macvlan tun vxlan wireguard || true
}

teardown() {
	local h

	report_failure
	((${#TUNNELS[@]} == 0)) || kill "${TUNNELS[@]}"
	for h in a b; do
		daemon_down $h || true
		[[ -z ${TUNNEL-} ]] || on $h ip link del "$TUNNEL" 2>/dev/null || true
		[[ ! -e /run/netns/$ID-node-$h ]] || {
			on node-$h ip link set "v$h" netns "$ID-$h"
			ip netns del "$ID-node-$h"
		}
		on $h ip link set "v$h" nomaster 2>/dev/null || true
		on $h ip addr add "$([[ $h == a ]] && echo "$A4" || echo "$B4")/24" dev "v$h" 2>/dev/null || true
		on $h ip link set "v$h" up
	done
	((${#CARDS[@]} != 2)) || {
		on a ip link set card0 netns $$ name "${CARDS[0]}"
		on b ip link set card0 netns $$ name "${CARDS[1]}"
	}
}

# makes NAME ARG...: creates an interface on both hosts with `ip link add`; @dev, @me and @peer stand for the veth
# interface and the addresses. Skips the test if the kernel has no such interfaces.
makes() {
	local h me peer arg args

	TUNNEL=$1
	shift
	for h in a b; do
		me=$A4 peer=$B4 args=()
		[[ $h == a ]] || me=$B4 peer=$A4
		for arg; do
			arg=${arg/#@dev/v$h}
			arg=${arg/#@me/$me}
			args+=("${arg/#@peer/$peer}")
		done
		run on $h ip link add "$TUNNEL" "${args[@]}"
		echo "$output"
		[[ $output != *"Unknown device type"* && $output != *"Operation not supported"* ]] ||
			skip "this kernel has no such interfaces: $*"
		((status == 0))
	done
}

# cards DRIVER [MTU]: gives each host a card of this driver, named card0. Skips the test unless the machine has two of
# them, which are connected: virtual machines of selftests/vm/module.mk.
cards() {
	local link h

	[[ -n ${XROCE_VM-} ]] || skip "cards are used in virtual machines only"
	modprobe -q "$1" || skip "this kernel has no $1"
	for link in /sys/class/net/*/device/driver; do
		[[ $(readlink "$link") != */"$1" ]] || CARDS+=("$(cut -d/ -f5 <<<"$link")")
	done
	((${#CARDS[@]} == 2)) || skip "there are ${#CARDS[@]} cards of $1, not 2"
	ip link set "${CARDS[0]}" netns "$ID-a" name card0
	ip link set "${CARDS[1]}" netns "$ID-b" name card0
	for h in a b; do
		on $h ip link set card0 mtu "${2:-1500}"
	done
}

# pods TYPE ARG...: moves the veth interface of each host to a namespace of its own, as that of a node, and gives the host
# an interface pod0 above it, as that of a pod. The nodes have routes to the pods. Skips the test if the kernel has no such
# interfaces.
pods() {
	local h

	TUNNEL=pod0
	for h in a b; do
		make_netns node-$h
		on $h ip link set v$h netns "$ID-node-$h"
		run on node-$h ip link add pod0 link v$h type "$@"
		echo "$output"
		[[ $output != *"Unknown device type"* && $output != *"Operation not supported"* ]] ||
			skip "this kernel has no such interfaces: $*"
		((status == 0))
		on node-$h ip link set pod0 netns "$ID-$h"
	done
	on node-a ip addr add "$A4/24" dev va
	on node-b ip addr add "$B4/24" dev vb
	on node-a ip link set va up
	on node-b ip link set vb up
	on node-a ip route add 10.78.0.2 via "$B4"
	on node-b ip route add 10.78.0.1 via "$A4"
}

# start_on NAME [OPTION...]: a daemon on the interface of each host
start_on() {
	local name=$1

	shift
	on a ip addr add 10.78.0.1/24 dev "$name"
	on b ip addr add 10.78.0.2/24 dev "$name"
	on a ip link set "$name" up
	on b ip link set "$name" up
	wait_for 10 on a ping -q -c 1 -W 1 10.78.0.2
	daemon_up a --io socket --interface "$name" "$@"
	daemon_up b --io socket --interface "$name" "$@"
}

# transfers [BYTES]: RC at the largest path MTU, and by rdma_cm
transfers() {
	local A4=10.78.0.1 B4=10.78.0.2 mtu

	mtu=$(status_of a .path_mtu)
	echo "path MTU $mtu, $(status_of a .mtu) bytes"
	both -t 30 ibv_rc_pingpong -g @4 -c -m "$mtu" -s "${1:-65536}" -n "$(iterations 100)"
	(
		load rdmacm
		pair rping -s -a "$A4" -p "$PORT" -C 10 -v -V -- rping -c -a "$A4" -p "$PORT" -C 10 -v -V
	)
	no_bad_packets 20
	equal "refused packets" "$(status_of a '.socket.tx_refused + .slots.tx_refused')" 0
}

@test "sockets: two hosts at a veth pair" {
	daemon_up a --io socket
	daemon_up b --io socket
	both ibv_rc_pingpong -g @4 -c -s 65536 -n 100
}

@test "sockets: a bridge" {
	makes br0 type bridge
	for h in a b; do
		on $h ip addr flush dev v$h scope global
		on $h ip link set v$h master br0
		on $h ip link set br0 mtu "$MTU"
	done
	start_on br0
	transfers
}

@test "sockets: a bond" {
	makes bond0 type bond mode active-backup
	for h in a b; do
		on $h ip addr flush dev v$h scope global
		on $h ip link set v$h down
		on $h ip link set v$h master bond0
	done
	start_on bond0
	transfers
}

@test "sockets: a VLAN" {
	makes vlan5 link @dev type vlan id 5
	start_on vlan5
	transfers
}

@test "sockets: macvlan" {
	# The lower interface would answer ARP requests for the address of the upper one, and get its packets.
	for h in a b; do
		on $h sysctl -qw net.ipv4.conf.all.arp_ignore=1
	done
	makes mac0 link @dev type macvlan mode bridge
	start_on mac0
	transfers
}

@test "sockets: ipvlan in mode L2" {
	makes ipv0 link @dev type ipvlan mode l2
	start_on ipv0
	transfers
}

@test "sockets: ipvlan in mode L3" {
	pods ipvlan mode l3
	start_on pod0
	transfers
}

@test "sockets: ipvlan in mode L3S" {
	pods ipvlan mode l3s
	start_on pod0
	transfers
}

@test "sockets: VXLAN" {
	makes vx0 type vxlan id 7 local @me remote @peer dev @dev dstport 4789
	start_on vx0
	transfers
}

@test "sockets: GRE" {
	makes tun0 type gre local @me remote @peer
	start_on tun0
	transfers
}

@test "sockets: IPIP" {
	makes tun0 type ipip local @me remote @peer
	start_on tun0
	transfers
}

@test "sockets: tun, by a program" {
	requires python3
	local program=$XR_TOP/selftests/e2e/tun_tunnel.py

	[[ -c /dev/net/tun ]] || skip "there is no /dev/net/tun"
	TUNNEL=tun0
	nsenter --net="/run/netns/$ID-a" -- /usr/bin/python3 "$program" tun0 "$A4" "$B4" 3>&- &
	TUNNELS+=($!)
	nsenter --net="/run/netns/$ID-b" -- /usr/bin/python3 "$program" tun0 "$B4" "$A4" 3>&- &
	TUNNELS+=($!)
	wait_for 5 on a ip link show tun0
	wait_for 5 on b ip link show tun0
	start_on tun0
	transfers $((65536 / SLOW))	# so that the program does not lose more than is sent again
}

@test "sockets: WireGuard" {
	requires wg
	local h

	makes wg0 type wireguard
	for h in a b; do
		wg genkey >"$BATS_TEST_TMPDIR/$h"
	done
	on a wg set wg0 listen-port 51820 private-key "$BATS_TEST_TMPDIR/a" peer "$(wg pubkey <"$BATS_TEST_TMPDIR/b")" \
		allowed-ips 10.78.0.0/24 endpoint "$B4:51820"
	on b wg set wg0 listen-port 51820 private-key "$BATS_TEST_TMPDIR/b" peer "$(wg pubkey <"$BATS_TEST_TMPDIR/a")" \
		allowed-ips 10.78.0.0/24 endpoint "$A4:51820"
	start_on wg0
	transfers
}

# on_cards DRIVER [MTU]
on_cards() {
	cards "$@"
	start_on card0
	transfers
}

@test "sockets: virtio-net" {
	on_cards virtio_net 9000
}

@test "sockets: e1000" {
	on_cards e1000
}

@test "sockets: e1000 with jumbo frames" {
	on_cards e1000 9000
}

@test "sockets: e1000e" {
	on_cards e1000e
}

@test "sockets: vmxnet3" {
	on_cards vmxnet3
}

@test "sockets: a path MTU below that of the interface refuses longer packets, and the QP reports it" {
	requires pmtu=4096
	daemon_up a --io socket
	daemon_up b --io socket
	on b ip route change 10.77.0.0/24 dev vb mtu 1500
	run both ibv_rc_pingpong -g @4 -m 4096 -s 65536 -n 10
	echo "$output"
	((status))
	[[ $output == *"transport retry counter exceeded"* ]]
	(($(status_of b '.socket.tx_refused + .slots.tx_refused') > 0))
	both ibv_rc_pingpong -g @4 -c -m 1024 -s 65536 -n 10
	on b ip route change 10.77.0.0/24 dev vb
}
