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

# machine HOST OPTION...: starts a virtual machine in the background with a monitor in $RUN/HOST.monitor
machine() {
	spawn "$1" "$BATS_TEST_TMPDIR/$1" timeout -k 2 $((60 * SLOW)) qemu-system-x86_64 -S -m 64 -nographic -nodefaults \
		-monitor "unix:$RUN/$1.monitor,server,nowait" "${@:2}"
	wait_for 10 test -S "$RUN/$1.monitor"
}

# monitor HOST COMMAND: prints the response of the machine's monitor
monitor() {
	{ echo "$2"; sleep 0.3; } | timeout 10 nc -N -U "$RUN/$1.monitor"
}

migrated() {
	[[ $(monitor b "info migrate") == *"Migration status: completed"* ]]
}

@test "QEMU migrates a virtual machine by rdma_cm" {
	local status=0

	machine a -incoming "rdma:$A4:$PORT"
	wait_for 10 listens a "$PORT"
	machine b
	monitor b "migrate -d rdma:$A4:$PORT" >/dev/null
	wait_for 20 migrated || status=1
	monitor b "info migrate"
	monitor a quit >/dev/null || true
	monitor b quit >/dev/null || true
	wait
	cat "$BATS_TEST_TMPDIR"/{a,b}
	((status == 0))
	no_cm_ids
}

# QEMU 7.2 takes this for a limit of the kernel
@test "QEMU refuses IPv6 addresses on RoCE devices" {
	refused "IPv6" run_on a timeout $((20 * SLOW)) qemu-system-x86_64 -S -m 64 -nographic -nodefaults \
		-incoming "rdma:[$A6]:$PORT"
	no_cm_ids
}
