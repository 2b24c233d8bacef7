"""Other hosts from inside a container: the same clients as in any sandbox, the same answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker.engines import TestEngine, image
from tests.docker.images import with_clients
from tests.live.clients import (
    BY_INDEX,
    CLIENTS,
    WAYS,
    check_nothing_leaves,
    check_reached,
    check_reached_by_index,
    check_told_by_dns,
    check_told_by_the_proxy,
    open_client_box,
)
from tests.stage.internet import Internet, NetBox, open_internet


@pytest.fixture(scope="module")
def internet(engine: TestEngine) -> Iterator[Internet]:
    with open_internet(f'\n[docker]\nsocket = "{engine.socket}"\n') as made:
        yield made


@pytest.fixture(scope="module")
def box(engine: TestEngine, internet: Internet) -> Iterator[NetBox]:
    engine.docker("import", "-", image("clients"), stdin=with_clients())
    with open_client_box(internet, "--image", image("clients")) as made:
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


def test_git_itself_is_a_client_like_any_other(box: NetBox) -> None:
    """With a URL that is not the sidecar's; a server that is reached has no repository."""
    fetch = "git -c http.sslVerify=false ls-remote https://{host}/x.git 2>&1; true"
    for way in WAYS.values():
        text = box.sh(way + fetch.format(host="web.example")).text
        assert "repository 'https://web.example/x.git/' not found" in text
    assert "CONNECT tunnel failed, response 403" in box.sh(fetch.format(host="evil.example")).text


INDEX = """version = 1
name = "indexed"
[index]
pip = "https://web.example/simple"
npm = "https://web.example/"
go = "https://web.example/go"
[[egress]]
hosts = ["web.example"]
"""


def test_package_managers_of_an_image_ask_the_index_of_the_policy(
    engine: TestEngine, internet: Internet
) -> None:
    own = ("-c", "ENV GOPROXY=https://image.example")
    engine.docker("import", *own, "-", image("indexed"), stdin=with_clients())
    (internet.instance.paths.policies / "indexed.toml").write_text(INDEX)
    with open_client_box(internet, "--image", image("indexed"), policy="indexed") as box:
        for client in BY_INDEX:
            check_reached_by_index(box, client)
        assert box.sh("echo $GOPROXY").out == "https://image.example\n", "an image's ENV goes first"
