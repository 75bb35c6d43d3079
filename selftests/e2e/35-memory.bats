#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_memory: every kind of memory registered, read and written from afar, and taken away.

load helpers
load memory

# beside COMMAND...: other programs on the same devices move data meanwhile, and notice nothing
beside() {
	local daemon other status=0

	daemon=$(daemon_pid a)
	PORT=$((PORT + 1)) both -t 50 "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -m 1024 -t mixed -n 20 &
	other=$!
	"$@" || status=$?
	wait "$other" || status=$?
	alive "$daemon" || status=1
	return "$status"
}

# On an emulated machine a start costs more than a test: all kinds go in one, at the end.

@test "memory: private anonymous" {
	memory anonymous
}

@test "memory: shared anonymous" {
	memory shared-anonymous
}

@test "memory: POSIX shared memory" {
	memory shm
}

@test "memory: memfd, mapped shared and private" {
	memory memfd
}

@test "memory: private mapping of a file" {
	memory file-private
}

@test "memory: shared mapping of a file" {
	memory file-shared
}

@test "memory: read-only, for local and remote reading alone" {
	memory read-only
}

@test "memory: a program's constants" {
	memory constant
}

@test "memory: stack" {
	memory stack
}

@test "memory: bss and data" {
	memory static
}

@test "memory: malloc" {
	memory malloc
}

@test "memory: huge pages" {
	memory hugetlb
}

@test "memory: unaligned, and the bytes beside stay" {
	memory unaligned
}

@test "memory: no bytes at all" {
	memory zero-length
}

@test "memory: one region over several mappings" {
	memory several-mappings
}

@test "memory: a hole is refused" {
	memory hole
}

@test "memory: impossible ranges and rights are refused" {
	memory bad-range
}

@test "memory: overlapping regions" {
	memory overlap
}

@test "memory: written while a region around it comes and goes" {
	memory beneath
}

@test "memory: the same again and again" {
	memory again
}

@test "memory: truncated under its region, only the owner suffers" {
	beside memory truncated
}

@test "memory: unmapped under its region, only the owner suffers" {
	beside memory munmap
}

@test "memory: grown by realloc under its region" {
	memory grown
}

@test "memory: fork while regions live" {
	memory fork
}

# Written first by the parent, by the child or by the peer: each keeps a page of its own.
@test "memory: fork while regions live, nothing adopted" {
	export XROCE_ADOPT=never

	memory fork
	memory file-private
	memory anonymous
}

@test "memory: 64 KiB in 32 pieces, 33 refused" {
	memory pieces
}

@test "memory: completion queue resized under load" {
	memory resize-cq
}

@test "memory: queue pairs reset and used again" {
	memory reset
}

@test "memory: one message of 2^31 bytes" {
	memory longest
}

# Without the message of 2^31 bytes
mapfile -t all < <("$XR_BUILD/selftests/e2e/rdma_memory" -l | awk '$1 != "longest" { print "-t"; print $1 }')

@test "memory: all but the longest message within one host" {
	within_host "${all[@]}"
}

@test "memory: all but the longest message between two hosts" {
	both -t 50 "$XR_BUILD/selftests/e2e/rdma_memory" -g @4 "${all[@]}"
}
