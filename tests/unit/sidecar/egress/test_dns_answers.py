"""DNS from the policy alone, and the addresses it hands out."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from twisted.names import dns

from gitmoat.wire.hostname import HostName
from netpolicy.format.document import parse_policy
from netpolicy.nftables import SYNTHETIC
from netpolicy.upstreams import Upstream, UpstreamTable
from sidecar.egress.dns_answers import TTL, DnsAnswers
from sidecar.egress.synthetic import MOST_NAMES, SyntheticAddresses
from sidecar.kind import Scope

POLICY = """
version = 1
name = "t"
[[egress]]
hosts = ["web.example", "*.cdn.example", "*.forge.example"]
[[egress]]
effect = "deny"
hosts = ["logs.cdn.example"]
"""
OTHER = 'version = 1\nname = "t"\n[[egress]]\nhosts = ["other.example"]'


class Resolver:
    def __init__(self) -> None:
        upstreams = UpstreamTable((Upstream("forge", ("git.forge.example",), False),))
        self.scope = Scope(parse_policy(POLICY), upstreams)
        self.addresses = SyntheticAddresses(0)
        self.refused: list[tuple[str | None, str]] = []
        self.answers = DnsAnswers(self.scope, self.addresses, self.report)

    def report(self, name: str | None, code: str, count: int) -> None:
        self.refused += [(name, code)] * count

    def ask(self, name: str, kind: int = dns.A, number: int = 1) -> dns.Message:
        message = dns.Message(id=number, recDes=1)
        message.queries = [dns.Query(name, kind)]
        answered = dns.Message()
        data = self.answers.reply(message.toStr())
        self.answers.settle()
        assert data is not None
        answered.fromStr(data)
        assert (answered.id, answered.answer, answered.recAv) == (number, 1, 1)
        return answered

    def address(self, name: str) -> IPv4Address:
        (record,) = self.ask(name).answers
        assert record.ttl == TTL
        payload = record.payload
        assert isinstance(payload, dns.Record_A)
        return IPv4Address(payload.dottedQuad())


def test_an_allowed_name_has_an_address_of_its_own_that_stays() -> None:
    world = Resolver()
    web, cdn = world.address("web.example"), world.address("a.cdn.example")
    assert web != cdn
    assert {web, cdn} <= set(IPv4Network(SYNTHETIC))
    assert world.address("WEB.example") == web
    assert world.addresses.name_of(web.packed) == HostName("web.example")
    assert world.addresses.name_of(IPv4Address("198.19.200.1").packed) is None
    assert not world.refused


def test_other_kinds_of_record_are_empty_so_that_clients_use_the_address() -> None:
    world = Resolver()
    for kind in (dns.AAAA, 65, 64, dns.MX, dns.TXT, dns.ALL_RECORDS):
        for number in (1, 2):
            answered = world.ask("web.example", kind, number)
            assert (answered.rCode, answered.answers) == (dns.OK, [])


def test_everything_else_does_not_exist_and_is_reported() -> None:
    world = Resolver()
    wanted = {
        "evil.example": "E101",
        "cdn.example": "E101",
        "logs.cdn.example": "E101",
        "git.forge.example": "E104",
        "c2vjcmv0.evil.example": "E101",
        "5.0.18.198.in-addr.arpa": "E101",
    }
    for name, code in wanted.items():
        for kind in (dns.A, dns.TXT):
            assert world.ask(name, kind).rCode == dns.ENAME
        assert world.refused[-1] == (name, code)
    assert world.ask("203.0.113.5").rCode == dns.ENAME
    assert world.refused[-1] == (None, "E103")


def test_another_policy_counts_at_once() -> None:
    world = Resolver()
    world.ask("web.example", dns.AAAA)
    world.scope.policy = parse_policy(OTHER)
    world.answers.forget()
    assert world.ask("web.example", dns.AAAA).rCode == dns.ENAME
    assert world.ask("other.example", dns.AAAA).rCode == dns.OK


def test_the_table_is_bounded_and_an_old_address_means_nothing_then() -> None:
    addresses = SyntheticAddresses(0)
    first = addresses.address_of(HostName("a.example"))
    kept = addresses.address_of(HostName("b.example"))
    for number in range(MOST_NAMES - 1):
        addresses.address_of(HostName("b.example"))
        addresses.address_of(HostName(f"n{number}.example"))
    assert addresses.name_of(first) is None
    assert addresses.name_of(kept) == HostName("b.example")
    assert addresses.address_of(HostName("a.example")) != first


def test_every_address_is_inside_the_network_wherever_the_table_starts() -> None:
    network = IPv4Network(SYNTHETIC)
    for start in (0, 1, network.num_addresses - 3, network.num_addresses - 1):
        addresses = SyntheticAddresses(start)
        for number in range(5):
            packed = addresses.address_of(HostName(f"n{number}.example"))
            assert IPv4Address(packed) in network
            assert addresses.name_of(packed) == HostName(f"n{number}.example")


def test_what_is_no_question_is_answered_shortly_or_not_at_all() -> None:
    world = Resolver()
    assert world.answers.reply(b"\x12\x34\1\0" + bytes(8)) == b"\x12\x34\x80\1" + bytes(8)
    assert world.answers.reply(b"x") is None
    question = dns.Message(id=1, recDes=1)
    question.queries = [dns.Query("web.example", dns.A)]
    assert world.answers.reply(question.toStr() + bytes(512)) is None


def test_what_is_kept_is_reported_again_and_forgotten_when_an_address_is_taken_back() -> None:
    world = Resolver()
    first = world.address("a.cdn.example")
    for _ in range(3):
        assert world.ask("evil.example").rCode == dns.ENAME
    assert world.refused == [("evil.example", "E101")] * 3
    for number in range(MOST_NAMES):
        world.address(f"n{number}.cdn.example")
    assert world.addresses.name_of(first.packed) is None
    again = world.address("a.cdn.example")
    assert world.addresses.name_of(again.packed) == HostName("a.cdn.example")


def test_a_flood_of_refused_questions_is_one_report_for_each_name() -> None:
    world = Resolver()
    reports: list[tuple[str | None, str, int]] = []
    answers = DnsAnswers(world.scope, world.addresses, lambda *told: reports.append(told))
    allowed, refused = (encoded(name) for name in ("web.example", "evil.example"))
    before = answers.reply(allowed)
    for _ in range(64):
        answers.reply(refused)
    for number in range(5000):
        answers.reply(encoded(f"n{number}.evil.example"))
    assert reports == []
    assert answers.reply(allowed) == before
    answers.settle()
    assert reports[0] == ("evil.example", "E101", 64)
    assert len(reports) == 5001
    answers.settle()
    assert len(reports) == 5001, "each is told once"


def encoded(name: str) -> bytes:
    message = dns.Message(id=1, recDes=1)
    message.queries = [dns.Query(name, dns.A)]
    return bytes(message.toStr())
