"""Rows 33, 34, 36, 38 and 109: the helper's processes, as the command could reach for them.

They are in another process namespace, so most attempts find nothing to aim at. What they hold
is looked at from the host, because nobody in the sandbox can.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hostd.sandbox.environment import gate_git
from tests.adversary.hostile import Hostile, MakeHostile, imposter
from tests.adversary.watching import Watch
from tests.stage.boxes import HOME
from tests.stage.gitmoat import Gitmoat
from tests.stage.marks import x86_64
from tests.waiting import eventually

# Looks at every process it can see, as fast as it can, until it is killed.
PEEK = r"""
import json, os, sys
found = {}
while True:
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            uid = os.stat("/proc/" + name).st_uid
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(uid) not in found or words[0] not in found[str(uid)]:
            found.setdefault(str(uid), []).append(words[0])
            with open(sys.argv[1] + ".new", "w") as file:
                json.dump(found, file)
            os.replace(sys.argv[1] + ".new", sys.argv[1])
"""
# A git of the workspace waits for it, until it has been seen.
SLOW_HOOK = r"""
printf '#!/bin/sh\nuntil grep -q \\"git\\" /home/sandbox/peeked; do sleep 0.05; done\n' \
    > .git/hooks/reference-transaction
chmod 755 .git/hooks/reference-transaction
"""
# Every way at another process, tried on every process there is or might be.
REACH = r"""
import ctypes, errno, json, os, signal
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
def tried(act):
    try:
        if act() == -1:
            return errno.errorcode[ctypes.get_errno()]
    except OSError as problem:
        return errno.errorcode[problem.errno]
    return "done"
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
local, remote = Vector(ctypes.addressof(buffer), 8), Vector(0x400000, 8)
def opening(path):
    return lambda: os.close(os.open(path, os.O_RDONLY)) or 0
def grab(pid):
    descriptor = os.pidfd_open(pid)
    return libc.syscall(438, descriptor, 0, 0)
others = {}
for pid in range(1, 4000):
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        uid = None
        if tried(lambda: os.kill(pid, 0) or 0) == "ESRCH":
            continue
    if uid == os.getuid():
        continue
    others[pid] = {
        "kill": tried(lambda: os.kill(pid, signal.SIGSTOP) or 0),
        "mem": tried(opening("/proc/%d/mem" % pid)),
        "environ": tried(opening("/proc/%d/environ" % pid)),
        "fd": tried(lambda: len(os.listdir("/proc/%d/fd" % pid))),
        "ptrace": tried(lambda: libc.ptrace(PTRACE_SEIZE, pid, None, None)),
        "pidfd_getfd": tried(lambda: grab(pid)),
        "process_vm_readv": tried(lambda: libc.process_vm_readv(
            pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)),
        "priority": tried(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19) or 0),
    }
print(json.dumps(others))
"""


@pytest.fixture(scope="module")
def watched(hostile: Hostile) -> Watch:
    """Fetches and pushes with every process of the helper looked at all the time."""
    with Watch(hostile.helper) as watch:
        for _ in range(4):
            hostile.plant("")
            assert hostile.fetch().ran.code == 0
            assert hostile.push().ran.code == 0
    programs = {word.rpartition("/")[2] for each in watch.seen.values() for word in each.words[:2]}
    assert {"git", "remote-http", "push", "index-pack"} & programs, programs
    return watch


def test_the_command_sees_no_process_of_the_helper(hostile: Hostile) -> None:
    """Rows 34, 36, 38: while fetch and push run; its own git processes it does see."""
    hostile.plant(SLOW_HOOK)
    peeked = hostile.state / "home" / "peeked"
    pid = hostile.sh(
        f'rm -f {HOME}/peeked; python3 -c "$1" {HOME}/peeked </dev/null >/dev/null 2>&1 & echo $!',
        PEEK,
    ).out.strip()
    eventually(peeked.exists, "the peeking begins")
    own = str(hostile.untrusted)
    assert hostile.fetch().ran.code == 0
    assert hostile.push().ran.code == 0
    seen = json.loads(peeked.read_text())
    hostile.sh(f"kill {pid}")
    assert set(seen) == {"0", own}
    assert "git" in seen[own], "it was not quick enough to prove it"


def test_every_way_at_another_process_is_closed(hostile: Hostile) -> None:
    """Row 34 and 38: what is there and not the command's own belongs to root."""
    hostile.plant("")
    found = json.loads(hostile.sh('python3 -c "$1"', REACH).expect_success("reaching"))
    assert found, "there is at least the room's first process"
    for outcomes in found.values():
        assert set(outcomes.values()) <= {"EPERM", "EACCES", "ENOSYS", "ESRCH"}, found


def test_killing_everything_leaves_the_gate_and_the_sidecar(make_hostile: MakeHostile) -> None:
    hostile = make_hostile()
    sidecar = hostile.box.sidecar
    hostile.box.run("/bin/sh", "-c", "kill -STOP -1; kill -KILL -1")
    assert hostile.box.sidecar == sidecar
    assert hostile.ls_remote().ran.code == 0
    assert hostile.fetch().ran.code == 0


def test_no_secret_is_in_the_helpers_arguments_or_environment(
    watched: Watch, stage: Gitmoat
) -> None:
    """Row 36: neither the upstream's password nor anything that looks like a request token."""
    text = watched.text()
    assert stage.public not in text
    token = re.compile(r"(?<![A-Za-z0-9_/.-])[A-Za-z0-9_-]{32}(?![A-Za-z0-9_/.-])")
    assert not [found for found in token.findall(text) if found.upper() != found]
    assert "Authorization" not in text


def test_the_helpers_processes_have_no_privilege(watched: Watch) -> None:
    for each in watched.seen.values():
        assert each.status["NoNewPrivs"] == "1"
        assert each.status["Seccomp"] == "2"
        assert each.status["Groups"].strip() == ""
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(each.status[name], 16) == 0


def test_the_helpers_environment_is_made_from_nothing(watched: Watch) -> None:
    """Row 42: by name, whatever hostd, hostctl or the sandbox have in theirs."""
    allowed = re.compile(
        r"(PATH|HOME|LANG|XDG_CONFIG_HOME|no_proxy|NO_PROXY|SSH_ASKPASS|GIT_[A-Z_0-9]+|PWD|OLDPWD|_"
        r"|SHLVL)="
    )
    for each in watched.seen.values():
        assert not [v for v in each.environment if v and not allowed.match(v)], each.words


def test_the_gates_git_reads_no_configuration_but_its_own(hostile: Hostile) -> None:
    """Row 42: asked of git itself, in the gate's room and with the gate's environment."""
    bare = next(hostile.gate_directory.glob("*.git")).name
    variables = [f"{name}={value}" for name, value in gate_git(1).items()]
    ran = hostile.box.stage.hostctl(
        *("exec", "--as", "helper", hostile.box.name, "--", "/usr/bin/env", "-i", *variables),
        *("/usr/bin/git", f"--git-dir=/gate/{bare}", "config", "--list", "--show-scope"),
    )
    lines = [line.split("\t") for line in ran.expect_success("git config").splitlines()]
    assert {scope for scope, _ in lines} == {"local", "command"}
    local = {text.partition("=")[0] for scope, text in lines if scope == "local"}
    assert local == {"core.repositoryformatversion", "core.filemode", "core.bare"}


def test_the_helpers_processes_hold_nothing_of_hostd(
    watched: Watch, hostile: Hostile, stage: Gitmoat
) -> None:
    """Rows 33 and 109: what they opened themselves, and the pipes they were given."""
    daemons = json.loads(stage.hostctl("--json", "status").out)
    foreign = sockets_of(daemons["hostd"]["pid"]) | sockets_of(daemons["broker"]["pid"])
    assert foreign
    own = re.compile(
        r"(pipe:\[\d+\]|/dev/null|/memfd:gitmoat-input.*|anon_inode:\[eventpoll\]|socket:\[\d+\]"
        r"|/|/gate(/.*)?|/usr/.*|/helper/.*|/proc/.*|/etc/.*)"
    )
    for each in watched.seen.values():
        for descriptor in each.descriptors:
            target = descriptor.partition(" ")[2]
            assert own.fullmatch(target.replace(str(hostile.state / "gate"), "/gate")), descriptor
            assert target not in foreign, descriptor


def test_a_command_gets_three_descriptors_and_no_more(hostile: Hostile) -> None:
    """Row 109, for `exec`; the fourth is the listing itself."""
    ran = hostile.box.run("/bin/ls", "/proc/self/fd")
    assert ran.out.split() == ["0", "1", "2", "3"]


@x86_64
def test_git_in_the_sandbox_gets_three_descriptors_and_no_more(hostile: Hostile) -> None:
    """Rows 33 and 109, for what the gate starts there: an imposter lists what it was given."""
    hostile.plant("")
    script = f"/bin/ls -l /proc/self/fd > {HOME}/given; exit 1"
    with imposter(hostile, "pack-objects", script):
        hostile.push()
    text = (hostile.state / "home" / "given").read_text()
    given = dict(re.findall(r"(\d+) -> (.*)", text))
    assert given.pop("0").startswith("/memfd:gitmoat-input")
    assert given.pop("1") == f"{HOME}/given"
    assert given.pop("2").startswith("pipe:")
    assert set(given.values()) <= {f"{HOME}/.gitconfig"} | {
        each for each in given.values() if each.startswith("/proc/")
    }, "the FIFO that held it up, and the listing"


def sockets_of(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(("socket:", "anon_inode:[pidfd]")):
            found.add(target)
    return found
