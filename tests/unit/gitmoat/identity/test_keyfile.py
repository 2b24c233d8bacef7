"""Key files: made once, never half, never where somebody else can read or swap them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.identity.keyfile import (
    KeyFileUnsafe,
    KeyMalformed,
    load_key,
    load_or_create_key,
    parse_public,
    public_text,
)


def test_a_key_is_made_once_and_then_loaded(tmp_path: Path) -> None:
    first = load_or_create_key(tmp_path / "host.key")
    assert load_or_create_key(tmp_path / "host.key") == first == load_key(tmp_path / "host.key")
    found = (tmp_path / "host.key").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.geteuid())
    assert os.listdir(tmp_path) == ["host.key"]


def test_two_keys_differ(tmp_path: Path) -> None:
    assert load_or_create_key(tmp_path / "a") != load_or_create_key(tmp_path / "b")


@pytest.mark.root
def test_a_key_can_be_made_for_another_uid(tmp_path: Path) -> None:
    key = load_or_create_key(tmp_path / "broker.key", uid=61005)
    assert (tmp_path / "broker.key").stat().st_uid == 61005
    assert load_key(tmp_path / "broker.key", uid=61005) == key
    with pytest.raises(KeyFileUnsafe, match="belongs to uid 61005"):
        load_key(tmp_path / "broker.key")


def test_a_missing_key_is_only_made_when_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_key(tmp_path / "host.key")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700, 0o4600])
def test_a_mode_wider_than_0600_is_refused(tmp_path: Path, mode: int) -> None:
    load_or_create_key(tmp_path / "host.key")
    (tmp_path / "host.key").chmod(mode)
    with pytest.raises(KeyFileUnsafe, match="0600"):
        load_or_create_key(tmp_path / "host.key")


def test_a_symlink_is_refused_even_to_a_good_key(tmp_path: Path) -> None:
    load_or_create_key(tmp_path / "real")
    (tmp_path / "host.key").symlink_to(tmp_path / "real")
    with pytest.raises(KeyFileUnsafe):
        load_or_create_key(tmp_path / "host.key")


def test_a_dangling_symlink_is_not_created_through(tmp_path: Path) -> None:
    (tmp_path / "host.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileUnsafe):
        load_or_create_key(tmp_path / "host.key")
    assert not (tmp_path / "elsewhere").exists()


def test_a_symlinked_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        load_or_create_key(tmp_path / "link" / "host.key")
    assert os.listdir(tmp_path / "real") == []


def test_a_second_name_is_refused(tmp_path: Path) -> None:
    load_or_create_key(tmp_path / "host.key")
    os.link(tmp_path / "host.key", tmp_path / "copy")
    with pytest.raises(KeyFileUnsafe, match="second name"):
        load_key(tmp_path / "host.key")


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_something_that_is_no_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "k", 0o600) if kind == "fifo" else (tmp_path / "k").mkdir()
    with pytest.raises(KeyFileUnsafe):
        load_or_create_key(tmp_path / "k")


@pytest.mark.parametrize(
    "text",
    ["", "\n", "ab" * 31, "ab" * 33, "AB" * 32, "zz" * 32, "ab" * 32 + "\n\n", " " + "ab" * 32,
     "0x" + "ab" * 31, "ab" * 32 + "\0", "ab" * 5000],
)  # fmt: skip
def test_a_file_that_is_not_exactly_one_key_is_refused_and_not_quoted(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "host.key"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(KeyFileUnsafe, match="64 hex digits") as refused:
        load_or_create_key(path)
    assert "abab" not in str(refused.value) and path.read_text() == text


def test_the_public_half_reads_back(tmp_path: Path) -> None:
    key = load_or_create_key(tmp_path / "host.key")
    assert parse_public(public_text(key)) == key.verify_key.encode()
    assert len(public_text(key)) == 44


@given(st.one_of(st.text(max_size=60), st.binary(max_size=40).map(bytes.hex)))
def test_any_other_text_is_no_public_key(text: str) -> None:
    with pytest.raises(KeyMalformed):
        parse_public(text)


def test_only_the_canonical_spelling_is_a_public_key() -> None:
    good = "A" * 42 + "A="
    assert parse_public(good) == bytes(32)
    for odd in (good + "\n", " " + good, good[:-1], good + "=", "A" * 42 + "B=", "_" * 43 + "="):
        with pytest.raises(KeyMalformed):
            parse_public(odd)
