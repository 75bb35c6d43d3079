# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Run inside the guest: two rxe devices at the two ends of a veth pair, both in the initial network namespace (rxe of 6.1 knows
# no other), such that the traffic between them really crosses the pair: rxea 10.9.0.1 <-> rxeb 10.9.0.2, GID index 1.
# For rxe <-> xroce keep va as it is and move vb into a namespace instead.
MTU=${MTU:-9000}
modprobe -a veth rdma_rxe ib_uverbs rdma_ucm ib_umad
ip link add va mtu "$MTU" type veth peer name vb mtu "$MTU"
for i in all va vb; do
	sysctl -qw net.ipv4.conf.$i.accept_local=1 net.ipv4.conf.$i.rp_filter=0 \
		net.ipv4.conf.$i.arp_ignore=1 net.ipv4.conf.$i.arp_announce=2
done
sysctl -qw net.core.netdev_max_backlog=20000	# 1000 loses READ bursts of 1 MiB at MTU 1024
ip addr add 10.9.0.1/24 dev va; ip addr add 10.9.0.2/24 dev vb
ip link set va up; ip link set vb up
sleep 2
rdma link add rxea type rxe netdev va
rdma link add rxeb type rxe netdev vb
sleep 1
