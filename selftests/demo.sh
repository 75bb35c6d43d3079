#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs unmodified RDMA programs between two hosts (network namespaces) and shows the counters and tables that an
# administrator can watch. Every step must succeed. Everything is removed at the end, also after an error or a signal.
#
# As root, the daemons use XDP first, which shows BPF maps, and UDP sockets at the end, which they take by themselves here. A user
# other than root gets the hosts in a user namespace. Packets pass through UDP sockets there, and what XDP shows is left out.

set -euo pipefail
cd "$(dirname "$0")/.."
export XR_BUILD=${XR_BUILD:-$PWD/build}
if ((EUID)); then
	# shellcheck disable=SC2016
	exec unshare --user --map-root-user --mount --net -- bash -c 'mount -t tmpfs tmpfs /run && exec "$0"' \
		"$PWD/selftests/demo.sh"
fi
# shellcheck source=lib/hosts.bash
source selftests/lib/hosts.bash
[[ $DAEMON_USER ]] || export XR_IO=socket

unset "${!BATS_@}"		# hosts.bash uses these; a test that runs the demo has hosts of its own
exec {screen}>&1 {errors}>&2
step=start
signalled=0	# status to exit with
background=	# PID of the programs that run while others are shown

# Ends all processes on the hosts except the daemons.
programs_end() {
	local h

	for h in a b; do
		ip netns pids "$ID-$h"
	done 2>/dev/null | xargs -r ps -o pid=,args= -p | awk -v daemon="$XROCED" '$2 != daemon { print $1 }' |
		xargs -r kill -KILL 2>/dev/null || true		# one may have just ended
}

background_end() {
	programs_end
	# Without a PID, bash sometimes waits for the daemons as well, which are not jobs of the shell.
	[[ -z $background ]] || wait "$background" 2>/dev/null || true
	background=
}

finish() {
	local status=$?

	((signalled == 0)) || status=$signalled
	trap - EXIT TERM HUP
	trap '' INT
	# A signal may arrive while stdout or stderr is redirected.
	exec 1>&"$screen"
	exec 2>&"$errors"
	background_end
	hosts_down || { ((status)) || status=1; }
	if ((status)); then
		echo "demo: failed at: $step" >&2
	fi
	exit "$status"
}
trap finish EXIT

# Makes the present step fail. Bash can lose a process that it waits for if a trap exits, and then ends without running
# finish.
interrupt() {
	signalled=$1
	programs_end
}
trap 'interrupt 130' INT
trap 'interrupt 143' TERM HUP

exit_if_signalled() {
	((signalled == 0)) || exit "$signalled"
}

heading() {
	exit_if_signalled
	step=$1
	if [[ -t 1 ]]; then
		printf '\n\033[1m== %s\033[0m\n' "$1"
	else
		printf '\n== %s\n' "$1"
	fi
}

# Prints the header and the results of a perftest client.
figures() {
	grep -E '^ *#bytes|^ *[0-9]+ +[0-9]+ +[0-9.]+' "$OUT/client" | sed 's/^ */  /'
}

verdicts() {
	ctl a counters --all xra | awk '/^ *(OK|KEY_VARIANT) / || (/^ *name / && !n++)'
}

connected() {
	exit_if_signalled
	ctl a qp -j xra | jq -e 'any(.[]; .state == "RTS" or .state == "RTR")'
}

way_of_packets() {
	ctl a status -j xra | jq -r '"  way of packets: \(.io) (\(.io_why))",
		if .xdp then "  XDP: \(.xdp.mode) (\(.xdp.why))" else empty end'
}

heading "two hosts: network namespaces connected by a veth pair, MTU $MTU; xroced in each"
hosts_up
daemons_up
for h in a b; do
	ctl "$h" list | sed 's/^/  /'
done
way_of_packets

heading "ibv_devinfo on both hosts"
for h in a b; do
	run_on "$h" ibv_devinfo -v |
		grep -E 'hca_id|state|mtu|link_layer|GID' | sed 's/^/  /'
done

heading "ibv_rc_pingpong, which compares every byte"
both ibv_rc_pingpong -g @4 -c -n $((1000 / SLOW)) -s 4096 -m "$PMTU"
tail -n 2 "$OUT/client" | sed 's/^/  /'

heading "ib_write_bw, 64 KiB"
both -t 40 ib_write_bw -x @4 -F -n $((5000 / SLOW)) --report_gbits
figures
heading "ib_read_bw, 64 KiB"
both -t 40 ib_read_bw -x @4 -F -n $((5000 / SLOW)) --report_gbits
figures
heading "ib_send_lat, 8 bytes (microseconds)"
both -t 40 ib_send_lat -x @4 -F -s 8 -n $((5000 / SLOW))
figures

if [[ $DAEMON_USER ]]; then
	heading "BPF maps of host a while ib_write_bw runs"
else
	heading "queue pairs and regions of host a while ib_write_bw runs"
fi
both -t 30 ib_write_bw -x @4 -F -D $((20 * SLOW)) >/dev/null 2>&1 &
background=$!
wait_for 10 connected
[[ $DAEMON_USER ]] || { ctl a qp; ctl a mr; } | sed 's/^/  /'
for map in ${DAEMON_USER:+keys qps}; do
	echo "  bpftool map dump pinned $RUN/bpf/xroce/xra/$map"
	bpftool map dump pinned "$RUN/bpf/xroce/xra/$map" >"$RUN/dump"
	grep -q '"state"' "$RUN/dump"
	head -n 45 "$RUN/dump" | sed 's/^/  /'
done
background_end

heading "a forged R_Key is refused: counters of host a before and after"
before=$(counter a KEY_VARIANT)
verdicts
both "$XR_BUILD/selftests/e2e/rdma_verify" -g @4 -t wrong-variant
sed 's/^/  /' "$OUT/client"
verdicts
(($(counter a KEY_VARIANT) > before))

if [[ $DAEMON_USER ]]; then
	heading "the way that xroced takes here by itself"
	daemon_down a
	daemon_down b
	XR_IO=auto daemons_up
	way_of_packets
fi

heading "ib_send_lat, 8 bytes (microseconds), by programs that run the transport themselves"
export XROCE_PATH=auto
XROCE_DEBUG=1 run_on a ibv_devinfo -d xra 2>&1 | grep -o 'xra: direct: .*' | sed 's/^/  /'
both -t 40 ib_send_lat -x @4 -F -s 8 -n $((5000 / SLOW))
figures

heading "stop: nothing is left"
hosts_down
echo
echo "demo: all steps succeeded"
