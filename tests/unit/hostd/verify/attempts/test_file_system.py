"""Sockets below what is mounted: found wherever they lie, and never taken for absent unseen."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import chdir
from pathlib import Path

import pytest

from hostd.verify.attempts import file_system
from hostd.verify.attempts.reporting import attempt


def socket_at(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, chdir(path.parent):
        listener.bind(path.name)


def test_a_socket_of_somebody_else_is_found_at_any_depth(tmp_path: Path) -> None:
    socket_at(tmp_path / "second" / "a" / "b" / "s")
    (tmp_path / "first").mkdir()
    places = [str(tmp_path / "first"), str(tmp_path / "second")]
    assert attempt("sockets-below", places, 12345) == (True, f"{places[1]}/a/b/s")


def test_own_sockets_and_links_to_others_are_none(tmp_path: Path) -> None:
    socket_at(tmp_path / "mounted" / "s")
    socket_at(tmp_path / "other" / "s")
    (tmp_path / "mounted" / "link").symlink_to(tmp_path / "other")
    places = [str(tmp_path / "mounted"), str(tmp_path / "missing"), __file__]
    assert attempt("sockets-below", places, os.getuid()) == (False, "none")


def _as_nobody(place: Path) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresgid(54321, 54321, 54321)
        os.setresuid(54321, 54321, 54321)
        os.write(writer, repr(attempt("sockets-below", [str(place)], 54321)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, "rb") as report:
        return report.read().decode()


@pytest.mark.root
def test_a_directory_that_can_be_searched_and_not_listed_counts_as_a_way_out() -> None:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o755)
        socket_at(place / "run" / "s")
        for mode, word in ((0o700, "none"), (0o711, f"{place}/run can be searched")):
            (place / "run").chmod(mode)
            assert word in _as_nobody(place)


def test_what_could_not_be_looked_through_in_time_counts_as_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system, "_LONG", 0.0)
    worked, got = attempt("sockets-below", [str(tmp_path)], 12345)
    assert worked
    assert "more in it than can be looked through" in got
