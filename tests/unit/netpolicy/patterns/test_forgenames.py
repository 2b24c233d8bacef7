"""Names with a meaning of their own on a forge: what belongs to a repository, and magic refs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.receivepack import Change, Command, RefName
from gitmoat.wire.git.repository_name import RepositoryPath, parse_repository
from netpolicy.ceiling import exceeded
from netpolicy.decision import (
    Allow,
    Deny,
    PushDenied,
    decide_fetch,
    decide_push,
    decide_repository,
)
from netpolicy.format.document import parse_policy, policy_from_mapping
from netpolicy.git_rules.asking import nearest
from netpolicy.git_rules.options import covers
from netpolicy.lint import lint
from netpolicy.narrowing import narrow
from netpolicy.patterns.forgenames import denied_with
from netpolicy.patterns.matchers import RepoPattern, parse_ref_pattern, parse_repo_pattern
from netpolicy.policy import Ceiling, GitBound, GitTest, Policy, Tier
from netpolicy.rule_kind import GitServers, NamedRepository, Options, Remark
from netpolicy.upstreams import Upstream, UpstreamTable
from tests.fakes.policies import OBJECTS, edited, patient, policies, repositories, tiers

TAILS = [".wiki", ".design", ".WIKI", ".wiki.wiki", ".design.wiki"]


def policy(allow: str, deny: str = "", push: str = "") -> Policy:
    text = f'version = 1\nname = "p"\n[[git]]\nid = "yes"\nrepos = ["up:{allow}"]\nfetch = true\n'
    text += f"push = {{ refs = [{push}] }}\n" if push else ""
    if deny:
        text += f'[[git]]\nid = "no"\neffect = "deny"\nrepos = ["up:{deny}"]\n'
    return parse_policy(text)


def fetches(of: Policy, path: str, fold: bool = False) -> bool:
    where = (of, "up", parse_repository(path.encode()), Tier.HELPER, fold)
    seen = isinstance(decide_repository(*where), Allow)
    assert seen is isinstance(decide_fetch(*where), Allow)
    return seen


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("wildcard", ["acme/*", "acme/**", "*/*", "**", "acme/s*", "acme/*i"])
def test_no_wildcard_takes_in_a_companion(wildcard: str, fold: bool, tail: str) -> None:
    assert not fetches(policy(wildcard), f"acme/secret{tail}", fold)
    assert not fetches(policy(wildcard), f"acme/secret{tail}.git", fold)


@pytest.mark.parametrize(
    "path", ["acme/secret/wiki", "acme/secret/snippets/12", "acme/secret/-/snippets/12"]
)
def test_no_wildcard_takes_in_a_companion_that_lies_below_its_repository(path: str) -> None:
    assert not fetches(policy("acme/**"), path)
    assert fetches(policy(path), path)
    assert not fetches(policy(path, deny="acme/secret"), path)
    assert not fetches(policy(path, deny="acme/s*"), path)


@pytest.mark.parametrize("path", ["acme/wiki", "acme/.wiki", "acme/design", "acme/a-wiki", "wiki"])
def test_a_repository_that_is_merely_called_wiki_is_one_like_any_other(path: str) -> None:
    assert fetches(policy("**"), path)


@pytest.mark.parametrize("spelled", ["acme/*.wiki", "acme/secret.wiki", "**/*.wiki", "*/s*.wiki"])
def test_a_companion_is_allowed_where_it_is_spelled_unless_its_repository_is_denied(
    spelled: str,
) -> None:
    assert fetches(policy(spelled), "acme/secret.wiki")
    assert not fetches(policy(spelled), "acme/secret")
    assert not fetches(policy(spelled), "acme/secret.wiki.wiki")
    assert fetches(policy(spelled), "acme/secret.WIKI", fold=True)
    assert not fetches(policy(spelled), "acme/secret.WIKI", fold=False)
    for deny in ("acme/secret", "acme/SECRET", "acme/s*", "acme/*", "**", "acme/secret.wiki"):
        assert not fetches(policy(spelled, deny), "acme/secret.wiki"), deny
    assert fetches(policy(spelled, deny="acme/secrets"), "acme/secret.wiki")


def test_a_repository_does_not_follow_its_companion() -> None:
    both = policy("acme/app", deny="acme/app.wiki")
    assert fetches(both, "acme/app")
    assert not fetches(policy("acme/app"), "acme/app.wiki")


@pytest.mark.parametrize("tail", [*TAILS, "/wiki", "/snippets/7", ".git.wiki"])
def test_a_denial_reaches_every_companion_however_deep(tail: str) -> None:
    path = f"acme/secret{tail}"
    assert not fetches(policy(path, deny="acme/secret"), path)
    assert fetches(policy(path, deny="acme/other"), path)


@pytest.mark.parametrize(
    "path",
    [
        "a/acme/secret",
        "p/acme/secret",
        "docs/acme/secret",
        "tickets/acme/secret",
        "requests/acme/secret",
        "a/acme/secret.wiki",
        "a/p/acme/secret",
        "A/p/a/acme/secret.wiki",
        "a/p/" * 40 + "acme/secret",
    ],
)
def test_a_denial_reaches_a_second_name_of_the_repository(path: str) -> None:
    assert not fetches(policy(path, deny="acme/secret"), path)


def test_a_denial_reaches_a_repository_that_is_called_like_what_stands_in_front() -> None:
    assert not fetches(policy("**", deny="docs/guide"), "a/p/docs/guide")


def test_a_path_of_nothing_but_such_names_stands_for_few() -> None:
    assert len(denied_with("a/" * 60 + "x/y" + "/wiki" * 25)) < 200


def test_a_denial_reaches_azures_views_of_the_repository() -> None:
    for view in ("_full", "_optimized"):
        path = f"org/project/_git/{view}/secret"
        assert fetches(policy("org/**"), path)
        assert not fetches(policy("org/**", deny="org/project/_git/secret"), path)


def test_what_a_rule_denies_of_a_repository_it_denies_of_its_companions() -> None:
    text = """version = 1
name = "p"
[[git]]
repos = ["up:acme/app", "up:acme/app.wiki"]
fetch = true
push = { branches = ["**"] }
[[git]]
effect = "deny"
repos = ["up:acme/app"]
push = { branches = ["main"] }
"""
    command = Command(*OBJECTS[Change.UPDATE], RefName("refs/heads/main"))
    wiki = RepositoryPath("acme/app.wiki")
    verdict = decide_push(parse_policy(text), "up", wiki, Tier.HELPER, False, [command])
    assert isinstance(verdict, PushDenied)
    assert isinstance(decide_fetch(parse_policy(text), "up", wiki, Tier.HELPER, False), Allow)


@patient
@given(policies(), repositories, tiers, st.booleans(), st.sampled_from([*TAILS, "/wiki"]))
def test_who_may_not_see_a_repository_by_a_deny_may_see_none_of_its_companions(
    of: Policy, path: RepositoryPath, tier: Tier, fold: bool, tail: str
) -> None:
    owner = decide_repository(of, "github", path, tier, fold)
    companion = RepositoryPath(path.text + tail)
    if isinstance(owner, Deny) and owner.rule:
        verdict = decide_repository(of, "github", companion, tier, fold)
        assert isinstance(verdict, Deny)


def test_a_ceilings_wildcard_covers_no_companion_that_a_policy_spells() -> None:
    ceiling = Ceiling(GitBound((RepoPattern("up", "acme/*"), RepoPattern("up", "acme/**"))))
    assert exceeded(policy("acme/*"), ceiling) is None
    for spelled in ("acme/*.wiki", "acme/app.wiki", "acme/*/wiki", "acme/app/snippets/*"):
        assert exceeded(policy(spelled), ceiling) == f"up:{spelled}"
        assert exceeded(policy(spelled), Ceiling(GitBound((RepoPattern("up", spelled),)))) is None
    wikis = Ceiling(GitBound((RepoPattern("up", "**/*.wiki"),)))
    assert exceeded(policy("acme/app.wiki"), wikis) is None


def test_narrowing_to_a_companion_takes_a_rule_that_spells_it() -> None:
    wiki = NamedRepository("up", RepositoryPath("acme/app.wiki"), fold=False)
    assert narrow(policy("acme/*"), Options((wiki,))).git == ()
    narrowed = narrow(policy("acme/*.wiki"), Options((wiki,)))
    assert fetches(narrowed, "acme/app.wiki") and not fetches(narrowed, "acme/x.wiki")


def test_the_nearest_change_spells_the_companion_and_names_the_rule_that_denies() -> None:
    wish = GitTest("allow", Tier.HELPER, "up", RepositoryPath("acme/app.wiki"), None, Change.UPDATE)
    before = policy("acme/*", deny="acme/app")
    near = nearest(before, wish, GitServers(lambda name: False, ()))
    assert fetches(edited(before, near), "acme/app.wiki")
    assert near[0].words.startswith("rule no denies it")
    assert '"up:acme/app.wiki"' in near[1].words


# Refs


def pushes(pattern: str, ref: str, deny: str = "") -> bool:
    rules: list[dict[str, object]] = [{"repos": ["up:acme/app"], "push": {"refs": [pattern]}}]
    if deny:
        rules.append({"repos": ["up:acme/app"], "effect": "deny", "push": {"refs": [deny]}})
    of = policy_from_mapping({"version": 1, "name": "p", "git": rules})
    command = Command(*OBJECTS[Change.CREATE], RefName(ref))
    where = (of, "up", RepositoryPath("acme/app"), Tier.HELPER, False)
    return isinstance(decide_push(*where, [command]), Allow)


MAGIC = [
    "refs/for/main",
    "refs/for-review/main",
    "refs/drafts/main",
    "refs/publish/main",
    "refs/changes/01/1/1",
    "refs/meta/config",
    "refs/users/01/1000001",
    "refs/pull/1/head",
    "refs/pull-requests/1/from",
    "refs/merge-requests/1/head",
    "refs/keep-around/x",
    "refs/environments/x/deployments/1",
    "refs/pipelines/1",
    "refs/replace/x",
    "refs/notes/review",
    "refs/Heads/main",
]


@pytest.mark.parametrize("ref", MAGIC)
def test_a_ref_with_a_meaning_of_its_own_is_allowed_only_where_it_is_spelled(ref: str) -> None:
    namespace = "/".join(ref.split("/")[:2])
    for wildcard in ("refs/**", "refs/*/**", f"{namespace[:-1]}*/**"):
        assert not pushes(wildcard, ref), wildcard
    assert pushes(f"{namespace}/**", ref)
    assert pushes(ref, ref)


@pytest.mark.parametrize("ref", ["refs/heads/for/main", "refs/tags/v1", "refs/heads/refs/for/main"])
def test_a_wildcard_for_every_ref_is_branches_and_tags(ref: str) -> None:
    assert pushes("refs/**", ref)


def test_gerrits_options_in_a_ref_are_allowed_only_where_their_sign_is_spelled() -> None:
    assert not pushes("refs/for/*", "refs/for/main%submit")
    assert not pushes("refs/for/**", "refs/for/main%topic=a/b")
    assert pushes("refs/for/main%topic=*", "refs/for/main%topic=x")
    assert pushes("refs/heads/*", "refs/heads/100%")


def test_a_wildcard_behind_gerrits_sign_takes_in_no_further_option() -> None:
    assert not pushes("refs/for/main%topic=*", "refs/for/main%topic=x,submit")
    assert not pushes("refs/for/*%*", "refs/for/main%wip,submit")
    assert pushes("refs/for/main%topic=*,wip", "refs/for/main%topic=x,wip")
    assert not pushes("refs/for/main%topic=*,wip", "refs/for/main%topic=x,submit,wip")
    assert pushes("refs/for/*%topic=*", "refs/for/a,b%topic=x")


@pytest.mark.parametrize(
    "deny", ["refs/**", "refs/for/*", "refs/FOR/main", "refs/*/main", "refs/for/main%submit"]
)
def test_a_rule_that_denies_takes_in_every_ref_its_letters_do(deny: str) -> None:
    assert not pushes("refs/for/main%submit", "refs/for/main%submit", deny)


def test_a_pattern_for_every_ref_covers_no_ref_with_a_meaning_of_its_own() -> None:
    every, review = parse_ref_pattern("refs/**"), parse_ref_pattern("refs/for/**")
    assert covers(every, parse_ref_pattern("refs/heads/x/**"))
    assert not covers(every, review)
    assert covers(review, parse_ref_pattern("refs/for/main"))
    assert not covers(review, parse_ref_pattern("refs/for/main%submit"))


# What `policy check` says of it


def remarks(of: Policy) -> list[Remark]:
    return lint(of, lambda domain: False, UpstreamTable((Upstream("up", ("git.example",), False),)))


@pytest.mark.parametrize("meant", ["acme/*wiki", "acme/*.w*", "**/*.*", "acme/*design"])
def test_a_wildcard_that_looks_as_if_it_meant_companions_is_remarked(meant: str) -> None:
    (remark,) = remarks(policy(meant))
    assert remark.path == "git[0].repos[0]" and "matches no wiki" in remark.what


@pytest.mark.parametrize("plain", ["acme/*", "**", "acme/web-*", "acme/*.wiki", "acme/*-wiki"])
def test_other_wildcards_are_not(plain: str) -> None:
    assert not remarks(policy(plain))


def test_a_wildcard_for_every_ref_is_remarked() -> None:
    (remark,) = remarks(policy("acme/app", push='"refs/notes/**", "refs/**"'))
    assert (remark.path, remark.what) == (
        "git[0].push.refs[1]",
        "refs/** matches branches and tags only",
    )


def test_a_companion_that_is_allowed_while_its_repository_is_denied_is_remarked() -> None:
    (remark,) = remarks(policy("acme/secret.wiki", deny="acme/secret"))
    assert remark.what == "rule yes allows only what other rules deny"
    assert not remarks(policy("acme/*.wiki", deny="acme/secret"))


def test_a_pattern_keeps_its_spelling() -> None:
    assert parse_repo_pattern("up:acme/*.wiki.git").text == "up:acme/*.wiki"
