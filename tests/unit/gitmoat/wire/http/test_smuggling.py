"""Requests that two readers could read in two ways: every one is refused, however it arrives."""

from collections.abc import Callable, Iterator

import pytest

from gitmoat.wire.git.smarthttp import classify
from gitmoat.wire.http.heads import RequestReader, body_reader
from gitmoat.wire.malformed import Malformed
from tests.fakes.chunking import WAYS
from tests.fakes.vectors import Spelling, Vector, refused

SANDBOX, BROKER = Spelling("/hub.example/"), Spelling("/git/up/")
CLOSING = [each for each in refused() if each.closes and each.hop is None]
HEADS = [each for each in CLOSING if each.status != (415,) and not each.form.startswith("chunk: ")]
BODIES = [each for each in CLOSING if each.form.startswith("chunk: ")]
Way = Callable[[bytes], Iterator[bytes]]


def by_id(vectors: list[Vector]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=lambda each: each.id)


def test_every_form_has_two_spellings() -> None:
    spellings: dict[str, set[str]] = {}
    for vector in refused():
        spellings.setdefault(vector.form, set()).add(vector.raw)
    assert len(spellings) >= 60
    assert min(map(len, spellings.values())) >= 2


def refusal(pieces: Iterator[bytes], prefix: bytes = b"/") -> Malformed | None:
    """What a hop makes of a request: head, meaning, body."""
    reader = RequestReader()
    try:
        for piece in pieces:
            head = reader.feed(piece)
            if head is not None:
                classify(head, prefix)
                head.header(b"authorization")
                body = body_reader(head.framing)
                for more in (reader.leftover, *pieces):
                    if not body.done:
                        body.feed(more)
    except Malformed as malformed:
        return malformed
    return None


@pytest.mark.parametrize("way", WAYS)
@by_id(CLOSING)
def test_ambiguous_request_is_refused(vector: Vector, way: Way) -> None:
    malformed = refusal(way(SANDBOX.bytes_of(vector.raw)))
    assert malformed is not None and malformed.status in vector.status


@by_id(CLOSING)
def test_ambiguous_request_is_refused_in_the_same_words_however_it_arrives(vector: Vector) -> None:
    """A head that is too long ends where the limit is, whatever else is wrong with it."""
    raw = SANDBOX.bytes_of(vector.raw)
    assert len({str(refusal(way(raw))) for way in WAYS}) == 1


@by_id(CLOSING)
def test_both_hops_refuse_in_the_same_words(vector: Vector) -> None:
    one = refusal(iter([SANDBOX.bytes_of(vector.raw)]))
    other = refusal(iter([BROKER.bytes_of(vector.raw)]), b"/git/")
    assert one is not None and other is not None
    assert (one.what, one.status) == (other.what, other.status)


@by_id([each for each in refused() if not each.closes and each.hop != "sidecar"])
def test_both_hops_classify_alike(vector: Vector) -> None:
    assert meaning(SANDBOX, b"/", vector) == meaning(BROKER, b"/git/", vector)


def meaning(spelling: Spelling, prefix: bytes, vector: Vector) -> object:
    head = RequestReader().feed(spelling.bytes_of(vector.raw))
    assert head is not None
    try:
        request = classify(head, prefix)
    except Malformed as malformed:
        return malformed.what, malformed.status
    return type(request), getattr(request, "repository", None), getattr(request, "what", None)


@by_id(HEADS)
def test_refusal_does_not_wait_for_more(vector: Vector) -> None:
    """No further byte is needed: nobody can keep the connection open with a bad head."""
    assert refusal(iter([SANDBOX.bytes_of(vector.raw)])) is not None


@pytest.mark.parametrize("way", WAYS)
@by_id(BODIES)
def test_ambiguous_chunk_is_refused_for_good(vector: Vector, way: Way) -> None:
    heads = RequestReader()
    head = heads.feed(SANDBOX.bytes_of(vector.raw))
    assert head is not None
    reader = body_reader(head.framing)
    with pytest.raises(Malformed):
        for piece in way(heads.leftover):
            reader.feed(piece)
    with pytest.raises(Malformed):
        reader.feed(b"0\r\n\r\n")
    with pytest.raises(Malformed):
        reader.finish()
