"""Answers to DNS questions, from the policy alone: nothing is ever asked of anybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field

from gitwire.dnsmessage import (
    FORMERR,
    NOERROR,
    NXDOMAIN,
    A,
    Question,
    answer,
    parse_query,
    refusal,
)
from gitwire.errors import Malformed
from gitwire.hostname import Destination, HostName, parse_host
from netpolicy.decision import Deny
from netpolicy.egress import decide_egress, ways_to
from sidecar.forwarding import Scope
from sidecar.synthetic import SyntheticAddresses

TTL: Final = 5
_CACHED: Final = 1024
_ANY_PORT: Final = 443


@define(eq=False)
class DnsAnswers:
    """`refused` is told a name that is not answered for, and why."""

    _scope: Scope
    _addresses: SyntheticAddresses
    _refused: Callable[[str | None, str], None]
    # The questions of a busy client are always the same; keys and values are without their ids.
    _cache: dict[bytes, bytes] = field(factory=dict, init=False)

    def reply(self, data: bytes) -> bytes | None:
        """The answer to one message; None when it deserves none."""
        known = self._cache.get(data[2:])
        if known is not None:
            return data[:2] + known
        try:
            question = parse_query(data)
        except Malformed:
            return refusal(data, FORMERR)
        made, lasting = self._answer(question)
        if lasting and len(self._cache) < _CACHED:
            self._cache[data[2:]] = made[2:]
        return made

    def forget(self) -> None:
        """The policy has changed."""
        self._cache.clear()

    def _answer(self, question: Question) -> tuple[bytes, bool]:
        """Whether it is the same the next time: a refusal is not, it is reported each time."""
        try:
            name = parse_host(question.name)
        except Malformed:
            self._refused(None, "E103")
            return answer(question, NXDOMAIN), False
        git_hosts = self._scope.upstreams.names
        if not ways_to(self._scope.policy, name, git_hosts):
            self._refused(name.text, self._why(name))
            return answer(question, NXDOMAIN), False
        if question.type != A:
            # An empty answer, so that clients go on with the address they get.
            return answer(question, NOERROR), True
        # Not kept: the table must hear that the name is still in use.
        return answer(question, NOERROR, self._addresses.address_of(name), TTL), False

    def _why(self, name: HostName) -> str:
        git_hosts = self._scope.upstreams.names
        to = Destination(name, _ANY_PORT)
        verdict = decide_egress(self._scope.policy, to, "tls", git_hosts)
        return verdict.code if isinstance(verdict, Deny) else "E101"
