"""Rows 38 and 65, and the faults' general rule (ii): a workspace can make the gate fail, not wait.

The untrusted uid's git can be stopped, traced and replaced by the command, so each question that
the gate asks it is answered here by silence, by endless talk, and by lies.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import frozen

from tests.adversary.hostile import (
    CRAFTED,
    OTHER,
    POLICY,
    Done,
    Hostile,
    MakeHostile,
    crafted,
    hostile_maker,
    imposter,
    noticed,
)
from tests.adversary.watching import processes_of
from tests.fakes.long_cases import also_long, one_in
from tests.stage.boxes import HOME
from tests.stage.command import outcome
from tests.stage.gitmoat import opened
from tests.stage.marks import x86_64
from tests.stage.repositories import create_repository
from tests.waiting import eventually

WORKERS = 5
# A pack without an end, an octet at a time: nothing but the limit of the whole operation ends it.
DRIP = f"""
/bin/sleep 1000 &
/bin/cat {CRAFTED}
while /bin/sleep 0.3; do printf '\\000\\001\\000\\376\\377x'; done
"""


@frozen
class Silence:
    """Something in the workspace that never answers, and the operation that meets it.

    `word` is one that only one question of the operation has in its command line.
    """

    name: str
    operation: str
    plant: str = ""
    word: str = ""
    script: str = ""

    def meet(self, hostile: Hostile) -> Done:
        hostile.plant(self.plant)
        met = hostile.fetch if self.operation == "fetch" else hostile.push
        if not self.word:
            done = met()
            hostile.sh('rm -f "$HOME/.gitconfig"')
            return done
        with imposter(hostile, self.word, self.script):
            return met()


def _fifo(name: str, plant: str, operation: str = "fetch") -> Silence:
    return Silence(f"a FIFO for {name}", operation, plant)


def _silent(operation: str, word: str) -> Silence:
    return Silence(f"no answer to {word}", operation, word=word, script="exec /bin/sleep 1000")


def _stopped(operation: str, word: str) -> Silence:
    return Silence(f"SIGSTOP for {word}", operation, word=word, script="kill -STOP $$")


SILENCES = [
    _fifo("config", "rm .git/config && mkfifo .git/config"),
    _fifo("config, on push", "rm .git/config && mkfifo .git/config", "push"),
    _fifo("HEAD", "rm .git/HEAD && mkfifo .git/HEAD"),
    _fifo("the home's config", 'mkfifo "$HOME/.gitconfig"'),
    _fifo("an included file", "git config include.path /workspace/evil/f && mkfifo ../evil/f"),
    _fifo("git itself", "rm -rf .git && mkfifo .git"),
    _silent("fetch", "rev-parse"),
    _silent("fetch", "for-each-ref"),
    _silent("fetch", "index-pack"),
    _silent("fetch", "update-ref"),
    _silent("push", "cat-file"),
    _silent("push", "pack-objects"),
    _stopped("fetch", "index-pack"),
    _stopped("push", "pack-objects"),
]


@pytest.fixture(scope="module")
def met(make_hostile: MakeHostile) -> dict[str, Done]:
    """What came of each silence. They are met side by side, because each takes its time."""
    waiting = list(SILENCES)
    done: dict[str, Done] = {}

    def work(hostile: Hostile) -> None:
        while waiting:
            silence = waiting.pop()
            done[silence.name] = silence.meet(hostile)
            hostile.check(done[silence.name])

    boxes = [make_hostile() for _ in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, boxes))
    for box in boxes:
        assert processes_of(box.helper) == []
    return done


@x86_64
@pytest.mark.parametrize("silence", SILENCES, ids=lambda silence: silence.name)
def test_what_does_not_answer_ends_the_operation_with_an_error(
    met: dict[str, Done], silence: Silence
) -> None:
    done = met[silence.name]
    assert done.ran.code in (1, 4, 124), done.ran.text
    noticed(done)


@x86_64
@pytest.mark.parametrize(
    "word", also_long("for-each-ref", "cat-file", long=("rev-parse", "update-ref"))
)
def test_endless_answers_are_cut(hostile: Hostile, word: str) -> None:
    """`yes` prints object ids, which is the worst that could be taken for an answer."""
    hostile.plant("")
    with imposter(hostile, word, f"exec /usr/bin/yes {'ab' * 20}"):
        done = [hostile.fetch(), hostile.push()]
    hostile.check(*done)
    noticed(*done)


# What the workspace says it is on, when the admin says `push` without a ref.
LIES = [
    "refs/heads/x:refs/heads/main",
    "refs/heads/main",
    "refs/heads/../../x",
    "refs/heads/--force",
    "+refs/heads/main",
    "refs/tags/v1",
    "refs/heads/x\\nrefs/heads/main",
    "refs/heads/\\033[2J",
]


@x86_64
@pytest.mark.parametrize("lie", one_in(3, LIES))
def test_a_lie_about_the_branch_pushes_nothing_that_the_policy_denies(
    hostile: Hostile, lie: str
) -> None:
    hostile.plant("")
    stage = hostile.box.stage
    before = stage.upstream_ref("refs/heads/main")
    with imposter(hostile, "symbolic-ref", f"printf '{lie}\\n'"):
        pushed = hostile.git("push", "app")
    hostile.check(pushed)
    assert pushed.ran.code in (1, 4), pushed.ran.text
    assert "\x1b" not in pushed.ran.text
    assert stage.upstream_ref("refs/heads/main") == before


@x86_64
def test_a_lie_about_an_object_pushes_no_other_object(hostile: Hostile) -> None:
    """It names an object of the upstream that the sandbox may see, and one that is nowhere."""
    hostile.plant("")
    head = hostile.box.stage.head
    for lie, allowed in ((head, True), ("12" * 20, False), ("HEAD", False), (head[:20], False)):
        branch = f"ci/{uuid.uuid4().hex[:10]}"
        with imposter(hostile, "cat-file", f"printf '{lie}\\n'"):
            pushed = hostile.git("push", "app", f"HEAD:{branch}")
        hostile.check(pushed)
        arrived = hostile.box.stage.upstream_ref(f"refs/heads/{branch}")
        assert arrived == (head if allowed else None), pushed.ran.text


def test_killed_processes_are_an_error(hostile: Hostile) -> None:
    hostile.plant("(while sleep 0.002; do pkill -KILL -x git; done) </dev/null >/dev/null 2>&1 &")
    try:
        done = [hostile.fetch(), hostile.push()]
    finally:
        hostile.sh("pkill -x sh; true")
    hostile.check(*done)


@pytest.fixture(scope="module")
def patient() -> Iterator[MakeHostile]:
    """Where the gate has all the time that a test could take: it gives nothing up by itself."""
    with opened() as stage, hostile_maker(stage) as make:
        (stage.paths.policies / "hostile.toml").write_text(POLICY)
        create_repository(stage.upstream.repositories, OTHER, {"other.txt": b"other\n"})
        yield make


@x86_64
def test_an_interrupted_operation_ends_all_its_processes(patient: MakeHostile) -> None:
    """Ctrl-C ends hostctl, and with it the gate's git of both uids; nothing is left half done."""
    hostile = patient()
    crafted(hostile, "endless")
    box = hostile.box
    with imposter(hostile, "pack-objects", f"echo > {HOME}/reached; {DRIP}"):
        hostile.sh(f"rm -f {HOME}/reached")
        running = box.stage.begin("git", box.name, "--", "push", "app", "HEAD:ci/never")
        eventually((hostile.state / "home" / "reached").exists, "the push begins")
        waits = "index-pack waits for the stream"
        eventually(lambda: len(processes_of(hostile.helper)) == 1, waits)
        running.send_signal(signal.SIGINT)
        assert outcome(running).code == 130
        eventually(lambda: processes_of(hostile.helper) == [], "the gate's git is gone")
        # The recorder, the session's shell, and the imposter: nothing of the gate.
        eventually(lambda: "sleep 1000" not in commands(hostile), "the workspace's git is gone")
    eventually(lambda: not (hostile.gate_directory / "incoming").exists(), "the gate is tidy")
    hostile.check()
    assert hostile.push().ran.code == 0


def commands(hostile: Hostile) -> str:
    found = processes_of(hostile.untrusted)
    return "\n".join(" ".join(each.words) for each in found)


@x86_64
def test_a_gate_that_waits_holds_up_no_other_sandbox(patient: MakeHostile) -> None:
    hostile, other = patient(), patient()
    other.plant("")
    crafted(hostile, "endless")
    box = hostile.box
    with imposter(hostile, "pack-objects", DRIP):
        running = box.stage.begin("git", box.name, "--", "push", "app", "HEAD:ci/slow")
        eventually(lambda: len(processes_of(hostile.helper)) == 1, "the push waits")
        fetched = other.fetch()
        assert fetched.ran.code == 0
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert outcome(running).code == 130


def test_operations_of_one_sandbox_come_one_after_the_other(hostile: Hostile) -> None:
    hostile.plant("")
    box = hostile.box
    words = [f"HEAD:ci/{uuid.uuid4().hex[:10]}" for _ in range(4)]
    pushes = [box.stage.begin("git", box.name, "--", "push", "app", w) for w in words]
    fetches = [box.stage.begin("git", box.name, "--", "fetch", "app") for _ in range(2)]
    for each in (*pushes, *fetches):
        done = outcome(each)
        assert done.code == 0, done.text
    for word in words:
        assert box.stage.upstream_ref(f"refs/heads/{word.partition(':')[2]}") is not None
