#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libfabric as the distribution ships it: its verbs provider, and reliable datagrams over it.
# Message endpoints (FI_EP_MSG) need a connection manager.

load helpers

PROVIDER="verbs;ofi_rxd"

setup_file() {
	requires root fi_info fi_pingpong
	hosts_up
	daemons_up
}

# fi_pingpong's control connection
# shellcheck disable=SC2034	# used in hosts.bash
PORT=47592

# pingpong OPTION...: on both hosts, with every byte compared (-c)
pingpong() {
	local before after

	before=$(counter b rx_packets)
	pair fi_pingpong -p "$PROVIDER" -c "$@" -- fi_pingpong -p "$PROVIDER" -c "$@" "$A4"
	after=$(counter b rx_packets)
	((after - before >= 10)) || {
		echo "fi_pingpong $*: $((after - before)) packets at b"
		return 1
	}
}

@test "fi_info lists the device: messages, datagrams, reliable datagrams" {
	run_on a fi_info -p verbs >"$BATS_TEST_TMPDIR/info"
	grep -A4 'domain: xra$' "$BATS_TEST_TMPDIR/info" | grep -q FI_EP_MSG
	grep -A4 'domain: xra-dgram$' "$BATS_TEST_TMPDIR/info" | grep -q FI_EP_DGRAM
	run_on a fi_info -p "$PROVIDER" | grep -q FI_EP_RDM
}

@test "fi_pingpong, reliable datagrams" {
	pingpong -e rdm -I 20 -S 64
	pingpong -e rdm -I 20 -S 3000
}

@test "fi_pingpong, messages of many packets" {
	pingpong -e rdm -I 10 -S 65536
}
