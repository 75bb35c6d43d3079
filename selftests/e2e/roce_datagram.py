#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sends a UD SEND with immediate data, as rdma_datagram does, over IPv6 through a socket of the kernel.

  roce_datagram.py SOURCE DESTINATION QPN CHECKSUM TEXT

CHECKSUM of UDP: `socket` (computed by the kernel or left to the interface), `right`, `wrong` or `none`.
"""
import socket
import struct
import sys

from icrc import icrc

ROCE_PORT = 4791
UDP_PROTOCOL = 17
SOURCE_PORT = 0xC000
QKEY = 0x11111111
SOURCE_QPN = 0x11  # no QP has this number, so replies to it are dropped


def ones_complement_sum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def main():
    source, destination, qpn, checksum, text = sys.argv[1:]
    payload = text.encode() + bytes(-len(text) % 4)
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
    bth = struct.pack(">BBHII", 0x65, 0x40 | (-len(text) % 4) << 4, 0xFFFF, int(qpn, 0), 0)
    body = bth + struct.pack(">III", QKEY, SOURCE_QPN, len(text)) + payload
    length = 8 + len(body) + 4
    udp = struct.pack(">HHH", SOURCE_PORT, ROCE_PORT, length)
    ip = struct.pack(">IHBB", 0x60000000, length, UDP_PROTOCOL, 64) + addresses
    body += icrc(ip + udp + bytes(2) + body + bytes(4), len(ip))
    if checksum == "socket":
        out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        out.bind((source, SOURCE_PORT))
        out.sendto(body, (destination, ROCE_PORT))
        return
    pseudo = addresses + struct.pack(">II", length, UDP_PROTOCOL)
    right = 0xFFFF - ones_complement_sum(pseudo + udp + body) or 0xFFFF
    value = {"right": right, "wrong": right ^ 0x0100, "none": 0}[checksum]
    out = socket.socket(socket.AF_INET6, socket.SOCK_RAW, UDP_PROTOCOL)
    out.bind((source, 0))
    out.sendto(udp + struct.pack(">H", value) + body, (destination, 0))


main()
