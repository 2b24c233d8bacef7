"""Every secret is a marker here; after a day's work and a crash none of them is to be found.

Looked through: what every command printed, logs, state, audit, sockets' directories, command lines
and environments of processes, core files, and all that a sandbox can read.
"""

from __future__ import annotations

import base64
import json
import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field

from tests.stage.boxes import Box, start_box
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat, opened
from tests.stage.kernel_view import processes
from tests.stage.repositories import ALLOWED
from tests.waiting import eventually

OWNER = pwd.getpwnam("nobody")
PLANTED = {
    "file": "planted-file-secret",
    "vault": "planted-vault-secret",
    "rotated": "planted-rotated-secret",
    "helper": "planted-helper-secret",
    "app": "planted-app-key",
}
# Only here may a secret be: where its owner put it.
HOMES = ("deploy.token", "app.pem", "helper", "fresh")


@define(eq=False)
class Day:
    """A stage, and all that was printed on it."""

    stage: Gitmoat
    said: list[str] = field(factory=list)

    def hostctl(self, *words: str, stdin: str = "") -> Ran:
        ran = self.stage.hostctl(*words, stdin=stdin)
        self.said.append(ran.text)
        return ran

    def plant(self, name: str, text: str, mode: int = 0o600, uid: int = 1999999999) -> Path:
        path = self.stage.paths.etc / name
        path.write_text(text + "\n")
        path.chmod(mode)
        os.chown(path, uid, uid)
        return path


@pytest.fixture
def day() -> Iterator[Day]:
    with opened() as stage:
        yield Day(stage)


def forms(secret: str) -> list[bytes]:
    """As it is, in base64 by itself and behind a user's name, and in hex."""
    plain = secret.encode()
    return [
        plain,
        base64.b64encode(plain).rstrip(b"=")[:-2],
        base64.b64encode(b"x-access-token:" + plain)[24:-4],
        plain.hex().encode(),
    ]


def files_of(stage: Gitmoat) -> Iterator[Path]:
    for folder in ("etc", "var", "run"):
        for path in (stage.root / folder).rglob("*"):
            if path.is_file() and not path.is_symlink() and path.name not in HOMES:
                yield path


def processes_of(stage: Gitmoat) -> Iterator[bytes]:
    for pid in [*processes(), *_uids(stage)]:
        for name in ("cmdline", "environ"):
            try:
                yield Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue


def _uids(stage: Gitmoat) -> Iterator[int]:
    status = json.loads(stage.hostctl("--json", "status").out)
    yield from (status["broker"]["pid"], status["hostd"]["pid"])


def use_everything(day: Day, box: Box) -> None:
    """Each kind of credential: added, listed, tried, used in vain or not, rotated, removed."""
    stage, repo = day.stage, "demo:" + ALLOWED
    token = day.plant("deploy.token", PLANTED["file"])
    day.hostctl("cred", "add", "deploy", "--file", str(token)).expect_success("file")
    key = day.plant("app.pem", f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED['app']}", 0o400)
    app = ("--github-app", "1", "--private-key", str(key), "--installation", "2")
    day.hostctl("cred", "add", "app", *app).expect_success("app")
    helper = stage.root / "helper"
    helper.write_text(f"#!/bin/sh\necho username=u\necho password={PLANTED['helper']}\n")
    helper.chmod(0o700)
    os.chown(helper, OWNER.pw_uid, OWNER.pw_gid)
    own = ("--command", str(helper), "--user", OWNER.pw_name)
    day.hostctl("cred", "add", "me", *own).expect_success("helper")
    sealed = day.hostctl("cred", "add", "sealed", "--stdin", stdin=PLANTED["vault"])
    sealed.expect_success("cred add")
    path = stage.paths.broker_d / "upstream-demo.toml"
    demo = path.read_text()
    for name in ("deploy", "app", "me", "sealed"):
        lines = [f'provider = "{name}"' if one.startswith("provider") else one
                 for one in demo.splitlines()]  # fmt: skip
        path.write_text("\n".join(lines) + "\n")
        day.hostctl("reload").expect_success("reload")
        day.hostctl("-vv", "cred", "test", name, "--repo", repo)
        day.said.append(box.run("git", "ls-remote", stage.url(ALLOWED)).text)
        day.said.append(box.git("ls-remote").text)
    fresh = day.plant("fresh", PLANTED["rotated"], uid=0)
    day.hostctl("cred", "rotate", "sealed", "--file", str(fresh)).expect_success("rotate")
    day.said.append(box.run("git", "ls-remote", stage.url(ALLOWED)).text)
    path.write_text(demo)
    day.hostctl("reload")
    day.hostctl("--json", "cred", "ls")
    for name in ("deploy", "app", "me"):
        day.hostctl("cred", "rm", name).expect_success("cred rm")


def crash_everything(day: Day, box: Box) -> None:
    """As a fault in C code would; whoever writes cores writes them now."""
    status = json.loads(day.stage.hostctl("--json", "status").out)
    os.kill(box.sidecar, signal.SIGSEGV)
    os.kill(status["broker"]["pid"], signal.SIGSEGV)
    eventually(lambda: day.stage.hostctl("status").code == 5, "the broker to be gone")
    day.hostctl("up").expect_success("up")


def test_no_secret_is_found_anywhere_it_was_not_put(day: Day) -> None:
    stage = day.stage
    box = start_box(stage, "--agent", "--push", "agent/**")
    use_everything(day, box)
    crash_everything(day, box)
    day.said.append(stage.hostctl("-vv", "audit", "query").text)
    inside = box.sh(
        "cat /proc/*/environ /proc/*/cmdline 2>/dev/null;"
        " find / -xdev -type f -size -4M -readable -not -path '/usr/*' -not -path '/proc/*'"
        " -exec cat {} + 2>/dev/null; cat /run/gitmoat/policy.json /run/gitmoat/gitconfig; true"
    )
    markers = {name: forms(secret) for name, secret in PLANTED.items()}
    markers["demo"] = forms(stage.upstream.password)
    places = {
        "printed": "\n".join(day.said).encode(),
        "inside the sandbox": inside.out.encode(),
        "processes": b"\n".join(processes_of(stage)),
        **{str(path): path.read_bytes() for path in files_of(stage)},
    }
    found = [
        (name, place)
        for place, text in places.items()
        for name, spellings in markers.items()
        if any(one in text for one in spellings)
    ]
    assert found == []
    assert len(places["printed"]) > 2000 and len(places["inside the sandbox"]) > 1000
    assert any(place.endswith("broker.log") for place in places)
    assert not [one for one in stage.root.rglob("core*") if one.is_file()]
    box.remove()


def test_the_search_would_find_one(day: Day) -> None:
    """What the test above relies on: each spelling of a secret is recognised."""
    secret = PLANTED["file"]
    header = base64.b64encode(f"x-access-token:{secret}".encode())
    for text in (
        secret.encode(),
        base64.b64encode(secret.encode()),
        header,
        secret.encode().hex().encode(),
    ):
        assert any(one in b"noise " + text + b" noise" for one in forms(secret)), text
