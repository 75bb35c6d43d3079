#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs under tools and in confined places: the rows of docs/programs.md that can be tried in a short time.

load helpers

# bats runs this before each test
setup() {
	[[ -z $SANITIZER ]] || skip "built with sanitizers, which need /proc and a preloaded library of their own"
}

# pingpong [COMMAND...]: ibv_rc_pingpong under a command on both hosts, with a check of the data
pingpong() {
	both -t 60 "$@" ibv_rc_pingpong -g @4 -n 20 -c
	grep -q '20 iters in' "$OUT/client"
}

# Prints a shell command that hides /proc and runs its arguments.
no_proc() {
	local file=$BATS_TEST_TMPDIR/no-proc

	# shellcheck disable=SC2016	# for the other shell
	printf '#!/bin/sh\nexec unshare -m sh -c '\''mount -t tmpfs -o ro none /proc && exec "$@"'\'' _ "$@"\n' >"$file"
	chmod 755 "$file"
	echo "$file"
}

@test "gcc's AddressSanitizer, if its check of the order of libraries is off" {
	local program=$BATS_TEST_TMPDIR/flush

	requires gcc
	gcc -D_GNU_SOURCE -fsanitize=address -g -I"$XR_TOP" -I"$XR_TOP/include" -o "$program" \
		"$XR_TOP"/selftests/e2e/{rdma_flush,verbs_util}.c -libverbs || skip "gcc has no AddressSanitizer"
	both -t 60 env ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 "$program" -g @4
	run -1 run_on a "$program" -g 0 -p 1
	[[ $output == *"does not come first in initial library list"* ]]
}

@test "strace, also of threads and children" {
	requires strace
	pingpong strace -f -o /dev/null
}

@test "valgrind finds no error and no leak" {
	requires valgrind
	both -t 60 valgrind -q --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=9 \
		ibv_rc_pingpong -g @4 -n 5 -e
}

@test "without /proc devices are found, and a registration by the daemon is refused with the reason" {
	local hide

	hide=$(no_proc)
	on a "$hide" "$XROCE" run -r "$RUN/a" ibv_devices | grep -w xra
	on a "$hide" "$XROCE" run -r "$RUN/a" cat /sys/class/infiniband/xra/ports/1/state
	! direct_contexts || pingpong "$hide" # which register without it
	daemon_path "it reaches the memory by /proc"
	XROCE_DEBUG=1 run -1 run_on a timeout $((20 * SLOW)) "$hide" ibv_rc_pingpong -g 0
	[[ $output == *"/proc must be mounted"* ]]
}

@test "a root with the needed files only" {
	local root=$BATS_TEST_TMPDIR/root file

	requires busybox
	mkdir -p "$root"/{bin,proc,dev,lib/xroce,"$RUN"}
	cp "$(command -v busybox)" "$(command -v ibv_rc_pingpong)" "$XROCE" "$root/bin"
	cp -L "$XR_BUILD"/libxroce{,-direct}.so "$root/lib/xroce"
	for file in $(ldd "$root"/bin/{ibv_rc_pingpong,xroce} "$root"/lib/xroce/libxroce{,-direct}.so | grep -o '/[^ :]*'); do
		[[ $file == "$root"* ]] || { mkdir -p "$root${file%/*}" && cp -Lu "$file" "$root$file"; }
	done
	# shellcheck disable=SC2016	# for the other shell
	printf '#!/bin/sh\nexec unshare -m sh -c '\''mount -t proc proc "$0/proc" && mount --rbind "$1" "$0$1" &&
		shift && exec chroot "$0" /bin/busybox env -u LD_PRELOAD /bin/xroce run "$@"'\'' %s %s "$@"\n' \
		"$root" "$RUN" >"$BATS_TEST_TMPDIR/enter"
	chmod 755 "$BATS_TEST_TMPDIR/enter"
	pingpong "$BATS_TEST_TMPDIR/enter"
}

@test "bubblewrap without capabilities" {
	requires bwrap
	pingpong bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all --share-net --cap-drop ALL
}
