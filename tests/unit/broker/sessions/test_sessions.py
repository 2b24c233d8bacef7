"""Sessions: closed, active, ended, and nothing else; ends cut what is live."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from broker.sessions.sessions import RELEASED, Sessions, is_renewable
from broker.sessions.store.interface import (
    CounterSeen,
    Moved,
    State,
    StoredSession,
    StoreUnavailable,
)
from broker.sessions.store.sqlite import open_sqlite
from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.format.document import PolicyError, policy_to_mapping
from netpolicy.narrowing import adhoc_policy
from netpolicy.rule_kind import NamedRepository, Options
from tests.fakes.at_once import AtOnce
from tests.fakes.full_store import FullStore
from tests.fakes.tasks import FakeTask

_APP = NamedRepository("up", RepositoryPath("acme/app"), False)
_OPTIONS = Options((_APP,), ("agent/**",), agent=True, ttl=100)
SCOPE = policy_to_mapping(adhoc_policy("p", _OPTIONS))


def stored(number: int = 1, **changes: Any) -> StoredSession:
    session = StoredSession(
        id=f"s{number}",
        key=number.to_bytes(32),
        host="h",
        host_boot="b",
        counter=number,
        sandbox=f"sb{number}",
        name=f"name{number}",
        runtime="bwrap",
        container=None,
        netns=1,
        epoch=1,
        scope=json.dumps(SCOPE),
        issued=0,
        ttl=100,
        broker_boot="boot",
        deadline=1100.0,
    )
    return evolve(session, **changes)


class SessionsOnDisk:
    def __init__(self, path: Path) -> None:
        self.now = 1000.0
        self.path = path
        self.sessions = self.start()

    def start(self, boot: str = "boot") -> Any:
        store = open_sqlite(self.path)
        sessions = Sessions(store, lambda: self.now, lambda: 1800000000)
        sessions.load(store.load(), boot)
        return AtOnce(sessions)


@pytest.fixture
def world(tmp_path: Path) -> SessionsOnDisk:
    return SessionsOnDisk(tmp_path / "store.sqlite")


def test_a_session_is_found_by_its_key_and_starts_closed(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored())
    assert world.sessions.by_key((1).to_bytes(32)) is session
    assert session.state.value == "closed"
    world.sessions.activate(session, 5, 6, None)
    assert session.state.value == "active"
    assert (session.stored.pid, session.stored.netns) == (5, 6)


def test_a_replayed_counter_or_a_bad_scope_registers_nothing(world: SessionsOnDisk) -> None:
    world.sessions.register(stored())
    with pytest.raises(CounterSeen):
        world.sessions.register(stored(2, counter=1))
    with pytest.raises(PolicyError):
        world.sessions.register(stored(3, scope='{"version": 1, "surprise": 1}'))
    assert [one.id for one in world.sessions.living()] == ["s1"]
    assert world.sessions.by_key((2).to_bytes(32)) is None


def test_an_end_cuts_live_streams_and_lasts(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored())
    finished, live = FakeTask(), FakeTask()
    session.running.enter(finished).leave()
    session.running.enter(live)
    world.sessions.end(session, "revoked")
    assert (finished.cuts, live.cuts) == ([], ["S101"])
    assert session.state is State.ENDED
    assert world.sessions.living() == []
    again = world.start().by_key((1).to_bytes(32))
    assert again is not None and again.state is State.ENDED
    assert again.stored.reason == "revoked"


def test_an_end_that_cannot_be_stored_holds_and_is_stored_as_soon_as_it_can_be(
    world: SessionsOnDisk,
) -> None:
    disk = FullStore(world.sessions._store)
    world.sessions._store = disk
    session = world.sessions.register(stored())
    world.sessions.activate(session, 1, 1, None)
    task = FakeTask()
    session.running.enter(task)
    session.moved = Moved(7, 8)
    with pytest.raises(StoreUnavailable):
        world.sessions.end(session, "revoked")
    assert session.state is State.ENDED and task.cuts == ["S101"]
    assert world.sessions.living() == []
    with pytest.raises(StoreUnavailable):
        world.sessions.save_ends()
    disk.full = False
    world.sessions.save_ends()
    after = world.start()
    assert after.over_for_good("h", "sb1") == "revoked" and after.living() == []
    assert [one.moved for one in after.ended("s1")] == [Moved(7, 8)]


def test_an_end_that_is_stored_does_not_fail_for_one_that_is_not(world: SessionsOnDisk) -> None:
    disk = FullStore(world.sessions._store)
    world.sessions._store = disk
    bad, good = world.sessions.register(stored(1)), world.sessions.register(stored(2))
    disk.only = bad.id
    with pytest.raises(StoreUnavailable):
        world.sessions.end(bad, "revoked")
    world.sessions.end(good, "revoked")
    assert world.start().over_for_good("h", "sb2") == "revoked"


def test_the_hard_end_is_the_deadline_and_a_live_stream_does_not_move_it(
    world: SessionsOnDisk,
) -> None:
    session = world.sessions.register(stored())
    session.running.enter(FakeTask())
    world.now = 1099.9
    assert world.sessions.overdue() == []
    world.now = 1100.0
    assert world.sessions.overdue() == [(session, "expired")]


def test_silence_ends_a_session_and_use_prolongs_it(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored(deadline=1e9))
    idle = session.policy.session.idle
    world.now = 1000.0 + idle - 1
    assert world.sessions.overdue() == []
    session.used = world.now
    world.now += idle
    assert world.sessions.overdue() == [(session, "idle")]


def test_a_live_stream_is_not_silence(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored(deadline=1e9))
    live = session.running.enter(FakeTask())
    world.now += session.policy.session.idle
    assert world.sessions.overdue() == []
    live.leave()
    assert world.sessions.overdue() == [(session, "idle")]


def test_sessions_survive_a_restart_of_the_broker(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored())
    world.sessions.activate(session, 5, 6, 7)
    again = world.start()
    found = again.by_id("s1")
    assert found is not None and found.stored == session.stored
    world.now = 1100.0
    assert [one.id for one, _ in again.overdue()] == ["s1"]


def test_after_a_reboot_nothing_is_valid(world: SessionsOnDisk) -> None:
    world.sessions.register(stored())
    again = world.start(boot="another")
    assert list(again.everyone()) == []
    again.register(stored(2, key=(1).to_bytes(32), broker_boot="another"))
    assert list(world.start().everyone()) == [], "its row is gone, and its key was free again"


def test_a_scope_that_this_version_cannot_read_is_not_taken_up(world: SessionsOnDisk) -> None:
    world.sessions.register(stored())
    AtOnce(world.sessions._store).end("s1", "")
    database = open_sqlite(world.path)
    database._db.execute("UPDATE session SET scope = '{}'")
    database._db.commit()
    assert list(world.start().everyone()) == []


def test_sessions_are_found_by_id_sandbox_or_name(world: SessionsOnDisk) -> None:
    first, second = (world.sessions.register(stored(number)) for number in (1, 2))
    assert world.sessions.named("s1") == [first]
    assert world.sessions.named("sb2") == [second]
    assert world.sessions.named("name2") == [second]
    world.sessions.end(second, "x")
    assert world.sessions.named("name2") == []


def test_an_ended_session_is_remembered_for_a_day(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored())
    world.sessions.end(session, "x")
    world.now += 24 * 3600
    world.sessions.forget_old()
    assert world.sessions.by_id("s1") is session
    world.now += 1
    world.sessions.forget_old()
    assert world.sessions.by_id("s1") is None
    assert world.sessions.by_key(session.stored.key) is None
    with pytest.raises(CounterSeen):
        world.sessions.register(stored())


@pytest.mark.parametrize("how", ["revoked", "expired", "idle"])
def test_a_sandbox_whose_session_was_ended_gets_no_other(world: SessionsOnDisk, how: str) -> None:
    session = world.sessions.register(stored())
    assert world.sessions.over_for_good("h", "sb1") is None
    world.sessions.end(session, how)
    assert world.sessions.over_for_good("h", "sb1") == how
    assert world.start().over_for_good("h", "sb1") == how
    assert world.sessions.over_for_good("h", "sb2") is None
    assert world.sessions.over_for_good("another host", "sb1") is None


def test_a_session_that_its_host_gave_back_can_be_followed_by_another(
    world: SessionsOnDisk,
) -> None:
    world.sessions.end(world.sessions.register(stored()), RELEASED)
    assert world.sessions.over_for_good("h", "sb1") is None


def test_a_revocation_is_remembered_as_long_as_the_grant_would_have_lasted(
    world: SessionsOnDisk,
) -> None:
    session = world.sessions.register(stored(deadline=world.now + 7 * 86400))
    world.sessions.end(session, "revoked")
    world.now += 2 * 86400
    world.sessions.forget_old()
    assert world.sessions.over_for_good("h", "sb1") == "revoked"


def test_a_reboot_brings_no_revoked_sandbox_back(world: SessionsOnDisk) -> None:
    world.sessions.end(world.sessions.register(stored()), "revoked")
    world.sessions.end(world.sessions.register(stored(2)), RELEASED)
    after = world.start(boot="another")
    assert after.over_for_good("h", "sb1") == "revoked"
    assert after.over_for_good("h", "sb2") is None


def test_a_renewal_moves_the_end_within_max_ttl_from_now_and_never_back(
    world: SessionsOnDisk,
) -> None:
    session = world.sessions.register(stored(deadline=1100.0, latest=1500.0))
    longest = session.policy.session.max_ttl
    world.sessions.extend(session, 300)
    assert session.stored.deadline == 1300.0
    world.sessions.extend(session, 10)
    assert session.stored.deadline == 1300.0
    world.now += 50
    world.sessions.extend(session, longest + 1)
    assert session.stored.deadline == session.stored.latest == 1050.0 + longest
    found = world.start().by_id("s1")
    assert found is not None and found.stored == session.stored


def test_a_renewal_is_use(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored(deadline=1e9))
    idle = session.policy.session.idle
    world.now += idle - 1
    world.sessions.extend(session, 10)
    world.now += idle - 1
    assert world.sessions.overdue() == []


def test_an_end_that_was_not_written_does_not_undo_a_renewal(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored())
    world.sessions._store = disk = FullStore(world.sessions._store)
    with pytest.raises(StoreUnavailable):
        world.sessions.end(session, "expired")
    with pytest.raises(StoreUnavailable):
        world.sessions.renew("h", "sb1")
    assert world.sessions.over_for_good("h", "sb1") == "expired"
    disk.full = False
    world.sessions.renew("h", "sb1")
    world.sessions.save_ends()
    assert world.start().over_for_good("h", "sb1") is None


def test_a_renewed_sandbox_gets_another_session_and_its_quota_goes_on(
    world: SessionsOnDisk,
) -> None:
    first = world.sessions.register(stored())
    first.moved = Moved(10, 20)
    world.sessions.end(first, "expired")
    world.sessions.renew("h", "sb1")
    assert world.sessions.over_for_good("h", "sb1") is None
    world.now += 3 * 86400
    world.sessions.forget_old()  # its row is gone, what it moved is not
    again = world.start()
    assert again.by_id("s1") is None and again.over_for_good("h", "sb1") is None
    second = again.register(stored(2, sandbox="sb1", deadline=1e9))
    assert second.moved == Moved(10, 20)
    again.end(second, "revoked")
    assert world.start().over_for_good("h", "sb1") == "revoked"


@pytest.mark.parametrize(
    ("reason", "renewable"),
    [("expired", True), ("idle", True), ("revoked", False), ("quota", False)],
)
def test_only_time_and_silence_can_be_renewed(reason: str, renewable: bool) -> None:
    assert is_renewable(reason) is renewable


def test_bytes_to_other_hosts_are_counted_over_all_sessions_of_a_sandbox(
    world: SessionsOnDisk,
) -> None:
    first = world.sessions.register(stored())
    assert first.egress.bytes.spend(1000)
    world.sessions.end(first, RELEASED)
    second = world.sessions.register(stored(2, sandbox=first.stored.sandbox))
    assert second.egress.bytes.used == 1000
    second.egress.bytes.spend(500)
    other = world.sessions.register(stored(3, sandbox="another"))
    assert other.egress.bytes.used == 0
    world.sessions.keep_usage()
    again = world.start()
    third = again.register(stored(4, sandbox=first.stored.sandbox))
    assert third.egress.bytes.used == 1500
    assert third.egress.bytes.spend(third.policy.limits.egress_max - 1500)
    assert not third.egress.bytes.spend(1)


def test_what_an_ended_session_moved_is_on_disk_with_its_end(world: SessionsOnDisk) -> None:
    session = world.sessions.register(stored())
    session.bytes.spend(10)
    session.egress.bytes.spend(20)
    world.sessions.end(session, RELEASED)
    assert world.start()._moved(*session.owner) == Moved(10, 20)
