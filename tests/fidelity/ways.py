"""Scripts of git commands, run on three ways: without us, on port 419, and on port 418."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest
from attrs import define, frozen

from tests.stage.boxes import Box
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import git
from tests.waiting import PATIENCE

# Names and times are fixed: the same work has the same object ids on every way.
_PRELUDE = """\
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='1700000100 +0000'
export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org GIT_COMMITTER_DATE='1700000100 +0000'
export LC_ALL=C GIT_TERMINAL_PROMPT=0
commit() { echo "$2" > "$1/$2" && git -C "$1" add "$2" && git -C "$1" commit -q -m "$2"; }
big() { perl -e 'srand 1; print pack "C*", map { rand 256 } 1..shift' "$2" > "$1"; }
state() {
  for each in *; do
    test -d "$each" && git -C "$each" rev-parse --git-dir >/dev/null 2>&1 || continue
    echo "-- $each"
    git -C "$each" for-each-ref --format='%(refname) %(objectname)'
    git -C "$each" rev-parse -q --verify HEAD || echo "no HEAD"
    git -C "$each" fsck --full --strict --no-dangling 2>&1 || echo "fsck failed"
    git -C "$each" status --porcelain 2>/dev/null
  done
}
"""
_JOB = """
export URL={url} BASE={base} WORK="$ROOT/{number}"
mkdir "$WORK" && cd "$WORK" && (
{script}
) >"$WORK.out" 2>"$WORK.err" </dev/null
echo $? > "$WORK.code"
state > "$WORK.state" 2>&1
cd "$ROOT" && rm -rf "$WORK"
"""
_TELL = """
/usr/bin/python3 -I -c 'if True:
    import json, os, sys
    told = {name: open(name, errors="replace").read() for name in os.listdir()}
    json.dump(told, sys.stdout)'
cd / && rm -rf "$ROOT"
"""


@frozen
class Job:
    """`repository` is the upstream's name of what the script knows as `$URL`."""

    script: str
    repository: str


@frozen
class Outcome:
    """What a user sees of a script, and what it did, the same on every way or not."""

    code: int
    out: str
    err: str
    state: str
    upstream: str


class Way(Protocol):
    """Runs scripts. `tier` is the first part of the names of its repositories."""

    @property
    def tier(self) -> str: ...
    @property
    def stage(self) -> Gitmoat: ...
    @property
    def root(self) -> str: ...
    def shell(self, script: str) -> Ran: ...


@define(eq=False)
class Direct:
    """git on the host, with the upstream's own credential in a file of a throw-away HOME."""

    stage: Gitmoat
    root: str
    tier: str = "direct"

    def __attrs_post_init__(self) -> None:
        upstream = self.stage.upstream
        pair = base64.b64encode(f"{upstream.user}:{upstream.password}".encode()).decode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(Path(self.root, ".gitconfig"), flags, 0o600), "w") as file:
            file.write(
                f'[http "{upstream.url}/"]\n\textraHeader = Authorization: Basic {pair}\n'
                f"[http]\n\tsslCAInfo = {upstream.ca_file}\n"
                "[credential]\n\thelper =\n"
            )

    def shell(self, script: str) -> Ran:
        done = subprocess.run(
            ["/bin/sh", "-s"],
            input=script.encode(),
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", "HOME": self.root, "GIT_CONFIG_NOSYSTEM": "1"},
            timeout=5 * PATIENCE,
            check=False,
        )
        out, err = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
        return Ran(done.returncode, out, err)


_HELPER_CONFIG = """\
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$HOME/fidelity.gitconfig"
cat > "$GIT_CONFIG_GLOBAL" <<END
[url "http://127.0.0.1:418/{host}/"]
	insteadOf = https://{host}/
[credential]
	helper = cache --socket /run/gitmoat/cred.sock
	useHttpPath = true
END
"""


@define(eq=False)
class Through:
    """git in a sandbox: the command's own on port 419, or the helper uid's on 418."""

    box: Box
    tier: str

    @property
    def stage(self) -> Gitmoat:
        return self.box.stage

    @property
    def root(self) -> str:
        return "/gate" if self.tier == "helper" else "/home/sandbox"

    def shell(self, script: str) -> Ran:
        helper = self.tier == "helper"
        host = self.stage.upstream.url.removeprefix("https://")
        config = _HELPER_CONFIG.format(host=host) if helper else ""
        return self.stage.hostctl(
            *("exec", "-i", "--as", "helper" if helper else "untrusted", self.box.name),
            *("--", "/bin/sh", "-s"),
            stdin=config + script,
            timeout=5 * PATIENCE,
        )


def perform(way: Way, jobs: Sequence[Job]) -> list[Outcome]:
    """Runs the jobs one after the other, in one shell: starting one takes longer than git."""
    root, base = f"{way.root}/{uuid.uuid4().hex}", way.stage.upstream.url
    script = f"ROOT={root}; mkdir $ROOT\n{_PRELUDE}"
    for number, job in enumerate(jobs):
        url = shlex.quote(f"{base}/{job.repository}.git")
        script += _JOB.format(url=url, base=f"{base}/{way.tier}", number=number, script=job.script)
    ran = way.shell(script + _TELL)
    told: dict[str, str] = json.loads(ran.expect_success(f"the scripts as {way.tier}"))
    return [_outcome(way, told, root, number, job) for number, job in enumerate(jobs)]


def selected(request: pytest.FixtureRequest, test: str, *names: str) -> list[tuple[Any, ...]]:
    """The parameters with which a test will run: nothing is done for cases that were left out."""
    items = [each for each in request.session.items if isinstance(each, pytest.Function)]
    chosen = [each.callspec.params for each in items if each.originalname == test]
    return [tuple(params[name] for name in names) for params in chosen]


def side_by_side(
    ways: Mapping[str, Way], jobs: Mapping[str, Sequence[Job]]
) -> dict[str, list[Outcome]]:
    """Each way works on repositories of its own, so none waits for another."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        running = {tier: pool.submit(perform, ways[tier], each) for tier, each in jobs.items()}
        return {tier: each.result() for tier, each in running.items()}


def _outcome(way: Way, told: dict[str, str], root: str, number: int, job: Job) -> Outcome:
    out, err, state = (
        _same(told[f"{number}.{part}"].replace(f"{root}/{number}", "WORK"), way.stage)
        for part in ("out", "err", "state")
    )
    code = int(told[f"{number}.code"])
    return Outcome(code, out, err, state, upstream_state(way.stage, job.repository))


def upstream_state(stage: Gitmoat, repository: str) -> str:
    path = str(stage.upstream.repositories / f"{repository}.git")
    refs = git("--git-dir", path, "for-each-ref", "--format=%(refname) %(objectname)")
    return refs + "\n" + git("--git-dir", path, "fsck", "--full", "--strict", "--no-dangling")


def _same(text: str, stage: Gitmoat) -> str:
    """Without what must differ: the port in rewritten URLs, whose copy it is."""
    port = stage.upstream.port
    text = re.sub(rf"http://127\.0\.0\.1:41[89]/localhost:{port}/", f"{stage.upstream.url}/", text)
    text = text.replace(f":{port}/", ":PORT/")
    return re.sub(r"(?<=PORT/)(direct|agent|helper)/", "COPY/", text)
