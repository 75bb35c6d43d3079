#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Reasons of refused verbs, and hints of the daemon at its start

load helpers

setup_file() {
	requires root
	hosts_up 1500
	daemon_up a --log-level debug
}

@test "XROCE_DEBUG prints why a verb is refused, once" {
	run_on a env XROCE_DEBUG=1 "$BIN/rdma_refusals" -g "$(gid_index a "$A4")"
}

@test "the daemon logs the reasons at debug" {
	daemon_path "it does not see the requests of direct programs"
	run_on a env XROCE_DEBUG=1 "$BIN/rdma_refusals" -g "$(gid_index a "$A4")"
	grep -q "(rdma_refusals, pid .*): MODIFY_QP: Invalid argument: ah_attr.is_global is 0; RoCE needs a GRH" "$RUN/a/log"
	not grep -E "pid [0-9]+\): [A-Z_]+: [A-Za-z ]+$" "$RUN/a/log"
}

@test "a small MTU is logged at the start" {
	equal "hints" "$(grep -c "va has MTU 1500: the path MTU is 1024" "$RUN/a/log")" 1
	not grep "no IP address\|no native XDP" "$RUN/a/log"
}

@test "without a link-local address GID 0 is the first other address" {
	on a ip address del "$(on a ip -j -6 address show dev va scope link |
		jq -r '.[0].addr_info[] | select(.local) | .local')/64" dev va
	wait_for 5 gid_0_is "$A4"
}

# whether index 0 of host a has that GID
gid_0_is() {
	ctl a status -j xra | jq -e --arg gid "$1" 'any(.gids[]; .index == 0 and .gid == $gid)' >/dev/null
}

@test "an interface without address and native XDP is logged at the start" {
	requires io=xdp
	daemon_down a
	on a ip address flush dev va
	: >"$RUN/a/log"
	daemon_up a --attach generic
	equal "no address" "$(grep -c "va has no IP address: programs find no GID" "$RUN/a/log")" 1
	equal "no native XDP" "$(grep -c "va has no native XDP: .*requested by --attach" "$RUN/a/log")" 1
}

@test "xroced warns of a kernel that is older than Linux 6.1" {
	local old="this kernel is older than Linux 6.1"

	requires setarch
	# Linux 6.x calls itself 2.6.y then.
	run timeout $((20 * SLOW)) setarch --uname-2.6 "$XROCED" --interface no-such-if --runtime-dir "$BATS_TEST_TMPDIR"
	echo "$output"
	[[ $status == 1 && $output == *"$old"* && $output == *no-such-if* ]]
	run timeout $((20 * SLOW)) "$XROCED" --interface no-such-if --runtime-dir "$BATS_TEST_TMPDIR"
	[[ $status == 1 && $output != *"$old"* ]]
}
