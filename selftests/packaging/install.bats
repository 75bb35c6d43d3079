#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make install` and `make uninstall`, below a directory of their own

bats_require_minimum_version 1.5.0

staged() {
	env -u MAKEFLAGS -u MAKELEVEL make -s BUILD="${XR_BUILD#"$PWD"/}" "$@" DESTDIR="$STAGE" PREFIX=/usr
}

setup_file() {
	export STAGE=$BATS_FILE_TMPDIR/stage
	staged install
}

# A provider built with sanitizers cannot be loaded into programs built without them.
needs_plain_provider() {
	[[ -z ${SANITIZE:-} ]] || skip "built with sanitizers"
}

@test "install: every file is in its place" {
	local file

	for file in sbin/xroced bin/xroce lib/xroce/libxroce.so lib/systemd/system/xroced@.service \
		lib/systemd/system/xroce-metrics.socket lib/systemd/system/xroce-metrics.service \
		libexec/xroce/xroce-device-plugin lib/systemd/system/xroce-device-plugin.service \
		lib/sysusers.d/xroce.conf share/man/man8/xroced.8 share/man/man1/xroce.1; do
		[[ -f $STAGE/usr/$file ]] || { echo "no $file"; return 1; }
	done
	[[ -x $STAGE/usr/bin/xroce && -x $STAGE/usr/sbin/xroced && -x $STAGE/usr/libexec/xroce/xroce-device-plugin ]]
}

@test "make: goals that build nothing need no build folder" {
	local goal

	for goal in help deps clean format; do
		run env -u MAKEFLAGS -u MAKELEVEL make -n BUILD="$BATS_TEST_TMPDIR/absent" "$goal"
		echo "$goal: $output"
		((status == 0))
		[[ ! -e $BATS_TEST_TMPDIR/absent ]]
	done
}

@test "install: a program is linked with pkg-config and runs without preloading" {
	needs_plain_provider
	local lib=$STAGE/usr/lib flags needed

	flags=$(PKG_CONFIG_SYSROOT_DIR=$STAGE PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs libibverbs xroce)
	echo "$flags"
	# shellcheck disable=SC2086	# CC may contain ccache
	${CC:-cc} -o "$BATS_TEST_TMPDIR/example" docs/examples/fast_registration.c $flags
	needed=$(readelf -d "$BATS_TEST_TMPDIR/example" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | head -n 2)
	echo "$needed"
	[[ $needed == libxroce.so.1$'\n'libibverbs.so.1 ]]
	# It has no device here. With both, the library is loaded once.
	run env LD_LIBRARY_PATH="$lib" XROCE_RUNTIME_DIR="$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/example"
	echo "$output"
	[[ $output == *"no xroce device"* ]]
	run env LD_LIBRARY_PATH="$lib" LD_PRELOAD="$lib/xroce/libxroce.so" LD_TRACE_LOADED_OBJECTS=1 "$BATS_TEST_TMPDIR/example"
	echo "$output"
	(($(grep -c libxroce <<<"$output") == 1))
}

@test "install: xroce run finds the provider installed with it" {
	needs_plain_provider
	run --separate-stderr "$STAGE/usr/bin/xroce" run printenv LD_PRELOAD
	echo "$output"
	[[ $output == "$STAGE/usr/lib/xroce/libxroce.so" ]]
}

@test "install: xroce run keeps what LD_PRELOAD contains and adds the provider once" {
	needs_plain_provider
	local lib=$STAGE/usr/lib/xroce/libxroce.so

	LD_PRELOAD=libdl.so.2 run --separate-stderr "$STAGE/usr/bin/xroce" run "$STAGE/usr/bin/xroce" run printenv LD_PRELOAD
	echo "$output"
	[[ $output == "libdl.so.2:$lib" ]]
}

@test "install: xroce run ends with the exit status of the program" {
	needs_plain_provider
	run -7 "$STAGE/usr/bin/xroce" run sh -c 'exit 7'
	run -127 "$STAGE/usr/bin/xroce" run no-such-program
	[[ $output == *no-such-program* ]]
}

@test "install: the programs print their version" {
	"$STAGE/usr/bin/xroce" --version | grep -E '^xroce [0-9]'
	"$STAGE/usr/sbin/xroced" --version | grep -E '^xroced [0-9]'
}

@test "install: systemd accepts the units" {
	command -v systemd-analyze >/dev/null || skip "needs the program systemd-analyze"
	local unit=$BATS_TEST_TMPDIR/xroced@.service plugin=$BATS_TEST_TMPDIR/xroce-device-plugin.service
	local metrics=$BATS_TEST_TMPDIR/xroce-metrics

	sed "s|/usr/sbin/|$STAGE&|; /^Documentation/d" "$STAGE/usr/lib/systemd/system/xroced@.service" >"$unit"
	grep -q "^ExecStart=$STAGE/usr/sbin/xroced" "$unit"
	sed "s|/usr/libexec/|$STAGE&|; /^Documentation/d" "$STAGE/usr/lib/systemd/system/${plugin##*/}" >"$plugin"
	grep -q "^ExecStart=$STAGE/usr/libexec/xroce/xroce-device-plugin" "$plugin"
	sed "s|=/usr/bin/|=$STAGE/usr/bin/|; /^Documentation/d" "$STAGE/usr/lib/systemd/system/xroce-metrics.service" \
		>"$metrics.service"
	grep -q "^ExecStart=$STAGE/usr/bin/xroce metrics" "$metrics.service"
	sed '/^Documentation/d' "$STAGE/usr/lib/systemd/system/xroce-metrics.socket" >"$metrics.socket"
	run systemd-analyze verify "$unit" "$plugin" "$metrics.socket" "$metrics.service"
	echo "$output"
	[[ $status == 0 && -z $output ]]
}

@test "install: the unit works for interface names that systemd escapes" {
	command -v systemd-analyze >/dev/null || skip "needs the program systemd-analyze"
	local unit=$BATS_TEST_TMPDIR/xroced@.service

	sed "s|/usr/sbin/|$STAGE&|; /^Documentation/d" "$STAGE/usr/lib/systemd/system/xroced@.service" >"$unit"
	SYSTEMD_LOG_LEVEL=debug systemd-analyze verify "$BATS_TEST_TMPDIR/xroced@br\x2dlan.service" \
		>"$BATS_TEST_TMPDIR/units" 2>/dev/null
	grep -q 'BindsTo: sys-subsystem-net-devices-br\\x2dlan.device' "$BATS_TEST_TMPDIR/units"
	grep -q 'Command Line: .*/xroced --interface br-lan$' "$BATS_TEST_TMPDIR/units"
}

@test "install: xroced accepts every setting of the example" {
	local conf=$BATS_TEST_TMPDIR/conf

	sed -n 's/^#\([a-z-]* = .*\)/\1/p' "$STAGE/usr/share/doc/xroce/example.conf" |
		grep -v -e '^group' -e '^user ' >"$conf"
	(($(wc -l <"$conf") > 4))
	run "$STAGE/usr/sbin/xroced" --interface no-such-if --config "$conf" \
		--runtime-dir "$BATS_TEST_TMPDIR"
	echo "$output"
	[[ $status == 1 && $output == *no-such-if* ]]
}

# completed WORD...: prints the completions of the last word
completed() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_xroce
	echo "${COMPREPLY[*]}"
}

@test "install: the documents that the man pages name" {
	local file

	for file in README.md $(grep -ohE 'docs/[a-z_/]+\.[a-z]+' docs/man/*); do
		[[ -f $STAGE/usr/share/doc/xroce/$file ]] || { echo "no $file"; return 1; }
	done
}

@test "install: bash completion" {
	local dir=$BATS_TEST_TMPDIR

	# shellcheck source=packaging/xroce.bash-completion
	source "$STAGE/usr/share/bash-completion/completions/xroce"
	touch "$dir/xr_eth0.sock"
	[[ $(completed xroce stat) == status ]]
	[[ $(completed xroce -j -r "$dir" stat) == status ]]
	[[ $(completed xroce -r "$dir" status x) == xr_eth0 ]]
	[[ $(completed xroce run -r "$dir" -d "") == xr_eth0 ]]
	[[ $(completed xroce run print) == *printenv* ]]
	[[ -z $(completed xroce run printenv HO) ]]
	[[ $(completed xroce -r "$dir" fault xr_eth0 dr) == drop ]]
	[[ $(completed xroce fault -j -r "$dir" xr_) == xr_eth0 ]]
	[[ $(completed xroce top -b -d 5 -r "$dir" xr_) == xr_eth0 ]]
	[[ $(completed xroce top -v p) == program ]]
	[[ -z $(completed xroce top -d "") ]]
	[[ $(completed xroce top -n 3 --del) == --delay ]]
	[[ $(completed xroce capture -r "$dir" -b 5 xr_) == xr_eth0 ]]
}

@test "uninstall: no file is left" {
	staged uninstall
	run find "$STAGE" -type f
	echo "$output"
	[[ -z $output ]]
	[[ ! -e $STAGE/usr/lib/xroce ]]
}
