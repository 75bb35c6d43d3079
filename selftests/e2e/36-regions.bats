#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_memory: regions that are not simply memory that is there, on two hosts and within one.

load helpers
load memory

@test "regions: on demand, memory comes and goes" {
	memory on-demand
}

@test "regions: the whole address space on demand" {
	memory implicit
}

@test "regions: all of them within one host" {
	within_host -t on-demand -t implicit
}
