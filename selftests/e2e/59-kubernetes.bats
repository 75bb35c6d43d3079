#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The pods of docs/examples/pod.yaml, run by pods.py with podman in place of a kubelet, on the networks that clusters have.

load helpers

# The network namespace "wire" is that of the node.
setup_file() {
	requires root podman crun ib_write_bw
	[[ -z $(sanitizer_preload) ]] || skip "built with sanitizers"
	python3 -c 'import yaml' || skip "python3-yaml is not installed"
	hosts_up 1500
	make_netns wire
	on a ip link del va
}

# interfaces: gives each host an interface eth0, whose peer pa or pb is an interface of the node
interfaces() {
	local h

	for h in a b; do
		on wire ip link del "p$h" 2>/dev/null || true
		ip link add eth0 mtu 1500 netns "$ID-$h" type veth peer name "p$h" mtu 1500 netns "$ID-wire"
		on "$h" ip link set eth0 up
		on wire ip link set "p$h" up
	done
}

# pods MANIFEST SECONDS: runs the pods of the manifest
pods() {
	"$XR_TOP/selftests/e2e/pods.py" "$1" $(($2 * SLOW)) "server=/run/netns/$ID-a=$A4" "client=/run/netns/$ID-b=$B4" 3>&-
}

# traffic_passes OUTPUT: both programs have printed a rate, and both daemons used sockets
traffic_passes() {
	local pod

	for pod in server client; do
		grep -qE "^$pod program:  *65536 +[0-9]+ .* [0-9.]*[1-9]" <<<"$1"
		grep -q "^$pod xroced: .*UDP port 4791 of eth0" <<<"$1"
	done
}

@test "two pods without privileges transfer data through the daemons in their sidecars, by a bridge" {
	interfaces
	on wire ip link add br0 type bridge
	for h in a b; do
		on wire ip link set "p$h" master br0
	done
	on wire ip link set br0 up
	on a ip address add "$A4/24" dev eth0
	on b ip address add "$B4/24" dev eth0
	run pods "$XR_TOP/docs/examples/pod.yaml" 60
	echo "$output"
	((status == 0))
	traffic_passes "$output"
	on wire ip link del br0
}

# As Calico does: the pods have addresses without a subnet, and no neighbour but the node.
@test "two pods without privileges transfer data by a node that routes" {
	interfaces
	on wire sysctl -q -w net.ipv4.ip_forward=1
	on wire ip address add 169.254.1.1/32 dev lo
	on a ip address add "$A4/32" dev eth0
	on b ip address add "$B4/32" dev eth0
	on wire ip route add "$A4/32" dev pa
	on wire ip route add "$B4/32" dev pb
	for h in a b; do
		on "$h" ip route add 169.254.1.1 dev eth0 scope link
		on "$h" ip route add default via 169.254.1.1 dev eth0
	done
	run pods "$XR_TOP/docs/examples/pod.yaml" 60
	echo "$output"
	((status == 0))
	traffic_passes "$output"
}

# changed SCRIPT: prints the name of a copy of the manifest that the script of sed has changed
changed() {
	sed "$1" "$XR_TOP/docs/examples/pod.yaml" >"$BATS_TEST_TMPDIR/pod.yaml"
	! cmp -s "$XR_TOP/docs/examples/pod.yaml" "$BATS_TEST_TMPDIR/pod.yaml"
	echo "$BATS_TEST_TMPDIR/pod.yaml"
}

@test "pods whose programs do not have the folder of the socket, the user of the daemon, or its name fail" {
	interfaces
	on a ip address add "$A4/24" dev eth0
	on b ip address add "$B4/24" dev eth0
	run -1 pods "$(changed '/readOnly: true}/d; /command: .xroce, run/,/volumeMounts/{/volumeMounts/d}')" 8
	echo "$output"
	[[ $output == *"no such folder"* || $output == *"no device"* ]]
	run -1 pods "$(changed 's/status, xr_eth0/status, xr_eth1/; s/failureThreshold: 30/failureThreshold: 3/')" 8
	echo "$output"
	[[ $output == *"the probe of server-xroced fails"* ]]
	run -1 pods "$(changed 's/runAsUser: 65532/runAsUser: 0/')" 8
	[[ $output == *"runAsNonRoot"* ]]
}
