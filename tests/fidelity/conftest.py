"""One stage for the whole suite, with a policy that allows everything the table does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fidelity.arena import TIERS, Arena
from tests.fidelity.templates import Templates
from tests.fidelity.ways import Direct, Through, Way
from tests.stage.boxes import box_maker
from tests.stage.gitmoat import Gitmoat, opened

POLICY = """\
version = 1
name = "fidelity"
[limits]
git_requests_per_minute = 100000
[[git]]
id = "all"
repos = ["demo:agent/*", "demo:helper/*"]
fetch = true
push = { branches = ["**"], tags = ["**"], refs = ["refs/notes/**", "refs/keep/**"], delete = true }
who = ["helper", "untrusted"]
[[git]]
id = "some"
repos = ["demo:strict/*"]
fetch = true
push = { branches = ["agent/**"] }
who = ["helper", "untrusted"]
[[git]]
id = "drop"
repos = ["demo:drop/*"]
push = { branches = ["agent/**"] }
who = ["helper", "untrusted"]
[[git]]
id = "optional"
repos = ["demo:optional/*"]
fetch = true
push = { branches = ["agent/**"], options = true }
who = ["helper", "untrusted"]
"""


@pytest.fixture(scope="session")
def fidelity_stage() -> Iterator[Gitmoat]:
    with opened() as made:
        (made.paths.policies / "fidelity.toml").write_text(POLICY)
        yield made


@pytest.fixture(scope="session")
def arena(fidelity_stage: Gitmoat, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    stage = fidelity_stage
    home = stage.root / "fidelity-home"
    home.mkdir(mode=0o700)
    templates = Templates(stage, tmp_path_factory.mktemp("templates"))
    _neighbours(stage, templates)
    with box_maker(stage) as make:
        box = make("--policy", "fidelity", repo=None)
        ways: dict[str, Way] = {"direct": Direct(stage, str(home))}
        ways |= {tier: Through(box, tier) for tier in ("agent", "helper")}
        yield Arena(stage, templates, box, ways)


def _neighbours(stage: Gitmoat, templates: Templates) -> None:
    """Repositories that scripts use besides their own."""
    for tier in TIERS:
        templates.copy("plain", f"{tier}/sub")
        templates.copy("plain", f"{tier}/source")
    templates.copy("plain", "hidden/one")
