#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon as a service: messages to the service manager, its watchdog, probes.

load helpers

# A socket in place of that of the service manager; its messages go to $RUN/messages.
setup_file() {
	requires root python3
	hosts_up
	python3 - "$RUN/notify" "$RUN/messages" <<'PYTHON' 3>&- &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
out = open(sys.argv[2], "ab", buffering=0)
while True:
    out.write(s.recv(4096) + b"\n")
PYTHON
	echo $! >"$RUN/manager"
	listening() { [[ -S $RUN/notify ]]; }
	wait_for 20 listening
	chmod 666 "$RUN/notify"
	chmod 711 "$RUN"
	NOTIFY_SOCKET=$RUN/notify WATCHDOG_USEC=1000000 daemon_up a
}

teardown_file() {
	end_journal
	kill "$(cat "$RUN/manager")"
	rm -f "$RUN/notify" "$RUN/messages" "$RUN/manager"
	hosts_down
}

told() {
	grep -q "$@" "$RUN/messages"
}

# Prints the number of signs of life.
alive_count() {
	grep -c '^WATCHDOG=1$' "$RUN/messages" || true
}

lives() {
	(($(alive_count) > $1))
}

@test "the service manager is told when the daemon is ready, and its status" {
	wait_for 10 told '^READY=1$'
	told '^STATUS=xra serves va (link up, \(XDP .*\|UDP sockets.*\), [0-9]* workers*)$'
}

@test "the status changes with the link" {
	ip -n "$ID-a" link set va down
	wait_for 20 told '^STATUS=.*link down'
	ip -n "$ID-a" link set va up
	after() { [[ $(grep '^STATUS=' "$RUN/messages" | tail -n 1) == *"link up"* ]]; }
	wait_for 20 after
}

@test "an idle daemon gives signs of life" {
	local n

	n=$(alive_count)
	wait_for 20 lives $((n + 2))
}

@test "a worker that hangs ends the signs of life" {
	local n stopper

	"$BATS_TEST_DIRNAME/stop_thread.py" "$(daemon_pid a)" xroced/0 3>&- &
	stopper=$!
	hangs() { grep -q "worker 0 makes no progress" "$RUN/a/log"; }
	wait_for 20 hangs
	n=$(alive_count)
	sleep 2
	equal "signs of life" "$(alive_count)" "$n"
	# the kernel detaches the tracer when it ends
	kill -KILL "$stopper"
	wait_for 20 lives "$n"
}

@test "the service manager is told when the daemon stops" {
	daemon_down a
	told '^STOPPING=1$'
}

# A socket in place of that of the journal; its messages go to $RUN/journal as JSON.
start_journal() {
	local socket=/run/systemd/journal/socket

	end_journal
	[[ ! -e $socket ]] || skip "a journal runs on this machine"
	mkdir -p "${socket%/*}"
	python3 - "$socket" "$RUN/journal" <<'PYTHON' 3>&- &
import json, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
out = open(sys.argv[2], "w", buffering=1)
while True:
    data, fields = s.recv(65536), {}
    while data:
        line, data = data.split(b"\n", 1)
        name, equal, value = line.partition(b"=")
        if not equal:
            size = struct.unpack_from("<Q", data)[0]
            value, data = data[8:8 + size], data[8 + size + 1:]
        fields[name.decode()] = value.decode()
    out.write(json.dumps(fields) + "\n")
PYTHON
	echo $! >"$RUN/journal.pid"
	listening() { [[ -S $socket ]]; }
	wait_for 20 listening
	chmod 666 "$socket"
	: >>"$RUN/b/log"
}

end_journal() {
	[[ -e $RUN/journal.pid ]] || return 0
	kill "$(cat "$RUN/journal.pid")"
	rm -f /run/systemd/journal/socket "$RUN/journal" "$RUN/journal.pid"
}

# has FILTER: a message to the journal fulfils the jq filter
has() {
	jq -e -s "any(.[]; $1)" "$RUN/journal" >/dev/null
}

@test "messages to the journal have fields" {
	local server stranger

	daemon_path "it does not see the requests of direct programs"
	start_journal
	JOURNAL_STREAM=$(stat -c %d:%i "$RUN/b/log") daemon_up b --log-level debug
	run run_on b "$BIN/rdma_refusals" -g "$(gid_index b "$B4")"
	ctl b fault xrb rules 'qp-error tx opcode SEND_LAST times 1'
	spawn b "$BATS_TEST_TMPDIR/server" ibv_rc_pingpong -g "$(gid_index b "$B4")" -p 18712
	server=$!
	wait_for 10 listens b 18712
	run run_on b timeout 20 ibv_rc_pingpong -g "$(gid_index b "$B4")" -p 18712 "$B4"
	kill "$server" || true
	chmod 666 "$RUN/b/xrb.sock"
	setpriv --reuid 65534 --regid 65534 --clear-groups "$XROCE" -r "$RUN/b" status xrb 3>&- &
	stranger=$!
	wait "$stranger" || true
	daemon_down b
	tail -n 5 "$RUN/journal"
	has '.PRIORITY == "5" and .XROCE_DEVICE == "xrb" and .SYSLOG_IDENTIFIER == "xroced" and
		(.MESSAGE | startswith("xrb: device xrb serves vb"))'
	has '.PRIORITY == "7" and .XROCE_COMM == "rdma_refusals" and .XROCE_UID == "0" and (.XROCE_PID | tonumber) > 1 and
		(.MESSAGE | test("MODIFY_QP: Invalid argument"))'
	has '.XROCE_COMM == "ibv_rc_pingpong" and .XROCE_QPN and (.XROCE_QPN | tonumber) > 1 and
		(.MESSAGE | test("an injected fault$"))'
	has '.XROCE_COMM == "rdma_refusals" and (.MESSAGE | test("^xrb: client [0-9]+ .* connects$"))'
	has '.XROCE_COMM == "rdma_refusals" and (.MESSAGE | test("^xrb: client [0-9]+ .* ends$"))'
	has '.XROCE_PID == "'"$stranger"'" and .XROCE_UID == "65534" and (has("XROCE_COMM") | not) and
		(.MESSAGE | test("^xrb: uid 65534 .* may not connect$"))'
	# not about the program that the last message was about
	jq -e -s 'all(.[] | select(.MESSAGE | test("stopping")); has("XROCE_PID") | not)' "$RUN/journal"
	# what the journal does not get goes to stderr, with the priority
	end_journal
	JOURNAL_STREAM=$(stat -c %d:%i "$RUN/b/log") daemon_up b
	grep -q '^<5>xrb: device xrb serves vb' "$RUN/b/log"
	daemon_down b
}

@test "a program that a limit refuses is in the journal with its fields" {
	local pid

	start_journal
	JOURNAL_STREAM=$(stat -c %d:%i "$RUN/b/log") daemon_up b --group nogroup --user-max-clients 1
	setpriv --reuid 65534 --regid 65534 --clear-groups "$BATS_TEST_DIRNAME/connect.py" "$RUN/b/xrb.sock" 2 \
		</dev/null 3>&- &
	pid=$!
	wait "$pid"
	daemon_down b
	cat "$RUN/journal"
	has '.PRIORITY == "4" and .XROCE_DEVICE == "xrb" and .XROCE_PID == "'"$pid"'" and .XROCE_UID == "65534" and
		.XROCE_COMM == "python3" and
		.MESSAGE == "xrb: pid '"$pid"' of uid 65534 was refused: --user-max-clients is 1"'
	# the next message is not about that program
	has '(.MESSAGE | test("stopping")) and (has("XROCE_PID") | not)'
	end_journal
}

@test "the daemon has probes" {
	local name notes

	notes=$(readelf -n "$XROCED")
	[[ $notes == *"Provider: xroce"* ]] || skip "built without sys/sdt.h"
	for name in retry nak_sent nak_received qp_error cq_overrun memory_wait; do
		grep -q "^| .$name. | QPN" docs/probes.md
		grep -q "Name: $name\$" <<<"$notes" || { echo "no probe $name"; return 1; }
	done
	equal "probes" "$(grep -A1 'Provider: xroce' <<<"$notes" | sed -n 's/.*Name: //p' | sort -u | wc -l)" 6
}
