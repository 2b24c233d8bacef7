"""Whatever runs for a session ends with it, and with a policy that does not allow it any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from attrs import evolve, frozen

from broker.kinds import KINDS
from gitmoat.wire.http.framing import Chunked
from gitmoat.wire.http.heads import Length
from netpolicy.format.document import parse_policy, policy_to_mapping
from tests.fakes.broker_scene import Scene, another_grant, post_policy
from tests.fakes.broker_traffic import CHUNKED, chunk
from tests.fakes.broker_world import PACK_HEAD, POLICY, Reply, Sidecar, commands, post
from tests.fakes.fake_upstream import Talk
from tests.fakes.internet import HELLO, Internet, Tunnel, ask_plain
from tests.fakes.reactor_tests import on_reactor

EVERYTHING = (
    POLICY
    + """
[[egress]]
hosts = ["web.example"]
[[egress]]
hosts = ["web.example"]
scheme = "http"
"""
)
NOTHING = 'version = 1\nname = "nothing"'
# Another's may be cut; this one's git is allowed by it still.
WIDER = EVERYTHING.replace('"agent/**"', '"agent/**", "more/**"')


@frozen
class Begun:
    """Something that runs: whether its client has heard the end, and its other side too."""

    ended: Callable[[], bool]


Start = Callable[[Scene, Sidecar], Awaitable[Begun]]


async def fetching(scene: Scene, sidecar: Sidecar) -> Begun:
    scene.upstream.on_request = lambda talk: talk.say(CHUNKED + chunk(b"0008NAK\n"))
    out, reply = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(b"0000")
    out.finish()
    await scene.until(lambda: reply.data)
    return Begun(lambda: reply.done.called and scene.upstream.talks[0].lost)


async def reading_commands(scene: Scene, sidecar: Sidecar) -> Begun:
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands("refs/heads/agent/a")[:40])
    await scene.until(lambda: len(scene.world.sessions.living()[0].running))
    return Begun(lambda: reply.done.called)


async def refused_while_reading_commands(scene: Scene, sidecar: Sidecar) -> Begun:
    scene.world.sessions.living()[0].budget.limit(1, 1)
    scene.world.sessions.living()[0].budget._shared.take(scene.world.now)
    return await reading_commands(scene, sidecar)


async def pushing(scene: Scene, sidecar: Sidecar) -> Begun:
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands("refs/heads/agent/a") + PACK_HEAD)
    await scene.until(lambda: scene.upstream.heads)
    return Begun(lambda: reply.done.called and scene.upstream.talks[0].lost)


async def waiting_for_a_turn(scene: Scene, sidecar: Sidecar) -> Begun:
    admission = scene.world.broker.context.admission
    admission._slots.enter("somebody else")
    admission._slots.total = 1
    out, reply = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(b"0000")
    out.finish()
    await scene.until(lambda: admission.waiting)
    return Begun(lambda: reply.done.called and not admission.waiting)


async def tunnelling(scene: Scene, sidecar: Sidecar) -> Begun:
    internet = await Internet(scene.world).open()
    made = await Tunnel(scene.world, sidecar).ask()
    made.end.write(HELLO)
    await scene.until(lambda: internet.servers and internet.servers[0].heard)
    internet.listening.stopListening()
    return Begun(lambda: made.gone and internet.servers[0].lost)


async def asking_plainly(scene: Scene, sidecar: Sidecar) -> Begun:
    internet = await Internet(scene.world).open()
    reply = ask_plain(sidecar, b"GET")
    await scene.until(lambda: internet.servers and internet.servers[0].heard)
    internet.listening.stopListening()
    return Begun(lambda: reply.done.called and internet.servers[0].lost)


# Every kind there is, in each state in which it can be for long.
STARTS: dict[str, tuple[Start, ...]] = {
    "git": (
        fetching,
        pushing,
        reading_commands,
        refused_while_reading_commands,
        waiting_for_a_turn,
    ),
    "tunnel": (tunnelling,),
    "http": (asking_plainly,),
}
EACH = [start for starts in STARTS.values() for start in starts]


async def revoke(scene: Scene) -> None:
    scene.world.broker.context.grants.revoke([scene.world.sessions.living()[0]], "test")


async def time_is_over(scene: Scene) -> None:
    scene.world.now += 9 * 3600
    scene.world.broker.tick()


async def released(scene: Scene) -> None:
    scene.world.broker.context.grants.release([scene.world.sessions.living()[0]], "test")


async def another_policy(scene: Scene, text: str = NOTHING) -> int:
    scope = policy_to_mapping(parse_policy(text))
    told = await post_policy(scene.world, evolve(another_grant(scene.world), scope=scope))
    assert told.status == 200, told.data
    cut: int = told.json()["cut"]
    return cut


async def nothing_is_allowed_any_more(scene: Scene) -> None:
    assert await another_policy(scene) == 1


ENDS = [revoke, released, time_is_over, nothing_is_allowed_any_more]


def named(each: Callable[..., object]) -> str:
    return each.__name__


def test_every_kind_has_its_starts() -> None:
    assert set(STARTS) == {kind.name for kind in KINDS}


@pytest.mark.parametrize("end", ENDS, ids=named)
@pytest.mark.parametrize("start", EACH, ids=named)
@on_reactor
async def test_whatever_runs_is_cut_by_every_end(
    scene: Scene, start: Start, end: Callable[[Scene], Awaitable[None]]
) -> None:
    sidecar = await scene.world.session(EVERYTHING)
    session = scene.world.sessions.living()[0]
    begun = await start(scene, sidecar)
    assert len(session.running) == 1
    await end(scene)
    assert not len(session.running)
    await scene.until(begun.ended)


@pytest.mark.parametrize("start", EACH, ids=named)
@on_reactor
async def test_what_another_policy_allows_goes_on(scene: Scene, start: Start) -> None:
    begun = await start(scene, await scene.world.session(EVERYTHING))
    assert await another_policy(scene, WIDER) == 0
    await scene.pause()
    assert not begun.ended() and len(scene.world.sessions.living()[0].running) == 1


@on_reactor
async def test_a_push_under_way_to_a_ref_that_is_denied_now_is_cut_and_told(scene: Scene) -> None:
    sidecar = await scene.world.session(EVERYTHING)
    scene.upstream.on_head = lambda talk: talk.say(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-receive-pack-result\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands("refs/heads/agent/a") + PACK_HEAD)
    await reply.started
    assert await another_policy(scene, EVERYTHING.replace("agent/**", "other/**")) == 1
    await scene.until(lambda: reply.done.called)
    assert b"(G201); it may have been applied" in reply.data
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "G201"


@on_reactor
async def test_commands_that_come_after_another_policy_are_decided_by_it(scene: Scene) -> None:
    sidecar = await scene.world.session(EVERYTHING)
    out, reply = sidecar.begin_push(Chunked())
    said = commands("refs/heads/agent/a")
    out.write(said[:40])
    await scene.until(lambda: len(scene.world.sessions.living()[0].running))
    assert await another_policy(scene, EVERYTHING.replace("agent/**", "other/**")) == 0
    out.write(said[40:] + PACK_HEAD)
    out.finish()
    await scene.until(lambda: reply.done.called)
    assert b"G201" in reply.data
    assert scene.upstream.heads == []


@on_reactor
async def test_a_revocation_cuts_one_session_and_leaves_another(scene: Scene) -> None:
    said: list[Talk] = []

    def serve(talk: Talk) -> None:
        said.append(talk)
        talk.say(CHUNKED + chunk(b"0008NAK\n"))

    scene.upstream.on_request = serve
    replies: list[Reply] = []
    for _ in range(2):
        sidecar = await scene.world.session(EVERYTHING)
        out, reply = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
        out.write(b"0000")
        out.finish()
        replies.append(reply)
        await scene.until(lambda: replies[-1].data)
    await revoke(scene)
    await scene.until(lambda: replies[0].done.called)
    said[1].say(chunk(b"0000") + b"0\r\n\r\n")
    await scene.until(lambda: replies[1].done.called)
    assert replies[1].data == b"0008NAK\n0000" and not replies[1].error
