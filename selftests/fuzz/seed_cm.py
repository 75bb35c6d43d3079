#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes the seed corpora of the cm and cm_mad fuzzers from captured MADs: each MAD for cm_mad; for
cm, the MADs of each capture as received from the peer, with the calls of the user in between (see
step() in cm_fuzz.c).

    selftests/fuzz/seed_cm.py selftests/pcaps selftests/fuzz/corpus
"""
import pathlib
import sys

from seed_frames import packets

ATTRIBUTES = "REQ MRA REJ REP RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR".split()
ICRC = 4
RAW, SHORT, REFLECT, CONNECT, RESOLVE, CALL, TIME, POLICY = range(8)
ALL_REACTIONS = 7  # accept, establish, reply


def mads(path):
    """Yields (source address, MAD) of the packets to QP 1 in a capture over IPv4."""
    for packet in packets(path):
        bth = 14 + 20 + 8
        if packet[12:14] == b"\x08\x00" and packet[bth] == 0x64 and packet[bth + 5 : bth + 8] == b"\0\0\1":
            yield packet[26:30], packet[bth + 12 + 8 : -ICRC]


def name(mad):
    return ATTRIBUTES[mad[17] - 0x10]


def received(mad):
    return bytes([RAW, 1, 0]) + mad


def conversation(path):
    """The capture with the engine at one side, then at the other. User 0 has the id."""
    sequence = list(mads(path))
    for side in sorted({source for source, _ in sequence}):
        seed = bytes([POLICY, ALL_REACTIONS])
        for source, mad in sequence:
            if source != side:
                seed += received(mad)
            elif name(mad) == "REQ":
                seed += bytes([CONNECT, 0x51, 0x74, 20])
            elif name(mad) == "SIDR_REQ":
                seed += bytes([RESOLVE, 0x81, 4])
            elif name(mad) == "DREQ":
                seed += bytes([CALL, 0, 5, 3])
            elif name(mad) == "REJ":
                seed += bytes([CALL, 0, 1, 28])
        yield seed + bytes([TIME, 0x80, TIME, 0x80])


def main():
    out = pathlib.Path(sys.argv[2])
    for folder in "cm", "cm_mad":
        (out / folder).mkdir(parents=True, exist_ok=True)
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*cm*.pcap")):
        for i, (_, mad) in enumerate(mads(path)):
            (out / "cm_mad" / f"{path.stem}-{i:02}-{name(mad)}").write_bytes(mad)
        for i, seed in enumerate(conversation(path)):
            (out / "cm" / f"{path.stem}-{i}").write_bytes(seed)


main()
