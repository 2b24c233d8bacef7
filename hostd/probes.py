"""What must hold in a sandbox's namespaces before it is activated, as data; and its trial.

The attempts run in forked children with the uid, the filters and the namespaces that a command
would get. A probe that may not be refused and one that must be are both in the table: a namespace
in which nothing works at all is not a sandbox either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from attrs import frozen

_TIMEOUT = 1.0
_IO_URING_SETUP = 425


@frozen
class Probe:
    """`allowed` is what must come out; `code` is what a wrong outcome is called."""

    name: str
    tier: str
    attempt: str
    target: tuple[Any, ...]
    allowed: bool
    code: str


def _deny(name: str, tier: str, attempt: str, *target: Any, code: str) -> Probe:
    return Probe(name, tier, attempt, target, allowed=False, code=code)


def _allow(name: str, tier: str, attempt: str, *target: Any, code: str) -> Probe:
    return Probe(name, tier, attempt, target, allowed=True, code=code)


PROBES = (
    _allow("untrusted reaches its git port", "untrusted", "tcp4", "127.0.0.1", 419, code="N203"),
    _deny("untrusted reaches the helper's", "untrusted", "tcp4", "127.0.0.1", 418, code="N203"),
    _deny("… by another loopback address", "untrusted", "tcp4", "127.0.0.2", 418, code="N203"),
    _deny("… over IPv6", "untrusted", "tcp6", "::1", 418, code="N203"),
    _allow("helper reaches its git port", "helper", "tcp4", "127.0.0.1", 418, code="N203"),
    _deny("helper reaches the other", "helper", "tcp4", "127.0.0.1", 419, code="N203"),
    _deny("helper reaches a high port", "helper", "tcp4", "127.0.0.1", 9999, code="N203"),
    _deny("IPv4 leaves", "untrusted", "tcp4", "203.0.113.5", 443, code="N201"),
    _deny("IPv6 leaves", "untrusted", "tcp6", "2001:db8::5", 443, code="N201"),
    _deny("UDP leaves", "untrusted", "udp4", "203.0.113.53", 53, code="N201"),
    _deny("the metadata address answers", "untrusted", "tcp4", "169.254.169.254", 80, code="N201"),
    _deny("helper's IPv4 leaves", "helper", "tcp4", "203.0.113.5", 443, code="N201"),
    _deny("a sidecar's port can be taken", "untrusted", "bind", 53, code="N204"),
    _deny("vsock", "untrusted", "family", 40, code="N205"),
    _deny("packet sockets", "untrusted", "family", 17, code="N205"),
    _deny("io_uring", "untrusted", "io_uring", code="N205"),
    _deny("a new user namespace", "untrusted", "unshare", 0x10000000, code="N205"),
)


def _connect(family: int, kind: int, address: str, port: int) -> None:
    with socket.socket(family, kind) as client:
        client.settimeout(_TIMEOUT)
        client.connect((address, port))
        if kind == socket.SOCK_DGRAM:
            client.send(b"probe")


def _bind(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", port))


def _family(number: int) -> None:
    socket.socket(number, socket.SOCK_STREAM if number == 40 else socket.SOCK_RAW).close()


def _checked(result: int) -> None:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _io_uring() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120)))


def _unshare(kinds: int) -> None:
    _checked(ctypes.CDLL(None, use_errno=True).unshare(kinds))


_ATTEMPTS: dict[str, Callable[..., None]] = {
    "tcp4": lambda *where: _connect(socket.AF_INET, socket.SOCK_STREAM, *where),
    "tcp6": lambda *where: _connect(socket.AF_INET6, socket.SOCK_STREAM, *where),
    "udp4": lambda *where: _connect(socket.AF_INET, socket.SOCK_DGRAM, *where),
    "bind": _bind,
    "family": _family,
    "io_uring": _io_uring,
    "unshare": _unshare,
}


def attempt_all(tier: str) -> list[str | None]:
    """One outcome per probe of this tier, in the table's order: an errno's name, or None."""
    return [_attempt(probe) for probe in PROBES if probe.tier == tier]


def _attempt(probe: Probe) -> str | None:
    try:
        _ATTEMPTS[probe.attempt](*probe.target)
    except TimeoutError:
        return "ETIMEDOUT"
    except OSError as problem:
        return errno.errorcode.get(problem.errno or 0, str(problem))
    return None


@frozen
class Wrong:
    """A probe that came out as it must not."""

    probe: Probe
    outcome: str | None

    def __str__(self) -> str:
        if self.probe.allowed:
            return f"{self.probe.name}: {self.outcome}, but it must work"
        return f"{self.probe.name}: {self.outcome or 'it works'}, but it must be refused at once"


def judge(tier: str, outcomes: list[str | None]) -> list[Wrong]:
    """A refusal that only comes by time-out counts as none: the rules answer at once."""
    probes = [probe for probe in PROBES if probe.tier == tier]
    if len(probes) != len(outcomes):
        return [Wrong(probe, "not tried") for probe in probes]
    return [
        Wrong(probe, outcome)
        for probe, outcome in zip(probes, outcomes, strict=True)
        if (outcome is None) != probe.allowed or outcome == "ETIMEDOUT"
    ]
