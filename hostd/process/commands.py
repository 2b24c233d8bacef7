"""Runs a command in a sandbox for hostctl: descriptors, signals, the exit status."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from gitmoat.confine.confining import Limits
from hostd.api.admin import Channel
from hostd.failures import Failed, NotStarted
from hostd.process.cgroups import frozen_group
from hostd.process.handle import Process
from hostd.process.launcher_client import LauncherClient
from hostd.process.requests import Command
from hostd.sandbox.bwrap import WORKSPACE
from hostd.sandbox.environment import HELPER_SHELL
from hostd.sandbox.sandbox import Sandbox
from netpolicy.presets.tool_files import variables_for

_OPEN_FILES = 4096
_SPARE = 16  # processes that hostd starts there: the pause, a probe, questions of the gate
_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
              signal.SIGUSR2, signal.SIGKILL}  # fmt: skip
_HANGUP_GRACE = 5.0


def command_for(
    sandbox: Sandbox,
    tier: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    tty: bool,
) -> Command:
    """`untrusted` runs in the sandbox; `helper` runs in the gate, without the sandbox's files."""
    first = sandbox.first if tier == "untrusted" else sandbox.gate
    if first is None or not sandbox.running:
        raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")
    untrusted = tier == "untrusted"
    if untrusted and sandbox.container is not None and frozen_group(sandbox.cgroups["sandbox"]):
        name = sandbox.plan.name
        raise Failed(
            "R106", f"sandbox {name} is paused", fix=f"docker unpause {sandbox.container.id[:12]}"
        )
    return Command(
        argv=tuple(argv),
        environment={**(_environment(sandbox) if untrusted else HELPER_SHELL), **env},
        uid=sandbox.plan.uids.untrusted if untrusted else sandbox.plan.uids.helper,
        cwd=WORKSPACE if untrusted and not sandbox.plan.foreign else "/",
        room=first.join(),
        cgroups=sandbox.cgroups["sandbox" if untrusted else "gate"],
        tty=tty,
        cause=sandbox.plan.id,
        limits=_limits(sandbox) if untrusted else Limits(open_files=_OPEN_FILES),
    )


def _environment(sandbox: Sandbox) -> dict[str, str]:
    """What an image says goes before what the policy in force says."""
    return {**variables_for(sandbox.plan.policy.index), **sandbox.environment}


def _limits(sandbox: Sandbox) -> Limits:
    """RLIMIT_NPROC is a little below the cgroup's pids.max: fork() fails on RLIMIT_NPROC at its
    start, on pids.max only after it has taken cgroup_threadgroup_rwsem (copy_process() and
    cgroup_can_fork() in kernel/fork.c). A fork bomb at pids.max would delay every start."""
    pids = sandbox.plan.limits.pids
    most = None if pids is None else max(pids - _SPARE, pids // 2)
    return Limits(open_files=_OPEN_FILES, processes=most)


def _give_pipes(descriptors: Sequence[int], uid: int) -> None:
    """Whoever opens /dev/stdout opens the pipe anew and needs its permission, so the pipe or
    terminal is given to the command's uid. A file or another device keeps its owner.
    """
    for descriptor in descriptors:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or os.isatty(descriptor):
            os.fchown(descriptor, uid, -1)


async def start_command(
    launcher: LauncherClient, command: Command, stdio: Sequence[int]
) -> Process:
    _give_pipes(stdio, command.uid)
    try:
        return await launcher.ask_child(command, stdio)
    except Failed as problem:
        raise not_started(command.argv[0], problem) from None


def not_started(program: str, problem: Failed) -> Failed:
    """The exit codes of shells: 127 not found, 126 found but not executable (POSIX sh, 2.8.2)."""
    if isinstance(problem, NotStarted) and problem.not_found:
        return Failed("R107", f"the sandbox has no program {program!r}", exit_code=127)
    if isinstance(problem, NotStarted) and problem.not_allowed:
        return Failed("R107", f"{program!r} cannot be executed", exit_code=126)
    if problem.code == "R117":
        return Failed("R117", problem.what, why=f"it was to run {program!r}", exit_code=126)
    return problem


def hang_up(reactor: Any, process: Process) -> None:
    """Ends a command whose client is gone; it has a few seconds to clean up."""
    process.signal_session(signal.SIGHUP)
    reactor.callLater(_HANGUP_GRACE, process.kill_session)


async def attend(reactor: Any, channel: Channel, process: Process) -> int:
    """Passes signals to an attached command, and ends it when its client is gone."""

    def forward(number: int) -> None:
        if number in _FORWARDED:
            process.signal_session(number)

    channel.on_signal(forward)
    channel.on_lost(lambda: hang_up(reactor, process))
    status = await process.wait()
    return status if status >= 0 else 128 - status
