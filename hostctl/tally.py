"""What a sandbox did, summed up from the records of it; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from attrs import define, field

from hostctl.journals import Record

# What the owner or the host did to it, and what of a record tells about that.
_DONE = {
    "sandbox.created": "started",
    "sandbox.stopped": "stopped",
    "sandbox.removed": "removed",
    "session.activated": "session begun",
    "session.revoked": "session revoked",
    "session.ended": "session ended",
    "session.renewed": "session renewed",
    "policy.replaced": "policy replaced",
}


@define
class Traffic:
    """`count`: requests, or connections."""

    count: int = 0
    sent: int = 0
    received: int = 0

    def add(self, event: Record, count: int = 1) -> None:
        self.count += count
        self.sent += _number(event.get("bytes_up"))
        self.received += _number(event.get("bytes_down"))


@define
class Push:
    """One ref of one push; `outcome` is empty when the server took the push."""

    ts: str
    repo: str
    ref: str
    old: str
    new: str
    outcome: str = "not finished"


@define(eq=False)
class Tally:
    """Records are taken in the order of their time."""

    first: str = ""
    last: str = ""
    pushes: list[Push] = field(factory=list)
    fetched: dict[str, Traffic] = field(factory=dict)
    hosts: dict[str, Traffic] = field(factory=dict)
    refused: Counter[tuple[str, str]] = field(factory=Counter)
    done: list[tuple[str, str]] = field(factory=list)
    _open: dict[object, list[Push]] = field(factory=dict, init=False)

    def take_all(self, events: Iterable[Record]) -> None:
        for event in events:
            moment = str(event.get("ts", ""))
            self.first, self.last = self.first or moment, moment
            self._take(event)

    def _take(self, event: Record) -> None:
        match event.get("event"):
            case "push.decision" if event.get("decision") == "allow":
                self._pushed(event)
            case "git.outcome":
                self._outcome(event)
            case "egress.used":
                count = _number(event.get("count"))
                self.hosts.setdefault(str(event.get("to")), Traffic()).add(event, count)
            case "admin.operation":
                self._did(event, str(event.get("op")))
            case str(name) if name in _DONE:
                self._did(event, _DONE[name])
            case _ if event.get("decision") == "deny" or event.get("event") == "denials.summarised":
                self._refused(event)

    def _pushed(self, event: Record) -> None:
        refs = event.get("refs")
        changes = (
            [ref for ref in refs if isinstance(ref, Mapping)] if isinstance(refs, list) else []
        )
        pushes = [
            Push(
                str(event.get("ts", "")),
                str(event.get("repo")),
                str(change.get("ref")),
                str(change.get("old")),
                str(change.get("new")),
            )
            for change in changes
        ]
        self.pushes += pushes
        self._open[event.get("req")] = pushes

    def _outcome(self, event: Record) -> None:
        for push in self._open.pop(event.get("req"), []):
            push.outcome = str(event.get("code") or "")
        if event.get("op") != "push":
            self.fetched.setdefault(str(event.get("repo")), Traffic()).add(event)

    def _refused(self, event: Record) -> None:
        what = str(event.get("repo") or event.get("to") or "")
        refs = event.get("refs")
        if isinstance(refs, list) and refs and isinstance(refs[0], Mapping):
            what += f" {refs[0].get('ref')}"
        self.refused[str(event.get("code")), what] += max(1, _number(event.get("count")))

    def _did(self, event: Record, what: str) -> None:
        reason = event.get("reason")
        said = f"{what} ({reason})" if reason else what
        self.done.append((str(event.get("ts", "")), said))

    def to_json(self) -> dict[str, object]:
        return {
            "first": self.first,
            "last": self.last,
            "pushes": [_fields(push) for push in self.pushes],
            "fetched": {repo: _fields(each) for repo, each in self.fetched.items()},
            "hosts": {host: _fields(each) for host, each in self.hosts.items()},
            "refused": [
                {"code": code, "what": what, "count": count}
                for (code, what), count in self.refused.most_common()
            ],
            "done": [{"ts": moment, "what": what} for moment, what in self.done],
        }


def _fields(one: Push | Traffic) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__slots__ if name != "__weakref__"}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
