"""Upstreams as companies have them: behind a proxy, several, with nested groups, impatient."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
import pytest_twisted
from twisted.internet.defer import ensureDeferred

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_scene import Scene, ask, use_app
from tests.fakes.broker_world import BASIC, POLICY, envelope
from tests.fakes.connect_proxy import ConnectProxy
from tests.fakes.fake_upstream import FakeUpstream, ok
from tests.fakes.github_api import GitHub
from tests.fakes.reactor_tests import on_reactor

REFS = ok(Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH)
PROXY_PASSWORD = "proxy-password-marker"


@pytest.fixture
def proxy() -> Iterator[ConnectProxy]:
    from twisted.internet import reactor

    made = ConnectProxy(reactor)
    yield made
    pytest_twisted.blockon(ensureDeferred(made.close()))


def behind(scene: Scene, lines: str) -> None:
    """Adds lines to [upstream.up]."""
    main = scene.world.paths.broker_toml
    text = main.read_text().replace("[upstream.up]\n", f"[upstream.up]\n{lines}\n")
    scene.world.write("broker.toml", text, 0o640)
    assert ask(scene, "reload")["ok"]


def use_proxy(scene: Scene, proxy: ConnectProxy, credential: bool = False) -> None:
    lines = f'proxy = "http://127.0.0.1:{proxy.port}"'
    if credential:
        ask(
            scene,
            "cred-add",
            name="corp-proxy",
            username="door",
            secret_b64=base64.b64encode(PROXY_PASSWORD.encode()).decode(),
        )
        main = scene.world.paths.broker_toml
        text = main.read_text() + '[provider.corp-proxy]\ntype = "vault"\n'
        scene.world.write("broker.toml", text, 0o640)
        lines += '\nproxy_provider = "corp-proxy"'
    behind(scene, lines)


@on_reactor
async def test_an_upstream_is_reached_through_a_proxy_with_its_certificate_verified(
    scene: Scene, proxy: ConnectProxy
) -> None:
    scene.upstream.answers(REFS)
    use_proxy(scene, proxy)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    place = f"localhost:{scene.upstream.port}".encode()
    assert proxy.heads == [b"CONNECT " + place + b" HTTP/1.1\r\nHost: " + place + b"\r\n\r\n"]
    assert b"Authorization: " + BASIC in scene.upstream.heads[0]
    assert BASIC not in proxy.heads[0]


@on_reactor
async def test_the_proxys_own_credential_goes_to_the_proxy_and_nowhere_else(
    scene: Scene, proxy: ConnectProxy
) -> None:
    scene.upstream.answers(REFS)
    use_proxy(scene, proxy, credential=True)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    pair = base64.b64encode(f"door:{PROXY_PASSWORD}".encode())
    assert b"\r\nProxy-Authorization: Basic " + pair + b"\r\n" in proxy.heads[0]
    assert pair not in scene.upstream.heads[0]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "another credential"),
        (b"HTTP/1.1 403 Forbidden by marker\r\n\r\n", "answered 403"),
        (b"SSH-2.0-x\r\n\r\n", "unusable"),
        (b"HTTP/1.1 200 OK\r\n\r\nearly bytes", "unusable"),
        (b"HTTP/1.1 200 " + b"x" * 20000, "unusable"),
    ],
)
@on_reactor
async def test_a_proxy_that_opens_no_tunnel_is_a_reason(
    scene: Scene, proxy: ConnectProxy, answer: bytes, why: str
) -> None:
    proxy.answer = answer
    use_proxy(scene, proxy)
    sidecar = await scene.world.session()
    reply = await sidecar.refs()
    assert reply.status == 502 and b"U101" in reply.data
    (outcome,) = scene.world.audit("git.outcome")
    assert why in outcome["reason"] and "marker" not in outcome["reason"]
    assert scene.upstream.heads == []


@on_reactor
async def test_a_proxy_that_is_silent_or_gone_is_bounded(hasty: Scene, proxy: ConnectProxy) -> None:
    proxy.answer = b""
    use_proxy(hasty, proxy)
    sidecar = await hasty.world.session()
    assert b"U101" in (await sidecar.refs()).data
    behind(hasty, "# again")
    proxy.answer = None
    await proxy.close()
    assert b"U101" in (await sidecar.refs()).data


@on_reactor
async def test_a_proxy_cannot_stand_in_for_the_upstream(scene: Scene, proxy: ConnectProxy) -> None:
    """It tunnels to another server: the certificate is not the upstream's."""
    stranger = FakeUpstream(scene.world.reactor, name="elsewhere.example")
    scene.world.write_config()
    main = scene.world.paths.broker_toml
    text = main.read_text().replace(f":{scene.upstream.port}", f":{stranger.port}")
    scene.world.write("broker.toml", text, 0o640)
    use_proxy(scene, proxy)
    sidecar = await scene.world.session()
    assert b"U106" in (await sidecar.refs()).data
    assert stranger.heads == []
    await stranger.close()


@on_reactor
async def test_an_apps_api_is_reached_through_the_same_proxy(
    scene: Scene, proxy: ConnectProxy
) -> None:
    github = GitHub(scene.upstream)
    use_app(scene)
    behind(scene, f'proxy = "http://127.0.0.1:{proxy.port}"')
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    assert github.mints == 1 and len(proxy.heads) == 2


@on_reactor
async def test_several_upstreams_and_nested_groups(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    second = FakeUpstream(scene.world.reactor)
    second.answers(REFS)
    scene.world.write_config(
        f"""
[upstream.lab]
url = "https://localhost:{second.port}"
ca_file = "{scene.world.paths.etc}/ca.pem"
provider = "token"
case_insensitive = true
"""
    )
    assert ask(scene, "reload")["ok"]
    policy = POLICY.replace('repos = ["up:acme/app"]', 'repos = ["up:acme/app", "lab:team/**"]')
    sidecar = await scene.world.session(policy)
    assert (await sidecar.refs()).status == 200
    headers = [*envelope(), (b"Accept", b"*/*")]
    answers = {}
    for place in ("lab/Team/infra/tools/app", "lab/team", "up/team/infra/app", "gone/team/x"):
        target = f"/git/{place}.git/info/refs?service=git-upload-pack"
        answers[place] = (await sidecar.ask("GET", target, headers)).status
    assert list(answers.values()) == [200, 404, 404, 404], answers
    assert second.heads[0].startswith(b"GET /Team/infra/tools/app.git/info/refs?")
    assert len(second.heads) == 1
    await second.close()


@on_reactor
async def test_an_upstreams_own_patience_is_what_counts(hasty: Scene) -> None:
    behind(hasty, 'timeouts = { operation = "1s" }')
    hasty.upstream.on_request = lambda talk: talk.say(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n0\r\n"
    )
    sidecar = await hasty.world.session()
    reply = await sidecar.refs()
    assert reply.error or b"U101" in reply.data
    (outcome,) = hasty.world.audit("git.outcome")
    assert outcome["ms"] < 1 << 30
