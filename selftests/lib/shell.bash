# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Functions that shell tests call in loops while they wait. They start no processes: in an emulated machine that takes
# 0.1 s of its only processor, which the program under test needs.
#
# Each `return` has a status, because in an EXIT trap a bare `return` returns the exit status of the script.

# nap SECONDS: sleeps
nap() {
	# Reading from a pipe that this shell itself holds open for writing always times out.
	[[ -n ${NAP_FD:-} ]] || exec {NAP_FD}<> <(:)
	read -rt "$1" -u "$NAP_FD" || true
}

# tcp_listens PID PORT: succeeds if a TCP socket listens on PORT, IPv4 or IPv6, in the network namespace of process PID
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

# gid_of STATUS ADDRESS: prints the GID index of ADDRESS; STATUS is the output of `xroce status -j`
gid_of() {
	local json=${1//[[:space:]]/}

	[[ $json =~ \"index\":([0-9]+),\"gid\":\"${2//./\\.}\" ]] && echo "${BASH_REMATCH[1]}"
}

# alive PID: succeeds if the process exists and is not a zombie
alive() {
	local stat

	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	stat=${stat##*) }
	[[ $stat != Z* ]]
}
