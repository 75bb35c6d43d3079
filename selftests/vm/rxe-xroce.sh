# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# To be sourced inside a guest: Linux Soft-RoCE on one end of a veth pair, xroce on the other.
#
#      initial namespace                          namespace b
#   rxea (rdma_rxe) on va --------- veth --------- vb: xroced, device xr_vb
#   10.9.0.1 fd09::1                              10.9.0.2 fd09::2
#
# XR_IO=socket: xroced with UDP sockets
# XR_PATH=direct: the same, and device contexts of xroce are direct ones (docs/direct.md)
source selftests/lib/shell.bash
build=${XR_BUILD:-$PWD/build}
work=$(mktemp -d)
MTU=${MTU:-3506}	# the maximum for native XDP on veth without multi-buffer
count=0 failures=0
export XROCE_PATH=${XR_PATH:-daemon}
if [[ -n ${XR_PATH-} ]]; then
	export XR_IO=${XR_IO:-socket}
fi

setup() {
	modprobe -a veth rdma_rxe ib_uverbs || return 1
	ip netns add b
	ip link add va mtu "$MTU" type veth peer name vb mtu "$MTU" netns b || return 1
	ip addr add 10.9.0.1/24 dev va
	ip addr add fd09::1/64 dev va nodad
	ip -n b addr add 10.9.0.2/24 dev vb
	ip -n b addr add fd09::2/64 dev vb nodad
	ip link set va up
	ip -n b link set vb up
	ip -n b link set lo up
	sysctl -qw net.core.netdev_max_backlog=20000
	sleep 2		# until the interfaces have link-local addresses, so that GID tables do not change later
	rdma link add rxea type rxe netdev va || return 1
	start_xroced
}

serves_or_ended() {
	! alive "$daemon" || { [[ -S /run/xroce/xr_vb.sock ]] && "$build/xroce" status xr_vb; }
}

start_xroced() {
	nsenter --net=/run/netns/b "$build/xroced" --io "${XR_IO:-xdp}" --interface vb --name xr_vb --spin-us 0 --max-mr 65536 \
		>"$work/xroced.log" 2>&1 &
	daemon=$!
	POLL=0.1 wait_for 30 serves_or_ended && alive $daemon && return 0
	sed 's/^/# /' "$work/xroced.log"
	return 1
}

# kernel_since MAJOR.MINOR: whether the kernel, and so rdma_rxe, is of this version or a later one
kernel_since() {
	local release

	read -r release </proc/sys/kernel/osrelease
	[[ $release =~ ^([0-9]+)\.([0-9]+) ]]
	((BASH_REMATCH[1] > ${1%.*} || BASH_REMATCH[1] == ${1%.*} && BASH_REMATCH[2] >= ${1#*.}))
}

gid_index() { # device, text of the GID
	if [[ $1 == rxea ]]; then
		grep -l "$2" /sys/class/infiniband/rxea/ports/1/gids/* | head -1 | sed 's|.*/||'
	else
		gid_of "$("$build/xroce" status -j xr_vb)" "$2"
	fi
}

# spawn_on STACK OUTPUT PROGRAM...: starts a program; `spawned` is its PID
spawn_on() {
	if [[ $1 == rxe ]]; then
		"${@:3}" >"$2" 2>&1 &
	else
		nsenter --net=/run/netns/b "$build/xroce" run "${@:3}" >"$2" 2>&1 &
	fi
	# shellcheck disable=SC2034	# used by the scripts that source this file
	spawned=$!
}

on() { # stack program...
	if [[ $1 == rxe ]]; then
		"${@:2}"
	else
		nsenter --net=/run/netns/b "$build/xroce" run "${@:2}"
	fi
}

dev() { [[ $1 == rxe ]] && echo rxea || echo xr_vb; }
ip_of() { # stack [address-family]
	local host=2

	[[ $1 == rxe ]] && host=1
	[[ ${2:-4} == 6 ]] && echo fd09::$host || echo 10.9.0.$host
}

result() { # status description log...
	((count++))
	if [[ $1 == 0 ]]; then
		echo "ok $count - $2"
		return
	fi
	((failures++))
	echo "not ok $count - $2"
	shift 2
	tail -n 12 "$@" 2>/dev/null | sed 's/^/# /'
}

skipped() { # description reason
	((count++))
	echo "ok $count - $1 # SKIP $2"
}

# With XROCE_PATH=direct a device that cannot be opened directly is not opened, so this holds for all rows.
rows_path() {
	XROCE_DEBUG=1 on xroce ibv_devinfo -d xr_vb >"$work/path" 2>&1
	if [[ ${XR_PATH-} == direct ]]; then
		grep -q "xr_vb: direct: the transport runs in this process" "$work/path"
		result $? "programs run the transport themselves" "$work/path"
	else
		! grep -q "direct: the transport runs in this process" "$work/path"
		result $? "the daemon runs the transport" "$work/path"
	fi
}
