# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An MPI program: threads of each rank exchange messages at the same time; every value is checked."""
import sys
import threading
from array import array

from mpi4py import MPI

threads, exchanges = int(sys.argv[1]), int(sys.argv[2])
comm = MPI.COMM_WORLD
me, n = comm.rank, comm.size
if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
    raise SystemExit("MPI_THREAD_MULTIPLE is not supported")
wrong = []


def exchange(tag):
    for i in range(exchanges):
        mine, theirs = array("l", [me, tag, i]), array("l", [0, 0, 0])
        comm.Sendrecv(mine, (me + 1) % n, tag, theirs, (me - 1) % n, tag)
        if theirs != array("l", [(me - 1) % n, tag, i]):
            wrong.append((tag, i))


workers = [threading.Thread(target=exchange, args=(tag,)) for tag in range(threads)]
for w in workers:
    w.start()
for w in workers:
    w.join()
total = comm.allreduce(len(wrong))
if total:
    raise SystemExit(f"rank {me}: {total} wrong messages")
if me == 0:
    print(f"{n} ranks agree")
