"""Real package managers are told of the mirror in a policy's `[index]`, and ask no other."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.clients import BY_INDEX, check_reached_by_index, open_client_box
from tests.stage.internet import Internet, NetBox

RULE = '[[egress]]\nhosts = ["web.example"]\n'
INDEX = """[index]
pip = "https://web.example/simple"
npm = "https://web.example/"
go = "https://web.example/go"
"""


@pytest.fixture(scope="module")
def policy(internet: Internet) -> Iterator[Path]:
    path = internet.instance.paths.policies / f"p{uuid.uuid4().hex[:8]}.toml"
    write(path, INDEX)
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def box(internet: Internet, policy: Path) -> Iterator[NetBox]:
    with open_client_box(internet, policy=policy.stem) as made:
        yield made


def write(policy: Path, index: str) -> None:
    policy.write_text(f"version = 1\nname = '{policy.stem}'\n{index}{RULE}")


@pytest.mark.parametrize("client", BY_INDEX)
def test_the_mirror_is_what_is_asked(box: NetBox, client: str) -> None:
    check_reached_by_index(box, client)


def test_what_the_user_says_goes_before_it(box: NetBox) -> None:
    assert box.sh("echo $GOPROXY").out == "https://web.example/go\n"
    given = ("exec", "-e", "GOPROXY=off", box.name, "--", "printenv", "GOPROXY")
    assert box.internet.hostctl(*given).out == "off\n"
    own = "mkdir -p ~/.config/pip && printf '[global]\\nindex-url = https://evil.example/x\\n'"
    ran = box.sh(f"{own} > ~/.config/pip/pip.conf; {BY_INDEX['pip']}; rm ~/.config/pip/pip.conf")
    assert "Looking in indexes: https://evil.example/x" in ran.out
    ran = box.sh(
        "echo registry=https://evil.example/ > ~/.npmrc; npm config get registry; rm ~/.npmrc"
    )
    assert ran.out == "https://evil.example/\n"


def test_nothing_in_the_sandbox_changes_the_files(box: NetBox) -> None:
    for name in ("npmrc", "xdg/pip/pip.conf", "xdg/new"):
        assert "Read-only file system" in box.sh(f"echo x > /run/gitmoat/{name}").text


def test_reload_tells_the_tools_of_another_mirror(box: NetBox, policy: Path) -> None:
    write(policy, '[index]\nnpm = "https://web.example/other/"\n')
    ran = box.internet.hostctl("--json", "reload")
    assert [each["cut"] for each in json.loads(ran.out)["replaced"]] == [0], ran.text
    assert box.sh("npm config get registry").out == "https://web.example/other/\n"
    assert box.sh("ls /run/gitmoat/xdg/pip; echo $GOPROXY").out == "\n"
    write(policy, INDEX)
    box.internet.hostctl("reload").expect_success("reload")
    check_reached_by_index(box, "npm")
