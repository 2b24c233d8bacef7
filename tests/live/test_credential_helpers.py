"""A git credential helper of the host's owner, run by hostd as that user, heard by the broker."""

from __future__ import annotations

import json
import os
import pwd
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stage.boxes import start_box
from tests.stage.gitmoat import Gitmoat
from tests.waiting import eventually

USER = "x-access-token"
OWNER = pwd.getpwnam("nobody")
SPY = """\
#!/bin/sh
[ "$1" = get ] || { echo "$1" >> "$0.misused"; exit 1; }
echo run >> "$0.runs"
id -u > "$0.uid"; id -G > "$0.groups"; env > "$0.env"
ls -l /proc/self/fd > "$0.fds"
cat > "$0.asked"
cat "$0.answer"
"""


def password_of(stage: Gitmoat) -> str:
    """What the demo's upstream accepts."""
    return stage.upstream.password


class Helper:
    """A helper's script, and what it saw."""

    def __init__(self, folder: Path, stage: Gitmoat) -> None:
        self.path = folder / "helper"
        self.stage = stage
        self.write(SPY)
        self.answer(f"username={USER}\npassword={password_of(stage)}\n")

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.path.chmod(0o755)
        os.chown(self.path, OWNER.pw_uid, OWNER.pw_gid)

    def answer(self, text: str) -> None:
        path = self.path.with_name("helper.answer")
        path.write_text(text)
        path.chmod(0o400)
        os.chown(path, OWNER.pw_uid, OWNER.pw_gid)

    def saw(self, name: str) -> str:
        path = self.path.with_name(f"helper.{name}")
        return path.read_text() if path.exists() else ""

    @property
    def runs(self) -> int:
        return self.saw("runs").count("run")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's: its directories are closed to the helper's user."""
    import shutil
    import tempfile

    made = Path(tempfile.mkdtemp(prefix="gm-helper-", dir="/tmp"))
    os.chown(made, OWNER.pw_uid, OWNER.pw_gid)
    made.chmod(0o700)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def shared() -> Iterator[Gitmoat]:
    from tests.stage.gitmoat import opened

    with opened() as made:
        yield made


def use(stage: Gitmoat, command: str) -> None:
    """Makes the demo's upstream use this helper."""
    path = stage.paths.broker_d / "upstream-demo.toml"
    name = f"own-{time.monotonic_ns()}"
    added = stage.hostctl("cred", "add", name, "--command", command, "--user", OWNER.pw_name)
    assert added.code == 0, added.err
    lines = path.read_text().splitlines()
    changed = [f'provider = "{name}"' if one.startswith("provider") else one for one in lines]
    path.write_text("\n".join(changed) + "\n")
    stage.hostctl("reload").expect_success("reload")


def refs(stage: Gitmoat, name: str) -> Any:
    return stage.hostctl("git", name, "--", "ls-remote", "origin")


def outcomes(stage: Gitmoat) -> list[dict[str, Any]]:
    lines = (stage.paths.broker_audit).read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["event"] == "git.outcome"]


@pytest.fixture(scope="module")
def box(shared: Gitmoat) -> Iterator[str]:
    """Made while the upstream still has the demo's own credential."""
    made = start_box(shared)
    yield made.name
    made.remove()


def test_a_custom_helper_is_run_as_its_user_and_asked_for_the_server(
    shared: Gitmoat, folder: Path, box: str
) -> None:
    helper = Helper(folder, shared)
    use(shared, str(helper.path))
    for _ in range(3):
        refs(shared, box).expect_success("ls-remote")
    host = shared.upstream.url.removeprefix("https://")
    assert helper.saw("asked") == f"protocol=https\nhost={host}\n\n"
    assert helper.saw("uid").strip() == str(OWNER.pw_uid)
    assert "0" not in helper.saw("groups").split()
    assert helper.runs == 1  # kept for five minutes at most
    assert not helper.saw("misused")
    environment = dict(one.split("=", 1) for one in helper.saw("env").splitlines())
    assert environment["HOME"] == OWNER.pw_dir
    assert not {one for one in environment if one.startswith(("GITMOAT", "PYTHON"))}
    links = [one.split(" -> ")[1] for one in helper.saw("fds").splitlines() if " -> " in one]
    assert sum(one.startswith("socket:") for one in links) == 2 or len(links) <= 5, links


def test_gits_own_store_is_a_helper(shared: Gitmoat, folder: Path, box: str) -> None:
    store = folder / "credentials"
    host = shared.upstream.url.removeprefix("https://")
    user = USER
    store.write_text(f"https://{user}:{password_of(shared)}@{host}\n")
    store.chmod(stat.S_IRUSR | stat.S_IWUSR)
    os.chown(store, OWNER.pw_uid, OWNER.pw_gid)
    before = store.read_bytes()
    use(shared, f"git credential-store --file {store}")
    refs(shared, box).expect_success("ls-remote")
    # A refusal of the upstream's must not make us erase what is the owner's.
    store.write_text(f"https://{user}:wrong@{host}\n")
    wrong = store.read_bytes()
    use(shared, f"git credential-store --file {store}")
    assert "U102" in refs(shared, box).err
    assert store.read_bytes() == wrong
    store.write_bytes(before)
    # The one that was refused is not kept: no reload is needed.
    refs(shared, box).expect_success("ls-remote after the owner's new login")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("#!/bin/sh\nexit 3\n", "ended with status 3"),
        ("#!/bin/sh\nexit 0\n", "has no credential for this server"),
        ("#!/bin/sh\necho marker-text\n", "git would not understand"),
        ("#!/bin/sh\necho host=evil.example; echo username=u; echo password=p\n", "another server"),
        ("not a program", "may not execute it"),
    ],
)
def test_a_helper_that_fails_is_a_502_for_git_and_a_reason_for_the_admin(
    shared: Gitmoat, folder: Path, box: str, script: str, why: str
) -> None:
    helper = Helper(folder, shared)
    helper.write(script)
    if script.startswith("not"):
        helper.path.chmod(0o600)
    use(shared, str(helper.path))
    ran = refs(shared, box)
    assert ran.code != 0 and "U105" in ran.err and why not in ran.err
    reason = outcomes(shared)[-1]["reason"]
    assert why in reason and "marker-text" not in reason


def test_a_slow_helper_is_bounded_and_ended(shared: Gitmoat, folder: Path, box: str) -> None:
    helper = Helper(folder, shared)
    helper.write('#!/bin/sh\necho $$ > "$0.pid"\nsleep 300\n')
    use(shared, str(helper.path))
    ran = refs(shared, box)
    assert "U105" in ran.err
    assert "does not answer" in outcomes(shared)[-1]["reason"]
    pid = int(helper.saw("pid"))
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the helper to be ended")


def test_hostd_reads_the_command_from_roots_files_and_nobody_elses(
    shared: Gitmoat, folder: Path, box: str
) -> None:
    helper = Helper(folder, shared)
    use(shared, str(helper.path))
    (path,) = [
        one for one in shared.paths.broker_d.iterdir() if str(helper.path) in one.read_text()
    ]
    path.chmod(0o664)
    ran = refs(shared, box)
    path.chmod(0o640)
    assert "U105" in ran.err
    assert "root's alone" in outcomes(shared)[-1]["reason"]
    assert helper.runs == 0


def test_a_restarted_broker_finds_hostd_again(shared: Gitmoat, folder: Path, box: str) -> None:
    helper = Helper(folder, shared)
    use(shared, str(helper.path))
    pid = json.loads(shared.hostctl("--json", "status").out)["broker"]["pid"]
    os.kill(pid, 9)
    eventually(lambda: shared.hostctl("status").code == 5, "the broker to be gone")
    shared.hostctl("up").expect_success("up")
    eventually(lambda: refs(shared, box).code == 0, "the helper to be asked")
    assert helper.runs == 1
