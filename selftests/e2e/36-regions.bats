#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_memory: on-demand, null, device memory, dma-buf and imported regions. 35-memory runs all of them together as
# well.

load helpers
load memory

@test "an on-demand region follows munmap, mmap and mprotect" {
	memory on-demand
}

@test "an implicit on-demand region covers the whole address space" {
	memory implicit
}

@test "ibv_advise_mr prefetches pages of an on-demand region" {
	memory advise
}

@test "a null region reads as zeros and discards writes" {
	memory null
}

@test "RDMA works on device memory" {
	memory device
}

@test "RDMA works on a memfd registered as a dma-buf" {
	memory buffer
}

@test "RDMA works on a udmabuf" {
	memory udmabuf
}

@test "another process can import a PD and an MR" {
	memory import
}

@test "ibv_rereg_mr changes translation, PD and access" {
	memory rereg
}

@test "special regions work within one host" {
	both_on_a -t 60 "$BIN/rdma_memory" -g @4 -t on-demand -t implicit -t advise -t null -t device -t buffer \
		-t import -t rereg
}
