#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The shortest check of the whole path: devices are listed, one message is transferred.

load helpers

@test "ibv_devices lists the device" {
	run_on a ibv_devices | tee /dev/stderr | grep -w xra
	run_on b ibv_devices | grep -w xrb
}

@test "ibv_devinfo shows an active RoCE port with IPv4 and IPv6 GIDs" {
	run_on a ibv_devinfo -v -d xra >"$BATS_TEST_TMPDIR/info"
	cat "$BATS_TEST_TMPDIR/info"
	grep -Eq 'state:\s+PORT_ACTIVE' "$BATS_TEST_TMPDIR/info"
	grep -Eq 'link_layer:\s+Ethernet' "$BATS_TEST_TMPDIR/info"
	grep -Eq 'active_mtu:\s+'"$PMTU" "$BATS_TEST_TMPDIR/info"
	grep -Eq 'GID\[.*::ffff:10.77.0.1, RoCE v2' "$BATS_TEST_TMPDIR/info"
	grep -Eq 'GID\[.*fd77::1, RoCE v2' "$BATS_TEST_TMPDIR/info"
}

@test "ibv_rc_pingpong completes" {
	both ibv_rc_pingpong -g @4 -n 10 -c
	grep -q '10 iters in' "$OUT/client"
}

# fields PID NAME: prints the values of that field for all threads of the process, each value once
fields() {
	awk -v name="$2:" '$1 == name { print $2 }' /proc/"$1"/task/*/status | sort -u
}

@test "the daemon runs as a user of its own without capabilities, and cannot gain any" {
	local pid name none=0000000000000000

	pid=$(daemon_pid a)
	# CAP_IPC_LOCK if root itself cannot raise the limit
	[[ $(awk '/Max locked memory/ { print $4 }' "/proc/$pid/limits") == unlimited ]] || none=0000000000004000
	for name in CapEff CapPrm; do
		equal "$name" "$(fields "$pid" $name)" "$none"
	done
	equal Uid "$(fields "$pid" Uid)" "$DAEMON_USER"
	equal Gid "$(fields "$pid" Gid)" "$DAEMON_USER"
	equal NoNewPrivs "$(fields "$pid" NoNewPrivs)" 1
	[[ -z $SANITIZER ]] || skip "built with sanitizers, which make system calls of their own"
	equal Seccomp "$(fields "$pid" Seccomp)" 2
}

@test "only the helper has capabilities, and only those that it needs" {
	local pid name all

	for pid in $(pgrep -P "$(daemon_pid a)"); do
		name=$(<"/proc/$pid/comm")
		all=$(fields "$pid" CapPrm)
		echo "$name $all"
		equal "NoNewPrivs of $name" "$(fields "$pid" NoNewPrivs)" 1
		if [[ $name == xroced-helper ]]; then
			# DAC_OVERRIDE 1, NET_ADMIN 12, NET_RAW 13, SYS_PTRACE 19, CHECKPOINT_RESTORE 40
			((0x$all & ~0x10000083002)) && return 1
		else
			equal "capabilities of $name" "$all" 0000000000000000
		fi
	done
	[[ $(pgrep -P "$(daemon_pid a)" -x xroced-helper) ]]
}

@test "ibv_devices lists no device without the provider" {
	run on a ibv_devices
	[[ $output != *xra* ]]
}

@test "the provider adds no device if no daemon is running" {
	mkdir -p "$BATS_TEST_TMPDIR/empty"
	run on a "$XROCE" run -r "$BATS_TEST_TMPDIR/empty" ibv_devices
	echo "$output"
	[[ $output != *xra* ]]
}

# bats test_tags=stock
@test "the daemon logs at its start what a kernel before 6.6 lacks" {
	local line="no multi-buffer AF_XDP before Linux 6.6: the largest path MTU is 2048"

	if kernel_at_least 6.6; then
		fails grep -F "no multi-buffer" "$RUN/a/log"
	else
		grep -F "$line" "$RUN/a/log"
	fi
}
