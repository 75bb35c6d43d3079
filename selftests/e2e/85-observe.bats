#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Tools of the operator: pinned maps by bpftool, tables as text by cat, the xroce command.

load helpers

# A pair of ib_write_bw runs during all tests of this file.
setup_file() {
	requires root
	daemon_path "maps, pauses and uses of regions are of objects that the daemon has"
	hosts_up
	daemons_up
	both -t 210 ib_write_bw -x @4 -F -D $((200 * SLOW)) -q 2 >/dev/null 2>&1 3>&- &
	running() {
		[[ $(ctl a qp -j xra | jq '[.[] | select(.state == "RTS" or .state == "RTR")] | length') -ge 2 ]]
	}
	wait_for 10 running
}

# test_tmux ARG...: runs tmux with a server of this test; that of the test before may still be ending
test_tmux() {
	tmux -S "$RUN/tmux.$BATS_TEST_NUMBER" "$@"
}

# Ends the terminal also of a test that failed.
teardown() {
	test_tmux kill-server 2>/dev/null || true
	report_failure
}

teardown_file() {
	for h in a b; do ip netns pids "$ID-$h"; done | xargs -r ps -o pid=,comm= -p |
		awk '$2 == "ib_write_bw" { print $1 }' | xargs -r kill -KILL
	gone() { [[ $(objects a qps) == 0 && $(objects b qps) == 0 ]]; }
	wait_for 5 gone
	hosts_down
}

# bats test_tags=stock
@test "bpftool shows keys with named fields" {
	local first

	first=$(bpftool map dump pinned "$RUN/bpf/xroce/xra/keys" -j | jq -c '.[0].formatted.value')
	echo "$first"
	jq -e 'has("va") and has("length") and has("pd") and has("access") and has("variant")' <<<"$first"
}

@test "bpftool shows QPs with named fields" {
	local first

	first=$(bpftool map dump pinned "$RUN/bpf/xroce/xra/qps" -j | jq -c '.[0].formatted.value')
	echo "$first"
	jq -e 'has("peer") and has("dest_qpn") and has("state") and has("path_mtu")' <<<"$first"
}

# bats test_tags=stock
@test "cat shows QPs and keys as text" {
	# the probe takes seconds, and much longer in a guest
	if [[ ! -e $RUN/bpf/xroce/xra/qps_text ]] &&
		! bpftool feature probe kernel | grep "program_type tracing is available"; then
		skip "this kernel refuses programs of type BPF_PROG_TYPE_TRACING"
	fi
	tee /dev/stderr <"$RUN/bpf/xroce/xra/qps_text" | grep -E "RC +RT[RS] .* $A4 $B4"
	tee /dev/stderr <"$RUN/bpf/xroce/xra/keys_text" | grep -E 'MR +VALID .* 0x[0-9a-f]+ '
}

@test "xroce list and status show the device" {
	ctl a list | tee /dev/stderr | grep -Eq '^xra +va '
	ctl a status xra | tee /dev/stderr | grep -Eq '^interface +va'
	ctl a status | grep -q "$A4"
	equal "device" "$(ctl a status -j xra | jq -r .device)" xra
	equal "by name" "$(ctl a status -j | jq -r '.xra.interface')" va
	ctl a status -j xra | jq -e '.io_why | length > 10'
}

@test "xroce status counts the pauses of the workers" {
	local before after pauses

	before=$(ctl a status -j xra | jq .pauses.count)
	run_on a ibv_devinfo
	pauses=$(ctl a status -j xra | jq -c .pauses)
	echo "$pauses"
	after=$(jq .count <<<"$pauses")
	((before > 0 && after > before))
	jq -e '.p50_ns > 0 and .p50_ns <= .p99_ns and .p99_ns <= .longest_ns' <<<"$pauses"
	jq -e '.longest_ns <= .total_ns' <<<"$pauses"
	jq -e '.longest_cpu_ns > 0 and .longest_cpu_ns <= .longest_ns' <<<"$pauses"
	ctl a status xra | grep -A6 ^pauses | tee /dev/stderr | grep -q "count *$after"
}

@test "ps shows the workers by name" {
	local workers

	workers=$(ctl a status -j xra | jq '.workers | length')
	equal "threads" "$(cat "/proc/$(daemon_pid a)/task/"*/comm | grep -c '^xroced/[0-9]')" "$workers"
	grep -qx xroced/0 "/proc/$(daemon_pid a)/task/"*/comm
	grep -qx xroced "/proc/$(daemon_pid a)/comm"
}

@test "xroce qp, mr, cq and client show objects" {
	ctl a qp | tee /dev/stderr | grep -Eq 'RC +RT[RS]'
	ctl a mr xra | tee /dev/stderr | grep -Eq 'lw,rw.* valid '
	ctl a cq xra | tee /dev/stderr | grep -q depth
	ctl a client xra | tee /dev/stderr | grep -q ib_write_bw
}

@test "xroce qp keeps and sorts rows by name and value" {
	local qpn program

	qpn=$(ctl a qp -j xra | jq '.[0].qpn')
	equal "decimal" "$(ctl a qp -j xra qpn "$qpn" | jq length)" 1
	equal "hexadecimal" "$(ctl a qp -j xra qpn "$(printf 0x%x "$qpn")" | jq '.[0].qpn')" "$qpn"
	program=$(ctl a qp -j xra | jq '.[0].pid')
	equal "pid" "$(ctl a qp -j pid "$program" state rtr comm ib_write_bw | jq '.xra | length')" 2
	equal "peer" "$(ctl a qp -j xra peer "$B4" | jq length)" 2
	equal "no row" "$(ctl a qp xra state SQE)" ""
	ctl a qp -j xra sort qpn | jq -e '.[0].qpn > .[1].qpn'
	equal "abbreviated" "$(ctl a q -j dev xra wor 0 | jq length)" "$(ctl a qp -j xra worker 0 | jq length)"
	equal "regions" "$(ctl a mr -j xra comm ib_write_bw pid "$program" | jq length)" "$(ctl a mr -j xra | jq length)"
	run -2 ctl a qp xra teleport 1
	[[ $output == *"'teleport' is not one of qpn type"* ]]
	equal "rdma" "$(run_on a rdma -j resource show qp lqpn "$qpn" | jq -r '.[] | "\(.lqpn) \(.pid)"')" "$qpn $program"
	equal "rdma, no row" "$(run_on a rdma resource show qp lqpn "0$qpn")" ""
}

# members COMMAND: prints the names in its help, those of --detail as well
members() {
	ctl a "$1" help | sed -n '/^NAME is one of:/,/^$/p' | sed 's/^.*: / /' | xargs -n 1
}

@test "filters are checked whether there are rows or not" {
	run -2 ctl b srq xrb teleport 1
	[[ $output == *"'teleport' is not one of srq client type pd "* ]]
	run -2 ctl b srq -d xrb receive 1
	[[ $output == *"'receive' is not unique: receives receives_missed"* ]]
	run -2 ctl b dm xrb length long
	[[ $output == *"length: 'long' is no number"* ]]
	run -2 ctl b mw xrb bound maybe
	[[ $output == *"bound: 'maybe' is neither 'yes' nor 'no'"* ]]
	run -2 ctl b ah sort teleport
	[[ $output == *"'teleport' is not one of "* ]]
	run -2 --separate-stderr ctl b qp -j teleport 1
	equal "JSON" "$output" ""
	# a name without value is no device
	for line in qpn sort "xra qpn" "pid 1 qpn" "xra pid 1 sort"; do
		# shellcheck disable=SC2086
		run -2 ctl a qp $line
		[[ $output == *"'${line##* }' has no value"* ]]
	done
}

@test "help names the members of rows" {
	local command program

	spawn a "$BATS_TEST_TMPDIR/log" "$BIN/rdma_watch" queues 60
	program=$!
	spawn a "$BATS_TEST_TMPDIR/log2" rping -s -a "$A4"
	has_rows() { [[ $(ctl a srq -j xra) != "[]" && $(ctl a cm -j xra) != "[]" ]]; }
	wait_for 10 has_rows
	for command in qp mr cq srq cm client; do
		ctl a "$command" -dj xra |
			jq -r 'map(keys_unsorted) | add | unique - ["last_error"] | .[]' >"$BATS_TEST_TMPDIR/keys"
		diff "$BATS_TEST_TMPDIR/keys" <(members "$command" | LC_ALL=C sort)
		ctl a "$command" -j xra | jq -r '.[0] | keys_unsorted | join(" ")' >"$BATS_TEST_TMPDIR/order"
		members "$command" | head -n "$(wc -w <"$BATS_TEST_TMPDIR/order")" | xargs | diff "$BATS_TEST_TMPDIR/order" -
	done
	kill "$program" "$!"
	for command in qp mr cq srq ah mcast mw dm xrcd cm client; do
		members "$command" | while read -r name; do
			grep -Eq "\`($name|tx_retransmits)\`" "$XR_TOP/docs/show.md" || echo "$command: $name"
		done
	done >"$BATS_TEST_TMPDIR/unknown"
	cat "$BATS_TEST_TMPDIR/unknown"
	[[ ! -s $BATS_TEST_TMPDIR/unknown ]]
}

@test "values of a filter may be several, and addresses have several spellings" {
	local first second

	first=$(ctl a qp -j xra | jq '.[0].qpn')
	second=$(ctl a qp -j xra | jq '.[1].qpn')
	equal "either" "$(ctl a qp -j xra qpn "$first,$(printf 0x%x "$second"),7" sort qpn | jq -c '[.[].qpn]')" \
		"$(jq -nc "[$first, $second] | sort | reverse")"
	equal "command" "$(ctl a qp -j xra command ib_write_bw,other | jq length)" 2
	equal "sort command" "$(ctl a mr -j xra sort command | jq length)" "$(ctl a mr -j xra | jq length)"
	ctl a status -j xra | jq -e ".gids[] | select(.gid == \"$A6\")"
	spawn a "$BATS_TEST_TMPDIR/log" ibv_rc_pingpong -g "$(gid_index a "$A6")" -p 18702 3>&-
	wait_for 10 listens a 18702
	spawn b "$BATS_TEST_TMPDIR/log2" ibv_rc_pingpong -g "$(gid_index b "$B6")" -p 18702 -n 100000000 "$A4" 3>&-
	equal "IPv4 as GID" "$(ctl a qp -j xra peer "::ffff:$B4" comm ib_write_bw | jq length)" 2
	by_address() { [[ $(ctl a qp -j xra peer fd77:0:0::0002 | jq length) == 1 ]]; }
	wait_for 10 by_address
	kill %% && kill %-
	run -2 ctl a qp xra qpn eleven
	[[ $output == *"qpn: 'eleven' is no number"* ]]
	run -2 ctl a qp xra local maybe
	[[ $output == *"local: 'maybe' is neither 'yes' nor 'no'"* ]]
	run -2 ctl a qp xra state foo
	[[ $output == *"state: 'foo' is not one of RESET,INIT,RTR,RTS,SQD,SQE,ERR"* ]]
	run -2 ctl a qp xra stat rts,foo
	[[ $output == *"state: 'foo' is not one of RESET,"* ]]
	run -2 ctl a qp -s foo xra
	[[ $output == *"state: 'foo' is not one of RESET,"* ]]
	run -2 ctl a mr xra tier stolen
	[[ $output == *"tier: 'stolen' is not one of shared,"* ]]
	# whether there are rows or not
	run -2 ctl a cm xra state foo
	[[ $output == *"state: 'foo' is not one of idle,bound,"* ]]
	run -2 ctl a cm -s foo xra
	[[ $output == *"state: 'foo' is not one of idle,"*",TIMEWAIT,"* ]]
	ctl a cm -s timewait xra
	ctl a cm xra state 'address query'
	run -2 ctl a qp xra sq 1 -d
	[[ $output == *"'sq' is not unique: sq_depth sq_used sq_psn"* ]]
	run -2 ctl a qp xra rtt 1 -d
	[[ $output == *"'rtt' has several values"* ]]
}

@test "commands can be abbreviated, and print their help" {
	ctl a qp help | grep -q '^usage: xroce qp'
	ctl a run help | grep -q '^usage: xroce run'
	equal "help" "$(ctl a help qp)" "$(ctl a qp --help)"
	equal "help of all" "$(ctl a help)" "$(ctl a --help)"
	ctl a --help | grep -q '^  *xroce COMMAND help'
	# the first one in the list, as ip(8)
	equal "s" "$(ctl a s -j xra | jq -r .device)" xra
	equal "c" "$(ctl a c -j xra | jq -c 'keys')" '["cm","transport","xdp"]'
	local command commands

	mapfile -t commands < <(ctl a help | sed -nE 's/^  ([a-z]+) .*/\1/p')
	((${#commands[@]} == 24))
	for command in "${commands[@]}"; do
		ctl a help "$command" >"$BATS_TEST_TMPDIR/help"
		grep -q "^usage: xroce $command" "$BATS_TEST_TMPDIR/help"
		not grep -E '.{81}' "$BATS_TEST_TMPDIR/help"
	done
	run -2 ctl a help nonsense
	[[ $output == *"unknown command 'nonsense'"* ]]
	run -2 ctl a qp xra --all
	[[ $output == *"'qp' has no option '--all'"* ]]
}

@test "JSON is one line, with -p several" {
	local command

	ctl a fault xra rules 'delay 1us opcode 3; delay 2us opcode 3'
	for command in list status counters limits qp 'qp xra' 'qp -s RTS' 'qp type RC' 'mr -d xra' cq client 'fault xra'; do
		# shellcheck disable=SC2086
		ctl a $command -j >"$BATS_TEST_TMPDIR/json"
		jq -e 'length >= 0' "$BATS_TEST_TMPDIR/json"
		equal "lines of $command -j" "$(wc -l <"$BATS_TEST_TMPDIR/json")" 1
		# shellcheck disable=SC2086
		equal "values of $command -jp" "$(ctl a $command -jp | jq -s length)" 1
	done
	for command in list status 'fault xra'; do
		# shellcheck disable=SC2086
		(($(ctl a $command -jp | wc -l) > 3))
	done
	ctl a fault xra off
}

@test "rows have the age and the owner of their object" {
	local what

	for what in qp mr cq client; do
		ctl a "$what" -j xra comm ib_write_bw | tee /dev/stderr |
			jq -e '.[0] | .age_ns > 0 and .age_ns < 1e12 and .pid > 0 and .uid == 0'
	done
}

@test "xroce qp --detail shows counters, round-trip times and errors of each QP" {
	local detail

	moved() {
		detail=$(ctl b qp -dj xrb comm ib_write_bw)
		jq -e '.[0].tx_messages > 100' <<<"$detail" >/dev/null
	}
	wait_for 20 moved
	jq -c '.[0]' <<<"$detail"
	jq -e '.[0] | .tx_bytes > .tx_messages * 65536 / 2 and .tx_packets > .tx_messages and .rx_packets > 0' <<<"$detail"
	jq -e '.[0] | .in_flight <= .window and .window > 0 and .sq_depth >= .sq_used' <<<"$detail"
	jq -e '.[0].rtt | .least_ns > 0 and .least_ns <= .usual_ns and ([.histogram[].count] | add) > 0' <<<"$detail"
	jq -e '.[0].age_ns > 0 and (.[0] | has("last_error") | not)' <<<"$detail"
	ctl b qp -d xrb | tee /dev/stderr | grep -Eq '^tx_bytes +[0-9]+$'
	(($(ctl b mr -jp xrb | wc -l) > 3))
	equal "pretty JSON" "$(ctl b mr -jp xrb | jq -c 'map(del(.age_ns))')" "$(ctl b mr -j xrb | jq -c 'map(del(.age_ns))')"
}

# sum HOST LIST MEMBER [FILTER...]: prints the sum of a member over the rows of a detailed list
sum() {
	ctl "$1" "$2" -dj "xr$1" "${@:4}" | jq "[.[].$3] | add"
}

# The pair of programs is stopped, so that nothing is counted between two commands.
@test "xroce mr --detail counts the bytes that perftest transfers" {
	local writer messages

	writer=$(ctl b qp -j xrb comm ib_write_bw | jq '.[0].pid')
	kill -STOP "$writer"
	idle() { [[ $(sum b qp sq_used pid "$writer") == 0 ]]; }
	wait_for 20 idle
	messages=$(sum b qp tx_messages pid "$writer")
	((messages > 100))
	equal "read by the sender" "$(sum b mr local_read_bytes pid "$writer")" $((messages * 65536))
	equal "SGEs" "$(sum b mr local_reads pid "$writer")" "$messages"
	equal "messages" "$(sum a qp rx_messages comm ib_write_bw)" "$messages"
	equal "WRITEs" "$(sum a mr remote_writes comm ib_write_bw)" "$messages"
	equal "written by the peer" "$(sum a mr remote_write_bytes comm ib_write_bw)" $((messages * 65536))
	kill -CONT "$writer"
	ctl a mr -d xra comm ib_write_bw | grep -E '^remote_write_bytes +[0-9]+$'
}

# second_pair: starts ib_write_bw from b to a, whose QPs fail after some seconds without response; sets RECEIVER and SENDER
second_pair() {
	local command=(timeout $((100 * SLOW)) ib_write_bw -F -D 90 -u 17 -p "$PORT")

	spawn a "$BATS_TEST_TMPDIR/receiver" "${command[@]}" -x "$(gid_index a "$A4")"
	RECEIVER=$!
	wait_for 10 listens a "$PORT"
	spawn b "$BATS_TEST_TMPDIR/sender" "${command[@]}" -x "$(gid_index b "$B4")" "$A4"
	SENDER=$!
}

# The program is stopped, so that the CQ stays when its QP has failed.
@test "xroce cq --detail shows counters, and the last error with its time and queue pair" {
	local detail qpn pid

	second_pair
	moves() {
		detail=$(ctl b qp -dj xrb | jq -c '.[] | select(.timeout == 17 and .tx_messages > 100)')
		[[ $detail ]]
	}
	wait_for 20 moves
	pid=$(jq .pid <<<"$detail")
	qpn=$(jq .qpn <<<"$detail")
	detail=$(ctl b cq -dj xrb pid "$pid")
	jq -e '.[0] | .completions > 0 and .completion_errors == 0 and .completions_lost == 0 and .events == 0' <<<"$detail"
	jq -e '.[0] | has("last_error") | not' <<<"$detail"
	ctl b fault xrb rules "drop tx pid $pid"
	kill -STOP "$pid"
	failed() {
		detail=$(ctl b cq -dj xrb pid "$pid")
		jq -e --argjson qpn "$qpn" '.[0] | .completion_errors > 0 and .last_error.qpn == $qpn' <<<"$detail" >/dev/null
	}
	wait_for 60 failed || { echo "$detail"; return 1; }
	ctl b fault xrb off
	echo "$detail"
	jq -e '.[0].last_error | .reason == "a work request failed" and .status == "RETRY_EXC_ERR"' <<<"$detail"
	jq -e --argjson now "$(date +%s%N)" '.[0] | .created_ns < .last_error.time_ns and .last_error.time_ns <= $now and
		.last_error.time_ns > $now - 200e9' <<<"$detail"
	TZ=UTC terminal TERM=xterm cq --detail pid "$pid" | grep -E "^ *.*time.* $(date -u +%Y-%m)-[0-9]{2}T"
	kill -KILL "$pid" "$SENDER" "$RECEIVER" || true
}

# terminal VARIABLES COMMAND...: prints what `xroce COMMAND` for host b shows on a terminal
terminal() {
	script -qec "$1 '$XROCE' -r '$RUN/b' ${*:2}" /dev/null
}

@test "colours and units are only for terminals" {
	local text

	text=$(ctl b qp xrb)
	[[ $text != *$'\e'* ]]
	grep -q ' age_ns ' <<<"$text"
	text=$(terminal "TERM=xterm NO_COLOR=" qp xrb)
	echo "$text"
	[[ $text == *$'\e[32mRTS '* ]]
	text=$(terminal "TERM=xterm NO_COLOR=1" qp xrb)
	[[ $text != *$'\e'* ]]
	grep -Eq ' age ' <<<"$text"
	grep -Eq ' [0-9.]+ (ms|s|min) ' <<<"$text"
	text=$(terminal NO_COLOR=1 qp -d xrb)
	grep -Eq '^tx_bytes +[0-9.]+[kMGT]B' <<<"$text"
	grep -Eq '^ +usual +[0-9.]+ [mu]s' <<<"$text"
	equal "JSON" "$(terminal NO_COLOR=1 mr -j xrb | tr -d '\r' | jq 'map(del(.age_ns))')" \
		"$(ctl b mr -j xrb | jq 'map(del(.age_ns))')"
}

# on_screen TEXT: the terminal of the test shows the text
on_screen() {
	test_tmux capture-pane -p >"$BATS_TEST_TMPDIR/screen" && grep -Eq "$1" "$BATS_TEST_TMPDIR/screen"
}

@test "xroce top shows rates on a terminal of 80 columns" {
	local pid

	command -v tmux >/dev/null || skip "needs tmux"
	run -1 ctl b top xrb
	[[ $output == *"needs a terminal"* ]]
	test_tmux -f /dev/null new-session -d -x 80 -y 24 "'$XROCE' -r '$RUN/b' top xrb; echo ended; sleep 100" 3>&-
	# the only device has no column, so that the process ID and the name of the program have room
	pid=$(ctl b qp -j xrb | jq '.[0].pid')
	wait_for 30 on_screen "^[0-9]+ +RTS +$pid ib_write_bw +[0-9.]+[kMG]"
	cat "$BATS_TEST_TMPDIR/screen"
	on_screen '^QPN +STATE +PID PROGRAM +TXB/s +RXB/s .* RTT$'
	equal "width" "$(awk 'length > 80' "$BATS_TEST_TMPDIR/screen" | wc -l)" 0
	on_screen '^xroce top  xrb  2 QPs  workers [0-9]+% CPU  sorted by TXB/s'
	test_tmux send-keys v
	wait_for 20 on_screen '^QPS +PID PROGRAM'
	wait_for 20 on_screen "^2 +$pid ib_write_bw"
	test_tmux send-keys v
	wait_for 20 on_screen '^xrb +2 +[0-9]+% '
	on_screen '^DEVICE +QPS +CPU +TXB/s '
	test_tmux send-keys '>' r
	wait_for 20 on_screen 'sorted by RXB/s \(reversed\)'
	test_tmux send-keys q
	wait_for 20 on_screen '^ended'
}

@test "xroce top redraws a terminal that changes its size, and gives it back while it is stopped" {
	command -v tmux >/dev/null || skip "needs tmux"
	test_tmux -f /dev/null new-session -d -x 80 -y 24 "bash --norc" 3>&-
	test_tmux send-keys "'$XROCE' -r '$RUN/b' top -d 1000 -v device -s 6 xrb" Enter
	wait_for 20 on_screen '^DEVICE +QPS +CPU {,10}TXB/s'
	on_screen 'sorted by RTT'
	test_tmux resize-window -x 200 -y 50
	# a wide terminal has room for names
	wait_for 20 on_screen '^DEVICE +QPS +CPU {20,}TXB/s'
	test_tmux send-keys C-z
	wait_for 20 on_screen 'Stopped'
	not on_screen '^DEVICE'
	test_tmux send-keys fg Enter
	wait_for 20 on_screen '^DEVICE +QPS'
	test_tmux send-keys q
	wait_for 20 on_screen 'Stopped'
}

@test "xroce top -b writes samples as lines, until it has as many as -n says" {
	local text=$BATS_TEST_TMPDIR/top pid

	pid=$(ctl b qp -j xrb | jq '.[0].pid')
	ctl b top -b -d 0.3 -n 3 xrb >"$text"
	cat "$text"
	equal "samples" "$(grep -Ec '^xroce top  [0-9-]+T[0-9:.]+  2 QPs ' "$text")" 3
	equal "rows" "$(grep -Ec "^xrb +[0-9]+ +RTS +$pid ib_write_bw +[0-9.]+[kMG]" "$text")" 6
	not grep -q '[[:cntrl:]]' "$text"
	ctl b top -b -d 0.2 -n 1 -v program | grep -Eq "^xrb +2 +$pid ib_write_bw "
	run -2 ctl b top -d 0 xrb
	[[ $output == *"'0' is not a number of seconds from 0.1 to 86400"* ]]
	run -2 ctl b top -n 0 xrb
	[[ $output == *"'0' is not a number of times"* ]]
	run -2 ctl b top -v queue xrb
	[[ $output == *"'queue' is not one of qp, program, device"* ]]
	run -2 ctl b top -s 7 xrb
	[[ $output == *"'7' is not a column: 1 to 6"* ]]
	run -2 ctl b top -j
	[[ $output == *"no JSON"* ]]
	run -1 "$XROCE" -r "$BATS_TEST_TMPDIR" top -b -d 0.1 -n 1
	# once for both samples
	equal "output" "$(grep -c "no device: there is no socket" <<<"$output")" 1
}

@test "xroce top shows QPs of equal rates in the order of their numbers" {
	local numbers=$BATS_TEST_TMPDIR/numbers program

	spawn a "$BATS_TEST_TMPDIR/log" ibv_srq_pingpong -g "$(gid_index a "$A4")" -q 16
	program=$!
	has_all_qps() { [[ $(ctl a qp xra | grep -c ' ibv_srq_pingpon') == 16 ]]; }
	wait_for 10 has_all_qps
	ctl a top -b -d 0.1 -n 1 xra | awk '/ ibv_srq_pingpon/ { print $2 }' | tee "$numbers"
	equal "rows" "$(wc -l <"$numbers")" 16
	sort -n -c "$numbers"
	kill "$program"
	wait "$program" || true
}

@test "xroce srq counts the QPs of an SRQ; kinds without objects are empty lists" {
	local kind program

	spawn a "$BATS_TEST_TMPDIR/log" ibv_srq_pingpong -g "$(gid_index a "$A4")" -q 3
	program=$!
	has_three_qps() { [[ $(ctl a srq -j xra | jq '.[0].qps') == 3 ]]; }
	wait_for 10 has_three_qps
	ctl a srq xra | tee /dev/stderr | grep -q ' basic '
	ctl a srq -dj xra | jq -e '.[0] | .receives == 0 and .receives_missed == 0 and (has("last_error") | not)'
	kill "$program"
	for kind in ah mcast mw dm xrcd; do
		equal "$kind" "$(ctl a "$kind" -j xra)" "[]"
	done
}

@test "xroce counters omits zeros unless --all is given" {
	ctl a counters xra | tee /dev/stderr | grep -Eq '^ *OK '
	run ctl a counters xra
	[[ $output != *KEY_RANGE* ]]
	ctl a counters --all xra | grep -q KEY_RANGE
	(($(counter a OK) > 0))
}

@test "an error of standard output is named as such" {
	to_full() { ctl a counters -j xra >/dev/full; }
	run -1 to_full
	echo "$output"
	[[ $output == *"No space left on device"* && $output != *JSON* ]]
}

@test "xroce names the invalid argument" {
	run -2 ctl a nonsense
	[[ $output == *nonsense* ]]
	run -1 ctl a status nodevice
	[[ $output == *nodevice* ]]
	run -2 ctl a fault xra drop 1001
	[[ $output == *drop*1000* ]]
	run -2 ctl a fault xra teleport 1
	[[ $output == *teleport* ]]
	run -2 ctl a status xra xrb
	[[ $output == *xrb* ]]
	run -2 ctl a fault xra off now
	[[ $output == *"unexpected argument 'now'"* ]]
	run -1 ctl a top nodevice
	[[ $output == *"no device 'nodevice'"* ]]
}

@test "rows that are wider than the terminal continue on further lines" {
	command -v tmux >/dev/null || skip "needs tmux"
	test_tmux -f /dev/null new-session -d -x 80 -y 24 "'$XROCE' -r '$RUN/a' qp xra; sleep 100" 3>&-
	wait_for 20 on_screen '^ *qpn  type  state .* send_cq$'
	cat "$BATS_TEST_TMPDIR/screen"
	on_screen '^    recv_cq  srq  local .* comm$'
	on_screen "^[0-9]+  RC    RTR .* $B4 .* 4096 +[0-9]+$"
	on_screen '^ +[0-9]+ +0  no .* ib_write_bw$'
	# in a pipe each row is one line
	equal "lines" "$(ctl a qp xra | wc -l)" 3
}

@test "xroce accepts options before and after the device, and refuses those that a command does not have" {
	local line

	equal "device" "$(ctl a status xra --json | jq -r .device)" xra
	equal "fault" "$(ctl b fault xrb -j | jq -c .rules)" "[]"
	# an option that has no effect would be taken for one that has
	for line in "list -a" "monitor xra -s RTS" "fault xra -d" "cdi -l" "cq -s RTS" "status -d" "mr -l"; do
		# shellcheck disable=SC2086
		run -2 timeout 10 "$XROCE" -r "$RUN/a" $line
		[[ $output == *"'${line%% *}' has no option '-"* ]]
	done
	run -2 ctl a status xra --nonsense
	[[ $output == *"unknown option '--nonsense'"* ]]
	run -2 ctl a metrics -d
	[[ $output == *"unknown option '-d'"* ]]
	for line in "top -Xb" "top xra -Xb" "capture -Xw file" "capture xra -Xw file"; do
		# shellcheck disable=SC2086
		run -2 ctl a $line
		[[ $output == *"unknown option '-X"* ]]
	done
	run -2 ctl a status xra -r
	[[ $output == *"option '-r' needs"* ]]
}

@test "xroce status escapes device names in JSON" {
	local name='x"y\z'

	ln -s xra.sock "$RUN/a/$name.sock"
	run -0 ctl a status -j
	rm "$RUN/a/$name.sock"
	equal "device" "$(jq -r --arg name "$name" '.[$name].device' <<<"$output")" xra
}

@test "xroce client removes control characters from program names" {
	local program name=$'x\x9b31m\e[1m\xc3\xa9'

	cp "$(command -v ibv_rc_pingpong)" "$RUN/$name"
	spawn a "$BATS_TEST_TMPDIR/log" "$RUN/$name" -g "$(gid_index a "$A4")" -p 18700
	program=$!
	named() { ctl a client xra >"$BATS_TEST_TMPDIR/clients" && grep -q 31m "$BATS_TEST_TMPDIR/clients"; }
	wait_for 10 named
	kill "$program"
	rm "$RUN/$name"
	not env LC_ALL=C grep -q '[^ -~]' "$BATS_TEST_TMPDIR/clients"
}

@test "xroce mr shows as many objects as a device can have" {
	requires python3
	mkdir "$RUN/big"
	# as for a million regions
	python3 "$BATS_TEST_DIRNAME/fake_daemon.py" xrbig "$RUN/big/xrbig.sock" show 200 3>&- &
	listening() { ss -Hlx | grep -q "$RUN/big/xrbig.sock"; }
	wait_for 20 listening
	equal "bytes" "$("$XROCE" -r "$RUN/big" mr -j xrbig | wc -c)" 200000001
	wait
	rm -r "$RUN/big"
}

@test "xroce run -r overrides XROCE_RUNTIME_DIR" {
	equal "folder" "$(XROCE_RUNTIME_DIR=$RUN/a "$XROCE" -r /run/xroce run printenv XROCE_RUNTIME_DIR)" /run/xroce
	equal "folder" "$(XROCE_RUNTIME_DIR=/run/xroce "$XROCE" -r "$RUN/a" run printenv XROCE_RUNTIME_DIR)" "$RUN/a"
}

@test "xroce fault shows the rules in force" {
	ctl b fault xrb drop 3 delay 2 50 rx seed 9
	equal "rules" "$(ctl b fault -j xrb | jq -c '[.seed, .rules[].rule]')" '[9,"drop prob 0.3% rx","delay 50us prob 0.2% rx"]'
	ctl b fault xrb mads drop 200 tx
	equal "rules" "$(ctl b fault -j xrb | jq -c '[.seed, .rules[].rule]')" '[0,"drop prob 20.0% tx mads"]'
	run -0 ctl b fault xrb
	echo "$output"
	[[ $output == *"drop prob 20.0% tx mads"* ]]
	ctl b fault xrb off
	equal "rules" "$(ctl b fault -j xrb | jq -c .rules)" '[]'
	equal "output without rules" "$(ctl b fault xrb)" ""
}

@test "xroce refuses users who are not operators" {
	run -1 setpriv --reuid 65534 --regid 65534 --clear-groups "$XROCE" -r "$RUN/a" status xra
	echo "$output"
	[[ $output == *"may not connect"* || $output == *"is for root"* ]]
}

@test "xroce run warns users without access, or without devices, and runs the program" {
	run -0 setpriv --reuid 65534 --regid 65534 --clear-groups "$XROCE" -r "$RUN/a" run echo it runs
	echo "$output"
	[[ $output == *"may not connect to any device"*"it runs"* ]]
	equal "root" "$(ctl a run echo it runs 2>&1)" "it runs"
	run -0 "$XROCE" -r "$BATS_TEST_TMPDIR" run echo it runs
	[[ $output == *"no device: there is no socket in $BATS_TEST_TMPDIR"*"it runs"* ]]
}
