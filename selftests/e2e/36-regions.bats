#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_memory: regions that are not simply memory that is there, on two hosts and within one.

load helpers
load memory

# In one run with all others, in 35-memory

@test "regions: on demand, memory comes and goes" {
	memory on-demand
}

@test "regions: the whole address space on demand" {
	memory implicit
}

@test "regions: memory on demand is fetched by advice" {
	memory advise
}

@test "regions: the region that is no memory" {
	memory null
}

@test "regions: device memory" {
	memory device
}

@test "regions: a memfd as a buffer by its descriptor" {
	memory buffer
}

@test "regions: a dma-buf of ordinary memory" {
	memory udmabuf
}

@test "regions: a domain and a region that two processes have" {
	memory import
}

@test "regions: all that rereg_mr can change" {
	memory rereg
}

@test "regions: all of them within one host" {
	within_host -t on-demand -t implicit -t advise -t null -t device -t buffer -t import -t rereg
}
