# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two hosts in network namespaces for each layout and build that rows of the benchmark use."""
import collections
import contextlib
import os
import pathlib
import re
import shlex
import subprocess
import time

FOLDER = pathlib.Path(__file__).resolve().parent
ADDRESS = {"a": "10.77.0.1", "b": "10.77.0.2"}

# mtu 0: the largest that the kernel supports; options: of the daemon of each host; setup: shell commands after its start
Layout = collections.namedtuple("Layout", "mtu queues daemons options_a options_b setup")
Layout.__new__.__defaults__ = (0, 1, True, "", "", "")


class Failed(Exception):
    """A program of the benchmark failed; the text is its output."""


class Missing(Exception):
    """The build lacks what a row measures; the text says what."""


class Hosts:
    """Hosts of one layout with the daemons of one build. selftests/lib/hosts.bash does the work."""

    def __init__(self, build, layout):
        self.build = pathlib.Path(build)
        self.kept = []  # programs that run until the end
        self.beside = {}  # {role: PID} of programs whose load counts for the measurement beside which they run
        # a session of its own: an interrupt must not end it before it has removed the hosts
        self.shell = subprocess.Popen([FOLDER / "hosts_shell"], text=True, start_new_session=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      env={**os.environ, "XR_BUILD": str(build)})
        try:
            self._start(layout)
        except BaseException:
            self.close()
            raise

    def _start(self, layout):
        mtu = layout.mtu or '"$MTU"'
        self.sh(f"hosts_up {mtu} {layout.queues}")
        self.run = pathlib.Path(self.sh('echo "$RUN"'))
        self.id = self.sh('echo "$ID"')
        self.daemon, self.gid = {}, {}
        if layout.daemons:
            for host, options in ("a", layout.options_a), ("b", layout.options_b):
                self.sh(f"daemon_up {host} {options}")
                self.daemon[host] = int(self.sh(f"daemon_pid {host}"))
                self.gid[host] = self.sh(f"gid_index {host} {ADDRESS[host]}")
        if layout.setup:
            self.sh(layout.setup)
        self.sh(f"on a ping -q -c 1 {ADDRESS['b']}")

    def sh(self, command):
        """Runs a command of hosts.bash and returns its output."""
        self.shell.stdin.write(command + "\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.startswith("status "):
                if int(line.split()[1]):
                    raise Failed(f"{command}:\n" + "".join(lines))
                return "".join(lines).strip()
            lines.append(line)
        raise Failed(f"{command}: the shell ended")

    def close(self):
        """Stops the daemons and removes the hosts."""
        for process in self.kept:
            stop(process)
        self.shell.stdin.close()
        self.shell.wait()

    def netns(self, host):
        return f"/run/netns/{self.id}-{host}"

    def spawn(self, host, program, rdma=True, env=None):
        """Starts a program on a host, under `xroce run` if it uses RDMA, and returns its Popen."""
        command = ["nsenter", "--net=" + self.netns(host), "--"]
        if rdma:
            command += [str(self.build / "xroce"), "run", "-r", str(self.run / host)]
        command += [str(word) for word in program]
        with open(self.run / f"out.{time.monotonic_ns()}", "w+b") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       env={"XROCE_PATH": "daemon", **os.environ, **(env or {})})
        process.output = pathlib.Path(out.name)
        process.command = shlex.join(command[3:])
        return process

    @contextlib.contextmanager
    def workers_on(self, processors):
        """Binds the workers of a host to a processor, and frees them at the end."""
        bound = {int(task.name): processors[host] for host, pid in self.daemon.items() if host in processors
                 for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                 if re.fullmatch(r"xroced/[0-9]+", (task / "comm").read_text().strip())}
        before = {task: os.sched_getaffinity(task) for task in bound}
        for task, processor in bound.items():
            os.sched_setaffinity(task, {processor})
        try:
            yield
        finally:
            for task, processors_before in before.items():
                os.sched_setaffinity(task, processors_before)

    def listens(self, process, port):
        """Whether that TCP port is open in the network namespace of the process."""
        wanted = f":{port:04X}"
        for name in "tcp", "tcp6":
            try:
                table = pathlib.Path(f"/proc/{process.pid}/net/{name}").read_text()
            except OSError:
                return False
            for line in table.splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    return True
        return False


def stop(process):
    """Ends a program that still runs."""
    if process.poll() is None:
        process.kill()
    process.wait()


def wait_until(condition, seconds, poll=0.01):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll)
    return True
