"""Failpoints: hostd stands still where a test says so, and has none when nobody handed it any."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from hostd.failpoints import Failpoints
from tests.stage.sources import ROOT, files
from tests.waiting import PATIENCE

Pair = tuple[socket.socket, Failpoints]


@pytest.fixture
def pair() -> Iterator[Pair]:
    test, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    test.settimeout(PATIENCE)
    with test, theirs:
        yield test, Failpoints(theirs)


def reached(points: Failpoints, *steps: str) -> threading.Thread:
    def pass_them() -> None:
        for step in steps:
            points.reached(step, "box")

    thread = threading.Thread(target=pass_them)
    thread.start()
    return thread


def test_without_a_socket_nothing_happens() -> None:
    Failpoints().reached("rooms", "box")
    Failpoints.of(None).reached("rooms", "box")


def test_it_stands_still_at_the_step_until_it_is_told_to_go_on(pair: Pair) -> None:
    test, points = pair
    test.send(b"rules 1")
    thread = reached(points, "rooms", "rules", "rules")
    assert test.recv(100) == b"rules box"
    assert thread.is_alive()
    test.send(b"rules 0")
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_it_counts_how_often_a_step_was_written(pair: Pair) -> None:
    test, points = pair
    test.send(b"ending 3")
    points.reached("ending", "box")
    points.reached("ending", "box")
    thread = reached(points, "ending")
    assert test.recv(100) == b"ending box"
    test.close()  # the end of the test lets it go on
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_point_can_be_taken_back(pair: Pair) -> None:
    test, points = pair
    test.send(b"rules 1")
    test.send(b"rules 0")
    points.reached("rules", "box")


def test_it_takes_nothing_but_a_socket_of_packets() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs, pytest.raises(ValueError, match="SOCK_SEQPACKET"):
        Failpoints.of(theirs.detach())


def test_nobody_in_the_product_hands_any_over() -> None:
    """hostd's own modules have the option; whatever starts hostd does not name it."""
    places = [*files(ROOT / "hostctl"), *files(ROOT / "packaging" / "systemd", "*")]
    assert [path.name for path in places if "failpoint" in path.read_text().lower()] == []
    naming = {
        path.name for path in files(ROOT / "hostd") if "failpoint" in path.read_text().lower()
    }
    assert naming == {"__main__.py", "failpoints.py", "registry.py", "service.py"}
