# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files: `load helpers` first. Each file gets two new hosts with a daemon each, or, if SHARED_RUN is set, those
# of that RUN (../vm/guest/e2e). The network and the functions that tests can use are described in ../lib/hosts.bash. A
# file that needs different hosts defines setup_file itself, after the load.

: "${XR_TOP:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${XR_BUILD:=$XR_TOP/build}"
export XR_TOP XR_BUILD
# shellcheck source=../lib/hosts.bash
source "$XR_TOP/selftests/lib/hosts.bash"
bats_require_minimum_version 1.5.0

# shellcheck disable=SC2034	# used by tests
BIN=$XR_BUILD/selftests/e2e	# verbs programs built from this folder

# requires ITEM...: skips the test, or in setup_file the whole file, unless every item is available
requires() {
	local item

	for item; do
		case $item in
		root) ((EUID == 0)) || skip "needs root" ;;
		pmtu=*) ((PMTU >= ${item#*=})) || skip "path MTU ${item#*=} needs Linux 6.6, this is $(uname -r)" ;;
		io=xdp) [[ $(packets_by) == xdp ]] || skip "XDP only" ;;
		io=socket) [[ $(packets_by) == socket ]] || skip "UDP sockets only" ;;
		*) command -v "$item" >/dev/null || skip "needs the program $item" ;;
		esac
	done
}

# daemon_path REASON: the programs that the test runs from here on go the daemon's way, whatever XR_PATH says. In setup_file:
# the whole file runs as without XR_PATH. For what direct contexts do not have (docs/direct.md).
daemon_path() {
	echo "by the daemon: $1"
	export XROCE_PATH=daemon
	[[ -n ${BATS_TEST_NUMBER-} ]] || export XR_PATH=
}

setup_file() {
	requires root
	[[ -z ${SHARED_RUN:-} ]] || return 0
	hosts_up
	daemons_up
}

teardown_file() {
	[[ ${RUN:-} == "${SHARED_RUN:-}" ]] || hosts_down
}

teardown() {
	report_failure
}

# After a failed test, prints the end of the daemons' logs.
report_failure() {
	local h

	[[ -n ${BATS_TEST_COMPLETED:-} || -n ${BATS_TEST_SKIPPED:-} ]] && return 0
	for h in a b; do
		[[ -s ${RUN:-/nowhere}/$h/log ]] || continue
		echo "xroced on host $h, the end of its log:"
		tail -n 20 "$RUN/$h/log" | sed 's/^/  /'
	done
}

# ---- checks ----------------------------------------------------------------------------

# fails COMMAND...: succeeds if the command fails, but not by a signal or a time limit
fails() {
	local status=0

	"$@" || status=$?
	if ((status == 0 || status == 124 || status >= 128)); then
		echo "expected to fail: $* (status $status)"
		return 1
	fi
}

# equal DESCRIPTION VALUE EXPECTED
equal() {
	[[ $2 == "$3" ]] || {
		echo "$1: '$2', expected '$3'"
		return 1
	}
}

# Call the next two as plain commands: if COMMAND fails, bats' `set -e` ends the test.

# counter_grows HOST NAME MIN COMMAND...: the command succeeds and increases the counter by at least MIN
counter_grows() {
	local before after

	before=$(counter "$1" "$2")
	"${@:4}"
	after=$(counter "$1" "$2")
	echo "$2 on host $1: $before, then $after"
	((after - before >= $3))
}

# counter_unchanged HOST NAME COMMAND...: the command succeeds and leaves the counter as it was
counter_unchanged() {
	local before

	before=$(counter "$1" "$2")
	"${@:3}"
	equal "$2 on host $1" "$(counter "$1" "$2")" "$before"
}

# grows_within HOST MIN COMMAND...: the command succeeds, and its QPs reach each other on the host: at least MIN operations
# by the daemon's loopback, or as many packets of direct contexts
grows_within() {
	local name=loopback_operations

	! direct_contexts || name=rx_packets
	counter_grows "$1" "$name" "${@:2}"
}

# injected HOST: prints the number of faults that the workers of the daemon and direct contexts have injected into packets
injected() {
	status_of "$1" '([.workers[].faults] | add) + .slots.faults'
}

# no_bad_packets MIN: either host sent and received more than MIN packets, none malformed or with a wrong ICRC
no_bad_packets() {
	local h

	for h in a b; do
		(($(counter $h rx_packets) > $1))
		(($(counter $h tx_packets) > $1))
		equal "rx_malformed on host $h" "$(counter $h rx_malformed)" 0
		equal "rx_icrc_errors on host $h" "$(counter $h rx_icrc_errors)" 0
	done
}

# has_result FILE: the output of a perftest client has a result above zero. perftest measures the clock of the processor
# when it starts. If the hypervisor takes the processor away meanwhile, it says so, and its bandwidths are 0, its times inf.
has_result() {
	grep -Eq '^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9]*\.?[0-9]*[1-9]' "$1" ||
		{ grep -q 'Correlation coefficient' "$1" && grep -Eq '^ *[0-9]+ +[0-9]+ +(0|inf)' "$1"; }
}

# perftest PROGRAM ARG...: runs a program of perftest on both hosts; the client must print a result
perftest() {
	both -t 40 "$1" -F "${@:2}"
	has_result "$OUT/client" || {
		show_output
		return 1
	}
}

# Prints what the daemon of a host has allocated: objects and pinned bytes, file descriptors, BPF map entries.
resources() {
	local h=$1

	objects "$h"
	find "/proc/$(daemon_pid "$h")/fd" -mindepth 1 | wc -l
	bpftool map dump pinned "$RUN/bpf/xroce/xr$h/qps" -j | jq length
	bpftool map dump pinned "$RUN/bpf/xroce/xr$h/keys" -j | jq length
}

# rss HOST: prints the resident memory of the host's daemon in KiB
rss() {
	awk '/^VmRSS/ { print $2 }' "/proc/$(daemon_pid "$1")/status"
}

# resources_restored HOST EXPECTED: waits until `resources` prints the expected text. Some resources are freed
# with a delay.
resources_restored() {
	as_expected() { [[ $(resources "$1") == "$2" ]]; }
	wait_for 20 as_expected "$1" "$2" || {
		echo "host $1, expected:" "${2//$'\n'/ }"
		echo "host $1, now:" "$(resources "$1" | tr '\n' ' ')"
		ctl "$1" client
		return 1
	}
}

# ends_after_daemon_death PROGRAM ARG...: starts the program on host a, kills the daemon there when the program
# has printed "ready", and expects the program to end with status 0. Starts a new daemon.
ends_after_daemon_death() {
	local log=$BATS_TEST_TMPDIR/log pid

	spawn a "$log" "$@"
	pid=$!
	wait_for 5 grep -q ready "$log"
	daemon_down a KILL
	wait "$pid" || { cat "$log"; return 1; }
	daemon_up a
}

# verify_data OPTION...: runs rdma_verify with data tests and two refused requests
verify_data() {
	both -t 60 "$BIN/rdma_verify" -g @4 -n "$(iterations 10)" -b 1048576 -t write -t send-imm -t read \
		-t mixed -t pipeline -t atomic -t wrong-variant -t one-above "$@"
}
