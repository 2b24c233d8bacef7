"""What a kind of request is: all that is decided about one, as data and pure functions.

`exchange` runs any of them. A kind is added by its record alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import define, frozen

from gitmoat.messages.report import Report
from gitmoat.net.causes import Cause
from gitmoat.wire.hostname import HostName
from gitmoat.wire.http.heads import Headers, RequestHead, ResponseHead
from netpolicy.policy import Policy, Tier
from netpolicy.upstreams import UpstreamTable
from sidecar.credential.tokens import ScopedRepository
from sidecar.link.connection_pool import Share

Asked = TypeVar("Asked")
Going = TypeVar("Going")
Accepts = Callable[[ScopedRepository, bytes], bool]


def accepts_none(repository: ScopedRepository, token: bytes) -> bool:
    return False


@define(eq=False)
class Scope:
    """What is allowed now; another policy replaces `policy` whole. `accepts` says whether a token
    is good for a repository."""

    policy: Policy
    upstreams: UpstreamTable
    accepts: Accepts = accepts_none


@frozen
class Source:
    """Where a request came in: the name of its listener, and the only uid that nftables lets
    through to that. `host` is what a synthetic address stands for."""

    listener: str
    tier: Tier
    uid: int
    host: HostName | None = None


@frozen
class Stream:
    """One request and one answer, passed on as they come. So much of a body is kept until there is
    an answer, to be sent again; None: nothing is."""

    keep: int | None = None


@frozen
class Allow(Generic[Going]):
    """It goes to the broker, which decides again."""

    going: Going


@frozen
class Deny:
    """It is answered here. `subject` is the repository or host, None where none was understood."""

    code: str
    status: int = 0
    subject: str | None = None
    close: bool = False
    # What the broker refuses or fails to do, it has recorded itself; no answer to that is delayed.
    ours: bool = True
    retry_after: int = 0


@frozen
class Challenge:
    """It is asked for a token. `presented`: one was shown, and it is wrong or has ended."""

    subject: str
    presented: bool


@frozen
class Joined(Generic[Going]):
    """Octets both ways, until one end says its end. `opening` takes what the client says first,
    and is Malformed for what may not go on, which is then `not_opened`."""

    opening: Callable[[Going], Callable[[bytes], bytes | None]]
    not_opened: Deny
    idle: Callable[[Policy], float]


@frozen
class Answered:
    """The head that the client gets for the broker's, rebuilt."""

    status: int
    headers: Headers
    close: bool = False


@frozen
class Reply:
    """The whole of an answer that is made here; `reason` stands in its status line."""

    status: int
    headers: Headers
    body: bytes
    close: bool = False
    reason: bytes | None = None


@frozen
class Told:
    """What an answer that is made here says besides its code. `braked`: so much was refused
    lately that answers are delayed."""

    request_id: str
    policy: Policy
    tier: Tier
    braked: bool = False


Decision = Allow[Going] | Deny | Challenge


@frozen
class Kind(Generic[Asked, Going]):
    """One kind of request; every function is pure.

    `classify` gives None for what is of another kind, Deny for what is of this one and
    misunderstood. `tries`: how many in all, after one that came to nothing for this cause.
    """

    name: str
    listeners: frozenset[str]
    tiers: frozenset[Tier]
    body: Stream | Joined[Going]
    share: Callable[[Tier], Share]
    classify: Callable[[RequestHead, Source], Asked | Deny | None]
    decide: Callable[[Asked, Source, Scope], Decision[Going]]
    # The first request of an operation; the others are those that follow from it.
    opens: Callable[[Asked], bool]
    head: Callable[[Going, Source, str, RequestHead | None], bytes | Deny]
    answer: Callable[[Going, Source, ResponseHead], Answered | Deny]
    tries: Callable[[Going, Cause], int]
    refuse: Callable[[Deny | Challenge, Told], Reply]
    report: Callable[[Deny | Challenge, Source, str | None], Report]
    subject: Callable[[Going], str | None]  # of what is refused once it was allowed
    too_often: Deny
    unreachable: Deny
    malformed: Deny  # a head that could not be read, or is of no kind
    queues: bool  # for a link, where all that this kind may hold are in use
    # Decided again when the policy changes: it has no end of its own, or none soon.
    lasts: bool


AnyKind = Kind[Any, Any]
