"""Real clients in a real sandbox: what the policy names works, with proxy variables and without;
nothing else does, and the user is told why."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.live.internet import Internet, NetBox, open_box
from tests.live.packages import give_pip, publish

pytestmark = pytest.mark.live

LISTED = "gitmoat: {host}: this host is not on the sandbox's list (E101)"
_APT = """
mkdir -p apt/lists/partial apt/cache/archives/partial apt/preferences.d && : > apt/status
echo "deb [trusted=yes] {scheme}://{host}/apt ./" > apt/sources.list
options="-q -o Dir=/workspace/apt -o Dir::State=/workspace/apt -o Dir::Cache=/workspace/apt/cache
 -o Dir::State::status=/workspace/apt/status -o Dir::Etc=/workspace/apt -o Dir::Log=/tmp
 -o Dir::Etc::sourcelist=/workspace/apt/sources.list -o Dir::Bin::methods=/usr/lib/apt/methods
 -o Acquire::https::CAInfo=/workspace/ca.pem -o Acquire::Retries=0"
apt-get $options update && cd /tmp && apt-get $options download demo && ls /tmp/demo_1.0_all.deb
"""
# Each prints something of what it fetched; {host} is the host.
CLIENTS = {
    "curl": "curl -sS --cacert ca.pem https://{host}/hello",
    "wget": "wget -nv -O- --ca-certificate=ca.pem https://{host}/hello",
    "urllib": (
        "python3 -c 'import ssl, urllib.request as u;"
        ' c = ssl.create_default_context(cafile="ca.pem");'
        ' print(u.urlopen("https://{host}/hello", context=c).read().decode())\''
    ),
    "node": (
        'NODE_EXTRA_CA_CERTS=ca.pem node -e \'fetch("https://{host}/hello")'
        ".then(r => r.text()).then(console.log,"
        " e => {{ console.error(e.cause); process.exitCode = 1 }})'"
    ),
    "pip": (
        "PYTHONPATH=/workspace python3 -m pip download --no-deps --no-cache-dir --retries 1"
        " --disable-pip-version-check --cert ca.pem -i https://{host}/simple -d /tmp/wheels demo"
    ),
    "npm": "npm --cafile ca.pem --registry https://{host}/ --fetch-retries 0 pack demo --silent",
    "apt": _APT.replace("{scheme}", "http"),
    "apt over TLS": _APT.replace("{scheme}", "https"),
    "plain curl": "curl -sS --fail-with-body http://{host}/hello",
}
FETCHED = {
    "pip": "demo-1.0-py3-none-any.whl",
    "npm": "demo-1.0.0.tgz",
    "apt": "demo_1.0_all.deb",
    "apt over TLS": "demo_1.0_all.deb",
}
WITHOUT = "unset https_proxy HTTPS_PROXY http_proxy\n"
WAYS = {"with proxy variables": "", "without": WITHOUT}


@pytest.fixture(scope="module")
def box(internet: Internet) -> Iterator[NetBox]:
    publish(internet.www, "web.example")
    with open_box(internet) as made:
        give_pip(made.workdir)
        subprocess.run(["chown", "-R", "65534:65534", str(made.workdir)], check=True)
        yield made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_allowed_host_is_reached(box: NetBox, client: str, way: str) -> None:
    ran = box.sh(WAYS[way] + CLIENTS[client].format(host="web.example"))
    assert ran.code == 0, ran.text
    assert FETCHED.get(client, "hello from outside") in ran.text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_another_host_is_not_asked_for_not_dialled_and_not_one_packet_leaves(
    box: NetBox, client: str, way: str
) -> None:
    packets = box.internet.quiet()
    heard = box.internet.heard()
    ran = box.sh(WAYS[way] + CLIENTS[client].format(host="evil.example"))
    assert ran.code != 0, ran.text
    assert box.internet.heard() == heard
    assert box.internet.packets() == packets


def refused(box: NetBox, client: str, way: str = "") -> str:
    ran = box.sh(way + CLIENTS[client].format(host="evil.example"))
    assert ran.code != 0
    return ran.text


def test_what_the_user_sees_with_proxy_variables(box: NetBox) -> None:
    told = LISTED.format(host="evil.example:443")
    assert "CONNECT tunnel failed, response 403" in refused(box, "curl")
    verbose = box.sh("curl -sSv https://evil.example/").text
    assert f"< HTTP/1.1 403 {told}" in verbose
    assert '< Proxy-Status: gitmoat; error=http_request_denied; details="E101"' in verbose
    assert f"Proxy tunneling failed: {told}" in refused(box, "wget")
    assert f"Tunnel connection failed: 403 {told}" in refused(box, "urllib")
    assert told in refused(box, "pip")
    assert LISTED.format(host="evil.example:80") in refused(box, "apt")
    lines = refused_body(box, "http://evil.example/").splitlines()
    assert lines[0] == LISTED.format(host="evil.example:80")
    assert lines[1].startswith("allowed: web.example:443 (tls), web.example:8443 (tls), *.cdn.ex")
    assert lines[2].startswith("request id: ")


def refused_body(box: NetBox, url: str) -> str:
    return box.run("curl", "-sS", url).out


def test_what_the_user_sees_without(box: NetBox) -> None:
    assert "Could not resolve host: evil.example" in refused(box, "curl", WITHOUT)
    assert "getaddrinfo ENOTFOUND evil.example" in refused(box, "node", WITHOUT)


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
    assert "not reached by this protocol or method (E110)" in posted.out
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
    assert "leads to an address that is not public (E106)" in refused


def test_a_host_that_does_not_exist_is_said_to_be_unreachable(box: NetBox) -> None:
    text = box.sh("wget -nv -O- https://nowhere.example/ 2>&1").text
    assert "gitmoat: nowhere.example:443: the host cannot be reached (E107)" in text
