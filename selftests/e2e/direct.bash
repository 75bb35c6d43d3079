# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For tests of direct programs, after helpers

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

# lo_daemon_up: in place of the daemon of host a, one that serves its loopback interface
lo_daemon_up() {
	daemon_down a
	nsenter --net="/run/netns/$ID-a" -- "$XROCED" --interface lo --name xra --runtime-dir "$RUN/a" \
		--bpffs "$RUN/bpf" --user "$DAEMON_USER" --io socket </dev/null >>"$RUN/a/log" 2>&1 3>&- &
	echo $! >"$RUN/a/pid"
	disown $!
	wait_for 10 daemon_running a
}
