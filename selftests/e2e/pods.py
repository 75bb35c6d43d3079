#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the pods of a manifest as a kubelet does, with podman: user, capabilities, seccomp filter, volumes, probes, restarts.

    pods.py MANIFEST SECONDS POD=NAMESPACE=ADDRESS...

The network namespace of a pod has its address already. Prints the output of the containers, each line with "POD CONTAINER".
Returns 0 if the programs of all pods have succeeded and the sidecars have ended as they should, within the time.
A member of the manifest that is not known here is an error. The image is this system with the programs of XR_BUILD.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import yaml

BUILD = pathlib.Path(os.environ["XR_BUILD"])
IMAGE = [("/usr/bin", "/usr/bin"), ("/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"), ("/usr/lib64", "/usr/lib64"),
         (BUILD / "xroced", "/usr/local/sbin/xroced"), (BUILD / "xroce", "/usr/local/bin/xroce"),
         (BUILD / "libxroce.so", "/usr/local/lib/xroce/libxroce.so")]
BACKOFF = 1  # seconds until a container is restarted
PATIENCE = 30  # seconds until a container has ended


class Invalid(Exception):
    pass


def known(members, what, *names):
    if not set(members) <= set(names):
        raise Invalid(f"{what} has {', '.join(set(members) - set(names))}")


def own_mounts():
    """In a mount namespace of its own: podman's state, and one version of cgroups, without which crun does not start."""
    if os.environ.get("XR_PODS") != "own":
        script = ('mkdir "$1/netns" && mount --rbind /run/netns "$1/netns" && mount -t tmpfs -o mode=755 none /run && '
                  'mkdir /run/netns && mount --rbind "$1/netns" /run/netns && umount -R /sys/fs/cgroup && '
                  'mount -t cgroup2 none /sys/fs/cgroup && shift && XR_PODS=own exec "$@"')
        with tempfile.TemporaryDirectory(prefix="xroce-pods.", dir="/tmp") as folder:
            os.chmod(folder, 0o755)
            sys.exit(subprocess.call(["unshare", "-m", "sh", "-c", script, "sh", folder, sys.executable, __file__, folder,
                                      *sys.argv[1:]]))
    return pathlib.Path(sys.argv.pop(1))


class Container:
    def __init__(self, pod, spec):
        known(spec, spec["name"], "name", "image", "restartPolicy", "command", "startupProbe", "securityContext",
              "volumeMounts")
        self.pod = pod
        self.spec = spec
        self.name = f"{pod.name}-{spec['name']}"
        self.process = None

    def podman(self, *args):
        folder = self.pod.folder
        return ["nsenter", f"--net={self.pod.netns}", "podman", "--root", folder / "storage", "--runroot", folder / "run",
                "--cgroup-manager=cgroupfs", "--events-backend=file", *args]

    def security(self):
        pod, own = self.pod.spec.get("securityContext", {}), self.spec.get("securityContext", {})
        known(pod, "the pod's securityContext", "runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile")
        known(own, "the container's securityContext", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities")
        user = pod.get("runAsUser", 0)
        if pod.get("runAsNonRoot") and user == 0:
            raise Invalid("root runs in a pod that is runAsNonRoot")
        words = ["--user", f"{user}:{pod.get('runAsGroup', 0)}"]
        if pod.get("seccompProfile", {}) != {"type": "RuntimeDefault"}:
            words += ["--security-opt=seccomp=unconfined"]
        if own.get("allowPrivilegeEscalation") is False:
            words += ["--security-opt=no-new-privileges"]
        if own.get("readOnlyRootFilesystem") is True:
            words += ["--read-only", "--read-only-tmpfs=false"]
        capabilities = own.get("capabilities", {})
        known(capabilities, "capabilities", "drop", "add")
        return words + [f"--cap-{what}={name}" for what, names in capabilities.items() for name in names]

    def mounts(self):
        words = [f"-v={host}:{path}:ro" for host, path in IMAGE] + [f"-v={self.pod.hosts}:/etc/hosts:ro"]
        for m in self.spec.get("volumeMounts", []):
            known(m, "a mount", "name", "mountPath", "readOnly")
            words.append(f"-v={self.pod.volumes[m['name']]}:{m['mountPath']}:{'ro' if m.get('readOnly') else 'rw'}")
        return words

    def start(self):
        command = self.podman("run", "--rm", "--replace", "--name", self.name, "--cgroups=disabled", "--network=host",
                              "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", *self.security(), *self.mounts(),
                              "--rootfs", self.pod.folder / "root", *self.spec["command"])
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        threading.Thread(target=self.show).start()

    def show(self):
        for line in self.process.stdout:
            print(f"{self.pod.name} {self.spec['name']}: {line}", end="", flush=True)

    def probe(self):
        p = self.spec["startupProbe"]
        known(p, "startupProbe", "exec", "periodSeconds", "failureThreshold")
        for _ in range(p["failureThreshold"]):
            time.sleep(p["periodSeconds"])
            if subprocess.run(self.podman("exec", self.name, *p["exec"]["command"]), capture_output=True,
                              check=False).returncode == 0:
                return
        raise Invalid(f"the probe of {self.name} fails")

    def end(self):
        """Ends a sidecar; returns its status."""
        if self.process is None:
            return 0
        early = self.process.poll() is not None
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE) or early
        except subprocess.TimeoutExpired:
            self.kill()
            return -1

    def kill(self):
        """The first process of a container need not obey SIGTERM, and a podman that is killed leaves the container behind."""
        if self.process and self.process.poll() is None:
            subprocess.run(self.podman("rm", "-f", "-t", "0", self.name), stdout=subprocess.DEVNULL, check=False)
            self.process.wait(PATIENCE)


class Pod:
    def __init__(self, manifest, folder, netns, hosts):
        self.spec = manifest["spec"]
        known(self.spec, "the pod", "hostname", "subdomain", "restartPolicy", "securityContext", "initContainers",
              "containers", "volumes")
        self.name = manifest["metadata"]["name"]
        self.netns = netns
        self.folder = folder / self.name
        self.hosts = hosts
        for name in ("usr/bin", "usr/lib", "usr/lib64", "usr/local", "etc", "proc", "sys", "dev", "run", "tmp"):
            (self.folder / "root" / name).mkdir(parents=True)
        (self.folder / "root/bin").symlink_to("usr/bin")
        (self.folder / "root/lib").symlink_to("usr/lib")
        (self.folder / "root/lib64").symlink_to("usr/lib64")
        self.volumes = {v["name"]: self.volume(v) for v in self.spec.get("volumes", [])}
        self.sidecars = [Container(self, c) for c in self.spec.get("initContainers", [])]
        self.programs = [Container(self, c) for c in self.spec["containers"]]
        self.done = False

    def volume(self, v):
        known(v, "a volume", "name", "emptyDir")
        known(v["emptyDir"], "emptyDir", "medium", "sizeLimit")
        path = self.folder / "volumes" / v["name"]
        path.mkdir(parents=True)
        size = v["emptyDir"].get("sizeLimit", "64Mi").replace("Mi", "m")
        if v["emptyDir"].get("medium") == "Memory":
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], check=True)
        path.chmod(0o777)
        return path

    def run(self, deadline):
        for c in self.sidecars:
            if c.spec.get("restartPolicy") != "Always":
                raise Invalid(f"{c.name} is no sidecar")
            c.start()
            c.probe()
        for c in self.programs:
            c.start()
        for c in self.programs:
            while c.process.wait(max(0.1, deadline - time.monotonic())):
                if self.spec.get("restartPolicy", "Always") == "Never" or time.monotonic() > deadline:
                    raise Invalid(f"{c.name} fails")
                time.sleep(BACKOFF)
                c.start()
        self.done = True

    def try_run(self, deadline):
        try:
            self.run(deadline)
        except (Invalid, subprocess.TimeoutExpired, KeyError) as e:
            print(f"{self.name}: {e!r}", flush=True)

    def end(self):
        for c in self.programs:
            c.kill()
        for c in self.sidecars:
            if c.end():
                print(f"{c.name} has not ended as it should")
                self.done = False


def main():
    folder = own_mounts()
    manifest = list(yaml.safe_load_all(pathlib.Path(sys.argv[1]).read_text()))
    deadline = time.monotonic() + int(sys.argv[2])
    places = {name: (netns, address) for name, netns, address in (word.split("=") for word in sys.argv[3:])}
    hosts = folder / "hosts"
    pods = [Pod(o, folder, places[o["metadata"]["name"]][0], hosts) for o in manifest if o["kind"] == "Pod"]
    services = {o["metadata"]["name"]: o["spec"]["selector"] for o in manifest if o["kind"] == "Service"}
    with hosts.open("w") as f:
        for o in manifest:
            spec, labels = o["spec"], o["metadata"].get("labels", {})
            service = services.get(spec.get("subdomain"))
            if service and service.items() <= labels.items():
                print(places[o["metadata"]["name"]][1], f"{spec['hostname']}.{spec['subdomain']}", file=f)
    threads = [threading.Thread(target=pod.try_run, args=[deadline]) for pod in pods]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for pod in pods:
        pod.end()
    return not all(pod.done for pod in pods)


if __name__ == "__main__":
    sys.exit(main())
