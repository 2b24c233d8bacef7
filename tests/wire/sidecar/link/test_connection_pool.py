from __future__ import annotations

from itertools import pairwise

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from sidecar.link.connection_pool import (
    ACQUIRE_TIMEOUT,
    DIAL_TIMEOUT,
    HANDSHAKE_PROVEN,
    IDLE_LINKS,
    LONGEST_DELAY,
    BrokerUnreachable,
    ConnectionPool,
    Proof,
    Share,
    full_jitter,
)


class FakeLink:
    def __init__(self, world: PoolOfFakes) -> None:
        self.world = world
        self.closed = False
        self.idle = True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.world.pool.lost(self)


class PoolOfFakes:
    """A pool, a clock, and a hostd that counts what it is asked."""

    def __init__(self, cap: int = 16) -> None:
        self.clock = Clock()
        self.dials = 0
        self.control = True
        self.links: list[FakeLink] = []
        self.pool: ConnectionPool[FakeLink] = ConnectionPool(
            self.clock, self.dial, cap, lambda: 1.0
        )

    def dial(self) -> bool:
        self.dials += self.control
        return self.control

    def connect(self) -> FakeLink:
        link = FakeLink(self)
        if self.pool.add(link):
            self.links.append(link)
        else:
            link.closed = True
        return link

    def open(self) -> FakeLink:
        link = self.connect()
        self.pool.opened(link)
        return link

    def serve(self, share: Share = Share.TRUSTED) -> FakeLink:
        """A waiting request gets a link that hostd dialled just now."""
        got = results(self.pool.acquire(share))
        if not got:
            self.open()
        [link] = got
        assert isinstance(link, FakeLink)
        return link


def results(waiting: Deferred[FakeLink]) -> list[object]:
    found: list[object] = []
    waiting.addBoth(found.append)
    return found


def unreachable(found: list[object]) -> bool:
    [failure] = found
    return isinstance(failure, Failure) and isinstance(failure.value, BrokerUnreachable)


def test_nothing_is_dialled_before_the_start() -> None:
    world = PoolOfFakes()
    world.pool.control_changed()
    world.clock.advance(100)
    assert world.dials == 0


def test_two_connections_are_kept_warm() -> None:
    world = PoolOfFakes()
    world.pool.start()
    assert world.dials == IDLE_LINKS == 2
    world.open()
    world.open()
    world.clock.advance(1000)
    assert world.dials == 2
    world.links[0].close()
    assert world.dials == 3


def test_a_request_takes_a_warm_connection_at_once_and_another_is_asked_for() -> None:
    world = PoolOfFakes()
    world.pool.start()
    first, second = world.open(), world.open()
    got = results(world.pool.acquire(Share.TRUSTED))
    assert got == [second]
    assert world.dials == 3
    assert not first.closed


def test_who_asks_later_does_not_overtake_who_waits() -> None:
    world = PoolOfFakes(cap=2)  # one of them for untrusted requests
    world.pool.start()
    busy = world.serve(Share.UNTRUSTED)
    world.open()
    waits, later = [results(world.pool.acquire(Share.UNTRUSTED)) for _ in range(2)]
    assert not waits and not later
    busy.idle = False
    world.pool.release(busy, Proof.ANSWERED)
    assert len(waits) == 1 and not later


def test_a_share_is_full_when_all_it_may_hold_is_in_use_or_waited_for() -> None:
    world = PoolOfFakes(cap=4)  # three of them for untrusted requests
    world.pool.start()
    held = [world.serve(Share.UNTRUSTED) for _ in range(2)]
    assert not world.pool.full(Share.UNTRUSTED)
    waits = world.pool.acquire(Share.UNTRUSTED)
    assert world.pool.full(Share.UNTRUSTED) and not world.pool.full(Share.TRUSTED)
    waits.addErrback(lambda failure: failure.trap(CancelledError)).cancel()
    world.pool.release(held[0], Proof.ANSWERED)
    assert not world.pool.full(Share.UNTRUSTED)


def test_a_released_connection_is_used_again() -> None:
    world = PoolOfFakes()
    world.pool.start()
    link = world.serve()
    world.pool.release(link, Proof.ANSWERED)
    assert results(world.pool.acquire(Share.TRUSTED)) == [link]


def test_a_connection_that_is_not_clean_is_closed_not_reused() -> None:
    world = PoolOfFakes()
    world.pool.start()
    link = world.serve()
    link.idle = False
    world.pool.release(link, Proof.ANSWERED)
    assert link.closed


def test_requests_are_served_in_the_order_they_came() -> None:
    world = PoolOfFakes()
    world.pool.start()
    waiting = [results(world.pool.acquire(Share.TRUSTED)) for _ in range(3)]
    links = [world.open() for _ in range(3)]
    assert waiting == [[links[0]], [links[1]], [links[2]]]


def test_never_more_connections_than_the_cap() -> None:
    world = PoolOfFakes(cap=4)
    world.pool.start()
    waiting = [results(world.pool.acquire(Share.TRUSTED)) for _ in range(50)]
    assert world.dials == 4
    for _ in range(4):
        world.open()
    assert world.dials == 4
    assert sum(map(bool, waiting)) == 4
    extra = world.connect()
    assert extra.closed


def test_untrusted_requests_leave_connections_for_the_helper() -> None:
    world = PoolOfFakes(cap=8)
    world.pool.start()
    flood = [results(world.pool.acquire(Share.UNTRUSTED)) for _ in range(50)]
    for _ in range(8):
        world.open()
    assert sum(map(bool, flood)) == 6
    assert results(world.pool.acquire(Share.TRUSTED)) != []


def test_an_unreachable_broker_is_said_within_ten_seconds() -> None:
    world = PoolOfFakes()
    world.pool.start()
    got = results(world.pool.acquire(Share.TRUSTED))
    world.clock.advance(ACQUIRE_TIMEOUT - 0.01)
    assert got == []
    world.clock.advance(0.01)
    assert unreachable(got)
    assert ACQUIRE_TIMEOUT < 10


def test_without_hostd_requests_fail_in_time_and_work_when_it_returns() -> None:
    world = PoolOfFakes()
    world.control = False
    world.pool.start()
    got = results(world.pool.acquire(Share.TRUSTED))
    world.clock.advance(ACQUIRE_TIMEOUT)
    assert unreachable(got)
    assert world.dials == 0
    later = results(world.pool.acquire(Share.TRUSTED))
    world.control = True
    world.pool.control_changed()
    assert world.dials == 3
    assert later == []
    link = world.open()
    assert later == [link]


def test_dials_of_a_lost_hostd_are_asked_again() -> None:
    world = PoolOfFakes()
    world.pool.start()
    world.pool.control_changed()
    assert world.dials == 4


def test_failures_back_off_doubling_up_to_a_bound() -> None:
    world = PoolOfFakes()
    world.pool.start()
    world.pool.dial_failed()
    world.pool.dial_failed()
    gaps = []
    for _ in range(10):
        before, waited = world.dials, 0.0
        while world.dials == before:
            world.clock.advance(0.05)
            waited += 0.05
        gaps.append(waited)
        assert world.dials == before + 1
        world.pool.dial_failed()
    assert all(b >= a - 0.06 for a, b in pairwise(gaps))
    assert gaps[-1] >= LONGEST_DELAY - 0.1
    assert max(gaps) <= LONGEST_DELAY + 0.1


def test_jitter_spreads_but_never_lengthens() -> None:
    drawn = [full_jitter() for _ in range(200)]
    assert min(drawn) >= 0.5
    assert max(drawn) <= 1.0
    assert len(set(drawn)) > 20


def test_a_waiting_request_does_not_sleep_through_a_long_back_off() -> None:
    world = PoolOfFakes()
    world.pool.start()
    for _ in range(12):
        world.pool.dial_failed()
        world.pool.dial_failed()
        world.clock.advance(LONGEST_DELAY)
    world.pool.dial_failed()
    before = world.dials
    got = results(world.pool.acquire(Share.TRUSTED))
    world.clock.advance(1.1)
    assert world.dials == before + 1
    link = world.open()
    assert got == [link]


def test_a_broker_that_comes_back_is_found_while_a_request_waits() -> None:
    world = PoolOfFakes()
    world.pool.start()
    world.pool.dial_failed()
    world.pool.dial_failed()
    got = results(world.pool.acquire(Share.TRUSTED))
    for _ in range(6):
        before = world.dials
        world.clock.advance(1.1)
        assert world.dials == before + 1
        world.pool.dial_failed()
    world.clock.advance(1.1)
    assert got == [world.open()]


def test_requests_in_a_loop_dial_at_most_once_a_second_while_it_fails() -> None:
    world = PoolOfFakes()
    world.pool.start()
    world.pool.dial_failed()
    world.pool.dial_failed()
    before = world.dials
    for _ in range(100):
        world.pool.acquire(Share.UNTRUSTED).addErrback(lambda _: None)
        world.clock.advance(0.1)
        world.pool.dial_failed()
    assert world.dials - before <= 16


def test_a_broker_that_closes_after_the_handshake_is_backed_off_from() -> None:
    world = PoolOfFakes()
    world.pool.start()
    for _ in range(200):
        world.open().close()
        world.clock.advance(0.1)
    assert world.dials < 20


def test_a_settled_connection_that_the_broker_closes_is_replaced_at_once() -> None:
    world = PoolOfFakes()
    world.pool.start()
    link, _ = world.open(), world.open()
    world.clock.advance(HANDSHAKE_PROVEN + 1)
    link.close()
    assert world.dials == 3


def test_a_served_exchange_ends_the_back_off() -> None:
    world = PoolOfFakes()
    world.pool.start()
    world.pool.dial_failed()
    world.pool.dial_failed()
    world.clock.advance(1)
    link = world.serve()
    world.pool.release(link, Proof.ANSWERED)
    before = world.dials
    results(world.pool.acquire(Share.TRUSTED))
    assert world.dials > before


def dialled_for(world: PoolOfFakes, requests: int) -> int:
    before = world.dials
    for _ in range(requests):
        results(world.pool.acquire(Share.TRUSTED))
    return world.dials - before


def used(world: PoolOfFakes, proof: Proof) -> None:
    """A link that served nobody before, and is not clean after."""
    link = world.serve()
    link.idle = False
    world.pool.release(link, proof)
    assert link.closed


def test_links_that_nobody_waited_for_cost_no_back_off() -> None:
    world = PoolOfFakes()
    world.pool.start()
    for _ in range(20):
        used(world, Proof.NONE)
    assert dialled_for(world, 5) == 5


def test_links_that_brought_no_answer_do() -> None:
    world = PoolOfFakes()
    world.pool.start()
    used(world, Proof.FAILED)
    assert dialled_for(world, 5) == 0


def test_a_link_that_nobody_waited_for_does_not_end_the_back_off() -> None:
    """Or somebody who gives up in a loop would make us dial in one."""
    world = PoolOfFakes()
    world.pool.start()
    used(world, Proof.FAILED)
    world.pool.dial_failed()
    world.clock.advance(1)
    used(world, Proof.NONE)
    assert dialled_for(world, 5) == 0


def test_a_link_that_brought_an_answer_once_is_no_failure_later() -> None:
    world = PoolOfFakes()
    world.pool.start()
    link = world.serve()
    world.pool.release(link, Proof.ANSWERED)
    used(world, Proof.FAILED)
    assert link.closed
    assert dialled_for(world, 5) == 5


def test_a_connection_that_is_closing_is_not_handed_out() -> None:
    world = PoolOfFakes()
    world.pool.start()
    good, dying = world.open(), world.open()
    dying.idle = False
    assert results(world.pool.acquire(Share.TRUSTED)) == [good]
    assert dying.closed


def test_a_dial_without_an_answer_is_forgotten() -> None:
    world = PoolOfFakes()
    world.pool.start()
    world.clock.advance(DIAL_TIMEOUT)
    world.clock.advance(5)
    assert world.dials > 2


def test_a_request_that_is_withdrawn_takes_no_connection() -> None:
    world = PoolOfFakes()
    world.pool.start()
    waiting = world.pool.acquire(Share.TRUSTED)
    got = results(waiting)
    waiting.cancel()
    assert len(got) == 1
    world.open()
    assert results(world.pool.acquire(Share.TRUSTED)) != []


def test_closing_closes_every_link_and_leaves_no_timer() -> None:
    world = PoolOfFakes()
    world.pool.start()
    world.open()
    world.connect()
    busy = world.serve()
    waiting = [results(world.pool.acquire(Share.TRUSTED)) for _ in range(3)]
    world.pool.close()
    assert all(link.closed for link in world.links)
    assert busy.closed
    assert sum(map(bool, waiting)) == 3
    late = world.connect()
    assert late.closed
    assert world.clock.getDelayedCalls() == []
