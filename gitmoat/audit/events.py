"""What can be written to the journal: a closed set of events, each with a fixed set of keys."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, Literal

import attrs
from attrs import frozen

from gitmoat.audit.texts import digest, is_whole, name, plain

Decision = Literal["allow", "deny"]
Value = str | int | bool | list[dict[str, str]] | dict[str, str]

REFS_LIMIT = 10_000  # the most that a policy allows in one push
# The order they are written in. `tier`, `name`, `to`, `count`, `reason`, `reported`, `sha256` and
# what a sandbox is known by (`container` to `epoch`) are additions to the published keys; v, ts,
# seq, host, event and prev are the journal's own.
KEYS = (
    "sandbox", "session", "name", "container", "pid", "started", "netns", "cgroup", "epoch",
    "decision", "op", "tier", "repo", "refs", "to", "rule", "code",
    "peer_uid", "bytes_up", "bytes_down", "ms", "count", "req", "reason", "reported", "sha256",
)  # fmt: skip
_WORDS = ("reason",)  # every other text is a name


@frozen
class RefChange:
    """One line of a push: a ref from `old` to `new` object id."""

    ref: str
    old: str
    new: str

    def fields(self) -> dict[str, str]:
        shown = name(self.ref)
        found = {"ref": shown, "old": plain(self.old, 64), "new": plain(self.new, 64)}
        return found if is_whole(self.ref, shown) else found | {"sha256": digest(self.ref)}


class Claim(Enum):
    """What of the disk space that is kept an event may use when the rest is full."""

    NOTHING = "nothing"
    SHARE = "the share of its sandbox"
    OWN = "what no sandbox can use up"


@frozen(kw_only=True)
class Event:
    """One thing that happened. Only the subclasses of this module are recorded."""

    event: ClassVar[str]
    verdict: ClassVar[Decision | None] = None  # where the event itself says it
    reported: ClassVar[bool] = False  # told by a sidecar, not seen by the writer itself
    kept: ClassVar[Claim] = Claim.NOTHING

    @property
    def claim(self) -> Claim:
        return self.kept

    @property
    def payer(self) -> str:
        """Whose share it uses."""
        return str(getattr(self, "sandbox", ""))

    def fields(self) -> dict[str, Value]:
        """What is known, by audit key, in the order it is written; texts made plain."""
        known: dict[str, Value] = {}
        hashes: dict[str, str] = {}
        kind = type(self)
        shape = _shapes.get(kind) or _shapes.setdefault(kind, _shape_of(kind))
        for key, made_plain, value in zip(shape.keys, shape.texts, shape.values(self), strict=True):
            if isinstance(value, str):
                known[key] = shown = made_plain(value)
                if shown is not value and not is_whole(value, shown):
                    hashes[key] = digest(value)
            elif isinstance(value, int):
                known[key] = value
            elif isinstance(value, tuple):
                known[key] = _shown(value)
            elif value is not None:
                raise TypeError("an event holds text, numbers and ref changes only")
        return known | {"sha256": hashes} if hashes else known


@frozen
class _Shape:
    """The keys that events of a kind can have, how text under each is written, and the values."""

    keys: tuple[str, ...]
    texts: tuple[Callable[[str], str], ...]
    values: Callable[[Event], tuple[Any, ...]]


_shapes: dict[type[Event], _Shape] = {}


def _shape_of(kind: type[Event]) -> _Shape:
    names = {each.name: each.name for each in attrs.fields(kind)}
    if kind.verdict is not None:
        names.setdefault("decision", "verdict")
    if kind.reported:
        names["reported"] = "reported"
    keys = tuple(key for key in KEYS if key in names)
    texts = tuple(plain if key in _WORDS else name for key in keys)
    return _Shape(keys, texts, _getter([names[key] for key in keys]))


def _getter(attributes: list[str]) -> Callable[[Event], tuple[Any, ...]]:
    found = attrgetter(*attributes)
    # attrgetter makes a tuple of two or more only.
    return found if len(attributes) > 1 else lambda event: (found(event),)


def _shown(refs: tuple[RefChange, ...]) -> list[dict[str, str]]:
    changes = [change.fields() for change in refs[:REFS_LIMIT]]
    rest = len(refs) - REFS_LIMIT
    return [*changes, {"ref": f"and {rest} more"}] if rest > 0 else changes


def _of_git(decision: Decision) -> Claim:
    return Claim.SHARE if decision == "allow" else Claim.NOTHING


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

    @property
    def claim(self) -> Claim:
        return _of_git(self.decision)


@frozen(kw_only=True)
class PushDecision(Event):
    """May this session make these changes to these refs?"""

    event = "push.decision"
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

    @property
    def claim(self) -> Claim:
        return _of_git(self.decision)


@frozen(kw_only=True)
class GitOutcome(Event):
    """How an allowed operation ended; without `code` it went well."""

    event = "git.outcome"
    kept = Claim.SHARE
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
    kept = Claim.OWN
    sandbox: str
    session: str
    name: str | None = None


@frozen(kw_only=True)
class GrantRegistered(Event):
    """The broker took a grant, still closed."""

    event = "grant.registered"
    kept = Claim.OWN
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
    kept = Claim.OWN
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
    kept = Claim.OWN
    session: str
    reason: str
    sandbox: str | None = None
    peer_uid: int | None = None


@frozen(kw_only=True)
class SessionEnded(Event):
    """A session ended by itself: its time was up, or it was silent too long."""

    event = "session.ended"
    kept = Claim.OWN
    sandbox: str
    session: str
    reason: str


@frozen(kw_only=True)
class SessionRenewed(Event):
    """The owner let a sandbox go on; `reason` says for how long, and after which end.

    Without `session` its last one has ended, and the sandbox may be granted another.
    """

    event = "session.renewed"
    kept = Claim.OWN
    sandbox: str
    reason: str
    session: str | None = None


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
    kept = Claim.OWN
    sandbox: str
    session: str
    name: str


@frozen(kw_only=True)
class CredentialStored(Event):
    """An upstream credential was added or replaced; its name, never its value."""

    event = "credential.stored"
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
class SandboxStopped(Event):
    """A sandbox has ended; its files are kept."""

    event = "sandbox.stopped"
    kept = Claim.OWN
    sandbox: str
    name: str | None = None
    reason: str


@frozen(kw_only=True)
class SandboxRemoved(Event):
    """A sandbox is gone."""

    event = "sandbox.removed"
    kept = Claim.OWN
    sandbox: str
    name: str | None = None
    reason: str | None = None


# They take something away.
_KEPT_OPERATIONS = ("freeze", "cred-rm")
# A push needs it, and whoever asks for the push has it run: so there is one share for all runs.
_HELPER = "credential helper"


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

    @property
    def claim(self) -> Claim:
        if self.op.startswith("git ") or self.op == _HELPER:
            return Claim.SHARE
        return Claim.OWN if self.op in _KEPT_OPERATIONS else Claim.NOTHING

    @property
    def payer(self) -> str:
        return _HELPER if self.op == _HELPER else self.sandbox or ""


@frozen(kw_only=True)
class ConfigLoaded(Event):
    """A configuration is in force."""

    event = "config.loaded"
    kept = Claim.OWN
    reason: str | None = None


@frozen(kw_only=True)
class DaemonStarted(Event):
    """The writer of this journal started."""

    event = "daemon.started"
    kept = Claim.OWN
    name: str
    reason: str | None = None


@frozen(kw_only=True)
class DaemonStopped(Event):
    """The writer of this journal stopped in good order."""

    event = "daemon.stopped"
    kept = Claim.OWN
    name: str
    reason: str | None = None


@frozen(kw_only=True)
class JournalRepaired(Event):
    """A last line that was never finished was cut off."""

    event = "journal.repaired"
    kept = Claim.OWN
    reason: str


@frozen(kw_only=True)
class JournalPruned(Event):
    """The oldest parts of this journal were removed: all records up to number `count`."""

    event = "journal.pruned"
    kept = Claim.OWN
    count: int


@frozen(kw_only=True)
class RecordsDropped(Event):
    """So many records before this one were not written: the disk was full."""

    event = "journal.dropped"
    kept = Claim.OWN
    count: int
