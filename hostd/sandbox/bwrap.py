"""Namespaces made by bubblewrap: bwrap runs only a pause, and hostd starts every command itself.

The sandbox has a network namespace of its own (lo only) and /workspace. Its git gate shares that
network namespace, has other namespaces besides, and the gate's private directory instead.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, frozen

from hostd.deferreds import cancel
from hostd.failures import Failed
from hostd.process.handle import Process, alive
from hostd.process.launcher_client import LauncherClient
from hostd.process.pipes import collect, file_of, first_line
from hostd.process.requests import Command, Join

WORKSPACE = "/workspace"
HOME = "/home/sandbox"
GATE = "/gate"
HELPER = "/helper"
RUN = "/run/gitmoat"

_BWRAP = "/usr/bin/bwrap"
_TMP_SIZE = str(2 << 30)
_SHM_SIZE = str(1 << 30)
_TIMEOUT = 60.0
# It tells hostd `ready` when the mounts are made, and becomes a sleep.
_PAUSE = ("/bin/sh", "-c", "echo ready; exec sleep infinity >/dev/null 2>&1")
# What programs below /usr need of the host's /etc; nothing here names this host.
_ETC_OF_HOST = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "localtime",
)
_THERE = ("/", "/usr", "/usr/local")
_PARENTS = ("/etc", "/etc/ssl", "/run", "/home", HELPER)
_ETC_OF_OURS = ("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf", "bash.bashrc")
# Debian's bash reads it when it is interactive, and has a prompt that names nothing without it.
_BASHRC = "PS1='\\u@\\h:\\w\\$ '\n"


@frozen
class Directories:
    """Host directories of one sandbox, made by hostd before anything runs."""

    etc: Path
    workspace: Path
    home: Path
    gate: Path
    run: Path
    helper: Path


@define(eq=False)
class FirstProcess:
    """The first process of a sandbox or of its gate, a pause: commands join its namespaces.

    `monitor` is bwrap outside, `pid` the process inside.
    """

    monitor: Process
    pid: int
    pidfd: int

    def join(self, *, network_only: bool = False) -> Join:
        namespaces = ("net",) if network_only else ("pid", "mount", "net")
        return Join(pidfd=self.pidfd, namespaces=namespaces)

    def alive(self) -> bool:
        return alive(self.pidfd)

    def end(self) -> None:
        """The kernel kills every process of a pid namespace whose first one ends
        (pid_namespaces(7))."""
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _file_system(directories: Directories, name: str) -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr", "--tmpfs", "/usr/local"]
    for parent in _PARENTS:  # those that bwrap makes itself are closed where the source is
        arguments += ["--perms", "0755", "--dir", parent]
    for link in ("bin", "sbin", "lib", "lib64", "lib32", "libx32"):
        if Path("/", link).is_symlink():
            arguments += ["--symlink", f"usr/{link}", f"/{link}"]
        elif Path("/", link).is_dir():
            arguments += ["--ro-bind", f"/{link}", f"/{link}"]
    for entry in _ETC_OF_HOST:
        arguments += ["--ro-bind-try", f"/etc/{entry}", f"/etc/{entry}"]
    for entry in _ETC_OF_OURS:
        arguments += ["--ro-bind", str(directories.etc / entry), f"/etc/{entry}"]
    return [
        *arguments,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", _TMP_SIZE, "--tmpfs", "/tmp"),  # noqa: S108
        *("--perms", "1777", "--size", _SHM_SIZE, "--tmpfs", "/dev/shm"),  # noqa: S108
        *("--ro-bind", str(directories.run), RUN),
        *("--hostname", name),
    ]


def _process() -> list[str]:
    return [
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"),
    ]


def existing(shown: Sequence[str]) -> Sequence[str]:
    """Those of hostd.toml; a link could lead to any directory."""
    for path in shown:
        if not Path(path).is_dir() or os.path.realpath(path) != path:
            what = f"runtime.show of hostd.toml names {path}, which is no directory"
            why = "it does not exist, or a part of its path is a symbolic link"
            raise Failed("N104", what, why, "correct it, then restart hostd", exit_code=8)
    return shown


def _showing(path: str) -> list[str]:
    """bwrap would make what the directory lies in, and let nobody but root look for it there."""
    above = [str(each) for each in reversed(Path(path).parents) if str(each) not in _THERE]
    made = [word for each in above for word in ("--perms", "0755", "--dir", each)]
    return [*made, "--ro-bind", path, path]


def sandbox_arguments(
    directories: Directories, name: str, read_only: bool = False, shown: Sequence[str] = ()
) -> list[str]:
    return [
        *_process(),
        "--unshare-net",
        *_file_system(directories, name),
        *(word for path in shown for word in _showing(path)),
        *("--ro-bind" if read_only else "--bind", str(directories.workspace), WORKSPACE),
        *("--bind", str(directories.home), HOME),
        *("--symlink", f"{RUN}/gitconfig", "/etc/gitconfig"),
        *("--remount-ro", "/", "--chdir", "/"),
    ]


def gate_arguments(directories: Directories, name: str) -> list[str]:
    return [
        *_process(),
        *_file_system(directories, name),
        *("--bind", str(directories.gate), GATE),
        *("--ro-bind", str(directories.helper), f"{HELPER}/credential_helper"),
        *("--remount-ro", "/", "--chdir", "/"),
    ]


def _arguments_file(arguments: Sequence[str]) -> int:
    """For `--args FD`: the sandbox can read the command line of its process 1, but not this."""
    return file_of(b"".join(argument.encode() + b"\0" for argument in arguments))


async def start_first_process(
    reactor: Any,
    launcher: LauncherClient,
    arguments: Sequence[str],
    network: Join | None,
    cgroups: tuple[str, ...],
) -> FirstProcess:
    """Starts bwrap and waits until its pause runs; the mounts are complete then."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    (out_r, out_w), (err_r, err_w), (info_r, info_w) = pipes
    args = _arguments_file([*arguments, "--info-fd", "4"])
    stdio = [null, out_w, err_w, args, info_w]
    bwrap = Command(
        argv=(_BWRAP, "--args", "3", "--", *_PAUSE), environment={}, room=network, cgroups=cgroups
    )
    try:
        monitor = await launcher.ask_child(bwrap, stdio)
    except BaseException:
        for descriptor in (out_r, err_r, info_r):
            os.close(descriptor)
        raise
    finally:
        for descriptor in stdio:
            os.close(descriptor)
    problems = collect(reactor, err_r, 4096)
    information = collect(reactor, info_r, 4096)
    slow = reactor.callLater(_TIMEOUT, monitor.kill_session)
    ready = await first_line(reactor, out_r)
    cancel(slow)
    if ready != b"ready\n":
        why = (await problems).decode(errors="replace").strip()
        raise Failed("R101", "bubblewrap could not make the sandbox", why=why)
    problems.cancel()
    pid = json.loads(await information)["child-pid"]
    return FirstProcess(monitor, pid, os.pidfd_open(pid))


def write_etc(directory: Path, untrusted: int, helper: int) -> None:
    """An /etc that names the two uids and the sidecar's resolver, and nothing of the host."""
    files = {
        "passwd": (
            "root:x:0:0::/:/usr/sbin/nologin\n"
            f"sandbox:x:{untrusted}:{untrusted}::{HOME}:/bin/sh\n"
            f"gate:x:{helper}:{helper}::{GATE}:/usr/sbin/nologin\n"
        ),
        "group": f"root:x:0:\nsandbox:x:{untrusted}:\ngate:x:{helper}:\n",
        "hosts": "127.0.0.1 localhost\n",
        "resolv.conf": "nameserver 127.0.0.1\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "bash.bashrc": _BASHRC,
    }
    for name, text in files.items():
        (directory / name).write_text(text, encoding="ascii")


def private_directory(path: Path, uid: int) -> None:
    """Made and chowned before the sandbox exists; hostd uses no path below it afterwards."""
    path.mkdir(mode=0o700)
    os.chown(path, uid, uid)
