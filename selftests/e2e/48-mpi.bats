#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Open MPI of the distribution over the device, by UCX and by libfabric: two ranks on each host.

load helpers
load mpi

setup_file() {
	requires root mpirun.openmpi
	/usr/bin/python3 -c 'import mpi4py.rc; mpi4py.rc.initialize = False; import mpi4py.MPI' ||
		skip "needs the Debian package python3-mpi4py"
	hosts_up
	daemons_up
	write_agent
}

# mpi HOSTS RANKS OPTION...: runs the program of PROGRAM, by default mpi_exchange.py
mpi() {
	read -ra program <<<"${PROGRAM:-mpi_exchange.py}"
	open_mpi "$@" /usr/bin/python3 "selftests/e2e/${program[0]}" "${program[@]:1}"
}

# mpi_ucx TRANSPORT HOSTS RANKS: messages between ranks use only the device
mpi_ucx() {
	UCX_TLS="$1",self UCX_NET_DEVICES=all UCX_LOG_LEVEL=warn mpi "$2" "$3" -x UCX_TLS \
		--mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any
}

# mpi_libfabric PROVIDER HOSTS RANKS: one-sided operations over messages need MPI_THREAD_SINGLE
mpi_libfabric() {
	MPI4PY_RC_THREAD_LEVEL=single mpi "$2" "$3" -x MPI4PY_RC_THREAD_LEVEL \
		--mca pml cm --mca mtl ofi --mca osc pt2pt --mca mtl_ofi_provider_include "$1"
}

@test "MPI works over RC between two hosts" {
	counter_grows b rx_packets 1000 mpi_ucx rc_v "$A4:2,$B4:2" 4
}

@test "MPI works over UD between two hosts" {
	counter_grows b rx_packets 1000 mpi_ucx ud_v "$A4:2,$B4:2" 4
}

@test "MPI works over RC within one host" {
	grows_within a 100 mpi_ucx rc_v "$A4:4" 4
}

@test "MPI works over message endpoints of libfabric between two hosts" {
	counter_grows b rx_packets 1000 mpi_libfabric "verbs;ofi_rxm" "$A4:2,$B4:2" 4
}

# Each window is a memory region, and UCX exchanges its key between all ranks.
@test "MPI opens 200 windows at a time between two hosts" {
	PROGRAM="mpi_exchange.py 200" counter_grows b rx_packets 1000 mpi_ucx rc_v "$A4:2,$B4:2" 4
}

# provider/pause has the reason: while a thread polls, the others spin for the lock that it holds.
@test "four threads of each MPI rank exchange messages over RC at the same time" {
	PROGRAM="mpi_threads.py 4 20" grows_within a 100 mpi_ucx rc_v "$A4:4" 4
}
