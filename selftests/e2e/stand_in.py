#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stands in for xroced in tests of `xroce run --start`: takes its options, and replies to HELLO.

STAND_IN=fail: ends at its start, with a message; hang: never listens; slow: listens after a second
"""
import os
import select
import socket
import sys
import time

HEAD = 16  # bytes of the head of a message

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
directory, interface = options["--runtime-dir"], options["--interface"]
mode = os.environ.get("STAND_IN")
with open(directory + "/starts", "a") as f:
    print(*sys.argv[1:], file=f)
print("open:", *sorted(os.listdir("/proc/self/fd"), key=int)[:-1], "session:", os.getsid(0) == os.getpid(),
      "preload:", os.environ.get("LD_PRELOAD"), flush=True)
if mode == "fail":
    sys.exit("stand-in: cannot do it")
if mode:
    time.sleep(1 if mode == "slow" else 60)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(f"{directory}/xr_{interface}.sock")
listener.listen(64)
# version, workers, has_uffd, index, GUID; names; an empty reference to shared memory; token
reply = bytes(20) + f"xr_{interface}".encode().ljust(64, b"\0") + interface.encode().ljust(16, b"\0") + bytes(64)
clients = []
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    for s in select.select([listener] + clients, [], [], 1)[0]:
        if s is listener:
            clients.append(s.accept()[0])
            continue
        hello = s.recv(4096)
        if not hello:
            clients.remove(s)
            s.close()
            continue
        s.send(hello[:HEAD + 4] + reply)
