"""What a broker promises of a request, where the matrix does not say it: record, once, freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from broker.exchange.decisions import AT_ONCE
from gitmoat.wire.git.pktline import FLUSH
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import NoBody
from tests.fakes.broker_world import PACK_HEAD, Reply, Sidecar, commands, envelope
from tests.fakes.fake_upstream import Talk, ok
from tests.fakes.internet import Tunnel, ask_plain
from tests.fakes.reactor_tests import on_reactor
from tests.wire.broker.net.cells import EGRESS, GIT, Event, Kind, Wait
from tests.wire.broker.net.held_broker import PUSHED, STILL, WANTS, HeldBroker, without_collector

REFS = ok(Service.UPLOAD_PACK, "advertisement", FLUSH)
UNAUTHORISED = b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"


def named(kind: Kind) -> str:
    return kind.value


def no_space(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


async def refs(held: HeldBroker, sidecar: Sidecar | None = None) -> Reply:
    reply = await (sidecar or held.sidecar).refs()
    assert not reply.error
    return reply


# Recorded before it is dialled


@pytest.mark.parametrize("kind", EGRESS, ids=named)
@on_reactor
async def test_egress_is_on_disk_before_its_name_is_looked_up(held: HeldBroker, kind: Kind) -> None:
    held.disk.hold()  # which only counts here
    await held.begin(kind, Wait.NAME)
    assert held.disk.by_reactor == 1
    (recorded,) = held.world.audit("egress.decision")
    assert (recorded["decision"], recorded["op"]) == (
        "allow", "http" if kind is Kind.PLAIN else "tunnel",
    )  # fmt: skip


@pytest.mark.parametrize("kind", EGRESS, ids=named)
@on_reactor
async def test_egress_still_waits_for_no_disk(held: HeldBroker, kind: Kind) -> None:
    """Why the matrix has no such cells."""
    held.disk.hold()
    await held.begin(kind, Wait.NAME)
    assert held.disk.by_reactor == 1 and not held.disk.wanted, (
        "egress awaits its record now: remove its rows of Wait.DISK from ABSENT"
    )


async def ask_once(held: HeldBroker, kind: Kind, sidecar: Sidecar) -> str:
    """What a request to another host is told, if it was not let through."""
    if kind is Kind.PLAIN:
        reply = ask_plain(sidecar, b"POST")
    else:
        reply = Tunnel(held.world, sidecar).begin().reply
    await held.until(lambda: reply.done.called or held.internet.servers, "an end")
    return "" if reply.head is None else (reply.header(b"gitmoat-code") or b"").decode()


@pytest.mark.parametrize("kind", EGRESS, ids=named)
@on_reactor
async def test_egress_that_cannot_be_recorded_is_not_dialled(held: HeldBroker, kind: Kind) -> None:
    held.world.opened.journal._sync = no_space
    assert await ask_once(held, kind, held.sidecar) == "B103"
    again: Sidecar = await held.world.connect(held.sidecar.key, Sidecar)
    assert await ask_once(held, kind, again) == "B103", "also the next time"
    assert held.names.asked == 0 and held.internet.connections == 0
    assert held.session.egress.running == 0 and not len(held.session.running)


# Sent once


async def post_git(held: HeldBroker, kind: Kind) -> Reply:
    sidecar = held.sidecar
    return await (sidecar.fetch(WANTS) if kind is Kind.FETCH else sidecar.push(PUSHED))


ENDINGS: dict[str, Callable[[Talk], None]] = {
    "reset": lambda talk: talk.abort(),
    "closed": lambda talk: talk.close(),
    "refused": lambda talk: talk.say(UNAUTHORISED),
}


@pytest.mark.parametrize("warm", [True, False], ids=["kept connection", "new connection"])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", [Kind.FETCH, Kind.PUSH], ids=named)
@on_reactor
async def test_a_post_goes_up_once(held: HeldBroker, kind: Kind, ending: str, warm: bool) -> None:
    """Nobody knows what the server did with it; another credential changes nothing about that."""
    held.credentials.has_another = True
    if warm:
        held.upstream.answers(REFS)
        assert (await refs(held)).status == 200
    held.upstream.on_request = ENDINGS[ending]
    reply = await post_git(held, kind)
    assert (b"U102" if ending == "refused" else b"U101") in reply.data
    await held.turns()
    posted = [head for head in held.upstream.heads if head.startswith(b"POST ")]
    assert len(posted) == 1 and held.upstream.connections == 1
    assert held.upstream.bodies[-1] == (WANTS if kind is Kind.FETCH else PUSHED)


@on_reactor
async def test_a_plain_post_goes_out_once(held: HeldBroker) -> None:
    await held.begin(Kind.PLAIN, Wait.HEAD)
    held.internet.servers[0].end()
    await held.until(lambda: held.over, "an answer")
    await held.turns()
    assert held.told == "E107" and held.internet.connections == 1


@on_reactor
async def test_a_get_is_asked_once_more_with_another_credential(held: HeldBroker) -> None:
    held.credentials.has_another = True
    held.upstream.answers(UNAUTHORISED)
    with without_collector():
        reply = await refs(held)
        assert b"U102" in reply.data
        assert (held.credentials.needs, len(held.upstream.heads)) == (2, 2)
        await held.until(lambda: held.credentials.freed, "that both are freed", STILL)


# One session, one credential


@on_reactor
async def test_a_kept_connection_is_for_its_own_session(held: HeldBroker) -> None:
    held.upstream.answers(REFS)
    other = await held.world.session()
    for asker in (held.sidecar, other, held.sidecar, other):
        assert (await refs(held, asker)).status == 200
    assert (held.upstream.connections, len(held.upstream.heads)) == (2, 4)


@on_reactor
async def test_a_kept_connection_is_for_its_own_credential(held: HeldBroker) -> None:
    held.upstream.answers(REFS)
    for password in (b"one", b"two", b"one", b"two"):
        held.credentials.password = password
        assert (await refs(held)).status == 200
    assert (held.upstream.connections, len(held.upstream.heads)) == (2, 4)


# A credential is freed


ANSWERS: dict[str, tuple[bytes, bytes]] = {
    "unauthorised": (UNAUTHORISED, b"U102"),
    "failed": (b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", b"U110"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", b"U104"),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("kind", GIT, ids=named)
@on_reactor
async def test_a_refused_answer_frees_the_credential(
    held: HeldBroker, kind: Kind, answer: str
) -> None:
    said, code = ANSWERS[answer]
    held.upstream.answers(said)
    with without_collector():
        reply = await (refs(held) if kind is Kind.ADVERTISEMENT else post_git(held, kind))
        assert code in reply.data and held.credentials.given == 1
        await held.until(lambda: held.credentials.freed, "that it is freed", STILL)


# Slots are given back once

LONGEST = {
    Kind.ADVERTISEMENT: Wait.HEAD,
    Kind.FETCH: Wait.UPSTREAM_BODY,
    Kind.PUSH: Wait.BOTH,
    Kind.PROBE: Wait.COMMANDS,
    Kind.PLAIN: Wait.CLIENT_BODY,
    Kind.TUNNEL: Wait.BOTH,
}


@pytest.mark.parametrize("first", [Event.RESCOPED, Event.TIMED_OUT, Event.RESET])
@pytest.mark.parametrize("kind", Kind, ids=named)
@on_reactor
async def test_whatever_follows_an_end_gives_nothing_back_again(
    held: HeldBroker, kind: Kind, first: Event
) -> None:
    await held.begin(kind, LONGEST[kind])
    await held.happen(first)
    await held.until(lambda: not held.broken(), "that nothing is left", STILL)
    held.sidecar.connection.abort()
    await held.turns()
    held.time.advance(1000)
    held.context.grants.revoke([held.session], "test")
    await held.turns()
    assert not held.broken() - {"client's end"}


@on_reactor
async def test_a_cut_gives_back_its_own_slots_and_no_others(held: HeldBroker) -> None:
    """The broker has one turn: the next one in line gets it, and no third one with it."""
    await held.begin(Kind.ADVERTISEMENT, Wait.HEAD)
    session, admission = held.session, held.context.admission
    links: list[Sidecar] = [await held.world.connect(held.sidecar.key, Sidecar) for _ in range(2)]
    target = "/git/up/acme/app.git/info/refs?service=git-upload-pack"
    for link in links:
        link.begin("GET", target, envelope(), NoBody())
    await held.until(lambda: admission.waiting == 2, "that two wait")
    assert (session.budget.running, admission.running, len(session.running)) == (3, 1, 3)
    held.sidecar.connection.abort()
    await held.until(lambda: len(held.upstream.heads) == 2, "the next one")
    assert (session.budget.running, admission.running, len(session.running)) == (2, 1, 2)
    assert admission.waiting == 1
    held.context.grants.revoke([session], "test")
    assert (session.budget.running, admission.running, len(session.running)) == (0, 0, 0)
    assert admission.waiting == 0


@on_reactor
async def test_a_cut_connection_gives_back_its_own_slot_and_no_other(held: HeldBroker) -> None:
    await held.begin(Kind.TUNNEL, Wait.BOTH)
    other: Sidecar = await held.world.connect(held.sidecar.key, Sidecar)
    ask_plain(other, b"GET")
    await held.until(lambda: held.internet.connections == 2, "the other connection")
    assert (held.session.egress.running, len(held.session.running)) == (2, 2)
    await held.happen(Event.RESET)
    await held.until(lambda: held.internet.servers[0].lost, "the end of the tunnel")
    assert (held.session.egress.running, len(held.session.running)) == (1, 1)
    held.context.grants.revoke([held.session], "test")
    assert (held.session.egress.running, len(held.session.running)) == (0, 0)


# Decided in steps


@on_reactor
async def test_others_have_their_turn_while_a_push_of_many_refs_is_decided(
    held: HeldBroker,
) -> None:
    turns, later = list[Callable[[object], object]](), held.time.callLater

    def hold_turns(delay: float, call: Any, *args: Any, **named: Any) -> Any:
        if delay or getattr(call, "__func__", None) is not Deferred.callback:
            return later(delay, call, *args, **named)
        turns.append(call)
        return later(3600, call, *args)

    setattr(held.time, "callLater", hold_turns)  # noqa: B010 - it is a method
    many = commands(*(f"refs/heads/agent/{number}" for number in range(2 * AT_ONCE + 1)))
    held.upstream.answers(REFS)
    pushed = ensureDeferred(held.sidecar.push(many + PACK_HEAD))
    for _ in range(2):
        await held.until(lambda: turns, "a step of the decision")
        other = await held.world.session()
        assert (await refs(held, other)).status == 200
        assert not held.world.audit("push.decision")
        turns.pop()(None)
    await pushed
    (decided,) = held.world.audit("push.decision")
    assert (decided["decision"], len(decided["refs"])) == ("allow", 2 * AT_ONCE + 1)
    assert not turns
