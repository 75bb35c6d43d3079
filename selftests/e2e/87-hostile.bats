#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Hostile clients (hostile.c), run as a user without privileges: the daemon must survive them, serve other programs
# meanwhile, and free all their resources.

load helpers

setup_file() {
	requires root
	getent passwd nobody >/dev/null || skip "needs the user nobody"
	hosts_up
	daemons_up --group "$(id -gn nobody)"
	for h in a b; do
		resources "$h" >"$RUN/$h/before"
	done
	both ib_write_bw -x @4 -F -n 100
}

# hostile HOST SECONDS SEED: runs hostile clients against the daemon of the host
hostile() {
	on "$1" "$BIN/hostile" "$RUN/$1/xr$1.sock" "$2" "$3" nobody 3>&-
}

@test "the daemon survives ten seconds of hostile clients" {
	hostile a 10 "${HOSTILE_SEED:-1}"
	alive "$(daemon_pid a)"
}

@test "hostile clients leave no resources" {
	resources_restored a "$(cat "$RUN/a/before")"
}

@test "data of other programs is correct while hostile clients run" {
	local pid

	hostile a 12 "$((${HOSTILE_SEED:-1} + 1000))" &
	pid=$!
	for _ in {1..3}; do
		both -t 60 ibv_rc_pingpong -g @4 -c -n $((200 / SLOW)) -s 70000
	done
	wait "$pid"
	alive "$(daemon_pid a)" && alive "$(daemon_pid b)"
}

@test "hostile clients leave no resources on either host" {
	resources_restored a "$(cat "$RUN/a/before")"
	resources_restored b "$(cat "$RUN/b/before")"
	both ib_read_bw -x @4 -F -n 100
}
