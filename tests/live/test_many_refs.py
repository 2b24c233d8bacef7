"""A repository with a hundred thousand refs: neither tier loses one (threat model 106)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator

import pytest

from tests.stage.boxes import HOME, Box
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import peak_memory
from tests.stage.repositories import bare, create_repository, refs
from tests.stage.repositories import git as host_git

pytestmark = pytest.mark.long

PATIENCE = 900
MOST_KIB = 350 * 1024  # of hostd, whoever fills the workspace; it parses what both sides have
# How many refs, and how long their names: many, and more octets than hostd keeps by itself.
SHAPES = {"many": (100_000, 8), "long": (16_000, 230)}
LIST = "git -C {} for-each-ref --format='%(refname:lstrip=3)' refs/remotes/origin"


def fill(stage: Gitmoat, repository: str, count: int, width: int) -> None:
    """One commit per branch, in one line; git itself takes minutes over as many branches."""
    create_repository(stage.upstream.repositories, repository, {"a.txt": b"one\n"})
    path = bare(stage, repository)
    stream = b"".join(
        b"commit refs/heads/all\nmark :%d\ncommitter A <a@example.org> %d +0000\ndata 0\n%b\n"
        % (number, 1700000000 + number, b"" if number > 1 else b"from refs/heads/main^0\n")
        for number in range(1, count + 1)
    )
    with tempfile.NamedTemporaryFile("r") as marks:
        importing = ("fast-import", "--quiet", f"--export-marks={marks.name}")
        host_git("--git-dir", str(path), *importing, stdin=stream)
        oids = [line.split()[1] for line in marks]
    made = {f"refs/heads/{n:0{width}}": oid for n, oid in enumerate(oids)}
    named = sorted((refs(stage, repository) | made).items())
    host_git("--git-dir", str(path), "pack-refs", "--all", "--prune")
    header = "# pack-refs with: peeled fully-peeled sorted \n"
    path.joinpath("packed-refs").write_text(
        header + "".join(f"{oid} {name}\n" for name, oid in named)
    )


@pytest.fixture(params=SHAPES)
def repository(stage: Gitmoat, request: pytest.FixtureRequest) -> str:
    name = f"play/refs-{request.param}"
    fill(stage, name, *SHAPES[request.param])
    return name


@pytest.fixture
def box(stage: Gitmoat, repository: str) -> Iterator[Box]:
    scope = ("--policy", "play", "--repo", stage.url(repository))
    run = ("run", "-d", "--name", "many-refs", *scope, "--", "sleep", "infinity")
    stage.hostctl(*run, timeout=PATIENCE).expect_success("hostctl run")
    found = Box(stage, "many-refs")
    yield found
    found.remove()


def branches(stage: Gitmoat, repository: str) -> set[str]:
    return {name.removeprefix("refs/heads/") for name in refs(stage, repository)}


def listed(box: Box, directory: str) -> set[str]:
    return set(box.sh(LIST.format(directory)).expect_success("refs").split()) - {"HEAD"}


def gate(stage: Gitmoat, box: Box, *words: str) -> None:
    stage.hostctl("git", box.name, "--", *words, timeout=PATIENCE).expect_success(words[0])


def test_every_ref_arrives_on_both_ways_and_leaves_again(
    stage: Gitmoat, box: Box, repository: str
) -> None:
    assert listed(box, "/workspace") == branches(stage, repository)
    gone = sorted(branches(stage, repository))[-1]
    first = sorted(branches(stage, repository))[0]
    path = str(bare(stage, repository))
    for branch in (gone, first):
        host_git("--git-dir", path, "update-ref", "-d", f"refs/heads/{branch}")
    gate(stage, box, "fetch")
    assert listed(box, "/workspace") == branches(stage, repository)
    box.sh("cd /workspace && git commit -q --allow-empty -m new").expect_success("commit")
    gate(stage, box, "push", "origin", "HEAD:agent/new")
    assert "agent/new" in branches(stage, repository)
    clone = ("git", "clone", "-q", "--no-checkout", stage.url(repository), f"{HOME}/c")
    box.run(*clone, timeout=PATIENCE).expect_success("git clone")
    assert listed(box, f"{HOME}/c") == branches(stage, repository)
    hostd = json.loads(stage.hostctl("--json", "status").out)["hostd"]["pid"]
    assert peak_memory(hostd) < MOST_KIB
