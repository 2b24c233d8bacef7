"""What a kind of request is: a frozen record of all that tells it from others.

`exchange` runs every kind in the same steps and asks its kind what is particular at each. A kind
decides, words and describes; it opens, sends and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, ClassVar, Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred

from broker.config.settings import BrokerConfig
from broker.credentials.providers.credential import Credential, CredentialRequest
from broker.errors import Unavailable
from broker.exchange.refusals import Reply
from broker.sessions.admission import Admission
from broker.sessions.running import Permit
from broker.sessions.sessions import Session
from broker.upstream.limiters import Limiter, Unlimited, UpstreamLimiters
from broker.upstream.route import Route
from broker.upstream.routes import Routes, Server
from gitmoat.audit.events import Event
from gitmoat.net.causes import Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.http.ends import Clock, Incoming
from gitmoat.net.relay import Outcome
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.net.tunnel_relay import Ended
from gitmoat.wire.http.heads import RequestHead, ResponseHead
from netpolicy.policy import Policy

# A client gets its answer early and goes on sending: what it sends is dropped, however much it is,
# until the connection's drain time is over.
DROP = 1 << 48


class State(Enum):
    """Where an exchange is. From all but OVER it can be CUT, and then only ends."""

    DECIDING = auto()
    RECORDING = auto()  # allowed: that it is, before anything follows from it
    CONNECTING = auto()
    JOINED = auto()  # both ends are there, and bytes move
    CUT = auto()
    OVER = auto()


@frozen
class Allow:
    """`private`: also at an address that is not public."""

    rule: str
    private: bool = False


@frozen
class Deny:
    """`reason` is for the audit, what else there is for the client.

    `retry`: seconds after which asking again makes sense. `refs`: of a push, why each was refused.
    """

    code: str
    reason: str = ""
    rule: str = ""
    retry: int = 0
    more: str = ""
    hint: str = ""  # a line of its own
    refs: str | Mapping[str, str] | None = None
    slows_down: bool = False  # asking again changes nothing, and is answered later each time
    close: bool = False


@frozen
class Answered:
    """It is ours to answer, and allowed to everybody whom the session serves."""

    reply: Reply


@frozen
class Need:
    """What its body begins with decides: see `Kind.prefix`."""


Verdict = Allow | Deny | Answered | Need


class Prefix(Protocol):
    """Reads the beginning of a body; a result is the last call."""

    def feed(self, data: bytes) -> Any | None: ...
    def finish(self) -> Any | None: ...

    @property
    def leftover(self) -> bytes:
        """What came behind it."""


@frozen
class End:
    """What became of what was allowed. `tell`: the client has heard nothing of it yet.

    `denied`: its end is a refusal of its own, and recorded as one. `lost`: the server took the
    request and gave no answer.
    """

    code: str | None = None
    reason: str = ""
    up: int = 0
    down: int = 0
    tell: Deny | None = None
    denied: Deny | None = None
    lost: bool = False
    hangs_up: bool = False


@frozen(eq=False)
class Joint:
    """Both ends of an exchange, and what its transfer needs besides."""

    clock: Clock
    now: Callable[[], float]
    incoming: Incoming
    far: ClientConnection | TunnelEnd
    route: Route
    session: Session
    policy: Policy
    minimum_rate: int
    credential: Credential | None
    prefix: Prefix | None
    answer: Callable[[ResponseHead], None]  # to be told of the far end's


class Transfer(Protocol):
    """Moves the bytes of one exchange, and owns both of its ends."""

    def start(self) -> Deferred[Any]:
        """With a canceller that cuts both ends."""

    def cut(self, why: Why) -> None: ...


@frozen(eq=False, kw_only=True)
class Kind:
    """One request. Every kind is a subclass, and says what is not as it is here."""

    name: ClassVar[str]
    request_id: str
    head: RequestHead = field(repr=False)
    server: Server | None = None  # which git server it is for, whose credential it needs

    counts: ClassVar[bool] = False  # as a git request of the session
    limits_first: ClassVar[bool] = False  # before the decision: a refusal counts too
    queued: ClassVar[bool] = False  # waits until it is its sandbox's turn
    synced_beside: ClassVar[bool] = False  # its record waits for the disk; else the broker does
    encloses: ClassVar[State] = State.RECORDING  # from here on its outcome is told
    tunnelled: ClassVar[bool] = False  # no HTTP is spoken with the far end

    @property
    def repeatable(self) -> bool:
        return False

    # Deciding

    @classmethod
    def classify(cls, head: RequestHead, routes: Routes, policy: Policy) -> Kind | Reply | None:
        """None for a request of another kind; a Reply to what no policy could allow."""
        raise NotImplementedError

    def decide(self, policy: Policy, routes: Routes) -> Verdict:
        raise NotImplementedError

    def deciding(self, policy: Policy, routes: Routes) -> Iterator[Verdict | None]:
        """`decide` in steps that are short: None for each but the last."""
        yield self.decide(policy, routes)

    def rescope(self, before: Policy, after: Policy, allowed: Allow | None, routes: Routes) -> str:
        """The code to be cut with when another policy does not allow it; "" when it does."""
        verdict = self.decide(after, routes)
        return verdict.code if isinstance(verdict, Deny) else ""

    def prefix(self, policy: Policy) -> Prefix | None:
        """What reads the beginning of its body, where that decides."""
        return None

    def read(self, prefix: Prefix, found: Any) -> Kind:
        """The same request, with what its prefix has found."""
        raise NotImplementedError

    def at_once(self) -> Deny | Answered | None:
        """What its prefix comes to by itself, whatever is allowed."""
        return None

    # Limits

    def seconds(self, config: BrokerConfig) -> float | None:
        """How long all of it may take."""
        return None

    def enter(self, session: Session, admission: Admission, now: float, rule: str) -> Deny | float:
        """Seconds to wait before it goes on, when the session has room for it; then `leave` must
        follow."""
        return 0.0

    def leave(self, session: Session) -> None:
        """It is over."""

    def limiter(self, every: UpstreamLimiters, session: Session) -> Limiter:
        return Unlimited()

    # What is told and recorded

    def refuse(self, deny: Deny, policy: Policy, braked: bool) -> Reply:
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, str] | None:
        """Its operation and tier, for the metrics."""
        return None

    def record_allowed(self, session: Session, allow: Allow, now: float) -> Event | None:
        """None when that is on record; JournalUnavailable when the session has to wait for it."""
        raise NotImplementedError

    def recorded(self, session: Session) -> None:
        """It is on record."""

    def record_denied(self, session: Session, deny: Deny, now: float) -> Event | None:
        """None when there are too many: then only their number is recorded."""
        raise NotImplementedError

    def record_end(self, session: Session, end: End, seconds: float) -> Event | None:
        raise NotImplementedError

    # The far end

    def credential_request(self, permit: Permit, policy: Policy) -> CredentialRequest:
        raise NotImplementedError

    def route(self, routes: Routes, policy: Policy, allow: Allow) -> Route:
        raise NotImplementedError

    def join(self, joint: Joint) -> Transfer | Deny:
        raise NotImplementedError

    def leaves_clean(self, outcome: Outcome | Ended) -> bool:
        """Whether the connection may serve the next request."""
        return False

    def unavailable(self, error: Unavailable) -> End:
        """There is no credential, or no connection."""
        return End(error.code, error.why, tell=Deny(error.code))

    def end(self, outcome: Outcome | Ended) -> End:
        raise NotImplementedError
