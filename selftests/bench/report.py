#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tables and pictures of results of `make bench`.

  report.py FILE           prints the tables
  report.py FILE --docs    writes tables and pictures into docs/performance.md and docs/performance-*.svg

FILE has one JSON object a line; docs/performance.md describes them.
"""
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True

import charts
import figures
import rows as table

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = TOP / "docs/performance.md"
FIGURES = {"value": "", "tail": "p99 / median", "jain": "Jain's index", "growth": "of that before the stream",
           "wakeups_a_second": "wake-ups a second", "median": "us median", "p99": "us p99", "gbits": "Gbit/s"}
PARTS = ("sender worker", "receiver worker", "sender", "receiver", "softirq")


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def number(value):
    """Three digits, without exponent."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def micro(ns):
    return None if ns is None else ns / 1000


def range_of(spread):
    return f"{number(spread.median)} [{number(spread.low)}, {number(spread.high)}]"


def by_direction(costs, sender):
    """Renames client and server to sender and receiver of the payload."""
    receiver = "client" if sender == "server" else "server"
    names = {sender: "sender", receiver: "receiver", f"{sender} worker": "sender worker",
             f"{receiver} worker": "receiver worker", "softirq": "softirq"}
    return {names[role]: ns for role, ns in costs.items() if role in names}


def costs(turns, key):
    """Returns the medians of processor time in ns, by part, of the turns that count."""
    lists = {}
    for turn in turns:
        for part, ns in by_direction(turn.get(key, {}), turn.get("sender", "client")).items():
            lists.setdefault(part, []).append(ns)
    return {part: figures.quantile(values, 0.5) for part, values in lists.items()}


class Results:
    """All lines of a file, by row and build."""

    def __init__(self, lines):
        self.run = next((x for x in lines if x["type"] == "run"), {})
        self.failures = [x for x in lines if x["type"] == "failure"]
        self.skips = [x for x in lines if x["type"] == "skip"]
        self.turns = [x for x in lines if x["type"] == "turn"]

    def of(self, name, tree):
        return [t for t in self.turns if t["row"] == name and t["tree"] == tree]

    def reference(self, name, tree):
        return self.of(name, tree) or self.of(name, "A")

    def names(self):
        return list(dict.fromkeys((t["group"], t["row"]) for t in self.turns))

    def trees(self):
        return sorted({t["tree"] for t in self.turns})

    def judged(self, row, tree):
        """Returns [(what, Spread, Aim, verdict)] of a row's aims; without undisturbed turns no aim is judged."""
        judged = []
        mine = self.of(row.name, tree)
        for aim in row.aims:
            if aim.reference:
                values = figures.ratios(mine, self.reference(aim.reference, tree), aim.figure)
                what = f"of {aim.reference}" + (f" ({FIGURES[aim.figure]})" if aim.figure != "value" else "")
            else:
                values = [t[aim.figure] for t in figures.counted(mine) if aim.figure in t]
                what = FIGURES.get(aim.figure, aim.figure)
            found = figures.spread(values)
            if found:
                pairs = [mine, self.reference(aim.reference, tree)] if aim.reference else [mine]
                judged.append((what, found, aim, verdict(found.median, aim, all(map(figures.undisturbed, pairs)))))
        return judged


def verdict(value, aim, undisturbed):
    if not undisturbed:
        return "not judged"
    return "met" if (value >= aim.limit if aim.op == ">=" else aim.op and value <= aim.limit) else "NOT met"


def verdicts(judged):
    texts = []
    for what, found, aim, word in judged:
        goal = f" (aim {aim.op} {aim.limit:g}: {word})" if aim.op else ""
        texts.append(f"{number(found.median)} {what}".strip() + goal)
    return "; ".join(texts)


def left_out(turns):
    """Returns "3 of 4 turns", or that all were disturbed."""
    good = sum(not t["disturbed"] for t in turns)
    return f"{good} of {len(turns)}" if good else f"ALL {len(turns)} disturbed"


def table_rows(results):
    """Yields (group, row, unit, tree, value, [part costs a packet], [a message], turns, ratios) as strings."""
    known = {row.name: row for row in table.ROWS}
    for group, name in results.names():
        for tree in results.trees():
            turns = [t for t in results.of(name, tree) if t["group"] == group]
            if not turns:
                continue
            used = figures.counted(turns)
            packet, message = costs(used, "packet_ns"), costs(used, "message_ns")
            texts = [verdicts(results.judged(known[name], tree))] if name in known else []
            if tree == "B":
                change = figures.spread(figures.ratios(turns, results.of(name, "A")))
                # no ratio if all turns of A failed
                texts.insert(0, f"B/A {range_of(change)}" if change else "B/A unknown")
            yield (group, name, turns[0]["unit"], tree, range_of(figures.spread([t["value"] for t in used])),
                   [number(packet.get(p)) for p in PARTS], [number(micro(message.get(p))) for p in PARTS],
                   left_out(turns), "; ".join(t for t in texts if t))


def text(results):
    """Returns all tables as text."""
    lines, last = [], None
    several = len(results.trees()) > 1
    for group, name, unit, tree, value, packet, message, turns, rest in table_rows(results):
        if group != last:
            lines += ["", f"{group:<28}{'median [quartiles]':>26}  {'ns a packet, workers':>22}  {'us a message, programs':>24}  turns"]
            last = group
        label = name + (f" {tree}" if several else "")
        lines.append(f"  {label:<26}{value + ' ' + unit:>26}  {packet[0] + ', ' + packet[1]:>22}  "
                     f"{message[2] + ', ' + message[3]:>24}  {turns}")
        if rest:
            lines.append(f"      {rest}")
    for failure in results.failures:
        lines += ["", f"{failure['row']} {failure['tree']} FAILED: {failure['text']}"]
    for reason in dict.fromkeys(skip["text"] for skip in results.skips):
        names = [skip["row"] for skip in results.skips if skip["text"] == reason]
        lines += ["", f"{len(names)} row{'s were' if len(names) > 1 else ' was'} skipped, {reason}: {' '.join(names)}"]
    out = sum(t["disturbed"] for t in results.turns)
    lines += ["", f"{out} of {len(results.turns)} turns were disturbed: steal over {results.run.get('max_steal', 0):.0%} or other "
              f"processes over {results.run.get('max_other', 0):.0%} of all processors. They count only for rows without others."]
    steal = [t["steal"] for t in results.turns if "steal" in t]
    if steal:
        lines.append(f"steal: {figures.quantile(steal, 0.5):.1%} in the median turn, {max(steal):.1%} at most")
    return "\n".join(lines)


def markdown(results):
    """Returns one Markdown table of all rows."""
    lines = ["| row | median [quartiles] | ratios and aims | ns a packet: workers of sender, receiver | "
             "us a message: programs of sender, receiver | undisturbed turns |", "|---|---|---|---|---|---|"]
    several = len(results.trees()) > 1
    for _, name, unit, tree, value, packet, message, turns, rest in table_rows(results):
        lines.append(f"| {name}{' ' + tree if several else ''} | {value} {unit} | {rest} | {packet[0]}, {packet[1]} | "
                     f"{message[2]}, {message[3]} | {turns} |")
    return "\n".join(lines)


def between_marks(page, content):
    """Replaces what is between the marks of the page."""
    begin, end = "<!-- bench: begin -->\n", "<!-- bench: end -->\n"
    return re.sub(re.escape(begin) + ".*" + re.escape(end), lambda _: begin + content + "\n" + end, page, flags=re.S)


def write_docs(results):
    run = results.run
    pictures = charts.pictures(results)
    links = "\n\n".join(f"![{name}](performance-{name}.svg)" for name in pictures)
    content = f"{run['conditions']}; measured on {run['date']}.\n\n{links}\n\n{markdown(results)}"
    PAGE.write_text(between_marks(PAGE.read_text(), content))
    for name, picture in pictures.items():
        (PAGE.parent / f"performance-{name}.svg").write_text(picture)


def main():
    results = Results(read(sys.argv[1]))
    if "--docs" in sys.argv[2:]:
        write_docs(results)
    else:
        print(text(results))


if __name__ == "__main__":
    main()
