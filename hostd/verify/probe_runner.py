"""Runs probes as a process of the sandbox, confined like its commands."""

from __future__ import annotations

from collections.abc import Sequence

from gitmoat.confine.confining import Limits
from hostd.failures import Failed
from hostd.process import requests
from hostd.sandbox.sandbox import Sandbox
from hostd.this_host import Host
from hostd.verify.probes import Probe, ProbeResult, attempts_of, judge, read_outcomes

_TIMEOUT = 30.0


async def try_all(host: Host, sandbox: Sandbox, probes: Sequence[Probe]) -> list[ProbeResult]:
    """Runs each tier's probes in one process; if it is killed, the rest has not been tried."""
    results: list[ProbeResult] = []
    for tier in ("untrusted", "helper"):
        chosen = [probe for probe in probes if probe.tier == tier]
        results += await _try_as(host, sandbox, tier, chosen) if chosen else []
    return results


async def _try_as(
    host: Host, sandbox: Sandbox, tier: str, probes: Sequence[Probe]
) -> list[ProbeResult]:
    untrusted = tier == "untrusted"
    first = (sandbox.first or sandbox.holder) if untrusted else sandbox.gate
    if first is None:
        raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")
    tried = requests.Probe(
        uid=sandbox.plan.uids.untrusted if untrusted else sandbox.plan.uids.helper,
        room=first.join(),
        cgroups=sandbox.cgroups["sandbox" if untrusted else "gate"],
        limits=Limits(open_files=64),
        attempts=tuple(attempts_of(probes)),
        cause=f"{sandbox.plan.id}-probe",
    )
    finished = await host.programs.run(tried, timeout=_TIMEOUT)
    return judge(probes, read_outcomes(finished.output, len(probes)))
