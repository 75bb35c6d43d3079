#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Which contexts are direct if XROCE_PATH does not say so

load helpers
load direct

setup_file() {
	requires root ibv_devinfo ib_send_bw
	hosts_up
	daemons_up --io socket
}

# opens WORD...: prints why a context of device xra is direct or not; each word is a variable of the environment
opens() {
	run_on a env -u XROCE_PATH XROCE_DEBUG=1 "$@" ibv_devinfo -d xra 2>&1
}

@test "contexts of a device that uses sockets are direct, and of one that uses XDP are not" {
	opens | grep 'xra: direct: the transport runs in this process'
	opens XROCE_PATH=auto | grep 'xra: direct: the transport runs in this process'
	daemon_down a
	daemon_up a --io xdp
	opens | grep "xra: by the daemon: the device has no sockets to lend: packets go the way 'xdp'"
	daemon_down a
	daemon_up a --io socket
}

# way: prints the way that the daemon of host a takes, and why
way() {
	status_of a '.io + ": " + .io_why'
}

@test "without --io, a daemon takes sockets on veth, as they have no zero copy, and programs of root are direct" {
	local programs reason="va has no zero-copy AF_XDP"

	kernel_at_least 6.3 || reason="the kernel does not tell whether va has zero-copy AF_XDP (Linux 6.3 does)"
	daemon_down a
	XR_IO=auto daemon_up a
	equal "way" "$(way)" "socket: $reason"
	grep "packets go by UDP sockets: $reason" "$RUN/a/log"
	pair env XROCE_PATH=auto ib_send_bw -F -D $((3 * SLOW)) -p "$PORT" -- \
		env XROCE_PATH=auto ib_send_bw -F -D $((3 * SLOW)) -p "$PORT" "$A4" &
	programs=$!
	direct_qp() { [[ $(ctl a qp -j xra | jq -r '[.[].path] | join(" ")') == direct ]]; }
	wait_for 10 direct_qp
	equal "slots" "$(status_of a '.slots | [.lent, .loans[].by] | join(" ")')" "1 sockets"
	wait $programs
	has_result "$(out)/client"
}

@test "without --io, a daemon takes XDP for an option that only XDP has" {
	local options

	for options in "--attach native" "--queues 1"; do
		daemon_down a
		# shellcheck disable=SC2086
		XR_IO=auto daemon_up a $options
		equal "way with $options" "$(way)" "xdp: requested by --attach, --dispatcher or --queues"
		opens | grep 'xra: by the daemon: the device has no sockets to lend'
	done
	daemon_down a
	daemon_up a --io socket
}

@test "programs run directly, and by the daemon without slots" {
	pair env -u XROCE_PATH ib_send_bw -F -n 500 -p "$PORT" -- env -u XROCE_PATH ib_send_bw -F -n 500 -p "$PORT" "$A4"
	has_result "$OUT/client"
	daemon_down a
	daemon_up a --io socket --slots 0
	opens | grep 'xra: by the daemon: the device has no sockets to lend: --slots is 0'
	pair env -u XROCE_PATH ib_send_bw -F -n 500 -p "$PORT" -- env -u XROCE_PATH ib_send_bw -F -n 500 -p "$PORT" "$A4"
	has_result "$OUT/client"
}

@test "contexts of the loopback interface go the daemon's way, unless they are to be direct" {
	lo_daemon_up
	opens | grep 'xra: by the daemon: all peers are on this host'
	opens XROCE_PATH=direct | grep 'xra: direct: the transport runs in this process'
}
