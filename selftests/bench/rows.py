# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rows of `make bench`. To add one, add an entry to ROWS.

A group is a set of rows that are measured in turns. References are rows as well; a selected row selects its references.
"""
import collections

from beside_tcp import AllToAll, Block, Reply
from hosts import Layout
from programs import (KI, MI, AfterStream, Bandwidth, Beside, Captured, Connects, Crowd, Faulty, Floor, FloorGso, FloorLatency,
                      FloorLocal, FloorLocalLatency, FloorRate, FloorSocket, Frames, Idle, Latency, Life, Local, Memcpy, PingPong,
                      Rate, Regions, RegionsBesideStream, Senders, Streams, Tcp, TcpLatency)

BARE = Layout(daemons=False)  # an interface without xroce
WIDE = Layout()
LAYOUTS = {"mtu1500": Layout(mtu=1500), "mtu4200": Layout(mtu=4200)}
TWO_QUEUES = Layout(queues=2)
MANY_QUEUES = {n: Layout(queues=n) for n in (8, 32)}  # more than workers
# the two ways of packets
WAYS = {way: {mtu: Layout(options_a=f"--io {way}", options_b=f"--io {way}", mtu=mtu) for mtu in (0, 1500)}
        for way in ("xdp", "socket")}
# so many UDP sockets of a device, each with a worker
WORKERS = {n: Layout(options_a=f"--io socket --workers {n}", options_b=f"--io socket --workers {n}") for n in (1, 2)}
# a device of two workers, also where two processors would have one
TWO_WORKERS = Layout(queues=2, options_a="--workers 2")
MANY_QPS = Layout(options_a="--user-max-qp 65536 --client-max-load 10000")
# In generic mode veth has no NAPI, so no thread for it either.
SMALL_RING = Layout(options_a="--ring-size 128 --gso off", options_b="--gso off",
                    setup="ip netns exec $ID-a sh -c 'echo 1 >/sys/class/net/va/threaded'")

# Processors of the workers of hosts a and b, of the server and of the client
WORKER_ALONE = {"a": 0, "server": 1, "client": 1}
HOSTS_APART = {"a": 0, "server": 0, "b": 1, "client": 1}

# name; group, of a family if it is FAMILY/GROUP; what is measured; where; aims; optional: only runs if it is selected by name
Row = collections.namedtuple("Row", "name group program layout aims optional")
# The ratio to a reference, or (no reference) a figure of the row itself, which must be at least or at most the limit.
Aim = collections.namedtuple("Aim", "reference figure op limit")


def of(reference, op=None, limit=None):
    """The value as a ratio to that of another row."""
    return Aim(reference, "value", op, limit)


def own(figure, op=None, limit=None):
    """A figure of the row itself."""
    return Aim(None, figure, op, limit)


def row(name, group, program, layout, *aims, optional=False):
    return Row(name, group, program, layout, aims, optional)


def _throughput(verb, at_4_kib):
    group, program = verb, f"ib_{verb}_bw"
    large = [of("frames-4170", ">=", 0.70 if verb == "write" else 0.65)]
    tcp = [of("tcp-64k", ">=", 1.0)] if verb == "write" else []
    fall = [of(f"{verb}-64k", ">=", 1.0)]
    return [
        row(f"{verb}-4k", group, Bandwidth(program, 4 * KI), WIDE, of("frames-4170", ">=", at_4_kib)),
        row(f"{verb}-64k", group, Bandwidth(program, 64 * KI), WIDE, *large, of("floor-gso"),
            *([] if verb == "send" else [of("floor-gso-writes", ">=", 0.75)]), *tcp),
        row(f"{verb}-1m", group, Bandwidth(program, MI), WIDE, of("frames-4170", ">=", 0.65), *fall),
        row(f"{verb}-8m", group, Bandwidth(program, 8 * MI), WIDE, of("frames-4170", ">=", 0.65), of("floor-gso-8m"), *fall),
    ]


def _mtu(name, path_mtu, limit):
    """Beside TCP, raw AF_XDP with frames of RoCE packets, and the floor with GSO frames."""
    layout = LAYOUTS[name]
    return [
        row(f"{name}-tcp", name, Tcp(64 * KI), layout),
        row(f"{name}-frames", name, Frames(path_mtu + 74, path_mtu), BARE),
        row(f"{name}-floor", name, FloorGso(path_mtu), BARE),
    ] + [
        row(f"{name}-{verb}", name, Bandwidth(f"ib_{verb}_bw", 64 * KI), layout, of(f"{name}-tcp", ">=", limit),
            of(f"{name}-frames"), of(f"{name}-floor"))
        for verb in ("write", "read")]


def _private():
    return [row(f"private-{verb}-{where}", "private", Bandwidth(f"ib_{verb}_bw", 64 * KI, local=where == "local", private=True),
                WIDE)
            for where in ("hosts", "local") for verb in ("write", "read", "send")]


# Faults of so many packets of 1000, and how much of the throughput without them is the aim
FAULTS = (("drop", 1, 0.95), ("drop", 10, 0.80), ("drop", 50, 0.40), ("reorder", 10, 0.90))
LOSS_SIZES = (("64k", 64 * KI, "floor-gso"), ("8m", 8 * MI, "floor-gso-8m"))


def _loss_floors():
    """What a reliable transport in user space cannot leave out when packets are missing."""
    return [row(f"floor-loss-{name}-{fault}{n}", "floor-loss", FloorGso(4096, size, **{fault: n}), BARE, of(floor), optional=True)
            for name, size, floor in LOSS_SIZES for fault, n, _ in FAULTS]


def _loss():
    """Throughput with injected faults, as a ratio to that without, beside the floor with the same faults."""
    rows = []
    for verb in "write", "read", "send":
        for name, size, floor in LOSS_SIZES:
            program, group = Bandwidth(f"ib_{verb}_bw", size), f"loss-{verb}"
            rows.append(row(f"{group}-{name}", group, program, WIDE, of(floor), optional=True))
            rows += [row(f"{group}-{name}-{fault}{n}", group, Faulty(program, f"{fault} {n}"), WIDE,
                         of(f"{group}-{name}", ">=", limit), of(f"floor-loss-{name}-{fault}{n}"), optional=True)
                     for fault, n, limit in FAULTS]
    return rows


def _capture():
    """Throughput while the packets of one host are captured, as a ratio to that without.

    Otherwise the rate of small SENDs differs by a factor of two, depending on which threads share a processor.
    """
    programs = {"write-64k": Bandwidth("ib_write_bw", 64 * KI), "send-8": Rate("ib_send_bw", 8, bound=HOSTS_APART)}
    kinds = {"file": ("-w", "/dev/null"), "on": ("--on", "drop", "-w", "/dev/null")}
    rows = []
    for name, program in programs.items():
        rows.append(row(f"capture-{name}", "capture", program, WIDE, optional=True))
        rows += [row(f"capture-{name}-{kind}", "capture", Captured(program, *options), WIDE,
                     of(f"capture-{name}", ">=", 0.9), optional=True) for kind, options in kinds.items()]
    return rows


def _ways():
    """UDP sockets beside XDP, in turns."""
    kinds = [(f"{verb}-{name}", Bandwidth(f"ib_{verb}_bw", size), 0, ">=", limit) for verb in ("write", "read", "send")
             for name, size, limit in (("64k", 64 * KI, 1.15), ("1m", MI, 1.15), ("4k", 4 * KI, 0.9))]
    kinds += [("send-8", Rate("ib_send_bw", 8), 0, ">=", 0.8),
              ("send-8-64qp", Rate("ib_send_bw", 8, ("-q", 64)), 0, ">=", 0.6),
              ("latency", Latency("ib_write_lat", 8), 0, "<=", 1.15),
              ("mtu1500", Bandwidth("ib_write_bw", 64 * KI), 1500, ">=", 1.15),
              ("idle", Idle(0), 0, "<=", 0)]
    rows = [row("floor-socket", "io", FloorSocket(4096), BARE, optional=True)]
    for name, program, mtu, op, limit in kinds:
        rows.append(row(f"io-{name}-xdp", "io", program, WAYS["xdp"][mtu], optional=True))
        aims = [own("value", op, limit) if name == "idle" else of(f"io-{name}-xdp", op, limit)]
        if name.endswith("-64k"):
            aims.append(of("floor-socket"))
        rows.append(row(f"io-{name}-socket", "io", program, WAYS["socket"][mtu], *aims, optional=True))
    return rows


def _workers():
    """The QPs of one program with UDP sockets: two workers beside one, in turns."""
    rows = []
    for n in 2, 8, 64:
        one = f"workers-{n}qp-1"
        rows += [row(one, "workers", Streams(n), WORKERS[1], own("jain", ">=", 0.95), optional=True),
                 row(f"workers-{n}qp-2", "workers", Streams(n), WORKERS[2], of(one, ">=", 1.0), own("jain", ">=", 0.95),
                     optional=True)]
    return rows


def _observed():
    """Throughput beside readers of events and metrics, and with a rule that hits nothing, as a ratio to that without."""
    programs = {"write-64k": Bandwidth("ib_write_bw", 64 * KI), "send-8": Rate("ib_send_bw", 8)}
    rows = []
    for name, program in programs.items():
        kinds = {"monitor": Beside(program, "monitor"), "metrics": Beside(program, "metrics", again=0.2),
                 "rule": Faulty(program, "drop 0")}
        rows.append(row(f"observe-{name}", "observe", program, WIDE, optional=True))
        rows += [row(f"observe-{name}-{kind}", "observe", beside, WIDE, of(f"observe-{name}"), optional=True)
                 for kind, beside in kinds.items()]
    return rows


def _direct():
    """perftest whose transport runs in the program's own thread."""
    layout = WAYS["socket"][0]

    def direct(name, program, *aims):
        return row(f"direct-{name}", "direct", program, layout, *aims, optional=True)

    rows = [direct("tcp-polled", FloorLatency("tcp"), own("tail"))]
    rows += [direct(f"latency-{verb}", Latency(f"ib_{verb}_lat", 8, path="direct"), of("direct-tcp-polled", "<=", limit),
                    of("floor-direct"), own("tail", "<=", 3)) for verb, limit in (("write", 1.4), ("send", 1.4), ("read", 1.8))]
    rows.append(direct("send-8", Rate("ib_send_bw", 8, path="direct"), own("value", ">=", 4000), of("io-send-8-socket")))
    for verb in "write", "read", "send":
        rows += [direct(f"{verb}-4k", Bandwidth(f"ib_{verb}_bw", 4 * KI, path="direct"), of(f"io-{verb}-4k-socket", ">=", 1.3)),
                 direct(f"{verb}-64k", Bandwidth(f"ib_{verb}_bw", 64 * KI, path="direct"), of("floor-socket", ">=", 0.85),
                        of(f"io-{verb}-64k-socket"))]
    return rows


# name; XROCE_PATH; layout; family of groups
PATHS = (("direct", "direct", WAYS["socket"][0], "programs"), ("daemon", "daemon", WAYS["socket"][0], "programs"),
         ("xdp", "daemon", WIDE, "programs-xdp"))


def _programs():
    """The work of real programs: by verbs as a ratio to TCP, which polls where verbs do."""
    rows = []

    def beside_tcp(group, name, program, limit, *figures):
        tcp, layout, figures = f"{name}-tcp", WAYS["socket"][0], [own(figure) for figure in figures]
        rows.append(row(tcp, f"programs/{group}", program("tcp"), layout, *figures, optional=True))
        if group.startswith("reply"):
            rows.append(row(f"{name}-floor", f"programs-floor/{group}", program("floor"), layout, of(tcp), *figures, optional=True))
        for suffix, path, layout, family in PATHS:
            aim = (">=", limit) if path == "direct" and limit else ()
            rows.append(row(f"{name}-{suffix}", f"{family}/{group}", program(path), layout, of(tcp, *aim), Aim(tcp, "median", None, None),
                            *figures, optional=True))

    for events in True, False:
        kind = "events" if events else "polled"
        for depth in 1, 16:
            for n in 1, 16, 128:
                limit = (0.9 if events else 1.0) if depth == 1 else 1.2 if n <= 16 else 1.0
                beside_tcp(f"reply-{kind}", f"reply-{n}x{depth}-{kind}",
                           lambda path, n=n, depth=depth, events=events: Reply(path, n, depth, events), limit, "median", "p99")
    for write in False, True:
        for name, size in ("4k", 4 * KI), ("128k", 128 * KI):
            for depth in 1, 32:
                beside_tcp("block", f"block-{'write' if write else 'read'}-{name}-{depth}",
                           lambda path, size=size, depth=depth, write=write: Block(path, size, depth, write),
                           1.2 if depth == 32 else None, "gbits", "median", "p99")
    for name, size in ("8", 8), ("4k", 4 * KI), ("64k", 64 * KI):
        beside_tcp("alltoall", f"alltoall-{name}", lambda path, size=size: AllToAll(path, size), 1.2, "median", "p99")
    return rows


ROWS = [
    # raw AF_XDP: frames of RoCE packets with 4096 bytes of payload, and the smallest frames
    row("frames-4170", "ceiling", Frames(4170, 4096), BARE),
    row("frames-64", "ceiling", Frames(64, 0), BARE),
    # what a reliable transport in user space cannot leave out, beside a program that polls
    row("floor-4170", "ceiling", Floor(4170, 4096), BARE),
    # the same with messages that do not fit into the cache
    row("floor-8m", "ceiling", Floor(4170, 4096, 8 * MI), BARE, of("floor-4170")),
    # the same with GSO frames
    row("floor-gso", "ceiling", FloorGso(4096), BARE, of("floor-4170")),
    row("floor-gso-writes", "ceiling", FloorGso(4096, first=2), BARE, of("floor-gso")),
    row("floor-gso-8m", "ceiling", FloorGso(4096, 8 * MI), BARE, of("floor-gso")),
    row("floor-82", "ceiling", FloorRate(82, 8), BARE),
    row("tcp-64k", "ceiling", Tcp(64 * KI), WIDE),

    *_throughput("write", 0.60),
    *_throughput("read", 0.45),
    *_throughput("send", 0.60),
    row("send-8", "send", Rate("ib_send_bw", 8), WIDE, of("frames-64", ">=", 0.60), of("floor-82")),

    *_mtu("mtu1500", 1024, 1.0),
    *_mtu("mtu4200", 4096, 1.1),

    row("pingpong", "latency", PingPong(), BARE),
    row("floor-latency", "latency", FloorLatency("words"), BARE, own("tail")),
    row("floor-latency-write", "latency", FloorLatency("writes"), BARE, own("tail")),
    row("floor-latency-placed", "latency", FloorLatency("placed"), BARE, of("floor-latency-write")),
    row("latency-tcp", "latency", TcpLatency(), WIDE),
    # the same with programs that poll, as those of the rows below do
    row("latency-tcp-polled", "latency", FloorLatency("tcp"), WIDE, own("tail")),
    # what a reliable transport in the program's own thread cannot leave out
    row("floor-direct", "latency", FloorLatency("direct"), BARE, of("latency-tcp-polled"), own("tail")),
    row("latency-send", "latency", Latency("ib_send_lat", 8), WIDE, of("pingpong", "<=", 4), of("floor-latency"), own("tail", "<=", 3)),
    row("latency-write", "latency", Latency("ib_write_lat", 8), WIDE, of("pingpong", "<=", 8), of("floor-latency-write"),
        own("tail", "<=", 3)),
    row("latency-read", "latency", Latency("ib_read_lat", 8), WIDE, of("pingpong")),

    row("memcpy-4k", "local", Memcpy(4 * KI), BARE),
    row("memcpy-64k", "local", Memcpy(64 * KI), BARE),
    row("floor-local-4k", "local", FloorLocal(4 * KI), BARE),
    row("floor-local-64k", "local", FloorLocal(64 * KI), BARE),
    row("local-send-4k", "local", Bandwidth("ib_send_bw", 4 * KI, local=True), WIDE, of("memcpy-4k", ">=", 0.4),
        of("floor-local-4k")),
    row("local-send-64k", "local", Bandwidth("ib_send_bw", 64 * KI, local=True), WIDE, of("memcpy-64k", ">=", 0.85),
        of("floor-local-64k")),
    row("floor-local", "local", FloorLocalLatency(), BARE),
    row("local-latency", "local", Latency("ib_send_lat", 8, local=True), WIDE, own("value", "<=", 1.5), of("floor-local")),
    row("local-bound", "local", Latency("ib_send_lat", 8, local=True, bound=WORKER_ALONE), WIDE, of("local-latency"),
        of("floor-local")),

    *[r for name, size in (("4k", 4 * KI), ("64k", 64 * KI)) for r in (
        row(f"local-within-{name}", "local-workers", Local(size, False), TWO_WORKERS),
        row(f"local-across-{name}", "local-workers", Local(size, True), TWO_WORKERS, of(f"local-within-{name}", ">=", 0.8)))],

    *_private(),

    row("after-stream", "latency", AfterStream(), WIDE, own("growth", "<=", 1.2)),

    row("queues-1qp", "queues", Streams(1), TWO_QUEUES),
    *[row(f"queues-{n}qp", "queues", Streams(n), TWO_QUEUES, of("queues-1qp", ">=", 0.95), own("jain", ">=", 0.95))
      for n in (2, 8, 64, 1000)],
    *[row(f"queues-{n}", "queues", Bandwidth("ib_write_bw", 64 * KI), layout, of("write-64k", ">=", 0.9))
      for n, layout in MANY_QUEUES.items()],
    *[row(f"queues-{n}-latency", "queues", Latency("ib_write_lat", 8), layout, of("latency-write", "<=", 1.1))
      for n, layout in MANY_QUEUES.items()],

    row("idle-daemon", "idle", Idle(0), WIDE, own("value", "<=", 0), own("wakeups_a_second", "<=", 0)),
    row("idle-64k-qps", "idle", Idle(65000), MANY_QPS, own("value", "<=", 0), own("wakeups_a_second", "<=", 0)),
    row("connects", "idle", Connects(), WIDE),
    row("life", "idle", Life(), WIDE),

    row("regions", "regions", Regions(), WIDE, own("value", "<=", 100)),
    *[row(f"regions-beside-{n}", "regions", RegionsBesideStream(), layout, own("register", "<=", 1000),
          own("deregister", "<=", 1000))
      for n, layout in ((1, WIDE), *MANY_QUEUES.items())],

    # groups for `make bench T=loss`, T=capture, T=observe, T=io, T=workers, T=direct, T=programs,
    # T=overload and T=crowd
    *_loss_floors(),
    *_loss(),
    *_capture(),
    *_observed(),
    *_ways(),
    *_direct(),
    *_programs(),
    *_workers(),
    row("overload-1", "overload", Senders(1), SMALL_RING, optional=True),
    row("overload-8", "overload", Senders(8), SMALL_RING, of("overload-1", ">=", 0.90), own("jain", ">=", 0.9), optional=True),
    *[row(f"crowd-{n}", "crowd", Crowd(n), WIDE, own("jain"), optional=True) for n in (2, 8, 16)],
]


class UnknownRow(Exception):
    pass


def select(rows, wanted):
    """Returns the rows to measure as {group: rows with their references}.

    wanted: words, each the name of a group (GROUP or FAMILY/GROUP), a family or a row, or a part of names of rows; empty: all rows that are not optional
    """
    chosen = [] if wanted else [r for r in rows if not r.optional]
    for word in wanted.split():
        found = ([r for r in rows if word in (r.group, r.group.split("/")[0])] or [r for r in rows if word == r.name] or
                 [r for r in rows if word in r.name])
        if not found:
            raise UnknownRow(f"no row of the benchmark is named '{word}'; rows are: {' '.join(r.name for r in rows)}")
        chosen += [r for r in found if r not in chosen]
    by_name = {r.name: r for r in rows}
    references = {a.reference for r in rows for a in r.aims if a.reference}
    groups = {}
    for r in chosen:
        # a row that is only a reference is measured with the rows that refer to it
        if not wanted and r.name in references and not r.aims:
            continue
        group = groups.setdefault(r.group, [])
        for name in [a.reference for a in r.aims if a.reference] + [r.name]:
            if by_name[name] not in group:
                group.append(by_name[name])
    return groups
