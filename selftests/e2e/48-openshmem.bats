#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# OpenSHMEM of Open MPI over the device, by UCX, with a program of ours: shmem_exchange.c checks every value.

load helpers
load mpi

setup_file() {
	requires root mpirun.openmpi oshcc
	echo '#include <shmem.h>' | oshcc -fsyntax-only -x c - 2>/dev/null || skip "needs the Debian package libopenmpi-dev"
	hosts_up
	daemons_up
	write_agent
	oshcc -O2 -o "$RUN/shmem" selftests/e2e/shmem_exchange.c
}

# shmem TRANSPORT HOSTS RANKS: data between ranks uses only the device
shmem() {
	UCX_TLS="$1",self UCX_NET_DEVICES=all UCX_LOG_LEVEL=warn open_mpi "$2" "$3" -x UCX_TLS \
		--mca spml ucx --mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any "$RUN/shmem"
}

@test "OpenSHMEM works over RC between two hosts" {
	counter_grows b rx_packets 1000 shmem rc_v "$A4:2,$B4:2" 4
}

@test "OpenSHMEM works over RC within one host" {
	grows_within a 100 shmem rc_v "$A4:3" 3
}
