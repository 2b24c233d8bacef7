import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.repository_name import (
    MAX_PATH,
    Place,
    RepositoryPath,
    parse_place,
    parse_repository,
)
from gitmoat.wire.malformed import Malformed

SEGMENTS = st.text("abcXYZ019._~+-", min_size=1, max_size=12).filter(
    lambda each: each not in (".", "..") and not each.lower().endswith(".git")
)
PATHS = st.lists(SEGMENTS, min_size=1, max_size=5).map("/".join)


@pytest.mark.parametrize(
    "raw",
    [b"acme/app", b"acme/app.git", b"acme/app/", b"acme/app.git/"],
)
def test_every_usual_spelling_is_one_repository(raw: bytes) -> None:
    assert parse_repository(raw) == RepositoryPath("acme/app")


@pytest.mark.parametrize(
    "raw",
    [b"app", b"a/b/c/d", b"~me/app", b"c++/x_y-z", b"acme/.github", b"acme/app.wiki", b"acme/git"],
)
def test_plain_paths_are_kept_as_they_are(raw: bytes) -> None:
    assert parse_repository(raw).text == raw.decode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"/",
        b".git",
        b"/acme/app",
        b"acme//app",
        b"acme/app//",
        b"acme/./app",
        b"acme/../app",
        b"..",
        b"acme/..git",
        b"acme/...git",
        b"acme/.git",
        b"acme/app/.git",
        b"acme/.git/.git",
        b"acme/app.git.git",
        b"acme/app.GIT",
        b"acme/app.git/.git",
        b"acme.git/app",
        b"acme/app.git/info/lfs/x",
        b"acme/a%2fb",
        b"acme/%2e%2e",
        b"acme\\app",
        b"acme/app;x",
        b"acme/app?x",
        b"acme/app#x",
        b"acme/a b",
        b"acme/a:b",
        b"acme/a@b",
        b"acme/a*",
        b"acme/app\x00",
        b"acme/app\n",
        b"acme/app.git\n",
        b"acme/\x7f",
        b"acme/\xc3\xa9",
        b"acme/\xff",
        b"a" * (MAX_PATH + 1),
    ],
)
def test_what_is_not_canonical_is_refused_and_looks_unknown(raw: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        parse_repository(raw)
    assert refused.value.status == 404


def test_the_longest_path_counts_without_its_ending() -> None:
    assert len(parse_repository(b"a" * MAX_PATH + b".git/").text) == MAX_PATH


@given(PATHS)
def test_a_path_and_its_usual_spellings_read_back_alike(text: str) -> None:
    raw = text.encode()
    for spelling in (raw, raw + b".git", raw + b"/", raw + b".git/"):
        assert parse_repository(spelling).text == text


@given(st.binary(max_size=300))
def test_whatever_is_accepted_is_canonical(raw: bytes) -> None:
    try:
        text = parse_repository(raw).text
    except Malformed:
        return
    assert parse_repository(text.encode()).text == text
    assert all(text.split("/")) and len(text) <= MAX_PATH


@pytest.mark.parametrize(
    "text",
    ["github.com", "github", "git.corp.example:8443", "127.0.0.1:65535", "xn--bcher-kva.example"],
)
def test_places_are_host_names_with_an_optional_port(text: str) -> None:
    assert parse_place(text.encode()) == Place(text)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"GitHub.com",
        b".",
        b"..",
        b"a..b",
        b".a",
        b"a.",
        b"-a",
        b"a-",
        b"a_b",
        b"a:",
        b"a:0",
        b"a:080",
        b"a:65536",
        b"a:100000",
        b"a:1:2",
        b":443",
        b"[::1]",
        b"a@b",
        b"a%2eb",
        b"a b",
        b"a\n",
        b"a:1\n",
        b"\xc3\xa9",
        b"a" * 64,
        b".".join([b"a" * 63] * 4),
    ],
)
def test_other_places_are_refused_and_look_unknown(raw: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        parse_place(raw)
    assert refused.value.status == 404


def test_values_cannot_be_made_past_their_parser() -> None:
    with pytest.raises(Malformed):
        RepositoryPath("acme/../app")
    with pytest.raises(Malformed):
        Place("Evil\n")
