#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_memory: registers every kind of memory, transfers to and from it, and unmaps it.

load helpers
load memory

teardown() {
	report_failure
	teardown_cgroup
}

# with_other_traffic COMMAND...: runs the command while other programs transfer data between the same devices; both
# must succeed
with_other_traffic() {
	local daemon other status=0

	daemon=$(daemon_pid a)
	PORT=$((PORT + 1)) both -t 50 "$BIN/rdma_verify" -g @4 -m 1024 -t mixed -n 20 &
	other=$!
	"$@" || status=$?
	wait "$other" || status=$?
	alive "$daemon" || status=1
	return "$status"
}

# On an emulated machine, starting the program takes longer than one of its tests. The last two bats tests run all
# tests in one program.

@test "RDMA works on private anonymous memory" {
	memory anonymous
}

@test "RDMA works on shared anonymous memory" {
	memory shared-anonymous
}

@test "RDMA works on POSIX shared memory" {
	memory shm
}

@test "RDMA works on a memfd, mapped shared and private" {
	memory memfd
}

@test "RDMA to a private file mapping leaves the file unchanged" {
	memory file-private
}

@test "RDMA to a shared file mapping changes the file" {
	memory file-shared
}

@test "read-only memory can be registered for reading only" {
	memory read-only
}

@test "constants of a program can be registered for remote reading" {
	memory constant
}

@test "RDMA works on the stack" {
	memory stack
}

@test "RDMA works on bss and data" {
	memory static
}

@test "RDMA works on memory from malloc" {
	memory malloc
}

@test "RDMA works on huge pages" {
	memory hugetlb
}

# bats test_tags=stock
@test "registration waits for a userfaultfd of the program" {
	memory userfault
}

@test "registering memory that cannot be pinned fails with EFAULT" {
	memory unpinnable
}

@test "registering pages behind the end of a file fails with EFAULT" {
	memory end-of-file
}

@test "write-only memory can be registered for writing" {
	memory write-only
}

@test "RDMA to an unaligned region leaves adjacent bytes unchanged" {
	memory unaligned
}

@test "a region of zero bytes allows transfers of zero bytes only" {
	memory zero-length
}

@test "RDMA works on one region over several mappings" {
	memory several-mappings
}

@test "registration allocates pages of shared memory that were never accessed" {
	memory sparse
}

# bats test_tags=stock
@test "a program cannot register more shared memory than its memory cgroup may allocate" {
	memory_cgroup
	in_cgroup memory sparse
	limit_cgroup $((100 << 20))
	# the kernel kills it
	not in_cgroup memory sparse
	alive "$(daemon_pid a)"
}

# A region has 128 MB, which stay mapped in the program after it has deregistered them.
# bats test_tags=stock
@test "memory that programs register and deregister is not charged to the memory cgroup of the daemon" {
	memory_cgroup
	limit_cgroup $((24 << 20))
	daemon_pid a >"$CGROUP/cgroup.procs"
	memory sparse
	memory sparse
	alive "$(daemon_pid a)"
}

@test "registering a range with a hole fails with EFAULT" {
	memory hole
}

@test "registering invalid ranges or access flags fails" {
	memory bad-range
}

@test "overlapping regions do not affect each other" {
	memory overlap
}

@test "RDMA works while a larger region around the memory is registered and deregistered" {
	memory nested
}

@test "the same memory can be registered repeatedly" {
	memory repeated
}

@test "truncating a registered file fails requests of its owner only" {
	with_other_traffic memory truncated
}

# bats test_tags=stock
@test "punching a hole into registered memory fails requests of its owner only" {
	with_other_traffic memory punched
}

@test "unmapping registered memory affects its owner only" {
	with_other_traffic memory munmap
}

# bats test_tags=stock
@test "memory of a region that is discarded by madvise has zeros" {
	memory discarded
	XROCE_ADOPT=never memory discarded
}

@test "a region keeps its pages when the program moves them by mremap" {
	memory moved
}

@test "realloc of registered memory keeps its content" {
	memory realloc
}

@test "regions and private data survive fork" {
	memory fork
}

# The first write may come from the parent, the child or the peer; parent and child must not share a page after it.
@test "regions and private data survive fork with XROCE_ADOPT=never" {
	export XROCE_ADOPT=never

	memory fork
	memory file-private
	memory anonymous
}

@test "a SEND with 32 SGEs works, 33 are refused" {
	memory max-sge
}

@test "a CQ can be resized under load" {
	memory resize-cq
}

@test "QPs work again after errors and RESET" {
	memory reset
}

@test "a message of 2^31 bytes arrives" {
	memory max-message
}

# Arguments for all tests but the message of 2^31 bytes
mapfile -t all < <("$BIN/rdma_memory" -l | awk '$1 != "max-message" { print "-t"; print $1 }')

@test "all rdma_memory tests but the longest message pass within one host" {
	both_on_a -t 60 "$BIN/rdma_memory" -g @4 "${all[@]}"
}

@test "all rdma_memory tests but the longest message pass between two hosts" {
	both -t 50 "$BIN/rdma_memory" -g @4 "${all[@]}"
}

@test "a program that has given up its privileges before it opens the device can register memory" {
	local group how

	group=$(getent group 65534 | cut -d: -f1)
	[[ $group ]] || skip "needs a group 65534"
	daemon_down a
	daemon_up a --group "$group" --direct-users 65534
	for how in setuid seteuid dumpable; do
		XROCE_DEBUG=1 run_on a "$BIN/rdma_privileges" "$how"
	done
	daemon_down a
	daemon_up a
}
