"""What becomes of an upstream's answer on its way down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.kinds.git_answers import FREE_LINES, AnswerFilter, clean
from gitmoat.wire.git.pktline import FLUSH, format_data

HUGE = 1 << 40

payloads = st.binary(min_size=0, max_size=40)
packets = st.lists(
    st.one_of(
        payloads.map(format_data),
        payloads.map(lambda one: format_data(b"\x01" + one)),
        payloads.map(lambda one: format_data(b"\x02" + one)),
        st.sampled_from([b"0000", b"0001", b"0002", b"0004"]),
    ),
    max_size=8,
).map(b"".join)
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=20)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    found, at, turn = [], 0, 0
    while at < len(data):
        found.append(data[at : at + cuts[turn % len(cuts)]])
        at, turn = at + cuts[turn % len(cuts)], turn + 1
    return found


def test_control_bytes_in_progress_and_errors_are_replaced() -> None:
    evil = b"\x1b]0;owned\x07 \xc2\x9b31m ok\r\n"
    answer = format_data(b"\x02" + evil) + format_data(b"\x03" + evil) + FLUSH
    shown = AnswerFilter(HUGE).feed(answer)
    assert b"\x1b" not in shown and b"\x07" not in shown and b"\xc2\x9b" not in shown
    assert b"?]0;owned? \xc2?31m ok\r\n" in shown
    assert len(shown) == len(answer)


def test_a_control_cut_in_half_by_the_upstream_is_replaced_and_text_is_not() -> None:
    """Git joins what several pkts say into one line."""
    answer = format_data(b"\x02a\xc2") + format_data(b"\x01pack") + format_data(b"\x02\x9b31m\n")
    assert AnswerFilter(HUGE).feed(answer) == answer.replace(b"\x9b", b"?")
    fine = format_data(b"\x02\xc2") + format_data(b"\x02\xa9 \xc2\xa9\n")
    assert AnswerFilter(HUGE).feed(fine) == fine


def test_an_error_line_is_text_too() -> None:
    answer = format_data(b"ERR \x1b[2Jgone")
    assert AnswerFilter(HUGE).feed(answer) == format_data(b"ERR ?[2Jgone")


def test_the_report_of_a_push_is_text_in_every_band() -> None:
    report = format_data(b"unpack ok\n") + format_data(b"ng refs/heads/x \x1b[1m\n") + FLUSH
    answer = format_data(b"\x01" + report) + FLUSH
    shown = AnswerFilter(HUGE, report=True).feed(answer)
    assert shown == answer.replace(b"\x1b", b"?")
    assert AnswerFilter(HUGE, report=True).feed(report) == report.replace(b"\x1b", b"?")


def test_pack_data_is_never_touched() -> None:
    pack = bytes(range(256)) * 10
    answer = format_data(b"NAK\n") + format_data(b"\x01" + pack) + FLUSH
    assert AnswerFilter(HUGE).feed(answer) is answer
    raw = format_data(b"NAK\n") + b"PACK" + pack
    assert AnswerFilter(HUGE).feed(raw) is raw


@given(packets, sizes)
def test_any_chunking_gives_the_same_bytes_in_the_same_number(data: bytes, cuts: list[int]) -> None:
    split = AnswerFilter(HUGE)
    shown = b"".join(map(split.feed, pieces(data, cuts)))
    assert len(shown) == len(data)
    assert b"\x1b" not in AnswerFilter(HUGE, report=True).feed(data)
    assert shown == AnswerFilter(HUGE).feed(data)


@given(st.binary())
def test_no_input_breaks_the_walk_or_changes_its_length(data: bytes) -> None:
    assert len(AnswerFilter(HUGE).feed(data)) == len(data)


@given(st.binary(max_size=60), sizes)
def test_cleaned_text_holds_no_control_however_it_is_cut(text: bytes, cuts: list[int]) -> None:
    shown = b""
    for piece in pieces(text, cuts):
        shown += clean(piece, shown[-1:])
    assert len(shown) == len(text)
    assert not any((byte < 32 and byte not in b"\t\n\r") or byte == 127 for byte in shown)
    decoded = shown.decode("utf-8", "replace")
    assert not any(0x80 <= ord(char) < 0xA0 for char in decoded)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_answer_over_the_limit_ends_between_two_pkts_with_a_message(size: int) -> None:
    answer = format_data(b"\x01" + b"p" * 50) * 20 + FLUSH
    walk = AnswerFilter(limit=200)
    shown = b""
    for piece in pieces(answer, [size]):
        shown += walk.feed(piece)
        if walk.over:
            break
    assert walk.over and not walk.raw
    assert len(shown) % 55 == 0 and 200 <= len(shown) <= 255
    assert walk.farewell(["too much (G302)"]) == format_data(b"\x03too much (G302)\n") + FLUSH


def test_an_advertisement_over_the_limit_ends_with_an_error_line() -> None:
    walk = AnswerFilter(limit=10)
    walk.feed(format_data(b"0" * 40 + b" refs/heads/a\n") * 2)
    assert walk.over
    assert walk.farewell(["too much"]) == format_data(b"ERR too much")


def test_a_raw_pack_over_the_limit_can_only_be_cut() -> None:
    walk = AnswerFilter(limit=100)
    walk.feed(b"PACK" + bytes(200))
    assert walk.over and walk.raw


SHORT = [b"0000", b"0004", b"0005x", b"0005\x01", b"0006\x02.", b"0005E"]


@pytest.mark.parametrize("line", SHORT)
@pytest.mark.parametrize("report", [False, True])
def test_an_answer_that_is_sliced_finely_without_end_is_ended_between_two_lines(
    line: bytes, report: bool
) -> None:
    answers = AnswerFilter(HUGE, report=report)
    passed = 0
    for _ in range(20):
        passed += len(answers.feed(line * 20_000))
        if answers.over:
            break
    assert answers.over and answers.too_fine and answers.between
    assert passed % len(line) == 0


@pytest.mark.parametrize("line", SHORT)
def test_so_many_short_lines_are_free(line: bytes) -> None:
    answers = AnswerFilter(HUGE)
    assert len(answers.feed(line * FREE_LINES)) == FREE_LINES * len(line)
    assert not answers.over


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (format_data(b"a" * 40 + b" refs/heads/x\n"), False),
        (format_data(b"ACK " + b"a" * 40 + b"\n"), False),
        (format_data(b"shallow " + b"a" * 40 + b"\n"), False),
        (format_data(b"ok refs/heads/x\n"), True),
    ],
)
def test_what_git_servers_send_is_never_too_fine(line: bytes, report: bool) -> None:
    answers = AnswerFilter(HUGE, report=report)
    for _ in range(20):
        assert len(answers.feed(line * 10_000)) == len(line) * 10_000
    assert not answers.over


def test_progress_within_a_long_answer_is_earned_by_its_bytes() -> None:
    answers = AnswerFilter(HUGE)
    pack = format_data(b"\x01" + bytes(60_000))
    for _ in range(200):
        answers.feed(pack + b"0006\x02." * 1000)
    assert not answers.over
