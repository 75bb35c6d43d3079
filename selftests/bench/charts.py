# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pictures of results as SVG: throughput over message size, and percentiles of latency."""
import math
from xml.sax.saxutils import escape

import figures

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 40, 60
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#555555")


class Axis:
    """A linear or logarithmic scale from values to pixels."""

    def __init__(self, low, high, start, end, log=False):
        self.log, self.start, self.end = log, start, end
        self.low, self.high = (math.log(low), math.log(high)) if log else (low, high)

    def __call__(self, value):
        place = math.log(value) if self.log else value
        return self.start + (place - self.low) / ((self.high - self.low) or 1) * (self.end - self.start)


def steps(high):
    """Returns round values from 0 to at least high."""
    unit = 10 ** math.floor(math.log10(high))
    for factor in (0.1, 0.2, 0.5, 1, 2):
        if high / (unit * factor) <= 8:
            break
    step = unit * factor
    return [step * i for i in range(math.ceil(high / step) + 1)]


def decades(low, high):
    """Returns powers of ten around the range."""
    return [10.0 ** p for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


class Chart:
    """A line chart. Points are (x, y) or (x, y, low, high) with a bar from low to high."""

    def __init__(self, title, x_label, y_label):
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.series = []

    def add(self, name, points, dashed=False):
        if points:
            self.series.append((name, points, dashed))

    def svg(self, x_axis, x_ticks, y_axis, y_ticks):
        """x_ticks, y_ticks: [(value, text)]"""
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
               f"<title>{escape(self.title)}</title>",
               f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
               _text(WIDTH / 2, 22, self.title, "middle", 'font-size="15"'),
               _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, self.x_label, "middle"),
               _text(0, 0, self.y_label, "middle",
                     f'transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2:.1f}) rotate(-90)"')]
        for value, label in x_ticks:
            out.append(_line(x_axis(value), TOP, x_axis(value), HEIGHT - BOTTOM, "#dddddd"))
            out.append(_text(x_axis(value), HEIGHT - BOTTOM + 18, label, "middle"))
        for value, label in y_ticks:
            out.append(_line(LEFT, y_axis(value), WIDTH - RIGHT, y_axis(value), "#dddddd"))
            out.append(_text(LEFT - 8, y_axis(value) + 4, label, "end"))
        out.append(_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "black"))
        out.append(_line(LEFT, TOP, LEFT, HEIGHT - BOTTOM, "black"))
        for i, (name, points, dashed) in enumerate(self.series):
            out += _curve(points, x_axis, y_axis, COLOURS[i % len(COLOURS)], dashed)
            y = TOP + 14 + 20 * i
            out.append(_line(WIDTH - RIGHT + 14, y - 4, WIDTH - RIGHT + 38, y - 4, COLOURS[i % len(COLOURS)], 2, dashed))
            out.append(_text(WIDTH - RIGHT + 44, y, name, "start"))
        return "\n".join(out + ["</svg>", ""])


def _text(x, y, text, anchor, more=""):
    place = "" if "transform" in more else f'x="{x:.1f}" y="{y:.1f}" '
    return f'<text {place}text-anchor="{anchor}"{" " + more if more else ""}>{escape(text)}</text>'


def _line(x1, y1, x2, y2, colour, width=1, dashed=False):
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dash}/>'


def _curve(points, x_axis, y_axis, colour, dashed):
    path = " ".join(f"{x_axis(p[0]):.1f},{y_axis(p[1]):.1f}" for p in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    out = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    for point in points:
        if len(point) == 4:
            x = x_axis(point[0])
            out.append(_line(x, y_axis(point[2]), x, y_axis(point[3]), colour))
            out.append(f'<circle cx="{x:.1f}" cy="{y_axis(point[1]):.1f}" r="3" fill="{colour}"/>')
    return out


def throughput(series):
    """series: {name: [(bytes, median, low, high)]}; a series named in brackets is a reference, drawn dashed"""
    chart = Chart("Throughput between two hosts", "message size", "payload, Gbit/s")
    for name, points in series.items():
        chart.add(name.strip("()"), sorted(points), name.startswith("("))
    sizes = sorted({p[0] for points in series.values() for p in points})
    highest = steps(max(p[3] for points in series.values() for p in points))
    x_axis = Axis(sizes[0], sizes[-1], LEFT + 20, WIDTH - RIGHT - 20, log=True)
    y_axis = Axis(0, highest[-1], HEIGHT - BOTTOM, TOP)
    return chart.svg(x_axis, [(s, size_text(s)) for s in sizes], y_axis, [(v, f"{v:g}") for v in highest])


def latency(series):
    """series: {name: [(percentile, us)]}. Each step to the right has a tenth of the samples beyond it."""
    chart = Chart("Latency of 8 bytes between two hosts", "percentile of samples", "us (READ: round trip; others: one way)")
    for name, points in series.items():
        chart.add(name.strip("()"), [(100 / (100 - p), us) for p, us in points], name.startswith("("))
    beyond = [x for _, points, _ in chart.series for x, _ in points]
    values = [us for _, points, _ in chart.series for _, us in points]
    ticks = [t for t in (0, 50, 90, 99, 99.9, 99.99) if 100 / (100 - t) <= max(beyond) * 1.001]
    powers = decades(min(values), max(values))
    x_axis = Axis(1, max(beyond), LEFT, WIDTH - RIGHT - 10, log=True)
    y_axis = Axis(powers[0], powers[-1], HEIGHT - BOTTOM, TOP, log=True)
    return chart.svg(x_axis, [(100 / (100 - t), f"{t:g}") for t in ticks], y_axis, [(v, f"{v:g}") for v in powers])


def _throughput_series(results):
    """Rows that are named VERB-SIZE, and the references as lines over all sizes."""
    sizes = {"4k": 4 << 10, "64k": 64 << 10, "1m": 1 << 20, "8m": 8 << 20}
    series = {}
    for verb in ("write", "read", "send"):
        for name, size in sizes.items():
            turns = results.of(f"{verb}-{name}", "A")
            if turns:
                found = figures.spread([t["value"] for t in figures.counted(turns)])
                series.setdefault(verb.upper(), []).append((size, *found))
    for row, name in ("frames-4170", "(raw AF_XDP)"), ("tcp-64k", "(TCP, 64 KiB writes)"):
        turns = results.of(row, "A")
        if turns and series:
            found = figures.spread([t["value"] for t in figures.counted(turns)])
            shown = sorted({p[0] for points in series.values() for p in points})
            series[name] = [(size, *found) for size in (shown[0], shown[-1])]
    return series


def _latency_series(results):
    """Percentiles of each row as medians over the turns that count."""
    series = {}
    for row, name in (("latency-send", "SEND"), ("latency-write", "WRITE"), ("latency-read", "READ"),
                      ("pingpong", "(raw AF_XDP)")):
        lists = {}
        for turn in figures.counted(results.of(row, "A")):
            for percentile, us in turn.get("percentiles", []):
                lists.setdefault(percentile, []).append(us)
        if lists:
            series[name] = [(p, figures.quantile(values, 0.5)) for p, values in sorted(lists.items())]
    return series


def pictures(results):
    """Returns {name: SVG} of the pictures for which there are results."""
    found = {"throughput": (throughput, _throughput_series(results)), "latency": (latency, _latency_series(results))}
    return {name: draw(series) for name, (draw, series) in found.items() if series}
