#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon is killed or stopped under running programs: they hear of it, nothing hangs, the
# netdev is clean, and a new daemon works.

load helpers

# under SIGNAL: what rdma_watch must see when its daemon goes by that signal and comes back
under() {
	local seen=$BATS_TEST_TMPDIR/seen watch

	spawn a "$seen" "$XR_BUILD/selftests/e2e/rdma_watch" death $((20 * SLOW))
	watch=$!
	wait_for 5 grep -q ready "$seen"
	daemon_down a "$1"
	wait_for 10 grep -q closed "$seen" || { cat "$seen"; return 1; }
	daemon_up a
	wait "$watch" || { cat "$seen"; return 1; }
	equal "seen" "$(tr '\n' ' ' <"$seen")" "ready fatal flushed closed opened again "
}

@test "daemon death: kill -9 is DEVICE_FATAL, all work is flushed" {
	under KILL
}

@test "daemon death: so is a clean stop" {
	under TERM
}

@test "daemon death: after kill -9 the netdev has no XDP program" {
	daemon_down a KILL
	equal "XDP program" "$(on a ip -j link show va | jq -c '.[0].xdp')" null
	on b ping -q -c 1 -W 2 "$A4"
	daemon_up a
}

@test "daemon death: programs in full run end by themselves, on both hosts" {
	local pid status=0

	both -t 20 ib_write_bw -x @4 -F -D $((15 * SLOW)) >/dev/null 2>&1 &
	pid=$!
	wait_for 5 sh -c "$XROCE -r $RUN/b qp | grep -q RTS"
	sleep 0.5
	daemon_down b KILL
	wait "$pid" || status=$?
	OUT=$(out)
	tail -n 3 "$OUT/server" "$OUT/client"
	equal "status of the client" "$(cat "$OUT/client.status")" 1
	equal "status of the server" "$(cat "$OUT/server.status")" 1
	((status != 0))
	daemon_up b
}

@test "daemon death: a second daemon of the same name ends, however often it is started" {
	for _ in 1 2 3; do
		run on a timeout $((10 * SLOW)) "$XROCED" --interface va --name xra --runtime-dir "$RUN/a" \
			--bpffs "$RUN/bpf"
		echo "$output"
		equal "status" "$status" 1
		[[ $output == *"another xroced serves xra"* ]]
	done
}

@test "daemon death: after all that, traffic" {
	both ibv_rc_pingpong -g @4 -c -n 20
}
