#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_direct: direct verbs that kernel programs have, between two hosts.

load helpers

# direct TEST...
direct() {
	local test tests=()

	for test; do
		tests+=(-t "$test")
	done
	both -t 60 "$BIN/rdma_direct" -g @4 "${tests[@]}"
}

@test "queues are drained, in RESET they are not" { direct drain drain-reset; }
@test "a QP with an SRQ is drained" { direct drain-srq; }
@test "RW contexts transfer scattered buffers" { direct rw; }
@test "RW contexts register and invalidate what they transfer" { direct rw-regions; }
@test "an RW context with a chain, and a refused one" { direct rw-chain rw-refused; }

@test "RW contexts register pieces without alignment" { direct rw-gaps; }
@test "pieces without alignment are memory for a peer until they are invalidated" { direct gaps; }
@test "short pieces are copied to other short pieces of the same host" { direct gaps-loopback; }
@test "a piece in unmapped memory fails the request that accesses it" { direct gaps-unmapped; }

@test "integrity regions insert, strip, pass and check signatures" { direct integrity; }
@test "RW contexts transfer integrity regions" { direct integrity-rw; }
@test "integrity regions have pieces in memory on demand" { direct integrity-on-demand; }
@test "integrity regions transfer to each other within a host" { direct integrity-loopback; }

@test "integrity regions work with 1 % packet loss" {
	local status=0

	ctl a fault xra drop 10 seed 9
	ctl b fault xrb drop 10 seed 10
	direct integrity integrity-on-demand || status=$?
	ctl a fault xra off
	ctl b fault xrb off
	((status == 0))
}

@test "RW contexts work with 1 % packet loss" {
	local status=0

	ctl a fault xra drop 10 seed 7
	ctl b fault xrb drop 10 seed 8
	direct rw-regions rw-chain rw-gaps || status=$?
	ctl a fault xra off
	ctl b fault xrb off
	((status == 0))
}
