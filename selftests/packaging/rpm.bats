#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The RPM packages: packaging/xroce.spec, built with rpmbuild from the tarball of `make dist`

bats_require_minimum_version 1.5.0

setup_file() {
	[[ -z ${SANITIZE:-} ]] || skip "built with sanitizers"
	command -v rpmbuild >/dev/null || skip "needs the program rpmbuild"
	export TOP=$BATS_FILE_TMPDIR/top XZ_DEFAULTS=-0
}

@test "rpm: rpmspec accepts the spec file, which has the version of the programs" {
	rpmspec -P packaging/xroce.spec >/dev/null
	[[ "xroced $(rpmspec -q --srpm --qf '%{VERSION}' packaging/xroce.spec)" == "$("$XR_BUILD/xroced" --version)" ]]
}

@test "rpm: rpmbuild makes four packages" {
	local dist

	dist=$(env -u MAKEFLAGS -u MAKELEVEL make -s BUILD="$BATS_TEST_TMPDIR/build" dist)
	# Names of packages differ between distributions (--nodeps); unit tests are a suite of their own. The flags are
	# those of the distribution in its builds; the shortest compilation tests the rest of the spec file.
	env -u MAKEFLAGS -u MAKELEVEL -u BUILD -u V -u SANITIZE -u OPT -u CFLAGS -u LDFLAGS -u CC -u CLANG \
		rpmbuild --nodeps --nocheck -tb --define "_topdir $TOP" --define "optflags -O0" "$dist" \
		>"$BATS_TEST_TMPDIR/log" 2>&1 ||
		{ tail -n 30 "$BATS_TEST_TMPDIR/log"; return 1; }
	run rpm -qp --nosignature --qf '%{NAME} ' "$TOP"/RPMS/*/*.rpm
	echo "$output"
	[[ $(xargs -n 1 <<<"$output" | sort | xargs) == "xroce xroce-devel xroce-kubernetes xroce-libs" ]]
}

@test "rpm: the packages have every installed file, once" {
	local stage=$BATS_TEST_TMPDIR/stage

	rpm -qpl --nosignature "$TOP"/RPMS/*/*.rpm | grep -v -e /.build-id -e /licenses/ | sort >"$BATS_TEST_TMPDIR/files"
	env -u MAKEFLAGS -u MAKELEVEL make -s BUILD="${XR_BUILD#"$PWD"/}" install DESTDIR="$stage" PREFIX=/usr LIBDIR=/usr/lib64
	(cd "$stage" && find . ! -type d -printf '/%P\n') | grep -v -e '/doc/xroce/LICENSE$' -e '/doc/xroce/.*\.[ch]$' |
		sort >"$BATS_TEST_TMPDIR/installed"
	# rpmbuild of some distributions compresses man pages, and that of Debian has its own folder for libraries
	sed -i 's/\.gz$//; s|^/usr/lib/x86_64-linux-gnu/|/usr/lib64/|' "$BATS_TEST_TMPDIR/files"
	[[ -z $(comm -13 "$BATS_TEST_TMPDIR/files" "$BATS_TEST_TMPDIR/installed" | tee /dev/stderr) ]]
	[[ -z $(uniq -d "$BATS_TEST_TMPDIR/files" | tee /dev/stderr) ]]
}
