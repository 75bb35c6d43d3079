#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes the seed corpus of the frame fuzzer: of the captures, the shortest packet of each
opcode, IP version and kind of network.

    selftests/fuzz/seed_frames.py selftests/pcaps selftests/fuzz/corpus/frame
"""
import pathlib
import struct
import sys

PREFIX = bytes(9)  # one piece, no metadata: see frame_fuzz.c


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
    """(network, ethertype, opcode), None for what is not RoCEv2"""
    tags, at = 0, 12
    while packet[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        tags, at = tags + 1, at + 4
    ethertype = packet[at : at + 2].hex()
    udp = at + 2 + {"0800": 20, "86dd": 40}.get(ethertype, 0)
    if packet[udp + 2 : udp + 4] != struct.pack(">H", 4791):
        return None
    return tags, ethertype, packet[udp + 8]


def main():
    shortest = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.pcap")):
        for packet in packets(path):
            key = kind(packet)
            if key and len(packet) < len(shortest.get(key, packet + b"x")):
                shortest[key] = packet
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for (tags, ethertype, opcode), packet in shortest.items():
        (out / f"{ethertype}-{tags}tags-{opcode:02x}").write_bytes(PREFIX + packet)


main()
