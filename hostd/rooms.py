"""Makes a sandbox's rooms, and says what the next hostd knows them by."""

from __future__ import annotations

import os
from typing import Any

from attrs import evolve

from hostd.cgroups import ResourceLimits
from hostd.host import ROOMS, Host
from hostd.nft import find_program
from hostd.registry import ProcessRecord
from hostd.runtimes import bwrap
from hostd.runtimes.bwrap import StartedRoom, start_room
from hostd.sandbox import Sandbox
from hostd.steps import save

_GATE_LIMITS = ResourceLimits(pids=256)
_NO_LIMITS = ResourceLimits()


def join_cgroups(host: Host, sandbox: Sandbox) -> None:
    limits = {"sandbox": sandbox.plan.limits, "gate": _GATE_LIMITS, "sidecar": _NO_LIMITS}
    for room in ROOMS:
        name = f"{sandbox.plan.id}-{room}"
        sandbox.cgroups[room] = host.cgroups.make(name, limits[room])


async def make_rooms(host: Host, sandbox: Sandbox) -> None:
    plan, directories = sandbox.plan, sandbox.directories
    find_program("bwrap")
    if plan.ownership is None:
        sandbox.room = network = await _start_sandbox_room(host, sandbox)
        sandbox.descriptors.append(sandbox.room.pidfd)
    else:
        sandbox.holder = network = await host.containers.start_holder(sandbox)
        if not plan.foreign:
            await _create_container(host, sandbox)
    arguments = bwrap.gate_room(directories, plan.name)
    sandbox.gate = await start_room(
        host.reactor, host.spawner, arguments, sandbox.network(), sandbox.cgroups["gate"]
    )
    sandbox.descriptors.append(sandbox.gate.pidfd)
    pin_namespace(sandbox, network)


async def _create_container(host: Host, sandbox: Sandbox) -> None:
    """A work directory stays mounted out here until Docker has started the container."""
    plan, workspace, read_only = sandbox.plan, sandbox.directories.workspace, False
    if plan.workdir is not None:
        workspace = await host.workdirs.mount(plan.id, plan.uids.untrusted)
        read_only = plan.workdir.read_only
    await host.containers.create(sandbox, workspace, read_only)


async def join_container(host: Host, sandbox: Sandbox) -> None:
    """The last thing before activation: the sandbox's container comes into the guarded network."""
    try:
        await host.containers.join(sandbox)
    finally:
        host.workdirs.unmount(sandbox.plan.id)
    save(host, sandbox, sandbox.step, **what_runs(sandbox))


async def _start_sandbox_room(host: Host, sandbox: Sandbox) -> StartedRoom:
    """A work directory is mounted out here only until the room has it."""
    plan, directories, read_only = sandbox.plan, sandbox.directories, False
    try:
        if plan.workdir is not None:
            source = await host.workdirs.mount(plan.id, plan.uids.untrusted)
            directories, read_only = evolve(directories, workspace=source), plan.workdir.read_only
        arguments = bwrap.sandbox_room(directories, plan.name, read_only)
        return await start_room(
            host.reactor, host.spawner, arguments, None, sandbox.cgroups["sandbox"]
        )
    finally:
        host.workdirs.unmount(plan.id)


def pin_namespace(sandbox: Sandbox, room: StartedRoom) -> None:
    sandbox.namespace = os.open(f"/proc/{room.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    sandbox.descriptors.append(sandbox.namespace)
    sandbox.record = evolve(sandbox.record, netns=os.fstat(sandbox.namespace).st_ino)


def what_runs(sandbox: Sandbox) -> dict[str, Any]:
    """What the next hostd knows the rooms by."""
    return {
        "processes": _processes(sandbox),
        "environment": dict(sandbox.environment),
        "holding": sandbox.holding.to_json() if sandbox.holding else None,
        "container": sandbox.container.to_json() if sandbox.container else None,
    }


def _processes(sandbox: Sandbox) -> dict[str, ProcessRecord]:
    pids: dict[str, int] = {}
    for name, room in sandbox.rooms().items():
        if room is not None:
            pids |= {name: room.pid, f"{name}-monitor": room.monitor.pid}
    found = {name: ProcessRecord.of(pid) for name, pid in pids.items()}
    return {name: process for name, process in found.items() if process is not None}
