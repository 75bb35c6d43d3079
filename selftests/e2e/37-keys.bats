#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_keys: windows, invalidation and fast registration between two hosts, and on one; what must be
# refused is, with its status on both sides, and XDP counts it by its name.

load helpers

keys() {
	both -t 60 "$XR_BUILD/selftests/e2e/rdma_keys" -g @4 -t "$1"
}

# counted TEST REASON: the test, and XDP on its owner's host must have seen refused requests
counted() {
	local before after

	before=$(counter a "$2")
	keys "$1"
	after=$(counter a "$2")
	echo "$2: $before, then $after"
	((after > before))
}

@test "keys: windows of type 1" { counted type-1 KEY_RANGE; }
@test "keys: windows of type 2, invalidated by either side" { counted type-2 KEY_STATE; }
@test "keys: zero-based windows" { counted zero-based KEY_RANGE; }
@test "keys: binding and invalidating what must not be" { keys bind-refused; }
@test "keys: a window that goes while it is bound" { counted dealloc-bound KEY_INDEX; }
@test "keys: xroce mw shows a window while it is bound, and when it is not" {
	local shown=$BATS_TEST_TMPDIR/shown

	both -t 60 "$XR_BUILD/selftests/e2e/rdma_keys" -g @4 -t shown -x "$XROCE -r $RUN/a mw -j xra >>$shown &&
		$XROCE -r $RUN/a mr -j xra >>$shown"
	cat "$shown"
	jq -se '.[0][0] as $mw | .[1][] | select(.lkey == $mw.mr) |
		$mw.bound and $mw.type == 2 and $mw.length == 20000 and $mw.access == "rw,rr"' "$shown"
	jq -se '.[2][0] | .bound == false and .mr == 0 and .length == 0' "$shown"
}
@test "keys: fast registration" { counted fast KEY_VARIANT; }
@test "keys: fast registration in every wrong order" { keys fast-order; }
@test "keys: the longest prefix that a fast region can name" { keys fast-prefix; }
@test "keys: pages of a fast region that may not be used" { keys fast-pages; }
@test "keys: a window bound to a fast region" { keys fast-window; }

@test "pools: the same list, the same mapping; flushed" { counted pool-cache KEY_STATE; }
@test "pools: regions are used again" { keys pool-reuse; }
@test "pools: flushed at the watermark" { counted pool-watermark KEY_STATE; }
@test "pools: what cannot be mapped" { keys pool-refused; }
@test "pools: many threads" { keys pool-threads; }

@test "keys: the reserved L_Key" { counted reserved KEY_INDEX; }

# linked with the library, not started by xroce run
@test "the example of fast registration" {
	run -0 on a env LD_LIBRARY_PATH="$XR_BUILD" XROCE_RUNTIME_DIR="$RUN/a" ASAN_OPTIONS=verify_asan_link_order=0 \
		timeout $((10 * SLOW)) "$XR_BUILD/examples/fast_registration"
	echo "$output"
	equal "rounds" "$(grep -c '^round .*invalidated by the peer$' <<<"$output")" 3
	equal "mappings" "$(grep -c '^pool: key' <<<"$output")" 3
	equal "keys, one of them from the cache" "$(grep '^pool: key' <<<"$output" | sort -u | wc -l)" 2
	grep -q '^pool: flushed' <<<"$output"
}

@test "keys: all of it, with losses" {
	local status=0

	ctl a fault xra drop 10 seed 7
	ctl b fault xrb drop 10 seed 8
	both -t 100 "$XR_BUILD/selftests/e2e/rdma_keys" -g @4 -l -t type-1 -t type-2 -t zero-based -t fast || status=$?
	ctl a fault xra off
	ctl b fault xrb off
	((status == 0))
}
