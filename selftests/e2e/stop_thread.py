#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""stop_thread.py PID NAME: stops the thread of that name of the process, and only that one, until this program
ends, which it does with the process."""

import ctypes
import os
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000


def thread_of(pid, name):
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as comm:
            if comm.read() == name + "\n":
                return int(tid)
    return sys.exit(f"process {pid} has no thread {name}")


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    tid = thread_of(sys.argv[1], sys.argv[2])
    for request in PTRACE_SEIZE, PTRACE_INTERRUPT:
        if libc.ptrace(request, tid, None, None):
            sys.exit(os.strerror(ctypes.get_errno()))
    # The process can end only when its tracer has seen the end of the thread.
    while os.WIFSTOPPED(os.waitpid(tid, WALL)[1]):
        pass


main()
