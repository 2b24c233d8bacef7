"""How a sandbox comes to be, step by step.

Each step is on disk before it begins. Order is the point: nothing of the sandbox's owner runs
before rules, listeners, sidecar, session and probes are there.
"""

from __future__ import annotations

import json
import time
from typing import Any

from attrs import evolve

from audit.events import SandboxRemoved
from gitmoat.boot import boot_id, boot_seconds
from hostd.attaching import look_for_sockets
from hostd.ending import destroy, record_end, remove_run_files, stop
from hostd.failures import Failed
from hostd.host import Host
from hostd.nft import apply_ruleset, loaded_hash
from hostd.plan import Ours, Plan
from hostd.registry import Record, Step
from hostd.rooms import make_cgroups, make_namespaces, what_runs
from hostd.runtimes import bwrap
from hostd.sandbox import Sandbox
from hostd.serving import Serving, make_listeners
from hostd.sidecars import SidecarSupervisor
from hostd.steps import save, save_if_possible
from netpolicy.nftables import GIT_UNTRUSTED, render
from netpolicy.upstreams import gitconfig_for
from netpolicy.writing import policy_to_mapping


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
        save(host, sandbox, Step.PREPARED, **what_runs(sandbox))
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


def supervisor(host: Host, sandbox: Sandbox) -> SidecarSupervisor:
    return SidecarSupervisor(host.reactor, Serving(host, sandbox), host.broker_address)
