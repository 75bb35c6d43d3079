# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run rdma_limits: `load limits` after the helpers. Each test starts the daemon of host a
# with the limits that it needs.

setup_file() {
	requires root
	hosts_up
}

teardown() {
	report_failure
	daemon_down a
}

# The program and the daemon's control thread take turns, so they run on the same processor: in a virtual machine
# waking another processor takes up to 0.1 ms, which is too long for a million requests.
PROCESSOR=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')

# limits KIND [OPTION...]: runs rdma_limits, which prints how many objects it created. `$(limits ...)` in the arguments of
# another command loses the exit status, so the output shows it.
limits() {
	local kind=$1

	shift
	taskset -cp "$PROCESSOR" "$(daemon_pid a)" >/dev/null	# its control thread only
	run_on a taskset -c "$PROCESSOR" timeout $((200 * SLOW)) "$BIN/rdma_limits" -g "$(gid_index a "$A4")" \
		"$@" "$kind" || {
		echo "rdma_limits failed"
		return 1
	}
}

# Prints the free memory of the machine in GiB.
memory_gib() {
	awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo
}

# rss_below KIB: waits until the daemon's resident memory is below KIB, for at most a minute
rss_below() {
	smaller() { (($(rss a) < $1)); }
	wait_for 60 smaller "$1" || {
		echo "the daemon still uses $(rss a) KiB, expected less than $1"
		return 1
	}
}
