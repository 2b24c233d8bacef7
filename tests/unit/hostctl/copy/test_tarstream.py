"""The tar stream: what we write we read back, and nothing a sandbox sends is held unbounded."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostctl.copy.tarstream import (
    BLOCK,
    END,
    MAX_NAME,
    Entry,
    Event,
    Kind,
    TarMalformed,
    TarReader,
    format_entry,
    padding,
)
from tests.fakes.chunking import cut_up, cuts

texts = st.binary(min_size=1, max_size=300).map(lambda b: b.replace(b"\0", b"x"))
sizes = st.integers(0, 3 * BLOCK)
numbers = st.integers(0, 1 << 40)
modes = st.integers(0, 0o7777)
special = st.sampled_from([Kind.FIFO, Kind.CHARACTER_DEVICE, Kind.BLOCK_DEVICE])
linking = st.sampled_from([Kind.LINK, Kind.HARD_LINK])
nothing = st.just(b"")
files = st.builds(Entry, texts, st.just(Kind.FILE), modes, sizes, numbers, nothing)
links = st.builds(Entry, texts, linking, modes, st.just(0), numbers, texts)
others = st.builds(Entry, texts, special, modes, st.just(0), numbers, nothing)
named = texts.map(lambda name: name.rstrip(b"/") + b"/")
directories = st.builds(Entry, named, st.just(Kind.DIRECTORY), modes, st.just(0), numbers, nothing)
entries = files | links | others | directories


def written(items: list[Entry]) -> bytes:
    parts = [format_entry(entry) + b"c" * entry.size + padding(entry.size) for entry in items]
    return b"".join(parts) + END


def joined(events: list[Event]) -> list[Event]:
    """Neighbouring pieces of content as one."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, bytes) and isinstance(last, bytes):
            found[-1] = last + event
        else:
            found.append(event)
    return found


def read(data: bytes) -> list[Event]:
    reader = TarReader()
    events = reader.feed(data)
    reader.finish()
    return joined(events)


@settings(deadline=None)
@given(st.lists(entries, max_size=4), cuts())
def test_what_is_written_is_read_back_however_it_is_cut(
    items: list[Entry], lengths: list[int]
) -> None:
    expected: list[Event] = []
    for entry in items:
        expected += [entry, *([b"c" * entry.size] if entry.size else [])]
    reader, events = TarReader(), []
    for piece in cut_up(written(items), lengths):
        events += reader.feed(piece)
    reader.finish()
    assert joined(events) == expected


@settings(deadline=None)
@given(st.binary(max_size=4 * BLOCK), st.integers(0, 10 * BLOCK), cuts())
def test_no_input_makes_it_hold_more_than_one_name(
    noise: bytes, kept: int, lengths: list[int]
) -> None:
    reader = TarReader()
    long = format_entry(Entry(b"n" * 4000, Kind.FILE))
    for piece in cut_up(long[:kept] + noise, lengths):
        try:
            reader.feed(piece)
        except TarMalformed:
            break
        assert reader.held <= MAX_NAME + 1


def from_tarfile(
    fill: tarfile.TarInfo, content: bytes = b"", form: int = tarfile.GNU_FORMAT
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        tar.addfile(fill, io.BytesIO(content))
    return buffer.getvalue()


def info(name: str, size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size = size
    return made


def test_what_another_tar_writes_is_read() -> None:
    assert read(from_tarfile(info("d/" + "n" * 150, 3), b"abc")) == [
        Entry(b"d/" + b"n" * 150, Kind.FILE, 0o644, 3),
        b"abc",
    ]


@settings(deadline=None)
@given(files)
def test_what_we_write_another_tar_reads(entry: Entry) -> None:
    with tarfile.open(fileobj=io.BytesIO(written([entry]))) as tar:
        (found,) = tar.getmembers()
    found_name = found.name.encode(errors="surrogateescape")
    assert found_name.rstrip(b"/") == entry.name.rstrip(b"/")  # of a file's too: tar keeps it there
    assert (found.size, found.mode, found.mtime) == (entry.size, entry.mode, entry.mtime)


def header(**changes: tuple[int, bytes]) -> bytes:
    """A header with some bytes changed and its sum set right."""
    block = bytearray(format_entry(Entry(b"f", Kind.FILE)))
    for start, value in changes.values():
        block[start : start + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        END[:BLOCK],
        written([Entry(b"f", Kind.FILE, 0o644, 9)])[: BLOCK + 5],
        b"x" * BLOCK,
        format_entry(Entry(b"f", Kind.FILE)).replace(b"ustar  ", b"ustar\x0000") + END,
        header(kind=(156, b"x")) + END,  # an extended header can be of any size
        header(kind=(156, b"g")) + END,
        header(kind=(156, b"S")) + END,  # a sparse file: small here, terabytes there
        header(kind=(156, b"V")) + END,
        header(size=(124, b"-0000000001\0")) + END,
        header(size=(124, b"00000000009\0")) + END,
        header(size=(124, b"\x80" + b"\xff" * 11)) + END,
        header(kind=(156, b"5"), size=(124, b"%011o\0" % 10)) + END,
        header(kind=(156, b"L"), size=(124, b"%011o\0" % (MAX_NAME + 2))) + END,
        header(kind=(156, b"L"), size=(124, b"%011o\0" % 0)) + END,
        header(name=(0, b"\0")) + END,
        header(kind=(156, b"2")) + END,  # a link to nowhere
        header(target=(157, b"t")) + END,
        format_entry(Entry(b"f", Kind.FILE))[:BLOCK].replace(b"f", b"g", 1) + END,
        END + format_entry(Entry(b"f", Kind.FILE)),
        END[:BLOCK] + format_entry(Entry(b"f", Kind.FILE)),
        format_entry(Entry(b"n" * 200, Kind.FILE))[: 2 * BLOCK] + END,  # a name and no entry
        END * 40,
        from_tarfile(info("n" * 200), form=tarfile.PAX_FORMAT),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(TarMalformed):
        read(data)


@pytest.mark.parametrize("kind", [b"L", b"K"])
def test_a_name_that_no_kernel_takes_is_refused_before_it_is_read(kind: bytes) -> None:
    with pytest.raises(TarMalformed, match="too long"):
        TarReader().feed(header(kind=(156, kind), size=(124, b"%011o\0" % (MAX_NAME + 2))))


def test_a_refusal_is_final() -> None:
    reader = TarReader()
    for data in (b"x" * BLOCK, END):
        with pytest.raises(TarMalformed):
            reader.feed(data)
    with pytest.raises(TarMalformed):
        reader.finish()
