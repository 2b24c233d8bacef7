"""Installed files against RECORD: what differs is named, what has no hash is passed over."""

from __future__ import annotations

from hostctl.installed import Difference, differences

# The hash of b"one\n", as `pip` writes it.
RECORD = """\
hostctl/up.py,sha256=LIsI2lzmA5jh8Zrw5dzMdE3ydLgmq-WF6rpoxSVDSAY,4
hostctl/__pycache__/up.cpython-311.pyc,,
gitmoat-0.1.0.dist-info/RECORD,,
"""


def compare(files: dict[str, bytes], present: tuple[str, ...] = ()) -> list[Difference]:
    return differences(RECORD, files.get, present)


def test_files_as_they_were_built_differ_in_nothing() -> None:
    assert compare({"hostctl/up.py": b"one\n"}, ("hostctl/up.py",)) == []


def test_a_changed_file_is_named() -> None:
    assert compare({"hostctl/up.py": b"two\n"}) == [Difference("hostctl/up.py", "changed")]


def test_a_missing_file_is_named() -> None:
    assert compare({}) == [Difference("hostctl/up.py", "missing")]


def test_a_file_that_was_added_is_named() -> None:
    found = compare({"hostctl/up.py": b"one\n"}, ("hostctl/up.py", "hostctl/more.py"))
    assert found == [Difference("hostctl/more.py", "not part of it")]


def test_a_hash_of_an_unknown_kind_does_not_count() -> None:
    record = RECORD.replace("sha256=", "md5=")
    assert differences(record, {"hostctl/up.py": b"one\n"}.get) == [
        Difference("hostctl/up.py", "changed")
    ]
