"""What goes into a sandbox: the tree that was named, and nothing that a link in it points to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostctl.copy.packing import Packer
from hostctl.copy.tarstream import Entry, Kind, TarReader
from hostctl.failure import Failure


def packed(path: Path, packer: Packer, name: bytes = b"new") -> list[Entry | bytes]:
    parent = os.open(path.parent, os.O_PATH)
    reader = TarReader()
    try:
        stream = packer.stream(parent, os.fsencode(path.name), name)
        events = [event for piece in stream if piece for event in reader.feed(piece)]
    finally:
        os.close(parent)
    reader.finish()
    return events


def test_a_tree_with_everything_in_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "d" / "f").write_bytes(b"x" * 70_000)
    (tree / "empty").touch()
    (tree / "l").symlink_to("/etc/shadow")
    os.mkfifo(tree / "pipe")
    told: list[str] = []
    packer = Packer(told.append)
    events = packed(tree, packer)
    entries = {event.name: event for event in events if isinstance(event, Entry)}
    assert list(entries) == [b"new/", b"new/d/", b"new/d/f", b"new/empty", b"new/l"]
    assert entries[b"new/l"].kind is Kind.LINK
    assert entries[b"new/l"].target == b"/etc/shadow"
    content = b"".join(event for event in events if isinstance(event, bytes))
    assert content == b"x" * 70_000
    assert told == ["skipped new/pipe: neither a file nor a directory"]
    assert (packer.entries, packer.size) == (5, 70_000)


def test_a_link_that_was_named_is_copied_not_followed(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("/etc")
    (entry,) = packed(tmp_path / "l", Packer(lambda text: None))
    assert isinstance(entry, Entry)
    assert (entry.kind, entry.target) == (Kind.LINK, b"/etc")


def test_a_file_that_shrinks_ends_the_copy(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 200_000)
    parent = os.open(tmp_path, os.O_PATH)
    stream = Packer(lambda text: None).stream(parent, b"f", b"f")
    next(stream)
    os.truncate(file, 0)
    with pytest.raises(Failure) as caught:
        list(stream)
    os.close(parent)
    assert "changed while it was read" in caught.value.what
