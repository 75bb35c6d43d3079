# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For tests of fault injection, after helpers.

# no_faults: removes the rules of operators on both hosts
no_faults() {
	ctl a fault xra off
	ctl b fault xrb off
}

# rule HOST NUMBER MEMBER: a member of a rule in force
rule() {
	ctl "$1" fault -j "xr$1" | jq ".rules[$2].$3"
}
