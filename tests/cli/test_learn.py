"""`policy learn` reads the journal that the broker wrote, and writes only what it is told to."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.command import Hostctl


def stamp(age: float) -> str:
    return datetime.fromtimestamp(time.time() - age, UTC).isoformat()


def record(op: str, to: str, age: float = 60, **more: object) -> dict[str, object]:
    about = {"event": "egress.decision", "decision": "deny", "sandbox": "5a", "code": "E101"}
    return {"v": 1, "ts": stamp(age), **about, "op": op, "to": to, **more}


@pytest.fixture
def journal(root: Path) -> Path:
    path = root / "var/lib/gitmoat/broker/audit/audit.ndjson"
    path.parent.mkdir(parents=True)
    records: list[dict[str, object]] = [
        {"v": 1, "ts": stamp(90), "event": "grant.registered", "sandbox": "5a", "name": "ci"},
        record("tunnel", "a.corp.example:443"),
        record("tunnel", "a.corp.example:443", count=2),
        record("dns", "old.corp.example", age=7200),
        record("tunnel", "192.0.2.1:443"),
        record("tunnel", "allowed.corp.example:443", decision="allow"),
        record("tunnel", "other.corp.example:443", sandbox="6b"),
        record("tunnel", "\x1b[31m.corp.example:443"),
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


@pytest.mark.usefixtures("journal")
def test_what_one_sandbox_was_refused_lately_is_suggested(hostctl: Hostctl) -> None:
    done = hostctl("policy", "learn", "ci", "--since", "1h")
    assert done.returncode == 0
    assert '# refused 3 times\n[[egress]]\nid = "learned-1"\n' in done.stdout
    for never in ("old.corp", "192.0.2.1", "other.corp", "allowed.corp", "\x1b"):
        assert never not in done.stdout
    assert "note: 2 refusals were for addresses or unusable names" in done.stderr
    hosts = json.loads(hostctl("policy", "learn", "5a", "--json").stdout)["hosts"]
    assert [each["host"] for each in hosts] == ["a.corp.example", "old.corp.example"]


def test_what_is_printed_can_be_appended_to_a_policy(
    root: Path, journal: Path, hostctl: Hostctl
) -> None:
    before = journal.read_bytes()
    policy = root / "p.toml"
    policy.write_text('version = 1\nname = "p"\n')
    with policy.open("a") as file:
        file.write(hostctl("policy", "learn", "ci", "--since", "1h").stdout)
    asked = ("policy", "explain", str(policy), "tunnel")
    assert hostctl(*asked, "a.corp.example").returncode == 0
    assert hostctl(*asked, "other.corp.example").returncode == 3
    assert hostctl("policy", "check", str(policy)).returncode == 0
    assert journal.read_bytes() == before


@pytest.mark.usefixtures("journal")
def test_a_preset_is_suggested_where_it_explains_the_refusal(root: Path, hostctl: Hostctl) -> None:
    conf = root / "etc/pip.conf"
    conf.parent.mkdir()
    conf.write_text("[global]\nindex-url = https://a.corp.example/simple\n")
    done = hostctl("policy", "learn", "ci", "--since", "1h")
    assert done.stdout == '# preset pip covers a.corp.example:443 (3): add "pip" to preset.use\n'


@pytest.mark.usefixtures("journal")
def test_a_sandbox_nobody_knows_is_not_found(hostctl: Hostctl) -> None:
    done = hostctl("policy", "learn", "nobody")
    assert done.returncode == 4
    assert "the audit has no record of sandbox 'nobody' [R103]" in done.stderr
