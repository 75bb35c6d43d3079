#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_keys: memory windows, invalidation and fast registration between two hosts. Requests with a revoked key fail
# with the right status on both sides, and XDP counts them by reason.

load helpers

# keys TEST
keys() {
	both -t 60 "$BIN/rdma_keys" -g @4 -t "$1"
}

# counted TEST REASON: runs the test; XDP on the owner's host must drop requests for that reason
counted() {
	counter_grows a "$2" 1 keys "$1"
}

@test "a type 1 MW limits access to its range" { counted type-1 KEY_RANGE; }
@test "a type 2 MW can be invalidated by either side" { counted type-2 KEY_STATE; }
@test "a zero-based MW is addressed from 0" { counted zero-based KEY_RANGE; }
@test "invalid binds and invalidations are refused" { keys bind-refused; }
@test "a CQ can be resized while binds are posted" { keys bind-resize; }
@test "deallocating a bound MW revokes its R_Key" { counted dealloc-bound KEY_INDEX; }
@test "xroce mw shows bound and unbound MWs" {
	local output=$BATS_TEST_TMPDIR/output

	both -t 60 "$BIN/rdma_keys" -g @4 -t show -x "$XROCE -r $RUN/a mw -j xra >>$output &&
		$XROCE -r $RUN/a mr -j xra >>$output"
	cat "$output"
	jq -se '.[0][0] as $mw | .[1][] | select(.lkey == $mw.mr) |
		$mw.bound and $mw.type == 2 and $mw.length == 20000 and $mw.access == "rw,rr"' "$output"
	jq -se '.[2][0] | .bound == false and .mr == 0 and .length == 0' "$output"
}
# The messages have 20000, 40000 and 60000 bytes.
@test "xroce mr and mw --detail show the bytes of each region, and the last use that was refused" {
	local output=$BATS_TEST_TMPDIR/output

	both -t 60 "$BIN/rdma_keys" -g @4 -t show-use -x "sleep 0.2 && $XROCE -r $RUN/a mw -dj xra >>$output &&
		$XROCE -r $RUN/a mr -dj xra sort remote_write_bytes >>$output"
	cat "$output"
	jq -se '.[1][0] | .remote_writes == 2 and .remote_write_bytes == 60000 and
		.remote_reads == 1 and .remote_read_bytes == 60000 and .remote_atomics == 0 and
		.remote_atomic_bytes == 0 and .refused == 0' "$output"
	jq -se '.[0][0] | .refused == 1 and .last_error.qpn > 1 and .last_error.age_ns < 60e9 and
		.last_error.reason == "address range is not inside the memory of the R_Key"' "$output"
}
@test "fast registration grants remote access until it is invalidated" { counted fast KEY_VARIANT; }
@test "fast registration out of order is refused" { keys fast-order; }
@test "xrocedv_map_mr_sg maps the longest valid prefix of a list" { keys fast-prefix; }
@test "a WRITE to an inaccessible page of a fast region fails with remote operational error" { keys fast-pages; }
@test "a fast region with a bound MW cannot be invalidated" { keys fast-window; }

@test "a pool returns cached mappings until it is flushed" { counted pool-cache KEY_STATE; }
@test "a pool reuses the region that was unmapped first" { keys pool-reuse; }
@test "a pool flushes at its watermark" { counted pool-watermark KEY_STATE; }
@test "a pool refuses invalid lists and attributes" { keys pool-refused; }
@test "a pool can be used by several threads" { keys pool-threads; }

@test "the reserved L_Key allows local access only" { counted reserved KEY_INDEX; }

# Examples are linked with libxroce and run without xroce run.
example() {
	run on a env LD_LIBRARY_PATH="$XR_BUILD" XROCE_RUNTIME_DIR="$RUN/a" ASAN_OPTIONS=verify_asan_link_order=0 \
		timeout $((20 * SLOW)) "$XR_BUILD/examples/$1"
	echo "$output"
	((status == 0))
}

@test "the integrity example runs" {
	example integrity
	grep -q '^4096 bytes of memory are 4160 bytes on the wire$' <<<"$output"
	grep -q '^PI of block 2: .* application tag 005a, reference tag 1002$' <<<"$output"
	grep -q '^READ: no error$' <<<"$output"
	grep -q '^READ of a wrong bit: error 1 at offset 2600: ' <<<"$output"
}

@test "the example of RW contexts runs" {
	example rw_context
	grep -q '^READ of 24576 bytes into 5 pieces: 5 work requests, one completion$' <<<"$output"
	grep -q '^WRITE of 24576 bytes from 5 pieces: 3 work requests, one completion$' <<<"$output"
	grep -q '^drained: 3 receives, and the completions of a transfer$' <<<"$output"
}

@test "the fast_registration example runs" {
	example fast_registration
	equal "rounds" "$(grep -c '^round .*invalidated by the peer$' <<<"$output")" 3
	equal "mappings" "$(grep -c '^pool: key' <<<"$output")" 3
	equal "keys, one of them from the cache" "$(grep '^pool: key' <<<"$output" | sort -u | wc -l)" 2
	grep -q '^pool: flushed' <<<"$output"
}

@test "an example that is linked with the installed library by pkg-config runs" {
	[[ -z ${SANITIZE:-} ]] || skip "a library with sanitizers cannot be linked with programs without them"
	local stage=$BATS_TEST_TMPDIR/stage flags

	env -u MAKEFLAGS -u MAKELEVEL make -s BUILD="${XR_BUILD#"$PWD"/}" install DESTDIR="$stage" PREFIX=/usr
	flags=$(PKG_CONFIG_SYSROOT_DIR=$stage PKG_CONFIG_PATH=$stage/usr/lib/pkgconfig pkg-config --cflags --libs xroce)
	# shellcheck disable=SC2086
	${CC:-cc} -o "$BATS_TEST_TMPDIR/example" docs/examples/fast_registration.c $flags
	run -0 on a env LD_LIBRARY_PATH="$stage/usr/lib" XROCE_RUNTIME_DIR="$RUN/a" "$BATS_TEST_TMPDIR/example"
	echo "$output"
	equal "rounds" "$(grep -c '^round .*invalidated by the peer$' <<<"$output")" 3
	grep -q '^pool: flushed' <<<"$output"
}

@test "MWs and fast registration work with 1 % packet loss" {
	local status=0

	ctl a fault xra drop 10 seed 7
	ctl b fault xrb drop 10 seed 8
	both -t 100 "$BIN/rdma_keys" -g @4 -l -t type-1 -t type-2 -t zero-based -t fast || status=$?
	ctl a fault xra off
	ctl b fault xrb off
	((status == 0))
}
