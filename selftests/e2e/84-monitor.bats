#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# xroce monitor: events of queue pairs, link, GIDs, clients and faults; slow, many and hostile readers.

load helpers

LOOKS="of direct QPs, looks show the last of several changes, and no NAKs"
QPS=6000 # of one program: with their end more events than the daemon keeps

setup_file() {
	requires root
	hosts_up
	daemon_up a --client-max-qp "$QPS" --user-max-qp "$QPS"
	daemon_up b
}

teardown() {
	# shellcheck disable=SC2046
	kill -KILL $(jobs -p) 2>/dev/null || true
	report_failure
}

# monitor_on HOST ARG...: starts a monitor in the background, with its output in $EVENTS; sets MONITOR
monitor_on() {
	local h=$1

	shift
	EVENTS=$BATS_TEST_TMPDIR/events
	"$XROCE" -r "$RUN/$h" monitor "xr$h" "$@" </dev/null >"$EVENTS" 2>"$EVENTS.err" 3>&- &
	MONITOR=$!
	wait_for 10 reads_events "$MONITOR"
}

# The monitor has the socket of the connection, and that of the events.
reads_events() {
	(($(find "/proc/$1/fd" -lname 'socket:*' 2>/dev/null | wc -l) >= 2))
}

monitor_end() {
	kill "$MONITOR" 2>/dev/null || true
	wait "$MONITOR" || true
	cat "$EVENTS"
}

# has_event FILTER: a line of $EVENTS fulfils the jq filter
has_event() {
	jq -e -s "any(.[]; $1)" "$EVENTS" >/dev/null
}

# event FILTER: waits for it
event() {
	wait_for 10 has_event "$1" || {
		echo "no event with $1 in:"
		cat "$EVENTS"
		return 1
	}
}

# sum FILTER: prints the sum of the counts of the events that fulfil the filter
sum() {
	jq -s "[.[] | select($1) | .count] | add // 0" "$EVENTS"
}

@test "xroce monitor prints the life of a queue pair with its program, a line for each event" {
	local lines

	daemon_path "$LOOKS"
	monitor_on a
	both ibv_rc_pingpong -g @4 -n 10
	left() { grep -q client_left "$EVENTS"; }
	wait_for 10 left
	sleep 0.2
	monitor_end
	not grep -Ev '^\[[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\] xra [a-z_]+ [a-z]+ ' "$EVENTS"
	lines=$(grep -Eo 'client_connected|qp_created| state [A-Z]+|qp_destroyed' "$EVENTS" | tr -s '\n' ' ')
	equal "events" "$lines" "client_connected qp_created state INIT state RTR state RTS qp_destroyed "
	equal "lines with the program" "$(grep -c ' comm ibv_rc_pingpong$' "$EVENTS")" "$(wc -l <"$EVENTS")"
	grep -q " client_connected kind verbs client [0-9]* pid [0-9]* uid 0 comm " "$EVENTS"
	grep -q " qp_state qpn [0-9]* type RC from RTR state RTS peer $B4 dest_qpn [0-9]* client " "$EVENTS"
}

@test "events are JSON with -j, and filters select them by name and value" {
	local before

	daemon_path "$LOOKS"
	before=$(date +%s)
	monitor_on a -j event qp_state,qp_created comm ibv_rc_pingpong
	both ibv_rc_pingpong -g @4 -n 10
	event '.event == "qp_state" and .state == "RTS"'
	monitor_end
	equal "events" "$(jq -r .event "$EVENTS" | sort | uniq -c | tr -s ' \n' ' ')" " 1 qp_created 3 qp_state "
	equal "lines" "$(wc -l <"$EVENTS")" 4
	jq -e -s "all(.[]; .device == \"xra\" and .time_ns / 1000000000 >= $before and
		(.timestamp | test(\"^[0-9-]{10}T[0-9:]{8}\\\\.[0-9]{6}$\")))" "$EVENTS"
	monitor_on a -j state RTR ty RC
	both ibv_rc_pingpong -g @4 -n 10
	event '.state == "RTR"'
	monitor_end
	equal "lines" "$(wc -l <"$EVENTS")" 1
	run -2 ctl a monitor xra teleport 1
	[[ $output == *"'teleport' is not one of device event qpn "* ]]
	run -2 ctl a monitor xra event qp_state,teleport
	[[ $output == *"event: 'teleport' is not one of qp_created,"* ]]
	run -2 ctl a monitor xra p 1
	[[ $output == *"'p' is not unique: peer pid"* ]]
	run -2 ctl a monitor xra qpn
	[[ $output == *"'qpn' has no value"* ]]
	run -2 ctl a monitor xra qpn eleven
	[[ $output == *"qpn: 'eleven' is no number"* ]]
	run -2 ctl a monitor xra state RTX
	[[ $output == *"state: 'RTX' is not one of RESET,"*",up,down"* ]]
	run -2 ctl a monitor xra nak remote
	[[ $output == *"nak: 'remote' is not one of RNR,PSN sequence,"* ]]
	run -1 ctl a monitor nodevice
	[[ $output == *nodevice* ]]
	ctl a mon help | grep -q '^usage: xroce monitor'
}

@test "errors of queue pairs have the reason that xroce qp shows, and NAKs their kind" {
	local reason

	daemon_path "$LOOKS"
	monitor_on a -j
	both "$BIN/rdma_verify" -g @4 -n 2 -t wrong-variant
	event '.event == "qp_error" and .reason == "a request of the peer was refused" and .status == "remote access"'
	event '.event == "nak" and .direction == "sent" and .nak == "remote access" and .count >= 1'
	event ".event == \"qp_error\" and .peer == \"$B4\" and .dest_qpn > 0 and .comm == \"rdma_verify\""
	for reason in $(jq -r 'select(.event == "qp_error").reason' "$EVENTS" | tr ' ' _); do
		grep -q "\"${reason//_/ }\"" "$XR_TOP/daemon/objects/qp_show.c"
	done
	monitor_end
	monitor_on b -j
	both "$BIN/rdma_verify" -g @4 -n 2 -t wrong-variant
	event '.event == "qp_error" and .reason == "a work request failed" and .status == "REM_ACCESS_ERR"'
	event '.event == "nak" and .direction == "received" and .nak == "remote access" and .comm == "rdma_verify"'
	# no work request and no NAK, thus no status
	ctl b fault xrb rules 'qp-error tx opcode SEND_ONLY after 5 times 1'
	fails both -t $((30 * ${SLOW:-1})) ibv_rc_pingpong -g @4 -s 64 -n 1000
	event '.event == "qp_error" and .reason == "an injected fault" and (has("status") | not) and .vendor_err == 15'
	ctl b fault xrb off
	monitor_end
}

@test "NAKs and hits of fault rules are summed, and no one is missing" {
	local sent hits

	daemon_path "$LOOKS"
	ctl a fault xra rules 'drop rx prob 2%'
	sent=$(counter a seq_naks_sent)
	monitor_on a -j
	both -t 40 ib_write_bw -x @4 -F -n 1000 -s 65536
	sent=$(($(counter a seq_naks_sent) - sent))
	hits=$(ctl a fault -j xra | jq '.rules[0].hits')
	echo "$sent NAKs, $hits faults"
	((sent > 0 && hits > 0))
	summed() { (($(sum '.event == "fault"') == hits && $(sum '.nak == "PSN sequence" and .direction == "sent"') == sent)); }
	wait_for 10 summed || { cat "$EVENTS"; return 1; }
	equal "rule" "$(jq -r 'select(.event == "fault").rule' "$EVENTS" | sort -u)" "drop rx prob 2%"
	# what happens in a second is one event
	(($(jq -s '[.[] | select(.event == "fault")] | length' "$EVENTS") < hits))
	ctl a fault xra off
	monitor_end >/dev/null
}

@test "rules of every kind have events for their hits" {
	local rule

	monitor_on a -j event fault
	ctl a fault xra rules 'delay 1us tx opcode SEND_ONLY times 2; event COMM_EST tx opcode SEND_ONLY times 3
		slow create_qp 1ms; event LID_CHANGE period 50ms times 4; port-down length 1ms command nobody'
	both ibv_rc_pingpong -g @4 -s 64 -n 20
	for rule in delay:2 event.COMM_EST:3 slow:1 event.LID_CHANGE:4 port-down:1; do
		hits_of() { (($(sum "(.rule | test(\"^${rule%:*}\")) and .hits <= ${rule#*:}") == ${rule#*:})); }
		wait_for 10 hits_of || { cat "$EVENTS"; return 1; }
	done
	ctl a fault xra off
	monitor_end >/dev/null
}

# queue_error RULE EVENT OBJECT: the program of rdma_watch gets an error, and so do the monitor and the last error
queue_error() {
	local kind=${3,,}

	ctl a fault xra rules "$1 command rdma_watch times 1"
	grows() { grep -q "the $3: $2" "$BATS_TEST_TMPDIR/program"; }
	wait_for 10 grows "$@"
	event ".event == \"${kind}_error\" and .$kind > 0 and .qpn > 1 and .comm == \"rdma_watch\" and
		.reason == \"an injected fault\""
	ctl a "$kind" -dj xra comm rdma_watch >"$BATS_TEST_TMPDIR/detail"
	jq -e --slurpfile events "$EVENTS" --argjson now "$(date +%s%N)" ".[0] | .last_error.reason == \"an injected fault\" and
		.last_error.time_ns > .created_ns and .last_error.time_ns <= \$now and
		.last_error.qpn == \$events[-1].qpn and .$kind == \$events[-1].$kind" "$BATS_TEST_TMPDIR/detail"
}

@test "errors of CQs and SRQs are events, and the last error of their queues" {
	daemon_path "direct QPs of one context send no packets to each other"
	spawn a "$BATS_TEST_TMPDIR/program" "$BIN/rdma_watch" queues $((60 * ${SLOW:-1}))
	ready() { grep -q ready "$BATS_TEST_TMPDIR/program"; }
	wait_for 20 ready
	ctl a srq -dj xra comm rdma_watch | jq -e '.[0] | has("last_error") | not'
	monitor_on a -j event cq_error,srq_error
	queue_error 'event SRQ_ERR rx opcode SEND_ONLY' 'SRQ catastrophic error' SRQ
	queue_error 'event CQ_ERR tx opcode SEND_ONLY' 'CQ error' CQ
	ctl a cq -j xra comm rdma_watch overrun no | jq -e 'length == 1'
	ctl a fault xra rules 'cq-error rx opcode SEND_ONLY command rdma_watch times 1'
	failed() { grep -q 'the QP has failed' "$BATS_TEST_TMPDIR/program"; }
	wait_for 20 failed
	ctl a fault xra off
	ctl a cq -j xra comm rdma_watch overrun yes | jq -e 'length == 1'
	two() { (($(grep -c '"cq_error"' "$EVENTS") == 2)); }
	wait_for 10 two
	monitor_end
	equal "lines" "$(wc -l <"$EVENTS")" 3
	# a monitor that starts later does not print them
	monitor_on a -j event cq_error,srq_error
	sleep 0.5
	equal "lines" "$(wc -l <"$EVENTS")" 0
	monitor_end
}

@test "xroce monitor shows link and addresses" {
	monitor_on a -j
	on a ip address add 10.78.0.1/24 dev va
	event '.event == "gid_added" and .gid == "10.78.0.1" and .index > 0'
	on a ip address del 10.78.0.1/24 dev va
	event '.event == "gid_removed" and .gid == "10.78.0.1"'
	on b ip link set vb down
	event '.event == "link" and .state == "down"'
	on b ip link set vb up
	on b ip address add "$B6/64" dev vb nodad
	event '.event == "link" and .state == "up"'
	monitor_end
}

@test "a slow reader loses events and is told how many; others lose none" {
	local slow slow_events fast fast_events program

	monitor_on a -j
	slow=$MONITOR slow_events=$BATS_TEST_TMPDIR/slow
	mv "$EVENTS" "$slow_events"
	kill -STOP "$slow"
	monitor_on a -j
	fast=$MONITOR fast_events=$EVENTS
	# The fast one may get little of the processor. The daemon keeps the events of one half of the program's life.
	mkfifo "$BATS_TEST_TMPDIR/go"
	run_on a "$BIN/rdma_limits" -w -g "$(gid_index a "$A4")" qp <"$BATS_TEST_TMPDIR/go" 3>&- &
	program=$!
	exec 9>"$BATS_TEST_TMPDIR/go"
	all_there() { (($(grep -c "\"$1\"" "$fast_events") >= QPS)); }
	wait_for 60 all_there qp_created
	exec 9>&-
	wait "$program"
	wait_for 60 all_there qp_destroyed
	kill -CONT "$slow"
	EVENTS=$slow_events
	event '.event == "lost"'
	both ibv_rc_pingpong -g @4 -n 10
	event '.event == "client_left" and .comm == "ibv_rc_pingpong"'
	grep '"lost"' "$slow_events"
	EVENTS=$fast_events
	event '.event == "client_left" and .comm == "ibv_rc_pingpong"'
	equal "lost by the other" "$(grep -c '"lost"' "$fast_events")" 0
	EVENTS=$slow_events
	equal "events with those lost" "$(($(grep -vc '"lost"' "$slow_events") + $(sum '.event == "lost"')))" \
		"$(wc -l <"$fast_events")"
	kill "$slow" "$fast"
}

@test "16 monitors at a time get the events, one more is refused" {
	local i pids=()

	for i in {1..16}; do
		monitor_on a -j event client_connected
		mv "$EVENTS" "$EVENTS.$i"
		pids+=("$MONITOR")
	done
	run -1 ctl a monitor xra
	[[ $output == *"there are 16 monitors already"* ]]
	both ibv_rc_pingpong -g @4 -n 10
	for i in {1..16}; do
		EVENTS=$BATS_TEST_TMPDIR/events.$i
		event '.comm == "ibv_rc_pingpong"'
	done
	kill "${pids[@]}"
	wait "${pids[@]}" || true
	monitor_on a
	monitor_end
}

@test "xroce monitor is for operators" {
	run -1 setpriv --reuid 65534 --regid 65534 --clear-groups "$XROCE" -r "$RUN/a" monitor xra
	[[ $output == *"may not connect"* || $output == *"is for root"* ]]
}

@test "xroce monitor ends when nobody reads its output, and when the daemon stops" {
	local pid reader status

	mkfifo "$BATS_TEST_TMPDIR/pipe"
	"$XROCE" -r "$RUN/a" monitor xra >"$BATS_TEST_TMPDIR/pipe" 3>&- &
	pid=$!
	cat "$BATS_TEST_TMPDIR/pipe" >/dev/null 3>&- &
	reader=$!
	wait_for 10 reads_events "$pid"
	kill "$reader"
	wait_for 10 not alive "$pid"
	monitor_on a -j
	daemon_down a
	status=0
	wait "$MONITOR" || status=$?
	equal "status" "$status" 1
	equal "message" "$(cat "$EVENTS.err")" "xroce: xra: the daemon has ended"
	daemon_up a --client-max-qp "$QPS" --user-max-qp "$QPS"
	# all devices, of which one ends
	ln -s "$RUN/b/xrb.sock" "$RUN/a/xrb.sock"
	"$XROCE" -r "$RUN/a" monitor -j >"$EVENTS" 2>"$EVENTS.err" 3>&- &
	MONITOR=$!
	both_read() { (($(find "/proc/$MONITOR/fd" -lname 'socket:*' | wc -l) >= 4)); }
	wait_for 10 both_read
	daemon_down b
	ends() { grep -q "xrb: the daemon has ended" "$EVENTS.err"; }
	wait_for 10 ends
	run_on a ibv_devinfo >/dev/null
	event '.device == "xra" and .event == "client_connected"'
	monitor_end
	rm "$RUN/a/xrb.sock"
	daemon_up b
}

# no_events TEXT: acts as a daemon whose events are that text
no_events() {
	python3 "$BATS_TEST_DIRNAME/fake_daemon.py" xrbad "$RUN/bad/xrbad.sock" events "$1"
}

@test "xroce monitor refuses what is no event, and prints no control characters" {
	requires python3
	local text reader

	mkdir "$RUN/bad"
	listening() { ss -Hlx | grep -q "$RUN/bad/xrbad.sock"; }
	for text in '[1]' '{"event":' ' ' 'x'; do
		no_events "$text" 3>&- &
		wait_for 20 listening
		run -1 "$XROCE" -r "$RUN/bad" monitor xrbad
		echo "$output"
		[[ $output == *"that are no event" ]]
		rm "$RUN/bad/xrbad.sock"
		wait
	done
	no_events '{"event":"\u001b[31m","time_ns":-5,"comm":"a\"b","x":{"y":[1]}}' 3>&- &
	wait_for 20 listening
	"$XROCE" -r "$RUN/bad" monitor xrbad >"$BATS_TEST_TMPDIR/text" 3>&- &
	reader=$!
	text_there() { [[ -s $BATS_TEST_TMPDIR/text ]]; }
	wait_for 10 text_there
	kill "$reader"
	wait
	cat "$BATS_TEST_TMPDIR/text"
	not env LC_ALL=C grep -q '[^ -~]' "$BATS_TEST_TMPDIR/text"
	# no filter hides that events were lost
	rm "$RUN/bad/xrbad.sock"
	no_events '{"time_ns":1,"device":"xrbad","event":"lost","count":7}' 3>&- &
	wait_for 20 listening
	"$XROCE" -r "$RUN/bad" monitor xrbad event qp_error pid 5 >"$BATS_TEST_TMPDIR/text" 3>&- &
	reader=$!
	wait_for 10 grep -q ' xrbad lost count 7$' "$BATS_TEST_TMPDIR/text"
	kill "$reader"
	wait
	rm -r "$RUN/bad"
}
