"""Transcripts: what is typed, what is read, how it ends. `? N` is an exit code other than 0.

`python -m tests.cli.test_transcripts NAME` writes what hostctl says now into transcripts/NAME.txt.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import command, environment
from tests.fakes.daemon import FakeDaemon, Message, Operation, run_locally

_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
TRANSCRIPTS = Path(__file__).parent / "transcripts"

_INSPECTION: Message = {
    "ok": True,
    "schema": "gitmoat.inspect/1",
    "sandbox": "3f9a0c21b7de",
    "name": "ci",
    "runtime": "bwrap",
    "state": "running",
    "pid": 4711,
    "netns": 4026532480,
    "container": None,
    "epoch": 1,
    "uids": {"sidecar": 2000000000, "helper": 2000000001, "untrusted": 2000000002},
    "sidecar": {"pid": 4712},
    "session": {"id": "9d1f", "expires": 1900000000},
    "policy": {"name": "agents", "sha256": "ab12"},
    "workspace": "/workspace",
}
_ITEM = {"sandbox": "3f9a0c21b7de", "name": "ci", "runtime": "bwrap", "state": "running"}
_NOT_FOUND = {
    "code": "R103",
    "what": "there is no sandbox 'nobody'",
    "why": "",
    "fix": "`hostctl ls` lists the sandboxes",
    "exit": 4,
}
HOSTD: dict[str, Operation | Message] = {
    "status": {"ok": True, "pid": 812, "version": "0.1.0", "sandboxes": 1},
    "ls": {"ok": True, "items": [{**_ITEM, "policy": "agents", "created": None}]},
    "inspect": lambda call: [
        _INSPECTION if call.request["sandbox"] == "ci" else {"error": _NOT_FOUND}
    ],
    "rm": lambda call: [
        {"ok": True, "sandbox": "3f9a0c21b7de"}
        if call.request["sandbox"] == "ci"
        else {"error": _NOT_FOUND}
    ],
    "start": {"ok": True, "sandbox": "3f9a0c21b7de"},
    "stop": lambda call: [
        {"ok": True} if call.request["sandbox"] == "ci" else {"error": _NOT_FOUND}
    ],
    "run": run_locally,
    "exec": run_locally,
    "pins": {"ok": True},
    "policies": {"ok": True, "replaced": []},
}
BROKER: dict[str, Operation | Message] = {
    "status": {"ok": True, "pid": 811, "address": "127.0.0.1:8443", "version": "0.1.0"},
    "session-ls": {
        "ok": True,
        "items": [{"session": "9d1f", "sandbox": "3f9a0c21b7de", "name": "ci", "state": "active"}],
    },
    "session-show": {"ok": True, "session": "9d1f", "state": "active"},
    "session-revoke": {"ok": True, "revoked": ["9d1f"]},
    "cred-ls": {
        "ok": True,
        "items": [{"name": "gh", "type": "vault", "username": "x-access-token"}],
    },
    "cred-add": {"ok": True},
    "reload": {"ok": True},
}


class Step(NamedTuple):
    typed: str
    expected: str
    exit_code: int


def steps(text: str) -> Iterator[Step]:
    typed: str | None = None
    expected, code = "", 0
    for line in [*text.splitlines(), "$ "]:
        if line.startswith("$ "):
            if typed is not None:
                yield Step(typed, expected, code)
            typed, expected, code = line[2:], "", 0
        elif line.startswith("? "):
            code = int(line[2:])
        elif typed is not None:  # before the first command stands what the transcript is about
            expected += line + "\n"


def play(root: Path, step: Step) -> tuple[str, int]:
    program, *words = shlex.split(step.typed)
    assert program == "hostctl"
    done = subprocess.run(
        command(root, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        timeout=60,
        cwd=TRANSCRIPTS,
    )
    shown = _DIGEST.sub("SHA256", done.stdout.replace(str(root), "ROOT"))
    return shown.rstrip("\n"), done.returncode


@contextmanager
def world(root: Path, text: str) -> Iterator[None]:
    run = root / "run" / "gitmoat"
    (root / "etc" / "gitmoat" / "broker.d").mkdir(parents=True)
    with ExitStack() as stack:
        if "daemons down" not in text.splitlines()[0]:
            stack.enter_context(FakeDaemon(run / "hostd.sock", HOSTD))
            stack.enter_context(FakeDaemon(run / "broker-admin.sock", BROKER))
        yield


@pytest.mark.parametrize("file", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(file: Path, root: Path) -> None:
    text = file.read_text(encoding="utf-8")
    with world(root, text):
        for step in steps(text):
            shown, code = play(root, step)
            assert (step.typed, shown, code) == (
                step.typed,
                step.expected.rstrip("\n"),
                step.exit_code,
            )


def rewrite(file: Path, root: Path) -> None:
    """What hostctl says now, into the transcript; to be read before it is believed."""
    text = file.read_text(encoding="utf-8")
    lines = [text.splitlines()[0]]
    for step in steps(text):
        shown, code = play(root, step)
        lines += [f"$ {step.typed}", *shown.splitlines(), *([f"? {code}"] if code else []), ""]
    file.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    for name in sys.argv[1:]:
        root = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
        try:
            with world(root, (TRANSCRIPTS / f"{name}.txt").read_text(encoding="utf-8")):
                rewrite(TRANSCRIPTS / f"{name}.txt", root)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
