"""What every operation needs, made once by the service."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from broker.api.metrics import Metrics
from broker.exchange.kind import Kind
from broker.exchange.recording import Recorder
from broker.sessions.admission import Admission
from broker.sessions.grants import Grants
from broker.sessions.sessions import Sessions
from broker.upstream.dialler import Dialler
from broker.upstream.kept import Upstreams
from broker.upstream.limiters import UpstreamLimiters
from broker.upstream.routes import CurrentRoutes
from gitmoat.audit.journal import Journal
from gitmoat.net.hangups import Hangups
from gitmoat.net.http.ends import Clock


@frozen(eq=False)
class Context:
    clock: Clock
    now: Callable[[], float]  # the boot clock, in seconds
    routes: CurrentRoutes
    sessions: Sessions
    grants: Grants
    journal: Journal
    recorder: Recorder  # for what many wait for at a time
    dialler: Dialler
    upstreams: Upstreams
    admission: Admission
    limiters: UpstreamLimiters
    metrics: Metrics
    hangups: Hangups  # clients that leave while their requests wait
    kinds: tuple[type[Kind], ...]
