# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An MPI program; every value is checked.

Without arguments: collective, point-to-point and one-sided operations. With a number: that many windows at a time.
"""
import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
me, n = comm.rank, comm.size


def check(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"rank {me}: {what}: wrong values")


def sums(count):
    mine, total = array("l", range(me, me + count)), array("l", bytes(8 * count))
    comm.Allreduce(mine, total)
    check(f"sum of {count}", total, array("l", (n * i + n * (n - 1) // 2 for i in range(count))))


def all_to_all(count):
    mine = array("l", (1000 * me + peer for peer in range(n) for _ in range(count)))
    theirs = array("l", bytes(8 * count * n))
    comm.Alltoall(mine, theirs)
    check(f"exchange of {count}", theirs,
          array("l", (1000 * peer + me for peer in range(n) for _ in range(count))))


def ring(count):
    """Sends to the next rank and receives from the previous one."""
    mine, theirs = array("l", [me] * count), array("l", bytes(8 * count))
    comm.Sendrecv(mine, (me + 1) % n, recvbuf=theirs, source=(me - 1) % n)
    check(f"ring of {count}", theirs, array("l", [(me - 1) % n] * count))


def one_sided(count):
    """Puts into the window of the next rank and accumulates in the window of rank 0."""
    window = MPI.Win.Allocate(8 * count, 8, comm=comm)
    memory = memoryview(window.tomemory()).cast("l")
    memory[:] = array("l", bytes(8 * count))
    window.Fence()
    # until the fence, the library may read what was put
    many, one = array("l", [me + 1] * (count - 1)), array("l", [me + 1])
    window.Put(many, (me + 1) % n, target=(1, count - 1, MPI.LONG))
    window.Accumulate(one, 0, target=(0, 1, MPI.LONG))
    window.Fence()
    check("puts", array("l", memory[1:]), array("l", [(me - 1) % n + 1] * (count - 1)))
    if me == 0:
        check("sum of all", memory[0], n * (n + 1) // 2)
    memory.release()
    window.Free()


def many_windows(count):
    """Opens all windows before it uses the first, puts into each and gets from each, and frees all at the end."""
    memories = [array("l", [-1] * 512) for _ in range(count)]
    windows = [MPI.Win.Create(memory, 8, comm=comm) for memory in memories]
    numbers = [array("l", [1000 * me + i]) for i in range(count)]
    got = [array("l", [0]) for _ in range(count)]
    right, left = (me + 1) % n, (me - 1) % n
    for window, number in zip(windows, numbers):
        window.Lock_all()
        window.Put(number, right, target=(511, 1, MPI.LONG))
        window.Flush(right)
    comm.Barrier()
    for window, number in zip(windows, got):
        window.Get(number, right, target=(511, 1, MPI.LONG))
        window.Unlock_all()
    check("gets", got, numbers)
    comm.Barrier()
    check("puts", [memory[511] for memory in memories], [1000 * left + i for i in range(count)])
    check("words beside", {memory[510] for memory in memories}, {-1})
    for window in windows:
        window.Free()


if len(sys.argv) > 1:
    many_windows(int(sys.argv[1]))
else:
    for size in 1, 100, 5000, 300000:
        sums(size)
        all_to_all(size // 4 + 1)
        ring(size)
    one_sided(20000)
comm.Barrier()
if me == 0:
    print(f"{n} ranks agree")
