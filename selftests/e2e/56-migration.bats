#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Migration of a virtual machine by QEMU over rdma_cm. The machine has 64 MiB and does not run.

load helpers
load rdmacm

setup_file() {
	requires root qemu-system-x86_64 nc
	hosts_up
	daemons_up
}

# machine NAME HOST OPTION...: starts a virtual machine in the background with a monitor in $RUN/NAME.monitor
machine() {
	spawn "$2" "$BATS_TEST_TMPDIR/$1" timeout -k 2 $((60 * SLOW)) qemu-system-x86_64 -S -m 64 -nographic -nodefaults \
		-monitor "unix:$RUN/$1.monitor,server,nowait" "${@:3}"
	wait_for 10 test -S "$RUN/$1.monitor"
}

# monitor NAME COMMAND: prints the response of the machine's monitor
monitor() {
	{ echo "$2"; sleep 0.3; } | timeout 10 nc -N -U "$RUN/$1.monitor"
}

migration_is() { # status
	[[ $(monitor source "info migrate") == *"Migration status: $1"* ]]
}

# migrate HOST STATUS: migrates from a machine on the host to A4, and waits for the status
migrate() {
	local status=0

	machine source "$1"
	monitor source "migrate -d rdma:$A4:$PORT" >/dev/null
	wait_for 20 migration_is "$2" || status=1
	monitor source "info migrate"
	monitor source quit >/dev/null || true
	return $status
}

@test "QEMU migrates a virtual machine by rdma_cm, between hosts and within one" {
	local host status=0

	for host in b a; do
		machine target a -incoming "rdma:$A4:$PORT"
		wait_for 10 listens a "$PORT"
		migrate $host completed || status=1
		monitor target quit >/dev/null || true
		wait
		cat "$BATS_TEST_TMPDIR"/{source,target}
		rm -f "$RUN"/{source,target}.monitor
	done
	((status == 0))
	no_cm_ids
}

@test "without a target QEMU fails to migrate" {
	migrate b failed
	wait
	cat "$BATS_TEST_TMPDIR/source"
	grep -i rdma "$BATS_TEST_TMPDIR/source"
	no_cm_ids
}

# QEMU 7.2 takes this for a limit of the kernel
@test "QEMU refuses IPv6 addresses on RoCE devices" {
	refused "IPv6" run_on a timeout $((20 * SLOW)) qemu-system-x86_64 -S -m 64 -nographic -nodefaults \
		-incoming "rdma:[$A6]:$PORT"
	no_cm_ids
}
