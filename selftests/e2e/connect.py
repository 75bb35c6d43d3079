#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""connect.py [-l] SOCKET N: opens N connections to a control socket, or as many as the daemon accepts.

Prints their number and the reason for which the next one was refused, then waits for the end of
standard input. With -l it goes on after a refusal.
"""

import socket
import struct
import sys

HEADER = struct.Struct("=IiII")  # struct xr_msg of include/xroce/control.h
QUERY_GIDS = 4


def connect(path):
    """Returns the connection, or the reason why the daemon refused it."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(path)
    # A request before HELLO is an error, but shows that the daemon has accepted the connection.
    try:
        sock.send(HEADER.pack(QUERY_GIDS, 0, 1, 0))
    except BrokenPipeError:
        pass
    while True:
        try:
            reply = sock.recv(65536)
            break
        except ConnectionResetError:
            # The daemon closed the socket before it read the request. Its reply is still there.
            continue
    if HEADER.unpack_from(reply)[0]:
        return sock
    sock.close()
    return reply[HEADER.size:].decode()


def main():
    loop = sys.argv[1] == "-l"
    path, count = sys.argv[-2:]
    held = []
    why = "no limit"
    for _ in range(int(count)):
        result = connect(path)
        if isinstance(result, str):
            why = result
            if not loop:
                break
        else:
            held.append(result)
    print(f"{len(held)} connections: {why}", flush=True)
    sys.stdin.read()


main()
