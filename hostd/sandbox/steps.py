"""Writes each step of a sandbox's life to disk before the step begins."""

from __future__ import annotations

from typing import Any

from hostd.registry import Step
from hostd.sandbox.sandbox import Sandbox
from hostd.this_host import Host


def save(host: Host, sandbox: Sandbox, step: Step, **changes: Any) -> None:
    sandbox.record = sandbox.record.at(step, **changes)
    host.registry.save(sandbox.record)


def save_if_possible(host: Host, sandbox: Sandbox, step: Step, **changes: Any) -> None:
    sandbox.record = sandbox.record.at(step, **changes)
    host.registry.save_if_possible(sandbox.record)
