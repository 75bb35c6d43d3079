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

# fields NAME: prints the values of that field for all threads of the daemon on host a, each value once
fields() {
	awk -v name="$1:" '$1 == name { print $2 }' /proc/"$(daemon_pid a)"/task/*/status | sort -u
}

@test "no thread of the daemon can gain privileges, and the system calls of all are filtered" {
	[[ $(fields NoNewPrivs) == 1 ]]
	[[ -z $SANITIZER ]] || skip "built with sanitizers, which make system calls of their own"
	[[ $(fields Seccomp) == 2 ]]
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
