"""The rendered ruleset in a real network namespace, tried with real sockets of every uid."""

import subprocess
from collections.abc import Iterator

import pytest

from netpolicy.nftables import render, ruleset_hash
from tests.stage.nft_namespace import (
    DIGEST,
    HELP,
    LOOPBACK,
    OTHER,
    ROOT,
    SIDE,
    UIDS,
    UNTR,
    Namespace,
)

SERVED = "3000000"
REFUSED = "EHOSTUNREACH"
RESET = "ECONNREFUSED"  # how TCP over IPv6 is refused
UNSENT = "EPERM"  # how UDP is refused


def clients(listener: subprocess.Popen[str]) -> list[str]:
    """End a listener and return a line for each client it has seen."""
    listener.kill()
    return listener.communicate()[0].splitlines()


@pytest.fixture(scope="module")
def sealed() -> Iterator[Namespace]:
    """The namespace of a running sandbox: rules, the sidecar's listeners, a dev server."""
    namespace = Namespace().open()
    try:
        namespace.load()
        namespace.listen(SIDE, LOOPBACK, 418, 419, 480, 53)
        namespace.run("ip", "route", "add", "local", "198.18.0.0/15", "dev", "lo")
        namespace.listen(SIDE, "198.18.0.9", 80, 443)
        namespace.listen(UNTR, LOOPBACK, 8080)
        namespace.listen(UNTR, "::1", 8080)
        yield namespace
    finally:
        namespace.close()


@pytest.fixture
def bare() -> Iterator[Namespace]:
    namespace = Namespace().open()
    yield namespace
    namespace.close()


def test_nft_accepts_the_ruleset_and_lists_what_was_rendered(bare: Namespace) -> None:
    text = render(UIDS, DIGEST)
    bare.run("nft", "-c", "-f", "-", text=text)
    assert bare.run("nft", "list", "ruleset") == ""
    bare.load()
    assert ruleset_hash(bare.run("nft", "list", "ruleset")) == ruleset_hash(text)
    bare.load("0" * 64)
    assert ruleset_hash(bare.run("nft", "list", "ruleset")) != ruleset_hash(text)
    bare.load()
    assert ruleset_hash(bare.run("nft", "list", "ruleset")) == ruleset_hash(text)


def test_traffic_leaves_the_hash_and_a_changed_rule_does_not(bare: Namespace) -> None:
    bare.load()
    before = ruleset_hash(bare.run("nft", "list", "ruleset"))
    assert bare.ask(ROOT, LOOPBACK, 418) == REFUSED
    listed = bare.run("nft", "list", "ruleset")
    assert "packets 1 " in listed
    assert ruleset_hash(listed) == before
    bare.run("nft", "insert", "rule", "inet", "gitmoat", "lo_syn", "accept")
    assert ruleset_hash(bare.run("nft", "list", "ruleset")) != before


@pytest.mark.parametrize(
    ("uid", "address", "port", "expected"),
    [
        (HELP, LOOPBACK, 418, SERVED),
        (UNTR, LOOPBACK, 418, REFUSED),
        (SIDE, LOOPBACK, 418, REFUSED),
        (OTHER, LOOPBACK, 418, REFUSED),
        (ROOT, LOOPBACK, 418, REFUSED),
        (UNTR, LOOPBACK, 419, SERVED),
        (HELP, LOOPBACK, 419, REFUSED),
        (SIDE, LOOPBACK, 419, REFUSED),
        (OTHER, LOOPBACK, 419, REFUSED),
        (ROOT, LOOPBACK, 419, REFUSED),
        (UNTR, "127.0.0.2", 418, REFUSED),
        (UNTR, "0.0.0.0", 418, REFUSED),
        (UNTR, "::1", 418, RESET),
        (UNTR, "::ffff:127.0.0.1", 418, REFUSED),
        (UNTR, LOOPBACK, 8080, SERVED),
        (UNTR, "::1", 8080, SERVED),
        (HELP, LOOPBACK, 8080, REFUSED),
        (HELP, "::1", 8080, RESET),
        (ROOT, LOOPBACK, 8080, REFUSED),
        (OTHER, LOOPBACK, 8080, REFUSED),
        (HELP, LOOPBACK, 480, REFUSED),
        (HELP, LOOPBACK, 53, REFUSED),
    ],
)
def test_each_uid_reaches_its_own_ports_only(
    sealed: Namespace, uid: int, address: str, port: int, expected: str
) -> None:
    assert sealed.ask(uid, address, port) == expected


@pytest.mark.parametrize(
    ("uid", "address", "port", "kind", "expected"),
    [
        (UNTR, LOOPBACK, 480, "tcp", SERVED),
        (UNTR, LOOPBACK, 53, "tcp", SERVED),
        (UNTR, LOOPBACK, 53, "udp", "1"),
        (HELP, LOOPBACK, 53, "udp", UNSENT),
        (ROOT, LOOPBACK, 53, "udp", UNSENT),
        (UNTR, LOOPBACK, 8080, "udp", "1"),
        (HELP, LOOPBACK, 8080, "udp", UNSENT),
        (UNTR, "198.18.0.9", 443, "tcp", SERVED),
        (UNTR, "198.18.0.9", 80, "tcp", SERVED),
        (UNTR, "198.18.0.9", 443, "udp", UNSENT),
        (HELP, "198.18.0.9", 443, "tcp", REFUSED),
        (ROOT, "198.18.0.9", 443, "tcp", REFUSED),
        (UNTR, "198.18.0.9", 418, "tcp", REFUSED),
        (UNTR, LOOPBACK, 443, "tcp", REFUSED),
    ],
)
def test_ports_for_other_hosts_are_the_commands_alone(
    sealed: Namespace, uid: int, address: str, port: int, kind: str, expected: str
) -> None:
    assert sealed.ask(uid, address, port, kind) == expected


@pytest.mark.parametrize("uid", [UNTR, HELP, SIDE, ROOT])
@pytest.mark.parametrize(
    "address", ["203.0.113.5", "169.254.169.254", "2001:db8::5", "fd00:ec2::254"]
)
def test_outside_addresses_fail_at_once(sealed: Namespace, uid: int, address: str) -> None:
    unreachable = ("ENETUNREACH", "EADDRNOTAVAIL")
    assert sealed.ask(uid, address, 443) in unreachable
    assert sealed.ask(uid, address, 53, "udp") in unreachable


@pytest.mark.parametrize("squatter", [UNTR, ROOT, HELP])
def test_a_squatter_on_a_sidecar_port_gets_no_connection(bare: Namespace, squatter: int) -> None:
    bare.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start")
    control = bare.listen(squatter, LOOPBACK, 418)
    assert bare.ask(HELP, LOOPBACK, 418) == SERVED
    assert clients(control) == ["client 418"]
    bare.load()
    listener = bare.listen(squatter, LOOPBACK, 418, 419, 53, 480)
    assert bare.ask_in_vain(HELP, LOOPBACK, 418)
    assert bare.ask_in_vain(UNTR, LOOPBACK, 419)
    assert bare.ask_in_vain(UNTR, LOOPBACK, 480)
    # Only the question can arrive, at a port that nobody may bind in a sandbox; no answer leaves.
    assert bare.ask_in_vain(UNTR, LOOPBACK, 53, "udp")
    assert listener.stdout is not None and listener.stdout.readline() == "client 53\n"
    assert clients(listener) == []


def test_an_interface_that_appears_is_dead_in_both_directions(bare: Namespace) -> None:
    outside = Namespace().open()
    try:
        bare.load()
        watcher = connect_to_the_world(bare, outside)
        server = bare.listen(UNTR, "0.0.0.0", 8080)
        outside.listen(ROOT, "203.0.113.5", 443, 53)
        for uid in (UNTR, HELP, SIDE, ROOT):
            assert bare.ask(uid, "203.0.113.5", 53, "udp") == UNSENT
            assert bare.ask_in_vain(uid, "203.0.113.5", 443)
        assert frames(watcher) == 0
        assert outside.ask_in_vain(ROOT, "203.0.113.1", 8080)
        assert outside.ask_in_vain(ROOT, "203.0.113.1", 8080, "udp")
        assert clients(server) == [], "not even the question came in"
        bare.run("nft", "flush", "ruleset")
        bare.listen(UNTR, "0.0.0.0", 8080)
        watcher = outside.watch("world")
        assert bare.ask(UNTR, "203.0.113.5", 443) == SERVED
        assert outside.ask(ROOT, "203.0.113.1", 8080) == SERVED
        assert frames(watcher) > 0
    finally:
        outside.close()


def connect_to_the_world(inside: Namespace, outside: Namespace) -> subprocess.Popen[str]:
    """Put an uplink into a sandbox's namespace, as nobody should, with a watch at its far end."""
    peer = ["type", "veth", "peer", "name", "uplink", "netns", inside.path]
    outside.run("ip", "link", "add", "world", *peer)
    outside.run("ip", "address", "add", "203.0.113.5/24", "dev", "world")
    outside.run("ip", "link", "set", "world", "up")
    watcher = outside.watch("world")
    inside.run("ip", "address", "add", "203.0.113.1/24", "dev", "uplink")
    inside.run("ip", "link", "set", "uplink", "up")
    return watcher


def frames(watcher: subprocess.Popen[str]) -> int:
    return int(watcher.communicate()[0])
