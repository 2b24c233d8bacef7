"""Real clients in a real sandbox: what the policy names works, with proxy variables and without;
nothing else does, and the user is told why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.clients import (
    CLIENTS,
    WAYS,
    check_nothing_leaves,
    check_reached,
    check_told_by_dns,
    check_told_by_the_proxy,
    open_client_box,
)
from tests.stage.internet import Internet, NetBox


@pytest.fixture(scope="module")
def box(internet: Internet) -> Iterator[NetBox]:
    with open_client_box(internet) as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_allowed_host_is_reached(box: NetBox, client: str, way: str) -> None:
    check_reached(box, client, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_another_host_is_not_asked_for_not_dialled_and_not_one_packet_leaves(
    box: NetBox, client: str, way: str
) -> None:
    check_nothing_leaves(box, client, way)


def test_what_the_user_sees_with_proxy_variables(box: NetBox) -> None:
    check_told_by_the_proxy(box)


def test_what_the_user_sees_without(box: NetBox) -> None:
    check_told_by_dns(box)


def test_a_git_server_is_reached_with_git_and_the_refusal_says_so(box: NetBox) -> None:
    told = "gitmoat: git.example:443: a git server is reached with git, not through the proxy"
    assert f"{told} (E104)" in box.sh("wget -nv -O- https://git.example/ 2>&1").text


def test_a_port_that_is_not_listed_is_named(box: NetBox) -> None:
    text = box.sh("wget -nv -O- https://web.example:444/ 2>&1").text
    assert "this port of the host is not on the sandbox's list (E102)" in text


def test_a_listed_port_other_than_443_is_reached_through_the_proxy(box: NetBox) -> None:
    ran = box.sh("curl -sS --cacert ca.pem https://web.example:8443/hello")
    assert ran.out == "hello from outside\n"


@pytest.mark.parametrize("way", WAYS.values())
def test_plain_http_has_the_methods_of_its_rule(box: NetBox, way: str) -> None:
    head = box.sh(way + "curl -sSI http://web.example/hello").out
    assert head.startswith("HTTP/1.1 200 OK")
    assert "content-length: 19" in head.lower()
    heard = box.internet.heard()
    posted = box.sh(way + "curl -sS -d data http://web.example/hello")
    assert "may not be reached by this protocol or method (E110)" in posted.out
    assert box.internet.heard() == heard


def test_dns_over_http_is_not_passed_on(box: NetBox) -> None:
    heard = box.internet.heard()
    asked = box.sh("curl -sS -H 'Accept: application/dns-message' http://web.example/dns-query")
    assert "(E112)" in asked.out
    assert box.internet.heard() == heard
    answered = box.sh("curl -sS http://web.example/dns-query?dns=AAAB")
    assert "(E112)" in answered.out, "the answer is looked at, too"


def test_a_private_host_needs_a_rule_that_says_so(box: NetBox) -> None:
    assert box.sh("curl -sS --cacert ca.pem https://inside.example/hello").code == 0
    refused = box.sh("wget -nv -O- https://wiki.example/ 2>&1").text
    assert "resolves to an address that is not public (E106)" in refused


def test_a_host_that_does_not_exist_is_said_to_be_unreachable(box: NetBox) -> None:
    text = box.sh("wget -nv -O- https://nowhere.example/ 2>&1").text
    assert "gitmoat: nowhere.example:443: the host cannot be reached (E107)" in text
