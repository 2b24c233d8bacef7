import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.repository_name import Place, RepositoryPath
from gitmoat.wire.git.smarthttp import (
    Advertise,
    Fetch,
    GitRequest,
    LfsRequest,
    Push,
    Service,
    Unserved,
    classify,
    headers_of,
    method_of,
    response_type,
    target_of,
)
from gitmoat.wire.http.heads import Chunked, Length, NoBody, RequestHead
from gitmoat.wire.malformed import Malformed

GITHUB, APP = Place("github.com"), RepositoryPath("acme/app")
BASE = b"/github.com/acme/app.git"
UPLOAD_TYPE = b"application/x-git-upload-pack-request"
RECEIVE_TYPE = b"application/x-git-receive-pack-request"
FOUR = Length(4)


def get(target: bytes, *headers: tuple[bytes, bytes], method: bytes = b"GET") -> RequestHead:
    return RequestHead(method, target, headers, NoBody(), False, False)


def post(
    target: bytes, *headers: tuple[bytes, bytes], framing: NoBody | Length | Chunked = FOUR
) -> RequestHead:
    return RequestHead(b"POST", target, headers, framing, False, False)


def fetch_head(*headers: tuple[bytes, bytes]) -> RequestHead:
    return post(BASE + b"/git-upload-pack", (b"content-type", UPLOAD_TYPE), *headers)


def push_head(*headers: tuple[bytes, bytes]) -> RequestHead:
    return post(BASE + b"/git-receive-pack", (b"content-type", RECEIVE_TYPE), *headers)


V1, V2 = (b"git-protocol", b"version=1"), (b"git-protocol", b"version=2")
GZIP = (b"content-encoding", b"gzip")
REFS = BASE + b"/info/refs?service="


@pytest.mark.parametrize(
    ("head", "request_"),
    [
        (get(REFS + b"git-upload-pack"), Advertise(GITHUB, APP, Service.UPLOAD_PACK, 0)),
        (get(REFS + b"git-upload-pack", V1), Advertise(GITHUB, APP, Service.UPLOAD_PACK, 1)),
        (get(REFS + b"git-upload-pack", V2), Advertise(GITHUB, APP, Service.UPLOAD_PACK, 2)),
        (get(REFS + b"git-receive-pack", V1), Advertise(GITHUB, APP, Service.RECEIVE_PACK, 1)),
        (get(REFS + b"git-receive-pack", V2), Advertise(GITHUB, APP, Service.RECEIVE_PACK, 0)),
        (fetch_head(), Fetch(GITHUB, APP, 0, False)),
        (fetch_head(V2, GZIP), Fetch(GITHUB, APP, 2, True)),
        (push_head(), Push(GITHUB, APP, 0)),
        (push_head(V1), Push(GITHUB, APP, 1)),
    ],
)
def test_what_git_asks_for_is_understood(head: RequestHead, request_: GitRequest) -> None:
    assert classify(head, b"/") == request_


@pytest.mark.parametrize("framing", [Length(1), Chunked()])
def test_both_ways_to_frame_a_push_are_taken(framing: Length | Chunked) -> None:
    head = post(BASE + b"/git-receive-pack", (b"content-type", RECEIVE_TYPE), framing=framing)
    assert classify(head, b"/") == Push(GITHUB, APP, 0)


def test_a_repository_needs_no_ending_and_a_place_may_have_a_port() -> None:
    head = get(b"/git.corp.example:8443/a/b/c/info/refs?service=git-upload-pack")
    assert classify(head, b"/") == Advertise(
        Place("git.corp.example:8443"), RepositoryPath("a/b/c"), Service.UPLOAD_PACK, 0, False
    )


@pytest.mark.parametrize(
    "name",
    [
        b"acme/app/info/refs",
        b"acme/app/info/refs/x",
        b"acme/app/info/lfs/objects",
        b"acme/app/git-upload-pack",
        b"acme/app/git-receive-pack/x",
        b"acme/git-upload-archive",
    ],
)
def test_what_a_server_could_read_as_an_endpoint_is_no_repository(name: bytes) -> None:
    """One that looks for the first endpoint in the path would serve acme/app."""
    with pytest.raises(Malformed) as refused:
        classify(get(b"/github.com/" + name + b"/info/refs?service=git-upload-pack"), b"/")
    assert refused.value.status == 404


def test_other_headers_change_nothing() -> None:
    noise = [(b"authorization", b"Basic eDp5"), (b"cookie", b"a"), (b"accept", b"text/html")]
    assert classify(fetch_head(*noise), b"/") == classify(fetch_head(), b"/")


@pytest.mark.parametrize(
    "target",
    [
        BASE + b"/info/lfs/objects/batch",
        BASE + b"/info/lfs/locks?path=x",
        BASE + b"/info/lfs",
        b"/github.com/acme/app/info/lfs/locks/verify",
    ],
)
def test_lfs_is_recognised_to_be_refused_in_its_own_words(target: bytes) -> None:
    assert classify(post(target), b"/") == LfsRequest(GITHUB, APP)


@pytest.mark.parametrize(
    "head",
    [
        get(b"/"),
        get(b"/github.com"),
        get(b"/github.com/"),
        get(b"/github.com/info/refs?service=git-upload-pack"),
        get(BASE),
        get(BASE + b"/HEAD"),
        get(BASE + b"/info/refs"),
        get(BASE + b"/objects/info/packs"),
        get(BASE + b"/objects/pack/pack-x.pack"),
        get(BASE + b"/archive/main.tar.gz"),
        get(BASE + b"/info/refs/"),
        get(BASE + b"/info/lfsx"),
        get(b"/repos/acme/app"),
        get(REFS + b"git-upload-archive"),
        get(REFS + b"git-upload-pack", method=b"HEAD"),
        get(REFS + b"git-upload-pack", method=b"OPTIONS"),
        get(BASE + b"/git-upload-pack"),
        get(BASE + b"/git-receive-pack", method=b"PUT"),
        post(BASE + b"/git-upload-archive", (b"content-type", UPLOAD_TYPE)),
        post(BASE + b"/git-upload-pack/", (b"content-type", UPLOAD_TYPE)),
        post(REFS + b"git-upload-pack"),
    ],
)
def test_everything_else_is_unserved(head: RequestHead) -> None:
    assert isinstance(classify(head, b"/"), Unserved)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (get(BASE + b"/info/refs?"), 400),
        (get(REFS), 400),
        (get(REFS + b"git-upload-pack&service=git-receive-pack"), 400),
        (get(REFS + b"git-upload-pack&x=y"), 400),
        (get(BASE + b"/info/refs?x=y&service=git-upload-pack"), 400),
        (get(REFS + b"git%2dupload-pack"), 400),
        (get(REFS + b"git-upload-pack#x"), 400),
        (get(REFS + b"git-upload-pack?"), 400),
        (get(REFS + b"GIT-UPLOAD-PACK"), 400),
        (RequestHead(b"GET", REFS + b"git-upload-pack", (), Length(1), False, False), 400),
        (post(BASE + b"/git-upload-pack", (b"content-type", UPLOAD_TYPE), framing=NoBody()), 400),
        (post(BASE + b"/git-upload-pack", (b"content-type", UPLOAD_TYPE), framing=Length(0)), 400),
        (post(BASE + b"/git-upload-pack?", (b"content-type", UPLOAD_TYPE)), 400),
        (post(BASE + b"/git-upload-pack?a", (b"content-type", UPLOAD_TYPE)), 400),
        (post(BASE + b"/git-upload-pack"), 415),
        (post(BASE + b"/git-upload-pack", (b"content-type", RECEIVE_TYPE)), 415),
        (post(BASE + b"/git-upload-pack", (b"content-type", UPLOAD_TYPE + b"; a=b")), 415),
        (post(BASE + b"/git-upload-pack", (b"content-type", UPLOAD_TYPE.upper())), 415),
        (fetch_head((b"content-type", UPLOAD_TYPE)), 400),
        (fetch_head((b"content-encoding", b"deflate")), 415),
        (fetch_head((b"content-encoding", b"br")), 415),
        (fetch_head((b"content-encoding", b"gzip, gzip")), 415),
        (fetch_head((b"content-encoding", b"x-gzip")), 415),
        (fetch_head((b"content-encoding", b"identity")), 415),
        (fetch_head((b"content-encoding", b"")), 415),
        (fetch_head(GZIP, GZIP), 400),
        (push_head(GZIP), 415),
        (fetch_head((b"git-protocol", b"version=3")), 400),
        (fetch_head((b"git-protocol", b"version=2:x=y")), 400),
        (fetch_head((b"git-protocol", b"version=2\t")), 400),
        (fetch_head((b"git-protocol", b"")), 400),
        (fetch_head(V2, V2), 400),
    ],
)
def test_requests_git_does_not_make_are_refused(head: RequestHead, status: int) -> None:
    with pytest.raises(Malformed) as refused:
        classify(head, b"/")
    assert refused.value.status == status


@pytest.mark.parametrize(
    "path",
    [
        b"//github.com/acme/app",
        b"/github.com//acme/app",
        b"/github.com/acme//app",
        b"/github.com/acme/app.git/",
        b"/github.com/./acme/app",
        b"/github.com/acme/../app",
        b"/github.com/acme/%2e%2e/app",
        b"/github.com/acme%2fapp",
        b"/github.com/acme/app;x",
        b"/github.com/acme\\app",
        b"/github.com/acme/app.git/.git",
        b"/github.com/acme/app.git/info/lfs",
        b"/github.com/acme/\x00",
        b"/github.com/acme/\xff",
        b"/github.com/acme/" + b"a" * 8192,
        b"/GitHub.com/acme/app",
        b"/user@github.com/acme/app",
        b"/../acme/app",
    ],
)
def test_path_tricks_look_like_an_unknown_repository(path: bytes) -> None:
    content_type = (b"content-type", RECEIVE_TYPE)
    for head in (
        get(path + b"/info/refs?service=git-upload-pack"),
        post(path + b"/git-receive-pack", content_type),
    ):
        with pytest.raises(Malformed) as refused:
            classify(head, b"/")
        assert refused.value.status == 404


def test_a_lower_case_method_is_no_method_of_ours() -> None:
    assert isinstance(classify(get(REFS + b"git-upload-pack", method=b"get"), b"/"), Unserved)


def test_the_broker_serves_git_below_its_prefix_only() -> None:
    below = get(b"/git/corp/acme/app.git/info/refs?service=git-upload-pack")
    assert classify(below, b"/git/") == Advertise(Place("corp"), APP, Service.UPLOAD_PACK, 0)
    assert isinstance(classify(get(REFS + b"git-upload-pack"), b"/git/"), Unserved)
    assert isinstance(classify(get(b"/git"), b"/git/"), Unserved)


@pytest.mark.parametrize(
    ("request_", "method", "target", "headers", "answer"),
    [
        (
            Advertise(GITHUB, APP, Service.RECEIVE_PACK, 0),
            b"GET",
            b"/git/hub/acme/app.git/info/refs?service=git-receive-pack",
            [(b"Accept", b"*/*")],
            b"application/x-git-receive-pack-advertisement",
        ),
        (
            Advertise(GITHUB, APP, Service.UPLOAD_PACK, 2),
            b"GET",
            b"/git/hub/acme/app.git/info/refs?service=git-upload-pack",
            [(b"Accept", b"*/*"), (b"Git-Protocol", b"version=2")],
            b"application/x-git-upload-pack-advertisement",
        ),
        (
            Fetch(GITHUB, APP, 2, True),
            b"POST",
            b"/git/hub/acme/app.git/git-upload-pack",
            [
                (b"Accept", b"application/x-git-upload-pack-result"),
                (b"Content-Type", UPLOAD_TYPE),
                (b"Git-Protocol", b"version=2"),
                (b"Content-Encoding", b"gzip"),
            ],
            b"application/x-git-upload-pack-result",
        ),
        (
            Push(GITHUB, APP, 0),
            b"POST",
            b"/git/hub/acme/app.git/git-receive-pack",
            [
                (b"Accept", b"application/x-git-receive-pack-result"),
                (b"Content-Type", RECEIVE_TYPE),
            ],
            b"application/x-git-receive-pack-result",
        ),
    ],
)
def test_requests_are_written_from_constants(
    request_: GitRequest,
    method: bytes,
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    answer: bytes,
) -> None:
    assert method_of(request_) == method
    assert target_of(request_, b"/git/", b"hub") == target
    assert headers_of(request_) == headers
    assert response_type(request_) == answer


def test_an_upstream_has_no_place_in_its_paths() -> None:
    push = Push(GITHUB, APP, 0)
    assert target_of(push, b"/", b"") == b"/acme/app.git/git-receive-pack"
    plain = Push(GITHUB, APP, 0, dot_git=False)
    assert target_of(plain, b"/scm/", b"") == b"/scm/acme/app/git-receive-pack"


PLACES = st.sampled_from(["github.com", "corp", "127.0.0.1:8443"]).map(Place)
REPOSITORIES = st.lists(st.text("aB0_~+-", min_size=1, max_size=5), min_size=1, max_size=4).map(
    lambda segments: RepositoryPath("/".join(segments))
)
UPLOAD, RECEIVE = st.just(Service.UPLOAD_PACK), st.just(Service.RECEIVE_PACK)
REQUESTS = st.one_of(
    st.builds(Advertise, PLACES, REPOSITORIES, UPLOAD, st.integers(0, 2), st.booleans()),
    st.builds(Advertise, PLACES, REPOSITORIES, RECEIVE, st.integers(0, 1), st.booleans()),
    st.builds(Fetch, PLACES, REPOSITORIES, st.integers(0, 2), st.booleans(), st.booleans()),
    st.builds(Push, PLACES, REPOSITORIES, st.integers(0, 1), st.booleans()),
)


@given(REQUESTS)
def test_the_next_hop_reads_exactly_what_was_meant(request: GitRequest) -> None:
    headers = tuple((name.lower(), value) for name, value in headers_of(request))
    method = method_of(request)
    target = target_of(request, b"/git/", request.place.text.encode())
    framing = NoBody() if method == b"GET" else Chunked()
    assert (
        classify(RequestHead(method, target, headers, framing, False, False), b"/git/") == request
    )


@given(
    st.sampled_from([b"GET", b"POST", b"PUT"]),
    st.lists(
        st.sampled_from([b"/", b"github.com", b"a", b".git", b"..", b"%2e", b"info/refs", b"?"])
        | st.sampled_from([b"git-upload-pack", b"/git-receive-pack", b"/info/lfs/", b"service="])
        | st.binary(max_size=3),
        max_size=12,
    ).map(b"".join),
    st.sampled_from([(), ((b"content-type", UPLOAD_TYPE),), ((b"content-type", RECEIVE_TYPE),)]),
    st.sampled_from([NoBody(), Length(0), Length(9), Chunked()]),
)
def test_every_request_is_of_the_closed_list_or_refused(
    method: bytes,
    target: bytes,
    headers: tuple[tuple[bytes, bytes], ...],
    framing: NoBody | Length | Chunked,
) -> None:
    head = RequestHead(method, b"/" + target, headers, framing, False, False)
    try:
        request = classify(head, b"/")
    except Malformed as refused:
        assert refused.status in (400, 404, 415)
        return
    if isinstance(request, Advertise | Fetch | Push):
        ours = target_of(request, b"/", request.place.text.encode())
        assert ours == head.target
