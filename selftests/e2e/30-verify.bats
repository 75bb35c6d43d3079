#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rdma_verify: transfers patterns by every operation and checks every byte and every completion.

load helpers

data=(-t write -t write-imm -t send -t send-imm -t read -t zero -t mixed -t pipeline -t atomic -t sizes -t reuse)

# verify ARG...
verify() {
	both -t 60 "$BIN/rdma_verify" -n "$(iterations 20)" -g @4 "$@"
}

@test "every operation delivers correct data with the largest path MTU" {
	verify "${data[@]}" -m "$PMTU"
}

@test "every operation delivers correct data with path MTU 1024" {
	verify "${data[@]}" -m 1024 -s 2
}

@test "every operation delivers correct data with path MTU 256" {
	verify "${data[@]}" -m 256 -n "$(iterations 8)" -s 3
}

@test "every operation delivers correct data over IPv6" {
	verify -g @6 "${data[@]}" -m 2048 -s 4
}

@test "SENDs retry for late receives and fail for missing receives and destroyed QPs" {
	verify -t rnr -t rnr-limit -t destroyed
}

@test "FLUSH completes after earlier WRITEs, and is refused without access rights" {
	both "$BIN/rdma_flush" -g @4
}

@test "a QP rate limit is enforced" {
	verify -t rate -m "$PMTU"
	verify -t rate -m 256
}

@test "four rdma_verify pairs run at the same time" {
	local i pids=() status=0

	for i in 1 2 3 4; do
		PORT=$((18600 + i)) verify -t mixed -t atomic -t pipeline -n "$(iterations 15)" -m "$PMTU" -s $((10 + i)) &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || status=$?
	done
	((status == 0))
}
