#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Missing packages: `make deps` in its groups, and `make` without a program or header that it needs

bats_require_minimum_version 1.5.0

plain_make() {
	env -u MAKEFLAGS -u MAKELEVEL make BUILD="$BATS_TEST_TMPDIR/build" "$@"
}

@test "deps: make deps installs the packages of all groups" {
	local group

	for group in build run test; do
		[[ $(plain_make -n "deps-$group" Q=) == "packaging/deps $group" ]]
		packaging/deps --list "$group"
	done >"$BATS_TEST_TMPDIR/groups"
	[[ $(plain_make -n deps Q=) == packaging/deps ]]
	diff <(sort -u "$BATS_TEST_TMPDIR/groups") <(packaging/deps --list)
	run -2 packaging/deps --list biuld
	[[ $output == *biuld* ]]
}

@test "deps: a missing package is named, and the target that installs it" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	packaging/deps --list | grep -v '^clang$' | sed 's/$/ installed/' >"$BATS_TEST_TMPDIR/packages"
	printf '#!/bin/sh\ncat %s\n' "$BATS_TEST_TMPDIR/packages" >"$BATS_TEST_TMPDIR/bin/dpkg-query"
	chmod +x "$BATS_TEST_TMPDIR/bin/dpkg-query"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH run -1 packaging/deps --check build
	echo "$output"
	[[ $output == "These Debian packages are missing: clang"*"'make deps-build' as root"* ]]
	PATH=$BATS_TEST_TMPDIR/bin:$PATH packaging/deps --check run
}

@test "deps: make names the packages that it lacks in one line, and starts no compiler" {
	local log=$BATS_TEST_TMPDIR/log

	# A compiler that does not find some headers, and a program that does not exist
	printf '#!/bin/sh\nsed -E "s/isa-l|xsk/no-&/" | exec gcc "$@"\n' >"$BATS_TEST_TMPDIR/cc"
	chmod +x "$BATS_TEST_TMPDIR/cc"
	run plain_make all CC="$BATS_TEST_TMPDIR/cc" BPFTOOL=no-bpftool </dev/null
	echo "$output" | tee "$log"
	((status == 2))
	(($(wc -l <"$log") == 1))
	[[ $output == *"bpftool (no-bpftool)"*"libxdp-dev"*"libisal-dev"*"make deps-build"* ]]
	run plain_make all CC=no-gcc CLANG=no-clang </dev/null
	echo "$output"
	[[ $status == 2 && ${#lines[@]} == 1 && $output == *"gcc (no-gcc), clang (no-clang)"*"make deps-build"* ]]
	# The next make looks again.
	[[ ! -e $BATS_TEST_TMPDIR/build/flags ]]
	[[ -z $(packaging/needs "${CC:-gcc}" clang bpftool) ]]
}

@test "deps: the unit tests, which run while a package is built, do not need tshark" {
	local dir=$BATS_TEST_TMPDIR

	mkdir "$dir/bin" "$dir/build"
	ln -s /usr/bin/* "$dir/bin"
	rm -f "$dir/bin/tshark"
	printf 'unit/cm_tshark\t60\t-\tselftests/unit/cm_tshark no-program\n' >"$dir/suites"
	PATH=$dir/bin XR_BUILD=$dir/build run -0 selftests/run "$dir/suites"
	echo "$output"
	[[ $output == *"0 failed, 1 skipped"* ]]
}
