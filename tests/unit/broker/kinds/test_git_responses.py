"""What an upstream's answer means."""

import pytest

from broker.kinds.git_responses import judge, moved_to
from gitmoat.wire.git.repository_name import RepositoryPath, parse_place, parse_repository
from gitmoat.wire.git.smarthttp import Advertise, Service
from gitmoat.wire.http.heads import Chunked, Length, ResponseHead
from netpolicy.upstreams import Upstream

REQUEST = Advertise(parse_place(b"up"), parse_repository(b"acme/app"), Service.UPLOAD_PACK, 2)
TYPE = (b"content-type", b"application/x-git-upload-pack-advertisement")


def head(status: int = 200, *headers: tuple[bytes, bytes], length: int = 0) -> ResponseHead:
    return ResponseHead(status, headers, Length(length), False)


def test_only_a_200_of_the_right_type_passes() -> None:
    assert judge(head(200, TYPE), REQUEST, 10) is None
    assert judge(ResponseHead(200, (TYPE,), Chunked(), True), REQUEST, 10) is None


def test_every_other_status_is_a_code_of_ours() -> None:
    expected = {401: "U102", 403: "U109", 404: "G101", 429: "U108"}
    families = {2: "U104", 3: "U103", 4: "U104", 5: "U110"}
    for status in range(201, 600):
        code = judge(head(status, TYPE), REQUEST, 10)
        assert code == expected.get(status, families[status // 100])


@pytest.mark.parametrize("more", [(b"Retry-After", b"9"), (b"X-RateLimit-Remaining", b"0")])
def test_a_403_that_means_too_often_is_told_apart(more: tuple[bytes, bytes]) -> None:
    assert judge(head(403, TYPE, more), REQUEST, 10) == "U108"
    assert judge(head(403, TYPE, (b"X-RateLimit-Remaining", b"1")), REQUEST, 10) == "U109"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((b"content-type", b"text/html"),),
        ((b"content-type", TYPE[1] + b"; charset=utf-8"),),
        ((b"content-type", b"application/x-git-upload-pack-result"),),
        (TYPE, (b"content-encoding", b"gzip")),
        (TYPE, (b"content-encoding", b"identity")),
    ],
)
def test_another_type_or_encoding_is_strange(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    assert judge(head(200, *headers), REQUEST, 10) == "U104"


UP = Upstream("up", ("git.example", "www.git.example:8443"), case_insensitive=False)
ASKED = b"/info/refs?service=git-upload-pack"
NEW = RepositoryPath("acme/new")


@pytest.mark.parametrize(
    ("location", "name"),
    [
        (b"https://git.example/acme/new.git" + ASKED, (NEW, True)),
        (b"https://git.example:443/acme/new" + ASKED, (NEW, False)),
        (b"https://www.git.example:8443/acme/new" + ASKED, (NEW, False)),
        (b"/acme/new.git" + ASKED, (NEW, True)),
        (b"/acme/app" + ASKED, (RepositoryPath("acme/app"), False)),
        (b"https://git.example.evil/acme/new.git" + ASKED, None),
        (b"https://git.example@evil.example/acme/new.git" + ASKED, None),
        (b"https://git.example:8443/acme/new.git" + ASKED, None),
        (b"http://git.example/acme/new.git" + ASKED, None),
        (b"//git.example/acme/new.git" + ASKED, None),
        (b"acme/new.git" + ASKED, None),
        (b"/acme/../new.git" + ASKED, None),
        (b"/acme/%6eew.git" + ASKED, None),
        (b"/acme/n\x1b[31mew.git" + ASKED, None),
        (b"/acme/new.git/info/refs?service=git-receive-pack", None),
        (b"/acme/new.git" + ASKED + b"&x=y", None),
        (b"/login?next=/acme/new.git" + ASKED, None),
        (b"https://git.ex\xc3\xa4mple/acme/new.git" + ASKED, None),
        (ASKED, None),
        (b"", None),
    ],
)
def test_a_redirect_names_a_repository_of_the_same_server_or_nothing(
    location: bytes, name: tuple[RepositoryPath, bool] | None
) -> None:
    assert moved_to(head(301, (b"location", location)), REQUEST, UP) == name


def test_two_redirects_at_once_name_nothing() -> None:
    line = (b"location", b"/acme/new.git" + ASKED)
    assert moved_to(head(301, line, line), REQUEST, UP) is None
    assert moved_to(head(301), REQUEST, UP) is None


def test_an_announced_length_over_the_limit_is_refused_before_it_begins() -> None:
    assert judge(head(200, TYPE, length=10), REQUEST, 10) is None
    assert judge(head(200, TYPE, length=11), REQUEST, 10) == "G302"
