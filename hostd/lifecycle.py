"""How a sandbox comes to be and how it goes, step by step.

Order is the point: nothing of the sandbox's owner runs before rules, listeners, sidecar and
session are there. `destroy` undoes whatever was made, in any state, and may be called twice.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

import credential_helper
from audit.journal import Journal
from hostd import cgroups as cgroup_files
from hostd.cgroups import Cgroups
from hostd.failures import Failed
from hostd.grants import Grants, SandboxSessions
from hostd.nft import apply_ruleset, find_program
from hostd.programs import Program, Programs
from hostd.registry import ProcessRecord, Record, Registry
from hostd.runtimes import bwrap
from hostd.runtimes.bwrap import Directories, start_room
from hostd.sandbox import Plan, Sandbox
from hostd.sidecars import Setting, SidecarSupervisor
from hostd.spawner import Spawner
from identity.paths import Paths
from netpolicy.nftables import render
from netpolicy.upstreams import UpstreamTable, gitconfig_for
from netpolicy.writing import policy_to_mapping

_log = Logger()
_UNTRUSTED_GIT_PORT = 419
_ROOMS = ("sandbox", "gate", "sidecar")
Progress = Callable[[str], None]


@frozen
class Host:
    """What every sandbox of this host is made with."""

    reactor: Any
    paths: Paths
    spawner: Spawner
    programs: Programs
    grants: Grants
    registry: Registry
    cgroups: Cgroups
    journal: Journal
    broker_address: tuple[str, int]
    broker_key_text: str
    log: int


def _directories(host: Host, plan: Plan) -> Directories:
    state = host.registry.parent / plan.id
    return Directories(
        etc=state / "etc",
        workspace=state / "workspace",
        home=state / "home",
        gate=state / "gate",
        run=host.paths.sandboxes_run / plan.id,
        helper=Path(credential_helper.__path__[0]),
    )


def _make_directories(sandbox: Sandbox, upstreams: UpstreamTable) -> None:
    plan, directories = sandbox.plan, sandbox.directories
    sandbox.state_directory.mkdir(mode=0o700)
    bwrap.write_etc(directories.etc, plan.uids.untrusted, plan.uids.helper)
    bwrap.private_directory(directories.workspace, plan.uids.untrusted)
    bwrap.private_directory(directories.home, plan.uids.untrusted)
    bwrap.private_directory(directories.gate, plan.uids.helper)
    directories.run.mkdir(mode=0o755)
    gitconfig = gitconfig_for(upstreams, _UNTRUSTED_GIT_PORT, bwrap.WORKSPACE)
    (directories.run / "gitconfig").write_text(gitconfig, encoding="ascii")
    (directories.run / "policy.json").write_text(
        json.dumps(policy_to_mapping(plan.policy), indent=1), encoding="ascii"
    )


def _record(sandbox: Sandbox) -> Record:
    rooms = [room for room in (sandbox.room, sandbox.gate) if room is not None]
    pids = [pid for room in rooms for pid in (room.monitor.pid, room.pid)]
    return Record(
        id=sandbox.plan.id,
        name=sandbox.plan.name,
        uid_index=sandbox.plan.uid_index,
        created=sandbox.created,
        policy=sandbox.plan.policy.name,
        processes=tuple(filter(None, map(ProcessRecord.of, pids))),
    )


async def create(host: Host, plan: Plan, upstreams: UpstreamTable, progress: Progress) -> Sandbox:
    """A sandbox that is served and has its session, or a failure and nothing left of it."""
    sandbox = Sandbox(
        plan=plan,
        directories=_directories(host, plan),
        state_directory=host.registry.parent / plan.id,
        created=int(time.time()),
    )
    try:
        await _provision(host, sandbox, upstreams, progress)
    except BaseException:
        await destroy(host, sandbox, "start failed")
        raise
    sandbox.state = "running"
    return sandbox


async def _provision(
    host: Host, sandbox: Sandbox, upstreams: UpstreamTable, progress: Progress
) -> None:
    _make_directories(sandbox, upstreams)
    for room in _ROOMS:
        sandbox.cgroups[room] = host.cgroups.make(f"{sandbox.plan.id}-{room}")
    await _make_rooms(host, sandbox)
    host.registry.save(_record(sandbox))
    assert sandbox.room is not None  # noqa: S101 - made by the line above
    network = sandbox.room.join(network_only=True)
    await apply_ruleset(host.programs, network, render(sandbox.plan.uids, egress=False))
    await _start_sidecar(host, sandbox, upstreams)


async def _make_rooms(host: Host, sandbox: Sandbox) -> None:
    plan, directories = sandbox.plan, sandbox.directories
    find_program("bwrap")
    arguments = bwrap.sandbox_room(directories, plan.name)
    sandbox.room = await start_room(host.reactor, host.spawner, arguments, None)
    sandbox.descriptors.append(sandbox.room.pidfd)
    network = sandbox.room.join(network_only=True)
    arguments = bwrap.gate_room(directories, plan.name)
    sandbox.gate = await start_room(host.reactor, host.spawner, arguments, network)
    sandbox.descriptors.append(sandbox.gate.pidfd)
    namespace = os.open(f"/proc/{sandbox.room.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    sandbox.descriptors.append(namespace)
    sandbox.netns = os.fstat(namespace).st_ino


async def _start_sidecar(host: Host, sandbox: Sandbox, upstreams: UpstreamTable) -> None:
    plan = sandbox.plan
    namespace = sandbox.descriptors[-1]
    control = str(host.paths.control_dir / f"{plan.id}.sock")
    credential = str(sandbox.directories.run / "cred.sock")
    sandbox.listeners = tuple(
        await host.spawner.listen(namespace, plan.uids.sidecar, credential, control)
    )
    sandbox.expires = time.time() + plan.policy.session.ttl
    setting = Setting(
        sandbox=plan.id,
        uid=plan.uids.sidecar,
        netns=namespace,
        listeners=sandbox.listeners,
        control_path=control,
        empty_root=str(host.paths.run / "empty"),
        cgroup=sandbox.cgroup("sidecar"),
        log=host.log,
    )
    sandbox.sidecar = SidecarSupervisor(
        host.reactor,
        host.spawner,
        setting,
        host.broker_address,
        lambda: _sidecar_configuration(host, sandbox, upstreams),
        SandboxSessions(host.grants, sandbox),
    )
    await sandbox.sidecar.start()


def _sidecar_configuration(
    host: Host, sandbox: Sandbox, upstreams: UpstreamTable
) -> dict[str, Any]:
    plan = sandbox.plan
    gate = cgroup_files.identifier(sandbox.cgroups["gate"])
    return {
        "schema": "gitmoat.sidecar/1",
        "sandbox": plan.id,
        "session": plan.id,
        "uids": {
            "sidecar": plan.uids.sidecar,
            "helper": plan.uids.helper,
            "untrusted": plan.uids.untrusted,
        },
        "helper_cgroups": None if gate is None else [gate],
        "broker_keys": [host.broker_key_text],
        "policy": policy_to_mapping(plan.policy),
        "upstreams": upstreams.to_mapping(),
        "dial_cap": 16,
    }


async def destroy(host: Host, sandbox: Sandbox, reason: str) -> None:
    """End it and remove all that was made for it, the workspace too."""
    await end(host, sandbox, reason)
    await remove_files(host, sandbox.plan.id)
    sandbox.state = "removed"


async def end(host: Host, sandbox: Sandbox, reason: str) -> None:
    """The session first, then every process; a dead broker does not stop it. Files stay."""
    sandbox.state = "ending"
    if sandbox.sidecar is not None:
        try:
            await sandbox.sidecar.stop(reason)
        except Failed as problem:
            _log.warn("session not revoked: {why}", why=str(problem))
        sandbox.sidecar = None
    for room in (sandbox.gate, sandbox.room):
        if room is not None:
            room.end()
            await room.monitor.wait()
    sandbox.room = sandbox.gate = None
    sandbox.close_descriptors()
    sandbox.state = "stopped"


async def remove_files(host: Host, identifier: str) -> None:
    """Run and state files and cgroups of a sandbox whose processes are gone."""
    (host.paths.control_dir / f"{identifier}.sock").unlink(missing_ok=True)
    doomed = [host.paths.sandboxes_run / identifier, host.registry.parent / identifier]
    existing = [str(path) for path in doomed if path.exists()]
    if existing:
        # rm walks by descriptor and at any depth; nothing lives in the tree any more.
        remover = Program([find_program("rm"), "-rf", "--one-file-system", "--", *existing], {})
        finished = await host.programs.run(remover, timeout=600)
        if finished.status != 0:
            raise Failed("R101", "the sandbox's files were not all removed", why=finished.why())
    for room in _ROOMS:
        await _remove_cgroup(host, f"{identifier}-{room}")


async def _remove_cgroup(host: Host, name: str) -> None:
    """The kernel takes a moment to forget the processes that were just killed."""
    for _ in range(100):
        try:
            host.cgroups.remove(name)
            return
        except OSError:
            pause: Deferred[None] = Deferred()
            host.reactor.callLater(0.02, pause.callback, None)
            await pause
    _log.warn("cgroup {name} still has processes", name=name)
