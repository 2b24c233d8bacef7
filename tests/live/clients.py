"""Real clients for a sandbox of any kind, what they fetch, and what they print when refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.live.packages import give_pip, publish
from tests.stage.internet import Internet, NetBox, open_box

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
# Where each looks is left to the configuration of the sandbox.
BY_INDEX = {
    "pip": CLIENTS["pip"].replace(" -i https://{host}/simple", ""),
    "npm": CLIENTS["npm"].replace(" --registry https://{host}/", ""),
}
WITHOUT = "unset https_proxy HTTPS_PROXY http_proxy\n"
WAYS = {"with proxy variables": "", "without": WITHOUT}


@contextmanager
def open_client_box(internet: Internet, *words: str, policy: str = "net") -> Iterator[NetBox]:
    """A sandbox with what the clients below need in its workspace."""
    if not (internet.www / "simple").exists():
        publish(internet.www, "web.example")
    with open_box(internet, policy, *words) as made:
        give_pip(made.workdir)
        subprocess.run(["chown", "-R", "65534:65534", str(made.workdir)], check=True)
        yield made


def check_reached(box: NetBox, client: str, way: str) -> None:
    ran = box.sh(WAYS[way] + CLIENTS[client].format(host="web.example"))
    assert ran.code == 0, ran.text
    assert FETCHED.get(client, "hello from outside") in ran.text


def check_reached_by_index(box: NetBox, client: str) -> None:
    ran = box.sh(BY_INDEX[client])
    assert ran.code == 0, ran.text
    assert FETCHED[client] in ran.text


def check_nothing_leaves(box: NetBox, client: str, way: str) -> None:
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


def check_told_by_the_proxy(box: NetBox) -> None:
    told = LISTED.format(host="evil.example:443")
    assert "CONNECT tunnel failed, response 403" in refused(box, "curl")
    verbose = box.sh("curl -sSv https://evil.example/").text
    assert f"< HTTP/1.1 403 {told}" in verbose
    assert '< Proxy-Status: gitmoat; error=http_request_denied; details="E101"' in verbose
    assert f"Proxy tunneling failed: {told}" in refused(box, "wget")
    assert f"Tunnel connection failed: 403 {told}" in refused(box, "urllib")
    assert told in refused(box, "pip")
    assert LISTED.format(host="evil.example:80") in refused(box, "apt")
    lines = box.run("curl", "-sS", "http://evil.example/").out.splitlines()
    assert lines[0] == LISTED.format(host="evil.example:80")
    assert lines[1].startswith("allowed: web.example:443 (tls), web.example:8443 (tls), *.cdn.ex")
    assert lines[2].startswith("request id: ")


def check_told_by_dns(box: NetBox) -> None:
    assert "Could not resolve host: evil.example" in refused(box, "curl", WITHOUT)
    assert "getaddrinfo ENOTFOUND evil.example" in refused(box, "node", WITHOUT)
