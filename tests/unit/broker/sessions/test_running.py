"""One registry of what runs for a session: nothing in it is forgotten, nothing after it opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from broker.config.settings import (
    AppProvider,
    FileProvider,
    HelperProvider,
    ProviderConfig,
    VaultProvider,
)
from broker.credentials.providers.credential import CredentialRequest
from broker.credentials.providers.making import Maker
from broker.errors import Unavailable
from broker.sessions.running import AdminTask, Running
from broker.upstream.dialler import Dialler
from broker.upstream.kept import Upstreams
from netpolicy.format.document import parse_policy
from tests.fakes.tasks import FakeTask

KINDS = ("git", "http", "tunnel")

POLICY = parse_policy('version = 1\nname = "p"')


@pytest.fixture
def running() -> Running:
    return Running("s1")


def entered(running: Running, *tasks: FakeTask) -> tuple[FakeTask, ...]:
    for task in tasks:
        running.enter(task)
    return tasks


def test_an_end_cuts_every_kind(running: Running) -> None:
    tasks = entered(running, *(FakeTask(kind) for kind in KINDS))
    running.end("S101")
    assert [task.cuts for task in tasks] == [["S101"] for _ in KINDS]
    assert not len(running)


def test_what_has_left_is_not_cut(running: Running) -> None:
    task = FakeTask()
    running.enter(task).leave()
    running.end("S101")
    assert task.cuts == []


def test_another_policy_cuts_what_it_does_not_allow_of_every_kind(running: Running) -> None:
    denied = entered(running, *(FakeTask(kind, allowed=False) for kind in KINDS))
    allowed = entered(running, *(FakeTask(kind) for kind in KINDS))
    assert running.rescope(POLICY) == len(KINDS)
    assert all(task.cuts == ["G101"] for task in denied)
    assert not any(task.cuts for task in allowed)
    assert len(running) == len(KINDS)


def test_a_fault_in_one_keeps_none_of_the_others_from_being_cut(running: Running) -> None:
    tasks = entered(running, FakeTask(), FakeTask(broken=True), FakeTask())
    running.end("S101")
    assert [task.cuts for task in tasks] == [["S101"]] * 3


def test_what_cannot_be_judged_is_cut_and_the_others_are_judged(running: Running) -> None:
    broken, denied = entered(running, FakeTask(broken=True), FakeTask(allowed=False))
    assert running.rescope(POLICY) == 2
    assert broken.cuts == ["B101"] and denied.cuts == ["G101"]


def test_only_what_is_busy_keeps_a_session_from_being_silent(running: Running) -> None:
    busy, _ = running.enter(FakeTask()), running.enter(FakeTask(busy=False))
    assert running.busy
    busy.leave()
    assert not running.busy


def test_a_broker_that_ends_waits_for_what_has_an_end_of_its_own(running: Running) -> None:
    git, _ = running.enter(FakeTask()), running.enter(FakeTask(awaited=False))
    assert running.awaited == {1}
    git.leave()
    assert not running.awaited


def test_what_was_cut_or_has_ended_opens_nothing(running: Running) -> None:
    left, cut = running.enter(FakeTask()), running.enter(FakeTask())
    left.leave()
    running.end("S101")
    late = running.enter(FakeTask())
    nothing: Any = None
    for entry in (left, cut, late):
        refused: list[Any] = []
        dialler = Dialler(nothing)
        upstreams = Upstreams(lambda: 0.0)
        for opening in (
            dialler.http(nothing, entry),
            dialler.tunnel(nothing, entry),
        ):
            Deferred.fromCoroutine(opening).addErrback(refused.append)
        assert [each.value.code for each in refused] == ["S101", "S101"]
        with pytest.raises(Unavailable):
            upstreams.take(entry, nothing, repeatable=True)
        with pytest.raises(Unavailable):
            entry.check()
    AdminTask("the admin's own").check()


@pytest.mark.parametrize(
    "config",
    [
        FileProvider(username="bot", password_file=Path("/nonexistent")),
        VaultProvider(),
        HelperProvider(user="owner", command=("helper",)),
        AppProvider(app_id="1", installation_id=1, private_key_file=Path("/nonexistent")),
    ],
    ids=lambda config: type(config).__name__,
)
def test_no_provider_gives_a_credential_for_what_was_cut(
    running: Running, config: ProviderConfig
) -> None:
    nothing: Any = None
    maker = Maker(nothing, nothing, nothing, nothing, (0, 0), nothing)
    provider = maker.provider("p", config, nothing)
    entry = running.enter(FakeTask())
    running.end("S101")
    refused: list[Any] = []
    request = CredentialRequest(entry, nothing, "acme/app", write=False)
    provider.credential(request).addErrback(refused.append)
    assert [each.value.code for each in refused] == ["S101"]
