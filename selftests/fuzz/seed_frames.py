#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes the seed corpora of the frame and xdp fuzzers: for each opcode, IP version and number of
VLAN tags, the shortest captured packet. For xdp, addresses and numbers are replaced by those of the
QPs of the XDP tests (selftests/bpf/fixture.h).

    selftests/fuzz/seed_frames.py selftests/pcaps selftests/fuzz/corpus
"""
import pathlib
import struct
import sys

FRAME_PREFIX = bytes(9)  # one segment, no metadata: see frame_fuzz.c
XDP_PREFIX = bytes(1)

PEER = {"0800": bytes([10, 9, 0, 1]), "86dd": bytes.fromhex("fd000009" + "00" * 11 + "01")}
LOCAL = {"0800": bytes([10, 9, 0, 2]), "86dd": bytes.fromhex("fd000009" + "00" * 11 + "02")}
SOURCE_AT = {"0800": 12, "86dd": 8}
QP_BASE = 0xABC000  # + 1, 2: RC over IPv4, IPv6; UC and UD follow
QP_OF_CLASS = {0x00: 1, 0x20: 3, 0x60: 5}
PSN = 0xFFFFF0
RKEY, VA = 0x4200A0, 0x7F0012345000
QKEY = 0x11111111


def packets(path):
    raw = path.read_bytes()
    order = "<" if raw[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    if struct.unpack(order + "I", raw[20:24])[0] != 1:  # LINKTYPE_ETHERNET
        return
    at = 24
    while at + 16 <= len(raw):
        length = struct.unpack(order + "I", raw[at + 8 : at + 12])[0]
        yield raw[at + 16 : at + 16 + length]
        at += 16 + length


def kind(packet):
    """Returns (number of VLAN tags, ethertype, opcode), or None if the packet is not RoCE v2."""
    tags, at = 0, 12
    while packet[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        tags, at = tags + 1, at + 4
    ethertype = packet[at : at + 2].hex()
    udp = at + 2 + {"0800": 20, "86dd": 40}.get(ethertype, 0)
    if packet[udp + 2 : udp + 4] != struct.pack(">H", 4791):
        return None
    return tags, ethertype, packet[udp + 8]


def field(packet, at, value, width):
    packet[at : at + width] = value.to_bytes(width, "big")


def for_fixture(packet, ethertype, opcode):
    """Returns the packet with addresses, QPN, PSN and keys of the fixture."""
    out = bytearray(packet)
    ip = 14
    bth = ip + {"0800": 20, "86dd": 40}[ethertype] + 8
    size = len(PEER[ethertype])
    source = ip + SOURCE_AT[ethertype]
    out[source : source + 2 * size] = PEER[ethertype] + LOCAL[ethertype]
    qp = QP_BASE + QP_OF_CLASS[opcode & 0xE0] + (ethertype == "86dd")
    field(out, bth + 2, 0xFFFF, 2)
    field(out, bth + 5, qp, 3)
    field(out, bth + 9, PSN, 3)
    if opcode >> 5 == 3:
        field(out, bth + 12, QKEY, 4)
    elif opcode & 31 in (0x06, 0x0A, 0x0B, 0x0C, 0x13, 0x14):
        field(out, bth + 12, VA, 8)
        field(out, bth + 20, RKEY, 4)
    return bytes(out)


def main():
    shortest = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.pcap")):
        for packet in packets(path):
            key = kind(packet)
            if key and len(packet) < len(shortest.get(key, packet + b"x")):
                shortest[key] = packet
    for name in "frame", "xdp":
        out = pathlib.Path(sys.argv[2]) / name
        out.mkdir(parents=True, exist_ok=True)
        for (tags, ethertype, opcode), packet in shortest.items():
            if name == "frame":
                seed = FRAME_PREFIX + packet
            elif tags or ethertype not in PEER or opcode & 0xE0 not in QP_OF_CLASS:
                continue
            else:
                seed = XDP_PREFIX + for_fixture(packet, ethertype, opcode)
            (out / f"{ethertype}-{tags}tags-{opcode:02x}").write_bytes(seed)


if __name__ == "__main__":
    main()
