#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# iSER: the target tgt on host a, the initiator libiscsi on host b, over rdma_cm and IPv4 (tgt has no IPv6 portal).

load helpers
load rdmacm

TARGET=iqn.2026-01.test:disk
INITIATOR=iqn.2026-01.test:b

# shellcheck disable=SC2034	# used by listens
PORT=3260

setup_file() {
	requires root tgtd tgtadm iscsi-inq qemu-io
	hosts_up
	daemons_up
	export TGT_IPC_SOCKET=$RUN/tgt
}

teardown() {
	kill -KILL "$TGTD" 2>/dev/null || true
	report_failure
}

admin() {
	tgtadm --lld iser "$@"
}

setup() {
	truncate -s 64M "$RUN/disk"
	rm -f "$TGT_IPC_SOCKET"*
	spawn a "$BATS_TEST_TMPDIR/tgtd" tgtd -f --iser pool_sz_mb=64 --iscsi "portal=$A4:3261"
	TGTD=$!
	wait_for 10 admin --mode target --op show
	admin --mode target --op new --tid 1 -T "$TARGET"
	admin --mode logicalunit --op new --tid 1 --lun 1 -b "$RUN/disk"
	# over iSER tgt admits only initiators whose name and address are both permitted
	admin --mode target --op bind --tid 1 -I ALL
	admin --mode target --op bind --tid 1 -Q "$INITIATOR"
}

@test "an initiator logs in to an iSER target" {
	run_on b timeout $((20 * SLOW)) iscsi-inq -i "$INITIATOR" "iser://$A4/$TARGET/1" | tee "$BATS_TEST_TMPDIR/out"
	grep -q 'Product:VIRTUAL-DISK' "$BATS_TEST_TMPDIR/out"
}

@test "an initiator writes to an iSER target and reads back" {
	local commands=() i disk="file.portal=$A4:3260,file.target=$TARGET,file.lun=1,file.initiator-name=$INITIATOR"

	for ((i = 0; i < 64; i++)); do
		commands+=(-c "write -P $((i + 1)) $((i * 64))k 64k" -c "read -P $((i + 1)) $((i * 64))k 64k")
	done
	run_on b timeout $((60 * SLOW)) qemu-io --image-opts "${commands[@]}" \
		"driver=raw,file.driver=iscsi,file.transport=iser,$disk" \
		>"$BATS_TEST_TMPDIR/out" 2>&1 || { tail -n 5 "$BATS_TEST_TMPDIR/out"; return 1; }
	not grep -i 'failed\|error' "$BATS_TEST_TMPDIR/out"
	equal "last byte" "$(od -An -tu1 -j $((64 * 65536 - 1)) -N 1 "$RUN/disk" | tr -d ' ')" 64
}
