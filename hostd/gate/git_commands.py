"""The commands that the git gate runs: the helper's git, the untrusted uid's git, small tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from gitmoat.confine.confining import Limits
from hostd.failures import Failed
from hostd.process.requests import Command
from hostd.sandbox.environment import HELPER_SHELL, gate_git
from hostd.sandbox.sandbox import Sandbox

_GIT = "/usr/bin/git"
_GIB = 1 << 30
# Enough for the largest repositories; they come from an upstream that the policy names.
_FETCH_LIMITS = Limits(open_files=1024, file_size=8 * _GIB, address_space=8 * _GIB, cpu_time=3600)
# What the workspace sends is at most `push_max`, but its deltas may claim any size.
_PUSH_LIMITS = evolve(_FETCH_LIMITS, address_space=2 * _GIB)


class GatePrograms:
    """The commands of one sandbox; neither side is given a path of the other."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._environment = gate_git(sandbox.plan.uids.sidecar)

    def helper_git(
        self, *arguments: str, push: bool = False, more: Mapping[str, str] | None = None
    ) -> Command:
        """`push`: it reads objects that the workspace made."""
        limits = _PUSH_LIMITS if push else _FETCH_LIMITS
        return self._as_helper((_GIT, *arguments), {**self._environment, **(more or {})}, limits)

    def helper_tool(self, *argv: str) -> Command:
        return self._as_helper(argv, HELPER_SHELL, _PUSH_LIMITS)

    def _as_helper(
        self, argv: Sequence[str], environment: Mapping[str, str], limits: Limits
    ) -> Command:
        sandbox = self._sandbox
        if sandbox.gate is None:
            raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")
        return Command(
            argv=tuple(argv),
            environment=environment,
            uid=sandbox.plan.uids.helper,
            room=sandbox.gate.join(),
            cgroups=sandbox.cgroups["gate"],
            limits=limits,
            cause=f"{sandbox.plan.id}-gate",
        )

    def untrusted_git(self, *arguments: str, more: Mapping[str, str] | None = None) -> Command:
        sandbox = self._sandbox
        if sandbox.first is None:
            raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")
        return Command(
            argv=("git", *arguments),  # wherever its PATH finds one
            environment={**sandbox.environment, **(more or {})},
            uid=sandbox.plan.uids.untrusted,
            room=sandbox.first.join(),
            cgroups=sandbox.cgroups["sandbox"],
            cause=sandbox.plan.id,
        )
