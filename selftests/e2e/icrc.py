#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks the ICRC of captured RoCE v2 packets.

  icrc.py FILE.pcap      prints "OPCODE COUNT WRONG" for each opcode, in hexadecimal and decimal

An independent implementation of the specification: it shares no code with the transport and uses zlib.crc32.
"""
import collections
import struct
import sys
import zlib

ROCE_PORT = 4791


def frames(path):
    with open(path, "rb") as file:
        data = file.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from(order + "I", data, at + 8)[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def datagram(frame):
    """Returns the IP datagram of a RoCE v2 frame and the length of its IP header, or None."""
    at = 12
    while frame[at:at + 2] == b"\x81\x00":
        at += 4
    kind, ip = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x00" and ip[9] == 17:
        header, total = (ip[0] & 15) * 4, struct.unpack_from(">H", ip, 2)[0]
    elif kind == b"\x86\xdd" and ip[6] == 17:
        header, total = 40, 40 + struct.unpack_from(">H", ip, 4)[0]
    else:
        return None
    if struct.unpack_from(">H", ip, header + 2)[0] != ROCE_PORT:
        return None
    return ip[:total], header


def icrc(ip, header):
    """Computes the ICRC, with all fields that routers may change set to ones."""
    b = bytearray(ip[:-4])
    if header == 40:
        b[0] |= 0x0f
        b[1:4] = b"\xff\xff\xff"                # traffic class, flow label
        b[7] = 0xff                             # hop limit
    else:
        b[1] = b[8] = 0xff                      # TOS, TTL
        b[10:12] = b"\xff\xff"                  # header checksum
    b[header + 6:header + 8] = b"\xff\xff"      # UDP checksum
    b[header + 12] = 0xff                       # FECN, BECN
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(b)))


def main():
    count, wrong = collections.Counter(), collections.Counter()
    for frame in frames(sys.argv[1]):
        found = datagram(frame)
        if not found:
            continue
        ip, header = found
        opcode = ip[header + 8]
        count[opcode] += 1
        wrong[opcode] += icrc(ip, header) != ip[-4:]
    for opcode in sorted(count):
        print(f"0x{opcode:02x} {count[opcode]} {wrong[opcode]}")


if __name__ == "__main__":
    main()
