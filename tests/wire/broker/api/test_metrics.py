"""What whoever watches the broker can see, and what never is in it."""

from __future__ import annotations

import errno
import os
import re
import socket
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from broker.api.metrics import FAMILIES
from gitmoat.wire.git.pktline import format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import PASSWORD
from tests.fakes.fake_upstream import ok
from tests.fakes.reactor_tests import on_reactor
from tests.waiting import PATIENCE

REFS = format_data(b"version 2\n") + b"0000"
ADVERTISEMENT = ok(Service.UPLOAD_PACK, "advertisement", REFS)


def ask(path: str, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(path)
        sock.sendall(request)
        return b"".join(iter(lambda: sock.recv(65536), b""))


async def scrape(scene: Scene, target: str = "/metrics") -> bytes:
    request = f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    path = str(scene.world.paths.broker_metrics_socket)
    waiting: Deferred[Any] = deferToThread(ask, path, request)
    answer: bytes = await waiting
    return answer


def admin(scene: Scene, operation: str) -> dict[str, Any]:
    answer = scene.world.broker.admin().operations[operation]({}, 0)
    assert isinstance(answer, dict)
    return answer


@on_reactor
async def test_metrics_tell_what_happened_and_no_name_or_secret(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    assert (await sidecar.refs("acme/other")).status == 404
    text = await scrape(scene)
    assert text.startswith(b"HTTP/1.1 200 ")
    assert b'gitmoat_git_decisions_total{code="G101",decision="deny",' in text
    assert b'gitmoat_sessions{state="active"} 1.0' in text
    assert b'gitmoat_upstream_ok{upstream="up"} 1.0' in text
    assert b"gitmoat_journal_working 1.0" in text
    shown = set(re.findall(rb"^# TYPE (\S+?)(?:_total|_created)? ", text, re.MULTILINE))
    assert shown == {family.name.encode() for family in FAMILIES}
    for word in (PASSWORD, "acme", "session-1", "sb1", "name1"):
        assert word.encode() not in text
    assert os.stat(scene.world.paths.broker_metrics_socket).st_mode & 0o777 == 0o600


@on_reactor
async def test_there_is_nothing_else_on_that_socket(scene: Scene) -> None:
    assert (await scrape(scene, "/")).startswith(b"HTTP/1.1 404 ")
    assert (await scrape(scene, "/git/up/acme/app.git/info/refs")).startswith(b"HTTP/1.1 404 ")


@on_reactor
async def test_top_shows_each_session_and_who_is_slowed_down(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    await sidecar.refs()
    session = scene.world.sessions.by_id("session-1")
    assert session is not None
    session.brake.refused(scene.world.now, 40)
    (row,) = admin(scene, "top")["items"]
    assert (row["sandbox"], row["requests"], row["denied"]) == ("sb1", 1, 40)
    assert row["slowed"] is True and row["bytes"] >= len(REFS) and row["streams"] == 0
    assert admin(scene, "top")["upstreams"] == {"up": "ok"}


@on_reactor
async def test_health_is_what_the_journal_can_do_and_comes_back_by_itself(scene: Scene) -> None:
    assert admin(scene, "status")["healthy"] is True
    sidecar = await scene.world.session()
    journal = scene.world.opened.journal

    def fails(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    works, journal._sync = journal._sync, fails
    assert (await sidecar.refs()).status == 503
    assert admin(scene, "status")["healthy"] is False
    assert "B103" in admin(scene, "status")["problems"][0]
    journal._sync = works
    assert admin(scene, "status")["healthy"] is True
