"""`cp` with a real sandbox: what comes out is ours and harmless, what goes in is the command's."""

from __future__ import annotations

import os
import stat
import uuid
from itertools import count
from pathlib import Path

import pytest

from tests.stage.boxes import Box, MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.waiting import eventually

TREE = (
    "mkdir -p p/sub && echo one > p/one && ln p/one p/hard && ln -s one p/link &&"
    " ln -s ../one p/sub/up && head -c 3000000 /dev/urandom > p/sub/big &&"
    " chmod 755 p/one && chmod u+s p/one; mkdir p/$1 && echo deep > p/$1/f"
)


@pytest.fixture(scope="module")
def box(make_shared_box: MakeBox) -> Box:
    made = make_shared_box(repo=None)
    made.sh(TREE, "n" * 200).expect_success("making a tree")
    return made


def digest(box: Box, path: str) -> str:
    return box.run("sha256sum", path).expect_success("sha256sum").split()[0]


def test_a_tree_comes_out_as_plain_files_of_ours(box: Box, stage: Gitmoat, tmp_path: Path) -> None:
    stage.hostctl("cp", f"{box.name}:p", str(tmp_path)).expect_success("cp")
    copy = tmp_path / "p"
    assert (copy / ("n" * 200) / "f").read_text() == "deep\n"
    assert (copy / "hard").read_text() == "one\n"
    assert (copy / "sub" / "up").read_text() == "one\n"
    assert os.readlink(copy / "link") == "one"
    assert stat.S_IMODE((copy / "one").stat().st_mode) == 0o755
    for path in [copy, *copy.rglob("*")]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == (0, 0)


def test_what_goes_in_belongs_to_the_command(box: Box, stage: Gitmoat, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "data").write_bytes(os.urandom(2_000_000))
    (tree / "l").symlink_to("/etc/shadow")
    name = uuid.uuid4().hex
    stage.hostctl("cp", str(tree), f"{box.name}:/home/sandbox/{name}").expect_success("cp")
    place = f"/home/sandbox/{name}"
    uid = str(box.inspect()["uids"]["untrusted"])
    owners = box.run("stat", "-c", "%u", place, f"{place}/data", f"{place}/l").out.split()
    assert owners == [uid] * 3
    stage.hostctl("cp", f"{box.name}:{place}/data", str(tmp_path / "back")).expect_success("cp")
    assert (tmp_path / "back").read_bytes() == (tree / "data").read_bytes()


def test_only_what_the_command_may_reach_can_be_copied(
    box: Box, stage: Gitmoat, tmp_path: Path
) -> None:
    out = stage.hostctl("cp", f"{box.name}:/proc/1/environ", str(tmp_path / "x"))
    assert out.code != 0
    into = stage.hostctl("cp", str(tmp_path), f"{box.name}:/usr/local/x")
    assert into.code == 1
    assert "[R112]" in into.err


def test_devices_pipes_and_links_that_leave_stay_where_they_are(
    box: Box, stage: Gitmoat, tmp_path: Path
) -> None:
    script = "mkdir q && mkfifo q/pipe && ln -s /etc/passwd q/abs && ln -s ../p q/up && touch q/f"
    box.sh(script).expect_success("sh")
    refused = stage.hostctl("cp", f"{box.name}:q", str(tmp_path / "a"))
    assert refused.code == 1 and "--skip" in refused.err
    ran = stage.hostctl("cp", "--skip", f"{box.name}:q", str(tmp_path / "b"))
    ran.expect_success("cp --skip")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["f"]
    assert ran.err.count("skipped q/") == 3


def test_a_command_that_plays_tar_gets_nothing_onto_the_host(
    make_box: MakeBox, stage: Gitmoat, tmp_path: Path
) -> None:
    """tar runs as the untrusted uid, so what it prints may be anything: /proc lets a process of
    the same uid write into its standard output."""
    box = make_box(repo=None)
    spray = (
        "import glob, os\n"
        "while True:\n"
        "    for name in glob.glob('/proc/[0-9]*/comm'):\n"
        "        try:\n"
        "            if open(name).read() == 'tar\\n':\n"
        "                out = os.open(os.path.dirname(name) + '/fd/1', os.O_WRONLY)\n"
        "                os.write(out, b'evil' * 300)\n"
        "                os.close(out)\n"
        "        except OSError:\n"
        "            pass\n"
    )
    box.sh("mkdir d && for i in $(seq 3000); do echo $i > d/$i; done").expect_success("sh")
    begun = [box.begin("/usr/bin/python3", "-c", spray) for _ in range(2)]
    try:
        turns = count()

        def in_time() -> bool:
            ran = stage.hostctl("cp", f"{box.name}:d", str(tmp_path / str(next(turns))))
            assert ran.code == 0 or "[R112]" in ran.err, ran.err
            return ran.code == 1

        for _ in range(3):
            eventually(in_time, "something else in its output")
    finally:
        for process in begun:
            process.kill()
            process.communicate()
    names = {path.name for path in tmp_path.rglob("*") if path.parent != tmp_path}
    assert names <= {str(number) for number in range(1, 3001)}


def test_a_stopped_sandbox_must_be_started_first(
    make_box: MakeBox, stage: Gitmoat, tmp_path: Path
) -> None:
    box = make_box(repo=None)
    box.sh("echo kept > f").expect_success("sh")
    stage.hostctl("stop", box.name).expect_success("stop")
    ran = stage.hostctl("cp", f"{box.name}:f", str(tmp_path))
    assert ran.code == 1 and f"fix: hostctl start {box.name}" in ran.err
    stage.hostctl("start", box.name).expect_success("start")
    stage.hostctl("cp", f"{box.name}:f", str(tmp_path)).expect_success("cp")
    assert (tmp_path / "f").read_text() == "kept\n"
