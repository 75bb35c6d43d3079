#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Requests that must be refused: the status on both sides (rdma_verify looks), memory untouched,
# and the XDP program's counter, by its name, on the host that was asked.

load helpers

# refused TEST COUNTER: rdma_verify's test; what XDP on host a must have counted
refused() {
	local before after

	before=$(counter a "$2")
	both "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -t "$1"
	after=$(counter a "$2")
	echo "$2: $before, then $after"
	((after > before))
	(($(counter b access_naks_received) > 0))
}

@test "protection: R_Key with an index nobody has" { refused wrong-index KEY_INDEX; }
@test "protection: R_Key with another variant" { refused wrong-variant KEY_VARIANT; }
@test "protection: R_Key of a region that was deregistered" { refused stale-key KEY_INDEX; }
@test "protection: R_Key of another protection domain" { refused other-pd KEY_PD; }
@test "protection: WRITE from one byte below" { refused one-below KEY_RANGE; }
@test "protection: WRITE to one byte above" { refused one-above KEY_RANGE; }
@test "protection: long WRITE that ends one byte above" { refused long-one-above KEY_RANGE; }
@test "protection: READ from one byte below" { refused read-one-below KEY_RANGE; }
@test "protection: READ to one byte above" { refused read-one-above KEY_RANGE; }
@test "protection: READ of a write-only region" { refused no-read KEY_ACCESS; }
@test "protection: WRITE to a read-only region" { refused no-write KEY_ACCESS; }
@test "protection: atomic on a region that allows none" { refused no-atomic KEY_ACCESS; }

@test "protection: an L_Key that is not one never leaves" {
	local before

	before=$(counter b tx_packets)
	both "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -t wrong-lkey
	echo "packets sent by b: $before, then $(counter b tx_packets)"
	equal "packets" "$(counter b tx_packets)" "$before"
}

@test "protection: a SEND longer than its receive" {
	both "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -t short-receive
}

@test "protection: a refused connection leaves others alone" {
	local first status=0

	PORT=18600 both -t 60 ib_write_bw -x @4 -F -n $((3000 / SLOW)) &
	first=$!
	both "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -t wrong-variant -t one-above -t no-read || status=$?
	wait "$first" || status=$?
	((status == 0))
}
