"""What a detached command prints is kept, in bounds, also over the death of hostd."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from tests.faults.world import Machine
from tests.stage.boxes import Box
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import status
from tests.waiting import eventually

LINE = "0123456789" * 4
COUNT = (
    "trap 'echo broken >&2; exit 3' PIPE\ni=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"
)


def detached(stage: Gitmoat, script: str) -> Box:
    box = Box(stage, f"t-{uuid.uuid4().hex[:10]}")
    words = ("run", "-d", "--name", box.name, "--", "/bin/sh", "-c", script)
    stage.hostctl(*words).expect_success("run")
    return box


def logs(box: Box) -> str:
    return box.stage.hostctl("logs", box.name).out


def log_files(stage: Gitmoat) -> list[str]:
    return sorted(path.name for path in stage.paths.log_dir.glob("sandbox-*"))


@pytest.fixture
def boxes(stage: Gitmoat) -> Iterator[list[Box]]:
    made: list[Box] = []
    yield made
    for box in made:
        box.remove()
    assert log_files(stage) == []


def test_both_streams_are_kept_in_order_and_go_with_the_sandbox(
    stage: Gitmoat, boxes: list[Box]
) -> None:
    boxes.append(box := detached(stage, "echo out; echo err >&2; echo again; sleep infinity"))
    eventually(lambda: logs(box) == "out\nerr\nagain\n", "the output")
    (name,) = log_files(stage)
    assert (stage.paths.log_dir / name).stat().st_mode & 0o777 == 0o600
    stage.hostctl("stop", box.name).expect_success("stop")
    assert logs(box) == "out\nerr\nagain\n"


def test_what_was_printed_last_is_there_when_the_command_has_ended(
    stage: Gitmoat, boxes: list[Box]
) -> None:
    boxes.append(box := detached(stage, "printf %050000d 7"))
    eventually(lambda: len(logs(box)) == 50_000, "the whole output")


def test_stdout_can_be_opened_again_by_its_name(stage: Gitmoat, boxes: list[Box]) -> None:
    boxes.append(box := detached(stage, "echo one > /dev/stdout; echo two > /proc/self/fd/2"))
    eventually(lambda: logs(box) == "one\ntwo\n", "the output")


def test_follow_shows_what_comes_and_ends_with_the_sandbox(
    stage: Gitmoat, boxes: list[Box]
) -> None:
    boxes.append(
        box := detached(stage, "for i in 1 2 3; do echo $i; sleep 0.5; done; exec sleep infinity")
    )
    following = stage.begin("logs", "-f", box.name)
    eventually(lambda: logs(box) == "1\n2\n3\n", "the output")
    stage.hostctl("stop", box.name).expect_success("stop")
    ran = outcome(following)
    assert (ran.code, ran.out) == (0, "1\n2\n3\n")


def test_output_without_end_is_bounded_and_hostd_answers_beside_it(
    stage: Gitmoat, boxes: list[Box]
) -> None:
    boxes.append(box := detached(stage, f"exec yes {LINE}"))
    place = stage.paths.log_dir

    def size() -> int:
        return sum((place / name).stat().st_size for name in log_files(stage))

    eventually(lambda: len(log_files(stage)) == 2 and size() > 12 << 20, "the second part")
    hostd = Machine(stage).pid("hostd")
    for _ in range(8):
        assert size() <= 16 << 20
        assert stage.hostctl("ls").code == 0
    assert int(status(hostd)["VmRSS"].split()[0]) < 300_000
    assert set(logs(box)[-400:].split()[1:-1]) == {LINE}


def test_a_command_does_not_notice_that_hostd_is_killed(fresh_stage: Gitmoat) -> None:
    world = Machine(fresh_stage)
    box = detached(fresh_stage, COUNT)
    eventually(lambda: "5\n" in logs(box), "the first lines")
    world.kill("hostd")
    time.sleep(1)  # it writes on
    fresh_stage.hostctl("up").expect_success("up")
    seen = len(logs(box).split())
    eventually(lambda: len(logs(box).split()) > seen + 10, "more lines")
    lines = [int(line) for line in logs(box).split()]
    assert lines == list(range(1, len(lines) + 1))  # nothing is lost in between
    box.remove()


def test_an_attached_command_has_no_log(stage: Gitmoat) -> None:
    name = f"t-{uuid.uuid4().hex[:10]}"
    stage.hostctl("run", "--name", name, "--", "echo", "hello").expect_success("run")
    ran = stage.hostctl("logs", name)
    assert ran.code == 4 and "only the output of `hostctl run -d` is kept" in ran.err
    Box(stage, name).remove()
