#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Runs one side of rdma-core's tests of rdma_cm (test_rdmacm), so that the two sides can use different devices. rdma-core
forks both sides of a test, which share a barrier and a queue. Here the passive side serves these objects on a unix
socket, and the active side connects to it.

usage: rdmacm_side.py active|passive SOCKET DEVICE ADDRESS PASSIVE-ADDRESS, in the folder that contains `tests`

Prints "NAME ok", "NAME skipped" or "NAME failed" for each test.
"""
import multiprocessing
import os
import queue
import sys
import threading
import time
from multiprocessing.managers import BarrierProxy, BaseManager

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), 'tests')]
# pylint: disable=wrong-import-position
from args_parser import parser
from pyverbs.cmid import AddrInfo
from tests import base_rdmacm
from tests.rdmacm_utils import CMAsyncConnection
from tests.test_rdmacm import CMTestCase

GROUP = '239.7.7.11'
SECONDS = 20 * int(os.environ.get('XR_SLOW', '1'))   # that a test may take
SILENCE = 2         # seconds in which a datagram would arrive if the receiver had not left the group
LEAVE_WAITS = 22    # barriers until it would: two for each of 10 messages, then two for the next message
END = 'end'         # name of the barrier after the last test
SKIPPED = 5         # exit status of rdma-core's sides
TESTS = sorted(name for name in dir(CMTestCase) if name.startswith('test_rdmacm_'))


class Shared(BaseManager):
    """The barriers and queues of all tests. They live in the process of the passive side."""

    @classmethod
    def serve(cls, socket):
        """Starts a thread that serves the objects."""
        barriers = {test: threading.Barrier(2, timeout=SECONDS) for test in TESTS + [END]}
        queues = {(test, side): queue.Queue() for test in TESTS for side in ('active', 'passive')}
        cls.register('barrier', barriers.get, BarrierProxy)
        cls.register('queue', lambda test, side: queues[test, side])
        server = cls(socket, b'').get_server()
        threading.Thread(target=server.serve_forever, daemon=True).start()

    @classmethod
    def connect_to(cls, socket):
        """Returns the objects, as soon as the passive side serves them."""
        cls.register('barrier', proxytype=BarrierProxy)
        cls.register('queue')
        shared = cls(socket, b'')
        for _ in range(SECONDS * 10):
            try:
                shared.connect()
                return shared
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.1)
        sys.exit('the passive side does not answer')


class Syncer:
    """The barrier of a test. Counts how often this side has passed it."""

    def __init__(self, barrier, passed):
        self.barrier = barrier
        self.passed = passed

    def wait(self):
        """Waits for the other side."""
        self.barrier.wait()
        self.passed.value += 1


class Notifier:
    """A queue in each direction."""

    def __init__(self, shared, test, side):
        self.put = shared.queue(test, side).put
        self.incoming = shared.queue(test, 'active' if side == 'passive' else 'passive')

    def get(self):
        """Returns the next object from the other side."""
        return self.incoming.get(True, SECONDS)


class Side(CMTestCase):
    """The tests of rdma-core, of which only one side runs."""

    def setUp(self):
        """Nothing: the sides get device and addresses as arguments."""

    def two_nodes_rdmacm_traffic(self, connection_resources, test_flow, bad_flow=False, **resource_kwargs):
        del bad_flow
        test_flow(connection_resources=connection_resources, passive=self.passive, **resource_kwargs)


def use_source(source):
    """Makes an active side of rdma-core, whose own address is that of the passive side, use its own."""
    def with_source(src=None, dst=None, **kwargs):
        return AddrInfo(src=source if dst else src, dst=dst, **kwargs)
    base_rdmacm.AddrInfo = with_source


def use_group(method):
    """Makes a method of rdma-core, which derives a group from the address of each side, use the same group."""
    def with_group(self, mc_addr=None, **kwargs):
        del mc_addr
        return method(self, mc_addr=GROUP, **kwargs)
    return with_group


def run_side(socket, test, side, address, passed):
    """Runs one side of a test, in a process of its own."""
    shared = Shared.connect_to(socket)
    barrier = shared.barrier(test)
    case = Side(test)
    case.ip_addr = address
    case.passive = side == 'passive'
    case.syncer = Syncer(barrier, passed)
    case.notifier = Notifier(shared, test, side)
    try:
        getattr(case, test)()
    except SystemExit as result:
        if result.code != SKIPPED:
            barrier.abort()
        raise


def outcome(test, process, passed):
    """Waits for one side of a test and returns its result."""
    if 'leave' not in test:
        process.join(SECONDS)
        return {0: 'ok', SKIPPED: 'skipped'}.get(process.exitcode, 'failed')
    # A side that has left the group waits for a datagram, and the other side waits for it.
    deadline = time.monotonic() + SECONDS
    while process.is_alive() and passed.value < LEAVE_WAITS and time.monotonic() < deadline:
        time.sleep(0.1)
    process.join(SILENCE)
    return 'ok' if process.is_alive() and passed.value == LEAVE_WAITS else 'failed'


def main():
    """Runs one side of all tests."""
    side, socket, device, address, passive_address = sys.argv[1:]
    parser.args = {'dev': device, 'port': 1, 'gid': None}
    fork = multiprocessing.get_context('fork')
    use_source(address)
    CMAsyncConnection.join_to_multicast = use_group(CMAsyncConnection.join_to_multicast)
    CMAsyncConnection.leave_multicast = use_group(CMAsyncConnection.leave_multicast)
    if side == 'passive':
        server = fork.Process(target=lambda: (Shared.serve(socket), threading.Event().wait()), daemon=True)
        server.start()
    Shared.connect_to(socket)
    for test in TESTS:
        passed = fork.Value('i', 0)
        own = address if 'multicast' in test else passive_address
        process = fork.Process(target=run_side, args=(socket, test, side, own, passed))
        process.start()
        print(test, outcome(test, process, passed), flush=True)
        process.kill()
        process.join()
    Shared.connect_to(socket).barrier(END).wait()


main()
