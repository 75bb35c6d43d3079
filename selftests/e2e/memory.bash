# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run rdma_memory: `load memory` after the helpers.

# Makes rdma_memory check the tiers of regions. Its owner must run on host a.
show_tier() {
	! direct_contexts || return 0 # whose regions have none
	export RDMA_MEMORY_TIER=$BATS_TEST_TMPDIR/tier

	cat >"$RDMA_MEMORY_TIER" <<-END
		#!/bin/sh
		"$XROCE" -r "$RUN/a" mr -j xra | jq -r ".[] | select(.lkey == \$1).tier"
	END
	chmod +x "$RDMA_MEMORY_TIER"
}

# memory TEST: runs one test of rdma_memory, with the owner on host a and the partner on host b. Skips the bats
# test if the program skipped its test.
memory() {
	local reason

	show_tier
	both -t 50 "$BIN/rdma_memory" -g @4 -t "$1" || return
	reason=$(sed -n 's/^skipped [^:]*: //p' "$OUT/server")
	[[ -z $reason ]] || skip "$reason"
}

# Creates a memory cgroup for a test, CGROUP, or skips the test. teardown_cgroup removes it.
memory_cgroup() {
	local root=/sys/fs/cgroup

	if [[ -e $root/cgroup.subtree_control ]]; then
		echo +memory 2>/dev/null >"$root/cgroup.subtree_control" || true
	else
		root+=/memory
	fi
	mkdir "$root/$ID" 2>/dev/null || skip "cannot create cgroups in $root"
	CGROUP=$root/$ID
	CGROUP_MAX=$(find "$CGROUP" -name memory.max -o -name memory.limit_in_bytes)
	[[ -n $CGROUP_MAX ]] || skip "no memory controller in $root"
}

# limit_cgroup BYTES: the memory that CGROUP may use. cgroup v1 refuses a limit with EBUSY while more is in use: that of a
# program which has ended is in use until the daemon has freed its regions.
limit_cgroup() {
	set_limit() { echo "$1" >"$CGROUP_MAX"; }
	wait_for 10 set_limit "$1"
}

# in_cgroup COMMAND...
in_cgroup() {
	(
		echo "$BASHPID" >"$CGROUP/cgroup.procs"
		"$@"
	)
}

teardown_cgroup() {
	local pid

	[[ ${CGROUP:-} ]] || return 0
	while read -r pid; do
		echo "$pid" >"${CGROUP%/*}/cgroup.procs"
	done <"$CGROUP/cgroup.procs"
	wait_for 10 rmdir "$CGROUP" 2>/dev/null
}
