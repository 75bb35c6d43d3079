# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures rows in turns: in each round, each row of a group once, with build A and with build B."""
import collections
import dataclasses
import pathlib
import time

import load
from hosts import Failed, Hosts, Missing


@dataclasses.dataclass
class Plan:
    rounds: int = 3  # undisturbed turns wanted of each row
    extra: int = 3  # further rounds, for rows of which turns were disturbed
    seconds: float = 330  # no further rounds after that time


def record(row, group, tree, number, turn):
    """Returns the line of the file of results for a turn."""
    seen = turn.load
    line = {
        "type": "turn", "row": row.name, "group": group, "tree": tree, "round": number,
        "value": turn.value, "unit": row.program.unit, "seconds": round(seen.seconds, 3),
        "steal": round(seen.steal, 4), "other": round(seen.other, 4), "disturbed": load.disturbed(seen),
        "cores": {role: round(ns / seen.seconds / 1e9, 4) for role, ns in seen.cpu.items()},
        "softirq_cores": round(seen.softirq / seen.seconds / 1e9, 4),
        "wakeups": {role: round(n / seen.seconds, 1) for role, n in seen.wakeups.items()},
        **turn.more,
    }
    if seen.packets > 0:  # veth's counter can be read while it is being updated
        line["packets"] = round(seen.packets / seen.seconds)
        line["packet_ns"] = {role: round(ns / seen.packets, 1) for role, ns in seen.cpu.items()}
        line["packet_ns"]["softirq"] = round(seen.softirq / seen.packets, 1)
    if turn.messages:
        line["messages"] = round(turn.messages)
        line["message_ns"] = {role: round(ns / seen.seconds / turn.messages, 1) for role, ns in seen.cpu.items()}
        line["message_ns"]["softirq"] = round(seen.softirq / seen.seconds / turn.messages, 1)
    sender = getattr(row.program, "sender", None)
    if sender:
        line["sender"] = sender
    return line


def lacking(rows, turns, trees_of, wanted):
    """Returns the rows of which a build has fewer undisturbed turns than wanted, with their references."""
    good = collections.Counter((t["row"], t["tree"]) for t in turns if not t["disturbed"])
    short = [row for row in rows if any(good[row.name, tree] < wanted for tree in trees_of(row))]
    names = {row.name for row in short} | {a.reference for row in short for a in row.aims}
    return [row for row in rows if row.name in names]


class Runner:
    """Runs a plan.

    trees: {"A": build folder, ...}; tools: build folder of this tree; emit: called with each line of results
    """

    def __init__(self, trees, tools, plan, emit):
        self.trees, self.tools, self.plan, self.emit = trees, pathlib.Path(tools), plan, emit
        self.started = time.monotonic()
        self.hosts = {}
        self.done = []
        self.failed = {}
        self.skipped = {}

    def trees_of(self, row):
        """Builds to measure a row with: only the first one, if it measures nothing of xroce."""
        return list(self.trees) if uses_xroce(row) else ["A"]

    def hosts_for(self, row, tree):
        key = (row.layout, tree if row.layout.daemons else "A")
        if key not in self.hosts:
            self.hosts[key] = Hosts(self.trees[key[1]], row.layout)
        return self.hosts[key]

    def turn(self, row, group, tree, number):
        if (row.name, tree) in self.failed or (row.name, tree) in self.skipped:
            return
        try:
            turn = row.program.measure(self.hosts_for(row, tree), self.tools)
        except Missing as error:
            self.skipped[row.name, tree] = str(error)
            self.emit({"type": "skip", "row": row.name, "tree": tree, "text": str(error)})
            return
        except (Failed, OSError, ValueError, LookupError) as error:
            self.failed[row.name, tree] = str(error)
            self.emit({"type": "failure", "row": row.name, "tree": tree, "text": str(error)})
            return
        line = record(row, group, tree, number, turn)
        self.done.append(line)
        self.emit(line)

    def round(self, rows, group, number):
        for row in rows:
            trees = self.trees_of(row)
            # neither build is always the first
            for tree in trees if number % 2 else reversed(trees):
                self.turn(row, group, tree, number)

    def left_out(self, row):
        """Whether all builds lack what the row measures."""
        return all((row.name, tree) in self.skipped for tree in self.trees_of(row))

    def group(self, name, rows):
        """Measures the rows of a group in turns."""
        for number in range(1, self.plan.rounds + 1):
            self.round(rows, name, number)
        for number in range(self.plan.rounds + 1, self.plan.rounds + self.plan.extra + 1):
            turns = [t for t in self.done if t["group"] == name]
            again = lacking([row for row in rows if not self.left_out(row)], turns, self.trees_of, self.plan.rounds)
            if not again or time.monotonic() - self.started > self.plan.seconds:
                break
            self.round(again, name, number)

    def close(self):
        for hosts in self.hosts.values():
            hosts.close()


def uses_xroce(row):
    """Whether the figure depends on the build of xroce."""
    return hasattr(row.program, "sender") or getattr(row.program, "xroce", False)
