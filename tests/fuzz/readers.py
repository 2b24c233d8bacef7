"""What must hold for any bytes, one function for each reader; AssertionError when it does not.

Each reads its input whole and cut up, and what is accepted must survive our own spelling of it.
Only these exceptions may leave a reader: Malformed, CredentialMalformed, PolicyError, GrantRefused.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from nacl.signing import SigningKey

from broker.kinds.git_answers import AnswerFilter
from credential_helper.gitcredential import CredentialMalformed, format_request, parse_request
from gitmoat.identity.grant import GrantRefused, encode_grant, open_grant
from gitmoat.wire.clienthello import HelloReader
from gitmoat.wire.dns import answer, parse_query, refusal
from gitmoat.wire.git.pktline import (
    FLUSH,
    Data,
    Delim,
    Flush,
    Pkt,
    PktReader,
    ResponseEnd,
    format_data,
)
from gitmoat.wire.git.receivepack import CommandReader, PushCommands, parse_ref
from gitmoat.wire.git.repository_name import parse_place, parse_repository
from gitmoat.wire.git.smarthttp import (
    Advertise,
    Fetch,
    Push,
    classify,
    headers_of,
    method_of,
    target_of,
)
from gitmoat.wire.hostname import parse_host
from gitmoat.wire.http import heads
from gitmoat.wire.http.connect_answer import TunnelReader
from gitmoat.wire.http.framing import Chunked, framing_headers
from gitmoat.wire.http.gzipped import GzipReader
from gitmoat.wire.http.heads import (
    RequestHead,
    RequestReader,
    ResponseHead,
    ResponseReader,
    body_reader,
    chunk,
)
from gitmoat.wire.http.proxying import ProxyReader, classify_proxy
from gitmoat.wire.malformed import Malformed
from hostd.verify.probes import read_outcomes
from netpolicy.format.document import parse_policy, policy_from_mapping
from netpolicy.format.reading import PolicyError
from netpolicy.format.writing import policy_to_mapping
from tests.fuzz.readers_of_text import WHOLE

T = TypeVar("T")
_HOST_KEY = SigningKey(bytes(31) + b"f")
_CONTEXT = b"gitmoat grant 1\n"
_STEPS = (1, 2, 7, 64)


def _pieces(data: bytes, step: int) -> Iterator[bytes]:
    for at in range(0, len(data), step):
        yield data[at : at + step]


def _alike(data: bytes, read: Callable[[Iterator[bytes]], T]) -> T | None:
    """What `read` makes of the data, which must be the same however it is cut; None: refused."""
    found = [_or_refused(read, iter([data]))]
    found += [_or_refused(read, _pieces(data, step)) for step in _STEPS]
    assert all(each == found[0] for each in found), "the cut decides"
    return found[0]


def _or_refused(read: Callable[[Iterator[bytes]], T], pieces: Iterator[bytes]) -> T | None:
    try:
        return read(pieces)
    except Malformed as malformed:
        assert malformed.what.isascii() and malformed.status in (400, 403, 404, 413, 415, 431)
        return None


def request_head(data: bytes) -> None:
    def read(pieces: Iterator[bytes]) -> tuple[RequestHead, bytes] | None:
        reader = RequestReader()
        for piece in pieces:
            if (head := reader.feed(piece)) is not None:
                return head, reader.leftover + b"".join(pieces)
        return None

    found = _alike(data, read)
    if found is None:
        return
    head, rest = found
    assert data.endswith(rest)
    lines = [line for line in head.headers if line[1].isascii()]
    if lines == list(head.headers) and all(value for _, value in lines):
        again = RequestReader().feed(heads.format_request(head.method, head.target, lines))
        assert again == head
    for prefix in (b"/", b"/git/"):
        _classified(head, prefix)


def _classified(head: RequestHead, prefix: bytes) -> None:
    try:
        request = classify(head, prefix)
    except Malformed as malformed:
        assert malformed.status in (400, 404, 415)
        return
    if isinstance(request, Advertise | Fetch | Push):
        target = target_of(request, prefix, request.place.text.encode())
        headers = tuple((name.lower(), value) for name, value in headers_of(request))
        ours = RequestHead(method_of(request), target, headers, head.framing, False, False)
        assert classify(ours, prefix) == request


def response_head(data: bytes) -> None:
    def read(pieces: Iterator[bytes]) -> tuple[ResponseHead, bytes] | None:
        reader = ResponseReader()
        for piece in pieces:
            if (head := reader.feed(piece)) is not None:
                return head, reader.leftover + b"".join(pieces)
        return None

    found = _alike(data, read)
    if found is not None:
        head, rest = found
        assert data.endswith(rest) and 200 <= head.status <= 599


def chunked_body(data: bytes) -> None:
    def read(pieces: Iterator[bytes]) -> tuple[bytes, bytes, bool]:
        reader = body_reader(Chunked())
        payload = b""
        for piece in pieces:
            payload += b"".join(reader.feed(piece))
            if reader.done:
                return payload, reader.leftover + b"".join(pieces), True
        return payload, b"", False

    found = _alike(data, read)
    if found is not None and found[2]:
        payload, rest, _ = found
        assert data.endswith(rest) and len(payload) <= len(data)
        ours = b"".join(chunk(payload)) if payload else b""
        again = body_reader(Chunked())
        assert b"".join(again.feed(ours + b"0\r\n\r\n")) == payload and again.done
        assert framing_headers(Chunked()) == ((b"Transfer-Encoding", b"chunked"),)


def pkt_line(data: bytes) -> None:
    def read(pieces: Iterator[bytes]) -> list[Pkt]:
        reader = PktReader(1 << 20)
        return [pkt for piece in pieces for pkt in reader.feed(piece)]

    pkts = _alike(data, read)
    if pkts is not None:
        assert data.lower().startswith(b"".join(map(_spelt, pkts)).lower())


def _spelt(pkt: Pkt) -> bytes:
    match pkt:
        case Data(payload):
            return format_data(payload)
        case Flush():
            return FLUSH
        case Delim():
            return b"0001"
        case ResponseEnd():
            return b"0002"


def push_commands(data: bytes) -> None:
    def read(pieces: Iterator[bytes]) -> tuple[PushCommands, bytes] | None:
        reader = CommandReader(limit=1 << 16, max_commands=5)
        for piece in pieces:
            if (commands := reader.feed(piece)) is not None:
                return commands, reader.leftover + b"".join(pieces)
        return reader.finish(), b""

    found = _alike(data, read)
    if found is not None:
        commands, rest = found
        assert data.endswith(rest) and rest.startswith(b"PACK") is commands.has_pack
        reader = CommandReader(1000)
        reader.feed(commands.serialise() + rest)
        assert reader.finish() == commands
        assert reader.leftover == rest


def credential_request(data: bytes) -> None:
    try:
        request = parse_request(data)
    except CredentialMalformed as malformed:
        assert malformed.what.isascii()
        return
    assert parse_request(format_request(request)) == request
    assert not re.search(r"[\x00-\x1f\x7f]", request.host + request.path)


def policy_document(data: bytes) -> None:
    try:
        policy = parse_policy(data.decode("utf-8", "replace"))
    except PolicyError:
        return
    assert policy_from_mapping(policy_to_mapping(policy)) == policy


def grant(data: bytes) -> None:
    """Signed by us, so that what is behind the signature is reached."""
    signature = _HOST_KEY.sign(_CONTEXT + data).signature
    try:
        opened = open_grant(signature + data, bytes(_HOST_KEY.verify_key))
    except GrantRefused:
        return
    assert encode_grant(opened) == data


def repository_path(data: bytes) -> None:
    for parse in (parse_repository, parse_place):
        try:
            text = parse(data).text
        except Malformed as malformed:
            assert malformed.status == 404
            continue
        assert parse(text.encode()).text == text
        assert not re.search(r"[^A-Za-z0-9._~+:/-]|//|(?:^|/)\.\.?(?:/|$)", text)


def ref_name(data: bytes) -> None:
    try:
        text = parse_ref(data).text
    except Malformed:
        return
    assert text.encode() == data and text.startswith("refs/") and len(data) <= 1024
    assert not re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(/|$)|[./]$", text)


def gzip_body(data: bytes) -> None:
    def read(pieces: Iterator[bytes]) -> bool:
        reader = GzipReader(1 << 20)
        for piece in pieces:
            reader.feed(piece)
        reader.finish()
        return True

    if _alike(data, read):
        assert len(gzip.decompress(data)) <= 1 << 20
        assert zlib.decompressobj(31).decompress(data) == gzip.decompress(data)


def upstream_answer(data: bytes) -> None:
    """The first byte chooses between a fetch's answer and a push's."""
    report, data = data[:1] == b"r", data[1:]

    def read(pieces: Iterator[bytes]) -> bytes:
        answers = AnswerFilter(1 << 20, report=report)
        return b"".join(answers.feed(piece) for piece in pieces)

    cleaned = _alike(data, read)
    assert cleaned is not None and len(cleaned) == len(data)
    changed = [(old, new) for old, new in zip(data, cleaned, strict=True) if old != new]
    assert all(new == ord("?") for _, new in changed)


def client_hello(data: bytes) -> None:
    """The name, or nothing; never another one for another cut."""

    def read(pieces: Iterator[bytes]) -> str | None:
        reader = HelloReader()
        for piece in pieces:
            if (hello := reader.feed(piece)) is not None:
                return hello.name.text
        return None

    name = _alike(data, read)
    assert name is None or (
        parse_host(name.encode()).text == name and name.encode() in data.lower()
    )


def dns_query(data: bytes) -> None:
    refused = refusal(data, 1)
    assert refused is None or len(refused) <= max(len(data), 12)
    try:
        question = parse_query(data)
    except Malformed:
        return
    reply = answer(question, 0, bytes(4))
    assert reply[:2] == data[:2] and question.octets in reply and question.octets in data
    assert len(reply) <= len(question.octets) + 12 + 16 + 32


def proxy_request(data: bytes) -> None:
    def read(pieces: Iterator[bytes]) -> RequestHead | None:
        reader = ProxyReader()
        return next((head for piece in pieces if (head := reader.feed(piece)) is not None), None)

    head = _alike(data, read)
    if head is None:
        return
    try:
        request = classify_proxy(head)
    except Malformed as malformed:
        assert malformed.what.isascii()
        return
    host = request.to.host.text
    assert parse_host(host.encode()).text == host


def proxy_answer(data: bytes) -> None:
    """What a corporate proxy says to CONNECT; bytes behind a tunnel's head are refused."""

    def read(data: bytes) -> int | None:
        return TunnelReader().feed(data)

    try:
        status = read(data)
    except Malformed as malformed:
        assert malformed.what.isascii()
        return
    assert status is None or 100 <= status < 600
    assert status is None or not 200 <= status < 300 or data.endswith(b"\r\n\r\n")


def report_of_a_probe(data: bytes) -> None:
    """A process with the uid of hostile code wrote it."""
    assert len(read_outcomes(data, 3)) <= min(3, data.count(b"\n"))


READERS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        request_head,
        response_head,
        chunked_body,
        pkt_line,
        push_commands,
        credential_request,
        policy_document,
        grant,
        repository_path,
        ref_name,
        gzip_body,
        upstream_answer,
        client_hello,
        dns_query,
        proxy_request,
        proxy_answer,
        report_of_a_probe,
        *WHOLE,
    )
}
