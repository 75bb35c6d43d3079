# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# For bats files that run `xroce capture`: `load capture` after the helpers.

# capture_on HOST ARG...: starts a capture in the background, with its output in $RUN/output; sets CAPTURE
capture_on() {
	local h=$1

	shift
	"$XROCE" -r "$RUN/$h" capture "xr$h" "$@" </dev/null >"$RUN/output" 2>"$RUN/messages" 3>&- &
	CAPTURE=$!
	captures() { [[ $(ls -l "/proc/$CAPTURE/map_files" 2>/dev/null) == *memfd:xroce-rings* ]]; }
	wait_for 10 captures
}

# Ends the capture that capture_on started, after what is on the way was captured.
capture_end() {
	sleep 0.1
	kill -INT "$CAPTURE"
	wait "$CAPTURE"
}

# packets FILE [FILTER]: prints the number of packets
packets() {
	tshark -r "$1" ${2:+-Y "$2"} 2>/dev/null | wc -l
}

# right_icrcs FILE LEAST: all packets have correct ICRCs, computed independently; at least so many kinds of them
# shellcheck disable=SC2154	# `run` sets output and lines
right_icrcs() {
	local line

	tshark -F pcap -r "$1" -Y 'frame.len == frame.cap_len' -w "$RUN/icrc.pcap" 2>/dev/null
	run "$XR_TOP/selftests/e2e/icrc.py" "$RUN/icrc.pcap"
	echo "$output"
	((${#lines[@]} >= $2))
	for line in "${lines[@]}"; do
		[[ $line == *" 0" ]]
	done
}
