"""`policy learn` from refusals of real clients: suggested, written, reloaded, and then it works."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.clients import CLIENTS, FETCHED, WITHOUT
from tests.live.packages import give_pip, publish
from tests.stage.internet import Internet, NetBox, open_box
from tests.waiting import eventually

POLICY = """\
version = 1
name = '{name}'
# mine
[[egress]]
id = 'web'
hosts = ['web.example']
"""
# With proxy variables, by DNS alone, at a synthetic address's :80; and what is never suggested.
PIP = CLIENTS["pip"].format(host="other.example")
BY_NAME = WITHOUT + CLIENTS["curl"].format(host="a.cdn.example")
TRANSPARENT = WITHOUT + CLIENTS["plain curl"].format(host="web.example")
NEVER = "curl -sS https://git.example/; curl -sS https://203.0.113.66/; curl -sS http://evil/"
WANTED = [("a.cdn.example", 443, "tls"), ("web.example", 80, "http")]


@pytest.fixture
def policy(internet: Internet) -> Iterator[Path]:
    """And a host whose pip is configured, so that its preset explains what pip wanted."""
    config = internet.instance.root / "etc/pip.conf"
    config.write_text("[global]\nindex-url = https://other.example/simple\n")
    name = f"l{uuid.uuid4().hex[:8]}"
    path = internet.instance.paths.policies / f"{name}.toml"
    path.write_text(POLICY.format(name=name))
    yield path
    path.unlink()
    config.unlink()


@pytest.fixture
def box(internet: Internet, policy: Path) -> Iterator[NetBox]:
    if not (internet.www / "simple").exists():
        publish(internet.www, "web.example")
    with open_box(internet, policy.stem) as made:
        give_pip(made.workdir)
        subprocess.run(["chown", "-R", "65534:65534", str(made.workdir)], check=True)
        yield made


def learned(box: NetBox) -> dict[str, Any]:
    ran = box.internet.hostctl("--json", "policy", "learn", box.name)
    assert ran.code == 0, ran.text
    found: dict[str, Any] = json.loads(ran.out)
    return found


def hosts(told: dict[str, Any]) -> list[tuple[str, int, str]]:
    return sorted((each["host"], each["port"], each["scheme"]) for each in told["hosts"])


def test_what_real_clients_were_refused_is_suggested_and_works_once_it_is_written(
    box: NetBox, policy: Path
) -> None:
    hostctl, before = box.internet.hostctl, policy.read_text()
    for script in (PIP, BY_NAME, TRANSPARENT):
        assert box.sh(script).code != 0
    box.sh(NEVER)
    eventually(
        lambda: hosts(learned(box)) == WANTED and bool(learned(box)["notes"]), "all is recorded"
    )
    told = learned(box)
    assert told["presets"] == {"pip": ["other.example:443"]}
    assert any(note.startswith("git.example is a git server") for note in told["notes"])
    assert not any(name in json.dumps(told["hosts"]) for name in ("git.example", "203.0", "evil"))
    assert policy.read_text() == before, "asking changes nothing"
    assert box.sh(PIP).code != 0, "and lets nothing through"

    printed = hostctl("policy", "learn", box.name).expect_success("learn").splitlines()
    assert "# preset pip covers other.example:443" in printed[0]
    assert 'hosts = ["a.cdn.example"]' in printed
    with policy.open("a") as file:
        file.writelines(f"{line}\n" for line in [*printed, "[preset]", 'use = ["pip"]'])
    assert box.sh(PIP).code != 0, "a file is no policy in force yet"

    hostctl("reload").expect_success("reload")
    assert FETCHED["pip"] in box.sh(PIP).expect_success("pip")
    for script in (BY_NAME, TRANSPARENT):
        assert "hello from outside" in box.sh(script).expect_success("curl")
    assert box.sh(CLIENTS["curl"].format(host="evil.example")).code != 0
    left = [("evil.example", 443, "tls")]
    eventually(lambda: hosts(learned(box)) == left, "only the newest is left to learn")
    again = hostctl("policy", "learn", box.name)
    assert "pip" not in again.out and "a.cdn.example" not in again.out
