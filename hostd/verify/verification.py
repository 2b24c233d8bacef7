"""`hostctl verify`: measures every control of one sandbox, and reports what it found.

Probes run inside, as both uids. What only the host can see (rules, interfaces, the confinement of
the sidecar and of each process) is measured from here. No row repeats what was configured.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from gitmoat.version import VERSION
from hostd.failures import Failed
from hostd.network.nft import loaded_hash
from hostd.process.proc import network_of, status
from hostd.sandbox.plan import Ours
from hostd.sandbox.sandbox import Sandbox
from hostd.this_host import Host
from hostd.verify.attempts.processes import privileges
from hostd.verify.probe_runner import try_all
from hostd.verify.probe_table import ProbeInputs, all_probes
from hostd.verify.probes import ProbeResult

GROUPS = (
    "network", "egress", "dns", "proxy", "metadata", "ports", "squatting", "sockets", "calls",
    "rules", "credential", "git", "secrets", "files", "processes", "sidecar",
)  # fmt: skip
# Longer than the probes of both users may take.
_AT_MOST = 75
# What a sidecar holds: its event loop, its log, sockets that hostd made or dialled.
_SIDECAR_HOLDS = ("anon_inode:[eventpoll]", "pipe:[", "socket:[")


@frozen(kw_only=True)
class Row:
    """One line of the report; `expect` is the outcome that enforces the control."""

    group: str
    probe: str
    tier: str
    uid: int
    expect: str
    got: str
    ok: bool
    code: str

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "probe": self.probe,
            "as": self.tier,
            "uid": self.uid,
            "expect": self.expect,
            "got": self.got,
            "ok": self.ok,
            "code": None if self.ok else self.code,
        }


async def verify(host: Host, sandbox: Sandbox, groups: tuple[str, ...]) -> dict[str, Any]:
    """The report, in the order of GROUPS; a control that could not be measured is not enforced."""
    with _markers(host) as marker:
        probes = all_probes(ProbeInputs(sandbox.plan, marker))
        chosen = [probe for probe in probes if probe.group in groups]
        async with _announced(host, sandbox):
            results = await try_all(host, sandbox, chosen)
        rows = [_row(sandbox, each) for each in results]
    rows += await _seen_from_outside(host, sandbox)
    rows = [row for row in rows if row.group in groups]
    rows.sort(key=lambda row: GROUPS.index(row.group))
    return {
        "schema": "gitmoat.verify/1",
        "sandbox": sandbox.plan.id,
        "name": sandbox.plan.name,
        "groups": [group for group in GROUPS if group in groups],
        "probes": [row.to_json() for row in rows],
        "enforced": sum(row.ok for row in rows),
        "total": len(rows),
        "facts": await _facts(host, sandbox),
    }


def chosen_groups(wanted: object) -> tuple[str, ...]:
    if wanted is None:
        return GROUPS
    if not isinstance(wanted, list) or not wanted:
        raise Failed("C105", "hostd does not understand this request")
    for group in wanted:
        if group not in GROUPS:
            known = ", ".join(GROUPS)
            raise Failed("C105", f"there is no group {group!r}", fix=f"use: {known}", exit_code=2)
    return tuple(wanted)


@contextmanager
def _markers(host: Host) -> Iterator[str]:
    """Writes a marker beside every secret and control socket of the host, for which the probes
    search."""
    marker = f"gitmoat-marker-{secrets.token_hex(16)}"
    paths = host.paths
    places = (paths.hostd_state, paths.broker_state, paths.run, paths.etc, paths.log_dir)
    planted = [place / f".{marker[-12:]}" for place in places if place.is_dir()]
    try:
        for path in planted:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(path, flags, 0o644), "w", encoding="ascii") as file:
                file.write(marker)
        yield marker
    finally:
        for path in planted:
            path.unlink(missing_ok=True)


@asynccontextmanager
async def _announced(host: Host, sandbox: Sandbox) -> AsyncIterator[None]:
    """Tells sidecar and broker that the refusals of the next seconds are the probes'.

    Both end this by themselves if hostd does not.
    """
    sidecar = sandbox.sidecar
    session = None if sidecar is None else sidecar.session
    if sidecar is None or session is None:
        yield
        return
    try:
        sidecar.verifying(_AT_MOST)
        await host.grants.verifying(session, _AT_MOST)
        yield
    finally:
        sidecar.verifying(0)
        await host.grants.verifying(session, 0)


def _row(sandbox: Sandbox, result: ProbeResult) -> Row:
    probe, uids = result.probe, sandbox.plan.uids
    return Row(
        group=probe.group,
        probe=probe.name,
        tier=probe.tier,
        uid=uids.untrusted if probe.tier == "untrusted" else uids.helper,
        expect="allow" if probe.allowed else "deny",
        got=result.got,
        ok=result.ok,
        code=probe.code,
    )


async def _seen_from_outside(host: Host, sandbox: Sandbox) -> list[Row]:
    return [
        *await _network(host, sandbox),
        *_processes(sandbox),
        *await _container(host, sandbox),
        *await _sidecar(sandbox),
    ]


def _outside_row(group: str, what: str, wrong: Sequence[str], good: str, code: str) -> Row:
    got = ", ".join(wrong)[:200] if wrong else good
    return Row(
        group=group,
        probe=what,
        tier="hostd",
        uid=0,
        expect="deny",
        got=got,
        ok=not wrong,
        code=code,
    )


async def _network(host: Host, sandbox: Sandbox) -> list[Row]:
    rules = await _rules(host, sandbox)
    found = await host.launcher.ask_survey(sandbox.namespace)
    own = os.fstat(sandbox.namespace).st_ino
    shared = own in (network_of("self"), 0) or own != sandbox.record.netns
    first = sandbox.first
    inside = first is not None and network_of(first.pid) == own
    elsewhere = [f"inode {own}"] if shared or not inside else []
    changed = [] if rules == sandbox.record.rules else [rules or "no rules"]
    same = f"sha256 {rules[:16]}"
    return [
        _outside_row("network", "rules differ from those loaded", changed, same, "N207"),
        _outside_row("network", "interfaces beside lo", found.interfaces, "none", "N101"),
        _outside_row("network", "settings that were changed", found.sysctls, "none", "N206"),
        _outside_row("network", "another network namespace", elsewhere, f"its own, {own}", "N101"),
    ]


async def _rules(host: Host, sandbox: Sandbox) -> str:
    try:
        return await loaded_hash(host.programs, sandbox.network())
    except Failed:
        return ""


def _processes(sandbox: Sandbox) -> list[Row]:
    """Every process that is in the sandbox's cgroup now."""
    monitor = None if sandbox.first is None else sandbox.first.monitor.pid
    inside = _in_groups(sandbox.cgroups["sandbox"]) - {monitor}
    uid = sandbox.plan.uids.untrusted
    wrong = [f"{pid}: {what}" for pid in inside for what in _privileges(pid, uid)]
    seen = f"none of {len(inside)}"
    return [_outside_row("processes", "processes with a privilege", wrong, seen, "N205")]


def _in_groups(directories: Sequence[str]) -> set[int]:
    text = "".join(Path(each, "cgroup.procs").read_text("ascii") for each in directories[:1])
    return set(map(int, text.split()))


def _privileges(pid: int, uid: int) -> list[str]:
    """The pause belongs to root, and must not have a capability either."""
    try:
        found = status(pid)
    except OSError:
        return []  # it has just ended
    if found["Uid"].split()[0] != "0":
        return privileges(found, uid)
    return [f"root with {found['CapEff']}"] if int(found["CapEff"], 16) else []


async def _container(host: Host, sandbox: Sandbox) -> list[Row]:
    if sandbox.container is None:
        return []
    try:
        wrong = await host.containers.what_is_wrong(sandbox)
    except Failed as problem:
        wrong = str(problem)
    what = "the container is not as it was sealed"
    return [_outside_row("processes", what, [wrong] if wrong else [], "as it was sealed", "N208")]


async def _sidecar(sandbox: Sandbox) -> list[Row]:
    sidecar = sandbox.sidecar
    if sidecar is None or sidecar.pid is None:
        return [_outside_row("sidecar", "the sidecar does not run", ["it is replaced"], "", "N205")]
    try:
        tested = await sidecar.selftest()
    except Failed as problem:
        return [_outside_row("sidecar", "the sidecar does not answer", [str(problem)], "", "N205")]
    uid, pid = sandbox.plan.uids.sidecar, sidecar.pid
    rows = [
        Row(
            group="sidecar",
            probe=each["name"],
            tier="sidecar",
            uid=uid,
            expect="deny",
            got="denied" if each["denied"] else "it works",
            ok=each["denied"],
            code="N205",
        )
        for each in tested
    ]
    return [*rows, *_sidecar_from_outside(pid, uid, sandbox)]


def _sidecar_from_outside(pid: int, uid: int, sandbox: Sandbox) -> list[Row]:
    try:
        wrong = privileges(status(pid), uid)
        files = [path.name for path in Path(f"/proc/{pid}/root").iterdir()]
        held = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        readable = [] if Path(f"/proc/{pid}/mem").stat().st_uid == 0 else ["by its own uid"]
        elsewhere = [] if network_of(pid) == sandbox.record.netns else ["another namespace"]
    except OSError:
        return [_outside_row("sidecar", "the sidecar does not run", ["it has ended"], "", "N205")]
    strange = [
        each
        for each in held
        if not each.startswith(_SIDECAR_HOLDS)
        and not each.endswith(f"/sidecar-{sandbox.plan.id}.log")
    ]
    kinds = f"{len(held)} sockets, pipes and its log"
    return [
        _outside_row("sidecar", "its privileges", wrong, "none", "N205"),
        _outside_row("sidecar", "files in its root directory", files, "none", "N205"),
        _outside_row("sidecar", "what else it holds", strange, kinds, "N205"),
        _outside_row("sidecar", "its memory can be read", readable, "by root alone", "N205"),
        _outside_row("sidecar", "its network", elsewhere, "the sandbox's", "N205"),
    ]


async def _facts(host: Host, sandbox: Sandbox) -> dict[str, Any]:
    return {
        "time": int(time.time()),
        "host": host.grants.host,
        "boot": sandbox.record.boot_id,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "version": VERSION,
        "python": platform.python_version(),
        "runtime": sandbox.plan.runtime,
        "image": await _image(host, sandbox),
        "container": sandbox.container.id if sandbox.container else None,
        "netns": sandbox.record.netns,
        "uids": [sandbox.plan.uids.sidecar, sandbox.plan.uids.helper, sandbox.plan.uids.untrusted],
        "session": sandbox.sidecar.session if sandbox.sidecar else None,
        "policy": {"name": sandbox.plan.policy.name, "sha256": sandbox.plan.policy_hash},
        "rules_sha256": await _rules(host, sandbox),
    }


async def _image(host: Host, sandbox: Sandbox) -> dict[str, Any] | None:
    """The image, with the digest that the engine knows it by."""
    ownership = sandbox.plan.ownership
    if not isinstance(ownership, Ours):
        return None
    found = await host.containers.engine.image(ownership.image)
    return {"name": ownership.image, "digest": found.get("Id")}
