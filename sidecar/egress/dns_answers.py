"""Answers to DNS questions, from the policy alone: nothing is ever asked of anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen

from gitmoat.wire.dns import (
    FORMERR,
    MAX_QUERY,
    NOERROR,
    NXDOMAIN,
    A,
    Question,
    answer,
    parse_query,
    refusal,
)
from gitmoat.wire.hostname import Destination, HostName, parse_host
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Deny
from netpolicy.egress_rules.egress_decision import decide_egress, ways_to
from sidecar.egress.synthetic import SyntheticAddresses
from sidecar.kind import Scope

TTL: Final = 5
_CACHED: Final = 1024
_ANY_PORT: Final = 443


Refused = tuple[str | None, str]


@frozen
class _Made:
    """An answer without its id; `refused` is counted each time it is given."""

    octets: bytes
    refused: Refused | None = None


@define(eq=False)
class DnsAnswers:
    """`refused` is told a name that is not answered for, why, and how often it was asked."""

    _scope: Scope
    _addresses: SyntheticAddresses
    _refused: Callable[[str | None, str, int], None]
    # Answers without their ids by questions without theirs: a busy client repeats its questions.
    _made: dict[bytes, _Made] = field(factory=dict, init=False)
    _counts: Counter[Refused] = field(factory=Counter, init=False)

    def __attrs_post_init__(self) -> None:
        # An address that was taken back must not be given out once more.
        self._addresses.on_taken_back = self.forget

    def reply(self, data: bytes) -> bytes | None:
        """The answer to one message; None when it deserves none."""
        if len(data) > MAX_QUERY:
            return None
        asked = data[2:]
        made = self._made.get(asked)
        if made is None:
            try:
                made = self._answer(parse_query(data))
            except Malformed:
                return refusal(data, FORMERR)
            if len(self._made) >= _CACHED:
                self._made.clear()
            self._made[asked] = made
        if made.refused is not None:
            self._counts[made.refused] += 1
        return data[:2] + made.octets

    def settle(self) -> None:
        """Report what was refused since the last time: a flood costs no report for each."""
        if self._counts:
            counts = self._counts.copy()
            self._counts.clear()
            for (name, code), count in counts.items():
                self._refused(name, code, count)

    def forget(self) -> None:
        """The policy or the table of addresses has changed."""
        self._made.clear()

    def _answer(self, question: Question) -> _Made:
        try:
            name = parse_host(question.name)
        except Malformed:
            return _Made(answer(question, NXDOMAIN)[2:], (None, "E103"))
        if not ways_to(self._scope.policy, name, self._scope.upstreams.names):
            return _Made(answer(question, NXDOMAIN)[2:], (name.text, self._why(name)))
        if question.type != A:
            # An empty answer, so that clients go on with the address they get.
            return _Made(answer(question, NOERROR)[2:])
        address = self._addresses.address_of(name)
        return _Made(answer(question, NOERROR, address, TTL)[2:])

    def _why(self, name: HostName) -> str:
        git_hosts = self._scope.upstreams.names
        to = Destination(name, _ANY_PORT)
        verdict = decide_egress(self._scope.policy, to, "tls", git_hosts)
        return verdict.code if isinstance(verdict, Deny) else "E101"
