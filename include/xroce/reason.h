/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reasons for the treatment of a received packet: one list for the verdict of the XDP program,
 * the indices of its counters and the texts that operators read (`xroce counters`).
 *
 * X(NAME, action, "text"), in the order of the checks. The first check that fails gives the reason.
 * The numbers are the same only within one build: insert a reason where its check is made.
 *
 * The action is what the XDP program does with the packet:
 *   PASS      leave it to the kernel's network stack, unchanged
 *   REDIRECT  hand it to the daemon, through the AF_XDP socket of its RX queue
 *   ANSWER    redirect it with the reason in its metadata (tables.h), because the standard requires
 *             a NAK. The rate is limited. The daemon repeats the check and decides on the response
 *   DROP      drop it
 */
#ifndef XROCE_REASON_H
#define XROCE_REASON_H

#define XR_REASONS(X)                                                                              \
	X(OK, REDIRECT, "valid")                                                                   \
	/* not RoCE v2 for an address of this device (parse.h: network; address table) */          \
	X(TRUNC_ETH, PASS, "frame ends within the Ethernet header or a VLAN tag")                  \
	X(VLAN_DEPTH, PASS, "more than two VLAN tags")                                             \
	X(NOT_IP, PASS, "ethertype is neither IPv4 nor IPv6")                                      \
	X(TRUNC_IP, PASS, "frame ends within the IP header")                                       \
	X(IP_VERSION, PASS, "IP version does not match the ethertype")                             \
	X(NOT_UDP, PASS, "IP protocol is not UDP")                                                 \
	X(IP_OPTIONS, PASS, "IPv4 header length is not 20 bytes")                                  \
	X(IP_FRAGMENT, PASS, "IPv4 fragment")                                                      \
	X(TRUNC_UDP, PASS, "frame ends within the UDP header")                                     \
	X(NOT_ROCE_PORT, PASS, "UDP destination port is not 4791")                                 \
	X(NOT_OUR_ADDR, PASS, "destination address is not a GID of this device")                   \
	/* malformed RoCE v2 (parse.h: transport) */                                               \
	X(IP_CHECKSUM, DROP, "IPv4 header checksum is wrong")                                      \
	X(IP_RESERVED, DROP, "reserved flag of the IPv4 header is set")                            \
	X(IP_TTL, DROP, "TTL or hop limit is 0")                                                   \
	X(IP_LEN, DROP, "IP length does not match the frame")                                      \
	X(UDP_LEN, DROP, "UDP length does not match the IP length")                                \
	X(TRUNC_BTH, DROP, "datagram ends within the base transport header")                       \
	X(BTH_VERSION, DROP, "base transport header version is not 0")                             \
	X(BAD_OPCODE, DROP, "unknown opcode")                                                      \
	X(TRUNC_EXT, DROP, "datagram ends within the extended transport headers")                  \
	X(TRUNC_ICRC, DROP, "datagram has no room for pad and ICRC")                               \
	X(BAD_LENGTH, DROP, "payload length is not allowed for the opcode")                        \
	X(BAD_PAD, DROP, "pad is not allowed for the opcode")                                      \
	/* does not match the destination QP (verdict.h) */                                        \
	X(NO_QP, DROP, "destination QP does not exist")                                            \
	X(PKEY, DROP, "P_Key does not match that of the QP")                                       \
	X(QP_STATE, DROP, "destination QP does not receive in its state")                          \
	X(QP_TYPE, DROP, "opcode does not match the type of the QP")                               \
	X(WRONG_PEER, DROP, "source address is not that of the QP's peer")                         \
	X(WRONG_DEST, DROP, "destination address is not that of the QP")                           \
	X(QKEY, DROP, "Q_Key does not match that of the QP")                                       \
	X(PSN_WINDOW, DROP, "PSN is outside the PSN window of the QP")                             \
	X(PAYLOAD_MTU, ANSWER, "payload length does not match the path MTU of the QP")             \
	/* R_Key (key_check.h, verdict.h); the daemon also uses the KEY reasons for L_Keys */      \
	X(KEY_INDEX, ANSWER, "R_Key does not exist")                                               \
	X(KEY_VARIANT, ANSWER, "R_Key is stale: its variant has changed")                          \
	X(KEY_STATE, ANSWER, "R_Key is not bound to memory, or is bound to another QP")            \
	X(KEY_PD, ANSWER, "R_Key belongs to another protection domain")                            \
	X(KEY_ACCESS, ANSWER, "R_Key or QP does not grant the access")                             \
	X(KEY_RANGE, ANSWER, "address range is not inside the memory of the R_Key")                \
	X(ATOMIC_ALIGN, ANSWER, "address of an atomic operation is not a multiple of 8")           \
	/* cannot be handed to the daemon (bpf/conclude.h) */                                      \
	X(RATE_LIMIT, DROP, "packet requires a NAK, and the NAK rate limit is reached")            \
	X(NO_SOCKET, DROP, "RX queue has no AF_XDP socket")                                        \
	X(NO_METADATA, DROP, "no room for metadata before the frame")                              \
	/* counted by the daemon */                                                                \
	X(TOO_LONG, DROP, "frame has more segments than the daemon can receive")                   \
	X(GSO_PACKET, DROP, "packet in a GSO frame is malformed or not for the frame's QP")        \
	X(ICRC, DROP, "ICRC is wrong")                                                             \
	X(UDP_CHECKSUM, DROP, "UDP checksum is wrong")

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
