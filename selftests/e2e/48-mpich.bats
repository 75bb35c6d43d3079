#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# MPICH of the distribution (ch4:ucx) over the device: two ranks on each host.

load helpers
load mpi

setup_file() {
	requires root mpicc.mpich mpiexec.hydra
	hosts_up
	daemons_up
	mpicc.mpich -O2 -o "$RUN/mpi_sums" selftests/e2e/mpi_sums.c
	write_agent
}

# mpich TRANSPORT HOSTS RANKS: messages between ranks use only the device. Without -genvlist, ranks on host b would get
# the environment of host a, and with it the daemon of host a.
mpich() {
	run run_on a timeout $((60 * SLOW)) env UCX_TLS="$1",self UCX_NET_DEVICES=all UCX_LOG_LEVEL=warn \
		mpiexec.hydra -genvlist UCX_TLS,UCX_NET_DEVICES,UCX_LOG_LEVEL -launcher rsh \
		-launcher-exec "$RUN/agent" -iface va -hosts "$2" -np "$3" "$RUN/mpi_sums"
	echo "$output"
	[[ $status == 0 && $output == *"$3 ranks agree"* ]]
}

@test "MPICH works over RC between two hosts" {
	counter_grows b rx_packets 1000 mpich rc_v "$A4:2,$B4:2" 4
}

@test "MPICH works over UD between two hosts" {
	counter_grows b rx_packets 1000 mpich ud_v "$A4:2,$B4:2" 4
}

@test "MPICH works over RC within one host" {
	grows_within a 100 mpich rc_v "$A4:4" 4
}
