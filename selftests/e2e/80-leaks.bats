#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs that are killed at any moment: everything that was theirs comes back.

load helpers

# again_as HOST WANTED: within seconds, for some of it is given back later
again_as() {
	holds() { [[ $(holdings "$1") == "$2" ]]; }
	wait_for 10 holds "$1" "$2" || {
		echo "host $1 had: ${2//$'\n'/ }"
		echo "host $1 has: $(holdings "$1" | tr '\n' ' ')"
		return 1
	}
}

# killed_after SECONDS [PROGRAM...]: a pair in full run, first one killed, then the other
killed_after() {
	local server client program=("${@:2}")

	((${#program[@]})) || program=(ib_write_bw)
	program+=(-F -D $((15 * SLOW)) -q 4)
	spawn a /dev/null "${program[@]}" -x "$(gid_index a "$A4")"
	server=$!
	wait_for 5 listens a "$PORT"
	spawn b /dev/null "${program[@]}" -x "$(gid_index b "$B4")" "$A4"
	client=$!
	sleep "$1" $((SLOW / 10))
	# in one go: a server whose client is gone may end by itself
	kill -KILL "$client" "$server" 2>/dev/null || true
	wait "$client" "$server" 2>/dev/null || true
}

@test "leaks: pairs killed at different moments leave nothing" {
	local a b i

	both ib_write_bw -x @4 -F -n "$(few 100)" -q 4
	sleep 1
	a=$(holdings a) b=$(holdings b)
	for i in $(seq "$(few 20)"); do
		killed_after "0.$((i * 37 % 70 + 5))"
	done
	for i in $(seq "$(few 6)"); do
		killed_after "0.$((i * 37 % 70 + 5))" ib_send_bw --use-srq
		killed_after "0.$((i * 41 % 70 + 5))" ib_send_bw -c XRC
	done
	again_as a "$a"
	again_as b "$b"
}

@test "leaks: nor do their keys and QPNs: a pair works after it" {
	both ibv_rc_pingpong -g @4 -c -n $((100 / SLOW))
}

@test "leaks: memory of the daemon stays where it was" {
	local pid before after i

	pid=$(daemon_pid a)
	for i in $(seq "$(few 5)"); do killed_after 0.3; done
	before=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
	for i in $(seq "$(few 15)"); do killed_after 0.3; done
	after=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
	echo "resident: $before kB, then $after kB"
	((after < before + 2048))
}

@test "leaks: the kernel has unpinned all pages" {
	unpinned() {
		awk '/^nr_foll_pin_acquired/ { a = $2 } /^nr_foll_pin_released/ { r = $2 }
			END { exit !(a - r <= limit) }' limit="$1" /proc/vmstat
	}
	local before

	before=$(awk '/^nr_foll_pin_acquired/ { a = $2 } /^nr_foll_pin_released/ { r = $2 }
		END { print a - r }' /proc/vmstat)
	for _ in $(seq "$(few 5)"); do killed_after 0.4; done
	wait_for 10 unpinned "$before"
}

# mixed N: the Nth of a mixture of pairs, killed, while packets are lost and an address comes and goes
mixed() {
	local kinds=(ib_write_bw "ib_send_bw --use-srq" "ib_send_bw -c XRC" ib_read_bw "ib_send_bw -c UD" ib_atomic_bw
		"ib_write_bw -s 1048576" "ib_write_bw -c UC")

	case $(($1 % 4)) in
	0) ctl a fault xra drop 20 ;;
	1) ctl a fault xra off ;;
	2) on b ip addr add 10.77.0.99/24 dev vb ;;
	3) on b ip addr del 10.77.0.99/24 dev vb ;;
	esac >/dev/null
	# shellcheck disable=SC2086  # program and options
	killed_after "0.$(($1 * 37 % 70 + 5))" ${kinds[$1 % ${#kinds[@]}]}
}

# XR_SOAK=600 bats -f mixture 80-leaks.bats goes on for ten minutes.
@test "leaks: a mixture of pairs, with faults and addresses that come and go" {
	local a b i=0 end

	mixed 1
	sleep 1
	a=$(holdings a) b=$(holdings b)
	end=$((SECONDS + ${XR_SOAK:-20}))
	while ((SECONDS < end || i % 4)); do
		mixed $((i++))
	done
	ctl a fault xra off >/dev/null
	echo "$i pairs"
	again_as a "$a"
	again_as b "$b"
}
