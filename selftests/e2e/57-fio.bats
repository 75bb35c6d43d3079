#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# fio's engine rdma, which connects by rdma_cm over IPv4. Its SENDs fail when the peer has posted no receives in time,
# because it permits no RNR retries; so only its WRITEs and READs are tested.

load helpers
load rdmacm

setup_file() {
	requires root fio
	hosts_up
	daemons_up
}

# fio_rdma CLIENT_HOST VERB: transfers 16 MiB
fio_rdma() {
	local common=(--ioengine=rdma --port="$PORT" --bs=64k --size=16m --iodepth=8)

	no_cm_ids
	pair -t 30 -c "$1" fio "${common[@]}" --name=target --rw=read -- \
		fio "${common[@]}" --name=source --rw=write --hostname="$A4" --verb="$2"
	grep -Eq 'io=16.0MiB' "$OUT/client"
	grep -Eq 'err= 0' "$OUT/client"
	grep -Eq 'err= 0' "$OUT/server"
}

@test "fio writes and reads by rdma_cm" {
	fio_rdma b write
	fio_rdma b read
}

@test "fio connects by rdma_cm within one host" {
	fio_rdma a write
	fio_rdma a read
}

@test "fio is rejected by rdma_cm without a server" {
	run run_on b timeout $((20 * SLOW)) fio --ioengine=rdma --port=9999 --hostname="$A4" --verb=write --name=source \
		--rw=write --bs=64k --size=1m
	echo "$output"
	[[ $output == *RDMA_CM_EVENT_REJECTED* ]]
	no_cm_ids
}
