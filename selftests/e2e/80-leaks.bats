#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs are killed at various moments: the daemons must free all their resources.

load helpers

setup_file() {
	local h

	requires root
	hosts_up
	daemons_up
	for h in a b; do
		resources "$h" >"$RUN/$h/before"
	done
}

# connected: whether all QPs of a pair are in use
connected() {
	[[ $(ctl b qp -j xrb | jq '[.[] | select(.state == "RTS")] | length') == 4 ]]
}

# kill_pair_after SECONDS|connected [PROGRAM ARG...]: starts a pair of the program (default ib_write_bw) and kills both
# sides that many seconds after its start, or when it is connected
kill_pair_after() {
	local server client program=("${@:2}")

	((${#program[@]})) || program=(ib_write_bw)
	program+=(-F -D $((15 * SLOW)) -q 4)
	spawn a /dev/null "${program[@]}" -x "$(gid_index a "$A4")"
	server=$!
	wait_for 5 listens a "$PORT"
	spawn b /dev/null "${program[@]}" -x "$(gid_index b "$B4")" "$A4"
	client=$!
	if [[ $1 == connected ]]; then
		wait_for 10 connected
	else
		sleep "$1" $((SLOW / 10))
	fi
	# Kill both with one command, because the server may end by itself when its client is gone.
	kill -KILL "$client" "$server" 2>/dev/null || true
	wait "$client" "$server" 2>/dev/null || true
}

@test "killed programs leave no resources" {
	local i

	for i in $(seq "$(iterations 20)"); do
		kill_pair_after "0.$((i * 37 % 70 + 5))"
	done
	for i in $(seq "$(iterations 6)"); do
		kill_pair_after "0.$((i * 37 % 70 + 5))" ib_send_bw --use-srq
		kill_pair_after "0.$((i * 41 % 70 + 5))" ib_send_bw -c XRC
	done
	resources_restored a "$(cat "$RUN/a/before")"
	resources_restored b "$(cat "$RUN/b/before")"
}

@test "QPNs and keys work after programs were killed" {
	both ibv_rc_pingpong -g @4 -c -n $((100 / SLOW))
}

# Prints the memory in use of the daemon on host a, which it allocated with malloc().
heap() {
	ctl a status -j xra | jq -er .heap_bytes
}

# The daemon may keep what it needed once, and malloc() counts small pieces as used for a while after they are freed. A
# leak grows with every killed pair, so it grows in each of these rounds: that of a QP alone by 7 KB.
@test "killed programs do not increase the daemon's memory" {
	local before after pairs

	pairs=$(iterations 6)
	resources_restored a "$(cat "$RUN/a/before")"
	after=$(heap)
	for _ in 1 2 3 4 5 6 7 8; do
		before=$after
		for _ in $(seq "$pairs"); do kill_pair_after connected; done
		resources_restored a "$(cat "$RUN/a/before")"
		after=$(heap)
		echo "heap: $before bytes, then $after bytes"
		((after > before + 4096)) || return 0
	done
	return 1
}

# Prints how many KiB the daemon of host a has locked in memory.
locked_kib() {
	awk '/^VmLck/ { print $2 }' "/proc/$(daemon_pid a)/status"
}

@test "no page stays pinned after programs were killed" {
	local before

	unpinned() { (($(locked_kib) <= $1)); }
	before=$(locked_kib)
	for _ in $(seq "$(iterations 5)"); do kill_pair_after connected; done
	wait_for 10 unpinned "$before"
}

# kill_mixed_pair N: kills the Nth pair of a mixture of programs; in turn switches packet loss on and off, and adds
# and deletes an address
kill_mixed_pair() {
	local kinds=(ib_write_bw "ib_send_bw --use-srq" "ib_send_bw -c XRC" ib_read_bw "ib_send_bw -c UD" ib_atomic_bw
		"ib_write_bw -s 1048576" "ib_write_bw -c UC")

	case $(($1 % 4)) in
	0) ctl a fault xra drop 20 ;;
	1) ctl a fault xra off ;;
	2) on b ip addr add 10.77.0.99/24 dev vb ;;
	3) on b ip addr del 10.77.0.99/24 dev vb ;;
	esac >/dev/null
	# shellcheck disable=SC2086  # program and options
	kill_pair_after "0.$(($1 * 37 % 70 + 5))" ${kinds[$1 % ${#kinds[@]}]}
}

# Runs for XR_SOAK seconds: 600 in the suite long/e2e/80-leaks.
@test "a mixture of killed programs, faults and address changes leaves no resources" {
	local i=0 end

	end=$((SECONDS + ${XR_SOAK:-10}))
	while ((SECONDS < end || i % 4)); do
		kill_mixed_pair $((i++))
	done
	ctl a fault xra off >/dev/null
	echo "$i pairs"
	resources_restored a "$(cat "$RUN/a/before")"
	resources_restored b "$(cat "$RUN/b/before")"
}
