"""What hostctl can ask for: one method per operation, one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from audit.events import AdminOperation, SandboxCreated, SandboxRemoved
from hostd.admin import Channel, Operation
from hostd.adoption import Found, restore
from hostd.broker_client import BrokerClient
from hostd.commands import attend, command_for, start_command
from hostd.failures import Failed
from hostd.gate_processes import Stdio
from hostd.gitgate import GitGate
from hostd.host import Host
from hostd.lifecycle import create, destroy, remove_files, save, start, stop
from hostd.outputs import kept_output
from hostd.planning import RunRequest, check_variables, make_plan, parse_run
from hostd.refspecs import parse_gate
from hostd.registry import Record
from hostd.sandbox import Sandbox
from hostd.spawner import Process
from hostd.uids import UidRange, next_index
from netpolicy.upstreams import UpstreamTable

_log = Logger()


class Operations:
    """The sandboxes of this host, by id; creations are serialised, so names and uids are too."""

    def __init__(self, host: Host, broker: BrokerClient, uids: UidRange, version: str) -> None:
        self._host = host
        self._broker = broker
        self._uids = uids
        self._version = version
        self._live: dict[str, Sandbox] = {}
        self._stopped: dict[str, Record] = {}
        self._running: dict[str, int] = {}
        self._planning = DeferredLock()
        self.table: Mapping[str, Operation] = {
            "status": self.status,
            "run": self.run,
            "exec": self.execute,
            "git": self.git,
            "ls": self.list_all,
            "inspect": self.inspect,
            "rm": self.remove,
            "start": self.begin,
            "stop": self.halt,
            "selftest": self.selftest,
            "shutdown": self.shutdown,
        }

    def remember(self, found: Found) -> None:
        self._live.update(found.live)
        self._stopped.update(found.stopped)

    def live(self) -> list[Sandbox]:
        return list(self._live.values())

    # Operations

    async def status(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "version": self._version,
            "zygote": self._host.spawner.zygote_pid,
            "sandboxes": len(self._live),
            "broker_reachable": await self._broker.healthy(),
        }

    async def run(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        request = parse_run(body)
        stdio = channel.descriptors(3)
        sandbox = await self._create(request, channel)
        try:
            process = await self._start(sandbox, request, stdio)
        except BaseException:
            await self._destroy(sandbox, "its command could not be started")
            raise
        channel.event("started", sandbox=sandbox.plan.id, name=sandbox.plan.name)
        if request.detach:
            self._watch(sandbox, process, request.rm)
            return {"exit": 0}
        status = await attend(self._host.reactor, channel, process)
        await self._command_ended(sandbox, status, request.rm)
        return {"exit": status}

    async def execute(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        sandbox = self._find(body.get("sandbox"))
        tier, env = body.get("as", "untrusted"), body.get("env") or {}
        argv: list[str] = _texts(body.get("argv"))
        if tier not in ("untrusted", "helper"):
            raise Failed("C105", "hostd does not understand this request")
        check_variables(env)
        tty = body.get("tty") is True
        command = command_for(sandbox, tier, argv, env, channel.descriptors(3), tty)
        process = await start_command(self._host.spawner, command)
        return {"exit": await attend(self._host.reactor, channel, process)}

    async def git(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        sandbox = self._find(body.get("sandbox"))
        request = parse_gate(_texts(body.get("args")))
        _, output, problems = channel.descriptors(3)
        self._host.journal.record(
            AdminOperation(
                op=f"git {request.operation}",
                decision="allow",
                peer_uid=0,
                sandbox=sandbox.plan.id,
            )
        )
        gate = self._gate(sandbox, channel)
        return {"exit": await gate.serve(request, Stdio(output, problems))}

    async def list_all(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        stopped = [_stopped_summary(record) for record in self._stopped.values()]
        return {"items": [each.summary() for each in self._live.values()] + stopped}

    async def inspect(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        return self._find(body.get("sandbox")).inspection()

    async def remove(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        record = self._find_stopped(body.get("sandbox"))
        if record is not None:
            await remove_files(self._host, record.id)
            self._stopped.pop(record.id, None)
            self._host.journal.record(SandboxRemoved(sandbox=record.id, name=record.name))
            return {"sandbox": record.id}
        sandbox = self._find(body.get("sandbox"))
        if self._running.get(sandbox.plan.id) and body.get("force") is not True:
            raise Failed("R108", f"a command runs in {sandbox.plan.name}", fix="hostctl rm --force")
        await self._destroy(sandbox, "removed")
        return {"sandbox": sandbox.plan.id}

    async def begin(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        """A stopped sandbox's rooms, rules, sidecar and session again; no command with them."""
        record = self._find_stopped(body.get("sandbox"))
        if record is None:
            return {"sandbox": self._find(body.get("sandbox")).plan.id}
        sandbox = restore(self._host, self._uids, record)
        del self._stopped[record.id]
        try:
            await start(self._host, sandbox)
        except BaseException:
            self._stopped[record.id] = sandbox.record
            raise
        self._live[record.id] = sandbox
        return {"sandbox": record.id}

    async def halt(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        if self._find_stopped(body.get("sandbox")) is None:
            await self._stop(self._find(body.get("sandbox")), "stopped")
        return {}

    async def selftest(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        sandbox = self._find(body.get("sandbox"))
        if sandbox.sidecar is None:
            raise Failed("R106", "the sandbox has no sidecar")
        return {"results": await sandbox.sidecar.selftest()}

    async def shutdown(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        await self.stop_all()
        self._host.reactor.callLater(0, self._host.reactor.stop)
        return {"stopped": True}

    # Pieces

    async def stop_all(self) -> None:
        """Workspaces stay: what was committed and not pushed must survive `hostctl down`."""
        await self._planning.acquire()  # a creation under way ends first, or would be left over
        try:
            for sandbox in self.live():
                await self._stop(sandbox, "hostd stopped")
        finally:
            self._planning.release()

    async def freeze(self, sandbox: Sandbox, why: str) -> None:
        """A protection does not hold any more: end all access at once, and say so."""
        _log.error("{name} is stopped: {why}", name=sandbox.plan.name, why=why)
        self._host.journal.record(
            AdminOperation(
                op="freeze",
                decision="deny",
                peer_uid=0,
                sandbox=sandbox.plan.id,
                code="N207",
                reason=why,
            )
        )
        await self._stop(sandbox, f"frozen: {why}")

    async def _stop(self, sandbox: Sandbox, reason: str) -> None:
        if self._live.pop(sandbox.plan.id, None) is None:
            return
        self._running.pop(sandbox.plan.id, None)
        await stop(self._host, sandbox, reason)
        self._stopped[sandbox.plan.id] = sandbox.record

    async def _create(self, request: RunRequest, channel: Channel) -> Sandbox:
        upstreams = await self._upstreams()
        await self._planning.acquire()
        try:
            index = next_index(self._uids, self._host.registry.last_index(), self._used_indexes())
            plan = make_plan(request, upstreams, self._names(), self._uids, index)
            self._host.registry.remember_index(index)
            sandbox = await create(self._host, plan, upstreams)
            self._live[plan.id] = sandbox
        finally:
            self._planning.release()
        self._host.journal.record(SandboxCreated(sandbox=plan.id, name=plan.name))
        try:
            for repository in plan.repositories:
                channel.progress(f"cloning {repository.url}")
                await self._gate(sandbox, channel).clone(repository)
        except BaseException:
            await self._destroy(sandbox, "clone failed")
            raise
        return sandbox

    async def _start(self, sandbox: Sandbox, request: RunRequest, stdio: list[int]) -> Process:
        if not request.detach:
            return await self._start_with(sandbox, request, stdio)
        with kept_output(self._host, sandbox) as sink:
            return await self._start_with(sandbox, request, [stdio[0], sink, sink])

    async def _start_with(self, sandbox: Sandbox, request: RunRequest, stdio: list[int]) -> Process:
        command = command_for(sandbox, "untrusted", request.argv, request.env, stdio, request.tty)
        process = await start_command(self._host.spawner, command)
        self._running[sandbox.plan.id] = process.pid
        return process

    def _watch(self, sandbox: Sandbox, process: Process, remove: bool) -> None:
        done = process.wait()
        done.addCallback(
            lambda status: Deferred.fromCoroutine(self._command_ended(sandbox, status, remove))
        )
        done.addErrback(lambda failure: _log.failure("after a command", failure))

    async def _command_ended(self, sandbox: Sandbox, status: int, remove: bool) -> None:
        self._running.pop(sandbox.plan.id, None)
        if sandbox.plan.id in self._live:
            save(self._host, sandbox, sandbox.record.step, exit_status=status)
        if remove and sandbox.plan.id in self._live:
            await self._destroy(sandbox, "its command ended")

    async def _destroy(self, sandbox: Sandbox, reason: str) -> None:
        if self._live.pop(sandbox.plan.id, None) is None:
            return
        self._running.pop(sandbox.plan.id, None)
        await destroy(self._host, sandbox, reason)
        self._host.journal.record(
            SandboxRemoved(sandbox=sandbox.plan.id, name=sandbox.plan.name, reason=reason)
        )

    def _gate(self, sandbox: Sandbox, channel: Channel) -> GitGate:
        """It ends with its client: nobody else waits for what it does."""
        gate = GitGate(self._host.reactor, self._host.spawner, sandbox, self._host.gate_times)
        channel.on_lost(gate.interrupt)
        return gate

    async def _upstreams(self) -> UpstreamTable:
        return UpstreamTable.from_mapping(await self._broker.get("/host/upstreams"))

    def _names(self) -> set[str]:
        live = {sandbox.plan.name for sandbox in self._live.values()}
        return live | {record.name for record in self._stopped.values()}

    def _used_indexes(self) -> set[int]:
        live = {sandbox.plan.uid_index for sandbox in self._live.values()}
        return live | {record.uid_index for record in self._stopped.values()}

    def _find(self, wanted: object) -> Sandbox:
        for sandbox in self._live.values():
            if wanted in (sandbox.plan.id, sandbox.plan.name):
                return sandbox
        if self._find_stopped(wanted) is not None:
            raise Failed("R106", f"sandbox {wanted} is not running")
        raise Failed("R103", f"there is no sandbox {wanted!r}", exit_code=4)

    def _find_stopped(self, wanted: object) -> Record | None:
        for record in self._stopped.values():
            if wanted in (record.id, record.name):
                return record
        return None


def _texts(value: object) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return value
    raise Failed("C105", "hostd does not understand this request")


def _stopped_summary(record: Record) -> dict[str, Any]:
    return {
        "sandbox": record.id,
        "name": record.name,
        "runtime": "bwrap",
        "state": "stopped",
        "policy": record.policy.get("name"),
        "created": record.created,
        "exit": record.exit_status,
    }
