#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Requests that must be refused: rdma_verify checks the status on both sides and that memory is unchanged; the tests
# check the counter of the XDP program on the responder's host.

load helpers

# refused TEST REASON: runs the test of rdma_verify; XDP on host a must count the reason, b must receive a NAK
refused() {
	counter_grows a "$2" 1 both "$BIN/rdma_verify" -g @4 -t "$1"
	(($(counter b access_naks_received) > 0))
}

@test "a WRITE with an unknown R_Key index is NAKed with remote access error" { refused wrong-index KEY_INDEX; }
@test "a WRITE with a wrong R_Key variant is NAKed with remote access error" { refused wrong-variant KEY_VARIANT; }
@test "a WRITE with the R_Key of a deregistered region is NAKed with remote access error" { refused stale-key KEY_INDEX; }
@test "a WRITE with the R_Key of another PD is NAKed with remote access error" { refused other-pd KEY_PD; }
@test "a WRITE from one byte below the region is NAKed with remote access error" { refused one-below KEY_RANGE; }
@test "a WRITE to one byte above the region is NAKed with remote access error" { refused one-above KEY_RANGE; }
@test "a long WRITE to one byte above the region is NAKed with remote access error" { refused long-one-above KEY_RANGE; }
@test "a READ from one byte below the region is NAKed with remote access error" { refused read-one-below KEY_RANGE; }
@test "a READ to one byte above the region is NAKed with remote access error" { refused read-one-above KEY_RANGE; }
@test "a READ of a region without remote read access is NAKed with remote access error" { refused no-read KEY_ACCESS; }
@test "a WRITE to a region without remote write access is NAKed with remote access error" { refused no-write KEY_ACCESS; }
@test "an atomic on a region without remote atomic access is NAKed with remote access error" { refused no-atomic KEY_ACCESS; }

@test "a WRITE with an invalid L_Key sends no packet" {
	counter_unchanged b tx_packets both "$BIN/rdma_verify" -g @4 -t wrong-lkey
}

@test "a SEND longer than the receive fails on both sides" {
	both "$BIN/rdma_verify" -g @4 -t short-receive
}

@test "refused requests do not affect other connections" {
	local first status=0

	PORT=18600 both -t 60 ib_write_bw -x @4 -F -n $((3000 / SLOW)) &
	first=$!
	both "$BIN/rdma_verify" -g @4 -t wrong-variant -t one-above -t no-read || status=$?
	wait "$first" || status=$?
	((status == 0))
}
