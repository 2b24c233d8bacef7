"""Starts a sandbox's first processes, and says how the next hostd finds them again."""

from __future__ import annotations

import os
from typing import Any

from attrs import evolve

from hostd.network.nft import find_program
from hostd.process.cgroups import ResourceLimits
from hostd.registry import ProcessRecord
from hostd.sandbox import bwrap
from hostd.sandbox.bwrap import FirstProcess, start_first_process
from hostd.sandbox.sandbox import Sandbox
from hostd.sandbox.steps import save
from hostd.this_host import CGROUPS, Host

_GATE_LIMITS = ResourceLimits(pids=256)
_NO_LIMITS = ResourceLimits()


def make_cgroups(host: Host, sandbox: Sandbox) -> None:
    limits = {"sandbox": sandbox.plan.limits, "gate": _GATE_LIMITS, "sidecar": _NO_LIMITS}
    for group in CGROUPS:
        name = f"{sandbox.plan.id}-{group}"
        sandbox.cgroups[group] = host.cgroups.make(name, limits[group])


async def make_namespaces(host: Host, sandbox: Sandbox) -> None:
    plan, directories = sandbox.plan, sandbox.directories
    find_program("bwrap")
    if plan.ownership is None:
        sandbox.first = network = await _start_bubblewrap(host, sandbox)
        sandbox.descriptors.append(sandbox.first.pidfd)
    else:
        sandbox.holder = network = await host.containers.start_holder(sandbox)
        if not plan.foreign:
            await _create_container(host, sandbox)
    arguments = bwrap.gate_arguments(directories, plan.name)
    sandbox.gate = await start_first_process(
        host.reactor, host.launcher, arguments, sandbox.network(), sandbox.cgroups["gate"]
    )
    sandbox.descriptors.append(sandbox.gate.pidfd)
    pin_namespace(sandbox, network)


async def _create_container(host: Host, sandbox: Sandbox) -> None:
    """A work directory stays mounted in hostd's namespace until the container is started."""
    plan, workspace, read_only = sandbox.plan, sandbox.directories.workspace, False
    if plan.workdir is not None:
        workspace = await host.workdirs.mount(plan.id, plan.uids.untrusted)
        read_only = plan.workdir.read_only
    await host.containers.create(sandbox, workspace, read_only)


async def join_container(host: Host, sandbox: Sandbox) -> None:
    """The last step before activation: the sandbox's container joins the network, which has its
    rules by now."""
    try:
        await host.containers.join(sandbox)
    finally:
        host.workdirs.unmount(sandbox.plan.id)
    save(host, sandbox, sandbox.step, **what_runs(sandbox))


async def _start_bubblewrap(host: Host, sandbox: Sandbox) -> FirstProcess:
    """A work directory is mounted in hostd's namespace only until bubblewrap has mounted it."""
    plan, directories, read_only = sandbox.plan, sandbox.directories, False
    try:
        if plan.workdir is not None:
            source = await host.workdirs.mount(plan.id, plan.uids.untrusted)
            directories, read_only = evolve(directories, workspace=source), plan.workdir.read_only
        shown = bwrap.existing(host.shown)
        arguments = bwrap.sandbox_arguments(directories, plan.name, read_only, shown)
        return await start_first_process(
            host.reactor, host.launcher, arguments, None, sandbox.cgroups["sandbox"]
        )
    finally:
        host.workdirs.unmount(plan.id)


def pin_namespace(sandbox: Sandbox, first: FirstProcess) -> None:
    """An open descriptor keeps the namespace alive without a process in it (namespaces(7))."""
    sandbox.namespace = os.open(f"/proc/{first.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    sandbox.descriptors.append(sandbox.namespace)
    sandbox.record = evolve(sandbox.record, netns=os.fstat(sandbox.namespace).st_ino)


def what_runs(sandbox: Sandbox) -> dict[str, Any]:
    """What the next hostd finds the first processes by."""
    return {
        "processes": _processes(sandbox),
        "environment": dict(sandbox.environment),
        "holding": sandbox.holding.to_json() if sandbox.holding else None,
        "container": sandbox.container.to_json() if sandbox.container else None,
    }


def _processes(sandbox: Sandbox) -> dict[str, ProcessRecord]:
    pids: dict[str, int] = {}
    for name, first in sandbox.first_processes().items():
        if first is not None:
            pids |= {name: first.pid, f"{name}-monitor": first.monitor.pid}
    found = {name: ProcessRecord.of(pid) for name, pid in pids.items()}
    return {name: process for name, process in found.items() if process is not None}
