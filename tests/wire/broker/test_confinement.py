"""What the broker gives up, without systemd's help: tried by a process that did the same."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.stage.marks import as_root
from tests.waiting import PATIENCE

UID = 1999999999
TRIAL = r"""
import errno, json, os, resource, socket, sys, threading
from gitmoat.confine.confining import become_broker

uid, state, elsewhere = int(sys.argv[1]), sys.argv[2], sys.argv[3]
listener = socket.create_server(("127.0.0.1", 0))
become_broker(uid, uid, state)

def tried(act):
    try:
        act()
    except OSError as problem:
        return errno.errorcode[problem.errno]
    return None

def write(directory):
    with open(os.path.join(directory, "written"), "w") as file:
        file.write("x")

def listen():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
with socket.socket() as client:
    client.connect(listener.getsockname())
with open("/proc/self/status") as file:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
json.dump({
    "write to its state": tried(lambda: write(state)),
    "write elsewhere": tried(lambda: write(elsewhere)),
    "read what anybody may": tried(lambda: open("/etc/hostname").close()),
    "make a device": tried(lambda: os.mkfifo(os.path.join(elsewhere, "fifo"))),
    "fork": tried(os.fork),
    "start a program": tried(lambda: os.execv("/bin/true", ["true"])),
    "listen": tried(listen),
    "become root": tried(lambda: os.setuid(0)),
    "vsock": tried(lambda: socket.socket(socket.AF_VSOCK)),
    "raw socket": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "chroot": tried(lambda: os.chroot("/")),
    "status": status,
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "memory's owner": os.stat("/proc/self/mem").st_uid,
}, sys.stdout)
"""


@pytest.fixture
def told() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="gm-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        state, elsewhere = Path(folder, "state"), Path(folder, "elsewhere")
        for directory in (state, elsewhere):
            directory.mkdir()
            directory.chmod(0o777)  # the uid alone would let it
        words = [sys.executable, "-c", TRIAL, str(UID), str(state), str(elsewhere)]
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@as_root
def test_it_can_do_its_work_and_nothing_else(told: dict[str, Any]) -> None:
    for allowed in ("write to its state", "read what anybody may"):
        assert told[allowed] is None, allowed
    for denied in ("write elsewhere", "make a device"):
        assert told[denied] == "EACCES", denied
    for denied in ("fork", "start a program", "become root", "raw socket"):
        assert told[denied] == "EPERM", denied
    assert told["vsock"] == errno.errorcode[errno.EAFNOSUPPORT]
    assert told["chroot"] == "ENOSYS"
    assert told["listen"] in ("EACCES", "EPERM"), "by landlock, or by the filter on older kernels"


@as_root
def test_it_has_no_privilege_and_leaves_no_core(told: dict[str, Any]) -> None:
    status = told["status"]
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert {status[f"Cap{kind}"] for kind in ("Eff", "Prm", "Inh", "Bnd", "Amb")} == {"0" * 16}
    assert told["core"] == [0, 0]
    assert told["memory's owner"] == 0, "not dumpable: nobody but root may look"
