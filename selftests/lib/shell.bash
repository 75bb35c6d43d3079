# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# What tests in shell do again and again while they wait, without starting a process: in an emulated
# machine a start takes 0.1 s of its only processor, which what is waited for would need.
#
# A status goes with each `return`: in an EXIT trap a bare one returns what the script ended with.

# nap SECONDS
nap() {
	# nothing ever comes out of a pipe whose other end is ours, too
	[[ -n ${NAP_FD:-} ]] || exec {NAP_FD}<> <(:)
	read -rt "$1" -u "$NAP_FD" || true
}

# tcp_listens PID PORT: in the network of that process, over either IP version
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

# gid_of STATUS ADDRESS: index of the GID in what `xroce status -j` said
gid_of() {
	local json=${1//[[:space:]]/}

	[[ $json =~ \"index\":([0-9]+),\"gid\":\"${2//./\\.}\" ]] && echo "${BASH_REMATCH[1]}"
}

# alive PID. A zombie is no process any more: its parent has not looked yet.
alive() {
	local stat

	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	stat=${stat##*) }
	[[ $stat != Z* ]]
}
