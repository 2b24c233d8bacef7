"""A broker on loopback, a host that may grant, and sidecars that ask, in one process."""

from __future__ import annotations

import json
import os
import time
from base64 import b64encode
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from attrs import evolve
from nacl.signing import SigningKey
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from broker.exchange.kind import Kind
from broker.kinds import KINDS
from broker.service import Broker
from broker.startup import open_everything
from gitmoat.audit.chain import read_events
from gitmoat.identity.grant import Grant, sign_grant
from gitmoat.identity.keyfile import parse_public, public_text
from gitmoat.identity.tls_options import PinnedClient
from gitmoat.net.causes import Why
from gitmoat.net.http.ends import ClientConnection, Outgoing
from gitmoat.net.transport.dialling import connect
from gitmoat.net.transport.tls import Tls
from gitmoat.paths import Paths
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.http.heads import (
    Framing,
    Length,
    NoBody,
    Piece,
    ResponseHead,
    format_request,
    framing_headers,
)
from netpolicy.format.document import parse_policy, policy_to_mapping
from tests.fakes.fake_upstream import CA

ID = "0123456789abcdef"
PASSWORD = "upstream-password-marker"
TIMEOUTS = """\
connect = "2s"
idle = "3s"
operation = "30s"
"""
POLICY = """
version = 1
name = "p"
[session]
ttl = "8h"
idle = "30m"
[limits]
git_requests_per_minute = 50
git_concurrency = 3
push_max = "1MiB"
fetch_max = "1MiB"
[[git]]
id = "open"
repos = ["up:acme/app"]
fetch = true
push = { branches = ["agent/**"], create = true, update = true }
who = ["helper", "untrusted"]
[[git]]
id = "gate"
repos = ["up:acme/gate"]
fetch = true
[[git]]
id = "no"
effect = "deny"
repos = ["up:acme/*-secret"]
"""


class RawSidecar(Protocol):
    """Plain bytes over the pinned TLS, for what a well-behaved client would not do."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost = False

    def say(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)

    def hang_up(self) -> None:
        transport: Any = self.transport
        if not self.lost:
            transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True


class Reply:
    """A ResponseSink that keeps everything, and can be awaited."""

    def __init__(self) -> None:
        self.done: Deferred[Reply] = Deferred()
        self.started: Deferred[Reply] = Deferred()
        self.head: ResponseHead | None = None
        self.data = b""
        self.error: Why | None = None

    @property
    def status(self) -> int:
        assert self.head is not None
        return self.head.status

    def header(self, name: bytes) -> bytes | None:
        assert self.head is not None
        return self.head.header(name)

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data)
        return found

    def response(self, head: ResponseHead) -> None:
        self.head = head
        self.started.callback(self)

    def body(self, *pieces: Piece) -> None:
        self.data += b"".join(pieces)

    def body_done(self) -> None:
        self.done.callback(self)

    def failed(self, why: Why) -> None:
        self.error = why
        if not self.started.called:
            self.started.callback(self)
        self.done.callback(self)


class Asker:
    """One TLS connection to the broker, under one key."""

    def __init__(self, connection: ClientConnection, key: SigningKey) -> None:
        self.connection = connection
        self.key = key

    def begin(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], framing: Framing
    ) -> tuple[Outgoing, Reply]:
        reply = Reply()
        every = [(b"Host", b"gitmoat"), *headers, *framing_headers(framing)]
        head = format_request(method.encode(), target.encode(), every)
        return self.connection.send(head, framing, reply), reply

    async def ask(
        self,
        method: str,
        target: str,
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: bytes | None = None,
    ) -> Reply:
        framing = NoBody() if body is None else Length(len(body))
        out, reply = self.begin(method, target, headers, framing)
        if body is not None:
            out.write(body)
            out.finish()
        return await reply.done


def envelope(tier: str = "untrusted", number: str = ID) -> list[tuple[bytes, bytes]]:
    return [(b"Gitmoat-Request-Id", number.encode()), (b"Gitmoat-Tier", tier.encode())]


class Sidecar(Asker):
    """Asks as a sidecar does, within the shapes of smart HTTP."""

    async def refs(
        self, repo: str = "acme/app", service: str = "git-upload-pack", **more: Any
    ) -> Reply:
        target = f"/git/up/{repo}{more.pop('suffix', '.git')}/info/refs?service={service}"
        extra = more.pop("headers", [])
        headers = [*envelope(**more), (b"Accept", b"*/*"), (b"Git-Protocol", b"version=2"), *extra]
        return await self.ask("GET", target, headers)

    async def fetch(self, body: bytes = b"0000", repo: str = "acme/app", **more: str) -> Reply:
        return await self.ask("POST", *post(repo, "git-upload-pack", **more), body)

    async def push(self, body: bytes, repo: str = "acme/app", **more: str) -> Reply:
        return await self.ask("POST", *post(repo, "git-receive-pack", **more), body)

    def begin_push(self, framing: Framing, repo: str = "acme/app") -> tuple[Outgoing, Reply]:
        return self.begin("POST", *post(repo, "git-receive-pack"), framing)


def post(repo: str, service: str, **more: str) -> tuple[str, list[tuple[bytes, bytes]]]:
    kind = (b"Content-Type", f"application/x-{service}-request".encode())
    return f"/git/up/{repo}.git/{service}", [*envelope(**more), kind]


PACK_HEAD = b"PACK\0\0\0\2"


def commands(*refs: str, capabilities: str = "report-status side-band-64k") -> bytes:
    """A push that creates `refs`, up to the flush in front of its pack."""
    lines = [f"{'0' * 40} {'1' * 40} {ref}".encode() for ref in refs]
    lines[0] += b"\0 " + capabilities.encode()
    return b"".join(map(format_data, lines)) + FLUSH


class World:
    """Everything below one root; `now` is the broker's boot clock."""

    audience: str
    port: int
    kinds: tuple[type[Kind], ...] = KINDS
    upstream_keys = ""  # more of its table

    def __init__(
        self, reactor: Any, root: Path, upstream_port: int = 1, timeouts: str = TIMEOUTS
    ) -> None:
        self.reactor = self.broker_reactor = reactor
        self.timeouts = timeouts
        self.paths = Paths(root)
        self.now = 1000.0
        self.host_key = SigningKey(bytes(31) + b"h")
        self.counter = 0
        self.clients: list[ClientConnection] = []
        self.upstream_port = upstream_port
        self.ca = CA.cert_pem.bytes()
        self.paths.broker_d.mkdir(parents=True)
        self.write_config()

    def write_config(self, extra: str = "") -> None:
        self.write("ca.pem", self.ca.decode(), 0o644)
        self.write("token", PASSWORD + "\n", 0o600, owner=1999999999)
        self.write(
            "broker.toml",
            f"""
version = 1
[listen]
address = "127.0.0.1:0"
[timeouts]
{self.timeouts}
[upstream.up]
url = "https://localhost:{self.upstream_port}"
ca_file = "{self.paths.etc}/ca.pem"
provider = "token"
case_insensitive = false
{self.upstream_keys}
[provider.token]
type = "file"
username = "bot"
password_file = "{self.paths.etc}/token"
[host.one]
key = "{public_text(self.host_key)}"
{extra}
""",
            0o640,
        )

    def write(self, name: str, text: str, mode: int, owner: int | None = None) -> Path:
        path = self.paths.etc / name
        path.write_text(text)
        path.chmod(mode)
        if os.geteuid() == 0:
            os.chown(path, owner or 0, 1999999999)
        return path

    def start(self) -> None:
        self.opened = open_everything(self.paths)
        self.broker = Broker(
            self.broker_reactor, self.opened, os.geteuid(), lambda: self.now, kinds=self.kinds
        )
        self.broker.open_ports()
        self.audience, self.port = public_text(self.opened.key), self.opened.address.port
        self.sessions = self.broker.context.sessions

    def hang_up(self) -> None:
        for client in self.clients:
            client.abort()

    async def stop(self) -> None:
        self.hang_up()
        self.broker.close()
        self.opened.tree.close()
        os.close(self.opened.vault.directory)
        os.close(self.opened.state)

    async def connect(self, key: SigningKey, kind: type[Asker] = Asker) -> Any:
        """A connection under this key; fails with what ended it when the broker refuses."""
        ready: Deferred[ClientConnection] = Deferred()

        def lost(connection: ClientConnection, reason: Failure) -> None:
            if not ready.called:
                ready.errback(reason)

        connection = ClientConnection(self.reactor, on_ready=ready.callback, on_lost=lost)
        self.clients.append(connection)
        await self._dial(key, connection)
        return kind(await ready, key)

    async def connect_raw(self, key: SigningKey) -> RawSidecar:
        raw = RawSidecar()
        await self._dial(key, raw)
        return raw

    async def _dial(self, key: SigningKey, protocol: Protocol) -> None:
        pins = frozenset({parse_public(self.audience)})
        creator = PinnedClient(bytes(key), lambda: pins)
        sock = await connect(self.reactor, [IPv4Address("127.0.0.1")], self.port, 5.0)
        Tls(self.reactor, sock, protocol, creator.connection()).start()

    async def host(self) -> Asker:
        asker: Asker = await self.connect(self.host_key)
        return asker

    def grant(self, key: SigningKey, policy: str = POLICY, **changes: Any) -> bytes:
        self.counter += 1
        grant = Grant(
            host="one",
            boot_id="boot",
            counter=self.counter,
            session=f"session-{self.counter}",
            key=bytes(key.verify_key),
            sandbox=f"sb{self.counter}",
            name=f"name{self.counter}",
            runtime="bwrap",
            container=None,
            netns=77,
            epoch=1,
            scope=policy_to_mapping(parse_policy(policy)),
            ttl=3600,
            issued=int(time.time()),
            audience=self.audience,
        )
        return sign_grant(evolve(grant, **changes), self.host_key)

    async def session(self, policy: str = POLICY, activate: bool = True) -> Sidecar:
        """A granted, activated session and a connection under its key."""
        key = SigningKey.generate()
        host = await self.host()
        granted = await host.ask("POST", "/host/grant", (), self.grant(key, policy))
        assert granted.status == 200, granted.data
        if activate:
            place = {"session": granted.json()["session"], "pid": 1, "netns": 77, "cgroup": None}
            activated = await host.ask("POST", "/host/activate", (), json.dumps(place).encode())
            assert activated.status == 200, activated.data
        sidecar: Sidecar = await self.connect(key, Sidecar)
        return sidecar

    def audit(self, event: str) -> list[dict[str, Any]]:
        return [one for one in read_events(self.paths.broker_audit) if one["event"] == event]


BASIC = b"Basic " + b64encode(b"bot:" + PASSWORD.encode())
