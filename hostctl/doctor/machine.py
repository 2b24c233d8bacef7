"""What the machine itself must have: kernel, settings, programs, cgroups, clock, Docker."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitmoat.confine.landlock import abi_version
from hostctl.doctor.findings import Finding, good, note, or_good, problem
from netpolicy.nftables import Uids, render

_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = {
    "git": ("git", (2, 30)),
    "nft": ("nftables", (0, 9)),
    "bwrap": ("bubblewrap", (0, 4)),
    "python3": ("python3", (3, 9)),
}
# Setting → (what is safe, what the other value means)
_SETTINGS = {
    "fs/protected_symlinks": ("1", "symbolic links in /tmp can redirect programs of root"),
    "fs/protected_hardlinks": ("1", "any user can make a hard link to a file of root"),
    "kernel/io_uring_disabled": ("2", "programs outside of sandboxes can use io_uring"),
    "kernel/unprivileged_bpf_disabled": ("12", "any user can load programs into the kernel"),
    "kernel/kptr_restrict": ("12", "any user can read addresses of the kernel"),
    "kernel/dmesg_restrict": ("1", "any user can read the kernel's messages"),
}
_OLDEST = (5, 13)  # landlock
_ATTESTING = (6, 13)  # PIDFD_GET_INFO
# Controller → what one sandbox can do to the others without it.
_WITHOUT_LIMIT = {
    "memory": "one sandbox can use all memory, and the kernel then kills any process",
    "pids": "one sandbox can use all process ids, and nothing else can be started",
    "cpu": "one sandbox with many processes slows down the others and the daemons",
}
_CONTROLLERS = tuple(_WITHOUT_LIMIT)
_CAP_SYS_RESOURCE = 24
_DOCKER = "/var/run/docker.sock"
_OLDEST_DOCKER = (20, 10)
_EARLIEST = 1_700_000_000  # a clock that is right shows a later time


def version_of(text: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def kernel() -> Iterator[Finding]:
    release, landlock = platform.release(), abi_version()
    if version_of(release) < _OLDEST:
        yield problem("kernel", f"Linux {release} is too old", "install Linux 6.13 or newer")
        return
    if version_of(release) < _ATTESTING:
        what = f"Linux {release}: the credential socket knows less of its peers before 6.13"
        yield note("kernel", what, "install Linux 6.13 or newer")
    if not landlock:
        fix = "boot with lsm=landlock,... or a kernel that has it"
        yield problem("kernel", "Landlock is not available; sidecars are confined by it", fix)
    if not Path("/proc/sys/kernel/seccomp/actions_avail").exists():
        fix = "use a kernel with CONFIG_SECCOMP_FILTER"
        yield problem("kernel", "system-call filters are not available", fix)
    if platform.machine() not in ("x86_64", "aarch64"):
        yield problem("kernel", f"{platform.machine()} is not supported", "use x86-64 or arm64")
    yield good("kernel", f"Linux {release}, Landlock {landlock}, system-call filters")


def settings(proc: Path = Path("/proc/sys")) -> Iterator[Finding]:
    """Not ours to change: other programs of this machine may rely on them."""
    yield from or_good(_settings(proc), "sysctl", f"{len(_SETTINGS)} settings are safe")


def _settings(proc: Path) -> Iterator[Finding]:
    for name, (safe, consequence) in _SETTINGS.items():
        try:
            value = (proc / name).read_text(encoding="ascii").strip()
        except OSError:
            continue  # this kernel has no such setting
        if value not in safe:
            dotted = name.replace("/", ".")
            yield note(
                "sysctl", f"{dotted} is {value}: {consequence}", f"sysctl -w {dotted}={safe[0]}"
            )


def programs() -> Iterator[Finding]:
    versions = []
    for name, (package, oldest) in _PROGRAMS.items():
        path = shutil.which(name, path=_SYSTEM_PATH)
        if path is None:
            yield problem("programs", f"{name} is not installed", f"apt-get install {package}")
            continue
        found = version_of(_output([path, "--version"]))
        if found < oldest:
            what = f"{name} {'.'.join(map(str, found))} is too old"
            yield problem("programs", what, f"apt-get install {package}")
        versions.append(f"{name} {'.'.join(map(str, found))}")
    if versions:
        yield good("programs", ", ".join(versions))


def rules() -> Iterator[Finding]:
    """Whether this kernel takes rules like ours, in a network namespace of their own."""
    nft, unshare = (shutil.which(name, path=_SYSTEM_PATH) for name in ("nft", "unshare"))
    if nft is None or unshare is None:
        return  # reported already
    ruleset = render(Uids(sidecar=1, helper=2, untrusted=3), "0" * 64)
    done = _run([unshare, "--net", nft, "-f", "-"], ruleset.encode())
    if done is None or done.returncode:
        why = "" if done is None else done.stderr.decode(errors="replace").strip()[-200:]
        fix = "modprobe nf_tables, or use a kernel with nf_tables and network namespaces"
        yield problem("nftables", f"the kernel does not accept our rules: {why}", fix)
    else:
        yield good("nftables", "the kernel accepts our rules in a network namespace")


def _output(command: list[str]) -> str:
    done = _run(command)
    return "" if done is None else done.stdout.decode(errors="replace")


def _run(command: list[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(command, input=stdin, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


def cgroups() -> Iterator[Finding]:
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    unified, controllers = _hierarchies(mounts)
    if not unified:
        fix = "mount -t cgroup2 none /sys/fs/cgroup/unified"
        yield note(
            "cgroups", "no cgroup v2: the credential socket cannot tell sandboxes apart", fix
        )
    missing = [name for name in _CONTROLLERS if name not in controllers]
    if missing:
        for name in missing:
            what = f"no controller for {name}: {_WITHOUT_LIMIT[name]}"
            yield note("cgroups", what, f"boot with cgroup_enable={name}")
    yield from _oom_protection()
    if unified and not missing:
        yield good("cgroups", f"v2, with {', '.join(_CONTROLLERS)}")


def _oom_protection(status: Path = Path("/proc/self/status")) -> Iterator[Finding]:
    text = status.read_text(encoding="ascii")
    if not int(text.partition("CapEff:")[2].split()[0], 16) >> _CAP_SYS_RESOURCE & 1:
        what = "no CAP_SYS_RESOURCE: when memory runs out the kernel may kill a daemon first"
        yield note("cgroups", what, "give it to hostctl up, as systemd does")


def _hierarchies(mounts: list[str]) -> tuple[bool, set[str]]:
    unified, controllers = False, set[str]()
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        kind, options = rest.split(" ")[0], rest.split(" ")[-1].split(",")
        if kind == "cgroup2":
            unified = True
            file = Path(fields.split(" ")[4], "cgroup.controllers")
            controllers |= set(file.read_text(encoding="ascii").split())
        elif kind == "cgroup":
            controllers |= set(options)
    return unified, controllers


def clock(now: float | None = None) -> Iterator[Finding]:
    """Certificates of upstreams are checked by this clock; sessions are not."""
    moment = time.time() if now is None else now
    if moment < _EARLIEST:
        what = f"the clock says {time.strftime('%Y-%m-%d', time.gmtime(moment))}"
        yield problem("clock", what, "timedatectl set-ntp true")
    else:
        yield good("clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)))


def docker(named: str | None = None) -> Iterator[Finding]:
    """`named`: the socket that hostd is configured to use."""
    path = named or _DOCKER
    try:
        found = os.stat(path)  # noqa: PTH116 -- through the link that /var/run is
    except OSError:
        if named:
            fix = "start Docker, or correct docker.socket in hostd.toml"
            yield problem("docker", f"{named} does not exist", fix)
        else:
            yield good("docker", "no Docker engine; sandboxes are made by bubblewrap")
        return
    if stat.S_IMODE(found.st_mode) & 0o007:
        what = f"every user can use {path}, and so become root on this host"
        yield problem("docker", what, f"chmod o-rwx {path}")
    try:
        version, about = _ask_docker(path, "/version"), _ask_docker(path, "/info")
    except (OSError, ValueError):
        fix = "systemctl restart docker, or ignore this: bubblewrap needs no Docker"
        yield note("docker", f"Docker does not answer at {path}", fix)
        return
    yield from judge_docker(version, about)


def judge_docker(version: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[Finding]:
    number, options = str(version.get("Version", "?")), about.get("SecurityOptions") or []
    if version_of(number) < _OLDEST_DOCKER:
        yield problem("docker", f"Docker {number} is too old", "install Docker 20.10 or newer")
    if not any("seccomp" in str(option) for option in options):
        fix = "install a Docker built with seccomp"
        yield problem("docker", "Docker has no system-call filters", fix)
    if any("userns" in str(option) for option in options):
        fix = "remove userns-remap from /etc/docker/daemon.json"
        yield problem("docker", "userns-remap shifts the uids that our rules name", fix)
    if any("rootless" in str(option) for option in options):
        yield problem("docker", "this engine is rootless", "use the engine of root")
    if about.get("LiveRestoreEnabled"):
        fix = 'set "live-restore": false in /etc/docker/daemon.json'
        yield note("docker", "live-restore keeps containers running while Docker is stopped", fix)
    yield good("docker", f"Docker {number}, {about.get('CgroupDriver', '?')} cgroups")


def _ask_docker(path: str, what: str) -> Mapping[str, Any]:
    """With HTTP/1.0 the server closes after its answer, so two requests need no library."""
    with socket.socket(socket.AF_UNIX) as engine:
        engine.settimeout(5)
        engine.connect(path)
        engine.sendall(f"GET {what} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        answer = b""
        while len(answer) < 1 << 20 and (piece := engine.recv(65536)):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    found = json.loads(body)
    if b" 200 " not in head.split(b"\r\n")[0] or not isinstance(found, dict):
        raise ValueError("not an answer")
    return found
