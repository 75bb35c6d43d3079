# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files: `load helpers` first. Each file gets two fresh hosts with a daemon each; the network and
# the commands that tests can use are described in ../lib/hosts.bash. A file that wants other hosts
# defines setup_file itself, after the load.

: "${XR_TOP:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${XR_BUILD:=$XR_TOP/build}"
export XR_TOP XR_BUILD
# shellcheck source=../lib/hosts.bash
source "$XR_TOP/selftests/lib/hosts.bash"
bats_require_minimum_version 1.5.0

# requires WHAT...: skip the test, or with setup_file the file, where something is not here
requires() {
	local what

	for what; do
		case $what in
		root) ((EUID == 0)) || skip "needs root" ;;
		kernel=*) kernel_at_least "${what#*=}" || skip "needs Linux ${what#*=}, this is $(uname -r)" ;;
		pmtu=*) ((PMTU >= ${what#*=})) || skip "path MTU ${what#*=} needs Linux 6.6, this is $(uname -r)" ;;
		*) command -v "$what" >/dev/null || skip "needs the program $what" ;;
		esac
	done
}

setup_file() {
	requires root
	hosts_up
	daemons_up
}

teardown_file() {
	hosts_down
}

teardown() {
	report_failure
}

# What a failed test wants to know beside its own output
report_failure() {
	local h

	[[ -n ${BATS_TEST_COMPLETED:-} || -n ${BATS_TEST_SKIPPED:-} ]] && return 0
	for h in a b; do
		[[ -s ${RUN:-/nowhere}/$h/log ]] || continue
		echo "xroced on host $h, the end of its log:"
		tail -n 20 "$RUN/$h/log" | sed 's/^/  /'
	done
}

# What the daemon of a host holds: objects and pinned bytes, descriptors, map entries
holdings() {
	local h=$1

	objects "$h"
	find "/proc/$(daemon_pid "$h")/fd" -mindepth 1 | wc -l
	bpftool map dump pinned "$RUN/bpf/xroce/xr$h/qps" -j | jq length
	bpftool map dump pinned "$RUN/bpf/xroce/xr$h/keys" -j | jq length
}

# fails COMMAND...: must fail, but not by a signal or a time limit
fails() {
	local status=0

	"$@" || status=$?
	if ((status == 0 || status == 124 || status >= 128)); then
		echo "wanted to fail: $* (status $status)"
		return 1
	fi
}

# equal WHAT GOT WANTED
equal() {
	[[ $2 == "$3" ]] || {
		echo "$1: got '$2', wanted '$3'"
		return 1
	}
}
