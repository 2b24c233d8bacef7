"""A profile of ours in the words of Docker's `--security-opt seccomp=`.

libseccomp takes only one comparison per argument and rule, and no order of rules; so only rules
that allow are written, what they do not allow gets the default, and a rule that allows the rest of
a call after exceptions becomes one that names the exceptions.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from gitmoat.confine.seccomp import Allow, Argument, Compare, Fail, Profile, Rule
from gitmoat.confine.syscalls import NUMBERS

_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}


class Inexpressible(Exception):
    """A rule that libseccomp has no words for."""


def docker_profile(profile: Profile, machine: str) -> dict[str, Any]:
    """Allows nothing that the profile does not; a refusal may have another errno."""
    if not isinstance(profile.default, Fail):
        raise Inexpressible("only a profile that refuses by default")
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": profile.default.number,
        "architectures": [_ARCHITECTURES[machine]],
        "syscalls": [
            *(entry for rule in profile.rules for entry in _entries(profile, rule)),
            _default_again(profile, machine, profile.default.number),
        ],
    }


def _default_again(profile: Profile, machine: str, number: int) -> dict[str, Any]:
    """Docker 20.10 takes EPERM for every default; a libc that asks for clone3 must see ENOSYS."""
    known = {name for rule in profile.rules for name in rule.calls}
    rest = sorted(set(NUMBERS[machine]) - known)
    return {"names": rest, "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": []}


def _entries(profile: Profile, rule: Rule) -> list[dict[str, Any]]:
    if not isinstance(rule.action, Allow):
        return []
    # Each way not to meet an exception is an alternative: not both is either not.
    ways = product(*(one.when for one in _exceptions(profile, rule)))
    conditions = [[*rule.when, *map(_opposite, way)] for way in ways]
    return [
        {"names": list(rule.calls), "action": "SCMP_ACT_ALLOW", "args": alternative}
        for each in conditions
        for alternative in _alternatives(each)
    ]


def _exceptions(profile: Profile, rule: Rule) -> list[Rule]:
    """Earlier rules that refuse some of the same calls."""
    earlier = profile.rules[: profile.rules.index(rule)]
    shared = [one for one in earlier if set(one.calls) & set(rule.calls)]
    return [one for one in shared if isinstance(one.action, Fail)]


def _opposite(argument: Argument) -> Argument:
    if argument.test is Compare.EQUAL:
        return Argument(argument.index, Compare.NONE_OF, argument.values)
    return argument


def _alternatives(conditions: list[Argument]) -> list[list[dict[str, Any]]]:
    """All combinations, each with one comparison per argument."""
    if len({argument.index for argument in conditions}) != len(conditions):
        raise Inexpressible("two comparisons of one argument in one rule")
    found: list[list[dict[str, Any]]] = [[]]
    for argument in conditions:
        found = [[*before, one] for before in found for one in _comparisons(argument)]
    return found


def _comparisons(argument: Argument) -> list[dict[str, Any]]:
    match argument.test:
        case Compare.EQUAL:
            return [_compare(argument, "SCMP_CMP_EQ", value) for value in argument.values]
        case Compare.ANY_BIT:  # only as an exception: none of the bits
            mask = 0
            for value in argument.values:
                mask |= value
            return [_compare(argument, "SCMP_CMP_MASKED_EQ", mask, 0)]
        case Compare.NONE_OF:
            return [
                _compare(argument, "SCMP_CMP_MASKED_EQ", mask, value)
                for mask, value in _all_but(argument.values)
            ]


def _all_but(values: tuple[int, ...]) -> list[tuple[int, int]]:
    """Masks and values that together match every other number of 32 bits, and none of these.

    SCMP_CMP_NE compares 64 bits, of which the kernel uses 32: with a bit set above them a refused
    command would not be the refused value.
    """
    found: list[tuple[int, int]] = []
    prefixes = {0}
    for bit in reversed(range(32)):
        mask = 0xFFFFFFFF >> bit << bit
        below = {prefix | choice for prefix in prefixes for choice in (0, 1 << bit)}
        prefixes = {value & mask for value in values}
        found += [(mask, each) for each in sorted(below - prefixes)]
    return found


def _compare(argument: Argument, operator: str, value: int, second: int = 0) -> dict[str, Any]:
    return {"index": argument.index, "value": value, "valueTwo": second, "op": operator}
