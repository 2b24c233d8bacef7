"""The broker alone under many sessions at once: each has its key, its grant and its connection.

The sessions are real; only sandboxes and sidecars are left out, so that what grows is the broker.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from attrs import define, field, frozen
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from nacl.signing import SigningKey

from bench.chains.gitmoat import POLICY
from bench.chains.way import OURS
from bench.figures import Book, percentile
from bench.processes import cpu_seconds, resident
from gitmoat.boot import boot_id
from gitmoat.identity.certificates import self_signed
from gitmoat.identity.grant import Grant, sign_grant
from gitmoat.identity.keyfile import load_key
from netpolicy.format.document import parse_policy
from netpolicy.format.writing import policy_to_mapping
from tests.stage.instance import Instance

_TARGET = "/git/bench/fake/small.git/info/refs?service=git-upload-pack"
_HEADERS = "Host: gitmoat\r\nGitmoat-Tier: untrusted\r\nAccept: */*\r\n"
_NETNS = 1


@frozen
class Session:
    key: SigningKey


@define(eq=False)
class Office:
    """Grants sessions in the name of the instance's host."""

    instance: Instance
    audience: str
    host_key: SigningKey
    _counter: Iterator[int] = field(factory=lambda: count(time.monotonic_ns()))

    @contextmanager
    def granted(self, number: int) -> Iterator[list[Session]]:
        link = self._link()
        made = [Session(SigningKey.generate()) for _ in range(number)]
        names = []
        try:
            names += [self._grant(link, session) for session in made]
            yield made
        finally:
            for name in names:
                _post(link, "/host/revoke", json.dumps({"session": name, "reason": "end"}).encode())
            link.close()

    def _link(self) -> http.client.HTTPSConnection:
        host, port = self.instance.address
        shown = context(bytes(self.host_key))
        return http.client.HTTPSConnection(host, port, context=shown, timeout=30)

    def _grant(self, link: http.client.HTTPSConnection, session: Session) -> str:
        number = next(self._counter)
        grant = Grant(
            host="local",
            boot_id=boot_id(),
            counter=number,
            session=f"bench-{number}",
            key=bytes(session.key.verify_key),
            sandbox=f"bench-{number}",
            name=f"bench-{number}",
            runtime="bwrap",
            container=None,
            netns=_NETNS,
            epoch=1,
            scope=policy_to_mapping(parse_policy(POLICY)),
            ttl=3600,
            issued=int(time.time()),
            audience=self.audience,
        )
        _post(link, "/host/grant", sign_grant(grant, self.host_key))
        place = {"session": grant.session, "pid": 1, "netns": _NETNS, "cgroup": None}
        _post(link, "/host/activate", json.dumps(place).encode())
        return grant.session


def _post(link: http.client.HTTPSConnection, path: str, body: bytes) -> None:
    link.request("POST", path, body, {"Host": "gitmoat"})
    answer = link.getresponse()
    said = answer.read()
    if answer.status not in (200, 204):
        raise RuntimeError(f"{path}: {answer.status} {said!r}")


def context(seed: bytes) -> ssl.SSLContext:
    """Shows the certificate of this key. The broker's own is not checked: it is ours."""
    private, certificate = self_signed(seed)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem + certificate.public_bytes(Encoding.PEM))
        file.flush()
        made.load_cert_chain(file.name)
    return made


def measure(instance: Instance, book: Book, numbers: Sequence[int], seconds: float) -> None:
    status = instance.status()["broker"]
    host_key = load_key(instance.paths.host_key)
    office = Office(instance, status["key"], host_key)
    for number in numbers:
        begun = time.perf_counter()
        with office.granted(number) as sessions:
            each = (time.perf_counter() - begun) / number
            first, times, taken, used = asyncio.run(
                _crowd(instance.address, sessions, seconds, status["pid"])
            )
            where = f"{number} sessions"
            book.add(f"{where}: grant and activation", OURS, "ms", each * 1000)
            book.add(f"{where}: first request p50", OURS, "ms", percentile(first, 0.5) * 1000)
            book.add(f"{where}: requests", OURS, "requests/s", len(times) / taken)
            book.add(f"{where}: CPU of the broker", OURS, "ms/request", used / len(times) * 1000)
            book.add(f"{where}: p50", OURS, "ms", percentile(times, 0.5) * 1000)
            book.add(f"{where}: p99", OURS, "ms", percentile(times, 0.99) * 1000)
            book.add(f"{where}: broker", OURS, "MiB", resident([status["pid"]]) / 1024)


async def _crowd(
    address: tuple[str, int], sessions: Sequence[Session], seconds: float, broker: int
) -> tuple[list[float], list[float], float, float]:
    """Every session asks again as soon as it has its answer; how long the first of each took, how
    long every other, all of those together, and what of the processor the broker had for them."""
    gate = asyncio.Semaphore(16)  # handshakes at a time: with the broker, then with the upstream
    links = await asyncio.gather(*(_connect(gate, address, each) for each in sessions))
    numbered = list(enumerate(links))
    first = await asyncio.gather(*(_first(gate, number, *link) for number, link in numbered))
    begun, before = time.perf_counter(), cpu_seconds([broker])
    end = begun + seconds
    asked = await asyncio.gather(*(_ask(number, *link, end) for number, link in numbered))
    taken, used = time.perf_counter() - begun, cpu_seconds([broker]) - before
    for _, writer in links:
        writer.close()
    return first, [one for times in asked for one in times], taken, used


async def _connect(
    gate: asyncio.Semaphore, address: tuple[str, int], session: Session
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with gate:
        return await asyncio.open_connection(*address, ssl=context(bytes(session.key)))


async def _first(
    gate: asyncio.Semaphore, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> float:
    async with gate:
        return await _request(number, reader, writer)


async def _ask(
    number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: float
) -> list[float]:
    times = []
    while time.perf_counter() < end:
        times.append(await _request(number, reader, writer))
    return times


async def _request(
    number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> float:
    begun = time.perf_counter()
    head = f"GET {_TARGET} HTTP/1.1\r\n{_HEADERS}Gitmoat-Request-Id: {number:016x}\r\n\r\n"
    writer.write(head.encode())
    said = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not said.startswith(b"http/1.1 200"):
        raise RuntimeError(said.decode())
    if b"content-length:" in said:
        size = int(said.partition(b"content-length:")[2].split()[0])
        await reader.readexactly(size)
    else:
        await reader.readuntil(b"\r\n0\r\n\r\n")
    return time.perf_counter() - begun
