#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# iSER: the target tgt on host a, the initiator libiscsi on host b, over rdma_cm and IPv4 (tgt has no IPv6 portal).

load helpers
load rdmacm

TARGET=iqn.2026-01.test:disk
INITIATOR=iqn.2026-01.test:b

# shellcheck disable=SC2034	# used by listens
PORT=3260

# MiB that are written and read, 1024 in the suite long/e2e/55-iser
MIB=${XR_ISER_MIB:-8}

setup_file() {
	requires root tgtd tgtadm iscsi-inq qemu-io
	hosts_up
	daemons_up
	export TGT_IPC_SOCKET=$RUN/tgt
}

# The next target listens on the same ports.
teardown() {
	kill -KILL "$TGTD" 2>/dev/null || true
	wait "$TGTD" 2>/dev/null || true
	no_cm_ids || true
	report_failure
}

admin() {
	tgtadm --lld iser "$@"
}

target_up() {
	rm -f "$TGT_IPC_SOCKET"*
	spawn a "$BATS_TEST_TMPDIR/tgtd" tgtd -f --iser pool_sz_mb=64 --iscsi "portal=$A4:3261"
	TGTD=$!
	wait_for 10 admin --mode target --op show || {
		cat "$BATS_TEST_TMPDIR/tgtd"
		return 1
	}
	admin --mode target --op new --tid 1 -T "$TARGET"
	admin --mode logicalunit --op new --tid 1 --lun 1 -b "$DISK"
	# over iSER tgt admits only initiators whose name and address are both permitted
	admin --mode target --op bind --tid 1 -I ALL
	admin --mode target --op bind --tid 1 -Q "$INITIATOR"
}

setup() {
	DISK=$BATS_TEST_TMPDIR/disk
	truncate -s "${MIB}M" "$DISK"
	target_up
}

# log_in CLIENT_HOST: reads the identification of the disk
log_in() {
	run_on "$1" timeout $((20 * SLOW)) iscsi-inq -i "$INITIATOR" "iser://$A4/$TARGET/1" |
		tee "$BATS_TEST_TMPDIR/out"
	grep -q 'Product:VIRTUAL-DISK' "$BATS_TEST_TMPDIR/out"
}

# copy CLIENT_HOST: writes random data to all of the disk, reads it back and compares
copy() {
	local image=$BATS_TEST_TMPDIR/image seconds=$(((MIB / 2 + 60) * SLOW)) disk

	# libiscsi 1.19 refuses commands with more than 256 KiB over iSER
	disk="driver=raw,file.driver=blkdebug,file.max-transfer=262144,file.image.driver=iscsi,file.image.transport=iser"
	disk+=",file.image.portal=$A4:3260,file.image.target=$TARGET,file.image.lun=1,file.image.initiator-name=$INITIATOR"
	head -c "${MIB}M" /dev/urandom >"$image"
	run_on "$1" timeout "$seconds" qemu-img convert -n -f raw --target-image-opts "$image" "$disk" &&
		equal "checksum" "$(sha256sum <"$DISK")" "$(sha256sum <"$image")" &&
		run_on "$1" timeout "$seconds" qemu-img compare --image-opts "driver=raw,file.filename=$image" "$disk"
}

@test "an initiator logs in to an iSER target" {
	log_in b
	log_in a
}

@test "without an iSER target an initiator fails" {
	refused "Login Failed" run_on b timeout $((20 * SLOW)) iscsi-inq -i "$INITIATOR" "iser://$A4:3999/$TARGET/1"
}

@test "an initiator writes to an iSER target and reads back, within one host" {
	copy a
}

# libiscsi gives up when nothing happens for a second. If a MAD of the connection is lost, it is sent again after 4 s.
@test "an initiator writes to an iSER target and reads back while packets are lost" {
	local h try

	for h in a b; do
		ctl "$h" fault "xr$h" drop 10 seed 3
	done
	for try in 1 2 3 4 5; do
		copy b >"$BATS_TEST_TMPDIR/out" 2>&1 && break
		cat "$BATS_TEST_TMPDIR/out"
		grep -q "revents is not POLLIN" "$BATS_TEST_TMPDIR/out"
		((try < 5))
	done
	(($(injected a) > 0))
	for h in a b; do
		ctl "$h" fault "xr$h" off
	done
}

@test "iscsi-perf reads from an iSER target" {
	run_on b timeout $((30 * SLOW)) iscsi-perf -i "$INITIATOR" -t 1 -b 64 -m 4 -x 0 "iser://$A4/$TARGET/1" |
		tee "$BATS_TEST_TMPDIR/out"
	grep -q 'finished' "$BATS_TEST_TMPDIR/out"
}

# libiscsi 1.19 ignores the end of an iSER connection, so its program is killed.
@test "an iSER target that is killed disconnects, and a new one serves the initiator" {
	local initiator before

	before=$(cm_counter b DREQ_received)
	spawn b "$BATS_TEST_TMPDIR/out" iscsi-perf -i "$INITIATOR" -t 600 -b 64 -m 4 "iser://$A4/$TARGET/1"
	initiator=$!
	wait_for 10 eval "ctl a cm -s established -j xra | grep -q tgtd"
	wait_for 10 grep -q 'iops current' "$BATS_TEST_TMPDIR/out"
	kill -KILL "$TGTD"
	wait "$TGTD" || true
	wait_for 5 eval "((\$(cm_counter b DREQ_received) > $before))"
	kill -KILL "$initiator"
	wait "$initiator" || true
	no_cm_ids
	target_up
	log_in b
}
