# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Statistics of turns, and parsers of what the measuring programs print."""
import collections
import re

Spread = collections.namedtuple("Spread", "median low high")  # low and high: quartiles


def quantile(values, share):
    """Returns the quantile by linear interpolation between the two closest values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(values):
    """Returns median and quartiles, or None without values."""
    values = [v for v in values if v is not None]
    if not values:
        return None
    return Spread(quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75))


def jain(values):
    """Returns Jain's index of fairness: 1 if all are equal, 1/n if one has everything."""
    squares = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def undisturbed(turns):
    """Whether any of the turns was undisturbed."""
    return any(not t["disturbed"] for t in turns)


def counted(turns):
    """Returns the turns that count: the undisturbed ones, or all if every turn was disturbed."""
    good = [t for t in turns if not t["disturbed"]]
    return good or turns


def ratios(turns, reference, key="value"):
    """Returns the ratios of turns to those of a reference in the same round, from undisturbed pairs if there are any."""
    pairs = [(t, r) for t in turns for r in reference if (t["group"], t["round"]) == (r["group"], r["round"]) and r.get(key)]
    good = [p for p in pairs if not (p[0]["disturbed"] or p[1]["disturbed"])]
    return [t[key] / r[key] for t, r in good or pairs if t.get(key) is not None]


PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99)


def percentiles(values):
    """Returns [[percentile, value], ...]; none beyond what the number of values resolves."""
    ordered = sorted(values)
    return [[p, round(quantile(ordered, p / 100), 3)] for p in PERCENTILES if len(ordered) * (100 - p) >= 100]


def table_line(output):
    """Returns the numbers of the last line of results of perftest's bandwidth programs."""
    for line in reversed(output.splitlines()):
        fields = line.split()
        if len(fields) >= 5 and all(re.fullmatch(r"[0-9.]+", f) for f in fields):
            return [float(f) for f in fields]
    raise ValueError("no line of results")


def perftest_bandwidth(output):
    """Returns messages per second. Their number times their size is more precise than the printed Gbit/s."""
    return table_line(output)[4] * 1e6


def perftest_latency(output):
    """Returns all samples in us of a latency program that ran with -H, which prints "NUMBER, US" lines."""
    samples = [float(us) for us in re.findall(r"^ *\d+, *([0-9.]+) *$", output, re.M)]
    if not samples:
        raise ValueError("no samples")
    return samples


def cmtime_step(output, step):
    """Returns the time of a step in us for each connection, from the output of cmtime."""
    for line in output.splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == step:
            return float(numbers.split()[-1])
    raise ValueError(f"no step {step}")


def life(output):
    """Returns the median of the lives of connections in us, from the output of bench/life."""
    for line in output.splitlines():
        name, *numbers = line.split()
        if name == "life":
            return float(numbers[1])
    raise ValueError("no lives")


def regions(output):
    """Returns {step: (median, p99, longest)} in us of "register", "deregister" and "both", from the output of bench/regions."""
    lines = [line.split() for line in output.splitlines()]
    found = {line[0]: tuple(map(float, line[1:])) for line in lines if len(line) == 4}
    if "both" not in found:
        raise ValueError("no registrations")
    return found


def captured(output):
    """Returns the numbers of captured and lost packets that `xroce capture` printed at its end."""
    captured, lost = re.search(r"xroce: (\d+) packets captured, (\d+) lost", output).groups()
    return int(captured), int(lost)


def qperf_latency(output):
    """Returns the latency in us that qperf printed."""
    value, unit = re.search(r"latency *= *([0-9.,]+) *(\w+)", output).groups()
    return float(value.replace(",", "")) * {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6}[unit]
