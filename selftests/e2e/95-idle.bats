#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# An idle daemon uses no processor time and does not wake up.

load helpers

# ticks PID: prints the user and system time of the process in clock ticks
ticks() {
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# idle: the daemon of host a uses less than 1 % of a processor during 2 s
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

# wakeups PID: prints how often the threads of the process have slept
wakeups() {
	cat /proc/"$1"/task/*/status | awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n }'
}

# sleeps_on: no thread of host a's daemon wakes up for 2 s; events of the network may wake it in some of the attempts
sleeps_on() {
	local pid before after attempt

	pid=$(daemon_pid a)
	for attempt in 1 2 3 4 5; do
		before=$(wakeups "$pid")
		sleep 2
		after=$(wakeups "$pid")
		echo "attempt $attempt: $((after - before)) wake-ups in 2 s"
		((after > before)) || return 0
	done
	return 1
}

@test "a daemon without programs sleeps until something happens" {
	[[ -z $SANITIZER ]] || skip "built with sanitizers, which have a thread that wakes up"
	sleeps_on
}

@test "a daemon without programs uses less than 1 % of a processor" {
	idle
}

@test "a daemon with a sleeping program uses less than 1 % of a processor" {
	both ib_write_bw -x @4 -F -n $((2000 / SLOW))
	run_on a timeout $((10 * SLOW)) "$BIN/rdma_watch" events 6 >/dev/null 2>&1 3>&- &
	sleep 0.5
	idle
	wait $!
}
