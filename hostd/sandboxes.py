"""The sandboxes of this host: found by id or name, and changed by one operation at a time.

An operation that starts, stops or removes a sandbox takes the sandbox's lock first, and then looks
whether the sandbox is still there: the second of two operations finds what the first has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore
from twisted.logger import Logger

from gitmoat.audit.events import AdminOperation, SandboxCreated, SandboxRemoved
from hostd.broker_link.broker_client import BrokerClient
from hostd.deferreds import all_done, in_background, within
from hostd.docker.attaching import find_prepared, refusal
from hostd.failures import Failed
from hostd.process.commands import hang_up
from hostd.process.handle import Process
from hostd.registry import ProcessRecord, Record, Step
from hostd.sandbox.adoption import Found, adopt_process, restore
from hostd.sandbox.ending import end_for_removal, remove_files, stop, why_ended
from hostd.sandbox.lifecycle import attach, create, detach, start
from hostd.sandbox.plan import Plan
from hostd.sandbox.planning import RunRequest, make_plan
from hostd.sandbox.policies import Change, changes, knowing, replace
from hostd.sandbox.sandbox import Sandbox
from hostd.sandbox.steps import save
from hostd.sandbox.uids import UidRange, free_index
from hostd.this_host import Host
from netpolicy.format.reading import PolicyError
from netpolicy.format.units import format_duration
from netpolicy.upstreams import UpstreamTable

_log = Logger()
_CREATIONS = 4
# `ls` waits no longer for a broker that does not answer.
_ANSWER_SOON = 2.0


def _no_such(wanted: object) -> Failed:
    why = "no sandbox has this id or name"
    return Failed("R103", f"there is no sandbox {wanted!r}", why=why, exit_code=4)


class Sandboxes:
    """Several sandboxes can be created at a time: a Docker that hangs delays its own alone."""

    def __init__(self, host: Host, broker: BrokerClient, uids: UidRange) -> None:
        self._host = host
        self._broker = broker
        self._uids = uids
        self._live: dict[str, Sandbox] = {}
        self._stopped: dict[str, Record] = {}
        self._commands: dict[str, Process] = {}
        self._turns: dict[str, DeferredLock] = {}
        self._making: dict[str, Plan] = {}
        self._creations = DeferredSemaphore(_CREATIONS)
        self._downs = DeferredLock()
        # The installed policies as they were last read again, and how often that was.
        self._policies: Mapping[str, Any] = {}
        self._reloads = 0

    def adopt(self, found: Found) -> None:
        self._stopped = found.stopped  # `adoption` takes out what it still removes
        for sandbox in found.live.values():
            self._live[sandbox.plan.id] = sandbox
            self._watch_first_processes(sandbox)
            self._adopt_command(sandbox)

    # Finding

    def live(self) -> list[Sandbox]:
        return list(self._live.values())

    def summaries(self) -> list[dict[str, Any]]:
        live = [each.record for each in self._live.values()]
        return [record.summary() for record in (*live, *self._stopped.values())]

    def find(self, wanted: object) -> Sandbox:
        """A sandbox that runs, or is being made or ended."""
        sandbox = self._live.get(self._identify(wanted))
        if sandbox is None:
            raise Failed("R106", f"sandbox {wanted} is not running")
        return sandbox

    def running(self, wanted: object) -> Sandbox:
        sandbox = self.find(wanted)
        if not sandbox.running:
            raise Failed("R106", f"sandbox {wanted} is not running")
        return sandbox

    def inspection(self, wanted: object) -> dict[str, Any]:
        """Also of a sandbox that is stopped, with the reason."""
        identifier = self._identify(wanted)
        record = self._stopped.get(identifier)
        if record is None:
            return self.find(identifier).inspection()
        try:
            return restore(self._host, self._uids, record).inspection()
        except PolicyError:  # damaged, or of another version
            return {**record.summary(), "ended": record.ended}

    def _identify(self, wanted: object) -> str:
        for sandbox in self._live.values():
            if wanted in (sandbox.plan.id, sandbox.plan.name):
                return sandbox.plan.id
        for record in self._stopped.values():
            if wanted in (record.id, record.name):
                return record.id
        raise _no_such(wanted)

    def _turn(self, identifier: str) -> DeferredLock:
        return self._turns.setdefault(identifier, DeferredLock())

    # Starting

    async def create(
        self, request: RunRequest, still_wanted: Callable[[], None], *, theirs: bool = False
    ) -> Sandbox:
        """A sandbox that is served. It is complete only when its command has started.

        `theirs`: it is prepared for a container that somebody else starts.
        """
        reloads = self._reloads
        upstreams = await self._upstreams()
        async with self._creations:
            still_wanted()
            plan = self._plan(request, upstreams, theirs)
            try:
                sandbox = await create(self._host, plan)
                self._live[plan.id] = sandbox
            finally:
                del self._making[plan.id]
        self._watch_first_processes(sandbox)
        try:
            self._host.journal.record(SandboxCreated(sandbox=plan.id, name=plan.name))
        except BaseException:
            await self.destroy(sandbox, "it could not be recorded")
            raise
        try:
            await self._catch_up(sandbox, reloads)
        except BaseException:
            await self.destroy(
                sandbox, "its policy was replaced meanwhile, and is not valid for it"
            )
            raise
        return sandbox

    async def _catch_up(self, sandbox: Sandbox, reloads: int) -> None:
        """What was replaced while it was being made, where no replacement found it."""
        if self._reloads != reloads:
            upstreams = await self._upstreams()
            await self._replace(changes([sandbox], self._policies, upstreams))

    async def _upstreams(self) -> UpstreamTable:
        return UpstreamTable.from_mapping(await self._broker.get("/host/upstreams"))

    def _plan(self, request: RunRequest, upstreams: UpstreamTable, theirs: bool) -> Plan:
        """From here on its name and its uids are taken; no await comes between check and claim."""
        index = self._free_index()
        plan = make_plan(
            *(request, upstreams, self._names(), self._uids, index),
            author=self._host.author,
            theirs=theirs,
        )
        self._host.registry.remember_index(index)
        self._making[plan.id] = plan
        return plan

    async def attach(self, container: str, request: RunRequest) -> Sandbox:
        """Serves a container that somebody else started; only its network says which it is."""
        upstreams = await self._upstreams()
        containers = self._host.containers
        foreign = [sandbox for sandbox in self.live() if sandbox.plan.foreign]
        sandbox, _ = await find_prepared(containers, container, foreign)
        async with self._turn(sandbox.plan.id):
            _, found = await find_prepared(containers, container, [sandbox])
            self._check_prepared(sandbox)
            index = sandbox.plan.uid_index
            given = make_plan(request, upstreams, (), self._uids, index, author=self._host.author)
            plan = evolve(
                sandbox.plan,
                policy=given.policy,
                upstreams=given.upstreams,
                repositories=given.repositories,
                author=given.author,
            )
            try:
                await attach(self._host, sandbox, plan, found)
            except Failed as problem:
                raise refusal(problem, sandbox, self._host.paths.seccomp) from None
            if sandbox.first is not None:
                sandbox.first.monitor.wait().addCallback(
                    lambda _: self._first_process_ended(sandbox)
                )
        return sandbox

    def _check_prepared(self, sandbox: Sandbox) -> None:
        if sandbox.step is not Step.PREPARED:
            name = sandbox.plan.name
            raise Failed("R108", f"{name} has a container already", fix=f"hostctl rm {name}")

    async def start(self, wanted: object) -> str:
        """Gives a stopped sandbox namespaces, rules, a sidecar and a session again; no command."""
        identifier = self._identify(wanted)
        async with self._turn(identifier):
            record = self._stopped.get(identifier)
            if record is None:
                return self.find(identifier).plan.id
            sandbox = self._restored(record)
            sandbox.plan = knowing(sandbox.plan, await self._upstreams())
            sandbox.record = evolve(sandbox.record, plan=sandbox.plan.to_json())
            try:
                await start(self._host, sandbox)
            except BaseException:
                self._stopped[identifier] = sandbox.record
                raise
            del self._stopped[identifier]
            self._live[identifier] = sandbox
            self._watch_first_processes(sandbox)
        return identifier

    def _restored(self, record: Record) -> Sandbox:
        if record.step is not Step.STOPPED:
            what = f"{record.name} cannot be started: it is {record.step.value}"
            raise Failed("R106", what, fix=f"save its files, then hostctl rm {record.name}")
        try:
            return restore(self._host, self._uids, record)
        except PolicyError as problem:
            raise Failed("P101", str(problem), exit_code=8) from None

    def _free_index(self) -> int:
        live = {plan.uid_index for plan in self._plans()}
        used = live | {record.uid_index for record in self._stopped.values()}
        ours = {
            process.pid
            for sandbox in self._live.values()
            for process in sandbox.record.processes.values()
        }
        return free_index(self._uids, self._host.registry.last_index(), used, ours)

    def _plans(self) -> list[Plan]:
        """The plans of all sandboxes that run or are being made."""
        return [*(sandbox.plan for sandbox in self._live.values()), *self._making.values()]

    def _names(self) -> set[str]:
        live = {plan.name for plan in self._plans()}
        return live | {record.name for record in self._stopped.values()}

    async def replace_policies(self, policies: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Each installed policy by its name, and the broker's upstreams: all of it is read before
        anything is replaced."""
        upstreams = await self._upstreams()
        running = [each for each in self._live.values() if each.running]
        found = changes(running, policies, upstreams)
        self._policies, self._reloads = policies, self._reloads + 1
        return await self._replace(found)

    async def _replace(self, found: Iterable[Change]) -> list[dict[str, Any]]:
        replaced: list[dict[str, Any]] = []
        for change in found:
            plan = change.sandbox.plan
            async with self._turn(plan.id):
                if self._live.get(plan.id) is not change.sandbox:
                    continue
                cut = await replace(self._host, change)
            about = {"policy": change.policy, "cut": cut, "upstreams": change.upstreams}
            replaced.append({"sandbox": plan.id, "name": plan.name, **about})
        return replaced

    # Their sessions

    async def renew(self, wanted: object, seconds: int | None) -> dict[str, Any]:
        """Lets a sandbox go on, by default for as long as its policy gives a session. One that is
        stopped can be started again; one that runs has git again when this returns."""
        identifier = self._identify(wanted)
        async with self._turn(identifier):
            stopped = self._stopped.get(identifier)
            sandbox = self.running(identifier) if stopped is None else self._restored(stopped)
            session = sandbox.plan.policy.session
            asked = session.ttl if seconds is None else seconds
            if asked > session.max_ttl:
                most = format_duration(session.max_ttl)
                raise Failed("S105", f"the policy of {sandbox.plan.name} allows {most} at most")
            self._record_renewal(identifier)

            async def ask() -> bool:
                life, goes_on = await self._host.grants.renew(identifier, asked)
                if stopped is None:  # what else is recorded of it may have changed meanwhile
                    sandbox.record = evolve(sandbox.record, **life)
                    self._host.registry.save(sandbox.record)
                return goes_on

            sidecar = sandbox.sidecar
            goes_on = await (ask() if sidecar is None else sidecar.renew(ask))
        return {
            "sandbox": identifier,
            "name": sandbox.plan.name,
            "state": sandbox.record.summary()["state"],
            "expires": None if stopped else int(sandbox.record.expires),
            "new": not goes_on,
        }

    def _record_renewal(self, identifier: str) -> None:
        event = AdminOperation(op="session renew", decision="allow", peer_uid=0, sandbox=identifier)
        self._host.journal.record(event)

    async def sessions(self) -> list[dict[str, Any]]:
        """The summaries, each with how its session stands; null where the broker does not say."""
        items, known = self.summaries(), dict[str, Any]()

        async def ask() -> None:
            with suppress(Failed):
                known.update(await self._host.grants.sessions([each["sandbox"] for each in items]))

        await within(self._host.reactor, _ANSWER_SOON, Deferred.fromCoroutine(ask()))
        return [{**each, "session": known.get(each["sandbox"])} for each in items]

    # Ending

    async def remove(self, wanted: object, force: bool) -> str:
        identifier = self._identify(wanted)
        async with self._turn(identifier):
            sandbox = self._live.get(identifier)
            if sandbox is not None and not force:
                self._check_idle(sandbox)
            if not await self._discard(identifier, "hostctl rm"):
                raise _no_such(wanted)
        return identifier

    def _check_idle(self, sandbox: Sandbox) -> None:
        name = sandbox.plan.name
        if sandbox.record.step is Step.WORKSPACE:
            raise Failed("R108", f"{name} is being made", fix=f"hostctl rm --force {name}")
        if sandbox.plan.id in self._commands:
            raise Failed("R108", f"a command runs in {name}", fix=f"hostctl rm --force {name}")

    async def destroy(self, sandbox: Sandbox, reason: str) -> None:
        """Removes it, whatever state it is in by now."""
        async with self._turn(sandbox.plan.id):
            await self._discard(sandbox.plan.id, reason)

    async def _discard(self, identifier: str, reason: str) -> bool:
        """False when there was nothing. A sandbox that could not be removed wholly stays listed."""
        sandbox = self._live.get(identifier)
        if sandbox is not None:
            self._commands.pop(identifier, None)
            await end_for_removal(self._host, sandbox, reason)
            del self._live[identifier]
            self._stopped[identifier] = sandbox.record
        record = self._stopped.get(identifier)
        if record is None:
            return False
        if record.step is not Step.REMOVING:
            self._stopped[identifier] = record = record.at(Step.REMOVING)
            self._host.registry.save_if_possible(record)
        await remove_files(self._host, identifier)
        for table in (self._stopped, self._turns):
            table.pop(identifier, None)
        removed = SandboxRemoved(sandbox=identifier, name=record.name, reason=reason)
        self._host.journal.record(removed)
        return True

    async def stop(self, wanted: object) -> None:
        identifier = self._identify(wanted)
        if identifier in self._live:
            await self._stop(self._live[identifier], "hostctl stop")

    async def stop_all(self) -> None:
        """Workspaces stay: what was committed and not pushed must survive `hostctl down`."""
        async with self._downs:  # two calls that each hold some of the permits would deadlock
            for _ in range(_CREATIONS):  # wait for creations under way: they are stopped as well
                await self._creations.acquire()
            try:
                await all_done(self._stop(sandbox, "hostctl down") for sandbox in self.live())
            finally:
                for _ in range(_CREATIONS):
                    self._creations.release()

    async def _stop(self, sandbox: Sandbox, reason: str) -> None:
        """A sandbox that never became complete, or is being removed, is removed instead."""
        identifier = sandbox.plan.id
        async with self._turn(identifier):
            if self._live.get(identifier) is not sandbox:
                return
            if sandbox.step in (Step.WORKSPACE, Step.REMOVING):
                await self._discard(identifier, reason)
                return
            self._commands.pop(identifier, None)
            await stop(self._host, sandbox, reason)
            del self._live[identifier]
            self._stopped[identifier] = sandbox.record

    async def freeze(self, sandbox: Sandbox, why: str) -> None:
        """A protection no longer holds: the sandbox is stopped at once, and the journal says so."""
        _log.error("{name} is stopped: {why}", name=sandbox.plan.name, why=why)
        event = AdminOperation(
            op="freeze",
            decision="deny",
            peer_uid=0,
            sandbox=sandbox.plan.id,
            code="N207",
            reason=why,
        )
        try:
            self._host.journal.record(event)
        finally:
            await self._stop(sandbox, f"frozen: {why}")

    # Their processes

    def command_started(self, sandbox: Sandbox, process: Process, request: RunRequest) -> None:
        """From here on the sandbox is complete: the next hostd keeps it."""
        if not sandbox.running:  # it was ended meanwhile; the record of its end is not changed
            process.kill_session()
            raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")
        self._commands[sandbox.plan.id] = process
        processes = dict(sandbox.record.processes)
        recorded = ProcessRecord.of(process.pid)
        if recorded is not None:
            processes["command"] = recorded
        attached = not request.detach
        save(
            self._host,
            sandbox,
            Step.SERVED,
            processes=processes,
            attached=attached,
            remove=request.rm,
        )

    async def command_ended(self, sandbox: Sandbox, status: int | None) -> None:
        """Where the sandbox is removed with its command, one record has status and removal."""
        self._commands.pop(sandbox.plan.id, None)
        if sandbox.record.remove:
            sandbox.record = evolve(sandbox.record, exit_status=status)
            await self.destroy(sandbox, "its command ended")
        elif sandbox.running:
            left = {k: v for k, v in sandbox.record.processes.items() if k != "command"}
            save(self._host, sandbox, Step.SERVED, processes=left, exit_status=status)

    def watch_command(self, sandbox: Sandbox, process: Process, known: bool = True) -> None:
        """For a command that no client waits for; `known`: hostd will get its exit status."""
        process.wait().addCallback(
            lambda status: in_background(self.command_ended(sandbox, status if known else None))
        )

    def _adopt_command(self, sandbox: Sandbox) -> None:
        recorded = sandbox.record.processes.get("command")
        if recorded is None:
            return
        process = adopt_process(self._host, recorded)
        if process is None:
            in_background(self.command_ended(sandbox, None))
            return
        self._commands[sandbox.plan.id] = process
        self.watch_command(sandbox, process, known=False)
        if sandbox.record.attached:  # the connection of its hostctl ended with the earlier hostd
            hang_up(self._host.reactor, process)

    def _watch_first_processes(self, sandbox: Sandbox) -> None:
        """A sandbox one of whose first processes was killed from outside is stopped."""
        for first in sandbox.first_processes().values():
            if first is not None:
                first.monitor.wait().addCallback(lambda _: self._first_process_ended(sandbox))

    def _first_process_ended(self, sandbox: Sandbox) -> None:
        needed = sandbox.first_processes()
        ended = [name for name, first in needed.items() if first is None or not first.alive()]
        if not ended or not (sandbox.running or sandbox.step is Step.PREPARED):
            return
        if sandbox.plan.foreign and ended == ["room"]:
            in_background(self._detach(sandbox))
        else:
            in_background(self._stop(sandbox, why_ended(sandbox, ended)))

    async def _detach(self, sandbox: Sandbox) -> None:
        async with self._turn(sandbox.plan.id):
            first = sandbox.first
            if sandbox.running and first is not None and not first.alive():
                await detach(self._host, sandbox, "its container ended")
