"""What all sandboxes pass through together: hostd's start, `hostctl down`, activation."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

import hostd.sandbox.sandbox
from hostd.broker_link.grants import Grants
from hostd.deferreds import all_done
from hostd.docker.containers import Containers
from hostd.failures import Failed
from hostd.process.programs import Finished
from hostd.process.requests import Surveyed
from hostd.registry import ProcessRecord, Record, Registry, Step
from hostd.sandbox.adoption import take_over
from hostd.sandbox.bwrap import FirstProcess
from hostd.sandbox.plan import Plan
from hostd.sandbox.planning import parse_run, prepared
from hostd.sandbox.policies import Change
from hostd.sandbox.sandbox import Container
from hostd.sandbox.uids import UidRange
from hostd.sandboxes import Sandboxes
from hostd.sidecars.serving import probe
from netpolicy.upstreams import UpstreamTable


class FullDisk(Registry):
    def save(self, record: Record) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@define
class Host:
    """Plays hostd's parts at once, as far as the end of a sandbox and a look at one go."""

    registry: Registry
    sandboxes_run: Path
    control_dir: Path
    reactor: Clock = field(factory=Clock)
    recorded: list[Any] = field(factory=list)

    @property
    def paths(self) -> Host:
        return self

    workdirs = cgroups = containers = grants = journal = launcher = programs = paths

    def sweep(self) -> None:
        pass

    def names(self) -> Iterator[str]:
        return iter(())

    def kill(self, name: str) -> None:
        pass

    def remove(self, name: str) -> None:
        pass

    def record(self, event: object) -> None:
        self.recorded.append(event)

    author = None

    async def leftover(self) -> set[str]:
        return set()

    async def close_sandbox(self, sandbox: str, reason: str) -> None:
        pass

    async def ask_survey(self, namespace: int) -> Surveyed:
        return Surveyed(generation=1)

    async def run(self, program: object, timeout: float) -> Finished:
        """It was ended after its first outcome."""
        return Finished(-9, b'[true, "connected"]\n[fal', b"")


@define
class Sandbox:
    """Its plan and its uids, too."""

    id: str = "a1"
    name: str = "one"
    holding: Container | None = None
    container: Container | None = None
    namespace: int = 7
    holder: None = None
    first: FirstProcess = field(factory=lambda: FirstProcess(cast(Any, None), 1, 7))
    cgroups: dict[str, tuple[str, ...]] = field(factory=lambda: {"sandbox": (), "gate": ()})
    untrusted: int = 1000
    helper: int = 1001
    ttl: int = 3600
    max_ttl: int = 3600

    @property
    def plan(self) -> Sandbox:
        return self

    uids = policy = session = plan

    @property
    def gate(self) -> FirstProcess:
        return self.first


@define
class Command:
    pid: int
    killed: list[bool]

    def kill_session(self) -> None:
        self.killed.append(True)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    for name in ("sandboxes", "run", "control"):
        (tmp_path / name).mkdir()
    registry = Registry(tmp_path / "sandboxes")
    return Host(registry, tmp_path / "run", tmp_path / "control")


def failed(done: Deferred[Any]) -> Any:
    found: list[Any] = []
    done.addErrback(lambda why: found.append(why.value))
    (problem,) = found
    return problem


@pytest.mark.parametrize("step", [Step.STOPPED, Step.ENDING])
def test_hostd_starts_on_a_disk_that_a_sandbox_has_filled(host: Host, step: Step) -> None:
    plan = {"id": "a1", "name": "one", "uid_index": 1, "policy": {}}
    made = Record(plan=plan, step=step, created=1)
    host.registry.claim(made)
    host.registry = FullDisk(host.registry.parent)
    found: list[Any] = []
    done = Deferred.fromCoroutine(take_over(cast(Any, host), cast(Any, None)))
    done.addCallback(found.append)
    host.reactor.pump([1] * 30)
    assert found[0].stopped["a1"].step is Step.STOPPED


def test_a_command_that_began_while_its_sandbox_ended_is_ended_and_not_recorded(
    host: Host,
) -> None:
    plan = {"id": "a1", "name": "one", "uid_index": 1, "policy": {}}
    record = Record(plan=plan, step=Step.ENDING, created=1)
    host.registry.claim(record)
    nothing, killed = cast(Any, None), list[bool]()
    sandboxes = Sandboxes(cast(Any, host), nothing, nothing)
    command = cast(Any, Command(os.getpid(), killed))
    with pytest.raises(Failed) as refused:
        ended = hostd.sandbox.sandbox.Sandbox(cast(Any, Sandbox()), nothing, record)
        sandboxes.command_started(ended, command, prepared("one"))
    assert refused.value.code == "R106" and killed == [True]
    assert [each.step for each in host.registry.load().records] == [Step.ENDING]


@define
class Broker:
    """It answers when the test wants."""

    answer: Deferred[dict[str, Any]] = field(factory=Deferred)

    async def tell(self, path: str, message: object) -> dict[str, Any]:
        return await self.answer


@define
class Served(Host):
    grants: Any = None


def test_what_is_recorded_while_the_broker_renews_a_session_stays(host: Host) -> None:
    plan = {"id": "a1", "name": "one", "uid_index": 1, "policy": {}}
    command = ProcessRecord.of(os.getpid())
    assert command is not None
    record = Record(plan=plan, step=Step.SERVED, created=1, processes={"command": command})
    host.registry.claim(record)
    nothing, broker = cast(Any, None), Broker()
    grants = Grants("h", nothing, cast(Any, broker), nothing)
    served = Served(host.registry, host.sandboxes_run, host.control_dir, grants=grants)
    sandboxes = Sandboxes(cast(Any, served), nothing, nothing)
    sandbox = hostd.sandbox.sandbox.Sandbox(cast(Any, Sandbox()), nothing, record)
    sandboxes._live["a1"] = sandbox
    renewed = Deferred.fromCoroutine(sandboxes.renew("one", 60))
    Deferred.fromCoroutine(sandboxes.command_ended(sandbox, 3))
    broker.answer.callback({"session": "s1", "ttl": 60})
    assert renewed.called
    for kept in (sandbox.record, host.registry.load().records[0]):
        assert (kept.ttl, kept.exit_status, dict(kept.processes)) == (60, 3, {})


@define
class Upstreams:
    """The broker, which has none."""

    async def get(self, path: str) -> dict[str, Any]:
        return UpstreamTable(()).to_mapping()


_POLICY = 'version = 1\nname = "p"\n[[egress]]\nhosts = ["one.example"]'
_NARROWER = {"version": 1, "name": "p"}


@pytest.mark.parametrize("reloads", [0, 1])
def test_a_sandbox_that_is_being_made_gets_a_policy_that_is_replaced_meanwhile(
    host: Host, monkeypatch: pytest.MonkeyPatch, reloads: int
) -> None:
    made, changed = Deferred[None](), list[Change]()

    async def create(host: object, plan: Plan) -> hostd.sandbox.sandbox.Sandbox:
        await made
        record = Record(plan=plan.to_json(), step=Step.SERVED, created=1)
        return hostd.sandbox.sandbox.Sandbox(plan, cast(Any, None), record)

    async def replace(host: object, change: Change) -> int:
        changed.append(change)
        return 0

    monkeypatch.setattr("hostd.sandboxes.create", create)
    monkeypatch.setattr("hostd.sandboxes.replace", replace)
    monkeypatch.setattr(Sandboxes, "_watch_first_processes", lambda *_: None)
    monkeypatch.setattr(Sandboxes, "_free_index", lambda _: 0)
    uids = UidRange(2_000_000_000, 9)
    sandboxes = Sandboxes(cast(Any, host), cast(Any, Upstreams()), uids)
    body = {"argv": ["true"], "name": "one", "policy": _POLICY, "policy_name": "p"}
    ended: list[object] = []
    run = Deferred.fromCoroutine(sandboxes.create(parse_run(body), lambda: None))
    run.addBoth(ended.append)
    for _ in range(reloads):
        Deferred.fromCoroutine(sandboxes.replace_policies({"p": _NARROWER}))
    assert changed == [] and ended == []
    made.callback(None)
    assert len(ended) == 1 and not isinstance(ended[0], Failure)
    assert [each.plan.policy.egress for each in changed] == [()] * reloads


def test_two_downs_at_once_both_end() -> None:
    sandboxes = Sandboxes(cast(Any, None), cast(Any, None), cast(Any, None))
    for _ in range(2):
        sandboxes._creations.acquire()
    downs = [Deferred.fromCoroutine(sandboxes.stop_all()) for _ in range(2)]
    for _ in range(2):  # what was being made is made
        sandboxes._creations.release()
    ended: list[None] = []
    for down in downs:
        down.addCallback(ended.append)
    assert ended == [None, None]
    assert sandboxes._creations.tokens == 4


def test_one_that_fails_keeps_nobody_from_being_waited_for() -> None:
    slow: Deferred[None] = Deferred()

    async def fails() -> None:
        raise Failed("R101", "it does not end")

    async def waits() -> None:
        await slow

    done = Deferred.fromCoroutine(all_done([fails(), waits()]))
    assert not done.called
    slow.callback(None)
    assert failed(done).code == "R101"


@pytest.mark.parametrize("admitted", ["of an earlier version", None])
def test_a_new_version_expects_the_filter_that_a_container_was_admitted_with(
    admitted: str | None,
) -> None:
    nothing = cast(Any, None)
    containers = Containers(nothing, nothing, "here", Path("/pause"), nothing)
    holding, ours = Container("h", filter=admitted), Container("c", filter=admitted)
    expected = containers._expected(cast(Any, Sandbox(holding=holding, container=ours)))
    assert [(each.id, seal.filter) for each, seal in expected] == [("h", admitted), ("c", admitted)]


def test_a_protection_that_was_not_tried_is_not_said_not_to_hold(host: Host) -> None:
    problem = failed(Deferred.fromCoroutine(probe(cast(Any, host), cast(Any, Sandbox()))))
    assert (problem.code, "in time" in problem.what) == ("R117", True)
