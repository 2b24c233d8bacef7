import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.receivepack import RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.patterns.matchers import (
    BadPattern,
    HostPattern,
    RefPattern,
    RepoPattern,
    is_upstream_name,
    parse_branch_pattern,
    parse_ref_pattern,
    parse_repo_name,
    parse_repo_pattern,
    parse_tag_pattern,
    segments_match,
)
from tests.fakes import policies
from tests.fakes.slow_matching import slow_match


@policies.patient
@given(policies.pattern_segments, policies.subject_segments)
def test_matching_agrees_with_trying_everything(pattern: list[str], subject: list[str]) -> None:
    assert segments_match(pattern, subject) == slow_match(pattern, subject)


@policies.patient
@given(st.lists(st.sampled_from(["a", "*", "**", "a*"]), min_size=1, max_size=6), st.data())
def test_what_a_pattern_was_filled_with_matches_it(pattern: list[str], data: st.DataObject) -> None:
    subject: list[str] = []
    for segment in pattern:
        if segment == "**":
            subject += data.draw(st.lists(policies.words, min_size=1, max_size=3))
        else:
            subject.append(segment.replace("*", data.draw(policies.words)))
    assert segments_match(pattern, subject)


@policies.patient
@given(policies.repo_patterns, policies.repositories)
def test_folding_only_ever_widens(pattern: RepoPattern, path: RepositoryPath) -> None:
    """An allow rule takes in at most what its letters do, one that denies at least that."""
    folded = pattern.matches(pattern.upstream, path, fold=True)
    letters = slow_match(pattern.path.lower().split("/"), path.text.lower().split("/"))
    assert folded <= letters <= pattern.denies(pattern.upstream, path)
    assert folded or not pattern.matches(pattern.upstream, path, fold=False)


def test_what_one_pattern_matched_says_nothing_of_another() -> None:
    """In any order, and more of them than are remembered."""
    paths = [RepositoryPath(f"acme/r{number}") for number in range(600)]
    for _ in range(2):
        for number, path in enumerate(paths):
            assert RepoPattern("up", f"acme/r{number}").matches("up", path, False)
            assert RepoPattern("up", f"acme/R{number}").matches("up", path, True)
            assert not RepoPattern("up", f"acme/R{number}").matches("up", path, False)
            assert not RepoPattern("other", f"acme/r{number}").matches("up", path, False)
            assert not RepoPattern("up", f"acme/r{number}x").matches("up", path, False)


def test_a_pattern_made_to_be_slow_is_not() -> None:
    pattern = ["**", "a*a*a*a*b"] * 12
    assert not segments_match(pattern, ["a" * 60] * 60)


@pytest.mark.parametrize(
    ("pattern", "path", "fold", "expected"),
    [
        ("github:acme/app", "acme/app", False, True),
        ("github:acme/app", "acme/app2", False, False),
        ("github:acme/app", "acme/App", False, False),
        ("github:acme/app", "acme/App", True, True),
        ("github:acme/web-*", "acme/web-shop", False, True),
        ("github:acme/web-*", "acme/web-", False, True),
        ("github:acme/web-*", "acme/web-shop/sub", False, False),
        ("github:acme/*", "acme/app", False, True),
        ("github:acme/*", "acme/group/app", False, False),
        ("github:acme/**", "acme/group/app", False, True),
        ("github:acme/**", "acme", False, False),
        ("github:**", "acme", False, True),
        ("github:**/app", "acme/group/app", False, True),
        ("github:**/app", "app", False, False),
        ("github:acme/*-secrets", "acme/x-secrets", False, True),
        ("github:acme/a.c", "acme/abc", False, False),
        ("corp:acme/app", "acme/app", True, False),
    ],
)
def test_repository_patterns(pattern: str, path: str, fold: bool, expected: bool) -> None:
    parsed = parse_repo_pattern(pattern)
    assert parsed.matches("github", RepositoryPath(path), fold) is expected


@pytest.mark.parametrize("written", ["github:acme/app.git", "github:acme/app/", "github:acme/app"])
def test_a_repository_pattern_is_kept_in_the_canonical_spelling(written: str) -> None:
    assert parse_repo_pattern(written).text == "github:acme/app"


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "**",
        "acme/app",
        ":acme/app",
        "*:acme/app",
        "GitHub:acme/app",
        "github.com:acme/app",
        "github:",
        "github:/acme/app",
        "github:acme//app",
        "github:acme/../app",
        "github:./app",
        "github:acme/app?",
        "github:acme/[ab]",
        "github:!acme/app",
        "github:acme/a**",
        "github:acme/***",
        "github:acme/%61pp",
        "github:acme\\app",
        "github:acme/app\n",
        "github:acme/äpp",
        "github:acme/app.git.git",
        "github:acme/" + "a" * 255,
        "https://github.com/acme/app",
    ],
)
def test_broken_repository_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        parse_repo_pattern(pattern)


@pytest.mark.parametrize("text", ["acme/app", "github:acme/*", "GITHUB:acme/app", "github:a//b"])
def test_a_repository_by_name_takes_no_pattern(text: str) -> None:
    with pytest.raises(BadPattern):
        parse_repo_name(text)


@pytest.mark.parametrize(
    ("pattern", "ref", "expected"),
    [
        ("agent/**", "refs/heads/agent/fix", True),
        ("agent/**", "refs/heads/agent/a/b", True),
        ("agent/**", "refs/heads/agent", False),
        ("agent/**", "refs/heads/agents/fix", False),
        ("agent/**", "refs/heads/Agent/fix", False),
        ("agent/**", "refs/tags/agent/fix", False),
        ("agent/*", "refs/heads/agent/a/b", False),
        ("**", "refs/heads/main", True),
        ("**", "refs/pull/1", False),
        ("main", "refs/heads/main", True),
        ("main", "refs/heads/main/x", False),
        ("fix-*-done", "refs/heads/fix--done", True),
        ("fix-*-done", "refs/heads/fix-done", False),
    ],
)
def test_branch_patterns(pattern: str, ref: str, expected: bool) -> None:
    assert parse_branch_pattern(pattern).matches(RefName(ref)) is expected


def test_tags_and_full_refs_name_their_own_space() -> None:
    assert parse_tag_pattern("v*").matches(RefName("refs/tags/v1"))
    assert not parse_tag_pattern("v*").matches(RefName("refs/heads/v1"))
    assert parse_ref_pattern("refs/notes/*").matches(RefName("refs/notes/build"))
    assert parse_ref_pattern("refs/**").matches(RefName("refs/heads/main"))


def test_a_folded_ref_pattern_takes_every_case_and_look_alikes_of_ascii() -> None:
    pattern = RefPattern("refs/heads/mask")
    assert pattern.denies(RefName("refs/heads/MASK"))
    assert pattern.denies(RefName("refs/heads/mas\N{KELVIN SIGN}"))
    assert not pattern.matches(RefName("refs/heads/MASK"))


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "a..b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "[ab]",
        "a\\b",
        "a.lock",
        "*.lock",
        ".a",
        "a/.b",
        "a.",
        "a**",
        "***",
        "@{x",
        "refs/heads/main",
        "zweig-ü",
        "a" * 300,
    ],
)
def test_broken_branch_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        parse_branch_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["main", "heads/main", "refs/*", "refs", "HEAD", "+refs/heads/a"]
)
def test_a_ref_pattern_must_be_a_full_name_that_receive_pack_takes(pattern: str) -> None:
    with pytest.raises(BadPattern):
        parse_ref_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("mirror.corp.example", "mirror.corp.example", True),
        ("*.cdn.corp.example", "a.cdn.corp.example", True),
        ("*.cdn.corp.example", "cdn.corp.example", False),
        ("*.cdn.corp.example", "a.b.cdn.corp.example", False),
        ("**.cdn.corp.example", "a.b.cdn.corp.example", True),
        ("**.cdn.corp.example", "cdn.corp.example", False),
        ("*.cdn.corp.example", "evilcdn.corp.example", False),
        ("mirror-*.corp.example", "mirror-1.corp.example", True),
        ("mirror.corp.example", "mirror.corp.example.evil.test", False),
    ],
)
def test_host_patterns(pattern: str, host: str, expected: bool) -> None:
    assert HostPattern(pattern).matches(host) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "*",
        "**",
        "example.*",
        "Example.com",
        "example.com.",
        ".example.com",
        "a..example",
        "example.com:443",
        "https://example.com",
        "exämple.com",
        "a_b.example",
        "-a.example",
        "a-.example",
        "a**.example",
        "127.0.0.1",
        "127.1",
        "0",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "*.0.0.1",
        "1.2.3.0x4",
        "::1",
        "[::1]",
        "localhost",
        "a.localhost",
        "a" * 64 + ".example",
        ".".join(["a" * 50] * 6),
    ],
)
def test_broken_host_patterns_and_addresses_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        HostPattern(pattern)


def test_an_upstream_name_is_never_a_host_name() -> None:
    assert all(map(is_upstream_name, ["github", "corp-2", "a"]))
    assert not any(map(is_upstream_name, ["", "a.b", "A", "-a", "a-", "a_b", "a:1", "a" * 64]))
