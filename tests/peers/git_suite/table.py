"""What differs between git's suite against its own Apache and through us: known.toml, and why.

A difference that is not in the file fails, and so does one in the file that is not there any more.
Thus the number of tests that pass can only rise, and the file says it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field, frozen

from tests.peers.git_suite.scripts import Point

KNOWN = Path(__file__).with_name("known.toml")
# Why a test of git's fails through us; there are no other reasons.
REASONS = {
    "dumb": "the repository as plain files, without git's protocol, is refused by design",
    "webdav": "push by WebDAV is refused by design",
    "password": "the client's own password is not passed on: the broker has the credential",
    "redirect": "redirects are not passed on: a git server must answer at its own URL",
    "error": "an error is answered in our own words, with a code",
    "headers": "headers and cookies of the client and of the server are not passed on",
    "client": "what the test asks of the URL or the trace is that of a server without a hop",
    "files": "a file that belongs to no repository, as of a bundle or packfile URI, is refused",
    "after": "needs what an earlier test of the script would have left",
}


@frozen
class Difference:
    """`direct` and `through` are results, or `missing` where a script has no such test."""

    script: str
    number: int
    direct: str
    through: str
    name: str


@frozen
class Row:
    difference: Difference
    reason: str


@define(eq=False)
class Known:
    version: str
    passing: dict[str, int]
    rows: list[Row] = field(factory=list)

    @property
    def scripts(self) -> list[str]:
        return list(self.passing)

    def of(self, script: str) -> list[Row]:
        return [row for row in self.rows if row.difference.script == script]


def read(text: str) -> Known:
    """`[SCRIPT]`, how many pass through us, and a list per difference."""
    document = tomllib.loads(text)
    found = Known(document.pop("git"), {name: each["passing"] for name, each in document.items()})
    for script, each in document.items():
        for number, results, reason, name in each.get("differs", []):
            direct, through = results.split("/")
            if reason not in REASONS:
                raise ValueError(f"{script} {number}: {reason!r} is not one of the reasons")
            found.rows.append(Row(Difference(script, number, direct, through, name), reason))
    return found


def line(difference: Difference, reason: str) -> str:
    """As the file says it; JSON's strings and numbers are TOML's."""
    results = f"{difference.direct}/{difference.through}"
    words = (difference.number, results, reason, difference.name)
    return "[" + ", ".join(json.dumps(word) for word in words) + "]"


def differences(script: str, direct: Sequence[Point], through: Sequence[Point]) -> list[Difference]:
    """By number: a script that goes on after a failure keeps its numbers."""
    there, here = ({point.number: point for point in each} for each in (direct, through))
    found = []
    for number in sorted(there.keys() | here.keys()):
        one, other = there.get(number), here.get(number)
        direct_result = one.result if one else "missing"
        through_result = other.result if other else "missing"
        if direct_result != through_result:
            name = one.name if one else here[number].name
            found.append(Difference(script, number, direct_result, through_result, name))
    return found


def passing(points: Sequence[Point]) -> int:
    return sum(point.result == "passed" for point in points)


def verdict(listed: Known, script: str, found: Sequence[Difference], passed: int) -> list[str]:
    """What is wrong, in the words in which the file would say it; nothing if all is well."""
    reasons = {row.difference: row.reason for row in listed.of(script)}
    wrong = [
        f"differs, and is not listed: {line(each, '?')}" for each in found if each not in reasons
    ]
    gone = [each for each in reasons if each not in found]
    wrong += [f"does not differ any more as listed: {line(each, reasons[each])}" for each in gone]
    if passed != listed.passing[script]:
        wrong.append(f"{passed} pass, not {listed.passing[script]}")
    return wrong
