"""What the sidecars of one sandbox need: their start, their sessions, and the probes that precede
each activation."""

from __future__ import annotations

import os

from gitmoat.identity.peer import Means
from gitmoat.messages.sidecar import MOST_EGRESS, SCHEMA, SidecarConfig, Uids, format_config
from hostd.failures import Failed
from hostd.process.handle import Process
from hostd.process.pipes import file_of
from hostd.process.requests import Listen, Sidecar
from hostd.registry import ProcessRecord
from hostd.sandbox.first_processes import join_container
from hostd.sandbox.sandbox import Sandbox
from hostd.sandbox.steps import save
from hostd.this_host import Host
from hostd.verify.probe_runner import try_all
from hostd.verify.probes import ACTIVATION

DIAL_CAP = 16


class Serving:
    """For the supervisor of one sandbox's sidecars."""

    def __init__(self, host: Host, sandbox: Sandbox) -> None:
        self._host = host
        self._sandbox = sandbox
        self._log = _open_log(host, sandbox)
        self.id = sandbox.plan.id
        self.control_path = str(host.control_path(self.id))

    async def fork(self) -> Process:
        host, sandbox = self._host, self._sandbox
        configuration = file_of(format_config(_configuration(host, sandbox)))
        try:
            if not sandbox.listeners:  # after a restart of hostd; only root can bind these ports
                await make_listeners(host, sandbox)
            request = Sidecar(
                uid=sandbox.plan.uids.sidecar,
                empty_root=str(host.paths.run / "empty"),
                cgroups=sandbox.cgroups["sidecar"],
            )
            given = [sandbox.namespace, configuration, self._log, *sandbox.listeners]
            return await host.zygote.ask_sidecar(request, given)
        finally:
            os.close(configuration)

    async def register(self, public_key: bytes) -> str:
        return await self._host.grants.register(self._sandbox, public_key)

    async def probe(self) -> None:
        await probe(self._host, self._sandbox)

    async def activate(self, session: str, pid: int) -> None:
        """It is on disk before the sidecar is told to accept: the next hostd must find it."""
        await self._host.grants.activate(self._sandbox, session, pid)
        process = ProcessRecord.of(pid)
        processes = dict(self._sandbox.record.processes)
        if process is not None:
            processes["sidecar"] = process
        step = self._sandbox.step
        save(self._host, self._sandbox, step, processes=processes, session=session)

    async def close(self, session: str, reason: str) -> None:
        await self._host.grants.close(session, reason)

    async def close_all(self, reason: str) -> None:
        await self._host.grants.close_sandbox(self.id, reason)


def _open_log(host: Host, sandbox: Sandbox) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.open(host.sidecar_log(sandbox.plan.id), flags, 0o600)
    sandbox.descriptors.append(log)
    return log


async def make_listeners(host: Host, sandbox: Sandbox) -> None:
    plan = sandbox.plan
    sandbox.listeners = tuple(
        await host.launcher.ask_listen(
            sandbox.namespace,
            Listen(
                uid=plan.uids.sidecar,
                credential=str(sandbox.directories.run / "cred.sock"),
                control=str(host.control_path(plan.id)),
            ),
        )
    )


def _configuration(host: Host, sandbox: Sandbox) -> SidecarConfig:
    plan = sandbox.plan
    # The sidecar has no /proc: it learns a peer's cgroup from PIDFD_GET_INFO only.
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
    """Runs between grant and activation; raises Failed with the code of the first fault."""
    found = await host.launcher.ask_survey(sandbox.namespace)
    if found.interfaces:
        names = ", ".join(found.interfaces)
        raise Failed("N101", "the sandbox's network has an interface besides lo", why=names)
    if found.sysctls:
        raise Failed("N206", "a setting of the sandbox's network is wrong", why=found.sysctls[0])
    for result in await try_all(host, sandbox, ACTIVATION):
        if result.outcome is None:
            what = "the sandbox's protections could not all be tried in time"
            raise Failed("R117", what, why=str(result), fix="try again when the host is less busy")
        if not result.ok:
            raise Failed(result.probe.code, "a protection does not hold", why=str(result))
    if sandbox.holder is not None:
        await _admit_container(host, sandbox)


async def _admit_container(host: Host, sandbox: Sandbox) -> None:
    if sandbox.first is None:
        await join_container(host, sandbox)
        return
    wrong = await host.containers.what_is_wrong(sandbox)
    if wrong is not None:
        raise Failed("R115", "the container is not sealed", why=wrong)
