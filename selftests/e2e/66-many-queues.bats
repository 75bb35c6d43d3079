#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# An interface with many RX queues, served by as many workers or by fewer. The driver of veth cannot steer.

load helpers

QUEUES=40

setup_file() {
	daemon_path "packets go by XDP"
	requires root io=xdp
	hosts_up "$MTU" 40
	daemons_up
}

# workers HOST: prints the number of workers
workers() {
	ctl "$1" status -j "xr$1" | jq '[.. | .workers? // empty] | first | length'
}

@test "each of 40 queues has a worker" {
	equal "workers of a" "$(workers a)" "$QUEUES"
	equal "warnings" "$(grep -c "RX queues are served" "$RUN/a/log")" 0
}

@test "RC data is correct on QPs of 40 workers" {
	both -t 60 ib_write_bw -x @4 -F -u 19 -q $((QUEUES + 2)) -s 4096 -n 50
	both -t 60 "$BIN/rdma_verify" -g @4 -n "$(iterations 5)" -t write -t send -t read -t atomic
	equal "rx_forward_lost of host a" "$(counter a rx_forward_lost)" 0
}

@test "a warning says that --queues leaves queues without a worker" {
	daemon_down a
	daemon_up a --queues 3
	daemon_down b
	daemon_up b --queues 3
	equal "workers of a" "$(workers a)" 3
	grep "va: 3 of 40 RX queues are served" "$RUN/a/log"
	grep "ethtool -L va combined 3" "$RUN/a/log"
	both -t 60 ib_write_bw -x @4 -F -q 6 -s 4096 -n 50
}
