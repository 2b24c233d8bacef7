"""Archives of an image's files, which anybody wrote."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostctl.imagefiles import read_tar
from hostctl.rootfiles import MOST_BYTES


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


def file(name: str, data: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), data


def other(name: str, kind: bytes, to: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member, b""


def test_a_file_is_read_under_the_name_it_was_asked_for_by() -> None:
    assert read_tar(packed(file("pip.conf", b"a")), "etc/pip.conf") == [("etc/pip.conf", "a")]


def test_of_a_directory_only_what_fits_is_read() -> None:
    tar = packed(
        other("d", tarfile.DIRTYPE), file("d/a.list", b"a"), file("d/b.txt"), file("d/e/c.list"),
        file("d/../d.list"), file("a.list"), file("/etc/d/f.list"), file("d/\x1b.list"),
        file("d/b.list", b"b"),
    )  # fmt: skip
    assert read_tar(tar, "etc/d/*.list") == [("etc/d/a.list", "a"), ("etc/d/b.list", "b")]


@pytest.mark.parametrize(
    "member",
    [
        other("pip.conf", tarfile.SYMTYPE, "/etc/shadow"),
        other("pip.conf", tarfile.LNKTYPE, "pip.conf"),
        other("pip.conf", tarfile.LNKTYPE, "/etc/shadow"),
        other("pip.conf", tarfile.FIFOTYPE),
        other("pip.conf", tarfile.CHRTYPE),
        other("pip.conf", tarfile.DIRTYPE),
        file("pip.conf", b"\xff"),
        file("pip.conf", bytes(MOST_BYTES + 1)),
    ],
)
def test_what_is_not_plain_text_is_not_read(member: tuple[tarfile.TarInfo, bytes]) -> None:
    with pytest.raises(ValueError):
        read_tar(packed(member), "etc/pip.conf")


def test_what_says_to_be_huge_is_not_believed() -> None:
    """A sparse file is short in its archive and long when it is read."""
    sparse = other("pip.conf", tarfile.REGTYPE)[0]
    sparse.pax_headers = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0"}
    with pytest.raises(ValueError):
        read_tar(packed((sparse, b"")), "etc/pip.conf")


def test_a_long_archive_and_one_of_many_members_are_not_read() -> None:
    with pytest.raises(ValueError, match="too large"):
        read_tar(packed(file("pip.conf", bytes(2 * MOST_BYTES))), "etc/pip.conf")
    with pytest.raises(ValueError, match="too many"):
        read_tar(packed(*(file(f"d/{number}.list") for number in range(200))), "etc/d/*.list")


@given(st.binary(max_size=2048), st.integers(0, 2047), st.binary(min_size=1, max_size=64))
def test_any_octets_are_an_archive_or_an_error(data: bytes, at: int, change: bytes) -> None:
    whole = bytearray(packed(file("pip.conf", b"[global]\n")))
    whole[at : at + len(change)] = change
    for each in (data, bytes(whole)):
        try:
            read_tar(each, "etc/pip.conf")
        except ValueError:
            continue
