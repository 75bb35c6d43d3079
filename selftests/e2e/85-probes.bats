#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# USDT probes of the daemon: the examples of docs/probes.md, run by bpftrace

load helpers

setup_file() {
	requires root bpftrace python3
	daemon_path "the probes are those of the daemon"
	hosts_up
	daemons_up
	readelf -n "$XROCED" | grep -q 'Provider: xroce' || skip "built without <sys/sdt.h>"
	timeout 60 bpftrace -e "uprobe:$XROCED:main { @ = count(); } interval:s:1 { exit(); }" \
		>"$BATS_FILE_TMPDIR/try" 2>&1 3>&- || skip "bpftrace cannot attach: $(tail -n 1 "$BATS_FILE_TMPDIR/try")"
}

teardown() {
	# shellcheck disable=SC2046
	kill -KILL $(jobs -p) 2>/dev/null || true
	report_failure
}

# example PROBE: prints the program of the example in the documentation that uses the probe
example() {
	python3 - "$XR_TOP/docs/probes.md" "$1" "$XROCED" <<'PYTHON'
import re, sys
found = [p for p in re.findall(r"^    bpftrace -e '([^']*)'", open(sys.argv[1]).read(), re.M) if f":xroce:{sys.argv[2]} " in p]
assert len(found) == 1, found
print(found[0].replace("/usr/sbin/xroced", sys.argv[3]).replace("interval:s:10", "interval:s:1"))
PYTHON
}

# trace PROBE: runs the example in the background; sets TRACER and TRACE, the file with its output
trace() {
	local program

	program=$(example "$1")
	TRACE=$BATS_TEST_TMPDIR/trace
	bpftrace -B line -e "$program"' BEGIN { printf("attached\n"); }' >"$TRACE" 2>&1 3>&- &
	TRACER=$!
	# BEGIN runs when all probes are attached.
	attached() { grep -q ^attached "$TRACE"; }
	wait_for 60 attached
}

# trace_end: ends it; maps are printed then
trace_end() {
	kill -INT "$TRACER"
	wait_for 60 not alive "$TRACER"	# each probe waits for the kernel to be detached
	cat "$TRACE"
}

has_line() {
	grep -Eq "$1" "$TRACE"
}

@test "bpftrace lists the probes that the documentation describes" {
	equal "probes" "$(bpftrace -l "usdt:$XROCED:xroce:*" 2>/dev/null | sed 's/.*://' | sort -u | xargs)" \
		"$(awk -F '[|\140 ]+' '$3 ~ /^QPN/ { print $2 }' "$XR_TOP/docs/probes.md" | sort | xargs)"
}

@test "qp_error has the cause and the status of each error" {
	trace qp_error
	both "$BIN/rdma_verify" -g @4 -n 2 -t wrong-variant
	# a refused request of the peer: remote access; a work request: IBV_WC_REM_ACCESS_ERR
	wait_for 10 has_line '^QP [0-9]+: cause 4, status 2, '
	wait_for 10 has_line '^QP [0-9]+: cause 2, status 10, '
	# injected faults: a NAK (its code), and IBV_WC_FATAL_ERR
	ctl a fault xra rules 'nak access opcode WRITE_LAST times 1'
	fails both -t $((30 * SLOW)) ib_write_bw -x @4 -F -s 65536 -n 100
	wait_for 10 has_line '^QP [0-9]+: cause 8, status 2, vendor error 0xf$'
	ctl a fault xra rules 'qp-error status FATAL_ERR tx opcode SEND_ONLY times 1'
	fails both -t $((30 * SLOW)) ibv_rc_pingpong -g @4 -s 64 -n 10
	wait_for 10 has_line '^QP [0-9]+: cause 8, status 19, vendor error 0xf$'
	ctl a fault xra off
	trace_end
}

@test "nak_received has the QP and the syndrome of each NAK" {
	trace nak_received
	ctl a fault xra rules 'drop rx prob 2%'
	both -t 60 ib_send_bw -x @4 -F -n 3000 -s 65536
	ctl a fault xra off
	# a PSN sequence NAK
	wait_for 10 has_line '^@\[[0-9]+, 96\]: [0-9]+$'
	trace_end
}

@test "retry has the QP and the stack of each timeout" {
	trace retry
	ctl a fault xra drop 1000
	fails both -t 60 "$BIN/rdma_verify" -g @4 -n 2 -t wrong-variant
	ctl a fault xra off
	trace_end
	has_line '^@\[[0-9]+, *$'
}

@test "memory_wait has the kind of each read that is waited for, and all probes can be used at once" {
	local all

	trace memory_wait
	all=$TRACER
	mv "$TRACE" "$BATS_TEST_TMPDIR/kinds"
	trace '*'
	XROCE_ADOPT=never both -t 60 ib_write_bw -x @4 -F -n 1000 -s 65536
	XROCE_ADOPT=never both -t 60 ib_send_bw -x @4 -F -n 1000 -s 65536
	trace_end
	has_line '^@\[usdt:.*:xroce:memory_wait\]: [0-9]+$'
	TRACER=$all TRACE=$BATS_TEST_TMPDIR/kinds
	trace_end
	has_line '^@\[[0-9]+, 0\]: [0-9]+$'
}
