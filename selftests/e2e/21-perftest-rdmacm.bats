#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# perftest with connections by rdma_cm (-R), and with rdma_cm for the exchange of parameters only (-z). perftest itself
# refuses -R with UC and XRC.

load helpers
load rdmacm

@test "bandwidth tests connect by rdma_cm (-R)" {
	local program

	for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw; do
		perftest_cm $program -n $((500 / SLOW))
	done
	no_cm_ids
}

@test "latency tests connect by rdma_cm (-R)" {
	local program

	for program in ib_write_lat ib_read_lat ib_send_lat ib_atomic_lat; do
		perftest_cm $program -n $((500 / SLOW))
	done
	no_cm_ids
}

@test "UD connects by rdma_cm (-R -c UD)" {
	perftest_cm ib_send_bw -c UD -n 100
	perftest_cm ib_send_lat -c UD -n $((500 / SLOW))
	no_cm_ids
}

@test "many QPs connect by rdma_cm (-R -q)" {
	perftest_cm ib_write_bw -q 16 -n $((100 / SLOW)) -s 8192
	perftest_cm ib_send_bw -q 16 -n $((100 / SLOW)) -s 8192
	no_cm_ids
}

@test "both directions, events and type of service work with rdma_cm (-b, -e, -T)" {
	perftest_cm ib_write_bw -b -n $((500 / SLOW))
	perftest_cm ib_send_bw -e -n $((500 / SLOW))
	perftest_cm ib_send_bw -T 64 -n $((500 / SLOW))
}

@test "parameters are exchanged by rdma_cm (-z)" {
	local program

	for program in ib_{write,read,send,atomic}_{bw,lat}; do
		perftest "$program" -z -x @4 -n $((500 / SLOW))
	done
	# lost messages are not sent again: all of them fit into the queues
	perftest ib_send_bw -z -x @4 -c UC -s 4096 -n 100
	perftest ib_send_bw -z -x @4 -c UD -n 100
	no_cm_ids
}

@test "perftest connects within one host by rdma_cm (-R)" {
	both_on_a -t 40 ib_write_bw -F -R -n $((500 / SLOW))
	no_cm_ids
}

@test "without a server perftest fails" {
	local program

	for program in ib_{write,read,send,atomic}_{bw,lat}; do
		refused "Unexpected CM event" run_on b timeout 20 "$program" -R -F -n 100 -p 9999 "$A4"
	done
	refused "Unexpected CM event" run_on b timeout 20 ib_send_bw -R -c UD -F -n 100 -p 9999 "$A4"
	refused "Unexpected CM event" run_on b timeout 20 ib_write_bw -z -F -n 100 -p 9999 "$A4"
	no_cm_ids
}

@test "perftest refuses rdma_cm for UC" {
	refused "UC is not supported in librdmacm" run_on b timeout 20 ib_write_bw -R -c UC -F -p 9999 "$A4"
}
