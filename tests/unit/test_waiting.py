"""What a test began ends with it, and is left neither to the next test nor to the collector."""

from __future__ import annotations

import subprocess

import pytest

from tests.waiting import end, ending_what_it_began, ends_with_its_test, eventually


def begin() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return ends_with_its_test(
        subprocess.Popen(["sleep", "infinity"], stdin=pipe, stdout=pipe, stderr=pipe)
    )


def test_what_was_begun_in_a_block_has_ended_after_it_also_when_it_fails() -> None:
    with ending_what_it_began():
        outer = begin()
        with pytest.raises(ZeroDivisionError), ending_what_it_began():
            inner = begin()
            raise ZeroDivisionError
        assert inner.returncode == -9
        assert inner.stdout is not None and inner.stdout.closed
        assert outer.poll() is None
    assert outer.returncode == -9


def test_blocks_in_which_nothing_began_are_told_apart() -> None:
    with ending_what_it_began():
        with ending_what_it_began():
            pass
        process = begin()
        with ending_what_it_began():
            pass
        assert process.poll() is None
    assert process.returncode == -9


def test_what_has_ended_by_itself_keeps_its_status() -> None:
    process = begin()
    process.terminate()
    process.wait()
    end(process)
    end(process)
    assert process.returncode == -15


def test_who_waits_in_vain_is_told_for_what() -> None:
    with pytest.raises(AssertionError, match="waited 0 s: a miracle"):
        eventually(lambda: False, "a miracle", 0)
