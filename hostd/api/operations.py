"""The operations that hostctl can ask for: one method each, in one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gitmoat.audit.events import AdminOperation
from hostd.api.admin import Channel, Operation
from hostd.broker_link.broker_client import BrokerClient
from hostd.broker_link.host_keys import described, next_key, promote
from hostd.config import Config, differences, load_config
from hostd.docker.attaching import options_for, write_profile
from hostd.failures import Failed
from hostd.gate.git_processes import Stdio
from hostd.gate.gitgate import GitGate
from hostd.gate.refspecs import parse_gate
from hostd.process.commands import attend, command_for, start_command
from hostd.process.handle import Process
from hostd.sandbox.outputs import open_output
from hostd.sandbox.planning import RunRequest, check_variables, parse_run, prepared
from hostd.sandbox.sandbox import Sandbox
from hostd.sandboxes import Sandboxes
from hostd.this_host import Host
from hostd.verify.verification import chosen_groups, verify

_MONTH = 30 * 86400
_TAKEN_BY_PINS = ("broker.key",)


class Operations:
    """Reads requests and answers them; `Sandboxes` changes sandboxes."""

    def __init__(
        self,
        host: Host,
        broker: BrokerClient,
        sandboxes: Sandboxes,
        version: str,
        config: Config,
    ) -> None:
        self._host = host
        self._broker = broker
        self._sandboxes = sandboxes
        self._version = version
        self._config = config
        self.table: Mapping[str, Operation] = {
            "status": self.status,
            "run": self.run,
            "prepare": self.prepare,
            "attach": self.attach,
            "exec": self.execute,
            "git": self.git,
            "ls": self.list_all,
            "inspect": self.inspect,
            "rm": self.remove,
            "start": self.begin,
            "stop": self.halt,
            "selftest": self.selftest,
            "renew": self.renew,
            "pins": self.pins,
            "rotate-key": self.rotate_key,
            "policies": self.policies,
            "verify": self.verify,
            "audit-head": self.audit_head,
            "shutdown": self.shutdown,
        }

    async def status(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        problem = self._host.journal.problem()
        no_broker = await self._broker.problem()
        return {
            "pid": os.getpid(),
            "version": self._version,
            "launcher": self._host.launcher.pid,
            "zygote": self._host.zygote.pid,
            "healthy": problem is None,
            "problems": [] if problem is None else [problem],
            "keeps_space": self._host.journal.keeps_space(),
            "sandboxes": len(self._sandboxes.live()),
            "broker_reachable": no_broker is None,
            "broker_problem": None if no_broker is None else no_broker.mapping(),
            "host": self._host.grants.host,
            **described(self._host.paths, self._host.keys),
        }

    async def audit_head(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        seq, head = self._host.journal.head()
        return {"seq": seq, "hash": head}

    async def run(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        request = parse_run(body)
        stdio = channel.descriptors(3)
        sandbox = await self._sandboxes.create(request, channel.still_wanted)
        try:
            await self._clone(sandbox, channel)
            channel.still_wanted()
            process = await self._start(sandbox, request, stdio)
        except BaseException:
            await self._sandboxes.destroy(sandbox, "it could not be started")
            raise
        channel.event("started", sandbox=sandbox.plan.id, name=sandbox.plan.name)
        if request.detach:
            self._sandboxes.watch_command(sandbox, process)
            return {"exit": 0}
        status = await attend(self._host.reactor, channel, process)
        await self._sandboxes.command_ended(sandbox, status)
        return {"exit": status}

    async def prepare(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        """Makes everything of a sandbox but its container; returns the options to start that."""
        (name,) = _texts([body.get("name")])
        containers, seccomp = self._host.containers, self._host.paths.seccomp
        await containers.check()
        write_profile(seccomp, containers.seccomp)
        sandbox = await self._sandboxes.create(prepared(name), channel.still_wanted, theirs=True)
        options = options_for(sandbox, seccomp)
        return {"sandbox": sandbox.plan.id, "name": name, "options": options}

    async def attach(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        (container,) = _texts([body.pop("container", None)])
        request = parse_run({**body, "argv": ["-"]})
        sandbox = await self._sandboxes.attach(container, request)
        return {"sandbox": sandbox.plan.id, "name": sandbox.plan.name}

    async def execute(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        sandbox = self._sandboxes.running(body.get("sandbox"))
        tier, env = body.get("as", "untrusted"), body.get("env") or {}
        argv: list[str] = _texts(body.get("argv"))
        if tier not in ("untrusted", "helper"):
            raise Failed("C105", "hostd does not understand this request")
        check_variables(env)
        tty = body.get("tty") is True
        stdio = channel.descriptors(3)
        command = command_for(sandbox, tier, argv, env, tty)
        process = await start_command(self._host.launcher, command, stdio)
        return {"exit": await attend(self._host.reactor, channel, process)}

    async def git(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        sandbox = self._sandboxes.running(body.get("sandbox"))
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
        try:
            return {"exit": await gate.serve(request, Stdio(output, problems))}
        except Failed:
            self._sandboxes.running(sandbox.plan.id)  # raises the reason if it has ended
            raise

    async def list_all(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("sessions") is True:
            return {"items": await self._sandboxes.sessions()}
        return {"items": self._sandboxes.summaries()}

    async def inspect(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        return self._sandboxes.inspection(body.get("sandbox"))

    async def remove(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        force = body.get("force") is True
        return {"sandbox": await self._sandboxes.remove(body.get("sandbox"), force)}

    async def begin(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        return {"sandbox": await self._sandboxes.start(body.get("sandbox"))}

    async def halt(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        await self._sandboxes.stop(body.get("sandbox"))
        return {}

    async def selftest(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        sandbox = self._sandboxes.running(body.get("sandbox"))
        if sandbox.sidecar is None:
            raise Failed("R106", "the sandbox has no sidecar")
        return {"results": await sandbox.sidecar.selftest()}

    async def verify(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        sandbox = self._sandboxes.running(body.get("sandbox"))
        groups = chosen_groups(body.get("groups"))
        channel.progress(f"measuring {sandbox.plan.name} from inside ...")
        report = await verify(self._host, sandbox, groups)
        wrong = report["total"] - report["enforced"]
        self._host.journal.record(
            AdminOperation(
                op="verify",
                decision="deny" if wrong else "allow",
                peer_uid=0,
                sandbox=sandbox.plan.id,
                code="N210" if wrong else None,
                reason=f"{report['enforced']} of {report['total']} enforced",
            )
        )
        signed = body.get("sign") is True
        return {"report": self._host.grants.sign_report(report) if signed else report}

    async def policies(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        """The installed policies, read again; running sandboxes get those that have changed, and
        the broker's upstreams. Of hostd.toml it says what differs from what hostd was started with.
        """
        given = body.get("policies")
        if not isinstance(given, dict) or not all(isinstance(v, dict) for v in given.values()):
            raise Failed("C105", "hostd does not understand this request")
        now = differences(self._config, load_config(self._host.paths.hostd_toml))
        left = [name for name in now if name not in _TAKEN_BY_PINS]
        return {"replaced": await self._sandboxes.replace_policies(given), "restart": left}

    async def renew(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        """Lets a sandbox go on, also after the end of its session; by default as long as one is."""
        seconds = body.get("ttl")
        if seconds is not None and (type(seconds) is not int or not 0 < seconds <= _MONTH):
            raise Failed("C105", "a session is renewed for 1 second to 30 days")
        return await self._sandboxes.renew(body.get("sandbox"), seconds)

    async def pins(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        """Reads the broker's pinned keys again, and tells every sidecar."""
        keys = self._host.keys
        keys.pins = load_config(self._host.paths.hostd_toml).broker.key
        self._record("pins")
        for sandbox in self._sandboxes.live():
            if sandbox.sidecar is not None:
                sandbox.sidecar.pin(keys.pinned)
        return {"pins": list(keys.pins)}

    async def rotate_key(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        """Replaces the host's key only by one that the broker accepts already."""
        host = self._host
        key = next_key(host.paths)
        if not await self._broker.trying(key).healthy():
            why = "it is not enrolled there, or the broker cannot be reached"
            raise Failed("B101", "the broker does not take the next key", why=why)
        self._record("rotate-key")
        promote(host.paths, host.keys, key)
        return described(host.paths, host.keys)

    def _record(self, op: str) -> None:
        self._host.journal.record(AdminOperation(op=op, decision="allow", peer_uid=0))

    async def shutdown(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        await self._sandboxes.stop_all()
        self._host.reactor.callLater(0, self._host.reactor.stop)
        return {"stopped": True}

    # Parts of operations

    async def _clone(self, sandbox: Sandbox, channel: Channel) -> None:
        for repository in sandbox.plan.repositories:
            channel.progress(f"cloning {repository.url}")
            await self._gate(sandbox, channel).clone(repository)

    async def _start(self, sandbox: Sandbox, request: RunRequest, stdio: list[int]) -> Process:
        if not request.detach:
            return await self._start_with(sandbox, request, stdio)
        with open_output(self._host, sandbox) as sink:
            return await self._start_with(sandbox, request, [stdio[0], sink, sink])

    async def _start_with(self, sandbox: Sandbox, request: RunRequest, stdio: list[int]) -> Process:
        command = command_for(sandbox, "untrusted", request.argv, request.env, request.tty)
        process = await start_command(self._host.launcher, command, stdio)
        self._sandboxes.command_started(sandbox, process, request)
        return process

    def _gate(self, sandbox: Sandbox, channel: Channel) -> GitGate:
        """It is interrupted when its client goes."""
        gate = GitGate(self._host.reactor, self._host.programs, sandbox, self._host.gate_times)
        channel.on_lost(gate.interrupt)
        return gate


def _texts(value: object) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return value
    raise Failed("C105", "hostd does not understand this request")
