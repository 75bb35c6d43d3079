# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints the form of the files and of the output of `rdma` of a device, one line each.

usage: sysfs.py DEVICE INTERFACE

A line has a path, the type and the permissions of a file, and its content with names, numbers and addresses
replaced. The lines of two devices can be compared.
"""
import json
import os
import re
import stat
import subprocess
import sys

DEVICE, INTERFACE = sys.argv[1:]
CLASS = "/sys/class/infiniband"


def form(text):
    """Replaces what differs between devices of the same form."""
    text = re.sub(rf"\b{DEVICE}\b", "DEVICE", text)
    text = re.sub(rf"\b{INTERFACE}\b", "INTERFACE", text)
    text = re.sub(r"\b([0-9a-f]{4}:){7}[0-9a-f]{4}\b", "GID", text)
    text = re.sub(r"\b([0-9a-f]{4}:){3}[0-9a-f]{4}\b", "GUID", text)
    text = re.sub(r"\b0x([0-9a-f]+)\b", lambda m: f"0x({len(m[1])})", text)
    text = re.sub(r"^\d+(\.5)? Gb/sec \(\d+X( [A-Z0-9]+)?\)$", "RATE", text)
    return re.sub(r"(?<![(\w])\d+\b", "N", text)


def content(path):
    try:
        with open(path) as f:
            return repr(form(f.read()))
    except OSError as e:
        return "!" + os.strerror(e.errno)


def show(path, name):
    mode = os.stat(path).st_mode
    if not stat.S_ISDIR(mode):
        kind = "device" if stat.S_ISCHR(mode) else content(path)
        print(name, oct(stat.S_IMODE(mode)), kind)
        return
    print(name + "/")
    for entry in sorted(os.listdir(path)):
        # `device` and `subsystem` lead out of the tree
        if not os.path.islink(f"{path}/{entry}"):
            show(f"{path}/{entry}", f"{name}/{entry}")


def number_of(kind):
    """Returns the name uverbsN or umadN of the device."""
    top = {"uverbs": "/sys/class/infiniband_verbs", "umad": "/sys/class/infiniband_mad"}[kind]
    for entry in os.listdir(top):
        if re.fullmatch(rf"{kind}\d+", entry):
            with open(f"{top}/{entry}/ibdev") as f:
                if f.read().strip() == DEVICE:
                    return top, entry
    raise SystemExit(f"no {kind} of {DEVICE}")


def rdma(*args):
    """Returns exit status and output, without what is about other devices."""
    run = subprocess.run(["rdma", *args], capture_output=True, text=True)
    return run.returncode, run.stdout


def show_keys(*args):
    status, out = rdma("-j", *args)
    for row in json.loads(out or "[]"):
        if row.get("ifname") == DEVICE and row.get("comm") != "ib_core":
            print("rdma", *(form(a) for a in args), status, *(f"{k}={type(v).__name__}" for k, v in row.items()))


show(f"{CLASS}/{DEVICE}", "DEVICE")
for kind in "uverbs", "umad":
    top, entry = number_of(kind)
    show(f"{top}/{entry}", kind)
    show(f"/dev/infiniband/{entry}", f"/dev/{kind}")
    print(f"{kind} abi_version", content(f"{top}/abi_version"))
print("rdma link", form(rdma("link", "show", f"{DEVICE}/1")[1]).rstrip("\n"))
for what in "link", "dev":
    print("rdma", what, "of none", *rdma(what, "show", "none"))
for args in (("link", "show", f"{DEVICE}/1"), ("dev", "show", DEVICE), ("resource", "show", DEVICE),
             *(("resource", "show", kind) for kind in ("qp", "cq", "mr", "ctx"))):
    show_keys(*args)
