import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.pktline import Data, Flush, PktReader
from gitmoat.wire.git.receivepack import Command, ObjectId, PushCommands, RefName
from gitmoat.wire.git.report_status import WITH_THE_REST, refuse_fetch, refuse_push


def push(*refs: str, capabilities: tuple[str, ...] = ("report-status",)) -> PushCommands:
    ids = ObjectId("0" * 40), ObjectId("1" * 40)
    return PushCommands(tuple(Command(*ids, RefName(ref)) for ref in refs), capabilities)


def bands(wire: bytes, limit: int = 65520) -> tuple[bytes, bytes]:
    """The report (band 1) and what people read (band 2) of a whole answer."""
    pkts, found = PktReader(1 << 24).feed(wire), {1: b"", 2: b""}
    assert pkts.pop() == Flush()
    for pkt in pkts:
        assert isinstance(pkt, Data) and 1 < len(pkt.payload) <= limit - 4
        found[pkt.payload[0]] += pkt.payload[1:]
    return found[1], found[2]


REPORT = b"000eunpack ok\n0017ng refs/heads/a no\n0000"


def test_without_side_band_the_report_stands_alone() -> None:
    assert refuse_push(push("refs/heads/a"), ["unseen"], "no") == REPORT


def test_with_side_band_people_read_first() -> None:
    commands = push("refs/heads/a", capabilities=("report-status-v2", "side-band-64k"))
    answer = refuse_push(commands, ["one", "two"], "no")
    assert answer == b"0009\x02one\n0009\x02two\n" + b"002e\x01" + REPORT + b"0000"


def test_without_report_status_only_the_text_is_sent() -> None:
    commands = push("refs/heads/a", capabilities=("side-band-64k",))
    assert bands(refuse_push(commands, ["one"], "no")) == (b"", b"one\n")
    assert refuse_push(push("refs/heads/a", capabilities=()), ["one"], "no") == b""


def test_a_ref_without_its_own_reason_is_refused_with_the_rest() -> None:
    answer = refuse_push(push("refs/heads/a", "refs/heads/b"), [], {"refs/heads/a": "G201 no"})
    assert b"ng refs/heads/a G201 no\n" in answer
    assert b"ng refs/heads/b " + WITH_THE_REST.encode() + b"\n" in answer


def test_refs_are_reported_in_the_bytes_they_came_in() -> None:
    assert b"ng refs/heads/\xc3\xa9 no\n" in refuse_push(push("refs/heads/é"), [], "no")


def test_names_that_are_no_refs_are_reported_so_too() -> None:
    odd = [b"refs/heads/\xe4", b"HEAD"]
    answer = refuse_push(push("refs/heads/a"), [], {"refs/heads/a": "yes"}, odd)
    assert b"ng refs/heads/a yes\n" in answer
    for name in odd:
        assert b"ng " + name + b" refused with the rest\n" in answer
    assert b"ng refs/heads/\xe4 no\n" in refuse_push(push("refs/heads/a"), [], "no", odd)


def test_control_and_foreign_characters_are_not_shown() -> None:
    commands = push("refs/heads/a", capabilities=("report-status", "side-band-64k"))
    report, text = bands(refuse_push(commands, ["a\x1b[31m\nb\x9bé"], "no\nng refs/heads/z\0"))
    assert text == b"a?[31m?b??\n"
    assert b"ng refs/heads/a no?ng refs/heads/z?\n" in report


def test_the_longest_ref_and_reason_fit() -> None:
    ref = "refs/heads/" + "a" * 1000
    answer = refuse_push(push(ref), [], "x" * 100_000, [b"a" * 60_000])
    assert len(PktReader(1 << 20).feed(answer)) == 4


@pytest.mark.parametrize(("capability", "limit"), [("side-band", 1000), ("side-band-64k", 65520)])
def test_no_side_band_pkt_is_longer_than_the_client_takes(capability: str, limit: int) -> None:
    refs = [f"refs/heads/{each:0500}" for each in range(300)]
    commands = push(*refs, capabilities=("report-status", capability))
    report, text = bands(refuse_push(commands, ["t" * 3000], "no"), limit)
    assert text == b"t" * 3000 + b"\n"
    assert len(PktReader(1 << 20).feed(report)) == 302


def test_a_refused_fetch_is_one_error_pkt() -> None:
    assert refuse_fetch("G105 no") == b"000fERR G105 no"


def test_a_refused_fetch_keeps_its_lines_and_nothing_else_below_space() -> None:
    assert refuse_fetch("a\nb\x1b\x07é") == b"000eERR a\nb???"


@given(st.text(max_size=200_000))
def test_any_message_fits_into_one_pkt(message: str) -> None:
    (pkt,) = PktReader(1 << 17).feed(refuse_fetch(message))
    assert isinstance(pkt, Data) and pkt.payload.startswith(b"ERR ")


@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=30))
def test_any_text_gives_one_well_formed_answer(text: list[str], reason: str) -> None:
    commands = push("refs/heads/a", capabilities=("report-status", "side-band"))
    report, shown = bands(refuse_push(commands, text, reason), 1000)
    assert shown.count(b"\n") == len(text)
    assert len(PktReader(1 << 20).feed(report)) == 3
