#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Clients that want no good (hostile.c), as a user without rights: the daemon lives on, others are
# served meanwhile, and nothing of theirs stays.

load helpers

setup_file() {
	requires root
	getent passwd nobody >/dev/null || skip "needs the user nobody"
	hosts_up
	daemons_up --group "$(id -gn nobody)"
	both ib_write_bw -x @4 -F -n 100
	for h in a b; do
		holdings "$h" >"$RUN/$h/before"
	done
}

# hostile HOST SECONDS SEED
hostile() {
	on "$1" "$XR_BUILD/selftests/e2e/hostile" "$RUN/$1/xr$1.sock" "$2" "$3" nobody 3>&-
}

as_before() {
	[[ $(holdings "$1") == "$(cat "$RUN/$1/before")" ]]
}

@test "hostile: the daemon survives ten seconds of it" {
	hostile a 10 "${HOSTILE_SEED:-1}"
	alive "$(daemon_pid a)"
}

@test "hostile: everything that they had is gone" {
	wait_for 20 as_before a || {
		echo "before: $(tr '\n' ' ' <"$RUN/a/before")"
		echo "now: $(holdings a | tr '\n' ' ')"
		ctl a client xra
		return 1
	}
}

@test "hostile: others are served meanwhile, and every byte of theirs is right" {
	local pid

	hostile a 12 "$((${HOSTILE_SEED:-1} + 1000))" &
	pid=$!
	for _ in {1..3}; do
		both -t 60 ibv_rc_pingpong -g @4 -c -n $((200 / SLOW)) -s 70000
	done
	wait "$pid"
	alive "$(daemon_pid a)" && alive "$(daemon_pid b)"
}

@test "hostile: nothing stays on either host" {
	wait_for 20 as_before a
	wait_for 20 as_before b
	both ib_read_bw -x @4 -F -n 100
}
