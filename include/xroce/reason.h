/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why a packet went where it went: one list for the XDP verdict, the index of
 * the per-CPU counter and the text that operators read.
 *
 * X(NAME, action, "text")
 *
 * action is what the XDP program does with such a packet:
 *   PASS      not ours: the kernel's stack gets it, untouched
 *   REDIRECT  to the AF_XDP socket of the receive queue, for the daemon
 *   ANSWER    as REDIRECT, but the standard wants a NAK for it: the reason
 *             travels in the metadata (tables.h) and the rate is limited;
 *             the daemon's own check decides what is answered
 *   DROP      can never be valid: dropped in the kernel
 *
 * The order is ABI between the XDP program, the daemon and the tools built
 * from one tree; append before XR_REASON_COUNT only.
 */
#ifndef XROCE_REASON_H
#define XROCE_REASON_H

#define XR_REASONS(X)                                                                              \
	/* not RoCEv2 for one of our addresses */                                                  \
	X(NOT_IP, PASS, "neither IPv4 nor IPv6")                                                   \
	X(NOT_UDP, PASS, "IP, but not UDP")                                                        \
	X(NOT_ROCE_PORT, PASS, "UDP, but not to port 4791")                                        \
	X(NOT_OUR_ADDR, PASS, "destination is no GID of this device")                              \
	X(TRUNC_ETH, PASS, "Ethernet or VLAN header truncated")                                    \
	X(TRUNC_IP, PASS, "IP header truncated")                                                   \
	X(TRUNC_UDP, PASS, "UDP header truncated")                                                 \
	X(VLAN_DEPTH, PASS, "more than two VLAN tags")                                             \
	X(IP_OPTIONS, PASS, "IPv4 options")                                                        \
	X(IP_FRAGMENT, PASS, "IPv4 fragment")                                                      \
	X(IP_VERSION, PASS, "IP version does not match the ethertype")                             \
	/* RoCEv2 for us, and well-formed enough for the daemon */                                 \
	X(OK, REDIRECT, "valid")                                                                   \
	/* malformed */                                                                            \
	X(IP_LEN, DROP, "IP length does not fit the packet")                                       \
	X(UDP_LEN, DROP, "UDP length does not fit the IP length")                                  \
	X(TRUNC_BTH, DROP, "base transport header truncated")                                      \
	X(BTH_VERSION, DROP, "transport header version is not 0")                                  \
	X(BAD_OPCODE, DROP, "opcode is unknown")                                                   \
	X(TRUNC_EXT, DROP, "extended transport header truncated")                                  \
	X(TRUNC_ICRC, DROP, "no room for pad and ICRC")                                            \
	X(BAD_LENGTH, DROP, "payload length is impossible for the opcode")                         \
	X(BAD_PAD, DROP, "pad count does not fit the opcode")                                      \
	/* does not fit the queue pair */                                                          \
	X(PKEY, DROP, "P_Key does not match")                                                      \
	X(NO_QP, DROP, "destination QP does not exist")                                            \
	X(QP_STATE, DROP, "destination QP's state does not receive")                               \
	X(QP_TYPE, DROP, "opcode does not fit the QP's type")                                      \
	X(WRONG_PEER, DROP, "source address is not the QP's peer")                                 \
	X(WRONG_DEST, DROP, "destination address is not the QP's own")                             \
	X(QKEY, DROP, "Q_Key does not match")                                                      \
	X(PSN_WINDOW, DROP, "PSN is outside of the sane window")                                   \
	X(PAYLOAD_MTU, ANSWER, "payload does not fit the path MTU")                                \
	/* R_Key checks: answered with a NAK on reliable connections */                            \
	X(KEY_INDEX, ANSWER, "R_Key: no such index")                                               \
	X(KEY_VARIANT, ANSWER, "R_Key: variant is stale")                                          \
	X(KEY_STATE, ANSWER, "R_Key: not valid for remote use")                                    \
	X(KEY_PD, ANSWER, "R_Key: other protection domain")                                        \
	X(KEY_ACCESS, ANSWER, "R_Key: access flags forbid it")                                     \
	X(KEY_RANGE, ANSWER, "R_Key: address range outside of region")                             \
	X(ATOMIC_ALIGN, ANSWER, "atomic address is not 8-byte aligned")                            \
	/* not the packet's fault */                                                               \
	X(RATE_LIMIT, DROP, "too many packets that want a NAK")                                    \
	X(NO_SOCKET, DROP, "no AF_XDP socket on this receive queue")                               \
	X(NO_METADATA, DROP, "driver gives no room for metadata")                                  \
	/* counted by the daemon, not by XDP */                                                    \
	X(ICRC, DROP, "ICRC is wrong")                                                             \
	X(TOO_LONG, DROP, "longer than the daemon can receive")

enum xr_reason {
#define X(name, action, text) XR_##name,
	XR_REASONS(X)
#undef X
		XR_REASON_COUNT
};

enum xr_action {
	XR_ACT_PASS,
	XR_ACT_REDIRECT,
	XR_ACT_ANSWER,
	XR_ACT_DROP,
};

#endif /* XROCE_REASON_H */
