"""A system-call filter as data, and its translation to BPF.

The first rule that matches a call decides; arguments are compared on their low 32 bits, which is
what the kernel uses for the flags, families and commands named in our rules. A filter that compares
64 bits is passed by a set bit among the upper ones (CVE-2019-10063).
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable
from enum import Enum

from attrs import frozen

from gitmoat.confine.syscalls import AUDIT_ARCH, NUMBERS

_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_GREATER_EQUAL = 0x35
_JUMP_SET = 0x45
_RETURN = 0x06

_RET_KILL_PROCESS = 0x80000000
_RET_ERRNO = 0x00050000
_RET_ALLOW = 0x7FFF0000

_OFFSET_NUMBER = 0
_OFFSET_ARCH = 4
_OFFSET_ARGUMENTS = 16
_X32_BIT = 0x40000000


@frozen
class Allow:
    pass


@frozen
class Fail:
    """The call returns this errno."""

    number: int


Action = Allow | Fail


class Compare(Enum):
    EQUAL = "equal"
    ANY_BIT = "any-bit"
    NONE_OF = "none-of"


@frozen
class Argument:
    """Holds when one of the values is equal to the argument or has a bit in common with it; for
    NONE_OF, when the argument is none of the values."""

    index: int
    test: Compare
    values: tuple[int, ...]


@frozen
class Rule:
    calls: tuple[str, ...]
    action: Action
    when: tuple[Argument, ...] = ()


@frozen
class Profile:
    name: str
    rules: tuple[Rule, ...]
    default: Action


def _encode(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, k)


def _verdict(action: Action) -> bytes:
    match action:
        case Allow():
            return _encode(_RETURN, _RET_ALLOW)
        case Fail(number):
            return _encode(_RETURN, _RET_ERRNO | number)


def _argument_test(argument: Argument, after: int) -> list[bytes]:
    """Continue when the test holds, else skip the `after` instructions that follow."""
    code = [_encode(_LOAD_WORD, _OFFSET_ARGUMENTS + 8 * argument.index)]
    last = len(argument.values) - 1
    if argument.test is Compare.NONE_OF:
        return code + [
            _encode(_JUMP_EQUAL, value, last - position + after, 0)
            for position, value in enumerate(argument.values)
        ]
    jump = _JUMP_EQUAL if argument.test is Compare.EQUAL else _JUMP_SET
    for position, value in enumerate(argument.values):
        miss = 0 if position < last else after
        code.append(_encode(jump, value, last - position, miss))
    return code


def _rule_body(rule: Rule) -> list[bytes]:
    """What runs once the call's number matched; falls through with the number reloaded."""
    verdict = _verdict(rule.action)
    if not rule.when:
        return [verdict]
    body = [verdict]
    for argument in reversed(rule.when):
        body = _argument_test(argument, len(body)) + body
    return [*body, _encode(_LOAD_WORD, _OFFSET_NUMBER)]


def _rule(rule: Rule, numbers: dict[str, int]) -> Iterable[bytes]:
    for call in rule.calls:
        number = numbers.get(call)
        if number is None:  # the architecture does not have it (select on aarch64)
            continue
        body = _rule_body(rule)
        yield _encode(_JUMP_EQUAL, number, 0, len(body))
        yield from body


def compile_profile(profile: Profile, machine: str | None = None) -> bytes:
    """The BPF program of a profile for this machine's own architecture; any other is killed."""
    machine = machine or platform.machine()
    numbers = NUMBERS[machine]
    code = [
        # seccomp(2): a number means another call on another architecture, so this is asked first.
        _encode(_LOAD_WORD, _OFFSET_ARCH),
        _encode(_JUMP_EQUAL, AUDIT_ARCH[machine], 1, 0),
        _encode(_RETURN, _RET_KILL_PROCESS),
        _encode(_LOAD_WORD, _OFFSET_NUMBER),
        # seccomp(2): x32 is told apart from x86-64 by this bit only; our tables have none of it.
        _encode(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1),
        _encode(_RETURN, _RET_ERRNO | errno.ENOSYS),
    ]
    for rule in profile.rules:
        code.extend(_rule(rule, numbers))
    code.append(_verdict(profile.default))
    return b"".join(code)
