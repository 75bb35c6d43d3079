# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Functions for shell tests that wait for something. None of them starts a process: in an emulated machine
# starting a process takes 0.1 s of the only processor, which the program under test needs.
#
# Every `return` has an explicit status: in an EXIT trap a bare `return` gives the status that the script
# ended with.

SLOW=${XR_SLOW:-1}	# slowdown of an emulated machine: multiplies time limits, divides repetitions
POLL=0.02		# seconds between two attempts of wait_for
PATIENCE=20		# shortest time limit of wait_for in seconds: a busy machine may stand still for some of them

# nap SECONDS: sleeps
nap() {
	# a pipe whose write end this shell holds open never becomes readable
	[[ -n ${NAP_FD:-} ]] || exec {NAP_FD}<> <(:)
	read -rt "$1" -u "$NAP_FD" || true
}

# wait_for SECONDS COMMAND...: repeats the command until it succeeds; fails after SECONDS * SLOW, but not before PATIENCE
wait_for() {
	local deadline=$((SECONDS + ($1 > PATIENCE ? $1 : PATIENCE) * SLOW))

	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS <= deadline)) || return 1
		nap "$POLL"
	done
}

# tcp_listens PID PORT: whether that port listens in the network namespace of PID, IPv4 or IPv6
tcp_listens() {
	local hex file lines

	printf -v hex '%04X' "$2"
	for file in /proc/"$1"/net/tcp /proc/"$1"/net/tcp6; do
		mapfile -t lines <"$file" || return 1
		# local address and port, remote address and port 0, state LISTEN
		[[ ${lines[*]} =~ :$hex\ [0-9A-F]+:0000\ 0A\  ]] && return 0
	done
	return 1
}

# gid_of STATUS ADDRESS: prints the index of the GID in the output of `xroce status -j`: the last one, as index 0 may be
# a second index of the same GID
gid_of() {
	local json=${1//[[:space:]]/}

	[[ $json =~ .*\"index\":([0-9]+),\"gid\":\"${2//./\\.}\" ]] && echo "${BASH_REMATCH[1]}"
}

# alive PID: whether the process exists and is not a zombie
alive() {
	local stat

	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	stat=${stat##*) }
	[[ $stat != Z* ]]
}
