"""Row 68: whatever the command has the owner push, or pushes itself, the broker decides per ref.

One denied ref refuses the whole command list, with a reason for each, and the upstream is left as
it was.
"""

from __future__ import annotations

import pytest

from tests.adversary.hostile import Hostile
from tests.fakes.long_cases import one_in
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, bare, git, refs

DENIED = [
    "refs/heads/main",
    "refs/heads/ci",
    "refs/heads/CI/x",
    "refs/heads/ci2/x",
    "refs/heads/x/ci/y",
    "refs/tags/v1",
    "refs/tags/ci/x",
    "refs/pull/1/head",
    "refs/pull/1/merge",
    "refs/for/main",
    "refs/changes/01/1/1",
    "refs/meta/config",
    "refs/notes/commits",
    "refs/replace/" + "ab" * 20,
    "refs/remotes/origin/ci/x",
    "refs/stash/ci/x",
]
MALFORMED = ["refs/heads/ci/../main", "refs/heads/ci/x.lock", "refs/heads/ci//x", "refs/heads/ci/"]


@pytest.mark.parametrize("ref", one_in(3, DENIED))
def test_a_ref_that_no_rule_lists_is_refused_to_both(
    hostile: Hostile, stage: Gitmoat, ref: str
) -> None:
    before = refs(stage)
    hostile.plant("")
    pushed = hostile.git("push", "app", f"HEAD:{ref}")
    own = hostile.control(f'git push "$URL" HEAD:{ref}')
    for ran in (pushed.ran, own):
        assert ran.code == 1
        assert "not allowed (G201)" in ran.err, ran.err
    assert refs(stage) == before
    hostile.check()


@pytest.mark.parametrize("ref", MALFORMED)
def test_a_name_that_is_no_ref_is_refused_before_anything_runs(hostile: Hostile, ref: str) -> None:
    hostile.plant("")
    pushed = hostile.git("push", "app", f"HEAD:{ref}")
    assert pushed.ran.code == 2
    assert hostile.requests() == set()


def test_deleting_is_refused_even_where_pushing_is_allowed(
    hostile: Hostile, stage: Gitmoat
) -> None:
    hostile.plant("")
    assert hostile.git("push", "app", "HEAD:ci/stays").ran.code == 0
    for ran in (
        hostile.git("push", "app", ":ci/stays").ran,
        hostile.git("push", "app", "+:ci/stays").ran,
        hostile.control('git push "$URL" :ci/stays'),
    ):
        assert ran.code == 1
        assert "(G202)" in ran.err
    assert "refs/heads/ci/stays" in refs(stage)


def test_a_forced_update_stays_within_the_listed_refs(hostile: Hostile, stage: Gitmoat) -> None:
    hostile.plant("git checkout -q --orphan other && git commit -q -m Other")
    before = refs(stage)["refs/heads/main"]
    ran = hostile.git("push", "app", "+HEAD:main").ran
    assert ran.code == 1 and "(G201)" in ran.err
    assert hostile.control('git push -f "$URL" HEAD:main').code == 1
    assert refs(stage)["refs/heads/main"] == before


def test_symbolic_names_reach_no_other_ref(hostile: Hostile, stage: Gitmoat) -> None:
    """HEAD of the upstream is not a ref that can be named; HEAD of the workspace is a commit."""
    hostile.plant("git symbolic-ref refs/heads/ci/alias refs/heads/main")
    before = refs(stage)["refs/heads/main"]
    assert hostile.git("push", "app", "HEAD:HEAD").ran.code in (1, 2)
    assert hostile.control('git push "$URL" HEAD:HEAD').code != 0
    hostile.git("push", "app", "ci/alias:ci/alias")
    assert refs(stage)["refs/heads/main"] == before
    head = git("--git-dir", str(bare(stage, ALLOWED)), "symbolic-ref", "HEAD")
    assert head == "refs/heads/main"


def test_one_denied_ref_among_a_thousand_refuses_all(hostile: Hostile, stage: Gitmoat) -> None:
    before = refs(stage)
    hostile.plant("")
    words = [f"HEAD:ci/many-{number}" for number in range(998)] + ["HEAD:main"]
    pushed = hostile.git("push", "app", *words)
    own = hostile.control(f'git push "$URL" {" ".join(words)}')
    for ran in (pushed.ran, own):
        assert ran.code == 1
        assert ran.err.count("refused with the rest") == 998
        assert ran.err.count("[remote rejected]") == 999
    assert refs(stage) == before


def test_more_refs_than_a_push_may_have_are_refused(hostile: Hostile, stage: Gitmoat) -> None:
    before = refs(stage)
    hostile.plant("")
    words = " ".join(f"HEAD:ci/more-{number}" for number in range(4001))
    own = hostile.control(f'git push "$URL" {words}')
    assert own.code != 0 and "4000" in own.err, own.err[:500]
    assert refs(stage) == before
