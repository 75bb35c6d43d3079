# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a row can measure. Each class runs its programs once (a turn) and returns a Turn.

`hosts` is a Hosts of the row's layout; `tools` is the build folder of this tree with the programs of the benchmark itself.
"""
import json
import os
import pathlib
import signal
import subprocess
import time

import figures
from hosts import ADDRESS, Failed, Missing, stop, wait_until
from load import Recorder

SECONDS = float(os.environ.get("SECONDS_EACH", 1))  # of a turn
PORT = 18515
TIME_LIMIT = 60
SNAPSHOT_SECONDS = 0.1
STARTED_PACKETS = 64  # more than connection management and address resolution need
STARTED_CPU_NS = 3_000_000  # in one poll of 10 ms

KI = 1 << 10
MI = 1 << 20


class Turn:
    """The result of a turn.

    value: the figure in the unit of the row; messages: per second; load: a Load; more: further figures by name
    """

    def __init__(self, value, load, messages=None, **more):
        self.value, self.load, self.messages, self.more = value, load, messages, more


def watch(recorder, process, started):
    """Takes snapshots from the start of traffic until the process ends; the last one, during its exit, is left out."""
    wait_until(lambda: process.poll() is not None or started(), TIME_LIMIT)
    recorder.snap()
    while True:
        try:
            process.wait(SNAPSHOT_SECONDS)
            break
        except subprocess.TimeoutExpired:
            recorder.snap()
        if len(recorder.snapshots) * SNAPSHOT_SECONDS > TIME_LIMIT:
            raise Failed(f"{process.command}: still running after {TIME_LIMIT} s")
    recorder.snap()
    if len(recorder.snapshots) > 3:
        recorder.snapshots.pop()
    return recorder.load()


def checked(process):
    """Returns the output of a program that has ended; fails if it failed."""
    output = process.output.read_text(errors="replace")
    process.output.unlink()
    if process.returncode:
        raise Failed(f"{process.command}: status {process.returncode}\n{output}")
    return output


def _busy_since(pid):
    """Returns a function that tells whether a process has begun to work hard."""
    recorder = Recorder({"it": pid})
    recorder.snap()

    def started():
        recorder.snap()
        before, now = recorder.snapshots[-2:]
        return sum(now.cpu["it"].values()) - sum(before.cpu["it"].values()) > STARTED_CPU_NS
    return started


def alone(hosts, host, command, **how):
    """Runs one program and returns its output and its load."""
    process = hosts.spawn(host, command, **{"rdma": False, **how})
    try:
        load = watch(Recorder({"program": process.pid}, together=True), process, lambda: True)
        return checked(process), load
    finally:
        stop(process)


def pair(hosts, server, client, client_host="b", port=PORT, server_ends=True, listens=None, **how):
    """Runs a server on host a and a client, and returns both outputs and the load.

    listens: tells whether the server is ready, by default by its TCP port
    Roles of the load: "server" and "client", "server worker" and "client worker" for the daemons of their hosts.
    """
    first = hosts.spawn("a", server, **how)
    second = None
    try:
        listens = listens or (lambda: hosts.listens(first, port))
        if not wait_until(lambda: listens() or first.poll() is not None, TIME_LIMIT):
            raise Failed(f"{first.command}: does not listen on port {port}")
        roles = {"server": first.pid}
        if hosts.daemon:
            roles["server worker"] = hosts.daemon["a"]
        if hosts.daemon and client_host == "b":
            roles["client worker"] = hosts.daemon["b"]
        across = client_host == "b"
        recorder = Recorder(roles, first.pid if across else None, "va")
        before = recorder.packets()
        started = (lambda: recorder.packets() - before > STARTED_PACKETS) if across else _busy_since(hosts.daemon["a"])
        second = hosts.spawn(client_host, client, **how)
        recorder.roles.update(client=second.pid, **hosts.beside)
        load = watch(recorder, second, started)
        try:
            client_output = checked(second)
        except Failed as error:
            raise Failed(f"{error}\n{first.command}: status {first.poll()}\n{first.output.read_text(errors='replace')}") from error
        if server_ends:
            first.wait(TIME_LIMIT)
            return checked(first), client_output, load
        return "", client_output, load
    finally:
        for process in first, second:
            if process:
                stop(process)


DIRECT_LIBRARY = "libxroce-direct.so"


def path_environment(hosts, path):
    """Returns the environment of a program with that path: "direct", "daemon", or None for that of XROCE_PATH.

    Fails if the build lacks the path.
    """
    if path == "direct" and not (hosts.build / DIRECT_LIBRARY).exists():
        raise Missing(f"{hosts.build} has no {DIRECT_LIBRARY}")
    return {"XROCE_PATH": path} if path else {}


class Perftest:
    """A program of perftest between two hosts, or within host a if local.

    path: see path_environment(); bound: the processors of server, client and workers, see rows.py; by default, the scheduler chooses
    """

    def __init__(self, program, size, arguments=(), local=False, private=False, bound=None, path=None):
        self.bound, self.path = bound or {}, path
        self.program, self.size, self.arguments, self.local = program, size, list(arguments), local
        self.environment = {"XROCE_ADOPT": "never"} if private else {}
        # whose worker sends most bytes
        self.sender = "server" if "read" in program else "client"

    def run(self, hosts, extra):
        client_host = "a" if self.local else "b"
        command = [self.program, "-F", "-p", PORT, "-s", self.size, *self.arguments, *extra]
        environment = {**self.environment, **path_environment(hosts, self.path)}
        with hosts.workers_on(self.bound):
            _, output, load = pair(hosts, [*self.on("server"), *command, "-x", hosts.gid["a"]],
                                   [*self.on("client"), *command, "-x", hosts.gid[client_host], ADDRESS["a"]],
                                   client_host, env=environment)
        return output, load

    def on(self, role):
        return ["taskset", "-c", self.bound[role]] if self.bound else []


class Bandwidth(Perftest):
    """Gbit/s of payload."""

    unit = "Gbit/s"

    def measure(self, hosts, tools):
        output, load = self.run(hosts, ["-D", max(1, round(SECONDS)), "--report_gbits"])
        messages = figures.perftest_bandwidth(output)
        return Turn(self.value(messages), load, messages)

    def value(self, messages):
        return messages * self.size * 8 / 1e9


class Rate(Bandwidth):
    """Messages a second, in thousands."""

    unit = "k/s"

    def value(self, messages):
        return messages / 1e3


class Latency(Perftest):
    """Median latency in us: one way for WRITE and SEND, a round trip for READ."""

    unit = "us"
    samples = 20000

    def measure(self, hosts, tools):
        output, load = self.run(hosts, ["-H", "-n", self.samples])
        return latency_turn(figures.perftest_latency(output), load)


def latency_turn(samples, load):
    median, p99 = figures.quantile(samples, 0.5), figures.quantile(samples, 0.99)
    return Turn(median, load, len(samples) / sum(samples) * 1e6, p99=p99, tail=p99 / median,
                percentiles=figures.percentiles(samples))


class Frames:
    """Rate of raw AF_XDP frames of that size, in Gbit/s of RoCE payload, or in thousands a second if that is 0."""

    def __init__(self, frame, payload):
        self.frame, self.payload = frame, payload
        self.unit = "Gbit/s" if payload else "k/s"

    def measure(self, hosts, tools):
        output, load = alone(hosts, "a", ceiling(hosts, tools, SECONDS / 2, self.frame))
        rate = float(output.split("\t")[2])
        return Turn(rate * self.payload * 8 / 1e9 if self.payload else rate / 1e3, load, rate)


class PingPong:
    """Median time in us of one way between raw AF_XDP sockets, both sides spinning."""

    unit = "us"

    def measure(self, hosts, tools):
        output, load = alone(hosts, "a", ceiling(hosts, tools, SECONDS / 2, 0))
        return latency_turn([float(us) for us in output.split()], load)


def ceiling(hosts, tools, seconds, frame):
    return [tools / "bench/xdp_ceiling", hosts.netns("a"), "va", hosts.netns("b"), "vb", seconds, frame]


class Floor:
    """Gbit/s of payload between processes that only copy it, check CRCs and acknowledge, beside a program that looks for it.

    memory: bytes that each side uses; packet_ns: processor time of a packet of payload, without ACKs
    """

    unit = "Gbit/s"

    def __init__(self, frame, payload, memory=64 * KI):
        self.payload, self.arguments = payload, ("frames", frame, payload, memory)

    def measure(self, hosts, tools):
        kind, *sizes = self.arguments
        output, load = alone(hosts, "a", floor(hosts, tools, kind, *sizes))
        rate, sender, receiver, program, *more = map(float, output.split("\t")[2:])
        return Turn(rate * self.payload * 8 / 1e9, load, rate, **self.details(*more),
                    packet_ns={"client worker": sender, "server worker": receiver, "program": program})

    def details(self, *more):
        return {}


class FloorGso(Floor):
    """The same with GSO frames of as many packets as fit into one, and selective repeat.

    payload: of a packet; drop, reorder: so many of 1000 packets are lost, or overtaken by others, at the receiver; first: so
    many packets of each message of 64 KiB have a frame of their own
    """

    def __init__(self, payload, memory=64 * KI, drop=0, reorder=0, first=0):
        self.payload, self.arguments = payload, ("gso", payload, memory, drop, reorder, first)

    def details(self, frames, in_flight, gap_ns):
        return {"frames": frames, "in_flight": in_flight, "gap_us": gap_ns / 1e3}


class FloorSocket(FloorGso):
    """The same through UDP sockets, without losses."""

    def __init__(self, payload, memory=64 * KI):
        self.payload, self.arguments = payload, ("socket", payload, memory)


class FloorRate(Floor):
    """Messages of one frame a second, in thousands."""

    unit = "k/s"

    def measure(self, hosts, tools):
        turn = super().measure(hosts, tools)
        turn.value = turn.messages / 1e3
        return turn


class FloorLatency:
    """Median time in us of one way between two programs, through a process with an AF_XDP socket on each side.

    kind: words; writes: the programs never yield, so the processes between them sleep; placed: the XDP program of the
    receiver does its part. Without such processes: direct: through UDP sockets that the programs poll; tcp: through TCP
    sockets that they poll
    """

    unit = "us"

    def __init__(self, kind):
        self.kind = kind

    def measure(self, hosts, tools):
        output, load = alone(hosts, "a", floor(hosts, tools, self.kind))
        return latency_turn([float(us) for us in output.split()], load)


class FloorLocalLatency:
    """Median time in us of one way between two programs through a process that shares memory with both."""

    unit = "us"

    def measure(self, hosts, tools):
        output, load = alone(hosts, "a", [tools / "bench/floor", SECONDS / 2, "words"])
        return latency_turn([float(us) for us in output.split()], load)


class FloorLocal:
    """Gbit/s of messages of that size between two programs through a process that only copies them and writes completions.

    worker_ns, sender_ns, receiver_ns: the processor time of process and programs for a message
    """

    unit = "Gbit/s"

    def __init__(self, size):
        self.size = size

    def measure(self, hosts, tools):
        output, load = alone(hosts, "a", [tools / "bench/floor_local", SECONDS / 2, self.size])
        rate, worker, sender, receiver = map(float, output.split("\t")[2:])
        return Turn(rate * self.size * 8 / 1e9, load, rate, worker_ns=worker, sender_ns=sender, receiver_ns=receiver)


def floor(hosts, tools, kind, *sizes):
    return [tools / "bench/floor", SECONDS / 2, kind, hosts.netns("a"), "va", hosts.netns("b"), "vb", *sizes]


class Tcp:
    """Gbit/s of TCP (iperf3), with GSO, writes of that size."""

    unit = "Gbit/s"
    port = 5201

    def __init__(self, size):
        self.size = size

    def measure(self, hosts, tools):
        _, output, load = pair(hosts, ["iperf3", "-s", "-1"],
                               ["iperf3", "-J", "-c", ADDRESS["a"], "-l", self.size, "-t", max(1, round(SECONDS))],
                               port=self.port, rdma=False)
        bits = json.loads(output)["end"]["sum_received"]["bits_per_second"]
        return Turn(bits / 1e9, load, bits / 8 / self.size)


class TcpLatency:
    """Mean latency of TCP in us, one way (qperf), client and server on a processor each.

    Without affinity, figures differ by a factor of ten, depending on whether they share a processor.
    """

    unit = "us"
    port = 19765

    def measure(self, hosts, tools):
        last = str(os.cpu_count() - 1)
        _, output, load = pair(hosts, ["taskset", "-c", last, "qperf"],
                               ["taskset", "-c", "0", "qperf", "-m", "8", "-t", max(1, round(SECONDS)),
                                ADDRESS["a"], "tcp_lat"],
                               port=self.port, rdma=False, server_ends=False)
        us = figures.qperf_latency(output)
        return Turn(us, load, 1e6 / us)


class Memcpy:
    """Gbit/s of memcpy on one core."""

    unit = "Gbit/s"

    def __init__(self, size):
        self.size = size

    def measure(self, hosts, tools):
        output, load = alone(hosts, "a", [tools / "bench/memcpy_rate", self.size])
        return Turn(float(output.split()[1]), load)


class Streams:
    """Gbit/s of 64 KiB WRITEs on several QPs of one program; `jain` is Jain's index over the QPs."""

    unit = "Gbit/s"
    sender = "client"
    size = 64 * KI

    def __init__(self, qps):
        self.qps = qps
        # a QP must send many messages, or chance decides its share
        self.seconds = SECONDS * 3 if qps >= 1000 else SECONDS

    def command(self, hosts, tools, what, host, port, *more):
        return [tools / "bench/streams", what, hosts.gid[host], port, self.qps, *more]

    def measure(self, hosts, tools):
        _, output, load = pair(hosts, self.command(hosts, tools, "serve", "a", PORT),
                               self.command(hosts, tools, "write", "b", PORT, ADDRESS["a"], self.seconds))
        messages, fairness = map(float, output.split())
        return Turn(messages * self.size * 8 / 1e9, load, messages, jain=fairness)


class AfterStream(Streams):
    """Median latency of 8-byte READs in us, from 20 ms after a stream of 64 KiB WRITEs of the same program.

    `before` is that before the stream, `soon` that in the first 20 ms after it; `growth` compares with `before`.
    """

    unit = "us"

    def __init__(self):
        super().__init__(1)

    def measure(self, hosts, tools):
        _, output, load = pair(hosts, self.command(hosts, tools, "serve", "a", PORT),
                               self.command(hosts, tools, "after", "b", PORT, ADDRESS["a"], SECONDS))
        before, soon, later = map(float, output.splitlines()[-1].split())
        return Turn(later, load, before=before, soon=soon, growth=later / before)


class Senders(Streams):
    """Gbit/s of all of several programs on host b that send 64 KiB WRITEs to host a at once; `jain` is Jain's index."""

    def __init__(self, count):
        super().__init__(1)
        self.count = count

    def commands(self, hosts, tools, port):
        """Returns those of a server and its client."""
        return (self.command(hosts, tools, "serve", "a", port),
                self.command(hosts, tools, "write", "b", port, ADDRESS["a"], SECONDS))

    def rate(self, output):
        """Returns messages a second, from the output of a client."""
        return float(output.split()[0])

    def measure(self, hosts, tools):
        servers, clients = [], []
        roles = {"server worker": hosts.daemon["a"], "client worker": hosts.daemon["b"], **napi_threads("va")}
        recorder = Recorder(roles, hosts.daemon["a"], "va")
        try:
            for port in range(PORT, PORT + self.count):
                servers.append(hosts.spawn("a", self.commands(hosts, tools, port)[0]))
            for port, server in enumerate(servers, PORT):
                if not wait_until(lambda: hosts.listens(server, port) or server.poll() is not None, TIME_LIMIT):
                    raise Failed(f"{server.command}: does not listen")
            before = recorder.packets()
            for port in range(PORT, PORT + self.count):
                clients.append(hosts.spawn("b", self.commands(hosts, tools, port)[1]))
            for i, (server, client) in enumerate(zip(servers, clients)):
                recorder.roles.update({f"server {i}": server.pid, f"client {i}": client.pid})
            load = watch(recorder, clients[0], lambda: recorder.packets() - before > STARTED_PACKETS)
            rates = []
            for client in clients:
                client.wait(TIME_LIMIT)
                rates.append(self.rate(checked(client)))
        finally:
            for process in servers + clients:
                stop(process)
        return Turn(sum(rates) * self.size * 8 / 1e9, load, sum(rates), jain=figures.jain(rates))


class Local(Senders):
    """Gbit/s of two programs of host a that send WRITEs to two others there, one of each worker, from one QP each.

    across: each sends to a QP of the other worker, else to one of its own.
    """

    def __init__(self, size, across):
        super().__init__(2)
        self.size, self.across = size, across

    def measure(self, hosts, tools):
        started = []
        try:
            for vector in range(2):
                port = PORT + vector
                server = hosts.spawn("a", self.command(hosts, tools, "serve", "a", port, 1 - vector if self.across else vector))
                started.append(server)
                if not wait_until(lambda: hosts.listens(server, port) or server.poll() is not None, TIME_LIMIT):
                    raise Failed(f"{server.command}: does not listen")
            more = (ADDRESS["a"], self.seconds, self.size)
            clients = [hosts.spawn("a", self.command(hosts, tools, "write", "a", PORT + vector, *more, vector)) for vector in range(2)]
            started += clients
            load = watch(Recorder({"server worker": hosts.daemon["a"], **{f"client {i}": c.pid for i, c in enumerate(clients)}}),
                         clients[0], lambda: True)
            for client in clients:
                client.wait(TIME_LIMIT)
            rates = [self.rate(checked(client)) for client in clients]
        finally:
            for process in started:
                stop(process)
        return Turn(sum(rates) * self.size * 8 / 1e9, load, sum(rates), jain=figures.jain(rates))


class Crowd(Senders):
    """The same with SENDs of perftest, whose servers poll as well: twice as many programs that wait."""

    def commands(self, hosts, tools, port):
        command = ["ib_send_bw", "-F", "-p", port, "-s", self.size, "-D", max(1, round(SECONDS)), "--report_gbits"]
        return [*command, "-x", hosts.gid["a"]], [*command, "-x", hosts.gid["b"], ADDRESS["a"]]

    def rate(self, output):
        return figures.perftest_bandwidth(output)


def napi_threads(interface):
    """Returns the kernel's threads that receive for interfaces of that name, as {name: PID}."""
    found = {path.read_text().strip(): int(path.parent.name) for path in pathlib.Path("/proc").glob("[0-9]*/comm")}
    return {name: pid for name, pid in found.items() if name.startswith(f"napi/{interface}-")}


class Faulty:
    """Another measurement while a host injects faults into packets of both directions, see `xroce fault`.

    That is the host that receives the payload: the sender would divide GSO frames where packets are missing, which no
    network does.
    """

    def __init__(self, program, faults):
        self.program, self.faults = program, faults
        self.unit, self.sender = program.unit, program.sender
        self.host = "b" if program.sender == "server" else "a"

    def measure(self, hosts, tools):
        fault = f"ctl {self.host} fault xr{self.host}"
        hosts.sh(f"{fault} {self.faults} seed {time.monotonic_ns() % 10**6 + 1}")
        try:
            return self.program.measure(hosts, tools)
        finally:
            hosts.sh(f"{fault} off")


class Captured:
    """Another measurement while `xroce capture` records the packets of host a, 128 bytes of each."""

    def __init__(self, program, *options):
        self.program, self.options = program, options
        self.unit, self.sender = program.unit, program.sender

    def measure(self, hosts, tools):
        recording = hosts.spawn("a", [hosts.build / "xroce", "-r", hosts.run / "a", "capture", "xra", "-s", 128,
                                      *self.options], rdma=False)
        hosts.beside["capture"] = recording.pid
        try:
            turn = self.program.measure(hosts, tools)
            recording.send_signal(signal.SIGINT)
            recording.wait(TIME_LIMIT)
            captured, lost = figures.captured(recording.output.read_text())
            # the packets of a second, as messages a second
            if recording.returncode or captured + lost < turn.messages / 2:
                raise Failed(f"{recording.command}: {recording.output.read_text()}")
        finally:
            hosts.beside.clear()
            stop(recording)
        return turn


class Beside:
    """Another measurement beside a command of xroce about host a, which is run again and again if it does not last."""

    def __init__(self, program, command, again=0):
        self.program, self.command, self.again = program, command, again
        self.unit, self.sender = program.unit, program.sender

    def measure(self, hosts, tools):
        xroce = f"{hosts.build}/xroce -r {hosts.run}/a {self.command} xra"
        script = f"while {xroce} >/dev/null; do sleep {self.again}; done" if self.again else f"exec {xroce} >/dev/null"
        reader = hosts.spawn("a", ["bash", "-c", script], rdma=False)
        try:
            turn = self.program.measure(hosts, tools)
            if reader.poll() is not None:
                raise Failed(f"{xroce}: {reader.output.read_text()}")
        finally:
            stop(reader)
        return turn


class Idle:
    """Processor time of an idle daemon in us a second, with a program that holds idle QPs if qps is not 0."""

    unit = "us/s"
    xroce = True
    seconds = 2

    def __init__(self, qps):
        self.qps = qps

    def hold(self, hosts, tools):
        """Starts the program unless an earlier turn did; creating so many QPs takes several seconds."""
        for process in hosts.kept:
            return process
        process = hosts.spawn("a", [tools / "bench/idle_qps", hosts.gid["a"], self.qps])
        hosts.kept.append(process)
        if not wait_until(lambda: process.poll() is not None or "ready" in process.output.read_text(), TIME_LIMIT, 0.1):
            raise Failed(f"{process.command}: not ready after {TIME_LIMIT} s")
        if process.poll() is not None:
            raise Failed(f"{process.command}: {process.output.read_text()}")
        return process

    def measure(self, hosts, tools):
        recorder = Recorder({"server worker": hosts.daemon["a"]})
        if self.qps:
            recorder.roles["server"] = self.hold(hosts, tools).pid
        time.sleep(0.5)
        recorder.snap()
        time.sleep(self.seconds)
        recorder.snap()
        load = recorder.load()
        return Turn(load.cpu["server worker"] / load.seconds / 1e3, load,
                    wakeups_a_second=load.wakeups["server worker"] / load.seconds)


class Regions:
    """Median time in us of registering and deregistering 64 KiB of shared memory on host a.

    `register` and `deregister` are the 99th percentiles of each.
    """

    unit = "us"
    xroce = True
    count = 1000

    def measure(self, hosts, tools):
        output, load = alone(hosts, "a", [tools / "bench/regions", self.count], rdma=True)
        found = figures.regions(output)
        return Turn(found["both"][0], load, register=found["register"][1], deregister=found["deregister"][1])


class RegionsBesideStream(Regions):
    """The same while host b sends 64 KiB WRITEs on several QPs to host a."""

    qps = 8

    def measure(self, hosts, tools):
        streams = Streams(self.qps)
        server = hosts.spawn("a", streams.command(hosts, tools, "serve", "a", PORT))
        client = None
        try:
            if not wait_until(lambda: hosts.listens(server, PORT) or server.poll() is not None, TIME_LIMIT):
                raise Failed(f"{server.command}: does not listen")
            client = hosts.spawn("b", streams.command(hosts, tools, "write", "b", PORT, ADDRESS["a"], TIME_LIMIT))
            time.sleep(0.5)
            turn = super().measure(hosts, tools)
            if client.poll() is not None:
                raise Failed(f"{client.command}: {client.output.read_text()}")
            return turn
        finally:
            for process in server, client:
                if process:
                    stop(process)


class Connects:
    """Connections by rdma_cm a second (cmtime), all opened at once: the median of several runs.

    The threads of cmtime spin while two daemons and a server work, so on few processors the scheduler decides how long a
    single run takes: runs of one build differ by a factor of three.
    """

    unit = "1/s"
    xroce = True
    count = 1000
    runs = 5

    def measure(self, hosts, tools):
        turns = sorted((self.once(hosts) for _ in range(self.runs)), key=lambda turn: turn.value)
        return turns[self.runs // 2]

    def once(self, hosts):
        _, output, load = pair(hosts, ["cmtime", "-p", PORT, "-c", self.count],
                               ["cmtime", "-s", ADDRESS["a"], "-p", PORT, "-c", self.count], server_ends=False,
                               listens=lambda: str(PORT) in hosts.sh("ctl a cm -l -j xra"))
        rate = 1e6 / figures.cmtime_step(output, "connect")
        return Turn(rate, load, rate)


class Life:
    """Median time in us of the life of a connection: create, register 1 MiB twice, connect, exchange, disconnect, destroy.

    Both ends do all of it for each connection, as a key-value store and its client do.
    """

    unit = "us"
    xroce = True
    lives = 200

    def measure(self, hosts, tools):
        program = tools / "bench/life"
        _, output, load = pair(hosts, [program, PORT, 1], [program, ADDRESS["a"], PORT, 1, self.lives, 1], server_ends=False,
                               listens=lambda: str(PORT) in hosts.sh("ctl a cm -l -j xra"))
        return Turn(figures.life(output), load, self.lives)
