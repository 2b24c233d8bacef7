"""What must hold in a sandbox's namespaces before it is activated, as data.

The table has probes that must be refused and probes that must work: a namespace in which nothing
works is no sandbox either. `hostd.verify.attempts.reporting` has what each of them tries.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

from attrs import frozen

_NOT_TRIED = "not tried"
NO_ANSWER = "ETIMEDOUT"  # what an attempt says when its time is over


@frozen
class Probe:
    """`allowed` says which outcome is right; `code` is the code of a wrong one."""

    group: str
    name: str
    tier: str
    attempt: str
    target: tuple[Any, ...]
    allowed: bool
    code: str


def deny(group: str, name: str, tier: str, attempt: str, *target: Any, code: str = "N201") -> Probe:
    return Probe(group, name, tier, attempt, target, allowed=False, code=code)


def allow(
    group: str, name: str, tier: str, attempt: str, *target: Any, code: str = "N203"
) -> Probe:
    return Probe(group, name, tier, attempt, target, allowed=True, code=code)


_U, _H = "untrusted", "helper"
_STREAM, _RAW = int(socket.SOCK_STREAM), int(socket.SOCK_RAW)
_VSOCK, _PACKET = 40, 17
_NEW_USER_NAMESPACE = 0x10000000

ACTIVATION = (
    allow("ports", "untrusted reaches 419", _U, "tcp4", "127.0.0.1", 419),
    deny("ports", "untrusted reaches 418", _U, "tcp4", "127.0.0.1", 418, code="N203"),
    deny("ports", "untrusted reaches 418 at 127.0.0.2", _U, "tcp4", "127.0.0.2", 418, code="N203"),
    deny("ports", "untrusted reaches 418 over IPv6", _U, "tcp6", "::1", 418, code="N203"),
    allow("ports", "untrusted reaches the proxy", _U, "tcp4", "127.0.0.1", 480),
    allow("ports", "untrusted reaches DNS by TCP", _U, "tcp4", "127.0.0.1", 53),
    allow("ports", "untrusted reaches DNS by UDP", _U, "udp4", "127.0.0.1", 53),
    allow("ports", "a synthetic address answers", _U, "tcp4", "198.18.0.1", 443),
    deny("ports", "418 of a synthetic address", _U, "tcp4", "198.18.0.1", 418, code="N203"),
    deny("ports", "QUIC to a synthetic address", _U, "udp4", "198.18.0.1", 443, code="N203"),
    deny("ports", "443 of a loopback address", _U, "tcp4", "127.0.0.1", 443, code="N203"),
    deny("ports", "helper reaches the proxy", _H, "tcp4", "127.0.0.1", 480, code="N203"),
    deny("ports", "helper reaches DNS by UDP", _H, "udp4", "127.0.0.1", 53, code="N203"),
    deny("ports", "helper reaches a synthetic address", _H, "tcp4", "198.18.0.1", 443, code="N203"),
    allow("ports", "helper reaches 418", _H, "tcp4", "127.0.0.1", 418),
    deny("ports", "helper reaches 419", _H, "tcp4", "127.0.0.1", 419, code="N203"),
    deny("ports", "helper reaches a high port", _H, "tcp4", "127.0.0.1", 9999, code="N203"),
    deny("egress", "IPv4 leaves", _U, "tcp4", "203.0.113.5", 443),
    deny("egress", "IPv6 leaves", _U, "tcp6", "2001:db8::5", 443),
    deny("dns", "a resolver outside is asked over UDP", _U, "udp4", "203.0.113.53", 53),
    deny("metadata", "the metadata address answers", _U, "tcp4", "169.254.169.254", 80),
    deny("egress", "helper's IPv4 leaves", _H, "tcp4", "203.0.113.5", 443),
    deny(
        "squatting",
        "a port below 1024 can be taken",
        _U,
        "bind-tcp4",
        "127.0.0.1",
        1023,
        code="N204",
    ),
    deny("sockets", "vsock", _U, "socket", _VSOCK, _STREAM, 0, code="N205"),
    deny("sockets", "packet sockets", _U, "socket", _PACKET, _RAW, 0, code="N205"),
    deny("calls", "io_uring", _U, "call", "io_uring_setup", 1, 0, code="N205"),
    deny("calls", "a new user namespace", _U, "unshare", _NEW_USER_NAMESPACE, code="N205"),
)


@frozen
class Outcome:
    """Whether the attempt worked, and its result in a few words."""

    worked: bool
    got: str


@frozen
class ProbeResult:
    """A probe with its outcome, None if it was not tried.

    A time-out is no refusal: the rules reject at once (RFC 9293, 3.5.2; ICMP for UDP).
    """

    probe: Probe
    outcome: Outcome | None

    @property
    def ok(self) -> bool:
        outcome = self.outcome
        if outcome is None or outcome.got == NO_ANSWER:
            return False
        return outcome.worked == self.probe.allowed

    @property
    def got(self) -> str:
        return _NOT_TRIED if self.outcome is None else self.outcome.got

    def __str__(self) -> str:
        must = "it must work" if self.probe.allowed else "it must be refused at once"
        return f"{self.probe.name}: {self.got}, but {must}"


def judge(probes: Sequence[Probe], outcomes: Sequence[Outcome]) -> list[ProbeResult]:
    """Each probe with its outcome; probes after the last outcome were not tried."""
    missing = [None] * (len(probes) - len(outcomes))
    return [ProbeResult(*pair) for pair in zip(probes, [*outcomes, *missing], strict=True)]


def attempts_of(probes: Sequence[Probe]) -> list[list[Any]]:
    return [[probe.attempt, *probe.target] for probe in probes]


def read_outcomes(report: bytes, most: int) -> list[Outcome]:
    """The lines of `attempts.report`, up to one that is cut off or is not one of its lines."""
    outcomes: list[Outcome] = []
    for line in report.split(b"\n")[:-1][:most]:
        try:
            found = json.loads(line)
        except ValueError:
            return outcomes
        match found:
            case [bool(worked), str(got)]:
                outcomes.append(Outcome(worked, got))
            case _:
                return outcomes
    return outcomes
