"""What can be written to the journal: a closed set of events, each with a fixed set of keys."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
from attrs import frozen

from audit.redaction import LONGEST, redacted

Decision = Literal["allow", "deny"]
Value = str | int | bool | list[dict[str, str]]

TEXT_LIMIT = 512
_REMEMBERED = 1024
_REMEMBERED_LENGTH = 128
REFS_LIMIT = 1000
# The order they are written in. `tier`, `name`, `to`, `count`, `reason`, `reported` and what a
# sandbox is known by (`container` to `epoch`) are additions to the published keys; v, ts, seq,
# host, event and prev are the journal's own.
KEYS = (
    "sandbox", "session", "name", "container", "pid", "started", "netns", "cgroup", "epoch",
    "decision", "op", "tier", "repo", "refs", "to", "rule", "code",
    "peer_uid", "bytes_up", "bytes_down", "ms", "count", "req", "reason", "reported",
)  # fmt: skip


def plain(text: str, limit: int = TEXT_LIMIT) -> str:
    """Text as one capped run of printable ASCII; everything else is escaped, `\\` too.

    What looks like a credential is left out, before anything is cut off.
    """
    if text in _plain_already and len(text) <= limit:
        return text
    clean = redacted(text[: limit + LONGEST])
    shown = clean[:limit].encode("unicode_escape").decode("ascii")
    shown = shown if len(clean) <= limit >= len(shown) else shown[:limit] + "..."
    if shown == text and len(text) <= _REMEMBERED_LENGTH:
        _remember(text)
    return shown


# Names of sessions, sandboxes and repositories come again and again. Nothing that was left out
# or escaped is kept here.
_plain_already: set[str] = set()


def _remember(text: str) -> None:
    if len(_plain_already) >= _REMEMBERED:
        _plain_already.clear()
    _plain_already.add(text)


@frozen
class RefChange:
    """One line of a push: a ref from `old` to `new` object id."""

    ref: str
    old: str
    new: str

    def fields(self) -> dict[str, str]:
        return {"ref": plain(self.ref), "old": plain(self.old, 64), "new": plain(self.new, 64)}


@frozen(kw_only=True)
class Event:
    """One thing that happened. Only the subclasses of this module are recorded."""

    event: ClassVar[str]
    verdict: ClassVar[Decision | None] = None  # where the event itself says it
    reported: ClassVar[bool] = False  # told by a sidecar, not seen by the writer itself
    reserved: ClassVar[bool] = False  # disk space is kept for it

    def fields(self) -> dict[str, Value]:
        """What is known, by audit key; texts made plain."""
        kind = type(self)
        names = _names.get(kind) or _names.setdefault(kind, _names_of(kind))
        shown: dict[str, Value] = {}
        for key, name in names:
            value = getattr(self, name)
            if value is not None:
                shown[key] = plain(value) if type(value) is str else _shown(value)
        return shown


# The keys that events of a kind can have, each with the attribute that holds it.
_names: dict[type[Event], tuple[tuple[str, str], ...]] = {}


def _names_of(kind: type[Event]) -> tuple[tuple[str, str], ...]:
    names = {each.name: each.name for each in attrs.fields(kind)}
    if kind.verdict is not None:
        names.setdefault("decision", "verdict")
    if kind.reported:
        names["reported"] = "reported"
    return tuple((key, names[key]) for key in KEYS if key in names)


def _shown(value: object) -> Value:
    match value:
        case str():
            return plain(value)
        case bool() | int():
            return value
        case tuple():
            changes = [change.fields() for change in value[:REFS_LIMIT]]
            rest = len(value) - REFS_LIMIT
            return [*changes, {"ref": f"and {rest} more"}] if rest > 0 else changes
        case _:
            raise TypeError("an event holds text, numbers and ref changes only")


@frozen(kw_only=True)
class GitDecision(Event):
    """May this session see, or fetch from, this repository?"""

    event = "git.decision"
    sandbox: str
    session: str
    decision: Decision
    op: str
    tier: str
    repo: str
    rule: str | None = None
    code: str | None = None
    req: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class PushDecision(Event):
    """May this session make these changes to these refs?"""

    event = "push.decision"
    reserved = True
    sandbox: str
    session: str
    decision: Decision
    tier: str
    repo: str
    refs: tuple[RefChange, ...]
    op: str = "push"
    rule: str | None = None
    code: str | None = None
    req: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class GitOutcome(Event):
    """How an allowed operation ended; without `code` it went well."""

    event = "git.outcome"
    sandbox: str
    session: str
    op: str
    repo: str
    bytes_up: int
    bytes_down: int
    ms: int
    code: str | None = None
    req: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class DenialsSummarised(Event):
    """So many refusals of one kind, since the last such record, got none of their own."""

    event = "denials.summarised"
    verdict = "deny"
    sandbox: str
    session: str
    code: str
    count: int


@frozen(kw_only=True)
class GrantIssued(Event):
    """A host signed a grant."""

    event = "grant.issued"
    reserved = True
    sandbox: str
    session: str
    name: str | None = None


@frozen(kw_only=True)
class GrantRegistered(Event):
    """The broker took a grant, still closed."""

    event = "grant.registered"
    reserved = True
    verdict = "allow"
    sandbox: str
    session: str
    name: str | None = None


@frozen(kw_only=True)
class GrantRefused(Event):
    """The broker did not take a grant."""

    event = "grant.refused"
    verdict = "deny"
    code: str
    reason: str
    sandbox: str | None = None
    session: str | None = None


@frozen(kw_only=True)
class SessionActivated(Event):
    """A session may be used from here on, by exactly this: what its later events are of."""

    event = "session.activated"
    reserved = True
    verdict = "allow"
    sandbox: str
    session: str
    container: str | None = None
    pid: int | None = None
    started: str | None = None
    netns: int
    cgroup: int | None = None
    epoch: int


@frozen(kw_only=True)
class SessionRevoked(Event):
    """Somebody ended a session."""

    event = "session.revoked"
    reserved = True
    session: str
    reason: str
    sandbox: str | None = None
    peer_uid: int | None = None


@frozen(kw_only=True)
class SessionEnded(Event):
    """A session ended by itself: its time was up, or it was silent too long."""

    event = "session.ended"
    reserved = True
    sandbox: str
    session: str
    reason: str


@frozen(kw_only=True)
class SessionExtended(Event):
    """A session's hard end was moved; `reason` says to how long from now."""

    event = "session.extended"
    sandbox: str
    session: str
    reason: str


@frozen(kw_only=True)
class PeerRefused(Event):
    """Somebody connected to a socket that is not for them."""

    event = "peer.refused"
    verdict = "deny"
    code: str
    peer_uid: int | None = None
    op: str | None = None
    sandbox: str | None = None
    session: str | None = None


@frozen(kw_only=True)
class PeerRefusedReported(PeerRefused):
    """The same, told by a sidecar; `count` of them where it put several together."""

    reported = True
    count: int | None = None


@frozen(kw_only=True)
class CredentialGranted(Event):
    """A sidecar says it gave a request token to the helper."""

    event = "credential.granted"
    verdict = "allow"
    reported = True
    sandbox: str
    session: str
    repo: str
    peer_uid: int | None = None
    count: int | None = None


@frozen(kw_only=True)
class CredentialRefused(Event):
    """A sidecar says it refused one."""

    event = "credential.refused"
    verdict = "deny"
    reported = True
    sandbox: str
    session: str
    code: str
    repo: str | None = None
    peer_uid: int | None = None
    count: int | None = None


@frozen(kw_only=True)
class GitRefusedReported(Event):
    """A sidecar says it refused a git request."""

    event = "git.decision"
    verdict = "deny"
    reported = True
    sandbox: str
    session: str
    code: str
    repo: str | None = None
    peer_uid: int | None = None
    req: str | None = None
    count: int | None = None


@frozen(kw_only=True)
class EgressDecision(Event):
    """May this session reach this host? Of those that are allowed, the first time only."""

    event = "egress.decision"
    sandbox: str
    session: str
    decision: Decision
    op: str
    to: str
    rule: str | None = None
    code: str | None = None
    req: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class EgressUsed(Event):
    """What a session has moved to and from one host since the last such record."""

    event = "egress.used"
    sandbox: str
    session: str
    to: str
    count: int
    bytes_up: int
    bytes_down: int


@frozen(kw_only=True)
class EgressRefusedReported(Event):
    """A sidecar says it refused a connection, a request or a DNS question."""

    event = "egress.decision"
    verdict = "deny"
    reported = True
    sandbox: str
    session: str
    code: str
    op: str
    to: str | None = None
    peer_uid: int | None = None
    req: str | None = None
    count: int | None = None


@frozen(kw_only=True)
class PolicyReplaced(Event):
    """A running sandbox got another policy; what it does not allow is cut now."""

    event = "policy.replaced"
    sandbox: str
    session: str
    name: str


@frozen(kw_only=True)
class CredentialStored(Event):
    """An upstream credential was added or replaced; its name, never its value."""

    event = "credential.stored"
    reserved = True
    name: str
    peer_uid: int | None = None


@frozen(kw_only=True)
class SandboxCreated(Event):
    """A sandbox exists."""

    event = "sandbox.created"
    sandbox: str
    name: str
    session: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class SandboxRemoved(Event):
    """A sandbox is gone."""

    event = "sandbox.removed"
    reserved = True
    sandbox: str
    name: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class AdminOperation(Event):
    """Somebody asked for something on a control socket."""

    event = "admin.operation"
    op: str
    decision: Decision
    peer_uid: int
    sandbox: str | None = None
    repo: str | None = None
    code: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class ConfigLoaded(Event):
    """A configuration is in force."""

    event = "config.loaded"
    reason: str | None = None


@frozen(kw_only=True)
class DaemonStarted(Event):
    """The writer of this journal started."""

    event = "daemon.started"
    name: str
    reason: str | None = None


@frozen(kw_only=True)
class DaemonStopped(Event):
    """The writer of this journal stopped in good order."""

    event = "daemon.stopped"
    reserved = True
    name: str
    reason: str | None = None


@frozen(kw_only=True)
class JournalRepaired(Event):
    """A last line that was never finished was cut off."""

    event = "journal.repaired"
    reserved = True
    reason: str


@frozen(kw_only=True)
class JournalPruned(Event):
    """The oldest parts of this journal were removed: all records up to number `count`."""

    event = "journal.pruned"
    reserved = True
    count: int
