# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For tests of pairs of programs of which one or both are direct, after helpers

# each_way FUNCTION ARG...: calls the function with SERVER and CLIENT set to XROCE_PATH of both ends
each_way() {
	local ways

	for ways in direct,direct direct,daemon daemon,direct; do
		SERVER=${ways%,*} CLIENT=${ways#*,}
		"$@" || {
			echo "server: $SERVER, client: $CLIENT"
			return 1
		}
	done
}
