"""Rows 24 and 65: what the workspace sends as a pack is bounded in time, memory and disk.

The workspace's objects, packs and indexes are the command's, and so is the git process that
reads them: some of these streams no git would ever produce.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.adversary.hostile import CRAFTED, Done, Hostile, crafted, imposter, noticed
from tests.adversary.watching import Watch, peak_memory
from tests.fakes.long_cases import one_in
from tests.stage.boxes import HOME
from tests.stage.gitmoat import Gitmoat
from tests.stage.marks import x86_64

MIB = 1 << 20
SOME_PACK = f"{HOME}/some.pack"
SELDOM = 0.1  # the kernel keeps a peak until its process ends
MEMORY = 2048 * MIB  # of one git of the helper, which is where its address space ends


@contextmanager
def bounded(hostile: Hostile, stage: Gitmoat) -> Iterator[None]:
    """Whatever happens inside: nothing stays in the gate, nobody's memory explodes."""
    before = hostile.gate_octets()
    with Watch(hostile.helper, SELDOM) as watch:
        yield
    assert hostile.gate_octets() <= before + 256 * 1024
    assert not (hostile.gate_directory / "incoming").exists()
    assert watch.memory < MEMORY
    assert peak_memory(hostd(stage)) < 200 * MIB


def hostd(stage: Gitmoat) -> int:
    pid = json.loads(stage.hostctl("--json", "status").out)["hostd"]["pid"]
    assert isinstance(pid, int)
    return pid


def refused(done: Done, code: str) -> None:
    assert done.ran.code in (1, 3, 124), done.ran.text
    assert f"[{code}]" in done.ran.err, done.ran.text


def test_more_than_the_policy_allows_is_refused_before_the_upstream_hears_of_it(
    hostile: Hostile, stage: Gitmoat
) -> None:
    hostile.plant("head -c 20000000 /dev/urandom > big && git add big && git commit -q -m Big")
    with bounded(hostile, stage):
        pushed = hostile.push()
    hostile.check(pushed)
    refused(pushed, "G301")
    assert hostile.requests() == set()


@x86_64
@pytest.mark.long
def test_a_gigabyte_of_zeros_takes_little_memory(hostile: Hostile, stage: Gitmoat) -> None:
    """It is one megabyte as a pack, so it is carried; but nobody holds it unpacked."""
    crafted(hostile, "zeros")
    with bounded(hostile, stage), imposter(hostile, "pack-objects", f"exec /bin/cat {CRAFTED}"):
        pushed = hostile.git("push", "app", "HEAD:main")
    hostile.check(pushed)
    assert pushed.ran.code == 1


def test_refused_pushes_leave_nothing_behind(hostile: Hostile, stage: Gitmoat) -> None:
    """By the gate, by the broker's policy, and by a git that is killed half way."""
    make = "head -c 4000000 /dev/urandom > noise && git add noise && git commit -q -m Noise"
    with bounded(hostile, stage):
        for _ in range(3):
            hostile.plant(make)
            pushed = hostile.git("push", "app", "HEAD:main")
            assert pushed.ran.code == 1 and "(G201)" in pushed.ran.err
            hostile.check(pushed)


def test_an_accepted_push_is_kept_and_the_next_one_is_small(hostile: Hostile) -> None:
    hostile.plant("head -c 2000000 /dev/urandom > noise && git add noise && git commit -q -m One")
    before = hostile.gate_octets()
    branch = f"ci/{uuid.uuid4().hex[:10]}"
    assert hostile.git("push", "app", f"HEAD:{branch}").ran.code == 0
    kept = hostile.gate_octets()
    assert before + 2_000_000 < kept < before + 2_300_000
    hostile.sh("cd /workspace/app && git commit -q --allow-empty -m Two").expect_success("commit")
    assert hostile.git("push", "app", f"HEAD:{branch}").ran.code == 0
    assert hostile.gate_octets() < kept + 20_000


# What stands where a pack or an index should be; the commit to push is in that pack.
BROKEN = {
    "a flipped octet in the pack": "dd if=/dev/zero of=$pack bs=1 seek=40 count=8 conv=notrunc",
    "half a pack": "truncate -s 60 $pack",
    "an empty pack": ": > $pack",
    "a FIFO for a pack": "rm $pack && mkfifo $pack",
    "a FIFO for an index": "rm $idx && mkfifo $idx",
    "a directory for a pack": "rm $pack && mkdir $pack",
    "an endless device for a pack": "rm $pack && ln -s /dev/zero $pack",
    "an endless device for an index": "rm $idx && ln -s /dev/zero $idx",
    "random octets in the index": "dd if=/dev/urandom of=$idx bs=1 seek=8 count=900 conv=notrunc",
    "an index of another pack": "printf '\\377tOc\\0\\0\\0\\2' > $idx",
    "a FIFO for a loose object": "rm $pack $idx && mkfifo .git/objects/$two/$rest",
    "a FIFO for packed-refs": "rm -f .git/packed-refs && mkfifo .git/packed-refs",
}
REPACK = """
git repack -adq && chmod -R u+w .git/objects
pack=$(ls .git/objects/pack/*.pack) idx=$(ls .git/objects/pack/*.idx)
head=$(git rev-parse HEAD) && two=$(echo $head | cut -c1-2) rest=$(echo $head | cut -c3-)
mkdir -p .git/objects/$two
exec 2>/dev/null
"""


@pytest.mark.parametrize("case", one_in(3, sorted(BROKEN)))
def test_a_broken_store_of_objects_is_an_error_in_time(
    hostile: Hostile, stage: Gitmoat, case: str
) -> None:
    hostile.plant(REPACK + BROKEN[case])
    with bounded(hostile, stage):
        done = hostile.push()
    hostile.check(done)
    assert done.ran.code != 0
    noticed(done)


# What the process that was asked for a pack says instead.
STREAMS = {
    "nothing at all": "exit 0",
    "an error": "exit 3",
    "noise": "/usr/bin/head -c 3000000 /dev/urandom",
    "endless zeros": "exec /bin/cat /dev/zero",
    "a pack and no end": f"/bin/cat {SOME_PACK}; exec /bin/cat /dev/zero",
    "an end and no exit": "exec 1>&-; exec /bin/sleep 1000",
    "endless complaints": "exec 1>&-; exec /usr/bin/yes 1>&2",
    "text in front": f"echo hello; exec /bin/cat {SOME_PACK}",
}


@x86_64
@pytest.mark.parametrize("case", one_in(2, sorted(STREAMS)))
def test_a_stream_that_is_no_pack_is_refused_in_time(
    hostile: Hostile, stage: Gitmoat, case: str
) -> None:
    hostile.plant(f"git repack -adq && cp -f .git/objects/pack/*.pack {SOME_PACK}")
    with bounded(hostile, stage), imposter(hostile, "pack-objects", STREAMS[case]):
        pushed = hostile.push()
    hostile.check(pushed)
    refused(pushed, "G203")
    noticed(pushed)


@x86_64
def test_a_blob_that_claims_a_terabyte_ends_at_the_policys_limit(
    hostile: Hostile, stage: Gitmoat
) -> None:
    crafted(hostile, "endless")
    block = "printf '\\000\\377\\377\\000\\000'; /usr/bin/head -c 65535 /dev/zero"
    script = f"/bin/cat {CRAFTED}; while :; do {block}; done"
    with bounded(hostile, stage), imposter(hostile, "pack-objects", script):
        pushed = hostile.push()
    hostile.check(pushed)
    refused(pushed, "G301")


@x86_64
@pytest.mark.parametrize(
    ("kind", "code", "why"),
    [
        ("large", "G203", "Out of memory"),
        pytest.param("slow", "G203", "took too long", marks=pytest.mark.long),
        pytest.param("nested", "R105", "not complete", marks=pytest.mark.long),
    ],
)
def test_a_small_pack_that_unfolds_without_end_is_refused(
    hostile: Hostile, stage: Gitmoat, kind: str, code: str, why: str
) -> None:
    """By the helper's address space, by its time, and by its stack."""
    crafted(hostile, kind)
    with bounded(hostile, stage), imposter(hostile, "pack-objects", f"exec /bin/cat {CRAFTED}"):
        pushed = hostile.push()
    hostile.check(pushed)
    refused(pushed, code)
    assert why in pushed.ran.err
    assert hostile.requests() == set()


@x86_64
@pytest.mark.long
def test_a_deep_chain_of_deltas_is_no_harm(hostile: Hostile) -> None:
    """Taken, or left for the time it takes: which of the two is up to the machine."""
    crafted(hostile, "deep")
    script = f"exec /bin/cat {CRAFTED}"
    with Watch(hostile.helper, SELDOM) as watch, imposter(hostile, "pack-objects", script):
        pushed = hostile.push()
    hostile.check(pushed)
    assert pushed.ran.code == 0 or "took too long over" in pushed.ran.err, pushed.ran.text
    assert watch.memory < MEMORY


@x86_64
def test_a_stranger_who_keeps_the_pipe_open_keeps_nobody_waiting(
    hostile: Hostile, stage: Gitmoat
) -> None:
    """The process that was asked has ended; what it left running still holds its output."""
    hostile.plant("")
    git = "/usr/bin/git -C /workspace/app"
    pack = "pack-objects --revs --stdout --thin --delta-base-offset -q"
    script = (
        "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory "
        "GIT_CONFIG_VALUE_0=*\n"
        f"/usr/bin/setsid /bin/sleep 300 </dev/null &\n{git} {pack}\n"
    )
    with bounded(hostile, stage), imposter(hostile, "pack-objects", script):
        pushed = hostile.push()
    hostile.check(pushed)
    assert pushed.ran.code == 0, pushed.ran.text
