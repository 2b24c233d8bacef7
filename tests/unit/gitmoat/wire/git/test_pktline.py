import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.pktline import (
    FLUSH,
    MAX_PAYLOAD,
    Data,
    Delim,
    Flush,
    Pkt,
    PktReader,
    ResponseEnd,
    format_data,
)
from gitmoat.wire.malformed import Malformed

WIRE = {Flush(): b"0000", Delim(): b"0001", ResponseEnd(): b"0002"}
PKTS = st.lists(st.sampled_from([*WIRE]) | st.binary(max_size=40).map(Data), max_size=12)


def format_pkt(pkt: Pkt) -> bytes:
    return format_data(pkt.payload) if isinstance(pkt, Data) else WIRE[pkt]


def read_pieces(reader: PktReader, wire: bytes, sizes: list[int]) -> list[Pkt]:
    pkts: list[Pkt] = []
    for size in sizes:
        if reader.stopped:
            break
        pkts += reader.feed(wire[:size])
        wire = wire[size:]
    return pkts if reader.stopped else pkts + reader.feed(wire)


@pytest.mark.parametrize(
    ("wire", "pkts"),
    [
        (b"", []),
        (b"0000", [Flush()]),
        (b"0001", [Delim()]),
        (b"0002", [ResponseEnd()]),
        (b"0004", [Data(b"")]),
        (b"0006a\n", [Data(b"a\n")]),
        (b"000bfoobar\n0000", [Data(b"foobar\n"), Flush()]),
        (b"000Bfoobar\n", [Data(b"foobar\n")]),
        (b"fff0" + b"x" * MAX_PAYLOAD, [Data(b"x" * MAX_PAYLOAD)]),
    ],
)
def test_pkts_are_cut_whole_and_byte_by_byte(wire: bytes, pkts: list[Pkt]) -> None:
    assert PktReader(1 << 20).feed(wire) == pkts
    assert read_pieces(PktReader(1 << 20), wire, [1] * len(wire)) == pkts


@pytest.mark.parametrize(
    "wire",
    [b"0003", b"fff1", b"ffff", b"000g", b"-001", b"+004", b"0x04", b" 004", b"00_4", b"PACK"],
)
def test_lengths_git_does_not_send_are_refused(wire: bytes) -> None:
    reader = PktReader(1 << 20)
    for _ in range(2):
        with pytest.raises(Malformed):
            reader.feed(wire)
    with pytest.raises(Malformed):
        reader.finish()


def test_a_pkt_beyond_the_limit_is_refused_by_its_length_alone() -> None:
    reader = PktReader(limit=20)
    assert reader.feed(b"0010" + b"x" * 12) == [Data(b"x" * 12)]
    with pytest.raises(Malformed) as refused:
        reader.feed(b"0005")
    assert refused.value.status == 413


def test_a_limit_takes_exactly_that_much() -> None:
    assert PktReader(limit=9).feed(b"0005a0000") == [Data(b"a"), Flush()]


def test_flushes_count_against_the_limit() -> None:
    with pytest.raises(Malformed):
        PktReader(limit=8).feed(FLUSH * 3)


def test_half_a_pkt_at_the_end_is_refused() -> None:
    reader = PktReader(100)
    reader.feed(b"0008ab")
    with pytest.raises(Malformed):
        reader.finish()


def test_a_whole_stream_finishes() -> None:
    reader = PktReader(100)
    reader.feed(b"0008abcd0000")
    reader.finish()


def test_reading_to_a_flush_leaves_the_rest_alone() -> None:
    reader = PktReader(limit=9, stop_at_flush=True)
    assert reader.feed(b"0005a0000PACK\x00") == [Data(b"a"), Flush()]
    assert (reader.stopped, reader.leftover) == (True, b"PACK\x00")


def test_a_payload_too_long_for_one_pkt_is_not_written() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        format_data(b"x" * (MAX_PAYLOAD + 1))


@given(PKTS, st.lists(st.integers(0, 9)))
def test_any_chunking_reads_back_what_was_written(pkts: list[Pkt], sizes: list[int]) -> None:
    wire = b"".join(map(format_pkt, pkts))
    reader = PktReader(len(wire))
    assert read_pieces(reader, wire, sizes) == pkts
    reader.finish()


@given(PKTS, st.binary(max_size=20), st.lists(st.integers(0, 9)))
def test_any_chunking_stops_at_the_same_flush(
    pkts: list[Pkt], rest: bytes, sizes: list[int]
) -> None:
    wire = b"".join(map(format_pkt, pkts))
    reader = PktReader(1 << 20, stop_at_flush=True)
    read = read_pieces(reader, wire + FLUSH + rest, sizes)
    assert read == [*pkts, Flush()][: pkts.index(Flush()) + 1 if Flush() in pkts else None]


@given(st.lists(st.binary(max_size=64), max_size=20), st.integers(0, 200))
def test_never_reads_more_than_its_limit(pieces: list[bytes], limit: int) -> None:
    reader, payload = PktReader(limit), 0
    try:
        for piece in pieces:
            pkts = reader.feed(piece)
            payload += sum(len(pkt.payload) + 4 for pkt in pkts if isinstance(pkt, Data))
            assert payload <= limit
    except Malformed:
        pass
