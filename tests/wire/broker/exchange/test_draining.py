"""The end in good order: what is under way ends well, and what comes late is not taken."""

from gitmoat.net.causes import Cause, Why
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_traffic import ADVERTISEMENT, REFS, begin_refs
from tests.fakes.broker_world import Asker, Reply
from tests.fakes.reactor_tests import on_reactor


async def waiting(scene: Scene, sidecar: Asker) -> Reply:
    """A request that the upstream has and does not answer."""
    known = len(scene.upstream.heads)
    reply = begin_refs(sidecar)
    await scene.until(lambda: len(scene.upstream.heads) > known)
    return reply


@on_reactor
async def test_nothing_under_way_is_nothing_to_wait_for(scene: Scene) -> None:
    sidecar = await scene.world.session()
    await scene.world.broker.drain()
    await scene.until(lambda: not sidecar.connection.idle)


@on_reactor
async def test_what_is_under_way_ends_and_others_are_served_beside_it(scene: Scene) -> None:
    first, second = await scene.world.session(), await scene.world.session()
    reply = await waiting(scene, first)
    drained = scene.world.broker.drain()
    scene.upstream.answers(ADVERTISEMENT)
    assert (await second.refs()).status == 200
    assert not drained.called
    scene.upstream.talks[0].say(ADVERTISEMENT)
    assert (await reply.done).data == REFS
    await drained
    assert scene.world.broker.context.sessions.under_way() == set()


@on_reactor
async def test_what_never_ends_is_waited_for_no_longer_than_the_limit(impatient: Scene) -> None:
    reply = await waiting(impatient, await impatient.world.session())
    await impatient.world.broker.drain()
    assert not reply.done.called


@on_reactor
async def test_a_request_that_comes_too_late_is_known_not_to_be_taken(scene: Scene) -> None:
    """The sidecar sends before it reads that the broker has closed."""
    sidecar = await scene.world.session()
    scene.upstream.answers(ADVERTISEMENT)
    drained = scene.world.broker.drain()
    reply = begin_refs(sidecar)
    assert (await reply.done).error == Why(Cause.NOT_TAKEN)
    await drained
    assert scene.upstream.heads == []
