#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libfabric of the distribution: its verbs provider with message endpoints (FI_EP_MSG), which connect by rdma_cm, and
# reliable datagrams (FI_EP_RDM) over message endpoints (ofi_rxm) and over datagrams (ofi_rxd).

load helpers

setup_file() {
	requires root fi_info fi_pingpong
	hosts_up
	daemons_up
}

# shellcheck disable=SC2034	# used by pair
PORT=47592	# of fi_pingpong's control connection

# pingpong PROVIDER OPTION...: runs fi_pingpong on both hosts, which verifies every byte (-c)
pingpong() {
	counter_grows b rx_packets 10 \
		pair -t 60 fi_pingpong -p "$1" -c "${@:2}" -- fi_pingpong -p "$1" -c "${@:2}" "$A4"
}

# rxm_pingpong LAST OPTION... [SERVER]: pingpong over reliable datagrams on message endpoints. When the peer disconnects,
# libfabric 1.17 closes the endpoint at once (rxm_process_shutdown()), and completions of the last messages that the
# program has not read yet become errors. All data was compared by then: both sides have printed the line of size LAST.
rxm_pingpong() {
	local last=$1 options=("${@:2:$#-2}") server=${*: -1}

	run pair -t 60 fi_pingpong -p "verbs;ofi_rxm" -e rdm -c "${options[@]}" -- \
		fi_pingpong -p "verbs;ofi_rxm" -e rdm -c "${options[@]}" "$server"
	echo "$output"
	[[ $status == 0 ]] || {
		[[ $(grep -F '[error]' <<<"$output") == *"cq_readerr: Work Request Flushed Error" ]] &&
			(($(grep -cE "^ +$last " <<<"$output") == 2))
	}
}

@test "fi_info lists message, datagram and reliable datagram endpoints" {
	run_on a fi_info -p verbs >"$BATS_TEST_TMPDIR/info"
	grep -A4 'domain: xra$' "$BATS_TEST_TMPDIR/info" | grep -q FI_EP_MSG
	grep -A4 'domain: xra-dgram$' "$BATS_TEST_TMPDIR/info" | grep -q FI_EP_DGRAM
	run_on a fi_info -p "verbs;ofi_rxd" | grep -q FI_EP_RDM
	run_on a fi_info -p "verbs;ofi_rxm" | grep -q FI_EP_RDM
}

@test "fi_pingpong works over reliable datagrams" {
	pingpong "verbs;ofi_rxd" -e rdm -I 20 -S 64
	pingpong "verbs;ofi_rxd" -e rdm -I 20 -S 3000
}

@test "fi_pingpong transfers messages of many packets" {
	pingpong "verbs;ofi_rxd" -e rdm -I 10 -S 65536
}

@test "fi_pingpong connects message endpoints" {
	pingpong verbs -e msg -I 20 -S all
	pair -t 60 fi_pingpong -6 -p verbs -e msg -c -I 20 -S 3000 -- fi_pingpong -6 -p verbs -e msg -c -I 20 -S 3000 "$A6"
}

@test "fi_pingpong works over reliable datagrams on message endpoints" {
	counter_grows b rx_packets 10 rxm_pingpong 6m -I 20 -S all "$A4"
	rxm_pingpong 64k -6 -I 20 -S 65536 "$A6"
}

@test "fi_pingpong connects message endpoints within one host" {
	grows_within a 20 \
		pair -c a fi_pingpong -p verbs -e msg -c -I 20 -- fi_pingpong -p verbs -e msg -c -I 20 "$A4"
}

@test "without a server fi_pingpong fails" {
	run run_on b timeout $((20 * SLOW)) fi_pingpong -p verbs -e msg "$A4"
	echo "$output"
	[[ $status != 0 && $status != 124 && $output == *"Connection refused"* ]]
}
