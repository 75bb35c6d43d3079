#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Collective operations of gloo over ibverbs, with a program of ours: gloo_sums.cc checks every value.

load helpers

setup_file() {
	requires root g++
	[[ -e /usr/include/gloo/transport/ibverbs/device.h ]] || skip "needs the Debian package libgloo-dev"
	hosts_up
	daemons_up
	g++ -O1 -w -o "$RUN/gloo_sums" selftests/e2e/gloo_sums.cc -lgloo
}

# gloo HOST...: runs one rank for each item, on that host
gloo() {
	local rank h pids=() pid status=0 out=$BATS_TEST_TMPDIR

	mkdir "$out/store"
	for ((rank = 0; rank < $#; rank++)); do
		h=${*:rank+1:1}
		expand_args "$h" @dev @4
		spawn "$h" "$out/$rank" timeout $((60 * SLOW)) "$RUN/gloo_sums" $rank $# "$out/store" "${ARGS[@]}" \
			"$(iterations 10)"
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$?
	done
	((status == 0)) || cat "$out"/[0-9]*
	for ((rank = 0; rank < $#; rank++)); do
		grep -q "rank $rank of $#: all values are right" "$out/$rank" || status=1
	done
	return $status
}

@test "collective operations of gloo work between two hosts" {
	counter_grows b rx_packets 1000 gloo a a b b
}

@test "collective operations of gloo work within one host" {
	grows_within a 100 gloo a a a
}
