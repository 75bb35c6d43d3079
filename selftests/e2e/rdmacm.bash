# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For tests of programs that connect by librdmacm, after helpers. `pair` waits for a listener of rdma_cm, not for
# one of TCP.

# shellcheck disable=SC2034	# used by `pair`
PORT=7174

# listens HOST PORT: whether a program listens on that port of rdma_cm on the host. The ids of a program that has
# just ended may still exist.
listens() {
	local pid

	for pid in $(ctl "$1" cm -l -j "xr$1" | jq ".[] | select(.port == $2).pid"); do
		alive "$pid" && return
	done
	return 1
}

# cm_ids HOST: prints the number of rdma_cm ids
cm_ids() {
	ctl "$1" cm -j "xr$1" | jq length
}

# no_cm_ids: waits until no host has rdma_cm ids
no_cm_ids() {
	local h

	for h in a b; do
		wait_for 10 eval "((\$(cm_ids $h) == 0))" || {
			ctl "$h" cm
			return 1
		}
	done
}

# cm_counter HOST NAME: prints a counter of connection management
cm_counter() {
	ctl "$1" counters -j "xr$1" | jq -er --arg n "$2" '.cm[] | select(.name == $n).value'
}

# perftest_cm PROGRAM ARG...: like perftest, with -R. The server listens a second time after the exchange of
# parameters; a client that connects before that fails, and the server goes on waiting.
perftest_cm() {
	local try server status

	OUT=$(out)
	mkdir -p "$OUT"
	for try in 1 2 3 4; do
		spawn a "$OUT/server" timeout $((40 * SLOW)) "$1" -R -F "${@:2}" -p "$PORT"
		server=$!
		wait_for 10 listens a "$PORT"
		status=0
		run_role 30 client b "$1" -R -F "${@:2}" -p "$PORT" "$A4" || status=$?
		((status == 0)) || kill "$server"
		wait "$server" || status=$?
		((status != 0)) || break
		show_output
		((try < 4))
	done
	has_result "$OUT/client" || {
		show_output
		return 1
	}
}

# refused TEXT COMMAND...: succeeds if the command fails and prints the text. rdmacm-utils exit with negative numbers,
# 250 to 255; 124 to 192 are those of `timeout` and of signals.
refused() {
	local text=$1 status=0 output

	shift
	output=$("$@" 2>&1) || status=$?
	if ((status == 0 || (status >= 124 && status <= 192))) || [[ $output != *$text* ]]; then
		echo "expected to fail with '$text': $* (status $status)" "$output"
		return 1
	fi
}

# ends SECONDS PID: waits for a program that `spawn` started and returns its exit status; kills it after SECONDS
ends() {
	local status=0

	if ! wait_for "$1" not alive "$2"; then
		kill -KILL "$2"
		echo "process $2 did not end"
	fi
	wait "$2" || status=$?
	return "$status"
}
