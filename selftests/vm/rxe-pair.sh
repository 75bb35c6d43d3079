# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# To be sourced inside a guest: creates two rxe devices on the two ends of a veth pair, rxea 10.9.0.1 and rxeb 10.9.0.2,
# GID index 1. Both are in the initial network namespace, the only one that rxe of Linux 6.1 supports. The sysctls make
# the traffic between them cross the veth pair.
MTU=${MTU:-9000}
modprobe -a veth rdma_rxe ib_uverbs rdma_ucm ib_umad
ip link add va mtu "$MTU" type veth peer name vb mtu "$MTU"
for i in all va vb; do
	sysctl -qw net.ipv4.conf.$i.accept_local=1 net.ipv4.conf.$i.rp_filter=0 \
		net.ipv4.conf.$i.arp_ignore=1 net.ipv4.conf.$i.arp_announce=2
done
sysctl -qw net.core.netdev_max_backlog=20000	# with 1000, bursts of READ responses of 1 MiB at MTU 1024 are lost
ip addr add 10.9.0.1/24 dev va; ip addr add 10.9.0.2/24 dev vb
ip link set va up; ip link set vb up
sleep 2
rdma link add rxea type rxe netdev va
rdma link add rxeb type rxe netdev vb
sleep 1
