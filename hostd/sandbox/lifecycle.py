"""Creates and starts a sandbox, step by step.

Each step is on disk before it begins. The order is a control: no code of the sandbox runs before
its rules, listeners, sidecar and session are there and its probes have passed.
"""

from __future__ import annotations

import time
from typing import Any

from attrs import evolve

from gitmoat.audit.events import SandboxRemoved
from gitmoat.boot import boot_id, boot_seconds
from hostd.docker.attaching import look_for_sockets
from hostd.failures import Failed
from hostd.network.nft import apply_ruleset, loaded_hash
from hostd.registry import Record, Step
from hostd.sandbox import bwrap
from hostd.sandbox.ending import destroy, record_end, remove_run_files, stop
from hostd.sandbox.first_processes import make_cgroups, make_namespaces, what_runs
from hostd.sandbox.gitconfig import write_gitconfig, write_leading
from hostd.sandbox.plan import Ours, Plan
from hostd.sandbox.policies import write_policy
from hostd.sandbox.sandbox import Sandbox
from hostd.sandbox.steps import save, save_if_possible
from hostd.sidecars.serving import Serving, make_listeners
from hostd.sidecars.supervisor import SidecarSupervisor
from hostd.this_host import Host
from netpolicy.nftables import render


def _life(plan: Plan) -> dict[str, Any]:
    """The times of a session that begins now."""
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
    """Returns a sandbox that is served and has its session; if a step fails, removes all of it."""
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
    """Starts a stopped sandbox again, on its old files, with a new session."""
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
    """A stopped sandbox stays at ENDING meanwhile: its files are kept if hostd is killed."""
    again = sandbox.step is Step.ENDING

    def note(step: Step, **changes: Any) -> None:
        save(host, sandbox, Step.ENDING if again else step, **changes)

    _claim_workdir(host, sandbox)
    make_cgroups(host, sandbox)
    note(Step.NAMESPACES)
    await make_namespaces(host, sandbox)
    note(Step.RULES, **what_runs(sandbox))
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
    """Serves a container that others started in the network that was prepared for it."""
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
    write_policy(sandbox.directories.run, plan.policy)
    write_gitconfig(sandbox)
    try:
        await host.containers.admit(sandbox, found)
        await look_for_sockets(host, sandbox)
        save(host, sandbox, Step.PREPARED, **what_runs(sandbox))
        sandbox.sidecar = supervisor(host, sandbox)
        await sandbox.sidecar.start()
    except BaseException:
        await detach(host, sandbox, "attach failed")
        raise
    save(host, sandbox, Step.SERVED)


async def detach(host: Host, sandbox: Sandbox, reason: str) -> None:
    """Ends the session; network, rules and listeners stay for the next container."""
    sandbox.record = sandbox.record.at(Step.ENDING)  # not on disk: it refuses other operations
    if sandbox.sidecar is not None:
        await sandbox.sidecar.stop(reason)
        sandbox.sidecar = None
    sandbox.first = sandbox.container = None
    sandbox.cgroups["sandbox"] = host.cgroups.directories(f"{sandbox.plan.id}-sandbox")
    sandbox.record = sandbox.record.ending(reason)
    save_if_possible(host, sandbox, Step.PREPARED, session=None, **what_runs(sandbox))


def _claim_workdir(host: Host, sandbox: Sandbox) -> None:
    if sandbox.plan.workdir is not None:
        workdir = host.workdirs.claim(sandbox.plan.id, sandbox.plan.workdir)
        sandbox.plan = evolve(sandbox.plan, workdir=workdir)
        sandbox.record = evolve(sandbox.record, plan=sandbox.plan.to_json())


def _make_directories(sandbox: Sandbox) -> None:
    plan, directories = sandbox.plan, sandbox.directories
    directories.etc.mkdir(mode=0o755)
    if plan.workdir is None:
        bwrap.private_directory(directories.workspace, plan.uids.untrusted)
    bwrap.private_directory(directories.home, plan.uids.untrusted)
    bwrap.private_directory(directories.gate, plan.uids.helper)
    _make_run_directory(sandbox)


def _make_run_directory(sandbox: Sandbox) -> None:
    """Makes what is mounted at /run/gitmoat, and writes what is mounted in /etc, at every start:
    /run is empty after a reboot, and an earlier version wrote other files."""
    plan, directories = sandbox.plan, sandbox.directories
    bwrap.write_etc(directories.etc, plan.uids.untrusted, plan.uids.helper)
    directories.run.mkdir(mode=0o755)
    if isinstance(plan.ownership, Ours):
        (directories.run / "pause").touch(mode=0o444)  # the pause of a container is mounted over it
        write_leading(sandbox)
    write_gitconfig(sandbox)
    write_policy(directories.run, plan.policy)


def supervisor(host: Host, sandbox: Sandbox) -> SidecarSupervisor:
    return SidecarSupervisor(host.reactor, Serving(host, sandbox), host.broker_address)
