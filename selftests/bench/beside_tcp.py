# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that do the same work by verbs and by TCP (selftests/bench/workloads).

Each class takes a path: "direct" and "daemon" are the values of XROCE_PATH, "tcp" is TCP, and "floor" what no transport over UDP
can leave out. By these and directly, each program is bound to a processor, as two hosts would have one each. By the daemon, the
scheduler places programs and workers: bound programs that poll keep workers waiting.
"""
import os

from hosts import ADDRESS, Failed, stop, wait_until
from load import Recorder
from programs import PORT, SECONDS, STARTED_PACKETS, TIME_LIMIT, Turn, checked, pair, path_environment, watch


# paths without verbs, and the options of the programs for them
OTHERS = {"tcp": "-t", "floor": "-u"}


class BesideTcp:
    """What they have in common. program: its name, arguments: with which both sides are called"""

    unit = "k/s"

    def __init__(self, program, path, *arguments):
        self.program, self.path, self.arguments = program, path, arguments
        self.xroce = path not in OTHERS

    def command(self, hosts, tools, host, place):
        """Returns the command line on a host. place: counts the programs, which share the processors in turn"""
        bound = [] if self.path == "daemon" else ["taskset", "-c", place % os.cpu_count()]
        way = [OTHERS[self.path]] if self.path in OTHERS else ["-g", hosts.gid[host]]
        return [*bound, tools / "bench" / self.program, *way, "-p", PORT, "-T", SECONDS * 0.3, *self.arguments]

    def how(self, hosts):
        """Returns the arguments for Hosts.spawn()."""
        return {"rdma": self.xroce, "env": path_environment(hosts, self.path) if self.xroce else {}}

    def run(self, hosts, tools):
        """Runs a server and a client, and returns the client's output and the load."""
        _, output, load = pair(hosts, self.command(hosts, tools, "a", 1),
                               [*self.command(hosts, tools, "b", 0), ADDRESS["a"]], **self.how(hosts))
        return output, load

    def measure(self, hosts, tools):
        output, load = self.run(hosts, tools)
        rate, median, p99 = map(float, output.split())
        return Turn(self.value(rate), load, rate, median=median, p99=p99)

    def value(self, rate):
        return rate / 1e3


class Reply(BesideTcp):
    """Thousands of requests a second of a server and its client, with an event loop, or polled."""

    def __init__(self, path, connections, depth, events):
        super().__init__("reply", path, "-n", connections, "-d", depth, *(["-e"] if events else []))


class Block(BesideTcp):
    """Thousands of commands a second to a target with a disk in memory; `gbits` is the payload in Gbit/s."""

    def __init__(self, path, size, depth, write):
        super().__init__("block", path, "-s", size, "-d", depth, *(["-w"] if write else []))
        self.size = size

    def measure(self, hosts, tools):
        turn = super().measure(hosts, tools)
        turn.more["gbits"] = turn.messages * self.size * 8 / 1e9
        return turn


class AllToAll(BesideTcp):
    """Thousands of rounds a second in which four ranks, two on each host, send a message to each other."""

    hosts = "a", "a", "b", "b"

    def __init__(self, path, size):
        super().__init__("alltoall", path, "-s", size)

    def run(self, hosts, tools):
        how, ranks = self.how(hosts), []
        recorder = Recorder({"server worker": hosts.daemon["a"], "client worker": hosts.daemon["b"]}, hosts.daemon["a"], "va")
        before = recorder.packets()
        try:
            for rank, host in enumerate(self.hosts):
                ranks.append(hosts.spawn(host, [*self.command(hosts, tools, host, rank), rank, *map(ADDRESS.get, self.hosts)],
                                         **how))
                recorder.roles[f"rank {rank}"] = ranks[rank].pid
            load = watch(recorder, ranks[0], lambda: recorder.packets() - before > STARTED_PACKETS)
            if not wait_until(lambda: all(rank.poll() is not None for rank in ranks), TIME_LIMIT):
                raise Failed(f"{ranks[0].command}: a rank still runs")
            return "".join([checked(rank) for rank in ranks]), load
        finally:
            for rank in ranks:
                stop(rank)
