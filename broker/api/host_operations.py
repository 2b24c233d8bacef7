"""What an enrolled host may ask: to register, activate and revoke its own sessions."""

from __future__ import annotations

import os
from collections.abc import Callable

from attrs import frozen

from broker.api.guard import guarded
from broker.api.overview import problems
from broker.api.small_bodies import collect
from broker.context import Context
from broker.sessions.sessions import Session
from broker.sessions.store.interface import State
from gitmoat.identity.grant import LIMIT as GRANT_LIMIT
from gitmoat.messages.host import Activate, Extend, Revoke, Verifying
from gitmoat.net.http.ends import Incoming
from gitmoat.shape import read, read_json
from gitmoat.version import VERSION

_BODY_LIMIT = 4096
_REASON_LIMIT = 200

Answer = Callable[[dict[str, object]], None]


@frozen
class Host:
    name: str
    key: bytes


def grant(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    def signed(data: bytes) -> None:
        ceiling = context.routes.now.config.hosts[host.name].ceiling
        session = context.grants.grant(host.name, host.key, data, ceiling)
        answer({"session": session.id, "state": session.state.value})

    collect(incoming, GRANT_LIMIT, guarded(incoming, signed))


def policy(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    def signed(data: bytes) -> None:
        ceiling = context.routes.now.config.hosts[host.name].ceiling
        answer({"cut": context.grants.replace_policy(host.name, host.key, data, ceiling)})

    collect(incoming, GRANT_LIMIT, guarded(incoming, signed))


def activate(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    def asked(data: bytes) -> None:
        place = read(Activate, read_json(data, _BODY_LIMIT))
        session = context.grants.activate(host.name, place)
        answer({"session": session.id, "state": session.state.value})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def extend(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    def asked(data: bytes) -> None:
        wanted = read(Extend, read_json(data, _BODY_LIMIT))
        session = context.grants.of_host(host.name, wanted.session)
        context.grants.extend(session, wanted.ttl)
        answer({"session": session.id, "ttl": int(session.stored.deadline - context.now())})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def verifying(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    """hostd tries what must be refused, which must not slow the sandbox down."""

    def asked(data: bytes) -> None:
        wanted = read(Verifying, read_json(data, _BODY_LIMIT))
        session = context.grants.of_host(host.name, wanted.session)
        session.brake.lift(context.now(), wanted.seconds)
        answer({"session": session.id})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def revoke(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    def asked(data: bytes) -> None:
        wanted = read(Revoke, read_json(data, _BODY_LIMIT))
        for session in _named(context, host, wanted):
            context.grants.release(session, (wanted.reason or "by its host")[:_REASON_LIMIT])
        answer({"state": State.ENDED.value})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def _named(context: Context, host: Host, wanted: Revoke) -> list[Session]:
    """One session, or all that live of one sandbox: of this host only."""
    if wanted.session is not None:
        return [context.grants.of_host(host.name, wanted.session)]
    sandbox = wanted.sandbox or ""
    return [one for one in context.sessions.living() if one.is_of(host.name, sandbox)]


def upstreams(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    answer(context.routes.now.table.to_mapping())


def health(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    answer({"healthy": not problems(context), "version": VERSION, "pid": os.getpid()})
