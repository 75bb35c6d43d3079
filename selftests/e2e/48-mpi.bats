#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Open MPI of the distribution over the device, by UCX and by libfabric: two ranks on each host.

load helpers

setup_file() {
	requires root mpirun
	/usr/bin/python3 -c 'import mpi4py.rc; mpi4py.rc.initialize = False; import mpi4py.MPI' ||
		skip "needs the Debian package python3-mpi4py"
	hosts_up
	daemons_up
	# mpirun starts processes on the other host by this command
	cat >"$RUN/agent" <<-END
		#!/bin/sh
		shift
		exec nsenter --net=/run/netns/$ID-b -- "$XROCE" run -r "$RUN/b" sh -c "\$*"
	END
	chmod +x "$RUN/agent"
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# mpi HOSTS RANKS OPTION...: runs mpi_exchange.py
mpi() {
	run run_on a timeout $((60 * SLOW)) mpirun --oversubscribe --bind-to none --host "$1" -np "$2" \
		--mca plm_rsh_agent "$RUN/agent" --mca oob_tcp_if_include "$A4/24" "${@:3}" \
		/usr/bin/python3 selftests/e2e/mpi_exchange.py
	echo "$output"
	[[ $status == 0 && $output == *"$2 ranks agree"* ]]
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
	counter_grows a loopback_operations 100 mpi_ucx rc_v "$A4:4" 4
}

@test "MPI works over message endpoints of libfabric between two hosts" {
	counter_grows b rx_packets 1000 mpi_libfabric "verbs;ofi_rxm" "$A4:2,$B4:2" 4
}
