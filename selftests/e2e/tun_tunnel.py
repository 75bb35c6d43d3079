# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Joins two hosts by tun interfaces: copies packets between a tun interface and a UDP socket.

    tun_tunnel.py INTERFACE LOCAL_ADDRESS PEER_ADDRESS
"""
import fcntl
import os
import select
import socket
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
PORT = 4700

name, local, peer = sys.argv[1:]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((local, PORT))
sock.connect((peer, PORT))
while True:
    for fd in select.select([tun, sock], [], [])[0]:
        try:
            if fd is sock:
                os.write(tun, sock.recv(65536))
            else:
                sock.send(os.read(tun, 65536))
        except OSError:
            time.sleep(0.01)    # the interface is not up, or the peer not started yet
