"""What a sandbox sent lands below one directory, as plain files of ours, or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostctl.copy.tarstream import Entry, Kind
from hostctl.copy.untar import Bounds, Extractor, file_mode, stays_inside
from hostctl.failure import Failure

BOUNDS = Bounds(100, 10_000)


class Copy:
    """An extraction of `src`, to be called `dst`, into a directory with a neighbour."""

    def __init__(self, tmp_path: Path, bounds: Bounds = BOUNDS, skip: bool = False) -> None:
        self.base = tmp_path / "base"
        self.base.mkdir()
        self.outside = tmp_path / "outside"
        self.outside.write_text("untouched")
        self.skipped: list[str] = []
        self._parent = os.open(self.base, os.O_PATH)
        told = self.skipped.append if skip else None
        self._extractor = Extractor(self._parent, b"src", b"dst", bounds, told)

    def take(self, name: str, kind: Kind = Kind.FILE, content: bytes = b"", **more: object) -> None:
        target = str(more.get("target", "")).encode()
        mode = int(str(more.get("mode", 0o644)))
        self._extractor.take(Entry(name.encode(), kind, mode, len(content), 5, target))
        for byte in content:
            self._extractor.take(bytes([byte]))

    def close(self) -> None:
        self._extractor.close()
        os.close(self._parent)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    made = Copy(tmp_path)
    yield made
    made.close()
    assert made.outside.read_text() == "untouched"


def test_a_tree_arrives_under_its_new_name(copy: Copy) -> None:
    copy.take("src/", Kind.DIRECTORY)
    copy.take("src/d/", Kind.DIRECTORY)
    copy.take("src/d/f", content=b"text", mode=0o755)
    copy.take("src/d/l", Kind.LINK, target="../d/f")
    copy.take("src/empty")
    assert (copy.base / "dst/d/f").read_bytes() == b"text"
    assert (copy.base / "dst/d/l").read_bytes() == b"text"
    assert (copy.base / "dst/empty").read_bytes() == b""
    there = (copy.base / "dst/d/f").stat()
    assert (there.st_uid, there.st_mtime) == (os.getuid(), 5)
    assert stat.S_IMODE(there.st_mode) & 0o7700 == 0o700


def test_a_single_file_arrives(copy: Copy) -> None:
    copy.take("src", content=b"text")
    assert (copy.base / "dst").read_bytes() == b"text"


@pytest.mark.parametrize(
    "name",
    [
        "/etc/x",
        "../x",
        "other",
        "src/../../outside",
        "src/..",
        "src/./f",
        "src//f",
        ".",
        "..",
        "srcx",
    ],
)
def test_a_path_that_was_not_asked_for_ends_it_even_with_skip(tmp_path: Path, name: str) -> None:
    made = Copy(tmp_path, skip=True)
    made.take("src/", Kind.DIRECTORY)
    with pytest.raises(Failure) as caught:
        made.take(name, content=b"x")
    made.close()
    assert caught.value.code == "R112"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["base", "dst", "outside"]
    assert made.outside.read_text() == "untouched"


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (Kind.LINK, "/etc/passwd"),
        (Kind.LINK, "../outside"),
        (Kind.LINK, "a/../../outside"),
        (Kind.LINK, "d/.."),
        (Kind.HARD_LINK, "src/f"),
        (Kind.HARD_LINK, "/etc/passwd"),
        (Kind.FIFO, ""),
        (Kind.CHARACTER_DEVICE, ""),
        (Kind.BLOCK_DEVICE, ""),
    ],
)
def test_entries_that_lead_out_or_are_no_files_end_it_or_are_left_out(
    tmp_path: Path, kind: Kind, target: str
) -> None:
    for skip in (False, True):
        place = tmp_path / str(skip)
        place.mkdir()
        made = Copy(place, skip=skip)
        made.take("src/", Kind.DIRECTORY)
        if skip:
            made.take("src/bad", kind, target=target)
            made.take("src/good", content=b"x")
            assert len(made.skipped) == 1
            assert [p.name for p in (made.base / "dst").iterdir()] == ["good"]
        else:
            with pytest.raises(Failure) as caught:
                made.take("src/bad", kind, target=target)
            assert "--skip" in caught.value.fix
            assert list((made.base / "dst").iterdir()) == []
        made.close()


def test_a_link_is_never_written_through(copy: Copy) -> None:
    """The classic: a link first, then a file by the same name, or below it."""
    copy.take("src/", Kind.DIRECTORY)
    copy.take("src/d/", Kind.DIRECTORY)
    copy.take("src/l", Kind.LINK, target="d")
    with pytest.raises(Failure):
        copy.take("src/l/f", content=b"x")
    copy.take("src/l", content=b"a file now")
    assert (copy.base / "dst/l").read_bytes() == b"a file now"
    assert list((copy.base / "dst/d").iterdir()) == []


def test_links_that_were_there_already_are_not_followed(copy: Copy) -> None:
    (copy.base / "dst").mkdir()
    (copy.base / "dst/f").symlink_to(copy.outside)
    (copy.base / "dst/d").symlink_to(copy.base.parent)
    copy.take("src/", Kind.DIRECTORY)
    copy.take("src/f", content=b"new")
    assert not (copy.base / "dst/f").is_symlink()
    for name, kind in (("src/d/", Kind.DIRECTORY), ("src/d/outside", Kind.FILE)):
        with pytest.raises(Failure) as caught:
            copy.take(name, kind)
        assert "cannot be replaced" in caught.value.what


def test_a_target_that_is_itself_a_link_is_not_followed(copy: Copy) -> None:
    (copy.base / "dst").symlink_to(copy.base.parent)
    with pytest.raises(Failure):
        copy.take("src/", Kind.DIRECTORY)


def test_files_are_replaced_and_their_other_names_keep_the_old_content(copy: Copy) -> None:
    os.link(copy.outside, copy.base / "dst")
    copy.take("src", content=b"new")
    assert (copy.base / "dst").read_bytes() == b"new"


def test_a_directory_is_not_replaced_by_a_file(copy: Copy) -> None:
    (copy.base / "dst/d").mkdir(parents=True)
    copy.take("src/", Kind.DIRECTORY)
    with pytest.raises(Failure):
        copy.take("src/d", content=b"x")


def test_a_file_without_its_directory_is_refused(copy: Copy) -> None:
    with pytest.raises(Failure):
        copy.take("src/nowhere/f")


def test_number_and_size_are_bounded_before_anything_is_written(tmp_path: Path) -> None:
    made = Copy(tmp_path, Bounds(entries=3, size=1000))
    made.take("src/", Kind.DIRECTORY)
    with pytest.raises(Failure) as caught:
        made._extractor.take(Entry(b"src/big", Kind.FILE, 0o644, 1001))
    assert "--max-size" in caught.value.fix
    made._extractor.size = 0
    made.take("src/a")
    with pytest.raises(Failure) as caught:
        made.take("src/b")
    made.close()
    assert "--max-entries" in caught.value.fix
    assert [p.name for p in (made.base / "dst").iterdir()] == ["a"]


@settings(deadline=None)
@given(st.integers(0, 0o7777))
def test_modes_are_harmless(mode: int) -> None:
    kept = file_mode(mode)
    assert kept & 0o7022 == 0
    assert kept & 0o600 == 0o600
    assert bool(kept & 0o111) == bool(mode & 0o100)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["..", ".", "a", "b", ""]), min_size=1, max_size=6).map("/".join),
    st.integers(0, 3),
)
def test_a_link_that_is_kept_never_leaves_by_its_text(target: str, depth: int) -> None:
    if stays_inside(target.encode(), depth):
        below = os.path.normpath("/".join(["/top", *["d"] * depth, target]))
        assert below == "/top" or below.startswith("/top/")
