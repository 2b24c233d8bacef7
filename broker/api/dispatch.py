"""Every request the broker answers, in one table: who may ask it, and what answers it.

The key of the TLS connection says who asks. It is looked up again for every request, so that a
session that ended, or a host that was removed, ends with its next request at the latest.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from broker.api import host_operations as host
from broker.api import session_operations as session
from broker.api.guard import send
from broker.context import Context
from broker.exchange.exchange import serve
from broker.exchange.refusals import json_reply
from broker.sessions.sessions import Session
from gitmoat.net.http.ends import Incoming


@frozen
class HostOperation:
    """Only with the key of an enrolled host."""

    run: Callable[[Context, host.Host, Incoming, host.Answer], None]


@frozen
class SessionOperation:
    """Only with the key of a session."""

    run: Callable[[Context, Session, Incoming], None]


TABLE: dict[tuple[bytes, bytes], HostOperation | SessionOperation] = {
    (b"POST", b"/host/grant"): HostOperation(host.grant),
    (b"POST", b"/host/policy"): HostOperation(host.policy),
    (b"POST", b"/host/activate"): HostOperation(host.activate),
    (b"POST", b"/host/renew"): HostOperation(host.renew),
    (b"POST", b"/host/sessions"): HostOperation(host.sessions),
    (b"POST", b"/host/verifying"): HostOperation(host.verifying),
    (b"POST", b"/host/revoke"): HostOperation(host.revoke),
    (b"GET", b"/host/upstreams"): HostOperation(host.upstreams),
    (b"GET", b"/host/health"): HostOperation(host.health),
    (b"POST", b"/report"): SessionOperation(session.report),
}


def dispatch(context: Context, key: bytes, incoming: Incoming) -> None:
    """Finds the operation and the asker; a stranger to an operation sees no operation."""
    head = incoming.head
    operation, asking = TABLE.get((head.method, head.target)), context.sessions.by_key(key)
    if operation is None and asking is not None and serve(context, asking, incoming):
        return
    match operation:
        case SessionOperation(run) if (asker := context.sessions.by_key(key)) is not None:
            run(context, asker, incoming)
        case HostOperation(run_host) if (name := context.routes.now.hosts.get(key)) is not None:
            run_host(context, host.Host(name, key), incoming, _answer(incoming))
        case _:
            send(incoming, json_reply(404, {"code": "G103", "what": "there is nothing here"}))


def _answer(incoming: Incoming) -> host.Answer:
    return lambda fields: send(incoming, json_reply(200, fields))
