"""A command in the sandbox: what it is, sees, holds and can write."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.stage.boxes import Box
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import namespace, processes_in, status

# Every place that this uid can create a file in, and every file that it could change.
WRITABLE = r"""
import json, os
directories, files = set(), set()
for top, names, leaves in os.walk("/"):
    if top == "/":
        names[:] = [name for name in names if name not in ("proc", "usr")]
    for path in [top, *(os.path.join(top, leaf) for leaf in leaves)]:
        if os.path.islink(path):
            continue
        if os.path.isdir(path):
            try:
                probe = os.path.join(path, ".probe")
                os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                os.unlink(probe)
                directories.add(path)
            except OSError:
                pass
        elif os.access(path, os.W_OK):
            files.add(path)
print(json.dumps({"directories": sorted(directories), "files": sorted(files)}))
"""
FACTS = r"""
import json, os, socket
with open("/proc/self/status") as file:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
held = [int(name) for name in os.listdir("/proc/self/fd")]
def opens(path, flags):
    try:
        os.close(os.open(path, flags))
        return True
    except OSError:
        return False
print(json.dumps({
    "status": status,
    "descriptors": sorted(held)[:-1],
    "environment": dict(os.environ),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "etc": sorted(os.listdir("/etc")),
    "dev": sorted(os.listdir("/dev")),
    "hostname": socket.gethostname(),
    "umask": os.umask(0o022),
    "cwd": os.getcwd(),
}))
"""
SIGNALS_IGNORED_OR_BLOCKED = ("SigIgn", "SigBlk")


@pytest.fixture(scope="module", params=["untrusted", "helper"])
def facts(request: pytest.FixtureRequest, agent: Box) -> dict[str, Any]:
    found: dict[str, Any] = agent.python(FACTS, as_helper=request.param == "helper")
    uid = agent.inspect()["uids"][request.param]
    return {**found, "uid": uid, "tier": request.param}


def test_a_command_has_a_numeric_uid_of_its_own_and_no_privilege(facts: dict[str, Any]) -> None:
    found, uid = facts["status"], str(facts["uid"])
    assert found["Uid"].split() == [uid] * 4
    assert found["Gid"].split() == [uid] * 4
    assert found["Groups"].strip() == ""
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(found[kind], 16) == 0, kind
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


def test_a_command_holds_its_three_descriptors_only(facts: dict[str, Any]) -> None:
    assert facts["descriptors"] == [0, 1, 2]


def test_a_command_starts_with_no_signal_ignored_or_blocked(agent: Box) -> None:
    """What ignores SIGINT at its start cannot be interrupted, and a shell cannot trap it."""
    text = agent.run("cat", "/proc/self/status").expect_success("cat")
    found = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert [found[kind] for kind in SIGNALS_IGNORED_OR_BLOCKED] == ["0" * 16, "0" * 16]


def test_a_command_gets_an_environment_made_from_nothing(facts: dict[str, Any]) -> None:
    known = {"PATH", "HOME", "LANG", "TMPDIR", "USER", "LOGNAME", "LC_CTYPE"}
    git = {"GIT_CONFIG_SYSTEM", "GIT_TERMINAL_PROMPT"}
    proxies = {"HTTPS_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy"}
    installing = {"NPM_CONFIG_PREFIX", "PIP_BREAK_SYSTEM_PACKAGES"}
    installing |= {"NPM_CONFIG_GLOBALCONFIG", "XDG_CONFIG_DIRS"}
    assert set(facts["environment"]) <= known | git | proxies | installing


def test_loopback_is_the_only_interface(facts: dict[str, Any], agent: Box) -> None:
    assert facts["interfaces"] == ["lo"]
    pid = agent.inspect()["pid"]
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]
    routes = Path(f"/proc/{pid}/net/route").read_text().splitlines()[1:]
    assert routes == []


def test_every_namespace_that_matters_is_the_sandboxs_own(agent: Box) -> None:
    pid = agent.inspect()["pid"]
    for kind in ("net", "mnt", "pid", "ipc", "uts"):
        assert namespace(pid, kind) != namespace("self", kind), kind


def test_only_the_workspace_home_and_scratch_space_can_be_written(agent: Box) -> None:
    found = agent.python(WRITABLE)
    allowed = ("/workspace", "/home/sandbox", "/tmp", "/dev/shm")
    assert {"/workspace", "/home/sandbox", "/tmp", "/dev/shm"} <= set(found["directories"])
    for path in found["directories"]:
        assert path.startswith(allowed), path
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    devices |= {"/dev/ptmx", "/dev/pts/ptmx", "/run/gitmoat/cred.sock"}
    assert {path for path in found["files"] if not path.startswith(allowed)} <= devices


def test_the_hosts_programs_cannot_be_written(agent: Box) -> None:
    for place in ("/usr/x", "/usr/bin/x", "/etc/x", "/etc/ssl/certs/x", "/x", "/run/gitmoat/x"):
        ran = agent.run("touch", place)
        assert ran.code == 1
        assert "Read-only file system" in ran.err or "Permission denied" in ran.err, ran.err
    assert agent.sh("echo x >> /usr/bin/git").code != 0


def test_the_gate_can_write_nothing_but_its_own_directory(agent: Box) -> None:
    found = agent.python(WRITABLE, as_helper=True)
    for path in found["directories"]:
        assert path.startswith(("/gate", "/tmp", "/dev/shm")), path


def test_the_gate_does_not_see_the_workspace_nor_the_command_the_gate(agent: Box) -> None:
    assert agent.sh("ls /workspace /home/sandbox", as_helper=True).code != 0
    assert agent.run("ls", "/gate").code != 0
    agent.sh("echo x > /tmp/mark").expect_success("echo")
    assert agent.sh("ls /tmp/mark", as_helper=True).code != 0


def test_the_hosts_etc_is_not_visible(facts: dict[str, Any], agent: Box) -> None:
    for name in ("shadow", "hostname", "machine-id", "fstab", "ssh", "gitmoat"):
        assert name not in facts["etc"]
    link = agent.run("readlink", "/etc/gitconfig").expect_success("readlink")
    assert link == "/run/gitmoat/gitconfig"
    passwd = agent.run("cat", "/etc/passwd").expect_success("cat").splitlines()
    assert [line.split(":")[0] for line in passwd] == ["root", "sandbox", "gate"]
    assert facts["hostname"] == agent.name != socket.gethostname()


def test_the_hosts_files_are_not_visible(agent: Box, stage: Gitmoat) -> None:
    for path in ("/root", "/var", "/opt", "/work", "/sys", "/boot", "/srv", str(stage.root)):
        assert agent.run("ls", path).code != 0, path
    assert agent.run("ls", "-A", "/usr/local").expect_success("ls") == ""


def test_only_the_sandboxs_own_processes_are_visible(facts: dict[str, Any]) -> None:
    assert facts["processes"][0] == 1
    assert len(facts["processes"]) < 10


def test_no_device_of_the_host_is_there(facts: dict[str, Any]) -> None:
    known = {"core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"}
    assert set(facts["dev"]) - {"stdin", "stdout", "stderr", "console"} <= known


def test_the_command_starts_in_the_workspace_with_the_usual_umask(facts: dict[str, Any]) -> None:
    assert facts["cwd"] == ("/workspace" if facts["tier"] == "untrusted" else "/")
    assert facts["umask"] == 0o022


@pytest.mark.parametrize(
    "script",
    [
        "unshare -Ur true",
        "unshare -n true",
        "mount -t tmpfs none /tmp",
        "mount -o remount,rw /",
        "chown 0 /tmp",
        "su -c true",
        "kill -9 1",
        "nft list ruleset",
        "ip link add type dummy",
        "ping -c 1 -W 1 127.0.0.1",
        "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start",
        "cat /proc/1/environ",
        "ls /proc/1/root/",
        "python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 80))'",
        "python3 -c 'import socket; socket.socket(socket.AF_VSOCK)'",
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW)'",
    ],
)
def test_ways_to_more_privilege_fail(agent: Box, script: str) -> None:
    ran = agent.sh(script)
    assert ran.code != 0, script
    assert "not found" not in ran.err or script.startswith(("nft", "ip ", "ping", "su ")), ran.err


def test_a_process_of_the_sandbox_looks_the_same_from_outside(agent: Box) -> None:
    about = agent.inspect()
    uid = str(about["uids"]["untrusted"])
    inside = processes_in({about["netns"]})
    (sleeper,) = [pid for pid in inside if status(pid)["Uid"].split()[0] == uid]
    found = status(sleeper)
    assert (found["CapBnd"], found["NoNewPrivs"], found["Seccomp"]) == ("0" * 16, "1", "2")
    assert sorted(os.listdir(f"/proc/{sleeper}/fd")) == ["0", "1", "2"]
