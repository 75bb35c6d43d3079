#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Which suites selftests/run selects, with suites of this file.

bats_require_minimum_version 1.5.0

setup() {
	SUITES=$BATS_TEST_TMPDIR/suites
	export XR_BUILD=$BATS_TEST_TMPDIR
	local name

	for name in unit/wire unit/last sim bpf e2e/10-ping; do
		printf '%s\t10\tparallel\techo "ok 1 - %s"; echo 1..1\n' "$name" "$name"
	done >"$SUITES"
	printf 'long/sim\t10\tparallel long\techo "ok 1 - long"; echo 1..1\n' >>"$SUITES"
}

# selects EXPECTED ARG...: selftests/run with these arguments selects the suites
selects() {
	run -0 selftests/run --list "$SUITES" "${@:2}"
	echo "$output"
	[[ $(xargs <<<"$output") == "$1" ]]
}

@test "the runner selects suites by name, by folder and by what follows a slash" {
	selects "unit/wire" unit/wire
	selects "unit/wire unit/last" unit
	selects "unit/last" la
	selects "e2e/10-ping" selftests/e2e/10-ping.bats
	selects "long/sim" long
}

@test "the runner selects what any of several names selects, once, in their order" {
	selects "bpf unit/last unit/wire sim" bpf unit/last unit sim bpf
}

@test "the runner selects all suites but long ones without a name" {
	selects "unit/wire unit/last sim bpf e2e/10-ping"
}

@test "the runner adds the results of all suites up" {
	run -0 selftests/run "$SUITES" unit bpf
	echo "$output"
	[[ ${lines[-1]} == "3 passed, 0 failed, 0 skipped" ]]
}

@test "the runner refuses a name among others that selects nothing" {
	run -2 selftests/run "$SUITES" bpf nonsense
	echo "$output"
	[[ ${lines[0]} == "no suite and no bats test is named 'nonsense'; the suites are:" ]]
}
