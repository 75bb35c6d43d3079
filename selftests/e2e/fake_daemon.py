# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Acts as a daemon that serves one connection of the xroce command:

    fake_daemon.py DEVICE SOCKET show MB        its reply to `show` has that many megabytes
    fake_daemon.py DEVICE SOCKET events TEXT    its events are that text, repeated if it is one character
"""
import array
import os
import socket
import sys

REPLY = 16  # bytes of the head of a reply


def serve(path, device):
    """Waits for a client. Returns its connection, and the head of a reply to its first request."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(path)
    s.listen()
    s.settimeout(60)
    c = s.accept()[0]
    hello = c.recv(4096)
    # the same version, the device's name
    c.send(hello[:20] + bytes(20) + device.encode().ljust(185, b"\0"))
    return c, c.recv(4096)[:REPLY]


def send_fd(c, data, fd):
    c.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])


def show(c, head, megabytes):
    text = os.memfd_create("text")
    for _ in range(int(megabytes)):
        os.write(text, b" " * 1000000)
    send_fd(c, head + bytes(8), text)


def events(c, head, text):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    send_fd(c, head, theirs.fileno())
    theirs.close()
    ours.send(text.encode() * (5000 if len(text) == 1 else 1))
    c.recv(1)


device, path, what, argument = sys.argv[1:]
{"show": show, "events": events}[what](*serve(path, device), argument)
