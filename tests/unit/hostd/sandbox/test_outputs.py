from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostd.sandbox.outputs import BoundedLog, older_part

PART = 100


def kept(path: Path) -> bytes:
    older = older_part(path)
    return (older.read_bytes() if older.exists() else b"") + path.read_bytes()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=PART), max_size=12))
def test_the_last_output_is_kept_in_order_and_never_more_than_two_parts(
    tmp_path: Path, pieces: list[bytes]
) -> None:
    path = tmp_path / "log"
    for old in tmp_path.iterdir():
        old.unlink()
    log = BoundedLog(path, PART)
    for piece in pieces:
        log.write(piece)
    log.close()
    everything = b"".join(pieces)
    assert everything.endswith(kept(path))
    assert len(kept(path)) >= min(len(everything), PART // 2)
    assert all(part.stat().st_size <= PART for part in tmp_path.iterdir())


def test_what_an_earlier_hostd_wrote_is_continued(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = BoundedLog(tmp_path / "log", PART)
        log.write(text)
        log.close()
    assert kept(tmp_path / "log") == b"one\ntwo\n"


def test_a_log_that_cannot_be_written_costs_output_and_nothing_else(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "log", PART)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._descriptor)
    log.write(b"lost")
    log.close()
    os.close(full)
