#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make deb`, and the package installed with dpkg below a root directory of its own

bats_require_minimum_version 1.5.0

setup_file() {
	[[ -z ${SANITIZE:-} ]] || skip "built with sanitizers"
	export ROOT=$BATS_FILE_TMPDIR/root DEB

	DEB=$(env -u MAKEFLAGS -u MAKELEVEL make -s BUILD="${XR_BUILD#"$PWD"/}" deb)
	mkdir -p "$ROOT/var/lib/dpkg" "$ROOT/etc"
	touch "$ROOT/var/lib/dpkg/status"
}

# in_root OPTION...: runs dpkg for the root directory $ROOT. The packages that xroce depends on are not installed there.
in_root() {
	((EUID == 0)) || skip "needs root"
	dpkg --root="$ROOT" --log=/dev/null --force-depends,script-chrootless "$@" 2>&1
}

@test "deb: depends on the libraries that the programs need" {
	run dpkg-deb --field "$DEB" Depends
	echo "$output"
	for library in libbpf1 libxdp1 libibverbs1 libisal2 libcap2 libmnl0 libc6; do
		[[ $output == *$library* ]]
	done
}

@test "deb: has the version that the programs print" {
	[[ "xroced $(dpkg-deb --field "$DEB" Version)" == "$("$XR_BUILD/xroced" --version)" ]]
}

@test "deb: installs; the programs run, the group exists" {
	in_root --install "$DEB"
	"$ROOT/usr/sbin/xroced" --version
	[[ $("$ROOT/usr/bin/xroce" run printenv LD_PRELOAD) == "$ROOT/usr/lib/xroce/libxroce.so" ]]
	grep -q '^ExecStart=/usr/sbin/xroced ' "$ROOT/usr/lib/systemd/system/xroced@.service"
	command -v systemd-sysusers >/dev/null || skip "the group: needs the program systemd-sysusers"
	grep -q ^rdma: "$ROOT/etc/group"
}

@test "deb: has what programs that are linked with the library need" {
	[[ $(dpkg-deb --field "$DEB" Package) == "$(dpkg-deb --info "$DEB" shlibs | awk '/^libxroce 1/ { print $3 }')" ]]
	[[ $(dpkg-deb --info "$DEB" triggers) == "activate-noawait ldconfig" ]]
	for file in lib/libxroce.so lib/libxroce.so.1 lib/pkgconfig/xroce.pc include/infiniband/xrocedv.h; do
		[[ -s $ROOT/usr/$file ]] || { echo "no $file"; return 1; }
	done
	[[ $(readlink "$ROOT/usr/lib/libxroce.so") == libxroce.so.1 ]]
	[[ $(PKG_CONFIG_PATH=$ROOT/usr/lib/pkgconfig pkg-config --modversion xroce) == "$(dpkg-deb --field "$DEB" Version)" ]]
}

@test "deb: removing keeps the settings, purging removes everything" {
	local wants=$ROOT/etc/systemd/system/multi-user.target.wants

	install -D packaging/example.conf "$ROOT/etc/xroce/eth0.conf"
	mkdir -p "$wants"
	ln -s /usr/lib/systemd/system/xroced@.service "$wants/xroced@eth0.service"
	ln -s /usr/lib/systemd/system/other.service "$wants/other.service"
	in_root --remove xroce
	[[ -e $ROOT/etc/xroce/eth0.conf && -L $wants/xroced@eth0.service ]]
	in_root --purge xroce
	run find "$ROOT/usr" "$ROOT/etc/xroce" -type f
	echo "$output"
	[[ ! -e $ROOT/etc/xroce && ! -e $ROOT/usr/sbin/xroced ]]
	[[ ! -L $wants/xroced@eth0.service && -L $wants/other.service ]]
}
