"""Things that run for a session, and remember how they were cut."""

from __future__ import annotations

from attrs import define, field

from broker.sessions.running import Entry, Running
from netpolicy.policy import Policy


@define(eq=False)
class FakeTask:
    """`allowed` is what another policy says of it; `broken`: it fails at everything."""

    name: str = "fake"
    busy: bool = True
    awaited: bool = True
    allowed: bool = True
    broken: bool = False
    cuts: list[str] = field(factory=list)

    def rescope(self, policy: Policy) -> str | None:
        if self.broken:
            raise ValueError("a fault")
        return None if self.allowed else "G101"

    def cut(self, code: str) -> None:
        self.cuts.append(code)
        if self.broken:
            raise ValueError("a fault")


def an_entry(session: str = "s") -> Entry:
    return Running(session).enter(FakeTask())
