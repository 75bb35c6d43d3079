#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What programs look for: files below /sys/class/infiniband and /sys/class/infiniband_verbs, and the `rdma` command.

load helpers

IB=/sys/class/infiniband
PORT1=$IB/xra/ports/1

# with_both PROGRAM...: runs the program on host a with the devices of both daemons
with_both() {
	LD_PRELOAD=$SANITIZER ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 on a "$XROCE" run -r "$RUN/both" "$@"
}

setup_file() {
	requires root
	hosts_up
	daemons_up
	mkdir -m 755 "$RUN/both"
	ln -s ../a/xra.sock ../b/xrb.sock "$RUN/both/"
}

# Writes 5 MiB from b to a.
transfer() {
	both -t 20 ib_write_bw -x @4 -F -n 5 -s 1048576
}

@test "ls -R lists the whole tree" {
	local out

	out=$(run_on a ls -R "$IB" "${IB}_verbs")
	echo "$out" | grep -Ev '^[0-9]+$'
	for name in node_guid fw_ver hca_type board_id node_desc state phys_state rate lid gids types ndevs pkeys \
		port_rcv_data rx_packets abi_version ibdev va; do
		grep -qx "$name" <<<"$out" || { echo "no $name"; return 1; }
	done
	[[ $(run_on a find "$IB" -type f | wc -l) -gt 300 ]]
	run_on a ls -l "$IB/xra/device/net" | grep -q 'va -> /sys/class/net/va$'
	not on a ls "$IB/xra"
}

@test "each file can be read, and none can be written" {
	run_on a find "$IB" "${IB}_verbs" -type f | while read -r f; do printf '%s\0' "$f"; done |
		LC_ALL=C xargs -0 "$XROCE" -r "$RUN/a" run grep -L . >"$BATS_TEST_TMPDIR/empty"
	[[ ! -s $BATS_TEST_TMPDIR/empty ]]
	run -1 run_on a bash -c "echo 1 >$PORT1/state"
	grep -qi "permission denied" <<<"$output"
	run -1 run_on a rm "$PORT1/state"
	run -1 run_on a mkdir "$IB/x"
	run -1 run_on a cat "$IB/none/node_guid" "$IB/xra/ports/2/state" "$PORT1/none"
	[[ $(grep -c "No such file or directory" <<<"$output") == 3 ]]
}

@test "values are those of verbs, at the time of reading" {
	local guid

	guid=$(ctl a status -j xra | jq -r .guid)
	equal "xroce list" "$(ctl a list -j | jq -r '.[0].guid')" "$guid"
	ctl a list | grep -q "^xra  *va  *$guid "
	run_on a ibv_devinfo | grep -Eq "node_guid:\s+$guid"
	equal node_guid "$(run_on a cat "$IB/xra/node_guid")" "$guid"
	equal fw_ver "$(run_on a cat "$IB/xra/fw_ver")" "$(ctl a status -j xra | jq -r .version)"
	equal state "$(run_on a cat "$PORT1/state")" "4: ACTIVE"
	on a ip link set va down
	down() { [[ $(run_on a cat "$PORT1/state") == "1: DOWN" && $(run_on a cat "$PORT1/phys_state") == "3: Disabled" ]]; }
	wait_for 10 down
	on a ip link set va up
	on a ip address add "$A6/64" dev va nodad
	up() { [[ $(run_on a cat "$PORT1/state") == "4: ACTIVE" ]]; }
	wait_for 10 up
	on a ip address add 10.77.0.9/24 dev va
	has_gid() { run_on a sh -c "cat $PORT1/gids/*" | grep -q 'ffff:0a4d:0009$'; }
	wait_for 10 has_gid
	equal "GIDs in use" "$(run_on a ls "$PORT1/gid_attrs/types" | wc -l)" "$(ctl a status -j xra | jq '.gids | length')"
	on a ip address del 10.77.0.9/24 dev va
	wait_for 10 not has_gid
}

@test "counters grow with each transfer" {
	local data packets

	data=$(run_on a cat "$PORT1/counters/port_xmit_data")
	packets=$(run_on a cat "$PORT1/hw_counters/tx_packets")
	transfer
	data=$((($(run_on a cat "$PORT1/counters/port_xmit_data") - data) * 4))
	packets=$(($(run_on a cat "$PORT1/hw_counters/tx_packets") - packets))
	equal "names" "$(run_on a ls "$PORT1/hw_counters" | sort)" "$(ctl a counters -j xra | jq -r '.transport[].name' | sort)"
	equal "NAKs" "$(run_on a sh -c "cat $PORT1/hw_counters/*_naks_*" | wc -l)" 12
	echo "$data bytes, $packets packets"
	((data + $(run_on b cat "$IB/xrb/ports/1/counters/port_xmit_data") * 4 > 5 << 20 && packets > 0))
}

@test "a running program reads current values from an open directory" {
	local pid

	cat >"$BATS_TEST_TMPDIR/reader.py" <<-'END'
		import os, sys, time
		port, run = sys.argv[1:]
		fd = os.open(port, os.O_RDONLY | os.O_DIRECTORY)
		def step(name):
		    open(run + "/" + name, "w").close()
		    end = time.time() + 60
		    while not os.path.exists(run + "/" + name + "-done") and time.time() < end:
		        time.sleep(0.02)
		def read():
		    with os.fdopen(os.open("hw_counters/tx_packets", os.O_RDONLY, dir_fd=fd)) as f:
		        return int(f.read())
		kept = os.open(port + "/hw_counters/tx_packets", os.O_RDONLY | os.O_CLOEXEC)
		copy = os.dup(kept)
		def again(fd):
		    assert os.lseek(fd, 0, os.SEEK_SET) == 0
		    return int(os.read(fd, 100))
		before = read()
		assert again(kept) == before == again(copy)
		# as perftest -W: to the start right after reading
		assert os.lseek(kept, 0, os.SEEK_SET) == 0
		step("transfer")
		assert read() > before
		assert int(os.read(kept, 100)) == read() == again(copy)
		assert not os.get_inheritable(kept)
		step("stop")
		for path in (port, "/sys/class/infiniband", "/dev/infiniband/rdma_cm"):
		    assert not os.path.exists(path), path
		try:
		    read()
		    sys.exit("still there")
		except FileNotFoundError:
		    pass
		assert again(kept) > before # the last text
		step("start")
		assert os.listdir("/sys/class/infiniband") == ["xra"]
		assert read() == 0
		print("all right")
	END
	spawn a "$BATS_TEST_TMPDIR/out" /usr/bin/python3 "$BATS_TEST_TMPDIR/reader.py" "$PORT1" "$BATS_TEST_TMPDIR"
	pid=$!
	wait_for 30 test -e "$BATS_TEST_TMPDIR/transfer"
	transfer
	touch "$BATS_TEST_TMPDIR/transfer-done"
	wait_for 30 test -e "$BATS_TEST_TMPDIR/stop"
	daemon_down a
	touch "$BATS_TEST_TMPDIR/stop-done"
	wait_for 30 test -e "$BATS_TEST_TMPDIR/start"
	daemon_up a
	touch "$BATS_TEST_TMPDIR/start-done"
	wait "$pid" || true
	cat "$BATS_TEST_TMPDIR/out"
	grep -qx "all right" "$BATS_TEST_TMPDIR/out"
}

@test "two devices, and only those that xroce run names" {
	equal devices "$(with_both ls "$IB" | xargs)" "xra xrb"
	equal uverbs "$(with_both sh -c "cat ${IB}_verbs/*/ibdev" | sort | xargs)" "xra xrb"
	equal "one device" "$(with_both "$XROCE" run -r "$RUN/both" -d xrb sh -c "echo $IB/*")" "$IB/xrb"
	equal "rdma" "$(with_both rdma link | cut -d' ' -f2 | xargs)" "xra/1 xrb/1"
	equal "rdma of one" "$(with_both rdma -j link show xrb | jq -r '.[].netdev')" vb
}

@test "an unprivileged user sees the tree if he may use the device" {
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups) group

	group=$(getent group 65534 | cut -d: -f1)
	[[ $group ]] || skip "needs a group 65534"
	run -2 run_on a "${user[@]}" ls "$IB"
	grep -q "No such file or directory" <<<"$output"
	daemon_down a
	daemon_up a --group "$group"
	equal "his devices" "$(run_on a "${user[@]}" ls "$IB")" xra
	run_on a "${user[@]}" cat "$PORT1/counters/port_rcv_data" "$PORT1/hw_counters/tx_bytes" "$PORT1/gids/0"
	daemon_down a
	daemon_up a
}

@test "devices of the kernel stay visible beside those of xroce" {
	# shellcheck disable=SC2016	# for the other shell
	run -0 run_on a unshare -m bash -c '
		mount -t tmpfs tmpfs /sys/class
		mkdir -p /sys/class/infiniband/kernel0/ports/1
		echo "1: DOWN" >/sys/class/infiniband/kernel0/ports/1/state
		cd /sys/class/infiniband
		echo *
		cat kernel0/ports/1/state xra/ports/1/state
		bash -c "echo */ports/1/state"
		cd kernel0/ports && echo * && cd ../../xra/ports && pwd && echo *'
	equal "files" "$output" "kernel0 xra
1: DOWN
4: ACTIVE
kernel0/ports/1/state xra/ports/1/state
1
$IB/xra/ports
1"
}

@test "xroce run --only hides files of the kernel's devices" {
	# shellcheck disable=SC2016	# for the other shell
	run -0 run_on a --only unshare -m bash -c '
		env -u LD_PRELOAD bash -c "
			mount -t tmpfs tmpfs /sys/class
			mkdir -p /sys/class/infiniband/kernel0 /sys/class/infiniband_verbs/uverbs0 /sys/class/net
			mount -t tmpfs tmpfs /dev
			mkdir /dev/infiniband
			touch /dev/infiniband/uverbs0 /dev/null"
		cd /sys/class/infiniband
		echo * "$(ls)" "$(ls /sys/class/infiniband)" "$(find /sys/class/infiniband -mindepth 1 -maxdepth 1)"
		for file in kernel0 ../infiniband_verbs/uverbs0 /dev/infiniband/uverbs0; do
			test -e "$file" || stat "$file" 2>/dev/null || cat "$file" 2>/dev/null || echo none
		done
		cd /sys/class/infiniband/kernel0 2>/dev/null || echo "cannot enter"
		cat xra/ports/1/state
		ls /sys/class/infiniband_verbs /dev/infiniband | grep -cx uverbs0
		echo /sys/class/*'
	equal "files" "$output" "xra xra xra /sys/class/infiniband/xra
none
none
none
cannot enter
4: ACTIVE
0
/sys/class/infiniband /sys/class/infiniband_mad /sys/class/infiniband_verbs /sys/class/net"
}

@test "xroce run --only shows no device without a daemon" {
	mkdir -p "$BATS_TEST_TMPDIR/empty"
	# shellcheck disable=SC2016	# for the other shell
	run -0 on a "$XROCE" run -r "$BATS_TEST_TMPDIR/empty" --only unshare -m bash -c '
		env -u LD_PRELOAD bash -c "
			mount -t tmpfs tmpfs /sys/class
			mkdir -p /sys/class/infiniband/kernel0 /sys/class/net"
		ls /sys/class
		ls /sys/class/infiniband || echo /sys/class/infiniband/*
		ibv_devices | tail -n +3'
	echo "$output"
	[[ $output == *$'\nnet\nls: cannot access '* && $output == *$'directory\n/sys/class/infiniband/*' ]]
}

@test "scripts with globs and cd find devices and interfaces" {
	# as ibdev2netdev of Mellanox does it
	# shellcheck disable=SC2016	# for the other shell
	run -0 run_on a bash -c '
		cd /sys/class/infiniband
		for dev in *; do
			for port in "$dev"/ports/*; do
				for net in "$dev"/device/net/*; do
					echo "$dev port ${port##*/} ==> ${net##*/} ($(cut -d" " -f2 "$port/state"))"
				done
			done
		done'
	equal mapping "$output" "xra port 1 ==> va (ACTIVE)"
	run -0 run_on a dash -c "cd $PORT1/counters && pwd && echo *data && cat ../link_layer"
	equal "cd" "$output" "$PORT1/counters
port_rcv_data port_xmit_data
Ethernet"
}

@test "python finds the files" {
	run_on a /usr/bin/python3 -c '
import glob, os
ib = "/sys/class/infiniband"
assert [(e.name, e.is_dir()) for e in os.scandir(ib)] == [("xra", True)]
assert glob.glob(ib + "/*/ports/*/state") == [ib + "/xra/ports/1/state"]
assert os.path.realpath(ib + "/xra/device/net/va") == "/sys/class/net/va"
assert {"infiniband", "infiniband_verbs", "net"} <= set(os.listdir("/sys/class"))
assert sum(len(f) for _, _, f in os.walk(ib)) > 300
'
}

@test "ibstat and ibstatus show the device" {
	requires ibstat
	run -0 run_on a ibstat
	echo "$output"
	grep -q "^CA 'xra'" <<<"$output"
	grep -q "State: Active" <<<"$output"
	grep -q "Link layer: Ethernet" <<<"$output"
	run -0 run_on a ibstatus
	echo "$output"
	grep -q "Infiniband device 'xra' port 1 status:" <<<"$output"
	grep -q "state:.*4: ACTIVE" <<<"$output"
	run -0 run_on a ibv_devinfo
	grep -q "board_id:.*xroce" <<<"$output"
}

@test "lstopo still works" {
	requires lstopo
	run_on a lstopo --of console >/dev/null
}

@test "rdma shows devices, links and resources as iproute2 does" {
	local out

	out=$(run_on a rdma link show -j)
	echo "$out"
	jq -e '.[] | select(.ifname == "xra") | .port == 1 and .state == "ACTIVE" and .physical_state == "LINK_UP" and
		.netdev == "va" and .netdev_index > 0 and .ifindex > 0' <<<"$out"
	equal link "$(run_on a rdma link show xra/1)" "link xra/1 state ACTIVE physical_state LINK_UP netdev va "
	run_on a rdma -d link | grep -q "netdev va netdev_index [0-9]"
	run_on a rdma dev | grep -Eq '^[0-9]+: xra: node_type ca protocol roce fw [0-9.]+ node_guid .* sys_image_guid '
	run_on a rdma -jp dev show xra | jq -e '.[0].node_guid | length == 19'
	run_on a rdma -d dev | grep -q 'caps: <.*XRC'
	run_on a rdma res | grep -Eq '^[0-9]+: xra: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0 $'
	[[ $(run_on a rdma -j res show qp link xra/1) == "[]" ]]
}

@test "rdma shows the resources of a running program" {
	both -t 60 ib_write_bw -x @4 -F -D 30 >/dev/null 2>&1 3>&- &
	has_qp() { [[ $(run_on a rdma -j res | jq '.[0].qp') -ge 1 ]]; }
	wait_for 20 has_qp
	run_on a rdma -j res show qp link xra/1 | tee /dev/stderr |
		jq -e '.[0] | .lqpn > 0 and .type == "RC" and .comm == "ib_write_bw" and .pid > 0'
	run_on a rdma res show mr dev xra | grep -q 'dev xra mrn .* mrlen .* comm ib_write_bw'
	for kind in cq ctx; do run_on a rdma res show "$kind" | grep -q "^dev xra ${kind}n .* comm ib_write_bw"; done
	for kind in srq cm_id; do run_on a rdma res show "$kind"; done
	equal "no such QP" "$(run_on a rdma -j res show qp lqpn 1)" "[]"
	ip netns pids "$ID-a" | xargs -r ps -o pid=,comm= -p | awk '$2 == "ib_write_bw" { print $1 }' | xargs -r kill -KILL
	wait $! || true
}

@test "rdma passes everything else to the command of iproute2" {
	local real=$BATS_TEST_TMPDIR/real

	mkdir "$real"
	cat >"$real/rdma" <<-'END'
		#!/bin/sh
		case "$*" in
		*-j*) echo '[{"ifindex":0,"port":1,"ifname":"mlx5_0","state":"DOWN"}]' ;;
		"link show"|link) echo "link mlx5_0/1 state DOWN" ;;
		*) echo "real: $*"; exit 3 ;;
		esac
	END
	chmod 755 "$real/rdma"
	equal "kernel's devices first" "$(PATH=$real:$PATH run_on a rdma -j link | jq -r '.[].ifname' | xargs)" "mlx5_0 xra"
	equal "also as text" "$(PATH=$real:$PATH run_on a rdma link | cut -d' ' -f2 | xargs)" "mlx5_0/1 xra/1"
	PATH=$real:$PATH run -3 run_on a rdma link add rxe0 type rxe netdev va
	equal add "$output" "real: link add rxe0 type rxe netdev va"
	PATH=$real:$PATH run -3 run_on a rdma dev show mlx5_0
	equal other "$output" "real: dev show mlx5_0"
	PATH=$real:$PATH run -3 run_on a rdma resource show pd
	equal kind "$output" "real: resource show pd"
	run -127 run_on a env PATH="${XROCE%/*}/programs" rdma system
	equal "no real command" "$(run_on a env PATH="${XROCE%/*}/programs" rdma link | cut -d' ' -f2)" xra/1
}
