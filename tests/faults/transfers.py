"""Clones and pushes that have begun and are not over, to be interrupted."""

from __future__ import annotations

import subprocess

from tests.stage.boxes import HOME, Box
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import make_large, receiving
from tests.waiting import eventually

_MIB = 1 << 20
LARGE = "play/large"
LARGE_MIB = 150
PUSHED = "acme/pushed"  # its own: what others clone stays small
_UNPACKED = ("-c", "core.compression=0", "-c", "pack.window=0")
_POLICY = """\
version = 1
name = "play"
[[git]]
id = "play"
repos = ["demo:play/*"]
fetch = true
who = ["helper", "untrusted"]
"""


def prepare(stage: Gitmoat) -> None:
    (stage.paths.policies / "play.toml").write_text(_POLICY)
    make_large(stage, LARGE, LARGE_MIB)


def begin_clone(box: Box) -> subprocess.Popen[bytes]:
    """One that has begun to bring objects."""
    url = box.stage.url(LARGE)
    process = box.begin("git", *_UNPACKED, "clone", "--no-checkout", "-q", url, f"{HOME}/big")
    packs = box.path(f"{HOME}/big/.git/objects/pack")

    def begun() -> bool:
        assert process.poll() is None, outcome(process)
        return any(path.stat().st_size > 2 * _MIB for path in packs.glob("tmp_pack_*"))

    eventually(begun, "the clone to begin")
    return process


def begin_push(box: Box, branch: str) -> subprocess.Popen[bytes]:
    """One of which the upstream has some, and not all."""
    script = (
        "cd /workspace && git config core.bigFileThreshold 1k && git config core.compression 0 &&"
        " head -c 100000000 /dev/urandom | split -b 1000000 && git add . && git commit -q -m Big"
    )
    box.sh(script).expect_success("git commit")
    words = ("push", box.stage.url(PUSHED), f"HEAD:refs/heads/{branch}")
    process = box.begin("git", "-C", "/workspace", *_UNPACKED, *words)

    def begun() -> bool:
        assert process.poll() is None, outcome(process)
        return receiving(box.stage, PUSHED) > _MIB

    eventually(begun, "the push to arrive")
    return process
