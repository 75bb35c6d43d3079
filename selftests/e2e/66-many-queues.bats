#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# An interface with many RX queues, served by few workers, by as many as there are queues, or in part. The driver of veth
# cannot steer: a packet arrives at the queue with the number of the sender's TX queue, and each worker sends from the queue
# with its own number.

load helpers
load capture
load faults

QUEUES=40

setup_file() {
	daemon_path "packets go by XDP"
	requires root io=xdp
	hosts_up "$MTU" "$QUEUES"
	daemons_up
}

# restart HOST OPTION...: starts the daemon again, with these options
restart() {
	daemon_down "$1"
	daemon_up "$@"
}

# workers HOST: prints the number of workers
workers() {
	status_of "$1" '.workers | length'
}

# queues HOST: prints the queues of each worker
queues() {
	status_of "$1" '.workers | map(.queues) | join(" ")'
}

# by_processors: prints how many workers a daemon has by default
by_processors() {
	local n=$(($(nproc) / 2))

	echo $((n < 1 ? 1 : n > 4 ? 4 : n))
}

# rss HOST: prints the memory that the daemon uses, in MiB
rss() {
	awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$(daemon_pid "$1")/status"
}

@test "the processors say how many workers serve 40 queues" {
	equal "workers of a" "$(workers a)" "$(by_processors)"
	equal "warnings" "$(grep -c "RX queues are served" "$RUN/a/log")" 0
	equal "metrics" "$(ctl a metrics xra | awk '/^xroce_worker_queues/ { n += $2 } END { print n }')" "$QUEUES"
}

@test "memory does not grow with the number of queues" {
	(($(rss a) < 200 * $(workers a)))
}

@test "RC data is correct where few workers serve 40 queues" {
	both -t 60 ib_write_bw -x @4 -F -u 19 -q 8 -s 65536 -n 200
	both -t 60 "$BIN/rdma_verify" -g @4 -n "$(iterations 5)" -t write -t send -t read -t atomic
}

@test "a worker has every n-th queue" {
	restart a --workers 3
	equal "queues of a" "$(queues a)" "0-39:3 1-37:3 2-38:3"
	restart a --workers 1
	equal "queues of a" "$(queues a)" 0-39
}

# Host b sends from 40 queues, so that packets arrive at all queues of host a, whose only worker owns all QPs.
@test "one worker receives from 40 queues, without forwarding, while packets of each QP stay in order" {
	restart b --workers "$QUEUES" --ring-size 512
	both -t 60 ib_write_bw -x @4 -F -u 19 -q $((QUEUES + 2)) -s 4096 -n 50
	both -t 60 "$BIN/rdma_verify" -g @4 -n "$(iterations 5)" -t write -t send -t read -t atomic -t mixed
	equal "rx_forwarded of host a" "$(counter a rx_forwarded)" 0
	echo "$(counter a rx_packets) packets, $(status_of a '.workers[0].rx_ring_full') dropped by the kernel"
	equal "requests out of order" "$(counter a rx_out_of_sequence) $(counter a rx_early)" "0 0"
}

# The QPs of host b use its 40 workers in turn. A worker that is not woken costs the local ACK timeout, 8.6 s.
@test "a sleeping worker is woken by packets at any queue" {
	local sleeps

	restart a --workers 1 --spin-us 0
	sleeps=$(status_of a '.workers[0].sleeps')
	for _ in 1 2 3 4; do
		both -t 8 ib_send_lat -x @4 -F -u 21 -s 8 -n 50
	done
	(($(status_of a '.workers[0].sleeps') > sleeps + 50))
}

# Host b sends from 40 queues.
@test "rules of faults and captures name the queue, not the worker" {
	local file="$RUN/queues.pcapng"

	ctl a fault xra rules "dup rx queue 5"
	capture_on a -w "$file"
	both -t 40 ib_write_bw -x @4 -F -u 19 -q $((QUEUES + 2)) -s 4096 -n 20
	capture_end
	(($(rule a 0 hits) > 0))
	(($(rule a 0 packets) < $(packets "$file")))
	equal "packets of queue 5" "$(packets "$file" 'frame.interface_queue == 5 and ip.dst == 10.77.0.1')" "$(rule a 0 packets)"
	no_faults
}

@test "each of 40 queues has a worker if --workers says so" {
	restart a --workers "$QUEUES" --ring-size 512
	equal "workers of a" "$(workers a)" "$QUEUES"
	both -t 60 ib_write_bw -x @4 -F -u 19 -q $((QUEUES + 2)) -s 4096 -n 50
	both -t 60 "$BIN/rdma_verify" -g @4 -n "$(iterations 5)" -t write -t send -t read -t atomic
	equal "rx_forward_lost of host a" "$(counter a rx_forward_lost)" 0
}

@test "there are no more workers than queues, and a warning says so" {
	restart a --workers 50 --ring-size 512
	equal "workers of a" "$(workers a)" "$QUEUES"
	grep -- "--workers 50: 40 of va, as many as receive queues are served" "$RUN/a/log"
}

@test "a warning says that --queues leaves queues without a worker" {
	restart a --queues 3 --workers 3
	restart b --queues 3 --workers 2
	equal "queues of a" "$(queues a)" "0 1 2"
	equal "queues of b" "$(queues b)" "0-2:2 1"
	grep "va: 3 of 40 RX queues are served" "$RUN/a/log"
	grep "ethtool -L va combined 3" "$RUN/a/log"
	both -t 60 ib_write_bw -x @4 -F -q 6 -s 4096 -n 50
}
