#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Slots: UDP sockets of the daemon that programs borrow

load helpers

setup_file() {
	requires root python3
	hosts_up
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
	daemon_up b --io socket
}

# borrow ARG...: runs the program on host a
borrow() {
	on a "$BIN/borrow" "$RUN/a/xra.sock" "$@"
}

# holds USER COUNT: borrows slots until `release`; the output is in $BORROWED
holds() {
	starts "$1" hold "$2"
}

# starts USER ARG...: the same with other arguments of the program
starts() {
	BORROWED=$BATS_TEST_TMPDIR/borrowed
	mkfifo "$BATS_TEST_TMPDIR/end"
	borrow "$@" <"$BATS_TEST_TMPDIR/end" >"$BORROWED" &
	BORROWER=$!
	exec 9>"$BATS_TEST_TMPDIR/end"
	wait_for 10 grep -q ready "$BORROWED"
}

release() {
	exec 9>&-
	wait "$BORROWER"
	rm "$BATS_TEST_TMPDIR/end"
	wait_for 10 none_lent
}

none_lent() {
	[[ $(status_of a .slots.lent) == 0 ]]
}

# send_to ADDRESS QPN...: host b sends a packet to each QPN
send_to() {
	on b python3 -c '
import socket, struct, sys
to = sys.argv[1]
s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)
for qpn in sys.argv[2:]:
    s.sendto(struct.pack(">BBHIII", 4, 0, 0xffff, int(qpn, 0), 0, 0), (to, 4791))
' "$@"
}

# got SLOT: prints the QPNs of the packets that a slot has got
got() {
	sed -n "s/^slot $1 gets //p" "$BORROWED" | tr '\n' ' '
}

# first_slot: prints the number of the slot that was lent first
first_slot() {
	awk '/^slot . modulus/ { print $2; exit }' "$BORROWED"
}

receives() {
	local slot before rest qpns=() qpn

	holds 0 1
	slot=$(first_slot)
	rest=$((2 * slot + 1))
	grep -q "^slot $slot modulus 8 rest $rest ports 8 buffer" "$BORROWED"
	before=$(counter a NO_QP)
	for ((qpn = 0x100; qpn < 0x120; qpn++)); do
		qpns+=("$qpn")
	done
	send_to "$1" "${qpns[@]}"
	all_arrived() { (($(counter a NO_QP) - before >= 28)); }
	wait_for 10 all_arrived || {
		counter a NO_QP
		return 1
	}
	equal "QPNs of slot $slot" "$(got "$slot")" \
		"$(for ((qpn = 0x100 + rest; qpn < 0x120; qpn += 8)); do printf '0x%x ' "$qpn"; done)"
	equal "packets of the workers" "$(($(counter a NO_QP) - before))" 28
	release
}

@test "a slot gets the packets of its QPNs, and the daemon all others" {
	receives "$A4"
	receives "$A6"
}

@test "each slot gets its own packets" {
	local slot

	holds 0 4
	send_to "$A4" 0x101 0x103 0x105 0x107 0x109
	everything() { (($(grep -c gets "$BORROWED") == 5)); }
	wait_for 10 everything
	equal "slot 0" "$(got 0)" "0x101 0x109 "
	for slot in 1 2 3; do
		equal "slot $slot" "$(got $slot)" "$(printf '0x%x ' $((0x101 + 2 * slot)))"
	done
	release
}

@test "status and the list of clients show who has borrowed" {
	holds 0 2
	equal "slots" "$(status_of a '.slots | [.total, .lent, .retired] | join(" ")')" "4 2 0"
	equal "borrowers" "$(status_of a '[.slots.loans[].pid] | unique | length')" 1
	equal "direct clients" "$(ctl a client -j | jq '[.. | objects | select(.direct == true)] | length')" 2
	release
}

@test "no more than all slots are lent, and they are lent again" {
	holds 0 5
	equal "lent" "$(grep -c '^slot . modulus' "$BORROWED")" 4
	grep -q 'refused Device or resource busy: all 4 slots are lent' "$BORROWED"
	grep '^slot . modulus' "$BORROWED" >"$BATS_TEST_TMPDIR/first"
	release
	holds 0 4
	# with the buffers that the daemon had the privilege to set
	equal "slots" "$(grep '^slot . modulus' "$BORROWED" | sort)" "$(sort "$BATS_TEST_TMPDIR/first")"
	release
}

@test "other users may not borrow, unless they are named" {
	daemon_down a
	daemon_up a --io socket --direct-verdict program --slots 4 --group nogroup --direct-users 64790
	borrow 65534 hold 1 </dev/null | grep 'refused Operation not permitted: uid 65534 may not borrow'
	borrow 64790:65534 hold 1 </dev/null | grep '^slot'
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
}

@test "a program gets the inbox of another one of its user only" {
	local qpn slot

	daemon_down a
	daemon_up a --io socket --direct-verdict program --slots 4 --group nogroup --direct-users 64790,64791
	starts 64790:65534 offer
	slot=$(sed -n 's/^slot \([0-9]*\) .*/\1/p' "$BORROWED")
	qpn=$((2 * slot + 1 + 8 * 5))
	borrow 64790:65534 ask "$qpn" | grep "^inbox of slot $slot, ring [0-9], 1 descriptors"
	borrow 64791:65534 ask "$qpn" | grep '^no inbox, No such file or directory'
	borrow 0 ask "$qpn" | grep '^no inbox, No such file or directory'
	# a QPN of a worker, and one of a slot that is not lent
	borrow 64790:65534 ask $((qpn + 1)) | grep '^no inbox'
	borrow 64790:65534 ask $((qpn + 4)) | grep '^no inbox'
	release
	borrow 64790:65534 ask "$qpn" | grep '^no inbox'
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
}

@test "a slot that was connected is not lent again" {
	borrow 0 spoil "::ffff:$B4"
	wait_for 10 none_lent
	equal "retired" "$(status_of a .slots.retired)" 1
	grep -q 'slot . is not lent again: it is connected' "$RUN/a/log"
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
}

# others_get_packets ATTACK: while and after a slot is attacked, another slot and the daemon get all of their packets
others_get_packets() {
	local before victim slot qpn other=$BATS_TEST_TMPDIR/other

	mkfifo "$BATS_TEST_TMPDIR/other-end"
	borrow 0 hold 1 <"$BATS_TEST_TMPDIR/other-end" >"$other" &
	victim=$!
	exec 8>"$BATS_TEST_TMPDIR/other-end"
	wait_for 10 grep -q ready "$other"
	slot=$(awk '/^slot . modulus/ { print $2; exit }' "$other")
	starts 0 attack "$1"
	before=$(counter a NO_QP)
	qpn=$((0x101 + 2 * slot))
	send_to "$A4" $qpn $((qpn + 8)) 0x100 0x102 0x104
	# shellcheck disable=SC2317
	arrived() { (($(grep -c gets "$other") == $1 && $(counter a NO_QP) - before >= $2)); }
	wait_for 5 arrived 2 3 || {
		cat "$other" "$BORROWED"
		return 1
	}
	not grep gets "$BORROWED"
	cat "$BORROWED"
	exec 9>&-
	wait "$BORROWER"
	rm "$BATS_TEST_TMPDIR/end"
	one_lent() { [[ $(status_of a .slots.lent) == 1 ]]; }
	wait_for 10 one_lent
	send_to "$A4" $qpn 0x106
	wait_for 5 arrived 3 4
	exec 8>&-
	wait "$victim"
	rm "$BATS_TEST_TMPDIR/other-end"
	wait_for 10 none_lent
}

@test "a borrower cannot take the filter off, and other programs get their packets" {
	others_get_packets filter
	equal "refused" "$(grep -c 'Operation not permitted' "$BORROWED")" 3
	equal "retired" "$(status_of a .slots.retired)" 0
}

@test "a borrower who changes its socket disturbs no other program" {
	local attack

	for attack in buffer shutdown device; do
		others_get_packets $attack
	done
	equal "retired" "$(status_of a .slots.retired)" 2
	grep -q 'slot . is not lent again: it was shut down' "$RUN/a/log"
	grep -q 'slot . is not lent again: it is bound to another interface' "$RUN/a/log"
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
}

@test "a borrower cannot attach another steering program; a program that it removes is back with the next loan" {
	starts 0 attack steering
	grep -q 'SO_ATTACH_REUSEPORT_CBPF: Operation not permitted' "$BORROWED"
	cat "$BORROWED"
	release
	receives "$A4"
}

@test "a slot that its borrower keeps gets no packets after the end of the loan" {
	local kept=$BATS_TEST_TMPDIR/kept

	starts 0 attack keep
	wait_for 10 none_lent
	cp "$BORROWED" "$kept"
	send_to "$A4" 0x101 0x103 0x105 0x107
	sleep 0.2
	not grep gets "$BORROWED"
	release
}

@test "a daemon ends while sockets are lent" {
	holds 0 2
	daemon_down a
	not grep 'steering packets past slot' "$RUN/a/log"
	exec 9>&-
	wait "$BORROWER" || true
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
}

@test "a daemon starts although a program gives the sockets of the last one back late" {
	local program end=$BATS_TEST_TMPDIR/late

	spawn a "$end" env XROCE_PATH=direct ibv_asyncwatch -d xra
	program=$!
	wait_for 10 grep -q 'async event FD' "$end"
	kill -STOP "$program"
	daemon_down a
	(sleep 0.5 && kill -CONT "$program") 3>&- &
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
	wait $!
	kill "$program" 2>/dev/null || true
	wait "$program" || true
}

@test "children of a direct program, which have been forked only, do not keep the port" {
	local program

	# a child, and a child of it; both end when the program does
	spawn a "$BATS_TEST_TMPDIR/forked" env XROCE_PATH=direct python3 -c '
import ctypes, os, time
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_open_device.restype = ctypes.c_void_p
assert verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
end, program = os.pipe()
if not os.fork():
    os.close(program)
    print("child" if os.fork() else "its child", flush=True)
    os.read(end, 1)
    os._exit(0)
time.sleep(60)'
	program=$!
	forked() { (($(grep -c child "$BATS_TEST_TMPDIR/forked") == 2)); }
	wait_for 10 forked || {
		cat "$BATS_TEST_TMPDIR/forked"
		return 1
	}
	equal "lent" "$(status_of a .slots.lent)" 1
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 4
	alive "$program"
	kill "$program"
	wait "$program" || true
}

@test "nothing is left of borrowers that were killed" {
	local before

	borrow 0 cycles 8
	wait_for 10 none_lent
	before=$(objects a)
	borrow 0 cycles "$(iterations 1000)" | tail -n 1
	wait_for 10 none_lent
	equal "slots" "$(status_of a '.slots | [.total, .lent, .retired] | join(" ")')" "4 0 0"
	objects_left a "$before"
}

@test "without slots, and with XDP, nothing is lent" {
	daemon_down a
	daemon_up a --io socket --direct-verdict program --slots 0
	borrow 0 hold 1 </dev/null | grep 'refused Operation not supported: .*--slots is 0'
	daemon_down a
	daemon_up a --io xdp
	borrow 0 hold 1 </dev/null | grep "refused Operation not supported: .*the way 'xdp'"
}
