"""Keys are replaced while everything runs: two are known before one goes."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stage.boxes import Box, start_box
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat, opened
from tests.stage.repositories import ALLOWED
from tests.waiting import eventually


@pytest.fixture(scope="module")
def own() -> Iterator[Gitmoat]:
    with opened() as made:
        yield made


@pytest.fixture(scope="module")
def box(own: Gitmoat) -> Iterator[Box]:
    made = start_box(own, "--agent", "--push", "agent/**")
    yield made
    made.remove()


def status(stage: Gitmoat) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stage.hostctl("--json", "status").out)
    return found


def works(box: Box) -> None:
    url = box.stage.url(ALLOWED)
    box.run("git", "ls-remote", url).expect_success("ls-remote")


def replace_sidecar(box: Box) -> None:
    old = box.sidecar
    os.kill(old, signal.SIGKILL)
    eventually(lambda: box.inspect()["sidecar"]["pid"] not in (None, old), "another sidecar")
    works(box)


def test_the_hosts_key_is_replaced_and_sessions_go_on(own: Gitmoat, box: Box) -> None:
    before = status(own)["hostd"]
    ran = own.hostctl("host", "rotate-key")
    assert ran.code == 0, ran.err
    after = status(own)["hostd"]
    assert after["key"] != before["key"] and after["key"] in ran.out
    assert after["broker_reachable"] is True
    works(box)
    replace_sidecar(box)  # a grant under the new key
    broker = tomllib.loads(own.paths.broker_toml.read_text())
    assert broker["host"]["local"]["key"] == after["key"]
    assert not own.paths.host_key_next.exists()


def test_the_brokers_key_is_replaced_and_sessions_and_vault_go_on(own: Gitmoat, box: Box) -> None:
    before = status(own)["broker"]
    prepared = own.hostctl("broker", "rotate-key", "--prepare")
    assert prepared.code == 0, prepared.err
    two = tomllib.loads(own.paths.hostd_toml.read_text())["broker"]["key"]
    assert two[0] == before["key"] and two[1] in prepared.out
    works(box)
    replace_sidecar(box)  # a grant for the old key, with two pins
    ran = own.hostctl("broker", "rotate-key")
    assert ran.code == 0, ran.err
    after = status(own)["broker"]
    assert after["key"] == two[1] and after["pid"] == before["pid"]
    assert tomllib.loads(own.paths.hostd_toml.read_text())["broker"]["key"] == two[1]
    works(box)  # the demo's credential is in the vault, which was sealed to the old key
    replace_sidecar(box)
    fresh = start_box(own, "--agent")
    works(fresh)
    fresh.remove()
    own.hostctl("audit", "verify").expect_success("audit verify")


def test_a_broker_killed_after_the_change_comes_back_with_the_new_key(
    own: Gitmoat, box: Box
) -> None:
    key = status(own)["broker"]["key"]
    own.hostctl("broker", "rotate-key").expect_success("rotate-key")
    changed = status(own)["broker"]
    assert changed["key"] != key
    os.kill(changed["pid"], signal.SIGKILL)
    eventually(lambda: own.hostctl("status").code == 5, "the broker to be gone")
    own.hostctl("up").expect_success("up")
    assert status(own)["broker"]["key"] == changed["key"]
    eventually(lambda: box.run("git", "ls-remote", own.url(ALLOWED)).code == 0, "git to work")


def test_a_host_whose_next_key_nobody_knows_keeps_its_key(own: Gitmoat, box: Box) -> None:
    before = status(own)["hostd"]["key"]
    shown = own.hostctl("host", "rotate-key", "--prepare")
    assert shown.code == 0 and before not in shown.out
    ran = own.hostctl("host", "rotate-key", "--switch")
    assert ran.code != 0 and "does not take the next key" in ran.err
    assert status(own)["hostd"]["key"] == before
    works(box)


def test_another_host_is_enrolled_listed_and_removed(own: Gitmoat) -> None:
    key = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    words = ("--repos", "demo:acme/*", "--fetch-only", "--ttl", "2h")
    own.hostctl("host", "enrol", "edge", "--key", key, *words).expect_success("host enrol")
    listed = own.hostctl("host", "ls").expect_success("host ls")
    assert "edge" in listed and "git demo:acme/* fetch only, at most 2h" in listed
    assert own.hostctl("host", "enrol", "edge", "--key", key, *words).code == 1
    own.hostctl("host", "rm", "edge").expect_success("host rm")
    assert "edge" not in own.hostctl("host", "ls").out
    assert own.hostctl("host", "rm", "local").code != 0  # it is in broker.toml, by hand or by up
    assert "hostctl host enrol local --key" in own.hostctl("host", "enrol").out


def test_status_shows_how_old_the_keys_are(own: Gitmoat) -> None:
    lines = own.hostctl("status").out.splitlines()
    assert all("key 0 d old" in line for line in lines), lines
    os.utime(own.paths.host_key, (0, 0))
    assert "key 0 d old" not in own.hostctl("status").out.splitlines()[1]


def test_a_clone_survives_both_changes(own: Gitmoat, box: Box) -> None:
    url = own.url(ALLOWED)
    process = box.begin("sh", "-c", f"for i in 1 2 3 4 5 6; do git ls-remote {url} || exit 1; done")
    own.hostctl("host", "rotate-key").expect_success("host rotate-key")
    own.hostctl("broker", "rotate-key").expect_success("broker rotate-key")
    ran = outcome(process)
    assert ran.code == 0, ran.err
