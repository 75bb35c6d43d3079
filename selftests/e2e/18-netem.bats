#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# RDMA by UDP sockets through queueing disciplines of the kernel (`tc`), which lose, delay and change packets. Kernels
# without netem skip this file; `make check-vm T=18-netem` runs it.

load helpers

setup_file() {
	requires root tc
	[[ -z ${XROCE_VM-} ]] || modprobe -q sch_netem || true
	hosts_up
	daemons_up --io socket
}

setup() {
	on a tc qdisc replace dev va root netem 2>/dev/null || skip "this kernel has no netem"
}

teardown() {
	report_failure
	on a tc qdisc del dev va root 2>/dev/null || true
	on b tc qdisc del dev vb root 2>/dev/null || true
}

# netem ARG...: both hosts send through netem
netem() {
	on a tc qdisc replace dev va root netem limit 10000 "$@"
	on b tc qdisc replace dev vb root netem limit 10000 "$@"
}

# netem_of HOST: prints how many bytes netem of the host has sent, and how many packets it has dropped
netem_of() {
	on "$1" tc -j -s qdisc show dev "v$1" | jq -r '.[] | select(.kind == "netem") | "\(.bytes) \(.drops)"'
}

# transfers: every byte and completion of RC, a stream, and a connection by rdma_cm
transfers() {
	local sent h

	both -t 90 "$BIN/rdma_verify" -g @4 -n "$(iterations 30)" -b 1048576 -t write -t send-imm -t read -t mixed \
		-t pipeline -t atomic
	both -t 60 ib_write_bw -x @4 -F -s 65536 -n "$(iterations 500)"
	equal "malformed" "$(($(counter a rx_malformed) + $(counter b rx_malformed)))" 0
	equal "ICRC errors" "$(($(counter a rx_icrc_errors) + $(counter b rx_icrc_errors)))" 0
	for h in a b; do
		sent=$(netem_of $h)
		echo "netem of host $h: bytes and drops $sent"
		# the programs exchange some kilobytes by TCP
		((${sent% *} > 200000))
	done
}

# retransmitted: prints the number of packets that both hosts have sent again
retransmitted() {
	echo $(($(counter a tx_retransmits) + $(counter b tx_retransmits)))
}

# bats test_tags=stock
@test "netem: data over sockets is correct with 2 % of the packets lost by the kernel" {
	local before drops

	before=$(retransmitted)
	netem loss 2%
	transfers
	read -r _ drops < <(netem_of b)
	((drops > 0))
	(($(retransmitted) > before))
}

@test "netem: data over sockets is correct with a delay and jitter" {
	netem delay 2ms 1ms
	transfers
}

@test "netem: data over sockets is correct with 10 % of the packets reordered" {
	netem delay 1ms reorder 10% 50%
	transfers
}

@test "netem: data over sockets is correct with 5 % of the packets duplicated" {
	netem duplicate 5%
	transfers
}

@test "netem: corrupted packets are dropped and sent again" {
	local before

	before=$(retransmitted)
	netem corrupt 2%
	both -t 90 "$BIN/rdma_verify" -g @4 -n "$(iterations 30)" -b 1048576 -t write -t send-imm -t read -t mixed
	(($(retransmitted) > before))
}

@test "netem: data over sockets is correct with loss, delay, reordering and duplicates together" {
	netem delay 1ms reorder 5% 50% loss 1% duplicate 2%
	transfers
}

@test "tbf: a token bucket limits the throughput over sockets" {
	local rate

	on a tc qdisc replace dev va root tbf rate 20mbit burst 32k limit 1mb || skip "this kernel has no tbf"
	perftest ib_read_bw -x @4 -s 65536 -n "$(iterations 100)" --report_gbits
	rate=$(awk '$1 == 65536 { print int($4 * 1000) }' "$OUT/client")
	echo "$rate Mbit/s"
	((rate > 0 && rate < 24))
}
