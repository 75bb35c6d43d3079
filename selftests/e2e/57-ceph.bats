#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A Ceph cluster that sends all its messages over RDMA (async+rdma): a monitor on host a, an OSD in memory on host b. Ceph
# exchanges the numbers of queue pairs over TCP, or connects by rdma_cm.

load helpers
load rdmacm

setup_file() {
	requires root ceph-mon ceph-osd ceph rados
	hosts_up
	daemons_up
}

# config HOST FSID TYPE: writes $RUN/HOST/ceph.conf. TYPE is ib for TCP, iwarp for rdma_cm, which works with RoCE, too. By
# default the buffers of RDMA take 4 GiB in each program.
config() {
	local h=$1 address=${1^}4 cm=false

	[[ $3 == ib ]] || cm=true
	cat >"$RUN/$h/ceph.conf" <<-END
		[global]
		fsid = $2
		monmap = $CEPH/monmap
		public_addr = ${!address}
		auth_cluster_required = none
		auth_service_required = none
		auth_client_required = none
		run_dir = $CEPH
		admin_socket = $CEPH/\$name.\$pid.asok
		keyring = $CEPH/keyring
		log_file = $CEPH/\$name.log
		debug_rocksdb = 0
		mon_cluster_log_file =
		mon_data = $CEPH/mon
		osd_data = $CEPH/osd
		osd_objectstore = memstore
		memstore_device_bytes = 2147483648
		osd_pool_default_size = 1
		mon_allow_pool_size_one = true
		osd_crush_chooseleaf_type = 0
		osd_max_object_name_len = 256
		ms_bind_msgr2 = false
		ms_type = async+rdma
		ms_async_rdma_device_name = xr$h
		ms_async_rdma_local_gid = $(gid_text "$h" "${!address}")
		ms_async_rdma_type = $3
		ms_async_rdma_cm = $cm
		ms_async_rdma_buffer_size = 65536
		ms_async_rdma_send_buffers = 512
		ms_async_rdma_receive_buffers = 2048
		ms_async_rdma_receive_queue_len = 512
	END
}

# gid_text HOST ADDRESS: prints the GID as the kernel does
gid_text() {
	run_on "$1" cat "/sys/class/infiniband/xr$1/ports/1/gids/$(gid_index "$1" "$2")"
}

# client HOST PROGRAM ARG...: a client of the cluster
client() {
	run_on "$1" timeout $((60 * SLOW)) "$2" -c "$RUN/$1/ceph.conf" "${@:3}" 2>"$BATS_TEST_TMPDIR/client" ||
		{ cat "$BATS_TEST_TMPDIR/client"; return 1; }
}

# start HOST NAME PROGRAM ARG...: starts a daemon of the cluster
start() {
	spawn "$1" "$CEPH/$2.out" "$3" -c "$RUN/$1/ceph.conf" -f "${@:4}"
	PIDS+=($!)
}

is_up() {
	client a ceph osd stat | grep -q '1 up'
}

# cluster_up TYPE. Programs know the cluster's ID from the file of the monitors. Otherwise they get it from the monitor
# behind the reply that lets them send commands, and the monitor refuses those that are sent before with "wrong fsid".
# An OSD that fetches its configuration forgets the file. What is written before the OSD is up waits for 5 s.
cluster_up() {
	local fsid=6a5bd4a1-4b1b-4a58-8a3a-7e1f9a3d0c11 osd=0b6b1c5e-3f0c-4c53-9d3a-2d1c6f1f7a42

	CEPH=$RUN/ceph PIDS=()
	rm -rf "$CEPH"
	mkdir -p "$CEPH/mon" "$CEPH/osd"
	config a $fsid "$1"
	config b $fsid "$1"
	ceph-authtool -C "$CEPH/keyring" -n mon. --gen-key
	monmaptool --create --fsid $fsid --addv m "v1:$A4:6789" "$CEPH/monmap"
	ceph-mon -c "$RUN/a/ceph.conf" --mkfs -i m --monmap "$CEPH/monmap" --keyring "$CEPH/keyring" 2>"$CEPH/mkfs"
	start a mon ceph-mon -i m
	client a ceph osd new $osd
	ceph-osd -c "$RUN/b/ceph.conf" -i 0 --mkfs --osd-uuid $osd --no-mon-config 2>>"$CEPH/mkfs"
	start b osd ceph-osd -i 0 --no-mon-config
	client a ceph osd pool create pool 8
	wait_for 10 is_up
}

# A daemon that does not end within some seconds is killed.
cluster_down() {
	local pid status=0

	kill "${PIDS[@]}"
	for pid in "${PIDS[@]}"; do
		wait_for 20 not alive "$pid" || { status=1; kill -KILL "$pid"; }
		wait "$pid" || true
	done
	PIDS=()
	return $status
}

teardown() {
	local file

	if ((${#PIDS[@]})); then
		kill -KILL "${PIDS[@]}" || true
		for file in "$CEPH"/*.{log,out}; do
			echo "the end of $file:"
			tail -n 20 "$file"
		done
	fi
	report_failure
}

# stores CLIENT_HOST: writes objects for 5 s and reads them back; rados compares the data. Then one object of 8 MiB.
stores() {
	local file=$BATS_TEST_TMPDIR/file

	client "$1" rados -p pool bench 5 write -b 4096 -t 16 --no-cleanup | tee "$file"
	(($(sed -n 's/^Total writes made: *//p' "$file") > 100))
	client "$1" rados -p pool bench 5 seq -t 16 | tee "$file"
	(($(sed -n 's/^Total reads made: *//p' "$file") > 100))
	head -c 8388608 /dev/urandom >"$file"
	client "$1" rados -p pool put object "$file"
	client "$1" rados -p pool get object "$file.copy"
	cmp "$file" "$file.copy"
}

# all_stores TYPE: a cluster, with clients on either host
all_stores() {
	cluster_up "$1"
	counter_grows a rx_packets 1000 stores a
	grows_within b 1000 stores b
	cluster_down
	nothing_of_ceph() { [[ $(objects a qps; objects a mrs; objects b qps; objects b mrs) == 0$'\n'0$'\n'0$'\n'0 ]]; }
	wait_for 10 nothing_of_ceph
}

@test "a Ceph cluster stores objects over RDMA" {
	all_stores ib
}

@test "a Ceph cluster connects by rdma_cm" {
	all_stores iwarp
	(($(cm_counter a RTU_received) > 4))
	no_cm_ids
}
