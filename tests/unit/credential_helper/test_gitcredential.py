"""git's credential protocol, read strictly: threat model row 49 and the CVEs behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from credential_helper.gitcredential import (
    LINE_LIMIT,
    LINES_LIMIT,
    QUIT,
    REQUEST_LIMIT,
    CredentialMalformed,
    Request,
    RequestReader,
    format_answer,
    format_request,
    parse_answer,
    parse_request,
)

GOOD = b"action=get\nprotocol=http\nhost=127.0.0.1:418\npath=github.com/acme/app.git\n"
REQUEST = Request("get", "http", "127.0.0.1:418", "github.com/acme/app.git")
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=80)
REQUESTS = st.builds(
    Request, st.sampled_from(["get", "store", "erase"]), st.just("http"), VALUES, VALUES,
    st.none() | VALUES,
)  # fmt: skip


def read_in_pieces(raw: bytes, cuts: list[int]) -> Request | str:
    reader, start = RequestReader(), 0
    try:
        for cut in [*sorted(cuts), len(raw)]:
            reader.feed(raw[start:cut])
            start = cut
        return reader.finish()
    except CredentialMalformed as problem:
        return problem.what


def test_a_request_of_git_is_understood() -> None:
    assert parse_request(GOOD) == REQUEST
    assert parse_request(GOOD + b"\n") == REQUEST  # the blank line that may end it


def test_what_git_sends_along_is_ignored() -> None:
    """`git credential-cache` adds a timeout; newer gits add capabilities and the challenge."""
    extra = (
        b"timeout=900\ncapability[]=authtype\ncapability[]=state\n"
        b'wwwauth[]=Basic realm="gitmoat"\nwwwauth[]=\noauth_refresh_token=x\n'
    )
    assert parse_request(GOOD + extra) == REQUEST
    assert parse_request(extra + GOOD) == REQUEST


def test_a_username_is_kept_and_a_password_is_not() -> None:
    request = parse_request(GOOD + b"username=gitmoat\npassword=marker\n")
    assert request.username == "gitmoat" and "marker" not in repr(request)


@pytest.mark.parametrize("action", ["store", "erase"])
def test_store_and_erase_are_told_apart(action: str) -> None:
    assert parse_request(GOOD.replace(b"=get", f"={action}".encode())).action == action


MALFORMED = {
    "nothing": b"",
    "a blank line only": b"\n",
    "no action": GOOD.removeprefix(b"action=get\n"),
    "unknown action": GOOD.replace(b"=get", b"=exit"),
    "action in capitals": GOOD.replace(b"=get", b"=GET"),
    "empty action": GOOD.replace(b"=get", b"="),
    "no protocol": GOOD.replace(b"protocol=http\n", b""),
    "no host": GOOD.replace(b"host=127.0.0.1:418\n", b""),
    "empty host": GOOD.replace(b"=127.0.0.1:418", b"="),
    "no path": GOOD.replace(b"path=github.com/acme/app.git\n", b""),
    "empty path": GOOD.replace(b"=github.com/acme/app.git", b"="),
    "a certificate": GOOD.replace(b"=http", b"=cert"),
    "https": GOOD.replace(b"=http", b"=https"),
    "cut in a line": GOOD[:-1],
    "cut after the protocol": b"action=get\nprotocol=http\n",
    "carriage return": GOOD.replace(b"app.git\n", b"app.git\r\n"),
    "carriage return inside": GOOD.replace(b"acme", b"ac\rhost=x"),
    "NUL": GOOD.replace(b"acme", b"ac\0me"),
    "escape": GOOD.replace(b"acme", b"ac\x1b[2Jme"),
    "delete": GOOD.replace(b"acme", b"ac\x7fme"),
    "tab": GOOD.replace(b"acme", b"ac\tme"),
    "control in an ignored line": GOOD + b"wwwauth[]=a\x1bb\n",
    "not ASCII": GOOD.replace(b"acme", "é".encode()),
    "host twice": GOOD + b"host=127.0.0.1:418\n",
    "path twice": GOOD + b"path=other\n",
    "an ignored one twice": GOOD + b"timeout=1\ntimeout=2\n",
    "quit": GOOD + b"quit=1\n",
    "url": GOOD + b"url=http://127.0.0.1:418/github.com/acme/secret\n",
    "quit in a list": GOOD + b"quit[]=1\n",
    "no equals sign": GOOD + b"hello\n",
    "no name": GOOD + b"=value\n",
    "list with no name": GOOD + b"[]=value\n",
    "a name in capitals": GOOD + b"Host=x\n",
    "a name with a space": GOOD + b"host =x\n",
    "list in the middle": GOOD + b"a[]b=x\n",
    "bytes after the blank line": GOOD + b"\nhost=x\n",
    "two blank lines": GOOD + b"\n\n",
    "blank line first": b"\n" + GOOD,
    "too long": GOOD + b"a[]=1\n" * (REQUEST_LIMIT // 6),
    "a line too long": GOOD + b"a=" + b"x" * LINE_LIMIT + b"\n",
    "too many lines": GOOD + b"a[]=1\n" * LINES_LIMIT,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_everything_else_is_refused(name: str) -> None:
    with pytest.raises(CredentialMalformed):
        parse_request(MALFORMED[name])


@pytest.mark.parametrize("name", MALFORMED)
def test_a_refusal_quotes_nothing(name: str) -> None:
    with pytest.raises(CredentialMalformed) as refused:
        parse_request(MALFORMED[name])
    for text in ("acme", "127.0.0.1", "x" * 10, "\x1b", "\r"):
        assert text not in str(refused.value)


@given(REQUESTS)
def test_a_formatted_request_reads_back(request: Request) -> None:
    assert parse_request(format_request(request)) == request
    assert hash(parse_request(format_request(request))) == hash(request)


@given(
    st.sampled_from([GOOD, *MALFORMED.values()]) | st.binary(max_size=300),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_any_cutting_into_pieces_reads_the_same(raw: bytes, cuts: list[int]) -> None:
    assert read_in_pieces(raw, [min(c, len(raw)) for c in cuts]) == read_in_pieces(raw, [])


@given(st.binary(max_size=200))
def test_a_request_that_was_read_has_no_control_bytes(raw: bytes) -> None:
    try:
        request = parse_request(GOOD.replace(b"acme/app.git", raw))
    except CredentialMalformed:
        return
    assert request.path.isprintable() and request.path.isascii()
    assert request.host == REQUEST.host


def test_the_reader_holds_no_more_than_its_limit_and_stays_broken() -> None:
    reader = RequestReader()
    with pytest.raises(CredentialMalformed):
        for _ in range(REQUEST_LIMIT + 1):
            reader.feed(b"a")
    for attempt in (lambda: reader.feed(GOOD), reader.finish):
        with pytest.raises(CredentialMalformed, match="too long"):
            attempt()


def test_the_reader_reads_one_request() -> None:
    reader = RequestReader()
    reader.feed(GOOD)
    assert reader.finish() == REQUEST
    with pytest.raises(CredentialMalformed):
        reader.feed(GOOD)


@given(VALUES, VALUES)
def test_an_answer_reads_back(username: str, password: str) -> None:
    assert parse_answer(format_answer(username, password)) == (username, password)


def test_a_refusal_is_an_answer_too() -> None:
    assert parse_answer(QUIT) is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"\n", b"quit=0\n", b"quit=1", b"quit=1\nquit=1\n", b"username=a\n", b"password=b\n",
     b"username=a\npassword=b", b"username=a\npassword=b\nhost=c\n", b"username=a\npassword=\n",
     b"username=a\npassword=b\nusername=c\n", b"username=a\r\npassword=b\n",
     b"username=a\npassword=b\nquit=1\n"],
)  # fmt: skip
def test_an_answer_that_is_neither_is_refused(raw: bytes) -> None:
    with pytest.raises(CredentialMalformed):
        parse_answer(raw)


@pytest.mark.parametrize("bad", ["", "a\nhost=b", "a\rb", "a\0b"])
def test_a_credential_that_git_would_misread_is_never_written(bad: str) -> None:
    with pytest.raises(CredentialMalformed):
        format_answer(bad, "b")
    with pytest.raises(CredentialMalformed):
        format_answer("a", bad)
