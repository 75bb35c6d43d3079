#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two receive queues, two workers a daemon. veth delivers into the queue that the sender's worker has, so a
# connection between worker 0 of one host and worker 1 of the other has all its packets
# received by a worker that does not own the QP.

load helpers
load datagram

setup_file() {
	requires root
	hosts_up "${MTU:-9000}" 2
	daemons_up
	# Workers are given to QPs in turn: one QP more on host a, and pairs are crossed from now on.
	run_on a timeout $((5 * SLOW)) ibv_rc_pingpong -d xra -g "$(gid_index a "$A4")" >/dev/null 2>&1 &
	wait_for 5 qp_exists a
	kill "$!" 2>/dev/null || true
	wait_for 5 not qp_exists a
}

qp_exists() {
	[[ $(objects "$1" qps) != 0 ]]
}

@test "queues: each has a worker" {
	equal "workers of a" "$(ctl a status -j xra | jq '[.. | .workers? // empty] | first | length')" 2
}

@test "queues: every byte arrives, over the wrong queue" {
	both -t 60 "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -n "$(few 10)" \
		-t write -t send -t read -t atomic -t mixed -t pipeline
	(($(counter a rx_forwarded) > 0))
	(($(counter b rx_forwarded) > 0))
	equal "lost on the way between workers" "$(counter a rx_forward_lost)" 0
}

@test "queues: a lossless wire needs no repair" {
	local before

	before=$(($(counter a timeouts) + $(counter b timeouts)))
	# a local ACK timeout of 2 s: who waits longer was lost, not late on a busy machine
	both -t 60 ib_write_bw -x @4 -F -u 19 -q 8 -s 65536 -n $((500 / SLOW))
	both -t 60 ib_send_lat -x @4 -F -u 19 -s 8 -n $((500 / SLOW))
	equal "timeouts" "$(($(counter a timeouts) + $(counter b timeouts)))" "$before"
}

@test "queues: refusals come back with the right status" {
	for _ in 1 2 3; do
		both -t 60 "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 \
			-t wrong-variant -t one-above -t no-read -t short-receive
	done
}

# Of each host two members, a worker's each, while both workers are busy: a member must not miss what another
# worker received or sent. Receives are there for all of it.
@test "queues: a group's members are with every worker" {
	local h i name pid pids=()

	for h in a b; do
		for i in 1 2; do
			listener "$h" "$h$i" "$([[ $h == a ]] && echo "$A4" || echo "$B4")" 16 239.7.7.8
			pids+=("$LISTENER")
		done
	done
	both -t 60 ib_write_bw -x @4 -F -u 19 -q 8 -s 65536 -n $((2000 / SLOW)) >"$BATS_TEST_TMPDIR/busy" &
	for i in 1 2; do
		tell b send "$B4" 239.7.7.8 0xffffff 0x11111111 far 4
		tell a send "$A4" 239.7.7.8 0xffffff 0x11111111 near 4
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || { tail "$BATS_TEST_TMPDIR"/[ab]?; return 1; }
	done
	for name in a1 a2 b1 b2; do
		equal "$name" "$(grep got "$BATS_TEST_TMPDIR/$name" | sort | uniq -c | xargs)" \
			"8 got far 8 got near"
	done
	wait
	equal "lost on the way between workers of a" "$(counter a rx_forward_lost)" 0
	equal "lost on the way between workers of b" "$(counter b rx_forward_lost)" 0
}
