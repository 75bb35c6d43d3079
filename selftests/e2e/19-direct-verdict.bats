#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# BPF checks the packets of direct programs on the maps of the daemon, which show their QPs and keys.

load helpers

THIRD=10.77.0.3 # of host b, too

setup_file() {
	requires root setpriv python3 bpftool jq ib_write_bw rping
	export XROCE_PATH=direct
	hosts_up
	on b ip addr add $THIRD/24 dev vb
	both_daemons_up
}

both_daemons_up() {
	daemons_up --io socket --slots 8 --group nogroup "$@"
}

teardown() {
	# shellcheck disable=SC2046
	kill -KILL $(jobs -p) 2>/dev/null || true
	wait
	report_failure
}

AS=()

run_on() {
	local h=$1

	shift
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 \
		nsenter --net="/run/netns/$ID-$h" -- "${AS[@]}" "$XROCE" run -r "$RUN/$h" "$@"
}

# map HOST NAME: prints the entries of a map, one object in a line
map() {
	bpftool -j map dump pinned "$RUN/bpf/xroce/xr$1/$2" | jq -c '.[].formatted'
}

# direct_qps HOST: prints the QPNs of direct programs in the map
direct_qps() {
	map "$1" qps | jq -c 'select(.key % 2 == 1 and .key != 1) | .key'
}

nothing_published() {
	[[ -z $(direct_qps a)$(direct_qps b)$(map a direct_keys)$(map b direct_keys) ]]
}

# dropped HOST REASON: prints how many packets the kernel has dropped for a reason
dropped() {
	local index

	index=$(ctl "$1" counters -j "xr$1" | jq --arg n "$2" '[.xdp[].name] | index($n)')
	map "$1" stats | jq --argjson i "$index" 'select(.key == $i) | [.values[].value.packets] | add'
}

# runs HOST PROGRAM ARG...: a server that waits for its client, which is the same program on host b
runs() {
	local program=("$@")

	expand_args a -x @4 -F -s 4096 -D 60
	spawn a "$BATS_TEST_TMPDIR/server" "${program[@]}" "${ARGS[@]}" -p 18703 3>&-
	SERVER=$!
	server_listens() { listens a 18703; }
	wait_for 10 server_listens
	expand_args b -x @4 -F -s 4096 -D 60
	spawn b "$BATS_TEST_TMPDIR/client" "${program[@]}" "${ARGS[@]}" -p 18703 "$A4" 3>&-
	CLIENT=$!
	wait_for 10 is_connected
}

is_connected() {
	[[ $(row b qp .state) == RTS && $(row a qp .state) == RT[RS] ]]
}

ends() {
	kill -KILL "$SERVER" "$CLIENT"
	wait "$SERVER" "$CLIENT" 2>/dev/null || true
	wait_for 10 nothing_published
}

# row HOST LIST FILTER: prints a field of the only row of a list
row() {
	ctl "$1" "$2" -d -j "xr$1" | jq -r ".[] | $3"
}

# forge SOURCE OPCODE QPN KEY ADDRESS PSN: sends a packet of a WRITE of 8 bytes to host a
forge() {
	on b python3 -c '
import socket, struct, sys
source, opcode, qpn, key, address, psn = sys.argv[1], *(int(n, 0) for n in sys.argv[3:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((source, 0))
s.sendto(struct.pack(">BBHIIQII", opcode, 0, 0xffff, qpn, psn, address, key, 8) + bytes(8 + 4), (sys.argv[2], 4791))
' "$1" "$A4" "${@:2}"
}

# drops REASON ARG...: the kernel of host a drops such a forged packet for a reason, which `xroce counters` shows
drops() {
	local before counted

	before=$(dropped a "$1") counted=$(counter a "$1")
	forge "${@:2}" 0
	# shellcheck disable=SC2317
	one_more() { (($(dropped a "$1") == before + 1 && $(counter a "$1") == counted + 1)); }
	wait_for 5 one_more "$1" || {
		echo "$*: dropped $before, then $(dropped a "$1"); counted $counted, then $(counter a "$1")"
		return 1
	}
}

@test "status says who checks" {
	equal "checks" "$(status_of a .slots.checks)" "kernel and program"
	nothing_published
	equal "slots" "$(map a slots | jq -s '[.[].value | [.slot, .slots, .flags]] | sort | tostring')" \
		"$(jq -n '[range(8) | [., 8, 0]] | tostring')"
}

@test "the maps show QPs and keys of a direct program, and not those of the past" {
	local qpn key

	runs ib_write_bw
	qpn=$(row a qp .qpn) key=$(($(row a mr .lkey)))
	equal "QP" "$(map a qps | jq -c --argjson n "$((qpn))" 'select(.key == $n).value | [.state, .type, .slot, .dest_qpn]')" \
		"[2,2,4294967295,$(($(row b qp .qpn)))]"
	equal "key" "$(map a direct_keys | jq -c '[.key.slot, .key.index, .value.variant, .value.length, .value.access]')" \
		"[$(status_of a '.slots.loans[0].slot'),$((key >> 8)),$((key & 255)),8192,3]"
	# as text, where the kernel has map iterators
	if [[ -e $RUN/bpf/xroce/xra/direct_keys_text ]]; then
		grep "^$(printf '%-4u 0x%08x MR   VALID' "$(status_of a '.slots.loans[0].slot')" $key)" \
			"$RUN/bpf/xroce/xra/direct_keys_text"
		grep "^$(printf '0x%06x RC       RTR' "$((qpn))").*$A4 $B4" "$RUN/bpf/xroce/xra/qps_text"
	fi
	ends
}

@test "the kernel drops forged packets to a direct program, under their reasons" {
	local qpn key at

	runs ib_write_bw -c UC
	qpn=$(row a qp .qpn) key=$(row a mr .lkey) at=$(row a mr .iova)
	drops KEY_INDEX "$B4" 0x2a "$qpn" $((key ^ 0x5500)) "$at"
	drops KEY_VARIANT "$B4" 0x2a "$qpn" $((key ^ 0x55)) "$at"
	drops KEY_RANGE "$B4" 0x2a "$qpn" "$key" $((at + 8192))
	drops WRONG_PEER $THIRD 0x2a "$qpn" "$key" "$at"
	drops QP_TYPE "$B4" 0x0a "$qpn" "$key" "$at"
	drops NO_QP "$B4" 0x2a $((qpn ^ 0x100000)) "$key" "$at"
	ends
}

@test "a forged R_Key that needs a NAK comes as far as the library" {
	local dropped counted

	runs ib_write_bw -c RC
	dropped=$(dropped a KEY_INDEX) counted=$(counter a KEY_INDEX)
	forge "$B4" 0x0a "$(row a qp .qpn)" $(($(row a mr .lkey) ^ 0x5500)) 0 "$(row a qp .rq_psn)"
	# shellcheck disable=SC2317
	is_counted() { (($(counter a KEY_INDEX) == counted + 1)); }
	wait_for 5 is_counted || {
		ctl a counters xra
		return 1
	}
	equal "dropped by the kernel" "$(dropped a KEY_INDEX)" "$dropped"
	ends
}

legal_traffic() {
	local verb

	for verb in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw; do
		both -t 60 $verb -x @4 -F -n "$(iterations 500)" && has_result "$OUT/client"
		both -t 60 $verb -b -x @6 -F -n "$(iterations 500)" && has_result "$OUT/client"
	done
	both -t 60 ib_send_bw -c UD -x @4 -F -n "$(iterations 500)"
	both -t 60 ib_write_bw -c UC -x @4 -F -n "$(iterations 500)"
	both -t 60 ib_write_bw -q 4 -x @4 -F -n "$(iterations 500)"
}

# unhindered COMMAND...: the kernel drops nothing that such a program sends for its key or peer
unhindered() {
	local reason before=()

	for reason in WRONG_PEER WRONG_DEST QKEY KEY_INDEX KEY_VARIANT KEY_STATE KEY_PD KEY_ACCESS KEY_RANGE; do
		before+=("$reason $(dropped a $reason) $(dropped b $reason)")
	done
	"$@"
	for line in "${before[@]}"; do
		reason=${line%% *}
		equal "dropped" "$reason $(dropped a "$reason") $(dropped b "$reason")" "$line"
	done
}

@test "legal traffic passes, by sockets and by a restricted io_uring" {
	unhindered legal_traffic
	AS=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	unhindered legal_traffic
}

@test "rping pings" {
	load rdmacm
	pair rping -s -a "$A4" -p "$PORT" -V -C 20 -- rping -c -a "$A4" -p "$PORT" -V -C 20
	AS=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	pair rping -s -a "$A4" -p "$PORT" -V -C 20 -- rping -c -a "$A4" -p "$PORT" -V -C 20
}

@test "several programs have their own keys" {
	local i

	AS=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	expand_args a -x @4 -F -n "$(iterations 2000)" -s 4096
	for i in 1 2 3; do
		spawn a "$BATS_TEST_TMPDIR/server$i" ib_read_bw "${ARGS[@]}" -p $((18710 + i)) 3>&-
	done
	# shellcheck disable=SC2317
	all_listen() { listens a 18711 && listens a 18712 && listens a 18713; }
	wait_for 10 all_listen
	expand_args b -x @4 -F -n "$(iterations 2000)" -s 4096
	for i in 1 2 3; do
		run_on b ib_read_bw "${ARGS[@]}" -p $((18710 + i)) "$A4" >"$BATS_TEST_TMPDIR/client$i" 2>&1 &
	done
	wait
	for i in 1 2 3; do
		has_result "$BATS_TEST_TMPDIR/client$i"
	done
	wait_for 10 nothing_published
}

@test "windows, fast registration and integrity regions work" {
	both -t 90 "$BIN/rdma_keys" -g @4
	both -t 60 "$BIN/rdma_verify" -g @4 -n "$(iterations 10)"
}

@test "nothing is left in the maps of programs that were killed" {
	local i

	for ((i = 0; i < $(iterations 10); i++)); do
		runs ib_write_bw
		[[ -n $(direct_qps a) && -n $(map a direct_keys) ]]
		ends
	done
}

@test "a program with more QPs than the tables hold works" {
	both -t 120 ib_write_bw -x @4 -F -s 64 -n 5 -q 600
	has_result "$OUT/client"
	wait_for 10 nothing_published
	equal "flags" "$(map a slots | jq -s '[.[].value.flags] | add')" 0
}

@test "a program can publish what is its own only" {
	local said=$BATS_TEST_TMPDIR/said own

	mkfifo "$BATS_TEST_TMPDIR/end"
	on a "$BIN/borrow" "$RUN/a/xra.sock" 0 publish <"$BATS_TEST_TMPDIR/end" >"$said" &
	exec 9>"$BATS_TEST_TMPDIR/end"
	wait_for 10 grep -q ready "$said"
	cat "$said"
	equal "refused" "$(grep -c ': Invalid argument' "$said")" 17
	grep '^QPN of the daemon: .*QPN 0x[0-9a-f]* is none of slot [0-9]' "$said"
	grep '^QPN of another slot: .*is none of slot' "$said"
	grep '^place of a key: .*place 4096 of a key, the tables hold 4096' "$said"
	grep '^a QP and a key: done' "$said"
	own=$(awk '/^slot . modulus/ { print 100 * $4 + $6 }' "$said")
	equal "QPs" "$(direct_qps a)" "$own"
	# nothing of the requests that were refused
	equal "keys" "$(map a direct_keys | jq .key.index)" $((0xbee))
	# what it has published is let through, and no other QPN
	on b python3 -c '
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for qpn in int(sys.argv[2]), int(sys.argv[2]) + 16:
    s.sendto(struct.pack(">BBHIII", 4, 0, 0xffff, qpn, 0, 0), (sys.argv[1], 4791))
' "$A4" "$own"
	exec 9>&-
	wait
	wait_for 10 nothing_published
}

@test "without BPF the library checks alone" {
	daemon_down a
	daemon_down b
	both_daemons_up --direct-verdict program
	equal "checks" "$(status_of a .slots.checks)" program
	on a "$BIN/borrow" "$RUN/a/xra.sock" 0 publish </dev/null >"$BATS_TEST_TMPDIR/said"
	grep '^a QP and a key: Operation not supported the kernel does not check' "$BATS_TEST_TMPDIR/said"
	both -t 40 ib_write_bw -x @4 -F -n 100
	nothing_published
	daemon_down a
	mkdir "$RUN/nobody"
	chown 65534 "$RUN/nobody"
	run -1 on a setpriv --reuid 65534 --regid 65534 --clear-groups "$XROCED" --interface va --io socket \
		--runtime-dir "$RUN/nobody" --direct-verdict bpf
	echo "$output"
	[[ $output == *'--direct-verdict bpf: there is no socket filter, which takes CAP_BPF and CAP_PERFMON'* ]]
}
