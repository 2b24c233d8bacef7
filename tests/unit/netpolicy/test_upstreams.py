import json

import pytest

from gitmoat.wire.git.repository_name import Place, RepositoryPath
from netpolicy.author import Author
from netpolicy.format.reading import PolicyError
from netpolicy.upstreams import (
    Upstream,
    UpstreamTable,
    gitconfig_for,
    rewriting_for,
    without_userinfo,
)

GITHUB = Upstream("github", ("github.com", "www.github.com", "ssh.github.com"), True)
CORP = Upstream("corp", ("git.corp.example:8443",), False)
TABLE = UpstreamTable((GITHUB, CORP))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/acme/app", "github"),
        ("https://github.com/acme/app.git", "github"),
        ("https://github.com/acme/app.git/", "github"),
        ("https://github.com:443/acme/app", "github"),
        ("https://www.github.com/acme/app", "github"),
        ("git@github.com:acme/app.git", "github"),
        ("ssh://git@github.com/acme/app.git", "github"),
        ("ssh://git@github.com:22/acme/app", "github"),
        ("ssh://git@ssh.github.com:443/acme/app.git", "github"),
        ("git+ssh://git@github.com/acme/app", "github"),
        ("git://github.com/acme/app", "github"),
        ("HTTPS://GitHub.COM/acme/app", "github"),
        ("git@GitHub.com:acme/app", "github"),
        ("ssh://git@GITHUB.com:22/acme/app", "github"),
        ("github:acme/app", "github"),
        ("corp:acme/app.git", "corp"),
        ("https://git.corp.example:8443/acme/app", "corp"),
        ("git@git.corp.example:acme/app", "corp"),
        ("ssh://git@git.corp.example/acme/app", "corp"),
    ],
)
def test_a_url_as_people_type_it_leads_to_its_upstream(url: str, name: str) -> None:
    located = TABLE.locate(url)
    assert located is not None
    assert (located[0].name, located[1]) == (name, RepositoryPath("acme/app"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "acme/app",
        "https://github.com",
        "https://github.com/",
        "https://github.com.evil.test/acme/app",
        "https://evil.test/https://github.com/acme/app",
        "https://github.com@evil.test/acme/app",
        "https://user:secret@github.com/acme/app",
        "GitHub:acme/app",
        "nobody:acme/app",
        "github:acme/../app",
        "github:",
        "GIT@github.com:acme/app",
        "https://git.corp.example/acme/app",
        "https://github.com:8443/acme/app",
        "https://github.com/acme/../app",
        "https://github.com/acme%2fapp",
        "https://github.com//acme/app",
        "https://github.com/acme/app?x",
        "https://github.com/acme/\udcff",
        "https://github.com/acme/ä",
        "http://github.com/acme/app",
        "file:///srv/github.com/acme/app",
        "ext::sh -c true",
    ],
)
def test_a_url_of_no_upstream_is_not_guessed_at(url: str) -> None:
    assert TABLE.locate(url) is None


def test_the_path_is_never_folded() -> None:
    located = TABLE.locate("https://GITHUB.com/ACME/App")
    assert located is not None and located[1] == RepositoryPath("ACME/App")


@pytest.mark.parametrize(
    "url, shown",
    [
        ("https://user:secret@git.example/a/b", "https://git.example/a/b"),
        ("https://user:se@cret@git.example/a/b", "https://git.example/a/b"),
        ("https://user:se/cret@git.example/a/b", "https://git.example/a/b"),
        ("https://user:secret@git.example/https://x", "https://git.example/https://x"),
        ("user:secret@git.example/a/b", "git.example/a/b"),
        ("https://git.example/a/b", "https://git.example/a/b"),
        ("corp:a/b", "corp:a/b"),
    ],
)
def test_what_is_shown_of_a_url_has_no_password(url: str, shown: str) -> None:
    assert without_userinfo(url) == shown


def test_a_place_is_a_host_of_the_table_and_never_an_upstreams_name() -> None:
    assert TABLE.by_place(Place("github.com")) is GITHUB
    assert TABLE.by_place(Place("github.com:443")) is GITHUB
    assert TABLE.by_place(Place("www.github.com")) is GITHUB
    assert TABLE.by_place(Place("git.corp.example:8443")) is CORP
    assert TABLE.by_place(Place("git.corp.example")) is None
    assert TABLE.by_place(Place("github")) is None
    assert TABLE.by_name("github") is GITHUB
    assert TABLE.by_name("github.com") is None


def test_a_bare_name_shared_by_two_ports_belongs_to_the_https_port_or_to_nobody() -> None:
    one, other = Upstream("one", ("h.example:1",), False), Upstream("two", ("h.example:2",), False)
    assert UpstreamTable((one, other)).locate("git@h.example:a/b") is None
    plain = Upstream("plain", ("h.example",), False)
    located = UpstreamTable((one, plain)).locate("git@h.example:a/b")
    assert located is not None
    assert located[0] is plain


def test_no_beginning_of_a_url_means_two_things() -> None:
    prefixes = [prefix for prefix, _ in TABLE.spellings()]
    assert len(prefixes) == len(set(prefixes))
    assert not [
        (one, other)
        for one in prefixes
        for other in prefixes
        if one != other and one.startswith(other)
    ]


def test_the_mapping_round_trips_through_json() -> None:
    mapping = TABLE.to_mapping()
    assert UpstreamTable.from_mapping(json.loads(json.dumps(mapping))) == TABLE


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"name": "a", "hosts": ["a.example"]}, "upstreams[0].case_insensitive"),
        ({"name": "A", "hosts": ["a.example"], "case_insensitive": True}, "upstreams[0]"),
        ({"name": "a", "hosts": [], "case_insensitive": True}, "upstreams[0]"),
        ({"name": "a", "hosts": ["A.example"], "case_insensitive": True}, "upstreams[0]"),
        ({"name": "a", "hosts": ["a.example:0"], "case_insensitive": True}, "upstreams[0]"),
        ({"name": "a", "hosts": [1], "case_insensitive": True}, "upstreams[0].hosts[0]"),
        ({"name": "a", "hosts": ["a.example"], "case_insensitive": True, "x": 1}, "upstreams[0].x"),
    ],
)
def test_a_bad_mapping_is_refused_with_its_path(entry: dict[str, object], path: str) -> None:
    with pytest.raises(PolicyError) as caught:
        UpstreamTable.from_mapping({"upstreams": [entry]})
    assert caught.value.path == path


@pytest.mark.parametrize(
    "upstreams",
    [
        (GITHUB, Upstream("github", ("other.example",), True)),
        (GITHUB, Upstream("copy", ("github.com:443",), True)),
        (Upstream("twice", ("a.example", "a.example:443"), True),),
    ],
)
def test_a_table_in_which_a_name_or_host_is_ambiguous_is_refused(
    upstreams: tuple[Upstream, ...],
) -> None:
    with pytest.raises(ValueError, match=r"one name|listed twice"):
        UpstreamTable(upstreams)


def test_the_git_config_rewrites_every_spelling_and_resets_helpers() -> None:
    text = gitconfig_for(TABLE, 419, "/workspace", Author())
    github = text.partition('[url "http://127.0.0.1:419/git.corp.example:8443/"]')[0]
    assert github.startswith('[url "http://127.0.0.1:419/github.com/"]\n')
    for prefix in ("https://github.com/", "git@github.com:", "https://www.github.com/"):
        assert f"\tinsteadOf = {prefix}\n" in github
    assert "\tinsteadOf = https://git.corp.example:8443/\n" in text
    assert "[credential]\n\thelper =\n" in text
    assert '[safe]\n\tdirectory = "/workspace"\n' in text


@pytest.mark.parametrize("workspace", ["", "workspace", "/a\nb", "/ä", "/\x7f"])
def test_a_workspace_that_could_break_the_config_is_refused(workspace: str) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        gitconfig_for(TABLE, 419, workspace, Author())


def test_what_an_image_says_stands_behind_the_rewriting_and_before_the_rest() -> None:
    text = gitconfig_for(TABLE, 419, "/workspace", Author(), "/run/gitmoat/image.gitconfig")
    before, between, after = text.partition('[include]\n\tpath = "/run/gitmoat/image.gitconfig"\n')
    assert between
    assert before == rewriting_for(TABLE, 419)
    assert after.startswith("[credential]\n\thelper =\n[safe]")


def test_the_brokers_patience_goes_with_the_table() -> None:
    table = UpstreamTable((GITHUB,), idle=300)
    assert UpstreamTable.from_mapping(table.to_mapping()) == table
    without = {"upstreams": table.to_mapping()["upstreams"]}
    assert UpstreamTable.from_mapping(without).idle == 60
    with pytest.raises(PolicyError):
        UpstreamTable.from_mapping({**without, "idle": 0})
