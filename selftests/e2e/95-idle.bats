#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# An idle daemon costs nothing.

load helpers

# Clock ticks of user and system time so far
ticks() {
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# idle: less than 1 % of a processor, in 2 s
idle() {
	local pid before after hz

	pid=$(daemon_pid a)
	hz=$(getconf CLK_TCK)
	before=$(ticks "$pid")
	sleep 2
	after=$(ticks "$pid")
	echo "$((after - before)) ticks of $((2 * hz))"
	((100 * (after - before) < 2 * hz))
}

@test "idle: under 1 % of a processor, with no program" {
	idle
}

@test "idle: also after traffic, with a program that is open and sleeps" {
	both ib_write_bw -x @4 -F -n $((2000 / SLOW))
	run_on a timeout $((10 * SLOW)) "$XR_BUILD/selftests/e2e/rdma_watch" events 6 >/dev/null 2>&1 3>&- &
	sleep 0.5
	idle
	wait $!
}
