"""The systemd units: strict by systemd's own measure, and not stricter than the broker can bear.

There is no systemd to start them here. The broker is started as its unit says instead: as its
uid, without a capability, on a read-only file system, under the unit's list of system calls, with
the control socket made by root.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests.stage.command import command
from tests.stage.instance import Instance, make_instance
from tests.waiting import PATIENCE, ends_with_its_test, eventually

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "packaging" / "systemd"
BROKER = UNITS / "gitmoat-broker.service"
HOSTD = UNITS / "gitmoat-hostd.service"
SOCKET = UNITS / "gitmoat-broker.socket"
BROKER_LIMIT = 2.0

# What systemd does between fork and exec, for the settings that can break a program.
_LAUNCHER = """
import errno, json, os, sys
from gitmoat.confine import linux
from gitmoat.confine.seccomp import Allow, Argument, Compare, Fail, Profile, Rule, compile_profile
about = json.load(sys.stdin)
os.dup2(int(os.environ.pop("FD")), 3)
os.setgroups([]); os.setresgid(*[about["uid"]] * 3); os.setresuid(*[about["uid"]] * 3)
linux.no_new_privileges()
executable, writable = 4, 2
both = tuple(Argument(2, Compare.ANY_BIT, (bit,)) for bit in (executable, writable))
no = Fail(errno.EPERM)
rules = (
    *([Rule(("mmap",), no, both), Rule(("mprotect",), no, both[:1])] if about["mdwe"] else []),
    Rule(tuple(about["calls"]), Allow()),
)
linux.install_seccomp(compile_profile(Profile("unit", rules, no)))
os.execv(sys.executable, [sys.executable, *about["words"]])
"""


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def exposure(unit: Path) -> float:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return float(found[1])


def calls(set_name: str) -> set[str]:
    """A set of systemd's, spelled out; a plain name is itself."""
    if not set_name.startswith("@"):
        return {set_name}
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", set_name],
        capture_output=True,
        text=True,
        check=True,
    )
    words = [line.strip() for line in done.stdout.splitlines()[1:]]
    members = [word for word in words if word and not word.startswith("#")]
    return set().union(*map(calls, members))


def allowed_calls(unit: Path) -> set[str]:
    """What is left after the filter lines of a unit, in their order; systemd adds @default."""
    allowed = calls("@default")
    for line in settings(unit)["SystemCallFilter"]:
        named = set().union(*map(calls, line.removeprefix("~").split()))
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


def test_the_brokers_exposure_is_small() -> None:
    assert exposure(BROKER) <= BROKER_LIMIT


def test_what_is_measured_is_the_unit(tmp_path: Path) -> None:
    loose = tmp_path / BROKER.name
    loose.write_text(
        re.sub(r"(?m)^(User|CapabilityBoundingSet|Protect\w+)=.*\n", "", BROKER.read_text())
    )
    assert exposure(loose) > BROKER_LIMIT


@pytest.mark.parametrize("unit", [BROKER, HOSTD, SOCKET], ids=lambda path: path.name)
def test_systemd_understands_every_line(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    known = ("is not executable", "Command 'man ")  # neither is installed here
    said = [line for line in done.stderr.splitlines() if "gitmoat" in line]
    assert [line for line in said if not any(each in line for each in known)] == []


def test_the_broker_and_its_socket_are_where_hostctl_looks() -> None:
    from gitmoat.paths import Paths
    from hostctl.setup.defaults import BROKER_UID

    paths = Paths("/")
    assert settings(SOCKET)["ListenStream"] == [str(paths.broker_admin_socket)]
    assert settings(BROKER)["User"] == settings(BROKER)["Group"] == [str(BROKER_UID)]
    assert settings(BROKER)["ReadWritePaths"] == [str(paths.broker_state)]


@frozen
class Started:
    instance: Instance
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.instance.status()["broker"]
        return found


def reachable(path: Path) -> Iterator[str]:
    """Python and checkout may lie where only root can go; the unit's are in /opt."""
    for parent in reversed(path.parents):
        if parent.is_relative_to("/root/"):
            yield from ("--perms", "0755", "--dir", str(parent))
    yield from ("--ro-bind", str(path), str(path))


def start_as_the_unit_says(instance: Instance, control: socket.socket, log: Path) -> Started:
    unit = settings(BROKER)
    (command,) = unit["ExecStart"]
    words = [*command.split()[1:], "--root", str(instance.root)]
    about = {
        "uid": int(unit["User"][0]),
        "calls": sorted(allowed_calls(BROKER)),
        "mdwe": "yes" in unit.get("MemoryDenyWriteExecute", ()),
        "words": words,
    }
    state = str(instance.paths.broker_state)
    rooms = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/root"]
    rooms += [*reachable(Path(sys.base_prefix)), *reachable(ROOT)]
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [*rooms, "--bind", state, state, "--", sys.executable, "-c", _LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            pass_fds=(control.fileno(),),
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)} | {"FD": str(control.fileno())},
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(about).encode())
    process.stdin.close()
    return Started(instance, ends_with_its_test(process), log)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    instance = make_instance()
    path = instance.paths.broker_admin_socket
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(path))
        os.chmod(path, 0o600)
        control.listen(64)
        made = start_as_the_unit_says(instance, control, tmp_path / "log")
    yield made
    made.process.terminate()
    made.process.wait(PATIENCE)
    instance.remove()


@pytest.mark.root
def test_the_broker_runs_as_its_unit_says(started: Started) -> None:
    eventually(lambda: started.ended or started.status["healthy"], "the broker")
    status = started.status
    assert status["healthy"], started.log.read_text()
    text = Path(f"/proc/{status['pid']}/status").read_text()
    shown = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert shown["Uid"].split() == ["1999999999"] * 4
    assert (shown["CapEff"], shown["NoNewPrivs"]) == ("0" * 16, "1")
    assert shown["Seccomp_filters"] == "2", "the unit's filter, and then the broker's own"
    words = ("cred", "add", "bot", "--stdin")
    added = subprocess.run(
        command(started.instance.root, *words),
        input=b"not-a-real-token\n",
        capture_output=True,
        cwd=ROOT,
    )
    assert added.returncode == 0, added.stderr


def capabilities(unit: Path) -> list[str]:
    named = " ".join(settings(unit)["CapabilityBoundingSet"]).lower().split()
    return [name.removeprefix("cap_") for name in named]


@pytest.fixture
def fewer_capabilities() -> Iterator[Instance]:
    """Both daemons up with what hostd's unit leaves."""
    instance = make_instance()
    bounds = ",".join(["-all", *(f"+{name}" for name in capabilities(HOSTD))])
    words = ("--no-new-privs", "--inh-caps", "-all", "--bounding-set", bounds, sys.executable)
    done = subprocess.run(
        ["setpriv", *words, "-m", "hostctl", "--root", str(instance.root), "up"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert done.returncode == 0
    yield instance
    instance.remove()


@pytest.mark.root
def test_hostd_makes_sandboxes_with_the_capabilities_its_unit_leaves(
    fewer_capabilities: Instance,
) -> None:
    pid = fewer_capabilities.status()["hostd"]["pid"]
    shown = Path(f"/proc/{pid}/status").read_text()
    (bounding,) = re.findall(r"^CapBnd:\s*(\w+)$", shown, re.MULTILINE)
    assert 0 < int(bounding, 16).bit_count() <= len(capabilities(HOSTD))
    ran = fewer_capabilities.hostctl(
        "run", "--rm", "--", "sh", "-c", "id -u; echo made > /workspace/a"
    )
    assert ran.code == 0, ran.text
    assert int(ran.out) >= 2000000000
