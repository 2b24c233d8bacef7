"""How a sandbox comes to be, step by step.

Each step is on disk before it begins. Order is the point: nothing of the sandbox's owner runs
before rules, listeners, sidecar, session and probes are there.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from attrs import evolve

from audit.events import SandboxRemoved
from gitmoat.messages.sidecar import MOST_EGRESS, SCHEMA, SidecarConfig, Uids
from hostd.attaching import look_for_sockets
from hostd.cgroups import ResourceLimits
from hostd.ending import destroy, record_end, remove_run_files, stop
from hostd.failures import Failed
from hostd.grants import SandboxSessions
from hostd.host import ROOMS, Host
from hostd.messages import Listen
from hostd.nft import apply_ruleset, find_program, loaded_hash
from hostd.plan import Ours, Plan
from hostd.probes import ACTIVATION
from hostd.proc import boot_id, boot_seconds
from hostd.registry import ProcessRecord, Record, Step
from hostd.runtimes import bwrap
from hostd.runtimes.bwrap import StartedRoom, start_room
from hostd.sandbox import Sandbox
from hostd.sidecars import Setting, SidecarSupervisor
from hostd.steps import save, save_if_possible
from hostd.trials import try_all
from identity.peer import Means
from netpolicy.nftables import GIT_UNTRUSTED, render
from netpolicy.upstreams import gitconfig_for
from netpolicy.writing import policy_to_mapping

DIAL_CAP = 16
_GATE_LIMITS = ResourceLimits(pids=256)
_NO_LIMITS = ResourceLimits()


def _life(plan: Plan) -> dict[str, Any]:
    """How long a session may be, from now on."""
    ttl = plan.policy.session.ttl
    return {"expires": time.time() + ttl, "began": boot_seconds(), "ttl": ttl}


def _first_record(plan: Plan) -> Record:
    return Record(
        plan=plan.to_json(),
        step=Step.DIRECTORIES,
        created=int(time.time()),
        boot_id=boot_id(),
        **_life(plan),
    )


async def create(host: Host, plan: Plan) -> Sandbox:
    """A sandbox that is served and has its session, or a failure and nothing left of it."""
    sandbox = Sandbox(plan, host.directories(plan.id), _first_record(plan))
    host.registry.claim(sandbox.record)
    try:
        _make_directories(sandbox)
        await _provision(host, sandbox)
    except BaseException as problem:
        reason = _start_failed(problem)
        await destroy(host, sandbox, reason)
        record_end(host, SandboxRemoved(sandbox=plan.id, name=plan.name, reason=reason))
        raise
    return sandbox


def _start_failed(problem: BaseException) -> str:
    known = isinstance(problem, Failed)
    return f"its start failed: {problem if known else type(problem).__name__}"


async def start(host: Host, sandbox: Sandbox) -> None:
    """Make a stopped sandbox run again, on its old files, with a new session."""
    life = _life(sandbox.plan)
    save(host, sandbox, Step.ENDING, boot_id=boot_id(), ended=None, **life)
    try:
        remove_run_files(host, sandbox.plan.id)
        _make_run_directory(sandbox)
        await _provision(host, sandbox)
    except BaseException as problem:
        await stop(host, sandbox, _start_failed(problem))
        raise


async def _provision(host: Host, sandbox: Sandbox) -> None:
    """A stopped sandbox that is killed here stays at ENDING, which keeps its files."""
    again = sandbox.step is Step.ENDING

    def note(step: Step, **changes: Any) -> None:
        save(host, sandbox, Step.ENDING if again else step, **changes)

    _claim_workdir(host, sandbox)
    join_cgroups(host, sandbox)
    note(Step.ROOMS)
    await _make_rooms(host, sandbox)
    note(Step.RULES, **_found(sandbox))
    ruleset = render(sandbox.plan.uids, sandbox.plan.policy_hash)
    rules = await apply_ruleset(host.programs, sandbox.network(), ruleset)
    note(Step.LISTENERS, rules=rules)
    await make_listeners(host, sandbox)
    if sandbox.plan.foreign:
        save(host, sandbox, Step.PREPARED)
        return
    note(Step.SIDECAR)
    sandbox.sidecar = supervisor(host, sandbox)
    await sandbox.sidecar.start()
    save(host, sandbox, Step.SERVED if again else Step.WORKSPACE)


async def attach(host: Host, sandbox: Sandbox, plan: Plan, found: dict[str, Any]) -> None:
    """Serve a container that others started in the network that was prepared for it."""
    if await loaded_hash(host.programs, sandbox.network()) != sandbox.record.rules:
        raise Failed("N207", "the network rules were changed since they were prepared")
    ruleset = render(plan.uids, plan.policy_hash)
    rules = await apply_ruleset(host.programs, sandbox.network(), ruleset)
    sandbox.plan = plan
    sandbox.record = evolve(
        sandbox.record,
        plan=plan.to_json(),
        rules=rules,
        ended=None,
        **_life(plan),
    )
    _write_policy(sandbox)
    try:
        await host.containers.admit(sandbox, found)
        await look_for_sockets(host, sandbox)
        save(host, sandbox, Step.PREPARED, **_found(sandbox))
        sandbox.sidecar = supervisor(host, sandbox)
        await sandbox.sidecar.start()
    except BaseException:
        await detach(host, sandbox, "attach failed")
        raise
    save(host, sandbox, Step.SERVED)


async def detach(host: Host, sandbox: Sandbox, reason: str) -> None:
    """No session any more; network, rules and listeners stay for the next container."""
    sandbox.record = sandbox.record.at(Step.ENDING)  # not on disk: nothing else begins meanwhile
    if sandbox.sidecar is not None:
        await sandbox.sidecar.stop(reason)
        sandbox.sidecar = None
    sandbox.room = sandbox.container = None
    sandbox.cgroups["sandbox"] = host.cgroups.directories(f"{sandbox.plan.id}-sandbox")
    sandbox.record = sandbox.record.ending(reason)
    save_if_possible(host, sandbox, Step.PREPARED, session=None, **_found(sandbox))


def _claim_workdir(host: Host, sandbox: Sandbox) -> None:
    if sandbox.plan.workdir is not None:
        workdir = host.workdirs.claim(sandbox.plan.id, sandbox.plan.workdir)
        sandbox.plan = evolve(sandbox.plan, workdir=workdir)
        sandbox.record = evolve(sandbox.record, plan=sandbox.plan.to_json())


def _make_directories(sandbox: Sandbox) -> None:
    plan, directories = sandbox.plan, sandbox.directories
    bwrap.write_etc(directories.etc, plan.uids.untrusted, plan.uids.helper)
    if plan.workdir is None:
        bwrap.private_directory(directories.workspace, plan.uids.untrusted)
    bwrap.private_directory(directories.home, plan.uids.untrusted)
    bwrap.private_directory(directories.gate, plan.uids.helper)
    _make_run_directory(sandbox)


def _make_run_directory(sandbox: Sandbox) -> None:
    """What is mounted at /run/gitmoat; gone with a reboot, so made at every start."""
    plan, directories = sandbox.plan, sandbox.directories
    directories.run.mkdir(mode=0o755)
    if isinstance(plan.ownership, Ours):
        (directories.run / "pause").touch(mode=0o444)  # a container's first program goes over it
    gitconfig = gitconfig_for(plan.upstreams, GIT_UNTRUSTED, bwrap.WORKSPACE)
    (directories.run / "gitconfig").write_text(gitconfig, encoding="ascii")
    _write_policy(sandbox)


def _write_policy(sandbox: Sandbox) -> None:
    text = json.dumps(policy_to_mapping(sandbox.plan.policy), indent=1)
    (sandbox.directories.run / "policy.json").write_text(text, encoding="ascii")


def join_cgroups(host: Host, sandbox: Sandbox) -> None:
    limits = {"sandbox": sandbox.plan.limits, "gate": _GATE_LIMITS, "sidecar": _NO_LIMITS}
    for room in ROOMS:
        name = f"{sandbox.plan.id}-{room}"
        sandbox.cgroups[room] = host.cgroups.make(name, limits[room])


async def _make_rooms(host: Host, sandbox: Sandbox) -> None:
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


async def _join_container(host: Host, sandbox: Sandbox) -> None:
    """The last thing before activation: the sandbox's container comes into the guarded network."""
    try:
        await host.containers.join(sandbox)
    finally:
        host.workdirs.unmount(sandbox.plan.id)
    save(host, sandbox, sandbox.step, **_found(sandbox))


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


def _found(sandbox: Sandbox) -> dict[str, Any]:
    """What the next hostd knows the rooms by."""
    return {
        "processes": room_processes(sandbox),
        "environment": dict(sandbox.environment),
        "holding": sandbox.holding.to_json() if sandbox.holding else None,
        "container": sandbox.container.to_json() if sandbox.container else None,
    }


def room_processes(sandbox: Sandbox) -> dict[str, ProcessRecord]:
    pids: dict[str, int] = {}
    for name, room in sandbox.rooms().items():
        if room is not None:
            pids |= {name: room.pid, f"{name}-monitor": room.monitor.pid}
    found = {name: ProcessRecord.of(pid) for name, pid in pids.items()}
    return {name: process for name, process in found.items() if process is not None}


async def make_listeners(host: Host, sandbox: Sandbox) -> None:
    plan = sandbox.plan
    sandbox.listeners = tuple(
        await host.spawner.ask_listen(
            sandbox.namespace,
            Listen(
                uid=plan.uids.sidecar,
                credential=str(sandbox.directories.run / "cred.sock"),
                control=str(host.control_path(plan.id)),
            ),
        )
    )


def supervisor(host: Host, sandbox: Sandbox) -> SidecarSupervisor:
    plan = sandbox.plan

    async def listeners() -> tuple[int, ...]:
        """Held ones, or after a restart of hostd fresh ones: nobody could squat meanwhile."""
        if not sandbox.listeners:
            await make_listeners(host, sandbox)
        return sandbox.listeners

    setting = Setting(
        sandbox=plan.id,
        uid=plan.uids.sidecar,
        netns=sandbox.namespace,
        listeners=listeners,
        control_path=str(host.control_path(plan.id)),
        empty_root=str(host.paths.run / "empty"),
        cgroups=sandbox.cgroups["sidecar"],
        log=_open_log(host, sandbox),
        configuration=lambda: _sidecar_configuration(host, sandbox),
        probe=lambda: probe(host, sandbox),
        started=lambda process, session: _remember(host, sandbox, process, session),
    )
    sessions = SandboxSessions(host.grants, sandbox)
    return SidecarSupervisor(host.reactor, host.nursery, setting, host.broker_address, sessions)


def _open_log(host: Host, sandbox: Sandbox) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.open(host.sidecar_log(sandbox.plan.id), flags, 0o600)
    sandbox.descriptors.append(log)
    return log


def _remember(host: Host, sandbox: Sandbox, pid: int, session: str) -> None:
    """Before the sidecar is told to accept: a hostd killed now must find it again."""
    process = ProcessRecord.of(pid)
    processes = dict(sandbox.record.processes)
    if process is not None:
        processes["sidecar"] = process
    save(host, sandbox, sandbox.step, processes=processes, session=session)


def _sidecar_configuration(host: Host, sandbox: Sandbox) -> SidecarConfig:
    plan = sandbox.plan
    # Without a /proc the sidecar knows a peer's cgroup from the kernel's own word only.
    known = host.peer_means is Means.INFO
    gate = host.cgroups.identity(f"{plan.id}-gate") if known else None
    uids = plan.uids
    return SidecarConfig(
        schema=SCHEMA,
        sandbox=plan.id,
        session=plan.id,
        uids=Uids(sidecar=uids.sidecar, helper=uids.helper, untrusted=uids.untrusted),
        helper_cgroups=None if gate is None else frozenset({gate}),
        peer=host.peer_means,
        broker_keys=host.keys.pinned,
        policy=plan.policy,
        upstreams=plan.upstreams,
        dial_cap=DIAL_CAP,
        egress_cap=min(plan.policy.limits.egress_connections, MOST_EGRESS),
    )


async def probe(host: Host, sandbox: Sandbox) -> None:
    """Between grant and activation: Failed with the code of the first thing that is wrong."""
    found = await host.spawner.ask_survey(sandbox.namespace)
    if found.interfaces:
        names = ", ".join(found.interfaces)
        raise Failed("N101", "the sandbox's network has an interface besides lo", why=names)
    if found.sysctls:
        raise Failed("N206", "a setting of the sandbox's network is wrong", why=found.sysctls[0])
    for judged in await try_all(host, sandbox, ACTIVATION):
        if judged.outcome is None:
            what = "the sandbox's protections could not all be tried in time"
            raise Failed("R117", what, why=str(judged), fix="try again when the host is less busy")
        if not judged.ok:
            raise Failed(judged.probe.code, "a protection does not hold", why=str(judged))
    if sandbox.holder is not None:
        await _admit_container(host, sandbox)


async def _admit_container(host: Host, sandbox: Sandbox) -> None:
    if sandbox.room is None:
        await _join_container(host, sandbox)
        return
    wrong = await host.containers.what_is_wrong(sandbox)
    if wrong is not None:
        raise Failed("R115", "the container is not sealed", why=wrong)
