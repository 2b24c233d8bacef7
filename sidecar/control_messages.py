"""The messages of the control socket, as bytes and values.

The sidecar's are of one fixed size, so that a compromised one can tell hostd nothing else; hostd's
are small JSON objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from attrs import frozen

SIZE: Final = 33
DIAL: Final = b"D" + bytes(SIZE - 1)
_LARGEST = 1024


def ready(public_key: bytes) -> bytes:
    if len(public_key) != SIZE - 1:
        raise ValueError("an Ed25519 public key has 32 octets")
    return b"R" + public_key


def tested(results: Sequence[bool]) -> bytes:
    """The answer to a self-test: one octet each, 1 where the attempt was denied."""
    return b"T" + bytes(results).ljust(SIZE - 1, b"\0")


@frozen
class Activate:
    """The sandbox is attested: begin to accept."""


@frozen
class Connection:
    """One connected socket to the broker came with this message."""


@frozen
class DialFailed:
    """hostd could not reach the broker for one DIAL."""


@frozen
class SelfTest:
    """Try what a sidecar must not be able to do, and say what came of it."""


@frozen
class Stop:
    """Finish what is running and end."""


Order = Activate | Connection | DialFailed | SelfTest | Stop

_ORDERS: dict[str, Order] = {
    "activate": Activate(),
    "connection": Connection(),
    "dial-failed": DialFailed(),
    "selftest": SelfTest(),
    "stop": Stop(),
}


class ControlMalformed(Exception):
    """A control message that this version does not know."""


def parse_order(data: bytes, descriptors: int) -> Order:
    """Exactly one descriptor comes with `connection`, none with anything else."""
    order = _ORDERS.get(_operation(data))
    if order is None:
        raise ControlMalformed("unknown operation")
    if descriptors != (1 if isinstance(order, Connection) else 0):
        raise ControlMalformed("wrong number of descriptors")
    return order


def _operation(data: bytes) -> str:
    if len(data) > _LARGEST:
        raise ControlMalformed("message too large")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        raise ControlMalformed("not JSON") from None
    match message:
        case {"op": str(operation), **rest} if not rest:
            return operation
        case _:
            raise ControlMalformed("not an object with the one key op")
