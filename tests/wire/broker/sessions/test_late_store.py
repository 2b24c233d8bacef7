"""While a store has not answered yet a broker is asked for more, and ends come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import define, evolve, field
from nacl.signing import SigningKey
from twisted.internet.defer import Deferred

from broker.sessions.sessions import Session, Sessions
from broker.sessions.store.interface import State, StoreUnavailable
from gitmoat.fault import Fault
from gitmoat.identity.grant import sign_grant
from gitmoat.messages.host import Activate
from netpolicy.policy import Ceiling, EgressBound, GitBound
from tests.fakes.broker_scene import Scene, another_grant
from tests.fakes.broker_world import World
from tests.fakes.late_store import LateStore
from tests.fakes.reactor_tests import on_reactor
from tests.fakes.tasks import FakeTask

ANY = Ceiling(GitBound(), EgressBound())


@define(eq=False)
class Late:
    """A broker whose store answers when it is told to; what is begun waits for nobody."""

    scene: Scene
    world: World = field(init=False)
    store: LateStore = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.world = self.scene.world
        self.store = LateStore(self.sessions._store)
        self.sessions._store = self.store

    @property
    def sessions(self) -> Sessions:
        return self.world.broker.context.sessions

    @property
    def grants(self) -> Any:
        return self.world.broker.context.grants

    @property
    def asked(self) -> list[str]:
        return self.store.asked

    def grant(self, **changes: Any) -> Deferred[Session]:
        signed = self.world.grant(SigningKey.generate(), **changes)
        key = bytes(self.world.host_key.verify_key)
        return Deferred.fromCoroutine(self.grants.grant("one", key, signed, ANY))

    def activate(self, session: Session) -> Deferred[Session]:
        place = Activate(session=session.id, pid=7, netns=77, cgroup=None)
        return Deferred.fromCoroutine(self.grants.activate("one", place))

    def replace(self, session: Session, counter: int) -> Deferred[int]:
        stored = session.stored
        about: dict[str, Any] = {"session": stored.id, "key": stored.key, "sandbox": stored.sandbox}
        signed = sign_grant(
            evolve(another_grant(self.world), counter=counter, **about), self.world.host_key
        )
        key = bytes(self.world.host_key.verify_key)
        return Deferred.fromCoroutine(self.grants.replace_policy("one", key, signed, ANY))

    def renew(self, sandbox: str) -> Deferred[Session | None]:
        return Deferred.fromCoroutine(self.grants.renew("one", sandbox, 60, ANY))

    async def running(self, **changes: Any) -> Session:
        begun = self.grant(**changes)
        self.store.answer("admit")
        session = await begun
        activated = self.activate(session)
        self.store.answer("activate")
        return await activated

    def kept(self, session: Session) -> Any:
        (found,) = [one for one in self.store.load().sessions if one.id == session.id]
        return found


@pytest.fixture
def late(scene: Scene) -> Late:
    return Late(scene)


async def refused(waiting: Deferred[Any], code: str) -> None:
    with pytest.raises(Fault) as fault:
        await waiting
    assert fault.value.code == code


@on_reactor
async def test_nobody_has_a_session_before_it_is_on_disk(late: Late) -> None:
    begun = late.grant()
    assert (late.asked, begun.called, list(late.sessions.everyone())) == (["admit"], False, [])
    late.store.answer()
    assert (await begun).state is State.CLOSED


@on_reactor
async def test_a_grant_that_the_store_does_not_take_is_none(late: Late) -> None:
    begun = late.grant()
    late.store.answer(error=StoreUnavailable("it is away"))
    with pytest.raises(StoreUnavailable):
        await begun
    assert list(late.sessions.everyone()) == []
    again = late.grant()
    late.store.answer()
    assert (await again).state is State.CLOSED


@on_reactor
async def test_two_operations_on_one_sandbox_follow_each_other_and_nobody_waits_for_anothers(
    late: Late,
) -> None:
    session = await late.running(sandbox="a")
    first, second = late.replace(session, 101), late.replace(session, 102)
    third = late.grant(sandbox="a")
    assert late.asked == ["rescope"], "the others of this sandbox wait for the first"
    other = late.grant(sandbox="b")
    assert late.asked == ["rescope", "admit"]
    late.store.answer("admit")
    assert (await other).stored.sandbox == "b"
    late.store.answer("rescope")
    assert (first.called, second.called, late.asked) == (True, False, ["rescope"])
    late.store.answer(error=StoreUnavailable("it is away"))
    with pytest.raises(StoreUnavailable):
        await second
    assert late.asked == ["admit"], "one that failed holds up nothing"
    late.store.answer()
    assert (await third).stored.sandbox == "a"
    assert late.grants._turns._locks == {}


@on_reactor
async def test_who_is_refused_in_his_turn_gives_it_to_the_next_and_spoils_nobodys(
    late: Late,
) -> None:
    session = await late.running(sandbox="a")
    first, second, third = (late.replace(session, counter) for counter in (101, 102, 103))
    ended = late.grants.release([session], "test")
    late.store.answer("end")
    await ended
    late.store.answer("rescope")
    for each in (first, second, third):
        await refused(each, "S101")
    assert late.grants._turns._locks == {}
    again = late.grant(sandbox="a")
    late.store.answer("admit")
    assert (await again).state is State.CLOSED


@on_reactor
async def test_an_end_is_in_memory_then_on_disk_and_then_cuts_and_waits_for_no_turn(
    late: Late,
) -> None:
    session = await late.running(sandbox="a")
    task = FakeTask()
    session.running.enter(task)
    replaced = late.replace(session, 101)
    ended = late.grants.revoke([session], "test")
    assert session.state is State.ENDED and late.sessions.living() == []
    assert late.sessions.over_for_good("one", "a") == "revoked"
    assert (late.asked, task.cuts) == (["rescope", "end"], [])
    late.store.answer("end")
    assert late.kept(session).state is State.ENDED
    await ended
    assert task.cuts == ["S101"]
    late.store.answer("rescope")
    await refused(replaced, "S101")
    assert '"second"' not in late.kept(session).scope


@on_reactor
async def test_an_end_cuts_also_where_the_store_fails_and_is_stored_later(late: Late) -> None:
    session = await late.running()
    task = FakeTask()
    session.running.enter(task)
    ended = late.grants.revoke([session], "test")
    late.store.answer(error=StoreUnavailable("it is away"))
    with pytest.raises(StoreUnavailable):
        await ended
    assert task.cuts == ["S101"]
    assert late.kept(session).state is State.ACTIVE
    late.world.broker.tick()
    late.store.answer_all()
    assert late.kept(session).state is State.ENDED


@on_reactor
async def test_a_session_that_ends_while_it_is_activated_stays_ended(late: Late) -> None:
    begun = late.grant()
    late.store.answer()
    session = await begun
    activated = late.activate(session)
    ended = late.grants.revoke([session], "test")
    late.store.answer("end")
    await ended
    late.store.answer("activate")
    await refused(activated, "S101")
    assert (session.state, late.kept(session).state) == (State.ENDED, State.ENDED)
    assert session not in late.sessions.living()


@on_reactor
async def test_a_sandbox_that_is_revoked_while_it_is_granted_another_gets_none(late: Late) -> None:
    session = await late.running(sandbox="a")
    granted = late.grant(sandbox="a")
    ended = late.grants.revoke([session], "test")
    late.store.answer("end")
    await ended
    late.store.answer("admit")
    late.store.answer("end")
    assert (await granted).state is State.ENDED
    assert late.sessions.living() == []


@on_reactor
async def test_a_revocation_while_the_owner_renews_is_final(late: Late) -> None:
    session = await late.running(sandbox="a")
    late.world.now += 4000
    expired = late.grants.expire(session, "expired")
    late.store.answer("end")
    await expired
    renewed = late.renew("a")
    assert late.asked == ["renew"]
    late.sessions._over["one", "a"] = evolve(late.sessions._over["one", "a"], reason="revoked")
    late.store.answer()
    await renewed
    assert late.sessions.over_for_good("one", "a") == "revoked"


@on_reactor
async def test_a_renewal_of_a_session_that_is_revoked_meanwhile_is_refused(late: Late) -> None:
    session = await late.running(sandbox="a")
    renewed = late.renew("a")
    assert late.asked == ["extend"]
    ended = late.grants.revoke([session], "test")
    late.store.answer("end")
    late.store.answer("extend")
    await ended
    await refused(renewed, "S101")


@on_reactor
async def test_what_ends_by_its_time_ends_at_once_however_late_the_store_is(late: Late) -> None:
    first = await late.running()
    second = await late.running()
    late.world.now += 4000
    late.world.broker.tick()
    assert (first.state, second.state, late.sessions.living()) == (State.ENDED, State.ENDED, [])
    begun = late.grant()
    late.store.answer("admit")
    third = await begun
    late.world.now += 4000
    late.world.broker.tick()
    assert third.state is State.ENDED, "a store that has not answered holds up no tick"
    assert late.asked.count("end") == 4, "what it is told again, it is told one after the other"
    late.store.answer_all()
    late.world.broker.tick()
    late.store.answer_all()
    assert {one.state for one in late.store.load().sessions} == {State.ENDED}
    ended = {one["session"] for one in late.world.audit("session.ended")}
    assert ended == {first.id, second.id, third.id}


@on_reactor
async def test_all_that_are_revoked_end_before_the_first_is_on_disk(late: Late) -> None:
    sessions = [await late.running() for _ in range(3)]
    answer = late.world.broker.admin().answer(b'{"op": "session-revoke", "all": true}', 0)
    assert {one.state for one in sessions} == {State.ENDED}
    assert late.asked == ["end"] * 3
    late.store.answer(error=StoreUnavailable("it is away"))
    late.store.answer_all()
    assert (await answer)["error"]["code"] == "B103"
    assert [late.kept(one).state for one in sessions] == [
        State.ACTIVE,
        State.ENDED,
        State.ENDED,
    ], "the others are stored, and one that is not is tried again"


@on_reactor
async def test_a_host_that_is_removed_while_it_is_granted_a_session_has_none(late: Late) -> None:
    world = late.world
    host, key = await world.host(), SigningKey.generate()
    asked = Deferred.fromCoroutine(host.ask("POST", "/host/grant", (), world.grant(key)))
    await late.scene.until(lambda: late.asked == ["admit"])
    text = world.paths.broker_toml.read_text()
    world.write("broker.toml", text.replace("[host.one]", "[host.two]"), 0o640)
    assert (await world.broker.admin().answer(b'{"op": "reload"}', 0))["ok"]
    late.store.answer("admit")
    late.store.answer("end")
    assert (await asked).json()["state"] == "ended"
    assert late.sessions.living() == []


@on_reactor
async def test_a_host_that_leaves_before_the_store_has_answered_harms_nothing(late: Late) -> None:
    world = late.world
    host = await world.host()
    asked = Deferred.fromCoroutine(
        host.ask("POST", "/host/grant", (), world.grant(SigningKey.generate()))
    )
    await late.scene.until(lambda: late.asked == ["admit"])
    host.connection.abort()
    await asked
    late.store.answer()
    assert [one.state for one in late.sessions.everyone()] == [State.CLOSED]
    other = await world.host()
    body = json.dumps({"session": "session-1", "reason": "x"}).encode()
    gone = Deferred.fromCoroutine(other.ask("POST", "/host/revoke", (), body))
    await late.scene.until(lambda: late.asked == ["end"])
    late.store.answer()
    assert (await gone).status == 200
