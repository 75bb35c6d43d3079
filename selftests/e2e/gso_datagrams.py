#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sends GSO frames to QP 1 of a host, whose first packet is well-formed and whose other packets are not.

  gso_datagrams.py DESTINATION

Prints the number of packets that have to be dropped because of their format or their QP.
"""
import socket
import struct
import sys

ROCE_PORT = 4791
UDP_SEGMENT = 103  # linux/udp.h
UD_SEND_ONLY = 0x64
GSI_QKEY = 0x80010000
MAD_LENGTH = 256


def packet(qpn):
    """Returns a UD SEND with a wrong ICRC."""
    bth = struct.pack(">BBHII", UD_SEND_ONLY, 0x40, 0xFFFF, qpn, 0)
    return bth + struct.pack(">II", GSI_QKEY, 1) + bytes(MAD_LENGTH + 4)


def main():
    first = packet(1)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(first))
    dropped = 0
    for others in (
            [packet(0x222222)] * 3,                    # another QP
            [b"\xff" * len(first)] * 60,               # an unknown opcode
            [first[:11]],                              # an incomplete BTH
            [first[:19]]):                             # an incomplete DETH
        out.sendto(first + b"".join(others), (sys.argv[1], ROCE_PORT))
        dropped += len(others)
    print(dropped)


main()
