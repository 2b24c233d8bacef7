"""One transport: reasons to hold it, and the order in which it is closed."""

from typing import Any

import pytest

from streams.wire import Wire


class Spied:
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.no_delay: list[bool] = []

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.no_delay.append(enabled)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.told.append(name)


def made(secure: bool = False) -> tuple[Wire, Spied, list[str]]:
    spied, flows = Spied(), list[str]()
    wire = Wire(spied, secure, lambda: flows.append("blocked" if wire.blocked else "free"))
    assert spied.told == ["registerProducer"]
    spied.told.clear()
    return wire, spied, flows


def test_small_writes_are_not_delayed() -> None:
    assert made()[1].no_delay == [True]


def test_reading_goes_on_only_when_the_last_reason_has_gone() -> None:
    wire, spied, _ = made()
    wire.hold("one")
    wire.hold("two")
    wire.hold("one")
    wire.release("one")
    wire.release("one")
    wire.release("three")
    assert spied.told == ["pauseProducing"] and wire.held
    wire.release("two")
    wire.release("two")
    assert spied.told == ["pauseProducing", "resumeProducing"]


def test_reading_is_not_resumed_behind_the_end() -> None:
    wire, spied, _ = made()
    wire.hold("one")
    wire.ended()
    wire.release("one")
    assert spied.told == ["pauseProducing"]


def test_flow_is_told_both_ways() -> None:
    wire, _, flows = made()
    wire.pauseProducing()
    wire.resumeProducing()
    assert flows == ["blocked", "free"]


@pytest.mark.parametrize(
    ("secure", "last"), [(False, "loseWriteConnection"), (True, "loseConnection")]
)
def test_finishing_unregisters_and_resumes_before_it_closes(secure: bool, last: str) -> None:
    wire, spied, _ = made(secure)
    wire.hold("one")
    wire.finish()
    assert spied.told == ["pauseProducing", "unregisterProducer", "resumeProducing", last]
    wire.write([b"late"])
    wire.finish()
    assert len(spied.told) == 4


def test_lost_transport_is_left_alone() -> None:
    wire, spied, _ = made()
    wire.lost()
    wire.hold("one")
    wire.release("one")
    wire.write([b"x"])
    wire.finish()
    wire.close()
    wire.abort()
    assert spied.told == []


def test_transports_of_twisteds_get_bytes_and_ours_what_there_is() -> None:
    class Takes:
        def __init__(self, views: bool) -> None:
            self.got: list[Any] = []
            if views:
                self.takes_views = True

        def registerProducer(self, *_: object) -> None:
            """Nothing blocks here."""

        def writeSequence(self, pieces: Any) -> None:
            self.got += pieces

    for views, kind in ((True, memoryview), (False, bytes)):
        transport = Takes(views)
        Wire(transport, False, lambda: None).write([b"a", memoryview(b"b")])
        assert [bytes(piece) for piece in transport.got] == [b"a", b"b"]
        assert type(transport.got[1]) is kind
