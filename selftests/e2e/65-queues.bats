#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two RX queues and two workers in each daemon. A veth delivers a packet to the RX queue with the number of the
# sender's TX queue. On a connection between worker 0 of one host and worker 1 of the other, every packet is therefore
# received by a worker that does not own the QP.

load helpers
load datagram

setup_file() {
	daemon_path "packets go by XDP"
	requires root io=xdp
	hosts_up "$MTU" 2
	daemons_up --workers 2
	# QPs are assigned to workers in turn. One QP on host a alone makes later pairs use different workers.
	spawn a /dev/null ibv_rc_pingpong -d xra -g "$(gid_index a "$A4")"
	wait_for 5 qp_exists a
	kill "$!"
	wait "$!" || true
	wait_for 5 not qp_exists a
}

# has_qps HOST NUMBER
has_qps() {
	[[ $(objects "$1" qps) == "$2" ]]
}

# qp_exists HOST
qp_exists() {
	[[ $(objects "$1" qps) != 0 ]]
}

@test "each queue has a worker" {
	equal "workers of a" "$(ctl a status -j xra | jq '[.. | .workers? // empty] | first | length')" 2
}

@test "RC data is correct when packets arrive at a queue of another worker" {
	both -t 60 "$BIN/rdma_verify" -g @4 -n "$(iterations 10)" \
		-t write -t send -t read -t atomic -t mixed -t pipeline
	(($(counter a rx_forwarded) > 0))
	(($(counter b rx_forwarded) > 0))
	equal "rx_forward_lost of host a" "$(counter a rx_forward_lost)" 0
}

@test "packets that pass between workers cause no timeouts" {
	local before

	before=$(($(counter a timeouts) + $(counter b timeouts)))
	# with a local ACK timeout of 8.6 s a timeout means a lost packet, not a busy machine
	both -t 60 ib_write_bw -x @4 -F -u 21 -q 8 -s 65536 -n $((500 / SLOW))
	both -t 60 ib_send_lat -x @4 -F -u 21 -s 8 -n $((500 / SLOW))
	equal "timeouts" "$(($(counter a timeouts) + $(counter b timeouts)))" "$before"
}

@test "refused requests complete with the right status across workers" {
	for _ in 1 2 3; do
		both -t 60 "$BIN/rdma_verify" -g @4 \
			-t wrong-variant -t one-above -t no-read -t short-receive
	done
}

@test "each worker is a completion vector, and QPs use the worker that the vector names" {
	local pid i

	run_on a timeout $((60 * SLOW)) "$BIN/rdma_notify" vectors >"$BATS_TEST_TMPDIR/vectors"
	grep -qx "2 vectors" "$BATS_TEST_TMPDIR/vectors"
	for i in 1 2 3; do
		spawn a "$BATS_TEST_TMPDIR/log" "$BIN/rdma_notify" wait-vector
		pid=$!
		wait_for 5 has_qps a 2
		equal "workers of the QPs" "$(ctl a qp -j xra | jq -c '[.[].worker]')" "[1,1]"
		kill "$pid"
		wait "$pid" || true
		wait_for 5 not qp_exists a
	done
}

@test "completion events work when several workers add completions to a CQ" {
	run_on a timeout $((60 * SLOW)) "$BIN/rdma_notify" -n "$(iterations 5000)" late solicited moderate
}

# QP 1 belongs to worker 0. The source port of a MAD, and so its queue, follows from the ports of the connection.
@test "rdma_cm connects when MADs arrive at a queue of another worker" {
	local server before lost i

	before=$(counter a rx_forwarded)
	lost=$(counter a rx_forward_lost)
	spawn a "$BATS_TEST_TMPDIR/log" rping -s -P -a "$A4" -p 7174
	server=$!
	wait_for 5 eval "ctl a cm -l -j xra | grep -q 7174"
	for ((i = 0; i < 8; i++)); do
		run_on b timeout $((20 * SLOW)) rping -c -a "$A4" -p 7174 -C 3 -V
	done
	kill "$server"
	wait "$server" || true
	(($(counter a rx_forwarded) > before))
	equal "rx_forward_lost of host a" "$(counter a rx_forward_lost)" "$lost"
}

# Two members on each host, one for each worker, while both workers are busy. Each member must get the messages that
# the other worker received or sent. There are enough receives for all messages. The 8 QPs have at most 272 packets in
# flight, so that the inbox of a worker that stands still (1024 packets) cannot overflow.
@test "multicast reaches group members of every worker" {
	local h i name pid pids=() lost

	lost="$(counter a rx_forward_lost) $(counter b rx_forward_lost)"
	for h in a b; do
		for i in 1 2; do
			listener "$h" "$h$i" "$([[ $h == a ]] && echo "$A4" || echo "$B4")" 16 239.7.7.8
			pids+=("$LISTENER")
		done
	done
	both -t 60 ib_write_bw -x @4 -F -u 19 -q 8 -t 2 -s 65536 -n $((2000 / SLOW)) >"$BATS_TEST_TMPDIR/busy" &
	for i in 1 2; do
		datagram b send "$B4" 239.7.7.8 0xffffff 0x11111111 far 4
		datagram a send "$A4" 239.7.7.8 0xffffff 0x11111111 near 4
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || { tail "$BATS_TEST_TMPDIR"/[ab]?; return 1; }
	done
	for name in a1 a2 b1 b2; do
		equal "$name" "$(grep got "$BATS_TEST_TMPDIR/$name" | sort | uniq -c | xargs)" \
			"8 got far 8 got near"
	done
	wait
	equal "rx_forward_lost of both hosts" "$(counter a rx_forward_lost) $(counter b rx_forward_lost)" "$lost"
}
