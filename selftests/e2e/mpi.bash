# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For tests of MPI and its relatives, after helpers.

# write_agent: writes $RUN/agent, the program by which mpirun and mpiexec start processes on host b
write_agent() {
	cat >"$RUN/agent" <<-END
		#!/bin/sh
		shift
		exec nsenter --net=/run/netns/$ID-b -- "$XROCE" run -r "$RUN/b" sh -c "\$*"
	END
	chmod +x "$RUN/agent"
}

# open_mpi HOSTS RANKS ARG...: runs mpirun of Open MPI on host a with options and a program
open_mpi() {
	local -x OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

	run run_on a timeout $((120 * SLOW)) mpirun.openmpi --oversubscribe --bind-to none --host "$1" -np "$2" \
		--mca plm_rsh_agent "$RUN/agent" --mca oob_tcp_if_include "$A4/24" "${@:3}"
	# shellcheck disable=SC2154	# set by `run`
	echo "$output"
	# shellcheck disable=SC2154
	[[ $status == 0 && $output == *"$2 ranks agree"* ]]
}
