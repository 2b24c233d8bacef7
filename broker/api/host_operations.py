"""What an enrolled host may ask: to register, activate and revoke its own sessions."""

from __future__ import annotations

import os
from collections.abc import Callable

from attrs import frozen

from broker.api.guard import guarded
from broker.api.overview import problems
from broker.api.small_bodies import collect
from broker.context import Context
from broker.sessions.sessions import Session, is_renewable
from broker.sessions.store.interface import State
from gitmoat.identity.grant import LIMIT as GRANT_LIMIT
from gitmoat.messages.host import Activate, Renew, Revoke, Sessions, Verifying
from gitmoat.net.http.ends import Incoming
from gitmoat.shape import read, read_json
from gitmoat.version import VERSION

_BODY_LIMIT = 4096
# The identifiers of a host's sandboxes: thousands of them.
_NAMES_LIMIT = 64 * 1024
_REASON_LIMIT = 200

HOST_REMOVED = "its host was removed"

Answer = Callable[[dict[str, object]], None]


@frozen
class Host:
    name: str
    key: bytes


def grant(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    async def signed(data: bytes) -> None:
        ceiling = context.routes.now.config.hosts[host.name].ceiling
        session = await context.grants.grant(host.name, host.key, data, ceiling)
        if host.name not in context.routes.now.config.hosts:  # removed while the store was awaited
            await context.grants.revoke([session], HOST_REMOVED)
        answer({"session": session.id, "state": session.state.value})

    collect(incoming, GRANT_LIMIT, guarded(incoming, signed))


def policy(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    async def signed(data: bytes) -> None:
        ceiling = context.routes.now.config.hosts[host.name].ceiling
        answer({"cut": await context.grants.replace_policy(host.name, host.key, data, ceiling)})

    collect(incoming, GRANT_LIMIT, guarded(incoming, signed))


def activate(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    async def asked(data: bytes) -> None:
        place = read(Activate, read_json(data, _BODY_LIMIT))
        session = await context.grants.activate(host.name, place)
        answer({"session": session.id, "state": session.state.value})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def renew(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    async def asked(data: bytes) -> None:
        wanted = read(Renew, read_json(data, _BODY_LIMIT))
        ceiling = context.routes.now.config.hosts[host.name].ceiling
        session = await context.grants.renew(host.name, wanted.sandbox, wanted.ttl, ceiling)
        left = wanted.ttl if session is None else int(session.stored.deadline - context.now())
        answer({"session": None if session is None else session.id, "ttl": left})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def sessions(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    """What git in these sandboxes can expect; nothing of a sandbox that has no session."""

    def asked(data: bytes) -> None:
        wanted = read(Sessions, read_json(data, _NAMES_LIMIT))
        found = {name: _standing(context, host.name, name) for name in wanted.sandboxes}
        answer({"sessions": {name: one for name, one in found.items() if one is not None}})

    collect(incoming, _NAMES_LIMIT, guarded(incoming, asked))


def _standing(context: Context, host: str, sandbox: str) -> dict[str, object] | None:
    over = context.sessions.over_for_good(host, sandbox)
    for session in context.sessions.of_sandbox(host, sandbox):
        overdue = session.overdue(context.now())
        if overdue is None:
            return {"left": int(session.stored.deadline - context.now())}
        over = over or overdue  # nothing has ended it yet
    return None if over is None else {"over": over, "renewable": is_renewable(over)}


def verifying(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    """hostd tries what must be refused, which must not slow the sandbox down."""

    def asked(data: bytes) -> None:
        wanted = read(Verifying, read_json(data, _BODY_LIMIT))
        session = context.grants.of_host(host.name, wanted.session)
        session.brake.lift(context.now(), wanted.seconds)
        answer({"session": session.id})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def revoke(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    async def asked(data: bytes) -> None:
        wanted = read(Revoke, read_json(data, _BODY_LIMIT))
        reason = (wanted.reason or "by its host")[:_REASON_LIMIT]
        await context.grants.release(_named(context, host, wanted), reason)
        answer({"state": State.ENDED.value})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def _named(context: Context, host: Host, wanted: Revoke) -> list[Session]:
    """One session, or all that live of one sandbox: of this host only."""
    if wanted.session is not None:
        return [context.grants.of_host(host.name, wanted.session)]
    return context.sessions.of_sandbox(host.name, wanted.sandbox or "")


def upstreams(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    answer(context.routes.now.table.to_mapping())


def health(context: Context, host: Host, incoming: Incoming, answer: Answer) -> None:
    answer({"healthy": not problems(context), "version": VERSION, "pid": os.getpid()})
