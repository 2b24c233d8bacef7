"""`cp` against a sandbox that answers with whatever it likes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostctl.copy.tarstream import END, Entry, Kind, format_entry, padding
from tests.cli.command import Hostctl
from tests.fakes.daemon import Call, FakeDaemon, Message, run_locally
from tests.waiting import PATIENCE


@pytest.fixture
def sandbox(root: Path) -> Iterator[None]:
    """Paths in "the sandbox" are those of this machine."""
    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"exec": run_locally}):
        yield


def hostile(root: Path, stream: bytes, complaints: bytes = b"", status: int = 0) -> FakeDaemon:
    def answer(call: Call) -> list[Message]:
        os.write(call.descriptors[1], stream)
        os.write(call.descriptors[2], complaints)
        return [{"ok": True, "exit": status}]

    return FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"exec": answer})


def tar(*entries: Entry, content: bytes = b"x") -> bytes:
    parts = [format_entry(e) + content * e.size + padding(e.size) for e in entries]
    return b"".join(parts) + END


@pytest.fixture
def tree(root: Path) -> Path:
    made = root / "tree"
    (made / "d").mkdir(parents=True)
    (made / "d" / "big").write_bytes(os.urandom(300_000))
    (made / "d" / "l").symlink_to("big")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o4755)
    return made


def test_out_and_in_again(sandbox: None, hostctl: Hostctl, root: Path, tree: Path) -> None:
    (root / "out").mkdir()
    out = hostctl("cp", f"s:{tree}", str(root / "out"))
    assert (out.stdout, out.returncode) == ("copied 5 entries, 300010 bytes\n", 0), out.stderr
    back = hostctl("cp", str(root / "out" / "tree"), f"s:{root}/in")
    assert back.returncode == 0, back.stderr
    for copy in (root / "out" / "tree", root / "in"):
        assert (copy / "d" / "big").read_bytes() == (tree / "d" / "big").read_bytes()
        assert os.readlink(copy / "d" / "l") == "big"
        assert (copy / "run.sh").stat().st_mode & 0o7777 == 0o755


def test_into_a_directory_keeps_the_name_and_else_gives_it(
    sandbox: None, hostctl: Hostctl, root: Path, tree: Path
) -> None:
    (root / "there").mkdir()
    assert hostctl("cp", f"s:{tree}/run.sh", str(root / "there")).returncode == 0
    assert hostctl("cp", f"s:{tree}/run.sh", str(root / "new")).returncode == 0
    assert hostctl("cp", str(tree / "run.sh"), f"s:{root}/there/").returncode == 0
    assert hostctl("cp", str(tree / "run.sh"), f"s:{root}/newer").returncode == 0
    assert {p.name for p in root.glob("*") if p.is_file()} == {"new", "newer"}
    assert [p.name for p in (root / "there").iterdir()] == ["run.sh"]


def test_names_like_options_are_names(sandbox: None, hostctl: Hostctl, root: Path) -> None:
    (root / "--help").write_text("text")
    assert hostctl("cp", f"s:{root}/--help", str(root / "a")).returncode == 0
    assert hostctl("cp", str(root / "--help"), f"s:{root}/-b").returncode == 0
    assert (root / "a").read_text() == (root / "-b").read_text() == "text"


def test_what_is_not_there_is_exit_code_4_or_1(sandbox: None, hostctl: Hostctl, root: Path) -> None:
    done = hostctl("cp", f"s:{root}/nothing", str(root / "x"))
    assert done.returncode == 4
    assert "Cannot stat: No such file" in done.stderr
    assert hostctl("cp", str(root / "nothing"), f"s:{root}/x").returncode == 1
    assert hostctl("cp", f"s:{root}/run", str(root / "no" / "where")).returncode == 1


def test_no_link_is_followed_on_this_host(
    sandbox: None, hostctl: Hostctl, root: Path, tree: Path
) -> None:
    (root / "link").symlink_to(tree)
    for words in (
        [f"s:{tree}/run.sh", str(root / "link")],
        [f"s:{tree}/run.sh", str(root / "link" / "new")],
        [str(root / "link" / "run.sh"), f"s:{root}/x"],
    ):
        done = hostctl("cp", *words)
        assert done.returncode == 1
        assert "a part of it is a symbolic link" in done.stderr


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (tar(Entry(b"/etc/cron.d/x", Kind.FILE, 0o644, 1)), "sent what was not asked for"),
        (tar(Entry(b"../x", Kind.FILE, 0o644, 1)), "sent what was not asked for"),
        (tar(Entry(b"p/../../x", Kind.FILE, 0o644, 1)), "sent what was not asked for"),
        (tar(Entry(b"other", Kind.FILE, 0o644, 1)), "sent what was not asked for"),
        (tar(Entry(b"p", Kind.LINK, 0o777, 0, 0, b"/etc")), "points outside the copy"),
        (tar(Entry(b"p", Kind.CHARACTER_DEVICE)), "neither a file, a directory"),
        (tar(Entry(b"p", Kind.HARD_LINK, 0, 0, 0, b"/etc/shadow")), "neither a file, a directory"),
        (tar(Entry(b"p", Kind.FILE, 0o644, 1 << 40), content=b""), "copy is too large"),
        (tar(Entry(b"p", Kind.FILE, 0o644, 9))[:600], "ended too early"),
        (b"garbage" * 1000, "not a header"),
        (b"", "ended too early"),
        (END * 20 + tar(), "too many blocks of zeros follow the end"),
    ],
)
def test_a_hostile_stream_writes_nothing(
    root: Path, hostctl: Hostctl, stream: bytes, why: str
) -> None:
    (root / "out").mkdir()
    with hostile(root, stream):
        done = hostctl("cp", "s:/p", str(root / "out"))
    assert done.returncode == 1
    assert "[R112]" in done.stderr and why in done.stderr, done.stderr
    assert {p.name for p in (root / "out").rglob("*")} <= {"p"}


def test_what_tar_complains_of_reaches_no_terminal_raw(root: Path, hostctl: Hostctl) -> None:
    with hostile(root, tar(), b"tar: \x1b]0;owned\x07 \xff\n" + b"x" * 20_000, status=2):
        done = hostctl("cp", "s:/p", str(root / "out"))
    assert done.returncode == 4
    assert done.stderr.isascii() or "\ufffd" in done.stderr
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_who_prints_without_end_is_left(root: Path, hostctl: Hostctl) -> None:
    def endless(call: Call) -> Iterator[Message]:
        """Its command has ended, and something of it goes on writing: one file, and no end."""
        writer = os.dup(call.descriptors[1])
        os.set_blocking(writer, False)
        os.write(writer, format_entry(Entry(b"p", Kind.FILE, 0o644, 1 << 30)))
        yield {"ok": True, "exit": 0}
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                os.write(writer, bytes(4096))
            except BlockingIOError:
                continue
            except BrokenPipeError:
                left.append(True)
                break
        os.close(writer)

    left: list[bool] = []
    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"exec": endless}):
        done = hostctl("cp", "s:/p", str(root / "out"))
    assert done.returncode == 1
    assert left, "it waited for the writer to end"


def test_bounds_can_be_given(sandbox: None, hostctl: Hostctl, root: Path, tree: Path) -> None:
    few = hostctl("cp", "--max-entries", "2", f"s:{tree}", str(root / "a"))
    small = hostctl("cp", "--max-size", "1k", f"s:{tree}", str(root / "b"))
    assert (few.returncode, small.returncode) == (1, 1)
    assert "--max-entries" in few.stderr and "--max-size" in small.stderr


def test_a_stopped_sandbox_is_told_how_to_start(root: Path, hostctl: Hostctl) -> None:
    error = {"code": "R106", "what": "sandbox s is not running", "why": "", "fix": "", "exit": 1}
    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"exec": {"error": error}}):
        for words in (("s:/p", str(root / "x")), (str(root), "s:/p")):
            done = hostctl("cp", *words)
            assert done.stderr.splitlines()[-1] == "fix: hostctl start s"
