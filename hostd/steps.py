"""Each step of a sandbox's life is on disk before it begins."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.logger import Logger

from hostd.host import Host
from hostd.registry import Step
from hostd.sandbox import Sandbox

_log = Logger()


def save(host: Host, sandbox: Sandbox, step: Step, **changes: Any) -> None:
    sandbox.record = evolve(sandbox.record, step=step, **changes)
    host.registry.save(sandbox.record)


def save_if_possible(host: Host, sandbox: Sandbox, step: Step, **changes: Any) -> None:
    """For an end: a full disk does not keep a sandbox alive, and its removal makes room."""
    try:
        save(host, sandbox, step, **changes)
    except OSError as problem:
        _log.error("{id} not recorded: {why}", id=sandbox.plan.id, why=str(problem))
