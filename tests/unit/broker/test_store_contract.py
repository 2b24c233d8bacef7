"""What every store must do. A new one is a row of STORES."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from broker.sessions.store.interface import (
    AuditHead,
    Contents,
    CounterSeen,
    Moved,
    Over,
    SessionKnown,
    State,
    Store,
)
from broker.sessions.store.sqlite import open_sqlite
from tests.fakes.at_once import AtOnce
from tests.fakes.stored_session import SESSION

# Each opens the store at a place, or another connection to it.
STORES: dict[str, Callable[[Path], Store]] = {"sqlite": open_sqlite}


Reopened = Callable[[], Any]


@pytest.fixture(params=STORES)
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Reopened:
    """As another process would see it, with the first one still open: nothing was flushed."""
    open_store = STORES[request.param]
    return lambda: AtOnce(open_store(tmp_path / "store"))


@pytest.fixture
def store(reopened: Reopened) -> Any:
    return reopened()


def test_a_new_store_is_empty(store: Any) -> None:
    assert store.load() == Contents([], {}, {}, 0, None)


def test_a_session_is_there_for_the_next_process(store: Any, reopened: Reopened) -> None:
    store.admit(SESSION)
    assert reopened().load().sessions == [SESSION]


def test_activation_and_end_are_kept(store: Any, reopened: Reopened) -> None:
    store.admit(SESSION)
    store.activate("s1", 77, 88, 99)
    active = evolve(SESSION, state=State.ACTIVE, pid=77, netns=88, cgroup=99)
    assert reopened().load().sessions == [active]
    store.end("s1", "revoked")
    ended = evolve(active, state=State.ENDED, reason="revoked")
    assert reopened().load().sessions == [ended]


def test_a_counter_is_used_once_per_host_and_boot(store: Any, reopened: Reopened) -> None:
    store.admit(SESSION)
    again = evolve(SESSION, id="s2", key=b"k" * 32)
    with pytest.raises(CounterSeen):
        reopened().admit(again)
    assert [one.id for one in store.load().sessions] == ["s1"]
    store.admit(evolve(again, counter=2))
    store.admit(evolve(again, id="s3", key=b"l" * 32, host_boot="c"))
    store.admit(evolve(again, id="s4", key=b"m" * 32, host="i"))


def test_a_forgotten_session_leaves_its_counter_used(store: Any) -> None:
    store.admit(SESSION)
    store.forget("s1")
    assert store.load().sessions == []
    with pytest.raises(CounterSeen):
        store.admit(SESSION)


def test_a_session_that_cannot_be_kept_leaves_its_counter_free(store: Any) -> None:
    store.admit(SESSION)
    with pytest.raises(SessionKnown):
        store.admit(evolve(SESSION, counter=2))
    store.admit(evolve(SESSION, id="s2", key=b"k" * 32, counter=2))


def test_the_audit_head_is_replaced(store: Any, reopened: Reopened) -> None:
    assert store.load().audit_head is None
    store.keep_audit_head(AuditHead(1, "aa"))
    store.keep_audit_head(AuditHead(2, "bb"))
    assert reopened().load().audit_head == AuditHead(2, "bb")


def test_what_is_over_for_good_is_kept_with_the_end_of_its_session(
    store: Any, reopened: Reopened
) -> None:
    store.admit(SESSION)
    store.end("s1", "revoked", over=1000, moved=Moved(5, 7))
    store.forget("s1")
    over = {("h", "sb1"): Over("revoked", Moved(5, 7))}
    assert reopened().load().over == over
    store.forget_over(1000)
    assert store.load().over == over
    store.forget_over(1001)
    assert store.load().over == {}


def test_a_renewal_changes_the_reason_alone_and_of_that_sandbox_alone(
    store: Any, reopened: Reopened
) -> None:
    store.admit(SESSION)
    store.admit(evolve(SESSION, id="s2", key=b"k2", sandbox="sb2", counter=99))
    store.end("s1", "idle", over=1000, moved=Moved(5, 7))
    store.end("s2", "idle", over=1000)
    store.renew("h", "sb1", "idle", "renewed")
    over = {("h", "sb1"): Over("renewed", Moved(5, 7)), ("h", "sb2"): Over("idle")}
    assert reopened().load().over == over


def test_an_extension_and_the_clock_are_kept(store: Any, reopened: Reopened) -> None:
    store.admit(SESSION)
    store.extend("s1", 9000.25, 9500.5)
    assert store.load().highest_wall == 0
    store.keep_wall(5)
    store.keep_wall(7)
    again = reopened()
    assert again.load().sessions == [evolve(SESSION, deadline=9000.25, latest=9500.5)]
    assert again.load().highest_wall == 7


def test_what_was_moved_is_kept_and_forgotten_with_its_session(
    store: Any, reopened: Reopened
) -> None:
    store.admit(SESSION)
    store.keep_usage({"s1": Moved(5, 7), "s2": Moved(0, 1)})
    assert reopened().load().usage == {"s1": Moved(5, 7), "s2": Moved(0, 1)}
    store.forget("s1")
    assert reopened().load().usage == {"s2": Moved(0, 1)}


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.activate("s1", 7, 8, 9),
        lambda store: store.extend("s1", 1.0, 2.0),
        lambda store: store.rescope(SESSION, 2, '{"wider": 1}'),
    ],
    ids=("activate", "extend", "rescope"),
)
def test_what_has_ended_is_changed_by_no_call_that_comes_later(
    store: Any, reopened: Reopened, call: Callable[[Any], None]
) -> None:
    store.admit(SESSION)
    store.end("s1", "revoked", over=1000)
    call(store)
    assert reopened().load().sessions == [evolve(SESSION, state=State.ENDED, reason="revoked")]


def test_a_renewal_that_comes_after_a_revocation_changes_nothing(
    store: Any, reopened: Reopened
) -> None:
    store.admit(SESSION)
    store.end("s1", "idle", over=1000)
    store.end("s1", "revoked", over=1001)
    store.renew("h", "sb1", "idle", "renewed")
    assert reopened().load().over == {("h", "sb1"): Over("revoked")}


def test_what_was_moved_only_grows(store: Any, reopened: Reopened) -> None:
    store.keep_usage({"s1": Moved(5, 70)})
    store.keep_usage({"s1": Moved(50, 7)})
    assert reopened().load().usage == {"s1": Moved(50, 70)}


def test_another_scope_uses_up_its_counter_and_an_old_counter_changes_nothing(
    store: Any, reopened: Reopened
) -> None:
    store.admit(SESSION)
    store.rescope(SESSION, 2, '{"other": 1}')
    with pytest.raises(CounterSeen):
        store.rescope(SESSION, 2, '{"third": 1}')
    with pytest.raises(CounterSeen):
        store.admit(evolve(SESSION, id="s2", key=b"k" * 32, counter=2))
    assert reopened().load().sessions == [evolve(SESSION, scope='{"other": 1}')]


def test_two_of_one_store_give_a_counter_and_a_key_to_one_of_them(
    store: Any, reopened: Reopened
) -> None:
    other = reopened()
    store.admit(SESSION)
    with pytest.raises(CounterSeen):
        other.admit(evolve(SESSION, id="s2", key=b"k" * 32))
    with pytest.raises(SessionKnown):
        other.admit(evolve(SESSION, id="s2", counter=2))
    assert other.load().sessions == [SESSION]
