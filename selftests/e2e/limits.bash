# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run rdma_limits: `load limits` after the helpers. Each test starts the daemon of host a
# with the limits that it is about.

setup_file() {
	requires root
	hosts_up
}

teardown() {
	report_failure
	daemon_down a
}

# Who makes objects and who serves that take turns: on one processor, since waking another that sleeps
# takes a virtual machine up to 0.1 ms, which a million times is too much.
PROCESSOR=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')

# limits KIND [OPTION...]: prints how many there were
limits() {
	local kind=$1

	shift
	taskset -cp "$PROCESSOR" "$(daemon_pid a)" >/dev/null	# the control thread only
	run_on a taskset -c "$PROCESSOR" timeout $((200 * SLOW)) "$XR_BUILD/selftests/e2e/rdma_limits" -g "$(gid_index a "$A4")" \
		"$@" "$kind"
}

# Memory of the daemon, KiB
rss() {
	awk '/^VmRSS/ { print $2 }' "/proc/$(daemon_pid a)/status"
}

memory_gib() {
	awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo
}

# below KIB: within a minute
below() {
	smaller() { (($(rss) < $1)); }
	wait_for 60 smaller "$1" || {
		echo "the daemon still has $(rss) KiB, wanted $1"
		return 1
	}
}
