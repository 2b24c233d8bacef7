"""`--workdir`: a directory of the host as /workspace, exactly that one, as its owner has it.

Threat model 108 and 109: links put in its place or its parent's, before the mount or before a
restart; one directory for two sandboxes; descriptors that a command was not meant to have.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.world import Machine
from tests.stage.boxes import Box, MakeBox
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import descriptors

OWNER, OTHER = 4021, 4022
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def own(path: Path, uid: int = OWNER) -> Path:
    os.chown(path, uid, uid, follow_symlinks=False)
    return path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A directory of an ordinary user's, with files of three owners."""
    place = tmp_path / "work"
    place.mkdir()
    own(place)
    for name, uid in (("mine", OWNER), ("hers", OTHER), ("roots", 0)):
        file = place / name
        file.write_text(name)
        own(file, uid).chmod(0o600)
    return place


def try_run(stage: Gitmoat, workdir: object, *words: str) -> Ran:
    """A run that may be refused; nothing of it stays."""
    return stage.hostctl("run", "--rm", "--workdir", str(workdir), "--", *(words or ("true",)))


def refused(ran: Ran, code: str, *words: str) -> None:
    assert ran.code == 125, ran
    assert f"[{code}]" in ran.err.splitlines()[0], ran.err
    for word in words:
        assert word in ran.err, ran.err


def mounts(*places: Path) -> list[str]:
    """Those that name one of these; other suites run beside this one and mount as well."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if any(place.name in line for place in places)]


def snapshot(tree: Path) -> dict[str, tuple[object, ...]]:
    """Everything about everything below, but when it was read."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [tree, *sorted(tree.rglob("*"))]:
        there = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(there.st_mode) else b""
        about = there.st_ino, there.st_mode, there.st_uid, there.st_gid, there.st_mtime_ns
        found[str(path.relative_to(tree))] = (*about, there.st_ctime_ns, content)
    return found


# What the command has


def test_the_owners_files_are_the_commands_and_new_ones_are_the_owners(
    make_box: MakeBox, work: Path
) -> None:
    box = make_box("--workdir", str(work), repo=None)
    uid = box.inspect()["uids"]["untrusted"]
    seen = box.run("stat", "-c", "%n %u %g", "mine", "hers", "roots").expect_success("stat")
    assert seen.splitlines() == [f"mine {uid} {uid}", "hers 65534 65534", "roots 65534 65534"]
    box.sh("echo more >> mine && mkdir d && echo new > d/f && ln -s f d/l").expect_success("sh")
    assert (work / "mine").read_text() == "minemore\n"
    made = [work / "d", work / "d" / "f", work / "d" / "l"]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(OWNER, OWNER)}
    for name in ("hers", "roots"):
        assert box.run("cat", name).code == 1
        assert box.run("chown", str(uid), name).code == 1


def test_the_mount_is_the_rooms_alone_and_carries_nothing_dangerous(
    make_box: MakeBox, stage: Gitmoat, work: Path
) -> None:
    ours = (stage.root, work.parent)
    before = mounts(*ours)
    box = make_box("--workdir", str(work), repo=None)
    assert mounts(*ours) == before
    assert list(stage.paths.workdir_mounts.iterdir()) == []
    script = "while read -r l; do case $l in *' /workspace '*) echo $l;; esac; done"
    (line,) = box.sh(f"{script} < /proc/self/mountinfo").out.splitlines()
    assert {"rw", "nosuid", "nodev", "idmapped"} <= set(line.split()[5].split(","))
    box.remove()
    assert mounts(*ours) == before


def test_what_is_mounted_below_the_directory_is_not_in_it(stage: Gitmoat, work: Path) -> None:
    inner = work / "inner"
    inner.mkdir()
    own(inner)
    subprocess.run(["mount", "-t", "tmpfs", "none", inner], check=True)
    try:
        (inner / "secret").write_text("secret")
        assert try_run(stage, work, "ls", "inner").out == ""
    finally:
        subprocess.run(["umount", inner], check=True)


def test_ro_means_that_nothing_can_be_changed(stage: Gitmoat, work: Path) -> None:
    before = snapshot(work)
    script = "cat mine; echo x >> mine; touch new; rm mine; chmod 777 mine; mv mine other"
    ran = try_run(stage, f"{work}:ro", "sh", "-c", script)
    assert ran.out == "mine"
    assert ran.err.count("Read-only file system") == 5
    assert snapshot(work) == before


def test_after_rm_the_directory_is_as_the_command_left_it(
    make_box: MakeBox, stage: Gitmoat, work: Path
) -> None:
    before = snapshot(work)
    box = make_box("--workdir", str(work), repo=None)
    box.run("cat", "mine").expect_success("cat")
    stage.hostctl("stop", box.name).expect_success("stop")
    stage.hostctl("start", box.name).expect_success("start")
    box.remove()
    assert snapshot(work) == before


def test_local_git_works_in_it_and_the_gate_says_what_it_needs(
    make_box: MakeBox, work: Path
) -> None:
    box = make_box("--workdir", str(work), repo=None)
    script = "git init -q . && git add mine && git commit -q -m One && git log --format=%s"
    assert box.sh(script).expect_success("git") == "One"
    ran = box.git("push", "origin", "main")
    assert ran.code == 4
    assert "fix: start the sandbox with --repo" in ran.err


# What is refused


def test_roots_directory_can_only_be_read_and_only_what_anybody_may_read(
    stage: Gitmoat, tmp_path: Path
) -> None:
    tmp_path = tmp_path / "roots"
    tmp_path.mkdir()
    for name, mode in (("open", 0o644), ("closed", 0o600)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    refused(try_run(stage, tmp_path), "R110", "it belongs to root", ":ro", "hostctl cp")
    ran = try_run(stage, f"{tmp_path}:ro", "sh", "-c", "cat open closed; touch x")
    assert ran.out == "open"
    assert "closed: Permission denied" in ran.err and "Read-only" in ran.err
    os.chown(tmp_path, OWNER, 0)
    refused(try_run(stage, tmp_path), "R110", "root's group")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/", "/ is never"),
        ("/etc", "/etc is never"),
        ("/etc/ssl", "it lies in /etc"),
        ("/proc/self", "symbolic link"),
        ("/proc", "/proc is never"),
        ("/sys/kernel", "it lies in /sys"),
        ("/dev/shm", "it lies in /dev"),
        ("/root", "/root is never"),
        ("/home", "/home is never"),
        ("/run", "/run is never"),
        ("/var", "lies in it"),
        ("/var/run", "symbolic link"),
        ("/nonexistent/x", "No such file"),
        ("/etc/passwd", "Not a directory"),
    ],
)
def test_directories_of_the_system_are_never_work_directories(
    stage: Gitmoat, path: str, why: str
) -> None:
    for text in (path, f"{path}:ro"):
        refused(try_run(stage, text), "R110", why)


def test_nor_is_anything_of_our_own(stage: Gitmoat) -> None:
    paths = stage.paths
    for place in (paths.etc, paths.run, paths.state, paths.hostd_state, paths.log_dir, paths.root):
        refused(try_run(stage, f"{place}:ro"), "R110")


@pytest.mark.parametrize(
    ("target", "below", "why"),
    [
        ("/etc", "", "/etc is never"),
        ("/etc", "ssl", "it lies in /etc"),
        ("/var", "", "lies in it"),
        ("/root", "", "/root is never"),
    ],
)
def test_nor_under_another_name(
    stage: Gitmoat, tmp_path: Path, target: str, below: str, why: str
) -> None:
    alias = tmp_path / "alias"
    alias.mkdir()
    subprocess.run(["mount", "--bind", target, alias], check=True)
    try:
        refused(try_run(stage, f"{alias / below}:ro"), "R110", why)
    finally:
        subprocess.run(["umount", alias], check=True)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (".ssh", ".ssh holds credentials"),
        (".gnupg/private-keys-v1.d", ".gnupg holds credentials"),
        (".config/gh", ".config/gh holds credentials"),
        ("x/.aws/cli/cache", ".aws holds credentials"),
    ],
)
def test_nor_is_a_place_of_credentials(stage: Gitmoat, work: Path, place: str, why: str) -> None:
    (work / place).mkdir(parents=True)
    own(work / place)
    refused(try_run(stage, work / place), "R110", why)


@pytest.mark.parametrize("name", [".ssh/", ".netrc", ".git-credentials", ".config/gh/", ".kube/"])
def test_nor_is_a_directory_that_holds_credentials(stage: Gitmoat, work: Path, name: str) -> None:
    if name.endswith("/"):
        (work / name).mkdir(parents=True)
    else:
        (work / name).touch()
    refused(try_run(stage, work), "R110", f"it has credentials in it: {name.rstrip('/')}")


def test_a_link_anywhere_in_the_path_is_refused(stage: Gitmoat, work: Path) -> None:
    (work / "below").mkdir()
    own(work / "below")
    (work.parent / "link").symlink_to(work)
    for path in (work.parent / "link", work.parent / "link" / "below"):
        refused(try_run(stage, path), "R110", "a part of the path is a symbolic link", "realpath")


def test_a_file_system_that_cannot_is_told_apart(stage: Gitmoat, tmp_path: Path) -> None:
    place = tmp_path / "ram"
    place.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "none", place], check=True)
    try:
        (place / "w").mkdir()
        before = mounts(stage.root, tmp_path)
        refused(try_run(stage, own(place / "w")), "R109", "hostctl cp")
        assert mounts(stage.root, tmp_path) == before
    finally:
        subprocess.run(["umount", place], check=True)
    assert list(stage.paths.workdir_mounts.iterdir()) == []


# One sandbox at a time


def test_a_directory_belongs_to_one_live_sandbox(
    make_box: MakeBox, stage: Gitmoat, work: Path
) -> None:
    (work / "below").mkdir()
    own(work / "below")
    own(work.parent)
    box = make_box("--workdir", str(work), repo=None)
    for path in (work, work / "below", work.parent, f"{work}:ro"):
        refused(try_run(stage, path), "R111", box.inspect()["sandbox"])
    stage.hostctl("stop", box.name).expect_success("stop")
    other = make_box("--workdir", str(work / "below"), repo=None)
    ran = stage.hostctl("start", box.name)
    assert ran.code == 1 and "[R111]" in ran.err
    other.remove()
    stage.hostctl("start", box.name).expect_success("start")
    assert box.run("cat", "mine").out == "mine"


def test_it_still_belongs_to_it_when_hostd_was_killed(fresh_stage: Gitmoat, work: Path) -> None:
    world = Machine(fresh_stage)
    run = ("run", "-d", "--name", "one", "--workdir", str(work), "--", "sleep", "infinity")
    fresh_stage.hostctl(*run).expect_success("run")
    left = fresh_stage.paths.workdir_mounts / "0123456789ab"  # as if killed while a room was made
    left.mkdir(mode=0o700)
    subprocess.run(["mount", "--bind", work, left], check=True)
    world.kill("hostd")
    fresh_stage.hostctl("up").expect_success("up")
    assert mounts(left) == [] and not left.exists()
    refused(try_run(fresh_stage, work), "R111")
    work.rename(work.with_name("moved"))  # found through the room then
    world.kill("hostd")
    fresh_stage.hostctl("up").expect_success("up")
    refused(try_run(fresh_stage, work.with_name("moved")), "R111")
    assert Box(fresh_stage, "one").run("cat", "mine").out == "mine"
    fresh_stage.hostctl("rm", "--force", "one").expect_success("rm")
    assert try_run(fresh_stage, work.with_name("moved"), "cat", "mine").out == "mine"


# Links put in its place


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """What a swap would like to have mounted: the same owner, another directory."""
    place = tmp_path / "secret"
    place.mkdir()
    (place / "mine").write_text("secret")
    own(place / "mine").chmod(0o600)
    return own(place)


def test_another_directory_before_a_restart_is_refused(
    make_box: MakeBox, stage: Gitmoat, work: Path, secret: Path
) -> None:
    box = make_box("--workdir", str(work), repo=None)
    stage.hostctl("stop", box.name).expect_success("stop")
    kept = work.rename(work.with_name("kept"))

    def start() -> Ran:
        ran = stage.hostctl("start", box.name)
        listed = json.loads(stage.hostctl("--json", "ls").out)["items"]
        assert [one["state"] for one in listed if one["name"] == box.name] == ["stopped"]
        assert ran.code == 1 and "[R110]" in ran.err
        return ran

    assert "No such file" in start().err
    work.symlink_to(secret)
    assert "a part of the path is a symbolic link" in start().err
    work.unlink()
    secret.rename(work)
    assert "another directory is there than when the sandbox was made" in start().err
    work.rename(secret)
    kept.rename(work)
    stage.hostctl("start", box.name).expect_success("start")
    assert box.run("cat", "mine").out == "mine"


def test_a_parent_that_becomes_a_link_before_a_restart_is_refused(
    make_box: MakeBox, stage: Gitmoat, work: Path, secret: Path
) -> None:
    inner = work / "inner"
    inner.mkdir()
    (secret / "inner").mkdir()
    for path in (inner, secret / "inner"):
        own(path)
    box = make_box("--workdir", str(inner), repo=None)
    stage.hostctl("stop", box.name).expect_success("stop")
    work.rename(work.with_name("kept"))
    work.symlink_to(secret)
    ran = stage.hostctl("start", box.name)
    assert ran.code == 1 and "a part of the path is a symbolic link" in ran.err


def exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """The two names change places all the time; at the end each is where it was."""
    end = threading.Event()
    turns = 0

    def swap() -> None:
        nonlocal turns
        while not end.is_set() or turns % 2:
            exchange(one, other)
            turns += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert turns > 2


@pytest.mark.parametrize("what", ["the directory", "its parent"])
def test_a_link_swapped_in_while_it_is_checked_and_mounted_never_gets_in(
    stage: Gitmoat, work: Path, secret: Path, what: str
) -> None:
    """Either it is seen and refused, or the directory that was checked is what is mounted."""
    inner = work / "inner"
    inner.mkdir()
    shutil.copy2(work / "mine", inner / "mine")
    (secret / "inner").mkdir()
    (secret / "inner" / "mine").write_text("secret")
    for path in (inner, inner / "mine", secret / "inner", secret / "inner" / "mine"):
        own(path)
    link = work.with_name("link")
    link.symlink_to(secret)
    asked = work if what == "the directory" else inner
    seen = set()
    with swapping(work, link):
        for _ in range(12):
            ran = try_run(stage, asked, "cat", "mine")
            if ran.code == 0:
                seen.add(ran.out)
            else:
                refused(ran, "R110", "symbolic link")
    assert seen <= {"mine"}


# Descriptors

LOOK = "import os, json; print(json.dumps(sorted(map(int, os.listdir('/proc/self/fd')))))"


def test_a_command_has_three_descriptors_and_no_more(
    make_box: MakeBox, stage: Gitmoat, work: Path
) -> None:
    """The fourth is the one that lists them."""
    look = ("/usr/bin/python3", "-I", "-c", LOOK)
    assert try_run(stage, work, *look).out == "[0, 1, 2, 3]\n"
    box = make_box("--workdir", str(work), repo=None)
    assert box.run(*look).out == "[0, 1, 2, 3]\n"
    helper = stage.hostctl("exec", "--as", "helper", box.name, "--", *look)
    assert helper.out == "[0, 1, 2, 3]\n"
    script = "for p in /proc/[0-9]*; do echo $p $(ls $p/fd 2>/dev/null); done"
    for line in box.sh(script).out.splitlines():
        assert {*line.split()[1:]} <= {"0", "1", "2", "3"}, line


def test_the_detached_command_and_the_pause_have_no_more_either(
    make_box: MakeBox, work: Path
) -> None:
    box = make_box("--workdir", str(work), repo=None)
    root = box.inspect()["pid"]
    found = {pid: descriptors(pid) for pid in (root, *_sandboxed(box))}
    assert len(found) >= 2
    # bwrap's own process, which is root's, waits on a counter besides.
    assert [links.pop(n) for links in found.values() for n in set(links) - {0, 1, 2}] == [
        "anon_inode:[eventfd]"
    ]
    for links in found.values():
        assert set(links) == {0, 1, 2}
        assert not [link for link in links.values() if str(work) in link]


def _sandboxed(box: Box) -> list[int]:
    uid = str(box.inspect()["uids"]["untrusted"])
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/status").read_text()
        except OSError:
            continue
        if f"Uid:\t{uid}\t" in text:
            found.append(int(name))
    return found
