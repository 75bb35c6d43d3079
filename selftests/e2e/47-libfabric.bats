#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libfabric of the distribution: its verbs provider, with reliable datagrams on top. Message endpoints (FI_EP_MSG)
# are only listed, not used: they need a connection manager.

load helpers

PROVIDER="verbs;ofi_rxd"

setup_file() {
	requires root fi_info fi_pingpong
	hosts_up
	daemons_up
}

# shellcheck disable=SC2034	# used by pair
PORT=47592	# of fi_pingpong's control connection

# pingpong OPTION...: runs fi_pingpong on both hosts, which verifies every byte (-c)
pingpong() {
	counter_grows b rx_packets 10 \
		pair fi_pingpong -p "$PROVIDER" -c "$@" -- fi_pingpong -p "$PROVIDER" -c "$@" "$A4"
}

@test "fi_info lists message, datagram and reliable datagram endpoints" {
	run_on a fi_info -p verbs >"$BATS_TEST_TMPDIR/info"
	grep -A4 'domain: xra$' "$BATS_TEST_TMPDIR/info" | grep -q FI_EP_MSG
	grep -A4 'domain: xra-dgram$' "$BATS_TEST_TMPDIR/info" | grep -q FI_EP_DGRAM
	run_on a fi_info -p "$PROVIDER" | grep -q FI_EP_RDM
}

@test "fi_pingpong works over reliable datagrams" {
	pingpong -e rdm -I 20 -S 64
	pingpong -e rdm -I 20 -S 3000
}

@test "fi_pingpong transfers messages of many packets" {
	pingpong -e rdm -I 10 -S 65536
}
