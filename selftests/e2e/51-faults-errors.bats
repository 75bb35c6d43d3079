#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Rules of fault injection that cause errors: of queue pairs, CQs, SRQs, verbs, ports and GIDs, as programs see them.

load helpers
load faults

setup() {
	no_faults
	SEEN=$BATS_TEST_TMPDIR/program
}

teardown() {
	report_failure
	kill_program
	no_faults
}

# watch [-e] [RULES]: starts rdma_watch on host a, with its output in $SEEN, and waits until it is ready. Its QP sends
# messages to itself; with -e it only prints the events of the device. It injects RULES into itself. Sets PROGRAM.
watch() {
	local what=queues

	[[ ${1:-} != -e ]] || { what=events && shift; }
	spawn a "$SEEN" "$BIN/rdma_watch" "$what" $((60 * SLOW)) "$@"
	PROGRAM=$!
	wait_for 20 grep -q ready "$SEEN"
}

# rdma_watch is its own peer, so rules of packets need the daemon's way.
NO_PACKETS="direct QPs of one context send no packets to each other"

kill_program() {
	[[ -n ${PROGRAM:-} ]] || return 0
	kill "$PROGRAM" || true
	wait "$PROGRAM" || true
	unset PROGRAM
}

# sees TEXT: the program prints the line
sees() {
	wait_for 20 grep -qxF "$1" "$SEEN" || {
		echo "no '$1' in:"
		cat "$SEEN"
		return 1
	}
}

# ms COMMAND...: prints how long the command takes, in milliseconds
ms() {
	local start

	start=$(date +%s%N)
	"$@" >/dev/null
	echo $((($(date +%s%N) - start) / 1000000))
}

# ---- errors and events of queue pairs -----------------------------------------------------

@test "NAKs of each kind fail the request at one end and the QP at the other" {
	local kind status=([9]=request [10]=access [11]=operation [15]=rd) n

	for n in "${!status[@]}"; do
		kind=${status[n]}
		ctl a fault xra rules "nak $kind opcode WRITE_LAST after 3"
		fails both -t $((30 * SLOW)) ib_write_bw -x @4 -F -s 65536 -n 100
		(($(rule a 0 hits) > 0))
		grep "Failed status $n:" "$OUT/client"
	done
}

@test "a NAK for a PSN sequence error and RNR NAKs cost time only" {
	ctl a fault xra rules 'nak sequence opcode WRITE_MIDDLE every 100; rnr timer 1 every 10'
	counter_grows a seq_naks_sent 3 both -t 60 ib_write_bw -x @4 -F -s 65536 -n 100
	(($(rule a 0 hits) >= 3))
	counter_grows a rnr_naks_sent 5 both -t 60 ibv_rc_pingpong -g @4 -n 100
	(($(rule a 1 hits) >= 5))
}

@test "a duplicate does not use up a rule for one NAK" {
	# ACKs of the responder are lost, so that requests are sent again; not the last ones, after which it ends
	ctl a fault xra rules 'drop tx opcode ACK every 3 times 60; nak sequence opcode SEND_ONLY times 1 after 100'
	counter_grows a seq_naks_sent 1 both -t 60 ibv_rc_pingpong -g @4 -s 64 -n 1000
	equal "hits" "$(rule a 1 hits)" 1
	equal "lost ACKs" "$(rule a 0 hits)" 60
	equal "requests, of which none counts twice" "$(rule a 1 packets)" 1001
}

@test "a QP and a CQ fail as the rule says" {
	ctl b fault xrb rules 'qp-error status FATAL_ERR tx opcode SEND_ONLY after 20 times 1'
	fails both -t $((30 * SLOW)) ibv_rc_pingpong -g @4 -s 64 -n 1000
	equal "hits" "$(rule b 0 hits)" 1
	ctl b fault xrb rules 'cq-error rx opcode SEND_ONLY after 20 times 1'
	fails both -t $((30 * SLOW)) ibv_rc_pingpong -g @4 -s 64 -n 1000
	equal "hits" "$(rule b 0 hits)" 1
}

# injected RULE STATUS LINE...: the program prints the lines, and `xroce qp` names the fault as the reason, with the status if
# it is not empty
injected() {
	local line

	watch "$1 opcode SEND_ONLY after 5 times 1"
	for line in "${@:3}" "the QP has failed"; do
		sees "$line" || return
	done
	equal "hits" "$(rule a 0 hits)" 1
	ctl a qp -dj xra comm rdma_watch | jq -ce '.[0].last_error' | tee "$BATS_TEST_TMPDIR/error"
	jq -e --arg status "$2" '.reason == "an injected fault" and .vendor_err == 15 and
		if $status == "" then has("status") | not else .status == $status end' "$BATS_TEST_TMPDIR/error"
	kill_program
}

@test "a failed QP has the injected fault as its reason, and events and completions of its error" {
	local catastrophic="the QP: local work queue catastrophic error"

	daemon_path "$NO_PACKETS"
	injected 'nak request' 'invalid request' "the QP: invalid request local work queue error"
	injected 'nak access' 'remote access' "the QP: local access violation work queue error"
	injected 'nak operation' 'remote operational' "$catastrophic"
	injected 'nak rd' 'invalid RD request' "the QP: invalid request local work queue error"
	injected 'qp-error' '' "$catastrophic"
	injected 'qp-error status FATAL_ERR tx' FATAL_ERR "failed: fatal error, vendor error 15"
	injected 'qp-error status RESP_TIMEOUT_ERR tx' RESP_TIMEOUT_ERR "failed: response timeout error, vendor error 15"
	injected 'cq-error rx' '' "the CQ: CQ error" "$catastrophic"
}

@test "each event of a QP, a CQ and an SRQ reaches its program, which goes on" {
	local row event before

	daemon_path "$NO_PACKETS"
	watch
	for row in \
		"QP_FATAL the QP: local work queue catastrophic error" \
		"QP_REQ_ERR the QP: invalid request local work queue error" \
		"QP_ACCESS_ERR the QP: local access violation work queue error" \
		"COMM_EST the QP: communication established" \
		"SQ_DRAINED the QP: send queue drained" \
		"PATH_MIG the QP: path migrated" \
		"PATH_MIG_ERR the QP: path migration request error" \
		"QP_LAST_WQE_REACHED the QP: last WQE reached" \
		"CQ_ERR the CQ: CQ error" \
		"SRQ_ERR the SRQ: SRQ catastrophic error" \
		"SRQ_LIMIT_REACHED the SRQ: SRQ limit reached"; do
		event=${row%% *}
		ctl a fault xra rules "event $event tx opcode SEND_ONLY times 1"
		sees "${row#* }"
		equal "hits of $event" "$(rule a 0 hits)" 1
	done
	equal "lines" "$(wc -l <"$SEEN")" 12
	before=$(rule a 0 packets)
	goes_on() { (($(rule a 0 packets) > before + 10)); }
	wait_for 20 goes_on
}

@test "each event of a device reaches the selected program, once in each turn" {
	local row

	watch -e
	for row in \
		"DEVICE_FATAL local catastrophic error" \
		"PORT_ACTIVE port active" \
		"PORT_ERR port error" \
		"LID_CHANGE LID change" \
		"PKEY_CHANGE P_Key change" \
		"SM_CHANGE SM change" \
		"CLIENT_REREGISTER client reregistration" \
		"GID_CHANGE GID table change"; do
		ctl a fault xra rules "event ${row%% *} command nobody; event ${row%% *} command rdma_watch"
		sees "${row#* } (port: active)"
	done
	equal "lines" "$(wc -l <"$SEEN")" 9
	ctl a fault xra rules 'event LID_CHANGE period 100ms times 3'
	turns() { (($(grep -c "LID change" "$SEEN") == 4 && $(rule a 0 packets) >= 5)); }
	wait_for 20 turns
}

@test "a program injects faults into itself by xrocedv_set_faults" {
	daemon_path "$NO_PACKETS"
	watch 'qp-error status FATAL_ERR tx opcode SEND_ONLY after 50 times 1'
	sees "failed: fatal error, vendor error 15"
	ctl a fault -j xra | jq -ce '.rules[0] | .client > 0 and .packets == 51 and .hits == 1'
	kill_program
	equal "rules without it" "$(ctl a fault -j xra | jq -c .rules)" "[]"
	XROCE_DEBUG=1 run -1 run_on a "$BIN/rdma_watch" queues 5 'qp-errr'
	echo "$output"
	[[ $output == *"xrocedv_set_faults: Invalid argument: line 1: there is no fault 'qp-errr'"* ]]
}

# ---- verbs ----------------------------------------------------------------------------------

# own_regions: prints the regions that the library registers for itself: one with the daemon, and directly none
own_regions() {
	if direct_contexts; then echo 0; else echo 1; fi
}

# refused_verb RULE TEXT: ibv_rc_pingpong fails with this message
refused_verb() {
	ctl b fault xrb rules "fail $1 command ibv_rc_pingpong"
	run -1 run_on b timeout $((20 * SLOW)) ibv_rc_pingpong -d xrb -g 1 "$A4"
	echo "$output"
	[[ $output == *"$2"* ]]
	equal "hits of $1" "$(rule b 0 hits)" 1
}

@test "each verb fails with the error that the rule says" {
	refused_verb 'alloc_pd ENOMEM after 1 times 1' "Couldn't allocate PD"
	refused_verb "reg_mr ENOMEM after $(own_regions) times 1" "Couldn't register MR"
	refused_verb 'create_cq EAGAIN times 1' "Couldn't create CQ"
	refused_verb 'create_qp EAGAIN times 1' "Couldn't create QP"
	refused_verb 'modify_qp EIO times 1' "Failed to modify QP to INIT"
	# the error itself
	ctl a fault xra rules 'fail create_srq EAGAIN'
	run -1 run_on a "$BIN/rdma_watch" queues 5
	echo "$output"
	[[ $output == *"Resource temporarily unavailable"* ]]
	ctl a fault xra rules "fail reg_mr ENOSPC after $(own_regions)"
	run -1 run_on a "$BIN/rdma_watch" queues 5
	echo "$output"
	[[ $output == *"No space left on device"* ]]
}

@test "windows are not allocated and regions not deregistered when a rule says so" {
	ctl a fault xra rules 'fail alloc_mw ENOMEM after 3 times 1 command rdma_limits'
	run -1 run_on a "$BIN/rdma_limits" -g "$(gid_index a "$A4")" mw
	echo "$output"
	[[ $output == *"mw (Cannot allocate memory)"* ]]
	equal "requests" "$(rule a 0 packets)" 4
	ctl b fault xrb rules "fail dereg_mr EBUSY after $(own_regions) times 1 command ibv_rc_pingpong"
	fails both -t $((20 * SLOW)) ibv_rc_pingpong -g @4 -n 10
	grep "Couldn't deregister MR" "$OUT/client"
	equal "hits" "$(rule b 0 hits)" 1
	freed() { (($(objects b mrs) == 0)); }
	wait_for 10 freed
}

@test "verbs of the selected programs take longer, and others do not" {
	local delayed quick

	ctl b fault xrb rules 'slow alloc_pd 900ms jitter 300ms command ibv_devinfo'
	delayed=$(ms run_on b ibv_devinfo -d xrb)
	equal "hits" "$(rule b 0 hits)" 1
	quick=$(ms run_on b ibv_devices)
	echo "$delayed ms, $quick ms"
	((delayed >= 900 && quick < 900 * SLOW))
	equal "hits" "$(rule b 0 hits)" 1
	ctl b fault xrb rules 'slow create_cq 300ms; slow modify_qp 10ms jitter 5ms'
	both -t 60 ibv_rc_pingpong -g @4 -n 10
	equal "slow ones" "$(rule b 0 hits)" 1
	equal "states" "$(rule b 1 hits)" 3
}

# ---- ports and GIDs ----------------------------------------------------------------------

@test "the port is down for a time, again and again" {
	ctl b fault xrb rules 'port-down period 2s length 300ms after 1 times 3 command ib_write_bw'
	both -t 60 ib_write_bw -x @4 -F -s 65536 -D 3
	(($(rule b 0 hits) > 0))
	ctl b fault xrb rules 'port-down'
	run_on b ibv_devinfo -d xrb >"$BATS_TEST_TMPDIR/info"
	grep PORT_DOWN "$BATS_TEST_TMPDIR/info"
	ctl b fault xrb off
	run_on b ibv_devinfo -d xrb >"$BATS_TEST_TMPDIR/info"
	grep PORT_ACTIVE "$BATS_TEST_TMPDIR/info"
}
@test "a program sees its port go down and up, as often as the rule says" {
	watch -e
	ctl a fault xra rules 'port-down command nobody; port-down period 1s length 300ms times 2 command rdma_watch'
	up() { (($(grep -cxF "port active (port: active)" "$SEEN") == 2)); }
	wait_for 20 up || { cat "$SEEN"; return 1; }
	equal "times down" "$(grep -cxF "port error (port: down)" "$SEEN")" 2
	equal "lines" "$(wc -l <"$SEEN")" 5
}

@test "a GID is gone for the selected programs, and comes back" {
	local gids=$BATS_TEST_TMPDIR/gids

	gids_of() { run_on a "$1" -v -d xra | grep -o 'GID\[.*' >"$gids"; cat "$gids"; }
	ctl a fault xra rules "gid-gone $A4 command ibv_devinfo"
	gids_of ibv_devinfo
	not grep -q "$A4" "$gids"
	grep -q "$A6" "$gids"
	# others have it
	both -t 60 ib_write_bw -x @4 -F -n 10
	ctl a fault xra rules "gid-gone $A4 command ib_write_bw"
	fails both -t $((30 * SLOW)) ib_write_bw -x @4 -F -n 10
	# a connection waits for it
	ctl a fault xra rules "gid-gone $A4 period 10s length 300ms command ib_write_bw after 1 times 1"
	both -t 60 ib_write_bw -x @4 -F -n 10
	watch -e
	ctl a fault xra rules "gid-gone $A4 length 200ms command rdma_watch"
	changes() { (($(grep -c "^GID table change" "$SEEN") == 2)); }
	wait_for 20 changes || { cat "$SEEN"; return 1; }
	gids_of ibv_devinfo
	grep -q "$A4" "$gids"
}
