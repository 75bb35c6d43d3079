#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UCX of the distribution over RC and UD. Both hosts name the device xra, because ucx_perftest sends the device name
# to the peer. It does not verify payload; it ends when every message has arrived. ucx_perftest does not use rdma_cm;
# UCX's examples ucp_client_server and io_demo do.

load helpers

EXAMPLE=/usr/share/doc/libucx-dev/examples/ucp_client_server.c

setup_file() {
	requires root ucx_perftest ucx_info
	hosts_up
	mkdir "$RUN/bpf/b"
	daemon_up a
	daemon_up b --name xra --bpffs "$RUN/bpf/b"
	export UCX_NET_DEVICES=xra:1 UCX_LOG_LEVEL=warn
}

# Prints the packets received by host b.
received() {
	ctl b counters -j xra | jq -er '.transport[] | select(.name == "rx_packets").value'
}

# perf OPTION...: runs ucx_perftest on both hosts; host b must receive at least 10 packets on the device, ACKs included
perf() {
	local before after

	before=$(received)
	pair ucx_perftest "$@" -n 100 -w 10 -p "$PORT" -- ucx_perftest "$@" -n 100 -w 10 -p "$PORT" "$A4"
	after=$(received)
	((after - before >= 10)) || {
		echo "ucx_perftest $*: $((after - before)) packets at b"
		return 1
	}
	if grep -E 'ERROR|WARN' "$OUT/server" "$OUT/client"; then
		return 1
	fi
}

@test "UCX finds the device and the index of its RoCE v2 GID" {
	run_on a env UCX_LOG_LEVEL=debug ucx_info -d >"$BATS_TEST_TMPDIR/info"
	grep -q "Transport: rc_verbs" "$BATS_TEST_TMPDIR/info"
	grep -q "Transport: ud_verbs" "$BATS_TEST_TMPDIR/info"
	grep -q "xra:1 using gid_index $(gid_index a "$A4")" "$BATS_TEST_TMPDIR/info"
}

@test "UCX rc_verbs transfers active messages: short, bcopy and zcopy" {
	perf -d xra:1 -x rc_verbs -t am_lat -D short -s 8
	perf -d xra:1 -x rc_verbs -t am_lat -D bcopy -s 1024
	perf -d xra:1 -x rc_verbs -t am_bw -D zcopy -s 4096
}

@test "UCX rc_verbs runs put and get" {
	perf -d xra:1 -x rc_verbs -t put_lat -D short -s 8
	perf -d xra:1 -x rc_verbs -t put_bw -D zcopy -s 65536
	perf -d xra:1 -x rc_verbs -t get -D bcopy -s 1024
	perf -d xra:1 -x rc_verbs -t get -D zcopy -s 65536
}

@test "UCX rc_verbs runs atomics" {
	perf -d xra:1 -x rc_verbs -t fadd -D short -s 8
	perf -d xra:1 -x rc_verbs -t cswap -D short -s 8
}

@test "UCX tag matching and streams work over rc_verbs with ud_verbs wireup" {
	local -x UCX_TLS=rc_verbs,ud_verbs:aux

	perf -t tag_lat -s 8
	perf -t tag_bw -s 65536
	perf -t stream_lat -s 1024
}

@test "UCP remote memory access works over rc_verbs" {
	local -x UCX_TLS=rc_verbs,ud_verbs:aux

	perf -t ucp_put_lat -s 4096
	perf -t ucp_get -s 4096
	perf -t ucp_fadd -s 8
}

@test "UCX ud_verbs transfers active messages" {
	perf -d xra:1 -x ud_verbs -t am_lat -D short -s 8
	perf -d xra:1 -x ud_verbs -t am_bw -D zcopy -s 2000
}

@test "UCX tag matching works over ud_verbs" {
	local -x UCX_TLS=ud_verbs

	perf -t tag_lat -s 8
	perf -t tag_bw -s 65536
}

# UCX arms a CQ and does not poll it again before it waits.
@test "UCX sleeps until messages arrive" {
	local -x UCX_TLS

	perf -d xra:1 -x rc_verbs -t am_lat -D short -s 8 -E sleep
	perf -d xra:1 -x ud_verbs -t am_lat -D short -s 8 -E sleep
	for UCX_TLS in rc_verbs,ud_verbs:aux ud_verbs; do
		perf -t tag_lat -s 8 -E sleep
		perf -t tag_bw -s 65536 -E sleep
	done
}

@test "UCX ud_verbs works over IPv6" {
	local -x UCX_IB_GID_INDEX

	UCX_IB_GID_INDEX=$(gid_index a "$A6")
	perf -d xra:1 -x ud_verbs -t am_lat -D bcopy -s 1024
}

# by_rdma_cm CLIENT_HOST SERVER... -- CLIENT...: starts a server, waits for its listener of rdma_cm, and runs the client,
# which has to succeed. Then it ends the server, unless that has ended because the client closed the connection first.
by_rdma_cm() {
	local -x UCX_SOCKADDR_TLS_PRIORITY=rdmacm
	local log=$BATS_TEST_TMPDIR/server h=$1 server=() pid status=0

	shift
	while [[ $1 != -- ]]; do
		server+=("$1")
		shift
	done
	shift
	spawn a "$log" "${server[@]}"
	pid=$!
	cm_listens() { ctl a cm -l -j xra | jq -e "any(.[]; .pid == $pid)"; }
	wait_for 10 cm_listens || status=1
	run_on "$h" timeout $((20 * SLOW)) "$@" 2>&1 | tee "$BATS_TEST_TMPDIR/client" || status=1
	kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" || true
	((status == 0)) || cat "$log"
	return "$status"
}

@test "UCX connects by address with rdma_cm" {
	local program=$BATS_TEST_TMPDIR/ucp_client_server api h

	[[ -r $EXAMPLE ]] || skip "needs the Debian package libucx-dev"
	gcc -w -o "$program" "$EXAMPLE" -lucp -lucs
	for api in stream tag am; do
		UCX_TLS=rc_verbs,self by_rdma_cm b "$program" -l "$A4" -p 18600 -c $api -- \
			"$program" -a "$A4" -p 18600 -c $api
		grep -q ABCDEFGHIJKLMNO "$BATS_TEST_TMPDIR/client"
	done
	UCX_TLS=ud_verbs,self by_rdma_cm b "$program" -l "$A4" -p 18600 -- "$program" -a "$A4" -p 18600
	for h in a b; do
		UCX_TLS=rc_verbs,self by_rdma_cm $h "$program" -6 -l "$A6" -p 18600 -- "$program" -6 -a "$A6" -p 18600
	done
}

@test "io_demo of UCX connects with rdma_cm and verifies its data" {
	UCX_TLS=rc_verbs,self by_rdma_cm b io_demo -p 18600 -- io_demo -p 18600 -i "$(iterations 200)" -q "$A4"
	grep -q "exit with status 'OK'" "$BATS_TEST_TMPDIR/client"
}

@test "UCX is refused by rdma_cm without a server" {
	local -x UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_TLS=rc_verbs,self

	run run_on b timeout $((20 * SLOW)) io_demo -p 18600 -i 1 -c 1 "$A4"
	echo "$output"
	[[ $status != 0 && $status != 124 && $output == *"detected error: Connection reset by remote peer"* ]]
}
