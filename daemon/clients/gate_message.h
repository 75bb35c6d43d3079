/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages from the gate to the daemon, which sends one byte for each request to receive. */
#ifndef XD_GATE_MESSAGE_H
#define XD_GATE_MESSAGE_H

#include <stdint.h>

#include <xroce/control.h>

struct xd_gate_message {
	int32_t length; /* of data; 0: the connection is closed; negative: errno */
	uint8_t data[XR_MSG_MAX];
};

#endif /* XD_GATE_MESSAGE_H */
