#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Slots that programs use by a restricted io_uring: what users do with it whom the daemon does not trust

load helpers

USER=65534:65534 OTHER=65533:65534

setup_file() {
	requires root python3
	hosts_up
	daemon_b_up
	one_slot
}

daemon_b_up() {
	daemon_up b --io socket
}

# One slot: whoever borrows gets the one that the borrower before had. A larger receive buffer than users may have
one_slot() {
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 1 --group nogroup
}

two_slots() {
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 2 --group nogroup
}

again_one_slot() {
	daemon_down a
	one_slot
}

# borrow USER ARG...: runs the program on host a
borrow() {
	on a "$BIN/borrow_ring" "$RUN/a/xra.sock" "$@"
}

# close_others: closes the ends of the input of other borrowers
close_others() {
	local fd

	for fd in /proc/"$BASHPID"/fd/*; do
		fd=${fd##*/}
		((fd < 10 || fd == 255)) || eval "exec $fd>&-"
	done
}

# starts NAME USER ARG...: the same in the background, until `ends NAME`; the output is in the file NAME
starts() {
	local name=$1

	shift
	mkfifo "$BATS_TEST_TMPDIR/$name.end"
	(
		close_others
		borrow "$@"
	) <"$BATS_TEST_TMPDIR/$name.end" >"$BATS_TEST_TMPDIR/$name" 2>&1 3>&- &
	eval "PID_$name=$!"
	eval "exec {FD_$name}>$BATS_TEST_TMPDIR/$name.end"
	wait_for 10 grep -q ready "$BATS_TEST_TMPDIR/$name" || {
		says "$name"
		return 1
	}
}

# A daemon that was started meanwhile has the end of the input, too: so there is some.
ends() {
	eval "echo >&\$FD_$1; exec {FD_$1}>&-; wait \$PID_$1" || true
	rm "$BATS_TEST_TMPDIR/$1.end"
}

teardown() {
	local end name

	for end in "$BATS_TEST_TMPDIR"/*.end; do
		name=${end##*/}
		[[ ! -e $end ]] || ends "${name%.end}"
	done
	report_failure
}

says() {
	cat "$BATS_TEST_TMPDIR/$1"
}

# gets NAME: prints the QPNs of the packets that a borrower has got
gets() {
	sed -n 's/^slot . gets //p' "$BATS_TEST_TMPDIR/$1" | tr '\n' ' '
}

slots() {
	status_of a '.slots | [.total, .lent, .retired] | join(" ")'
}

lent() {
	[[ $(status_of a .slots.lent) == "$1" ]]
}

# send_to QPN...: host b sends a packet to each QPN
send_to() {
	on b python3 -c '
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for qpn in sys.argv[2:]:
    s.sendto(struct.pack(">BBHIII", 4, 0, 0xffff, int(qpn, 0), 0, 0), (sys.argv[1], 4791))
' "$A4" "$@"
}

# gets_all NAME: packets to three QPNs of its slot arrive at that borrower, and nothing else has
gets_all() {
	local name=$1 total slot i

	total=$(status_of a .slots.total)
	slot=$(sed -n 's/^slot \([0-9]*\)$/\1/p' "$BATS_TEST_TMPDIR/$name")
	set --
	for i in 100 101 102; do
		set -- "$@" "$(printf '0x%x' $((2 * (total * i + slot) + 1)))"
	done
	send_to "$@"
	# shellcheck disable=SC2317
	got_them() { [[ $(gets "$name") == "$* " ]]; }
	wait_for 5 got_them "$@" || {
		says "$name"
		return 1
	}
}

@test "a slot gets the packets of its QPNs, which its borrower receives by an io_uring" {
	starts one $USER hold
	gets_all one
	equal "who" "$(status_of a '.slots.loans[0].by')" io_uring
	ends one
	wait_for 5 lent 0
	equal "slots" "$(slots)" "1 0 0"
}

@test "an io_uring that is not fresh and disabled is refused, and what is none" {
	local kind

	for kind in none pipe other enabled restricted files; do
		borrow $USER refused $kind >"$BATS_TEST_TMPDIR/$kind"
		says $kind
		# the second request is one with a fresh io_uring
		equal "lent after $kind" "$(grep -c '^slot' "$BATS_TEST_TMPDIR/$kind")" 1
		wait_for 5 lent 0
	done
	says none | grep 'refused Bad file descriptor: the io_uring with descriptor 999'
	says pipe | grep 'refused Bad file descriptor'
	says other | grep 'refused Bad file descriptor: the io_uring with descriptor 100'
	says enabled | grep 'refused File descriptor in bad state: .*restricting it, disabled'
	says restricted | grep 'refused Device or resource busy: .*restricting it, .*without restrictions'
	says files | grep 'refused Device or resource busy: .*its fixed files, of which it may have none'
	equal "slots" "$(slots)" "1 0 0"
}

@test "a program of another network namespace gets no sockets of this one" {
	on b "$BIN/borrow_ring" "$RUN/a/xra.sock" $USER refused fresh </dev/null |
		grep 'refused Invalid cross-device link: .*another network namespace'
}

@test "a borrower can do nothing to a socket but send and receive" {
	starts one $USER attack
	says one
	equal "refused" "$(grep -c ': Permission denied$' "$BATS_TEST_TMPDIR/one")" 36
	grep 'sending by the socket that receives: Broken pipe' "$BATS_TEST_TMPDIR/one"
	grep 'sending by one that sends: done' "$BATS_TEST_TMPDIR/one"
	gets_all one
	ends one
	wait_for 5 lent 0
	starts one $OTHER hold
	gets_all one
	ends one
	wait_for 5 lent 0
	equal "slots" "$(slots)" "1 0 0"
}

@test "a borrower who puts files of its own in the place of the sockets loses them" {
	starts one $USER replace
	says one
	ends one
	wait_for 5 lent 0
	starts one $OTHER hold
	gets_all one
	ends one
	wait_for 5 lent 0
}

@test "a borrower who changes the io_uring while it is lent gets nothing that it may not have" {
	two_slots
	borrow $USER race "$(iterations 500)" >"$BATS_TEST_TMPDIR/race" 2>&1
	sort "$BATS_TEST_TMPDIR/race" | sed 's/descriptor [0-9]*/descriptor/' | uniq -c
	not grep 'an operation' "$BATS_TEST_TMPDIR/race"
	wait_for 5 lent 0
	equal "slots" "$(slots)" "2 0 0"
	starts one $OTHER hold
	gets_all one
	ends one
	again_one_slot
}

@test "a borrower who keeps its io_uring gets no packets after the end of the loan" {
	local way

	for way in keep child; do
		starts kept $USER $way
		wait_for 5 lent 0
		starts one $OTHER hold
		equal "the same slot" "$(grep -c '^slot 0$' "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/kept" |
			cut -d : -f 2 | tr '\n' ' ')" "1 1 "
		gets_all one
		ends one
		equal "packets of the old borrower" "$(gets kept)" ""
		ends kept
		wait_for 5 lent 0
	done
	equal "slots" "$(slots)" "1 0 0"
}

@test "a slot that one borrower leaves keeps its place beside those of others" {
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 6 --group nogroup
	starts one $USER hold
	starts two $USER hold
	starts three $USER hold
	borrow $USER hold </dev/null | grep 'refused Disk quota exceeded: uid 65534 has 3 of 6 slots'
	ends two
	wait_for 5 lent 2
	starts four $OTHER hold
	starts five $OTHER hold
	for name in one three four five; do
		gets_all $name
	done
	for name in one three four five; do
		ends $name
	done
	wait_for 5 lent 0
	equal "slots" "$(slots)" "6 0 0"
	again_one_slot
}

@test "a program that stops the helper by its io_uring harms nobody, and the daemon can be started again" {
	two_slots
	starts hangs $USER locks
	wait_for 5 lent 1
	starts one $OTHER hold
	gets_all one
	ends one
	# whoever waits for the io_uring holds nothing that another daemon needs
	daemon_down a
	daemon_up a --io socket --direct-verdict program --workers 2 --slots 2 --ring-slots 64 --group nogroup
	starts one $OTHER hold
	gets_all one
	ends one
	ends hangs
	wait_for 5 lent 0
	again_one_slot
}

@test "a user whose programs stop the helper again and again loses only its own requests" {
	local requests

	starts hangs $USER hangs 2
	requests=$(says hangs | sed -n 's/ requests$//p')
	((requests >= 66)) # 64 threads
	equal "refused" "$(grep -c '^refused Resource temporarily unavailable: .*the helper' "$BATS_TEST_TMPDIR/hangs")" 2
	wait_for 5 lent 0
	equal "slots" "$(slots)" "1 0 0"
	starts one $OTHER hold
	gets_all one
	ends one
	ends hangs
	wait_for 5 lent 0
	# threads of the helper that waited go on, and find that their loans have ended
	starts one $USER hold
	gets_all one
	ends one
	wait_for 5 lent 0
	equal "slots" "$(slots)" "1 0 0"
}

@test "a program that hangs while it sends has no lock that the daemon needs" {
	starts hangs $USER sends
	wait_for 5 lent 0
	says hangs | grep 'slowly, by the socket that receives: Broken pipe'
	starts one $OTHER hold
	gets_all one
	ends one
	ends hangs
	wait_for 5 lent 0
	equal "slots" "$(slots)" "1 0 0"
}

@test "a daemon starts again while programs keep io_urings of the one before" {
	starts kept $USER keep
	wait_for 5 lent 0
	starts one $USER hold
	daemon_down a
	one_slot
	ends one
	starts one $OTHER hold
	gets_all one
	ends one
	equal "packets of the old borrower" "$(gets kept)" ""
	daemon_down a KILL
	ports_free() { ! on a ss -Hlun sport = :4791 | grep -q 'va:4791'; }
	wait_for 5 ports_free
	one_slot
	ends kept
}

@test "nothing is left of borrowers that were killed" {
	local before

	borrow $USER cycles 8 >/dev/null
	wait_for 5 lent 0
	before=$(objects a)
	borrow $USER cycles "$(iterations 300)" | tail -n 1
	wait_for 5 lent 0
	equal "slots" "$(slots)" "1 0 0"
	objects_left a "$before"
	equal "members of the group" "$(on a ss -Hlun sport = :4791 | grep -c .)" 3
	# also of a socket that was opened without the privilege to have one of this size
	equal "sizes of their buffers" "$(on a ss -Hlunm sport = :4791 | grep -o 'rb[0-9]*' | sort -u)" rb16777216
}

@test "without the privilege to take descriptors nothing is lent, and the refusal says so" {
	local real=$XROCED

	daemon_down a
	printf '#!/bin/sh\nexec setpriv --bounding-set -sys_ptrace %s "$@"\n' "$real" >"$RUN/xroced"
	chmod 755 "$RUN/xroced"
	XROCED=$RUN/xroced one_slot
	borrow $USER hold </dev/null | grep 'refused .*: the io_uring with descriptor .*: .*CAP_SYS_PTRACE'
	wait_for 5 lent 0
	again_one_slot
}
