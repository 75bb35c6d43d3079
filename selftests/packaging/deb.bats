#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make dist` and `make deb`, and the packages installed with dpkg below a root directory of their own

bats_require_minimum_version 1.5.0

plain_make() {
	env -u MAKEFLAGS -u MAKELEVEL make -s BUILD="${XR_BUILD#"$PWD"/}" "$@"
}

setup_file() {
	[[ -z ${SANITIZE:-} ]] || skip "built with sanitizers"
	command -v dpkg-buildpackage >/dev/null || skip "needs the package dpkg-dev"
	command -v dh >/dev/null || skip "needs the package debhelper"
	export ROOT=$BATS_FILE_TMPDIR/root LIB
	export XZ_DEFAULTS=-0	# of the tarball; those of dpkg have their own level

	# unit tests are a suite of their own
	DEB_BUILD_OPTIONS=nocheck plain_make deb >"$BATS_FILE_TMPDIR/debs"
	LIB=$ROOT/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
	mkdir -p "$ROOT/var/lib/dpkg" "$ROOT/etc"
	touch "$ROOT/var/lib/dpkg/status"
}

# deb PACKAGE: prints the path of the package
deb() {
	grep "/$1_" "$BATS_FILE_TMPDIR/debs"
}

# in_root OPTION...: runs dpkg for the root directory $ROOT. The packages that xroce depends on are not installed there.
in_root() {
	((EUID == 0)) || skip "needs root"
	dpkg --root="$ROOT" --log=/dev/null --force-depends,script-chrootless "$@" 2>&1
}

@test "dist: an unpacked tarball makes the same tarball" {
	local dir=$BATS_TEST_TMPDIR name

	name=$(basename "$XR_BUILD"/xroce-*.tar.xz .tar.xz)
	tar -xf "$XR_BUILD/$name.tar.xz" -C "$dir"
	cmp packaging/debian/rules "$dir/$name/debian/rules"
	(cd "$dir/$name" && packaging/dist "$name" "$dir/again.tar.xz")
	cmp "$XR_BUILD/$name.tar.xz" "$dir/again.tar.xz"
}

@test "deb: has the version that the programs print" {
	local package version

	for package in xroce libxroce1 libxroce-dev xroce-kubernetes; do
		version=$(dpkg-deb --field "$(deb "$package")" Version)
		[[ "xroced ${version%-*}" == "$("$XR_BUILD/xroced" --version)" ]]
	done
}

@test "deb: lintian has no error and no warning" {
	command -v lintian >/dev/null || skip "needs the program lintian"
	run lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$XR_BUILD"/xroce_*.changes
	echo "$output"
	((status == 0))
	[[ $output == "running with root privileges is not recommended!" || -z $output ]]
	[[ -z $(find packaging/debian -name '*overrides') ]]
}

@test "deb: depends on the libraries that the programs need" {
	run dpkg-deb --field "$(deb xroce)" Depends
	echo "$output"
	for library in libbpf1 libxdp1 libisal2 zlib1g libcap2 libmnl0 libc6 libxroce1; do
		[[ $output == *$library* ]]
	done
	[[ $(dpkg-deb --field "$(deb libxroce1)" Depends) == *libibverbs1* ]]
}

@test "deb: build dependencies are those of make deps-build" {
	equal() { [[ $1 == "$2" ]] || { diff <(echo "$1") <(echo "$2"); return 1; }; }
	# build-essential is in every build of a package
	equal "$(sed -n '/^Build-Depends/,/^[^ ]*:/s/^ \([a-z0-9+-]*\).*/\1/p' packaging/debian/control |
		sed 's/debhelper-compat/debhelper/; /^dh-sequence/d' | sort)" \
		"$(packaging/deps --list build | grep -vxE 'build-essential|pkgconf|llvm' | sort)"
}

@test "deb: installs; the programs run, the group exists" {
	in_root --install "$(deb xroce)" "$(deb libxroce1)" "$(deb libxroce-dev)" "$(deb xroce-kubernetes)"
	"$ROOT/usr/sbin/xroced" --version
	[[ $("$ROOT/usr/bin/xroce" run printenv LD_PRELOAD) == "$ROOT/usr/lib/xroce/libxroce.so" ]]
	[[ -x $ROOT/usr/share/doc/xroce/docs/examples/two-hosts && -s $ROOT/usr/share/doc/xroce/docs/faults.md ]]
	grep -q '^ExecStart=/usr/sbin/xroced ' "$ROOT/lib/systemd/system/xroced@.service"
	grep -q '^ExecStart=/usr/libexec/xroce/xroce-device-plugin' "$ROOT/lib/systemd/system/xroce-device-plugin.service"
	grep -q '^ExecStart=/usr/bin/xroce metrics ' "$ROOT/lib/systemd/system/xroce-metrics.service"
	[[ -x $ROOT/usr/libexec/xroce/xroce-device-plugin ]]
	[[ -z $(find "$ROOT/etc/systemd" -name 'xroce-device-plugin*' -o -name 'xroce-metrics*') ]]
	command -v systemd-sysusers >/dev/null || skip "the group: needs the program systemd-sysusers"
	grep -q ^rdma: "$ROOT/etc/group"
	grep -q ^xroce: "$ROOT/etc/passwd"
}

@test "deb: programs have their hardening and separate symbols" {
	local id

	[[ -x $ROOT/usr/sbin/xroced ]] || skip "needs root"
	readelf -dW "$ROOT/usr/sbin/xroced" | grep -q 'FLAGS_1.*NOW.*PIE'
	readelf --dyn-syms -W "$ROOT/usr/sbin/xroced" | grep -q __snprintf_chk
	readelf -SW "$ROOT/usr/sbin/xroced" >"$BATS_TEST_TMPDIR/sections"
	grep -q debug_info "$BATS_TEST_TMPDIR/sections" && return 1
	id=$(readelf -nW "$ROOT/usr/sbin/xroced" | sed -n 's/.*Build ID: //p')
	dpkg-deb --contents "$(deb xroce-dbgsym)" | grep -q "${id:0:2}/${id:2}.debug"
}

@test "deb: has what programs that are linked with the library need" {
	[[ -d $ROOT/usr/include ]] || skip "needs root"
	[[ $(dpkg-deb --info "$(deb libxroce1)" shlibs | awk '{ print $1, $2, $3 }') == "libxroce 1 libxroce1" ]]
	[[ $(dpkg-deb --info "$(deb libxroce1)" triggers) == *"activate-noawait ldconfig" ]]
	[[ -s $LIB/libxroce.so && -s $LIB/libxroce.so.1 ]]
	PKG_CONFIG_SYSROOT_DIR=$ROOT PKG_CONFIG_PATH=$LIB/pkgconfig LD_LIBRARY_PATH=$LIB \
		packaging/debian/tests/build "$ROOT/usr/share/doc/libxroce-dev/examples/fast_registration.c"
}

@test "deb: autopkgtest runs the tests of the source package with the installed packages, and they pass" {
	local work=$BATS_TEST_TMPDIR/work name out=$BATS_TEST_TMPDIR/out

	((EUID == 0)) || skip "needs root"
	command -v autopkgtest >/dev/null || skip "needs the program autopkgtest"
	mkdir "$work"
	selftests/packaging/autopkgtest "$work" "$XR_BUILD"/xroce-*.tar.xz \
		"$(deb xroce)" "$(deb libxroce1)" "$(deb libxroce-dev)" >"$out" 2>&1 3>&- || { cat "$out"; return 1; }
	sed -n '/@ summary/,$p' "$out" | tee "$BATS_TEST_TMPDIR/summary"
	while read -r name; do
		grep -q "^$name  *PASS$" "$BATS_TEST_TMPDIR/summary"
	done < <(sed -n 's/^Tests: //p' packaging/debian/tests/control)
}

@test "deb: removing keeps the settings, purging removes everything" {
	local wants=$ROOT/etc/systemd/system/multi-user.target.wants packages=(xroce-kubernetes xroce libxroce-dev libxroce1)

	install -D packaging/example.conf "$ROOT/etc/xroce/eth0.conf"
	mkdir -p "$wants"
	ln -s /lib/systemd/system/xroced@.service "$wants/xroced@eth0.service"
	ln -s /lib/systemd/system/other.service "$wants/other.service"
	install -D /dev/null "$ROOT/run/xroce/xr_eth0.lock"
	in_root --remove "${packages[@]}"
	[[ -e $ROOT/etc/xroce/eth0.conf && -L $wants/xroced@eth0.service ]]
	in_root --purge "${packages[@]}"
	run find "$ROOT/usr" "$ROOT/lib" "$ROOT/etc/xroce" -type f
	echo "$output"
	[[ ! -e $ROOT/etc/xroce && ! -e $ROOT/usr/sbin/xroced && ! -e $ROOT/run/xroce ]]
	[[ ! -L $wants/xroced@eth0.service && -L $wants/other.service ]]
}
