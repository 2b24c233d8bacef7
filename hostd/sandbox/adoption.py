"""What a new hostd does with the sandboxes of an earlier one: adopt, stop or remove them.

A sandbox whose command was started and whose first processes are alive in the recorded namespace
is adopted, with its sidecar if that is alive. One that was half made or half removed is removed.
One whose first processes have ended keeps its files. Processes without a record are found by
their cgroup and ended.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.logger import Logger

from gitmoat.audit.events import SandboxRemoved, SandboxStopped
from gitmoat.boot import boot_id
from hostd.deferreds import all_done, within
from hostd.docker.containers import groups_of
from hostd.failures import Failed
from hostd.process.handle import Process, Watch
from hostd.process.proc import start_time
from hostd.registry import ProcessRecord, Record, Step
from hostd.sandbox.bwrap import FirstProcess
from hostd.sandbox.ending import end_processes, record_end, remove_files
from hostd.sandbox.first_processes import pin_namespace
from hostd.sandbox.lifecycle import supervisor
from hostd.sandbox.outputs import resume_output
from hostd.sandbox.plan import Plan, Theirs
from hostd.sandbox.sandbox import Container, Sandbox
from hostd.sandbox.uids import UidRange
from hostd.this_host import CGROUPS, Host
from netpolicy.format.reading import PolicyError

_log = Logger()
_AT_A_TIME = 8
_TIMEOUT = 10.0
_REMOVAL = 10.0


@define(eq=False)
class Found:
    live: dict[str, Sandbox] = field(factory=dict)
    stopped: dict[str, Record] = field(factory=dict)


async def take_over(host: Host, uids: UidRange) -> Found:
    host.workdirs.sweep()
    loaded = host.registry.load()
    found = Found()
    await _beside_each_other(_settle(host, uids, record, found) for record in loaded.records)
    known = {record.id for record in loaded.records}
    unrecorded = _unrecorded(host, known) | (await host.containers.leftover() - known)
    unknown = {*loaded.unmade, *unrecorded}
    await _beside_each_other(_remove_unrecorded(host, identifier) for identifier in unknown)
    return found


async def _beside_each_other(work: Iterable[Coroutine[Deferred[Any], Any, None]]) -> None:
    """A sandbox that is slow does not delay the others, nor do slow ones add up."""
    turns = DeferredSemaphore(_AT_A_TIME)

    async def in_turn(one: Coroutine[Deferred[Any], Any, None]) -> None:
        async with turns:
            await one

    await all_done(in_turn(one) for one in work)


async def _remove_unrecorded(host: Host, identifier: str) -> None:
    _log.warn("removing {id}, which has no record", id=identifier)
    work = Deferred.fromCoroutine(_removed(host, identifier))
    await within(host.reactor, _REMOVAL, work)


async def _settle(host: Host, uids: UidRange, record: Record, found: Found) -> None:
    if record.step in (Step.SERVED, Step.PREPARED):
        sandbox = _adopted(host, uids, record)
        if sandbox is not None:
            found.live[record.id] = sandbox
            return
    if record.step in (Step.SERVED, Step.PREPARED, Step.ENDING, Step.STOPPED):
        await _end_recorded(host, record)
        stopped = _with_reason(host, record).at(Step.ENDING)
        stopped = stopped.at(Step.STOPPED, processes={}, session=None)
        if stopped != record:
            host.registry.save_if_possible(stopped)
        found.stopped[record.id] = stopped
        return
    if record.step is Step.DAMAGED:
        _log.error("the record of {id} cannot be read; its files are kept", id=record.id)
        await _end_recorded(host, record)
        found.stopped[record.id] = record
        return
    _log.warn("{name} was left at step {step}: removing it", name=record.name, step=record.step)
    await _end_recorded(host, record)
    await _remove(host, record, found)


def _with_reason(host: Host, record: Record) -> Record:
    """Adds why it has ended: what an earlier hostd wrote down, or what is found now."""
    if record.step is Step.STOPPED:
        return record
    reason = "its processes were gone when hostd started"
    if record.boot_id != boot_id():
        reason = "the machine was restarted"
    elif record.step is Step.ENDING:
        reason = str((record.ended or {}).get("reason", "hostd ended while it was being started"))
    record_end(host, SandboxStopped(sandbox=record.id, name=record.name, reason=reason))
    return record if record.ended and record.step is Step.ENDING else record.ending(reason)


async def _remove(host: Host, record: Record, found: Found) -> None:
    """Very many files take long to remove; hostd serves the other sandboxes meanwhile."""
    reason = str((record.ended or {}).get("reason", "it was half made when hostd ended"))
    found.stopped[record.id] = record.at(Step.REMOVING)
    removed = Deferred.fromCoroutine(_removed(host, record.id))

    def note(gone: bool) -> None:
        if gone:
            record_end(host, SandboxRemoved(sandbox=record.id, name=record.name, reason=reason))
            found.stopped.pop(record.id, None)

    await within(host.reactor, _REMOVAL, removed.addCallback(note))


def _unrecorded(host: Host, known: set[str]) -> set[str]:
    """Ids of sandboxes that have only a cgroup or a file in /run."""
    groups = {name.rpartition("-")[0] for name in host.cgroups.names()}
    directories = {path.name for path in host.paths.sandboxes_run.iterdir()}
    sockets = {path.stem for path in host.paths.control_dir.iterdir()}
    return (groups | directories | sockets) - known - {""}


async def _removed(host: Host, identifier: str) -> bool:
    """False when files are left: hostd serves the other sandboxes all the same."""
    await host.grants.close_sandbox(identifier, "swept away")
    await end_processes(host, identifier)
    await host.containers.forget(identifier)
    try:
        await remove_files(host, identifier)
    except Failed as problem:
        _log.error("{id} is not removed: {why}", id=identifier, why=str(problem))
        return False
    return True


async def _end_recorded(host: Host, record: Record) -> None:
    """Ends processes by pid and start time, for a host without cgroups; then by cgroup."""
    if record.boot_id == boot_id():
        for name, recorded in record.processes.items():
            if isinstance(record.ownership, Theirs) and name.startswith("room"):
                continue  # that container belongs to somebody else
            process = adopt_process(host, recorded)
            if process is not None:
                process.kill()
                await within(host.reactor, _TIMEOUT, process.wait())
    await host.grants.close_sandbox(record.id, "its sandbox is gone")
    await end_processes(host, record.id)
    if record.ownership is not None:
        await host.containers.remove(record.id)


def adopt_process(host: Host, recorded: ProcessRecord | None) -> Process | None:
    """The process of the record, if it is alive."""
    if recorded is None:
        return None
    try:
        pidfd = os.pidfd_open(recorded.pid)
    except ProcessLookupError:
        return None
    # The pidfd is opened first: if the start time is right now, it names the recorded process.
    if start_time(recorded.pid) != recorded.started:
        os.close(pidfd)
        return None
    process = Process(recorded.pid, pidfd)
    Watch(host.reactor, process)
    return process


def _adopt_first_process(
    host: Host, name: str, processes: Mapping[str, ProcessRecord]
) -> FirstProcess | None:
    monitor = adopt_process(host, processes.get(f"{name}-monitor"))
    first = adopt_process(host, processes.get(name))
    if monitor is None or first is None:
        return None
    return FirstProcess(monitor, first.pid, os.dup(first.pidfd))


def restore(host: Host, uids: UidRange, record: Record) -> Sandbox:
    """The sandbox of a record, without processes; PolicyError if it cannot be understood."""
    plan = Plan.from_json(record.plan, uids)
    sandbox = Sandbox(plan, host.directories(record.id), record)
    if plan.ownership is not None:
        sandbox.environment = record.environment
        sandbox.holding = Container.from_json(record.holding)
        sandbox.container = Container.from_json(record.container)
    return sandbox


def _adopt_namespaces(host: Host, sandbox: Sandbox) -> bool:
    """Whether the first processes are alive, in the network namespace of the record."""
    recorded = sandbox.record
    sandbox.first = _adopt_first_process(host, "room", recorded.processes)
    sandbox.gate = _adopt_first_process(host, "gate", recorded.processes)
    if sandbox.plan.ownership is not None:
        sandbox.holder = _adopt_first_process(host, "holder", recorded.processes)
    needed = sandbox.first_processes().values()
    sandbox.descriptors += [first.pidfd for first in needed if first]
    network = sandbox.first or sandbox.holder
    if network is None or not all(needed):
        return False
    try:
        pin_namespace(sandbox, network)
    except OSError:  # it has ended just now
        return False
    return sandbox.record.netns == recorded.netns


def _adopted(host: Host, uids: UidRange, record: Record) -> Sandbox | None:
    if record.boot_id != boot_id():
        return None
    try:
        sandbox = restore(host, uids, record)
    except PolicyError as problem:
        _log.warn("{name} cannot be adopted: {why}", name=record.name, why=str(problem))
        return None
    if not _adopt_namespaces(host, sandbox):
        sandbox.close_descriptors()
        return None
    for group in CGROUPS:
        sandbox.cgroups[group] = host.cgroups.directories(f"{record.id}-{group}")
    if sandbox.first is None:
        sandbox.container = None
        sandbox.record = sandbox.record.at(Step.PREPARED)
        return sandbox
    try:
        if sandbox.plan.ownership is not None:
            sandbox.cgroups["sandbox"] = groups_of(sandbox.first.pid)
        if sandbox.plan.workdir is not None:
            host.workdirs.adopt(record.id, sandbox.plan.workdir, sandbox.first.pid)
    except OSError:  # it has ended just now
        sandbox.close_descriptors()
        return None
    resume_output(host, sandbox)
    sandbox.sidecar = supervisor(host, sandbox)
    process = adopt_process(host, record.processes.get("sidecar"))
    sandbox.sidecar.adopt(process, record.session)
    sandbox.record = sandbox.record.at(Step.SERVED)
    return sandbox
