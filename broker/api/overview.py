"""The broker at a glance: for `hostctl ls --watch`, for `status`, and as numbers for metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from broker.api.metrics import (
    CONNECTIONS,
    JOURNAL_RECORDS,
    JOURNAL_WORKS,
    RUNNING,
    SESSIONS,
    SLOWED,
    UPSTREAM_OK,
    WAITING,
    Family,
    Sample,
)
from broker.context import Context
from broker.sessions.sessions import Session
from broker.sessions.store.interface import State


def session_row(context: Context, session: Session) -> dict[str, Any]:
    """What one session does. Counts only grow: a rate is the difference of two."""
    stored, now = session.stored, context.now()
    return {
        "session": stored.id,
        "sandbox": stored.sandbox,
        "name": stored.name,
        "host": stored.host,
        "state": stored.state.value,
        "streams": session.budget.running,
        "requests": session.requests,
        "bytes": session.bytes.used,
        "bytes_left": session.bytes.left,
        "denied": session.brake.total,
        "slowed": session.brake.holds(now),
        "idle": int(now - session.used),
        "began": stored.issued,
        "expires": int(time.time() + stored.deadline - now),
    }


def upstream_states(context: Context) -> dict[str, str]:
    """`ok`, `resting` because it asked for that, or `failing`."""
    found = {}
    for name, server in sorted(context.routes.now.by_upstream.items()):
        if context.limiters.breaker(server).open:
            found[name] = "failing"
        else:
            found[name] = "resting" if context.limiters.resting(server) else "ok"
    return found


def problems(context: Context) -> list[str]:
    """Why the broker is not healthy; empty when it is."""
    found = context.journal.problem()
    return [] if found is None else [found]


def samples(context: Context, connections: int) -> Iterator[Sample]:
    states = Counter(one.state.value for one in context.sessions.everyone())
    slowed = sum(one.brake.holds(context.now()) for one in context.sessions.living())
    yield Sample(SESSIONS, tuple(((one.value,), float(states[one.value])) for one in State))
    yield _one(SLOWED, slowed)
    yield _one(RUNNING, context.admission.running)
    yield _one(WAITING, context.admission.waiting)
    yield _one(CONNECTIONS, connections)
    yield _one(JOURNAL_WORKS, not problems(context))
    yield _one(JOURNAL_RECORDS, context.journal.head()[0])
    up = tuple(((name,), float(state == "ok")) for name, state in upstream_states(context).items())
    yield Sample(UPSTREAM_OK, up)


def _one(family: Family, value: float) -> Sample:
    return Sample(family, (((), float(value)),))
