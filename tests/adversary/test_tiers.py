"""Row 111: what is the helper's alone stays the helper's, at nft, at the sidecar, at the broker."""

from __future__ import annotations

import pytest

from tests.adversary.hostile import OTHER, Hostile, MakeHostile
from tests.stage.gitmoat import Gitmoat
from tests.stage.probes import CONNECT, CREDENTIAL
from tests.stage.repositories import ALLOWED, FORBIDDEN

# The helper may use both; the command may use one of them.
TIERS = """\
version = 1
name = "tiers"
[[git]]
id = "both"
repos = ["demo:acme/app"]
fetch = true
push = { branches = ["ci/**"], create = true, update = true }
who = ["helper", "untrusted"]
[[git]]
id = "helper-only"
repos = ["demo:acme/other"]
fetch = true
push = { branches = ["ci/**"], create = true, update = true }
who = ["helper"]
"""


@pytest.fixture(scope="module")
def tiers(stage: Gitmoat, make_hostile: MakeHostile) -> Hostile:
    (stage.paths.policies / "tiers.toml").write_text(TIERS)
    return make_hostile("--policy", "tiers")


def place(stage: Gitmoat, repository: str) -> str:
    return f"localhost:{stage.upstream.port}/{repository}.git"


@pytest.mark.parametrize(
    "target", ["127.0.0.1", "127.0.0.2", "127.1.2.3", "0.0.0.0", "::1", "::ffff:127.0.0.1"]
)
def test_the_helpers_port_has_no_address_that_the_command_reaches(
    tiers: Hostile, target: str
) -> None:
    family = "6" if ":" in target else "4"
    (found,) = tiers.box.python(CONNECT, {"targets": [[family, target, 418]]})["results"]
    assert found["error"] is not None
    assert "timed out" not in found["error"], "refused at once"
    (control,) = tiers.box.python(CONNECT, {"targets": [["4", "127.0.0.1", 419]]})["results"]
    assert control["error"] is None


def test_the_command_gets_only_what_lists_it(tiers: Hostile, stage: Gitmoat) -> None:
    """The same words for what is the helper's, what is nobody's, and what is not there."""
    tiers.plant("")
    assert tiers.control('git ls-remote "$URL"').code == 0
    answers = []
    for repository in (OTHER, FORBIDDEN, "acme/nothing"):
        url = stage.url(repository)
        ran = tiers.control(f"git ls-remote {url}")
        assert ran.code == 128
        answers.append(ran.err.replace(repository, "R").split("request id")[0])
    assert len(set(answers)) == 1
    assert tiers.requests() == {f"{ALLOWED}.git"}
    assert tiers.git("ls-remote", "other").ran.code == 0
    assert tiers.git("fetch", "other").ran.code == 0


def test_the_command_cannot_push_to_what_is_the_helpers(tiers: Hostile, stage: Gitmoat) -> None:
    tiers.plant("")
    ran = tiers.control(f"git push {stage.url(OTHER)} HEAD:ci/taken")
    assert ran.code != 0
    assert stage.upstream_ref("refs/heads/ci/taken", OTHER) is None


def test_a_token_of_the_helper_opens_nothing_on_the_commands_port(
    tiers: Hostile, stage: Gitmoat
) -> None:
    """Suppose it was stolen: the port that takes tokens is out of reach, the other takes none."""
    asked = {"credential": place(stage, OTHER), "ports": [418], "path": place(stage, OTHER)}
    used = tiers.box.python(CREDENTIAL, asked, as_helper=True)
    token = used["credential"]["password"]
    assert (used["418"], used["418 without"]) == (200, 401)
    tried = tiers.box.python(
        CREDENTIAL, {"token": token, "ports": [418, 419], "path": place(stage, OTHER)}
    )
    assert (tried["418"], tried["419"]) == (0, 404)
    assert tried["419"] == tried["419 without"]


def test_a_token_fits_one_repository(tiers: Hostile, stage: Gitmoat) -> None:
    question = {"credential": place(stage, OTHER), "ports": [418], "path": place(stage, ALLOWED)}
    assert tiers.box.python(CREDENTIAL, question, as_helper=True)["418"] == 401
