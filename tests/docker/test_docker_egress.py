"""Other hosts from inside a container: the same as from any sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker.engines import TestEngine, image
from tests.live.internet import Internet, open_internet

pytestmark = pytest.mark.live

# The image has no other client of TLS than git's; a server that is reached has no repository.
FETCH = "git -c http.sslVerify=false ls-remote https://{host}/x.git 2>&1; true"
WITHOUT = "unset https_proxy HTTPS_PROXY http_proxy; "
REACHED = "repository 'https://web.example/x.git/' not found"


@pytest.fixture(scope="module")
def internet(engine: TestEngine) -> Iterator[Internet]:
    with open_internet(f'\n[docker]\nsocket = "{engine.socket}"\n') as made:
        yield made


def run(internet: Internet, script: str) -> str:
    words = ("run", "--rm", "--policy", "net", "--image", image("debian"), "--", "sh", "-c")
    return internet.hostctl(*words, script, timeout=120).text


@pytest.mark.parametrize("way", ["", WITHOUT])
def test_an_allowed_host_is_reached_with_proxy_variables_and_without(
    internet: Internet, way: str
) -> None:
    assert REACHED in run(internet, way + FETCH.format(host="web.example"))


def test_another_host_is_refused_and_nothing_leaves(internet: Internet) -> None:
    packets, heard = internet.quiet(), internet.heard()
    script = FETCH.format(host="evil.example")
    text = run(internet, f"{script}; {WITHOUT}{script}")
    assert "CONNECT tunnel failed, response 403" in text
    assert "Could not resolve host: evil.example" in text
    assert internet.heard() == heard
    assert internet.packets() == packets
