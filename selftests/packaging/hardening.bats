#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The hardening flags of the Makefile, as found in the ELF files

setup_file() {
	[[ -z ${SANITIZE:-} ]] || skip "built with sanitizers"
	[[ " $OPT $CFLAGS " != *" -O0 "* ]] || skip "built without optimization"
}

PROGRAMS=(xroced xroce)
LIBRARIES=(libxroce.so libxroce-dl.so libxroce-direct.so)

# each FILE... -- COMMAND...: runs the command with the path of each built file; shows the files for which it fails
each() {
	local files=() file bad=0

	while [[ $1 != -- ]]; do
		files+=("$1")
		shift
	done
	shift
	for file in "${files[@]}"; do
		"$@" "$XR_BUILD/$file" || { echo "$file: $*"; bad=1; }
	done
	return $bad
}

is_pie() { readelf -dW "$1" | grep -q 'FLAGS_1.*PIE'; }
binds_now() { readelf -dW "$1" | grep -q 'FLAGS_1.*NOW' && readelf -lW "$1" | grep -q GNU_RELRO; }
has_code_in_data() { readelf -lW "$1" | grep -E '(LOAD|GNU_STACK).* RWE' || readelf -dW "$1" | grep TEXTREL; }
has_no_code_in_data() { ! has_code_in_data "$1"; }
protects_stack() { readelf --dyn-syms -W "$1" | grep -q ' UND __stack_chk_fail'; }
is_fortified() { readelf --dyn-syms -W "$1" | grep -q ' UND __snprintf_chk'; }

# The linker marks a program only if all object files are marked, including those of the C library's start-up code,
# which depends on the distribution.
is_marked_for_cet() { readelf -nW "$1" 2>/dev/null | grep -q 'IBT, SHSTK'; }

@test "hardening: programs are position-independent" { each "${PROGRAMS[@]}" -- is_pie; }
@test "hardening: symbols are bound at start, tables are read-only then" {
	each "${PROGRAMS[@]}" "${LIBRARIES[@]}" -- binds_now
}
@test "hardening: no segment is writable and executable" {
	each "${PROGRAMS[@]}" "${LIBRARIES[@]}" -- has_no_code_in_data
}
@test "hardening: the stack protector is on" { each "${PROGRAMS[@]}" libxroce.so -- protects_stack; }
@test "hardening: functions of the C library check buffer sizes" {
	each "${PROGRAMS[@]}" libxroce.so -- is_fortified
}

@test "hardening: object files are marked for IBT and shadow stacks" {
	local objects

	[[ $(uname -m) == x86_64 ]] || skip "CET is of x86"
	mapfile -t objects < <(find daemon provider -name '*.c' | sed 's|^daemon/|obj/&|; s|^provider/|pic/&|; s|c$|o|')
	((${#objects[@]} > 100))
	each "${objects[@]}" -- is_marked_for_cet
}
