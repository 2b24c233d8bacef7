"""What every operation needs, made once by the service."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from audit.journal import Journal
from broker.admission import Admission
from broker.authority import Grants
from broker.dialling import Dialler
from broker.governors import UpstreamLimiters
from broker.kind import Kind
from broker.metrics import Metrics
from broker.recording import Recorder
from broker.routes import CurrentRoutes
from broker.sessions import Sessions
from broker.upstream import Upstreams
from streams.hangups import Hangups
from streams.http import Clock


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
