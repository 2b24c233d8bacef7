"""Connections to other hosts through the broker, which decides them again."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, cast

import pytest
from attrs import define, evolve
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.protocol import DatagramProtocol, Factory
from twisted.internet.task import Clock
from twisted.names import dns
from twisted.names.error import DNSNameError
from twisted.python.failure import Failure

from broker.config.values import Address as Place
from broker.errors import Unavailable
from broker.upstream.dialler import Dialler
from broker.upstream.other_hosts import Checked, OtherHosts, is_ours
from broker.upstream.resolving import ServerResolver, SystemResolver, _found
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.wire.hostname import Destination, HostName
from netpolicy.egress_rules.addresses import Address
from netpolicy.format.document import parse_policy
from netpolicy.upstreams import Upstream, UpstreamTable
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import Reply, Sidecar
from tests.fakes.clienthello import message, records, sni
from tests.fakes.internet import (
    HELLO,
    WEB,
    Internet,
    Tunnel,
    ask_plain,
)
from tests.fakes.reactor_tests import on_reactor
from tests.fakes.tasks import an_entry

POLICY = """
version = 1
name = "p"
[limits]
egress_connections = 2
egress_max = "4KiB"
egress_idle = "1h"
[[egress]]
id = "web"
hosts = ["web.example", "*.forge.example", "localhost.example"]
[[egress]]
id = "plain"
hosts = ["web.example"]
scheme = "http"
methods = ["GET", "POST"]
"""


async def tunnel(scene: Scene, to: Destination = WEB, sidecar: Sidecar | None = None) -> Tunnel:
    asker = sidecar or await scene.world.session(POLICY)
    return await Tunnel(scene.world, asker).ask(to)


def events(scene: Scene, name: str) -> list[dict[str, Any]]:
    return scene.world.audit(name)


@on_reactor
async def test_an_allowed_tunnel_is_resolved_once_dialled_and_joined(scene: Scene) -> None:
    internet = await Internet(scene.world).open()
    made = await tunnel(scene)
    assert made.code is None
    made.end.write(HELLO + b"more")
    await made.until(lambda: internet.servers[0].heard == HELLO + b"more")
    internet.servers[0].say(b"answer")
    await made.until(lambda: made.heard == b"answer")
    assert internet.names.asked == ["web.example"]
    internet.servers[0].end()
    await made.until(lambda: made.gone)
    (recorded,) = events(scene, "egress.decision")
    assert (recorded["decision"], recorded["to"], recorded["rule"]) == (
        "allow", "web.example:443", "web",
    )  # fmt: skip
    scene.world.broker.summaries.record_use()
    (used,) = events(scene, "egress.used")
    assert (used["to"], used["count"], used["bytes_down"]) == ("web.example:443", 1, 6)
    await internet.close()


@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("evil.example:443", "E101"),
        ("web.example:22", "E102"),
        ("web.example.evil.example:443", "E101"),
        ("localhost:443", "E104"),  # the git server of this world
    ],
)
@on_reactor
async def test_a_sidecar_that_was_taken_over_gets_no_more_than_the_policy(
    scene: Scene, to: str, code: str
) -> None:
    internet = await Internet(scene.world).open()
    host, _, port = to.partition(":")
    made = await tunnel(scene, Destination(HostName(host), int(port)))
    assert made.code == code
    assert internet.names.asked == [] and internet.servers == []
    (recorded,) = events(scene, "egress.decision")
    assert (recorded["decision"], recorded["code"], recorded["to"]) == ("deny", code, to)
    await internet.close()


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", records(message(sni(b"evil.example"))), b"SSH-2.0-x\r\n"]
)
@on_reactor
async def test_nothing_but_tls_for_the_name_goes_through_a_tunnel(
    scene: Scene, first: bytes
) -> None:
    internet = await Internet(scene.world).open()
    made = await tunnel(scene)
    made.end.write(first)
    await made.until(lambda: made.gone)
    await made.until(lambda: internet.servers[0].lost)
    assert internet.servers[0].heard == b""
    assert events(scene, "egress.decision")[-1]["code"] == "E105"
    await internet.close()


@on_reactor
async def test_a_session_has_so_many_connections_and_octets(scene: Scene) -> None:
    internet = await Internet(scene.world).open()
    asker = await scene.world.session(POLICY)
    first = await tunnel(scene, sidecar=asker)
    session = scene.world.sessions.living()[0]
    more = [await scene.world.connect(asker.key, Sidecar) for _ in range(2)]
    second = await tunnel(scene, sidecar=more[0])
    third = await tunnel(scene, sidecar=more[1])
    assert (second.code, third.code) == (None, "E108")
    first.end.write(HELLO)
    await first.until(lambda: internet.servers[0].heard == HELLO)
    internet.servers[0].say(bytes(5000))
    await first.until(lambda: first.gone)
    assert session.egress.left == 0
    last = await tunnel(scene, sidecar=more[1])
    assert last.code == "E109"
    await internet.close()


@on_reactor
async def test_the_end_of_a_session_cuts_its_tunnels(scene: Scene) -> None:
    internet = await Internet(scene.world).open()
    made = await tunnel(scene)
    made.end.write(HELLO)
    await made.until(lambda: internet.servers[0].heard == HELLO)
    scene.world.broker.context.grants.revoke([scene.world.sessions.living()[0]], "test")
    await made.until(lambda: made.gone and internet.servers[0].lost)
    await internet.close()


@on_reactor
async def test_an_open_tunnel_does_not_keep_a_silent_session(scene: Scene) -> None:
    internet = await Internet(scene.world).open()
    made = await tunnel(scene)
    scene.world.now += 31 * 60
    scene.world.broker.tick()
    await made.until(lambda: made.gone)
    await internet.close()


@on_reactor
async def test_another_policy_cuts_what_it_does_not_allow_and_nothing_else(scene: Scene) -> None:
    internet = await Internet(scene.world).open()
    made = await tunnel(scene)
    session = scene.world.sessions.living()[0]
    assert session.running.rescope(session.policy) == 0
    assert session.running.rescope(parse_policy('version = 1\nname = "p"')) == 1
    await made.until(lambda: made.gone and internet.servers[0].lost)
    await internet.close()


PRIVATE = 'version = 1\nname = "p"\n[[egress]]\nhosts = ["web.example"]\nallow_private = {said}\n'


@on_reactor
async def test_a_policy_that_takes_private_addresses_back_cuts_what_may_have_used_one(
    scene: Scene,
) -> None:
    internet = await Internet(scene.world).open()
    made = await tunnel(scene, sidecar=await scene.world.session(PRIVATE.format(said="true")))
    session = scene.world.sessions.living()[0]
    assert session.running.rescope(session.policy) == 0
    assert session.running.rescope(parse_policy(PRIVATE.format(said="false"))) == 1
    await made.until(lambda: made.gone and internet.servers[0].lost)
    await internet.close()


@on_reactor
async def test_a_host_that_becomes_a_git_server_is_cut(scene: Scene) -> None:
    internet = await Internet(scene.world).open()
    to = Destination(HostName("new.forge.example"), 443)
    made = await tunnel(scene, to)
    routes = scene.world.broker.context.routes
    hosts, load = routes.now.other_hosts, routes._load
    table = UpstreamTable((*routes.now.table.upstreams, Upstream("new", (to.host.text,), False)))
    routes._load = lambda: evolve(load(), other_hosts=hosts)
    routes.reload()
    hello = records(message(sni(b"new.forge.example")))
    made.end.write(hello)
    await made.until(lambda: internet.servers[0].heard == hello)
    routes._load = lambda: evolve(load(), other_hosts=hosts, table=table)
    routes.reload()
    await made.until(lambda: made.gone and internet.servers[0].lost)
    await internet.close()


@on_reactor
async def test_a_plain_request_is_sent_in_our_words_and_answered_without_the_servers_hops(
    scene: Scene,
) -> None:
    internet = await Internet(scene.world).open()
    sidecar = await scene.world.session(POLICY)
    override = (b"X-HTTP-Method-Override", b"DELETE")
    reply = ask_plain(sidecar, b"GET", (b"Accept", b"x/y"), override)
    made = Tunnel(scene.world, sidecar)
    await made.until(lambda: internet.servers and internet.servers[0].heard)
    assert internet.servers[0].heard == (
        b"GET /a?b HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\naccept: x/y\r\n\r\n"
    )
    internet.servers[0].say(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nX-A: 1\r\nGitmoat-Code: E101\r\n\r\nhello"
    )
    internet.servers[0].end()
    await reply.done
    assert (reply.status, reply.data) == (200, b"hello")
    assert reply.head is not None
    assert dict(reply.head.headers) == {b"x-a": b"1", b"transfer-encoding": b"chunked"}
    await internet.close()


@on_reactor
async def test_nothing_stays_open_to_a_server_that_would_keep_the_connection(scene: Scene) -> None:
    internet = await Internet(scene.world).open()
    sidecar = await scene.world.session(POLICY)
    reply = ask_plain(sidecar, b"GET")
    made = Tunnel(scene.world, sidecar)
    await made.until(lambda: internet.servers and internet.servers[0].heard)
    internet.servers[0].say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    await reply.done
    assert reply.data == b"hello"
    await made.until(lambda: internet.servers[0].lost)
    await internet.close()


@on_reactor
async def test_plain_requests_share_the_octets_of_their_session_while_they_run(
    scene: Scene,
) -> None:
    internet = await Internet(scene.world).open()
    first = await scene.world.session(POLICY)
    second = await scene.world.connect(first.key, Sidecar)
    replies = [ask_plain(each, b"GET") for each in (first, second)]
    made = Tunnel(scene.world, first)
    await made.until(lambda: sum(bool(each.heard) for each in internet.servers) == 2)
    for server in internet.servers:
        server.say(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + bytes(3000))
    await made.until(lambda: any(each.lost for each in internet.servers))
    await made.until(lambda: any(each.done.called for each in replies))
    assert min(len(each.data) for each in replies) == 0
    assert max(len(each.data) for each in replies) == 3000
    denied = [each for each in events(scene, "egress.decision") if each["decision"] == "deny"]
    assert [each["code"] for each in denied] == ["E109"]
    await internet.close()


@pytest.mark.parametrize(
    ("method", "header", "code"),
    [
        (b"DELETE", None, "E110"),
        (b"GET", (b"Accept", b"application/dns-message"), "E112"),
    ],
)
@on_reactor
async def test_a_plain_request_beyond_its_rule_goes_nowhere(
    scene: Scene, method: bytes, header: tuple[bytes, bytes] | None, code: str
) -> None:
    internet = await Internet(scene.world).open()
    sidecar = await scene.world.session(POLICY)
    reply = await ask_plain(sidecar, method, *([header] if header else [])).done
    assert reply.header(b"gitmoat-code") == code.encode()
    assert internet.names.asked == [] and internet.servers == []
    await internet.close()


# Dialling by itself


@define(eq=False)
class Fixed:
    addresses: list[str]

    def resolve(self, host: HostName, session: str) -> Deferred[list[Address]]:
        return succeed([ip_address(each) for each in self.addresses])


def _hosts(*addresses: str) -> OtherHosts:
    return OtherHosts(Clock(), Fixed(list(addresses)), 5.0, ours=lambda address: False)


async def tunnel_end(hosts: OtherHosts, reactor: Any, private: bool = False) -> TunnelEnd:
    """What a tunnel to the web leads to."""
    return await Dialler(reactor).tunnel(hosts.route(WEB, private, 5.0, True), an_entry())


@pytest.mark.parametrize(
    ("addresses", "private", "code"),
    [
        ([], False, "E107"),
        (["127.0.0.1"], True, "E106"),
        (["169.254.169.254"], True, "E106"),
        (["10.0.0.1"], False, "E106"),
        (["::ffff:10.0.0.1", "64:ff9b::a00:1"], True, "E106"),
    ],
)
@on_reactor
async def test_a_name_that_leads_inside_is_not_dialled(
    addresses: list[str], private: bool, code: str
) -> None:
    with pytest.raises(Unavailable) as refused:
        await tunnel_end(_hosts(*addresses), Clock(), private)
    assert refused.value.code == code


@on_reactor
async def test_of_several_addresses_only_those_that_passed_are_tried() -> None:
    hosts = _hosts("10.0.0.1", "203.0.113.5", "127.0.0.1", "203.0.113.6")
    assert await Checked(hosts, WEB.host, False).find(an_entry()) == [
        ip_address("203.0.113.5"),
        ip_address("203.0.113.6"),
    ]
    hosts.ours = lambda each: str(each) == "203.0.113.5"
    assert await Checked(hosts, WEB.host, False).find(an_entry()) == [ip_address("203.0.113.6")]


def test_the_machine_knows_its_own_addresses() -> None:
    assert is_ours(ip_address("127.0.0.1"))
    assert not is_ours(ip_address("192.0.2.77"))


def test_a_resolver_that_knows_no_name_gives_no_address_and_a_broken_one_is_seen() -> None:
    nothing = (False, Failure(DNSNameError()))
    assert _found([nothing, nothing]) == []
    with pytest.raises(ZeroDivisionError):
        _found([nothing, (False, Failure(ZeroDivisionError()))])


@define(eq=False)
class NoThread:
    """A pool that can have none: the process is at a limit."""

    started: bool = True

    def callInThreadWithCallback(self, *call: Any, **named: Any) -> None:
        raise RuntimeError("can't start new thread")


@on_reactor
async def test_a_name_that_no_thread_can_look_up_is_a_host_that_cannot_be_reached(
    scene: Scene,
) -> None:
    resolver = SystemResolver(scene.world.reactor)
    resolver._pool = cast(Any, NoThread())
    routes = scene.world.broker.context.routes
    routes.now = evolve(routes.now, other_hosts=OtherHosts(scene.world.reactor, resolver, 5.0))
    made = await tunnel(scene)
    assert made.code == "E107"
    assert events(scene, "egress.decision")[-1]["code"] == "E107"
    assert scene.world.sessions.living()[0].egress.running == 0


class NameServer(DatagramProtocol):
    """Hears questions, and answers those for addresses when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Any]] = []

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        self.asked.append((datagram, addr))

    def answer(self) -> None:
        asked, self.asked = self.asked, []
        for datagram, addr in asked:
            message = dns.Message()
            message.fromStr(datagram)
            name = message.queries[0].name.name
            message.answer = True
            if message.queries[0].type == dns.A:
                address: Any = dns.Record_A("203.0.113.5")
            message.answers = [dns.RRHeader(name, payload=address)]
            transport: Any = self.transport
            transport.write(message.toStr(), addr)


@pytest.mark.parametrize("leaves", [0, 1])
@on_reactor
async def test_who_leaves_takes_no_name_from_another_who_asks_for_it(
    scene: Scene, leaves: int
) -> None:
    server, reactor = NameServer(), scene.world.reactor
    port: Any = reactor.listenUDP(0, server, interface="127.0.0.1")
    resolver = ServerResolver(reactor, (Place("127.0.0.1", port.getHost().port),))
    asking = [resolver.resolve(WEB.host, session) for session in ("a", "b")]
    await scene.until(lambda: len(server.asked) == 2)
    asking[leaves].addErrback(lambda failure: failure.trap(CancelledError) and None)
    asking[leaves].cancel()
    server.answer()
    assert await asking[1 - leaves] == [ip_address("203.0.113.5")]
    await port.stopListening()


@on_reactor
async def test_a_question_ends_with_the_last_who_waits_for_it(scene: Scene) -> None:
    server, reactor = NameServer(), scene.world.reactor
    port: Any = reactor.listenUDP(0, server, interface="127.0.0.1")
    resolver = ServerResolver(reactor, (Place("127.0.0.1", port.getHost().port),))
    asking = [resolver.resolve(WEB.host, session) for session in ("a", "b")]
    await scene.until(lambda: len(server.asked) == 2)
    for each in asking:
        each.addErrback(lambda failure: failure.trap(CancelledError) and None)
        each.cancel()
    again = resolver.resolve(WEB.host, "c")
    await scene.until(lambda: len(server.asked) == 4)
    server.answer()
    assert await again == [ip_address("203.0.113.5")]
    await port.stopListening()


# Through a corporate proxy


async def through(scene: Scene, answer: bytes) -> tuple[Internet, OtherHosts]:
    """The proxy is the server outside: it says `answer` to whatever it is asked."""
    internet = Internet(scene.world)
    factory: Any = Factory.forProtocol(internet._made)
    factory.noisy = False
    endpoint = TCP4ServerEndpoint(scene.world.reactor, 0, interface="127.0.0.1")
    internet.listening = await endpoint.listen(factory)
    place = Place("127.0.0.1", internet.listening.getHost().port)
    hosts = OtherHosts(scene.world.reactor, internet.names, 2.0, place)

    def answering() -> None:
        if internet.servers and internet.servers[-1].heard.endswith(b"\r\n\r\n"):
            internet.servers[-1].say(answer)
        else:
            scene.world.reactor.callLater(0.01, answering)

    scene.world.reactor.callLater(0.01, answering)
    return internet, hosts


@on_reactor
async def test_a_proxy_is_asked_for_the_address_that_was_checked(scene: Scene) -> None:
    internet, hosts = await through(scene, b"HTTP/1.1 200 OK\r\n\r\n")
    end = await tunnel_end(hosts, scene.world.reactor)
    assert internet.names.asked == ["web.example"]
    assert internet.servers[0].heard == (
        b"CONNECT 203.0.113.5:443 HTTP/1.1\r\nHost: 203.0.113.5:443\r\n\r\n"
    )
    end.abort()
    await internet.close()


@on_reactor
async def test_a_proxy_that_says_no_is_a_host_that_cannot_be_reached(scene: Scene) -> None:
    internet, hosts = await through(scene, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(Unavailable) as refused:
        await tunnel_end(hosts, scene.world.reactor)
    assert (refused.value.code, refused.value.why) == ("E107", "the proxy answered 403")
    await internet.close()


@on_reactor
async def test_a_name_that_leads_inside_does_not_reach_the_proxy_either(scene: Scene) -> None:
    internet, hosts = await through(scene, b"")
    hosts.resolver = Fixed(["10.0.0.1"])
    with pytest.raises(Unavailable) as refused:
        await tunnel_end(hosts, scene.world.reactor)
    assert refused.value.code == "E106"
    assert internet.servers == []
    await internet.close()


async def plain_through(scene: Scene, answer: bytes) -> tuple[Internet, Reply]:
    internet, hosts = await through(scene, answer)
    routes = scene.world.broker.context.routes
    routes.now = evolve(routes.now, other_hosts=hosts)
    sidecar = await scene.world.session(POLICY)
    return internet, ask_plain(sidecar, b"GET", (b"Accept", b"x/y"))


@on_reactor
async def test_a_plain_request_through_a_proxy_names_the_host_once_and_alike(scene: Scene) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nVia: 1.1 proxy\r\n\r\nhello"
    internet, reply = await plain_through(scene, answer)
    await reply.done
    assert (reply.status, reply.data) == (200, b"hello")
    assert internet.names.asked == ["web.example"], "checked, although the proxy asks again"
    assert internet.servers[0].heard == (
        b"GET http://web.example/a?b HTTP/1.1\r\nHost: web.example\r\n"
        b"Connection: close\r\naccept: x/y\r\n\r\n"
    )
    await internet.close()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", b"E107"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\n\r\n", b"E112"),
        (b"no HTTP\r\n\r\n", b"E107"),
    ],
)
@on_reactor
async def test_a_proxys_own_no_to_a_plain_request_is_not_passed_on(
    scene: Scene, answer: bytes, code: bytes
) -> None:
    internet, reply = await plain_through(scene, answer)
    await reply.done
    assert reply.header(b"gitmoat-code") == code
    await internet.close()


@on_reactor
async def test_a_plain_request_to_a_name_that_leads_inside_does_not_reach_the_proxy(
    scene: Scene,
) -> None:
    internet, hosts = await through(scene, b"")
    hosts.resolver = Fixed(["10.0.0.1"])
    routes = scene.world.broker.context.routes
    routes.now = evolve(routes.now, other_hosts=hosts)
    sidecar = await scene.world.session(POLICY)
    reply = await ask_plain(sidecar, b"GET").done
    assert reply.header(b"gitmoat-code") == b"E106"
    assert internet.servers == []
    await internet.close()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 403 No\r\n\r\n"]
)
@on_reactor
async def test_nothing_stays_open_to_a_proxy_that_said_no(scene: Scene, answer: bytes) -> None:
    internet, hosts = await through(scene, answer)
    with pytest.raises(Unavailable):
        await tunnel_end(hosts, scene.world.reactor)
    made = Tunnel(scene.world, await scene.world.session(POLICY))
    await made.until(lambda: internet.servers[0].lost)
    await internet.close()


@on_reactor
async def test_nothing_stays_open_to_a_proxy_when_nobody_waits_any_more(scene: Scene) -> None:
    internet, hosts = await through(scene, b"")
    dialling = Deferred.fromCoroutine(tunnel_end(hosts, scene.world.reactor))
    dialling.addErrback(lambda failure: failure.trap(CancelledError))
    made = Tunnel(scene.world, await scene.world.session(POLICY))
    await made.until(lambda: internet.servers and internet.servers[0].heard)
    dialling.cancel()
    await made.until(lambda: internet.servers[0].lost)
    await internet.close()
