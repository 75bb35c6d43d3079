# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Records what processors did during a turn: processor time of each process of the turn, packets, time stolen by the
hypervisor, and load of other processes.

Processor time comes from /proc/PID/task/*/schedstat (nanoseconds). Without CONFIG_IRQ_TIME_ACCOUNTING, as in most
kernels for virtual machines, it includes softirqs: veth carries a packet through the XDP program into the receiver's
socket within sendto() of the sender, so this work counts as time of the sending process. With
CONFIG_IRQ_TIME_ACCOUNTING it counts for no process. Softirq time of the whole machine is therefore recorded as well
(/proc/stat, sampled at each timer tick).
"""
import collections
import os
import time

TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
# A turn with more of either, as a share of all processors, is disturbed.
MAX_STEAL = 0.03
MAX_OTHER = 0.10

Snapshot = collections.namedtuple("Snapshot", "at cpu machine own packets wakeups")
Load = collections.namedtuple("Load", "seconds cpu packets wakeups softirq steal other")


def parse_stat(text):
    """Returns the ticks of all processors from /proc/stat, by name."""
    names = "user nice system idle iowait irq softirq steal".split()
    fields = text.split("\n", 1)[0].split()[1:]
    return dict(zip(names, map(int, fields)))


def parse_net_dev(text, interface):
    """Returns received and sent packets of an interface from /proc/net/dev."""
    for line in text.splitlines():
        name, _, fields = line.partition(":")
        if name.strip() == interface:
            fields = fields.split()
            return int(fields[1]) + int(fields[9])
    return 0


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # the process or thread has ended
        return ""


def _threads(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def with_descendants(pid):
    """Returns the process and its descendants.

    Only their files are read: on a machine with many processes, looking at all of them for each snapshot took a tenth of
    a processor. Needs CONFIG_PROC_CHILDREN.
    """
    found = [pid]
    for process in found:
        for thread in _threads(process):
            found += map(int, _read(f"/proc/{process}/task/{thread}/children").split())
    return found


def cpu_ns(processes):
    """Returns the processor time of each thread of processes."""
    times = {}
    for process in processes:
        for thread in _threads(process):
            fields = _read(f"/proc/{process}/task/{thread}/schedstat").split()
            if fields:
                times[thread] = int(fields[0])
    return times


def switches(processes):
    """Returns how often each thread of processes was switched to after it slept."""
    counts = {}
    for process in processes:
        for thread in _threads(process):
            for line in _read(f"/proc/{process}/task/{thread}/status").splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    counts[thread] = int(line.split()[1])
    return counts


class Recorder:
    """Takes snapshots of processes, given as {role: PID}, and of an interface in the network namespace of one of them.

    together: no process ends before the others do. The time of a process that has ended is not known any more.
    """

    def __init__(self, roles, netns_pid=None, interface="vb", together=False):
        self.together = together
        self.roles = roles
        self.netns_pid = netns_pid
        self.interface = interface
        self.snapshots = []

    def packets(self):
        """Packets that the interface has sent and received, each packet of the link once."""
        if not self.netns_pid:
            return 0
        return parse_net_dev(_read(f"/proc/{self.netns_pid}/net/dev"), self.interface)

    def snap(self):
        processes = {role: with_descendants(pid) for role, pid in self.roles.items()}
        self.snapshots.append(Snapshot(
            at=time.monotonic_ns(),
            cpu={role: cpu_ns(those) for role, those in processes.items()},
            machine=parse_stat(_read("/proc/stat")),
            own=time.process_time_ns(),
            packets=self.packets(),
            wakeups={role: switches(those) for role, those in processes.items()}))

    def load(self):
        """Returns the load between the first and the last snapshot at which all processes were alive."""
        usable = [s for s in self.snapshots if all(s.cpu.values())]
        if self.together:
            counts = [sum(map(len, s.cpu.values())) for s in usable]
            usable = [s for s, count in zip(usable, counts) if count == max(counts)]
        if len(usable) < 2:
            usable = self.snapshots
        return between(usable[0], usable[-1])


def _grown(before, after):
    """Sum over threads; one that began in between counts from 0, one that ended does not count."""
    return sum(n - before.get(thread, 0) for thread, n in after.items())


def between(first, last):
    """Returns the load between two snapshots."""
    seconds = max(last.at - first.at, 1) / 1e9
    ticks = {name: last.machine[name] - first.machine[name] for name in last.machine}
    total = sum(ticks.values()) or 1
    cpu = {role: _grown(first.cpu[role], last.cpu[role]) for role in last.cpu}
    busy = total - ticks["idle"] - ticks["iowait"] - ticks["steal"]
    ours = (sum(cpu.values()) + last.own - first.own) / TICK_NS
    return Load(seconds=seconds, cpu=cpu, packets=last.packets - first.packets,
                wakeups={role: _grown(first.wakeups[role], last.wakeups[role]) for role in last.wakeups},
                softirq=ticks["softirq"] * TICK_NS, steal=ticks["steal"] / total,
                other=max(0.0, (busy - ours) / total))


def disturbed(load):
    """Whether the hypervisor or other processes took so much that the turn does not count."""
    return load.steal > MAX_STEAL or load.other > MAX_OTHER
