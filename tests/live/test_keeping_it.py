"""Backup and removal, as the pages say: their commands are run on roots of their own."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.inventory import cgroup_parents, cgroups
from tests.stage.command import run_hostctl
from tests.stage.gitmoat import Gitmoat
from tests.stage.instance import Instance
from tests.stage.kernel_view import processes
from tests.stage.repositories import ALLOWED

PAGES = Path(__file__).parents[2] / "docs" / "howto"


def shown(page: str, program: str) -> list[list[str]]:
    """The commands of a page that begin with this program."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.findall(rf"^ *# ({program} .*)$", text, re.MULTILINE)
    assert found, f"{page} shows no {program}"
    return [shlex.split(line) for line in found]


@pytest.fixture
def new_machine() -> Iterator[Instance]:
    root = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
    root.chmod(0o711)
    made = Instance(root)
    yield made
    made.remove()


def test_what_was_backed_up_opens_the_vault_on_another_machine(
    fresh_stage: Gitmoat, new_machine: Instance, tmp_path: Path
) -> None:
    keep, restore = shown("backup.md", "tar")
    before = fresh_stage.hostctl("--json", "status")
    for words, root in ((keep, fresh_stage.root), (restore, new_machine.root)):
        here = [str(root) if word == "/" else word for word in words]
        subprocess.run(here, check=True, cwd=tmp_path, umask=0o077)
    fresh_stage.hostctl("down", "--force").expect_success("down")
    new_machine.hostctl("up").expect_success("up on what was restored")
    tried = new_machine.hostctl("cred", "test", "demo", "--repo", f"demo:{ALLOWED}")
    assert tried.out.startswith(f"demo at demo:{ALLOWED}: accepted"), tried
    for daemon in ("broker", "hostd"):
        assert new_machine.status()[daemon]["key"] in before.out
    assert new_machine.hostctl("doctor").code == 0


def test_after_the_steps_of_its_removal_nothing_is_left(fresh_stage: Gitmoat) -> None:
    url = fresh_stage.url(ALLOWED)
    for name in ("fix", "ci"):
        ran = fresh_stage.hostctl("run", "-d", "--name", name, "--repo", url, "--", "sleep", "inf")
        ran.expect_success(f"making {name}")
    assert list(cgroups(fresh_stage.root))
    removed, stopped = shown("uninstall.md", "hostctl")[-2:]
    assert (removed[1], stopped[1]) == ("rm", "down")
    for words in (removed, stopped):
        run_hostctl(fresh_stage.root, *words[1:]).expect_success(" ".join(words))
    deleted, program = shown("uninstall.md", "rm")
    assert program[2:] == ["/opt/gitmoat", "/usr/local/bin/hostctl"]  # a wheel's
    for path in deleted[2:]:
        shutil.rmtree(fresh_stage.root / path.lstrip("/"))
    root = str(fresh_stage.root)
    ours = [line for line in processes().values() if root in line and "upstream" not in line]
    assert ours == [] and root not in Path("/proc/mounts").read_text()
    assert [each for each in cgroup_parents(fresh_stage.root.stat()) if each.exists()] == []
    assert list(fresh_stage.root.rglob("*gitmoat*")) == []
