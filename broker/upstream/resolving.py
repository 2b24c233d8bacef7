"""Names to addresses, asked by the broker itself, once for each connection."""

from __future__ import annotations

import socket
from collections import Counter, deque
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.internet.error import DNSLookupError
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.names import client, dns
from twisted.names.error import DomainError, ResolverError
from twisted.names.hosts import searchFileForAll
from twisted.python.failure import Failure
from twisted.python.filepath import FilePath
from twisted.python.threadpool import ThreadPool

from broker.config.values import Address as Place
from gitmoat.wire.hostname import HostName
from netpolicy.egress_rules.addresses import Address

log = Logger()

_TIMES = (1, 2)
_THREADS = 16
EACH = 2

_Asked = tuple[HostName, "Deferred[list[Address]]"]


class Resolver(Protocol):
    def resolve(self, host: HostName, session: str) -> Deferred[list[Address]]:
        """Every address of the name, in the order to try them; empty where there is none."""


@define(eq=False)
class SystemResolver:
    """As the programs of this machine do: /etc/hosts, then whatever the C library asks.

    That takes threads, and names that take long are chosen by sandboxes. So these threads are not
    those in which git servers are looked up, and a session has only a few of them at a time.
    """

    _reactor: Any
    _hosts: FilePath[str] = field(factory=lambda: FilePath("/etc/hosts"))
    _pool: ThreadPool = field(factory=lambda: ThreadPool(0, _THREADS, "resolving"), init=False)
    _busy: Counter[str] = field(factory=Counter, init=False)
    _waiting: dict[str, deque[_Asked]] = field(factory=dict, init=False)

    def resolve(self, host: HostName, session: str) -> Deferred[list[Address]]:
        if not self._pool.started:
            self._pool.start()
            self._reactor.addSystemEventTrigger("during", "shutdown", self._pool.stop)
        wanted: Deferred[list[Address]] = Deferred()
        self._waiting.setdefault(session, deque()).append((host, wanted))
        self._next(session)
        return wanted

    def _next(self, session: str) -> None:
        waiting = self._waiting.get(session)
        while waiting and self._busy[session] < EACH:
            host, wanted = waiting.popleft()
            if not wanted.called:  # by now nobody may wait for it
                self._busy[session] += 1
                # Where no thread can be had, the pool raises.
                asking = maybeDeferred(
                    deferToThreadPool,
                    self._reactor,
                    self._pool,
                    _ask_system,
                    self._hosts,
                    host.text,
                )
                asking.addBoth(self._answered, session, wanted)
        if not waiting:
            self._waiting.pop(session, None)

    def _answered(
        self, found: list[Address] | Failure, session: str, wanted: Deferred[list[Address]]
    ) -> None:
        """The thread is free, also where nobody waited so long."""
        self._busy[session] -= 1
        self._busy += Counter()  # drops sessions that have none
        self._next(session)
        if wanted.called:
            return
        if isinstance(found, Failure):
            log.failure("the resolver failed", found)
            wanted.errback(DNSLookupError("the resolver failed"))
        else:
            wanted.callback(found)


def _ask_system(hosts: FilePath[str], name: str) -> list[Address]:
    """In a thread. With a final dot, so that no search list makes another name of it; /etc/hosts
    has no such names, and is read here for that reason."""
    listed: list[str] = searchFileForAll(hosts, name.encode("ascii"))
    if not listed:
        try:
            found = socket.getaddrinfo(f"{name}.".encode("ascii"), None, type=socket.SOCK_STREAM)
        except socket.gaierror:
            return []
        listed = [str(place[0]) for *_, place in found]
    return list(dict.fromkeys(ip_address(each) for each in listed))


@define(eq=False)
class _Question:
    """What is asked about one name, and all who wait for the answer."""

    waiting: list[Deferred[list[Address]]] = field(factory=list)
    asking: Deferred[Any] | None = None


@define(eq=False)
class ServerResolver:
    """Asks the DNS servers that broker.toml names, and nobody else.

    Sandboxes that ask for the same name share a question, which ends with the last who waits for
    it. Twisted's own client shares it as well, but there the first one to ask takes the answer from
    all others when it leaves.
    """

    _reactor: Any
    _servers: tuple[Place, ...]
    _client: client.Resolver = field(init=False)
    _questions: dict[str, _Question] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        servers = [(place.host, place.port) for place in self._servers]
        self._client = client.Resolver(servers=servers, timeout=_TIMES, reactor=self._reactor)

    def resolve(self, host: HostName, session: str) -> Deferred[list[Address]]:
        name = host.text
        question = self._questions.setdefault(name, _Question())
        wanted: Deferred[list[Address]] = Deferred(lambda gone: self._leave(name, question, gone))
        question.waiting.append(wanted)
        if question.asking is None:
            question.asking = self._ask(name)
            question.asking.addBoth(self._answered, name, question)
        return wanted

    def _ask(self, name: str) -> Deferred[Any]:
        asked: list[Deferred[Any]] = [
            self._client.lookupAddress(name),
            self._client.lookupIPV6Address(name),
        ]
        return DeferredList(asked, consumeErrors=True).addCallback(_found)

    def _answered(self, found: list[Address] | Failure, name: str, question: _Question) -> None:
        self._forget(name, question)
        for wanted in question.waiting:
            if wanted.called:  # one who was told before has ended it
                continue
            if isinstance(found, Failure):
                wanted.errback(found)
            else:
                wanted.callback(list(found))

    def _leave(self, name: str, question: _Question, gone: Deferred[list[Address]]) -> None:
        if self._questions.get(name) is not question:
            return
        question.waiting.remove(gone)
        if not question.waiting and question.asking is not None:
            self._forget(name, question)
            question.asking.cancel()

    def _forget(self, name: str, question: _Question) -> None:
        if self._questions.get(name) is question:
            del self._questions[name]


def _found(results: list[tuple[bool, Any]]) -> list[Address]:
    """One of the two questions may fail: a host need not have both kinds of address."""
    for good, result in results:
        if not good:
            _check_expected(result)
    answers = [record for good, result in results if good for record in result[0]]
    return list(dict.fromkeys(_address(record) for record in answers if _is_address(record)))


def _check_expected(failure: Failure) -> None:
    failure.trap(DomainError, ResolverError, TimedOut, OSError)


def _is_address(record: Any) -> bool:
    return record.type in (dns.A, dns.AAAA)


def _address(record: Any) -> Address:
    octets: bytes = record.payload.address
    return IPv4Address(octets) if record.type == dns.A else IPv6Address(octets)
