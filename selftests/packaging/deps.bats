#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Missing packages: `make deps` in its groups, and `make` without a program or header that it needs

bats_require_minimum_version 1.5.0

plain_make() {
	env -u MAKEFLAGS -u MAKELEVEL make BUILD="$BATS_TEST_TMPDIR/build" "$@"
}

@test "deps: make deps installs the packages of all groups but those of long tests, which make check-long installs" {
	local group

	for group in build run test; do
		[[ $(plain_make -n "deps-$group" Q=) == "packaging/deps $group" ]]
		packaging/deps --list "$group"
	done >"$BATS_TEST_TMPDIR/groups"
	[[ $(plain_make -n deps-long Q=) == "packaging/deps long" ]]
	[[ $(plain_make -n check-long Q= MAKE=true) == "packaging/deps build run test long ||"* ]]
	[[ $(plain_make -n check Q= MAKE=true) == "packaging/deps build run test ||"* ]]
	[[ $(plain_make -n deps Q=) == packaging/deps ]]
	diff <(sort -u "$BATS_TEST_TMPDIR/groups") <(packaging/deps --list)
	run -2 packaging/deps --list no-group
	[[ $output == *no-group* ]]
}

# system PACKAGE NAME...: makes commands that show a system where all but this package are installed, and the names in
# the package lists of apt
system() {
	local dir=$BATS_TEST_TMPDIR

	mkdir -p "$dir/bin"
	packaging/deps --list build run test long | grep -vx "$1" | sed 's/$/ installed/' >"$dir/packages"
	printf '%s\n' "${@:2}" >"$dir/lists"
	printf '#!/bin/sh\ncat %s\n' "$dir/packages" >"$dir/bin/dpkg-query"
	printf '#!/bin/sh\ncat %s\n' "$dir/lists" >"$dir/bin/apt-cache"
	chmod +x "$dir"/bin/*
	PATH=$dir/bin:$PATH
}

@test "deps: a missing package is named, and the target that installs it" {
	system clang clang fio
	run -1 packaging/deps --check build
	echo "$output"
	[[ $output == "These Debian packages are missing: clang"*"'make deps-build' as root"* ]]
	packaging/deps --check run
	run -1 packaging/deps --check
	[[ $output == *"'make deps' as root"* ]]
	system ceph-mon ceph-mon
	packaging/deps --check
	run -1 packaging/deps --check build run test long
	[[ $output == *" ceph-mon"*"'make deps deps-long' as root"* ]]
}

@test "deps: a package for tests that the release of Debian does not have is left out" {
	system fio clang jq
	run -0 packaging/deps
	echo "$output"
	[[ $output == *"tests that need them are skipped: fio" ]]
}

@test "deps: a package that the build needs is not left out, nor is any while apt has no lists" {
	system clang jq
	run -1 packaging/deps --check
	echo "$output"
	[[ $output == "These Debian packages are missing: clang"* ]]
	system fio
	run -1 packaging/deps --check
	echo "$output"
	[[ $output == "These Debian packages are missing: fio"* ]]
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

# Headers of libbpf 1.4 and later declare functions of the kernel that our programs call.
@test "deps: the BPF programs compile with the headers of newer releases of libbpf" {
	local file

	cat >"$BATS_TEST_TMPDIR/newer.h" <<-END
		extern void *bpf_rdonly_cast(const void *obj, unsigned int btf_id)
			__attribute__((section(".ksyms"))) __attribute__((weak));
	END
	for file in bpf/*.bpf.c; do
		clang -target bpf -mcpu=v3 -O2 -g -Wall -Werror -fsyntax-only -Iinclude \
			"-I/usr/include/$("${CC:-gcc}" -print-multiarch)" -include "$BATS_TEST_TMPDIR/newer.h" "$file"
	done
}
