"""The watchdog's rounds, with hostd's parts played by hand."""

from __future__ import annotations

from typing import Any, cast

import pytest
from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from hostd.failures import Failed
from hostd.process.programs import Finished
from hostd.process.requests import Surveyed
from hostd.watchdog import Watchdog
from netpolicy.nftables import ruleset_hash

RULES = "table inet gitmoat {\n}\n"
FINE = Surveyed(generation=2)


@define
class Sidecar:
    checks: int = 0

    def check(self) -> None:
        self.checks += 1


@define
class Plan:
    id: str = "a1"
    name: str = "one"


@define
class Record:
    rules: str = ruleset_hash(RULES)


@define
class Sandbox:
    running: bool = True
    plan: Plan = field(factory=Plan)
    record: Record = field(factory=Record)
    sidecar: Sidecar = field(factory=Sidecar)
    namespace: int = 7
    seen: Any = None
    holder: str | None = None

    def network(self) -> None:
        return None


@define(slots=False)
class Host:
    """Plays programs, spawner, grants and Docker at once; `problem` is raised by the next looks."""

    reactor: Clock = field(factory=Clock)
    listing: str = RULES
    status: int = 0
    found: Surveyed = FINE
    problem: Exception | None = None
    reaped: int = 0
    closed: int = 0
    removed: int = 0
    listed: int = 0
    docker: str | Failed | None = None

    @property
    def programs(self) -> Host:
        return self

    launcher = grants = containers = programs

    async def run(self, program: object) -> Finished:
        if self.problem is not None:
            raise self.problem
        self.listed += 1
        return Finished(self.status, self.listing.encode(), b"")

    async def ask_survey(self, namespace: int) -> Surveyed:
        if self.problem is not None:
            raise self.problem
        return self.found

    def reap_unawaited(self) -> None:
        self.reaped += 1

    def close_overdue(self) -> None:
        self.closed += 1

    def remove_overdue(self) -> None:
        self.removed += 1

    async def what_is_wrong(self, sandbox: object) -> str | None:
        if isinstance(self.docker, Failed):
            raise self.docker
        return self.docker


class Watched:
    def __init__(self) -> None:
        self.host, self.sandbox = Host(), Sandbox()
        self.frozen: list[str] = []
        self.watchdog = Watchdog(
            cast(Any, self.host), lambda: [cast(Any, self.sandbox)], self._freeze, 15
        )

    async def _freeze(self, sandbox: Any, why: str) -> None:
        self.frozen.append(why)
        sandbox.running = False

    def rounds(self, number: int) -> None:
        self.host.reactor.pump([15] * number)


def test_a_sandbox_that_is_as_it_was_left_is_left_alone() -> None:
    world = Watched()
    world.rounds(10)
    assert world.frozen == []
    assert (world.sandbox.sidecar.checks, world.host.reaped) == (10, 10)
    assert (world.host.closed, world.host.removed) == (10, 10)


def test_rules_are_read_again_when_the_kernel_counted_a_change_or_others_are_wanted() -> None:
    world = Watched()
    world.rounds(5)
    assert world.host.listed == 1
    world.host.found = evolve(FINE, generation=3)
    world.rounds(5)
    assert (world.host.listed, world.frozen) == (2, [])
    world.sandbox.record = Record(rules="of another policy")
    world.rounds(1)
    assert world.host.listed == 3
    assert "rules were changed" in world.frozen[0]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"listing": RULES.replace("gitmoat", "other")}, "rules were changed"),
        ({"listing": RULES.replace("gitmoat", "\u00e9")}, "rules were changed"),
        ({"listing": ""}, "cannot be read"),
        ({"found": evolve(FINE, interfaces=("eth0",))}, "eth0"),
        ({"found": evolve(FINE, sysctls=("/proc/sys/x",))}, "/proc/sys/x"),
    ],
)
def test_a_change_ends_its_access_in_the_next_round(change: dict[str, Any], word: str) -> None:
    world = Watched()
    for name, value in change.items():
        setattr(world.host, name, value)
    world.rounds(3)
    assert len(world.frozen) == 1
    assert word in world.frozen[0]


@pytest.mark.parametrize(
    ("holder", "said", "frozen"),
    [
        ("net", "its container was restarted", ["its container was restarted"]),
        ("net", None, []),
        ("net", Failed("R113", "Docker does not answer"), []),
        (None, "asked about a sandbox that has no container", []),
    ],
)
def test_what_docker_says_of_a_container_ends_its_access_and_its_silence_does_not(
    holder: str | None, said: str | Failed | None, frozen: list[str]
) -> None:
    world = Watched()
    world.sandbox.holder, world.host.docker = holder, said
    world.rounds(3)
    assert world.frozen == frozen


def test_a_look_that_fails_is_taken_again_but_not_for_ever() -> None:
    world = Watched()
    world.host.problem = Failed("R101", "the process that starts sandboxes ended")
    world.rounds(3)
    assert world.frozen == []
    world.host.problem = None
    world.rounds(1)
    world.host.problem = Failed("R101", "the process that starts sandboxes ended")
    world.rounds(3)
    assert world.frozen == []
    world.rounds(1)
    assert len(world.frozen) == 1


def test_a_look_that_fails_as_nobody_foresaw_is_taken_again_but_not_for_ever() -> None:
    world = Watched()
    world.host.problem = UnicodeDecodeError("ascii", b"\xc3", 0, 1, "ordinal not in range")
    world.rounds(3)
    assert world.frozen == []
    world.rounds(1)
    assert len(world.frozen) == 1


def test_a_sandbox_that_ended_unseen_is_forgotten() -> None:
    world = Watched()
    world.host.problem = Failed("R101", "the process that starts sandboxes ended")
    world.rounds(2)
    world.sandbox.running = False
    world.rounds(1)
    assert world.watchdog._unseen == {}


def test_a_tool_that_fails_says_nothing_of_the_rules() -> None:
    """It was killed, or had no memory, on a machine that is busy with other things."""
    world = Watched()
    world.host.status = -9
    world.rounds(2)
    world.host.status = 0
    world.rounds(3)
    assert world.frozen == []


def test_ends_that_take_for_ever_keep_nobody_from_being_looked_at() -> None:
    """As many as are looked at in one turn, and one more that is as it was left."""
    host, never = Host(), [Deferred[None]() for _ in range(4)]
    ending = [Sandbox(plan=Plan(id=f"a{n}"), record=Record(rules="changed")) for n in range(4)]
    fine = Sandbox(plan=Plan(id="b1"))
    seen: list[str] = []

    async def freeze(sandbox: Any, why: str) -> None:
        seen.append(sandbox.plan.id)
        await never[len(seen) - 1]

    Watchdog(cast(Any, host), lambda: cast(Any, [*ending, fine]), freeze, 15)
    host.reactor.pump([15, 15])
    assert seen == ["a0", "a1", "a2", "a3"]
    assert fine.seen is not None and fine.sidecar.checks == 2


def test_one_that_ends_while_it_waits_for_its_turn_is_not_looked_at() -> None:
    """Its namespace is closed by then."""
    host, looks = Host(), list[int]()
    never = Deferred[None]()
    boxes = [Sandbox(plan=Plan(id=f"a{n}"), namespace=n) for n in range(5)]

    async def survey(namespace: int) -> Surveyed:
        looks.append(namespace)
        await never
        return FINE

    host.ask_survey = survey  # type: ignore[method-assign]
    Watchdog(cast(Any, host), lambda: cast(Any, boxes), cast(Any, None), 15)
    host.reactor.advance(15)
    boxes[4].running, boxes[4].namespace = False, -1
    never.callback(None)
    assert looks == [0, 1, 2, 3]


def test_what_is_being_made_or_ended_is_not_looked_at() -> None:
    world = Watched()
    world.sandbox.running = False
    world.host.listing = ""
    world.rounds(3)
    assert world.frozen == []


def test_a_stopped_watchdog_looks_no_more() -> None:
    world = Watched()
    world.watchdog.stop()
    world.rounds(3)
    assert world.sandbox.sidecar.checks == 0
