#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Other XDP programs on the interface of a daemon: those of xdp-tools, both ways round

load helpers

# Host a has no daemon.
setup_file() {
	requires root xdp-filter xdp-loader
	hosts_up 3000
	daemon_up b
}

# tools HOST COMMAND...: runs a program of xdp-tools, with its pins in the BPF file system of this run
tools() {
	on "$1" unshare -m sh -c 'mount --bind "$0" /sys/fs/bpf && exec "$@"' "$RUN/bpf" "${@:2}"
}

# xroced on host a, which must refuse to start; prints its messages
refused() {
	fails on a timeout $((20 * SLOW)) "$XROCED" --interface va --name xra --runtime-dir "$RUN/a" --bpffs "$RUN/bpf" \
		--user "$DAEMON_USER" 2>&1 3>&-
}

# bats test_tags=stock
@test "xroced names the XDP program that is on the interface, and how to remove it" {
	local mode

	for mode in native skb; do
		tools a xdp-filter load -m "$mode" va -f udp
		run refused
		echo "$output"
		((status == 0))
		[[ $output == *"XDP on va is in use by xdpfilt_alw_udp (id "*"xdp-loader unload --all va"* ]]
		tools a xdp-loader unload --all va
	done
	daemon_up a
	both ibv_rc_pingpong -g @4 -c -n 50
	daemon_down a
}

# bats test_tags=stock
@test "xroced names every program that the dispatcher of libxdp calls" {
	tools a xdp-filter load -m native va -f udp
	if ! tools a xdp-loader status va | grep -q xdp_dispatcher; then
		tools a xdp-loader unload --all va
		skip "this kernel does not permit freplace programs, so libxdp attached xdp-filter without its dispatcher"
	fi
	tools a xdp-loader load -m native va /usr/lib/x86_64-linux-gnu/bpf/xdpfilt_dny_ip.o
	run refused
	echo "$output"
	tools a xdp-loader unload --all va
	((status == 0))
	[[ $output == *"xdpfilt_alw_udp (id "*", xdpfilt_dny_ip (id "* || $output == *"xdpfilt_dny_ip (id "*", xdpfilt_alw_udp (id "* ]]
}

@test "programs of xdp-tools do not replace the program of a running daemon" {
	daemon_up a
	# The exit status of xdp-tools is 256 less an error number.
	not tools a xdp-filter load -m native va
	not tools a xdp-loader load -m native va /usr/lib/x86_64-linux-gnu/bpf/xdpfilt_dny_ip.o
	not tools a xdp-loader unload --all va
	fails on a ip link set va xdp off
	tools a xdp-loader status va | grep -E 'va .*xroce'
	both ibv_rc_pingpong -g @4 -c -n 50
}
