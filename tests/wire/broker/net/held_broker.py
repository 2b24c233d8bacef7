"""A broker whose every wait is held by the test, and one request in it."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, globalLogPublisher

from broker.credentials.providers.credential import Permitted
from broker.sessions.session_limits import LONGEST_WAIT
from gitmoat.identity.grant import Grant, sign_grant
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import Chunked, Length, NoBody
from netpolicy.format.document import parse_policy, policy_to_mapping
from netpolicy.policy import Ceiling, EgressBound, GitBound
from tests.fakes.at_once import at_once
from tests.fakes.broker_world import (
    PACK_HEAD,
    POLICY,
    Sidecar,
    World,
    commands,
    envelope,
    post,
)
from tests.fakes.fake_upstream import FakeUpstream, Talk
from tests.fakes.held import (
    FullServer,
    HeldCredentials,
    HeldDisk,
    HeldNames,
    HeldTime,
    HeldTurn,
    SilentServer,
    sockets,
)
from tests.fakes.internet import HELLO, Internet, Lingering, Tunnel, begin_plain
from tests.waiting import PATIENCE
from tests.wire.broker.net.cells import EGRESS, Event, Kind, Wait

CONNECT, IDLE, QUEUE, OPERATION = 2, 3, 4, 6
EGRESS_IDLE, CLIENT_HELLO = 5, 10
TIMEOUTS = f'connect = "{CONNECT}s"\nidle = "{IDLE}s"\noperation = "{OPERATION}s"\n'
LIMITS = f'[limits]\noperations = 1\nqueue = "{QUEUE}s"\n'
ALLOWED = (
    POLICY.replace("[limits]\n", f'[limits]\negress_idle = "{EGRESS_IDLE}s"\n')
    + """
[[egress]]
hosts = ["web.example"]
[[egress]]
hosts = ["web.example"]
scheme = "http"
methods = ["GET", "POST"]
"""
)
NOTHING = 'version = 1\nname = "nothing"'
AGENT = "refs/heads/agent/a"
WANTS = format_data(b"command=fetch") + FLUSH
PUSHED = commands(AGENT) + PACK_HEAD + bytes(100)
POSTED = b"a request's body"
ANSWERED = format_data(b"\x02some of an answer\n")
# No other process has a part in this and no time passes: what is still to come comes sooner.
STILL = 20.0
_TURNS = 50


class FarEnd(Protocol):
    """Who is dialled."""

    port: int

    @property
    def connections(self) -> int: ...
    @property
    def octets(self) -> int:
        """What it has heard of us, in all."""

    async def close(self) -> None: ...


def timeout(kind: Kind, wait: Wait) -> int:
    """The first of the times that end this wait."""
    match wait:
        case Wait.TURN:
            return QUEUE
        case Wait.RATE | Wait.COMMANDS | Wait.DISK | Wait.CREDENTIAL:
            return OPERATION
        case Wait.NAME | Wait.CONNECTION | Wait.HANDSHAKE:
            return CONNECT
    if kind is Kind.TUNNEL and wait is Wait.CLIENT_BODY:
        return CLIENT_HELLO
    return EGRESS_IDLE if kind in EGRESS else IDLE


class HeldBroker:
    """`open`, `begin` a request that then waits, `happen`, look for what is `broken`, `let_go`."""

    sidecar: Sidecar
    far: FarEnd

    def __init__(self, reactor: Any, folder: Path) -> None:
        self._reactor = reactor
        self.time = HeldTime(reactor)
        self.upstream = FakeUpstream(reactor)
        # Its clients have no times of their own, which would end what the broker does not.
        self.world = World(HeldTime(reactor), folder, self.upstream.port, TIMEOUTS)
        self.world.broker_reactor = self.time
        self.world.write_config(LIMITS)
        self.credentials, self.names = HeldCredentials(), HeldNames()
        self._faults: list[LogEvent] = []
        self._observer: Any = self._log
        self._servers: list[FarEnd] = [self.upstream]
        self._begun = False

    # Setting up

    async def open(self) -> HeldBroker:
        globalLogPublisher.addObserver(self._observer)
        world = self.world
        world.start()
        self.context = world.broker.context
        self.disk, self.turn = HeldDisk(world.opened.journal), HeldTurn(self.context.admission)
        self.internet = await Internet(world, self.names, Lingering).open()
        self._servers.append(self.internet)
        self._use_credentials()
        self.sidecar = await world.session(ALLOWED)
        (self.session,) = world.sessions.living()
        return self

    def lead_to(self, far: FarEnd) -> None:
        """Whatever is dialled from now on."""
        self._servers.append(far)
        self.internet.dial(far.port)
        self.world.upstream_port = far.port
        self.world.write_config(LIMITS)
        hosts = self.context.routes.now.other_hosts
        self.context.routes.reload()
        self.context.routes.now = evolve(self.context.routes.now, other_hosts=hosts)
        self._use_credentials()

    def _use_credentials(self) -> None:
        routes = self.context.routes
        server = evolve(routes.now.by_upstream["up"], provider=Permitted(self.credentials))
        routes.now = evolve(routes.now, by_upstream={"up": server})

    async def close(self) -> None:
        self.disk.let_go()
        await self.world.stop()
        for each in self._servers:
            await each.close()
        await self.turns()
        globalLogPublisher.removeObserver(self._observer)

    def _log(self, event: LogEvent) -> None:
        if "log_failure" in event:
            self._faults.append(event)

    # Waiting

    async def turns(self) -> None:
        """As many of the reactor as anything on loopback takes to arrive."""
        for _ in range(_TURNS):
            await self._later(0)

    async def pause(self) -> None:
        await self._later(0.005)

    async def until(self, true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            await self.pause()

    async def _later(self, seconds: float) -> None:
        waited: Deferred[None] = Deferred()
        self._reactor.callLater(seconds, waited.callback, None)
        await waited

    # One request

    async def begin(self, kind: Kind, wait: Wait) -> None:
        """The request, and then the wait."""
        self._kind, self._wait = kind, wait
        self.far = self.internet if kind in EGRESS else self.upstream
        self._hold(wait)
        self._links = self._open_links
        self._ask(kind, wait)
        await self.until(self._waits, f"that it waits for {wait.value}")
        assert len(self.session.running) == 1 and not self.over
        self._sent = self.far.connections, self.far.octets

    def _hold(self, wait: Wait) -> None:
        match wait:
            case Wait.RATE:
                self._use_up_the_rate()
            case Wait.DISK:
                self.disk.hold()
            case Wait.TURN:
                self.turn.hold()
            case Wait.CREDENTIAL:
                self.credentials.held = True
            case Wait.NAME:
                self.names.held = self.time.names_held = True
            case Wait.CONNECTION:
                self.far = FullServer()
                self.lead_to(self.far)
            case Wait.HANDSHAKE:
                self.far = SilentServer()
                self.lead_to(self.far)

    def _use_up_the_rate(self) -> None:
        """What is left is had in debt, up to what a client may wait for."""
        budget = self.session.budget
        while budget._shared.wait(self.world.now) < LONGEST_WAIT - 2:
            budget._shared.spend()

    def _ask(self, kind: Kind, wait: Wait) -> None:
        answers = wait in (Wait.UPSTREAM_BODY, Wait.BOTH)
        whole = wait not in (Wait.COMMANDS, Wait.CLIENT_BODY, Wait.BOTH)
        # Of most pushes there is more to come while they wait.
        whole = whole and (kind is not Kind.PUSH or wait in (Wait.HEAD, Wait.UPSTREAM_BODY))
        self.tunnel: Tunnel | None = None
        match kind:
            case Kind.ADVERTISEMENT:
                self._answer(answers, "advertisement", Service.UPLOAD_PACK)
                target = "/git/up/acme/app.git/info/refs?service=git-upload-pack"
                _, self.reply = self.sidecar.begin("GET", target, envelope(), NoBody())
            case Kind.FETCH:
                self._answer(answers, "result", Service.UPLOAD_PACK)
                self._post("git-upload-pack", WANTS, whole)
            case Kind.PUSH:
                self._answer(answers, "result", Service.RECEIVE_PACK)
                said = PUSHED[:40] if wait is Wait.COMMANDS else PUSHED
                self._post("git-receive-pack", said, whole)
            case Kind.PROBE:
                self._post("git-receive-pack", FLUSH[:2], whole=False)
            case Kind.PLAIN:
                length = len(POSTED) + (0 if whole else 1)
                out, self.reply = begin_plain(self.sidecar, b"POST", Length(length))
                out.write(POSTED)
            case Kind.TUNNEL:
                self.tunnel = Tunnel(self.world, self.sidecar).begin()
                self.reply = self.tunnel.reply

    def _post(self, service: str, body: bytes, whole: bool) -> None:
        out, self.reply = self.sidecar.begin("POST", *post("acme/app", service), Chunked())
        out.write(body)
        if whole:
            out.finish()

    def _answer(self, begins: bool, what: str, service: Service) -> None:
        said = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-%s-%s\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n"
        ) % (service.value.encode(), what.encode(), len(ANSWERED), ANSWERED)

        def answer(talk: Talk) -> None:
            if begins:
                talk.say(said)

        self.upstream.on_head = answer

    def _waits(self) -> bool:
        match self._wait:
            case Wait.RATE:
                return self.session.budget.running == 1
            case Wait.COMMANDS:
                return len(self.session.running) == 1
            case Wait.TURN:
                return self.context.admission.waiting == 1
            case Wait.DISK:
                return self.disk.wanted
            case Wait.CREDENTIAL:
                return len(self.credentials.waiting) == 1
            case Wait.NAME:
                return self.time.names_wanted + len(self.names.waiting) == 1
            case Wait.CONNECTION:
                return self._upstream_sockets == 1
            case Wait.HANDSHAKE:
                return self.far.octets > 0
        if self.tunnel is not None:
            return self._tunnel_waits(self.tunnel)
        if self._kind is Kind.PLAIN:
            return self._plain_waits()
        heard = sum(len(talk.body) for talk in self.upstream.talks)
        heard += sum(map(len, self.upstream.bodies))
        wanted = {Kind.FETCH: len(WANTS), Kind.PUSH: len(PUSHED)}.get(self._kind, 0)
        whole = len(self.upstream.bodies) == 1 or self._wait in (Wait.CLIENT_BODY, Wait.BOTH)
        return len(self.upstream.heads) == 1 and heard == wanted and whole and self._answer_has_come

    def _plain_waits(self) -> bool:
        if not self.internet.servers:
            return False
        server = self.internet.servers[0]
        if not server.heard.endswith(POSTED):
            return False
        if self._wait in (Wait.UPSTREAM_BODY, Wait.BOTH) and not self._begun:
            self._begun = True
            server.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + ANSWERED)
        return self._answer_has_come

    @property
    def _answer_has_come(self) -> bool:
        return self.reply.data == (ANSWERED if self._wait in _ANSWERED else b"")

    def _tunnel_waits(self, tunnel: Tunnel) -> bool:
        if not tunnel.opened.called or not self.internet.servers:
            return False
        if self._wait is Wait.CLIENT_BODY:
            return True
        if not self._begun:
            self._begun = True
            tunnel.end.write(HELLO)
            self.internet.servers[0].say(ANSWERED)
        return self.internet.servers[0].heard == HELLO and tunnel.heard == ANSWERED

    # What happens to it

    async def happen(self, event: Event) -> None:
        self._event = event
        match event:
            case Event.REVOKED:
                self.context.grants.revoke([self.session], "test")
            case Event.RESCOPED:
                assert self._rescope() == 1
            case Event.TIMED_OUT:
                await self._time_out()
            case Event.RESET:
                self._client_transport.abortConnection()
            case Event.CLOSED:
                self._client_transport.loseConnection()

    @property
    def _client_transport(self) -> Any:
        return self.sidecar.connection.transport

    def _rescope(self) -> int:
        stored = self.session.stored
        grant = Grant(
            host="one",
            boot_id=stored.host_boot,
            counter=1000,
            session=stored.id,
            key=stored.key,
            sandbox=stored.sandbox,
            name=stored.name,
            runtime=stored.runtime,
            container=None,
            netns=stored.netns,
            epoch=stored.epoch,
            scope=policy_to_mapping(parse_policy(NOTHING)),
            ttl=60,
            issued=0,
            audience=self.world.audience,
        )
        host = self.world.host_key
        signed = sign_grant(grant, host)
        replace, ceiling = self.context.grants.replace_policy, Ceiling(GitBound(), EgressBound())
        cut: int = at_once(replace("one", bytes(host.verify_key), signed, ceiling))
        return cut

    async def _time_out(self) -> None:
        """Not before its time, and then at once."""
        self.time.advance(timeout(self._kind, self._wait) - 0.5)
        await self.turns()
        assert len(self.session.running) == 1 and not self.over
        self.time.advance(1)

    def let_go(self) -> None:
        """Whatever was waited for comes now."""
        if self._wait is Wait.RATE:
            self.time.advance(LONGEST_WAIT)
        self.disk.let_go()
        self.credentials.let_go()
        self.names.let_go()
        self.time.let_names_go()
        if self.turn.taken:
            self.turn.let_go()

    # What must be true then

    @property
    def over(self) -> bool:
        """For the client: it was answered, or its connection has ended."""
        return self.reply.done.called or (self.tunnel is not None and self.tunnel.gone)

    @property
    def told(self) -> str:
        """The code in what the client was told, if it was."""
        head = self.reply.head
        code = None if head is None else head.header(b"gitmoat-code")
        if code is not None:
            return code.decode()
        found = re.search(rb"\(?\b([A-Z]\d{3})\b", self.reply.data)
        return "" if found is None else found[1].decode()

    @property
    def _open_links(self) -> int:
        """Connections of hosts and sidecars, as the broker itself counts them."""
        found = re.search(rb"^gitmoat_connections (\d+)", self.context.metrics.text(), re.M)
        assert found is not None
        return int(found[1])

    @property
    def _upstream_sockets(self) -> int:
        return sockets(self.far.port, leave_out=getattr(self.far, "own", 0))

    def broken(self) -> frozenset[str]:
        """The promises that are not kept now."""
        left = self._event in (Event.RESET, Event.CLOSED)
        session, admission = self.session, self.context.admission
        kept = {
            "client's end": self._open_links == self._links - 1 if left else self.over,
            "upstream's end": self._upstream_sockets == 0,
            "nothing sent": (self.far.connections, self.far.octets) == self._sent,
            "slots": (session.budget.running, session.egress.running) == (0, 0),
            "turn": (admission.running, admission.waiting) == (self.turn.taken, 0),
            "registry": not len(session.running),
            "credential": self.credentials.freed,
            "no fault": not self._faults,
        }
        return frozenset(name for name, is_kept in kept.items() if not is_kept)

    def outcomes(self) -> int:
        """How often its end was recorded, or added to what will be. RequestContext once."""
        if self._kind in EGRESS:
            return sum(tally.count for _, tally in self.session.egress.take())
        return len(self.world.audit("git.outcome"))


_ANSWERED = (Wait.UPSTREAM_BODY, Wait.BOTH)


@contextmanager
def without_collector() -> Iterator[None]:
    """What is freed in the block was held by nobody, and waited for no collector."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
