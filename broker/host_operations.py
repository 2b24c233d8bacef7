"""What an enrolled host may ask: to register, activate and revoke its own sessions."""

from __future__ import annotations

import os
from collections.abc import Callable

from attrs import frozen

from broker.bodies import collect
from broker.desk import Desk
from broker.guard import guarded
from broker.overview import problems
from broker.sessions import Session
from broker.store.interface import State
from broker.version import VERSION
from gitmoat.messages.host import Activate, Extend, Revoke, Verifying
from gitmoat.shape import read, read_json
from identity.grant import LIMIT as GRANT_LIMIT
from streams.http import Incoming

_BODY_LIMIT = 4096
_REASON_LIMIT = 200

Answer = Callable[[dict[str, object]], None]


@frozen
class Host:
    name: str
    key: bytes


def grant(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    def signed(data: bytes) -> None:
        ceiling = desk.routes.now.config.hosts[host.name].ceiling
        session = desk.authority.grant(host.name, host.key, data, ceiling)
        answer({"session": session.id, "state": session.state.value})

    collect(incoming, GRANT_LIMIT, guarded(incoming, signed))


def policy(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    def signed(data: bytes) -> None:
        ceiling = desk.routes.now.config.hosts[host.name].ceiling
        answer({"cut": desk.authority.replace_policy(host.name, host.key, data, ceiling)})

    collect(incoming, GRANT_LIMIT, guarded(incoming, signed))


def activate(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    def asked(data: bytes) -> None:
        place = read(Activate, read_json(data, _BODY_LIMIT))
        session = desk.authority.activate(host.name, place)
        answer({"session": session.id, "state": session.state.value})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def extend(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    def asked(data: bytes) -> None:
        wanted = read(Extend, read_json(data, _BODY_LIMIT))
        session = desk.authority.of_host(host.name, wanted.session)
        desk.authority.extend(session, wanted.ttl)
        answer({"session": session.id, "ttl": int(session.stored.deadline - desk.now())})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def verifying(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    """hostd tries what must be refused: that is not the sandbox's hammering."""

    def asked(data: bytes) -> None:
        wanted = read(Verifying, read_json(data, _BODY_LIMIT))
        session = desk.authority.of_host(host.name, wanted.session)
        session.brake.lift(desk.now(), wanted.seconds)
        answer({"session": session.id})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def revoke(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    def asked(data: bytes) -> None:
        wanted = read(Revoke, read_json(data, _BODY_LIMIT))
        for session in _named(desk, host, wanted):
            desk.authority.release(session, (wanted.reason or "by its host")[:_REASON_LIMIT])
        answer({"state": State.ENDED.value})

    collect(incoming, _BODY_LIMIT, guarded(incoming, asked))


def _named(desk: Desk, host: Host, wanted: Revoke) -> list[Session]:
    """One session, or all that live of one sandbox: of this host only."""
    if wanted.session is not None:
        return [desk.authority.of_host(host.name, wanted.session)]
    sandbox = wanted.sandbox or ""
    return [one for one in desk.sessions.living() if one.is_of(host.name, sandbox)]


def upstreams(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    answer(desk.routes.now.table.to_mapping())


def health(desk: Desk, host: Host, incoming: Incoming, answer: Answer) -> None:
    answer({"healthy": not problems(desk), "version": VERSION, "pid": os.getpid()})
