"""A sandbox in which the command is hostile, and what must hold of its git gate afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field, frozen

from hostctl.setup.daemons import clean_environment
from tests.stage.boxes import HOME, Box
from tests.stage.command import Ran, command
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, commit_upstream
from tests.waiting import PATIENCE, end, ends_with_its_test, eventually

CRAFTED = f"{HOME}/crafted.pack"

HERE = Path(__file__).parent
OTHER = "acme/other"
APP = "/workspace/app"
PRISTINE = f"{HOME}/pristine"
EXECUTIONS = f"{HOME}/executions"
INLINE = "/usr/bin/python3 -c 'import socket as s;s.socket(1).connect(chr(0)+chr(99))'"
_SETTING = """
set -e
export URL="$1" OTHER_URL="$2" GATE_URL="$3" GATE_OTHER="$4" CANARY="$5"
shift 5
export CANARY_FILE=/workspace/evil/canary GIT_TERMINAL_PROMPT=0
"""
_RESET = """
chmod -R u+rwX /workspace 2>/dev/null || true
for place in /workspace "$HOME" /tmp; do
    rm -rf "$place/objects" "$place/refs" "$place/HEAD" "$place/config"
done
rm -rf /workspace/app /workspace/evil "$HOME/.gitconfig"
mkdir /workspace/evil
cp -a "$HOME/pristine" /workspace/app
printf '#!/bin/sh\\n%s\\nexit 0\\n' "$CANARY" > "$CANARY_FILE"
chmod 755 "$CANARY_FILE"
cd /workspace/app
git commit -q --allow-empty -m "$(date +%N)"
"""


# The command may use git itself, so that a test can show what a planted exploit does to it.
POLICY = """\
version = 1
name = "hostile"
[[git]]
id = "app"
repos = ["demo:acme/app", "demo:acme/other"]
fetch = true
push = { branches = ["ci/**"], create = true, update = true }
who = ["helper", "untrusted"]
[limits]
git_requests_per_minute = 10000
git_concurrency = 16
push_max = "8MiB"
"""


@frozen
class Done:
    """What an operation of the gate did; one that hangs is given up by who started it."""

    ran: Ran


@define(eq=False)
class Session:
    """A shell in the sandbox that stays: an attack has many steps."""

    box: Box
    _process: subprocess.Popen[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        program = ("/usr/bin/python3", "-I", "-c", (HERE / "shell.py").read_text())
        hostctl = command(self.box.stage.root)
        process = subprocess.Popen(
            [*hostctl, "exec", "-i", self.box.name, "--", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
            start_new_session=True,
        )
        self._process = ends_with_its_test(process)

    def run(self, script: str, *words: str, timeout: float = PATIENCE) -> Ran:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"script": script, "words": words, "timeout": timeout})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return Ran(code, out, err)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        end(self._process)


@define(eq=False)
class Hostile:
    """Plants exploits in /workspace/app and has the admin use the gate on it."""

    box: Box
    state: Path
    helper: int
    untrusted: int
    session: Session
    upstream_mark: int = 0
    files: dict[str, str] = field(factory=dict)

    @property
    def gate_directory(self) -> Path:
        return self.state / "gate"

    def sh(self, script: str, *words: str) -> Ran:
        stage = self.box.stage
        place = f"localhost:{stage.upstream.port}"
        addresses = [f"http://127.0.0.1:418/{place}/{name}.git" for name in (ALLOWED, OTHER)]
        urls = (stage.url(ALLOWED), stage.url(OTHER), *addresses)
        return self.session.run(_SETTING + script, *urls, INLINE, *words)

    def plant(self, script: str) -> None:
        """A fresh workspace with a new commit, and then what the exploit does to it."""
        self.sh(_RESET + script).expect_success("planting")
        self.files = self.gate_files()
        self.forget()

    def control(self, script: str) -> Ran:
        """What git does to somebody who uses it in this workspace without precautions."""
        return self.sh(f"cd {APP}\n{script}")

    def forget(self) -> None:
        os.truncate(self.state / "home" / "executions", 0)
        self.upstream_mark = len(self.box.stage.upstream.log())

    def git(self, operation: str, *words: str) -> Done:
        return Done(self.box.git(operation, *words))

    def fetch(self) -> Done:
        return self.git("fetch", "app")

    def push(self, source: str = "HEAD") -> Done:
        return self.git("push", "app", f"{source}:ci/{uuid.uuid4().hex[:10]}")

    def ls_remote(self) -> Done:
        return self.git("ls-remote", "app")

    def executions(self) -> set[int]:
        """Uids that a planted program ran as."""
        listed = (self.state / "home" / "executions").read_text()
        return {int(line) for line in listed.split()}

    def requests(self) -> set[str]:
        """Repositories that the upstream was asked for since the plant."""
        log = self.box.stage.upstream.log()[self.upstream_mark :]
        return {"/".join(entry.request.split(" ")[1].split("/")[1:3]) for entry in log}

    def gate_files(self) -> dict[str, str]:
        """Every file of the gate's directory that no fetch and no push has to change."""
        found = {}
        for path in sorted(self.gate_directory.rglob("*")):
            name = str(path.relative_to(self.gate_directory))
            inside = name.partition("/")[2]
            if path.is_file() and not inside.startswith(("objects/", "refs/", "packed-refs")):
                found[name] = f"{path.lstat().st_mode:o} {_digest(path)}"
            elif path.is_symlink() or not (path.is_file() or path.is_dir()):
                found[name] = "strange"
        return found

    def gate_octets(self) -> int:
        return sum(p.lstat().st_size for p in self.gate_directory.rglob("*") if p.is_file())

    def check(self, *done: Done) -> None:
        """The promise of rows 56 to 61, whatever was planted."""
        assert self.helper not in self.executions()
        assert self.requests() <= {f"{ALLOWED}.git"}
        assert self.gate_files() == self.files
        for each in done:
            assert each.ran.code == 0 or _clear(each.ran), each.ran.text

    def attack(self) -> list[Done]:
        """All three operations; ls-remote must work even when the workspace is in ruins."""
        done = [self.fetch(), self.push(), self.ls_remote()]
        self.check(*done)
        assert done[-1].ran.code == 0
        return done


def noticed(*done: Done) -> None:
    """The gate saw by itself that this leads nowhere; it did not use up all the time it had."""
    for each in done:
        assert "gave up after" not in each.ran.err, each.ran.text


def _clear(ran: Ran) -> bool:
    """An error of ours with its code, or git's own."""
    ours = re.search(r"^error: .+ \[[A-Z][0-9]{3}\]$", ran.err, re.MULTILINE)
    return bool(ours) or "fatal: " in ran.err or "rejected" in ran.err


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def make_hostile(box: Box) -> Hostile:
    """The box's command is the recorder; it has cloned both repositories."""
    found = box.inspect()
    state = box.stage.paths.hostd_state / "sandboxes" / found["sandbox"]
    uids = found["uids"]
    hostile = Hostile(box, state, uids["helper"], uids["untrusted"], Session(box))
    eventually((state / "home" / "executions").exists, "the recorder")
    prepare = f"cd {APP}; echo work > work.txt; git add work.txt; git checkout -q -b ci/work"
    hostile.sh(f"{prepare}; git commit -q -m Work; cp -a {APP} {PRISTINE}").expect_success("commit")
    # A plant is always behind the upstream: a fetch has objects and refs to write.
    commit_upstream(box.stage, f"refs/heads/news-{uuid.uuid4().hex[:6]}", uuid.uuid4().hex)
    return hostile


def start_hostile(stage: Gitmoat, *words: str) -> Hostile:
    name = f"t-{uuid.uuid4().hex[:10]}"
    repositories = [word for each in (ALLOWED, OTHER) for word in ("--repo", stage.url(each))]
    recorder = ["/usr/bin/python3", "-I", "-c", (HERE / "recorder.py").read_text(), EXECUTIONS]
    ran = stage.hostctl(
        *("run", "-d", "--name", name, *words, *repositories, "--", *recorder), timeout=PATIENCE
    )
    ran.expect_success("hostctl run")
    return make_hostile(Box(stage, name))


_IMPOSTER = """
printf '%s' "$2" > "$HOME/imposter.sh" && rm -f "$HOME/imposter.log"
python3 -c "$1" "$3" "$HOME/imposter.sh" < /dev/null > "$HOME/imposter.log" 2>&1 &
echo $!
until grep -q ready "$HOME/imposter.log"; do sleep 0.05; done
"""


@contextmanager
def imposter(hostile: Hostile, word: str, script: str) -> Iterator[None]:
    """While it lasts, the sandbox's `git … WORD …` of the gate are this script instead."""
    program = (HERE / "imposter.py").read_text()
    pid = hostile.sh(_IMPOSTER, program, script, word).expect_success("an imposter")
    try:
        yield
    finally:
        hostile.sh(f'kill {pid}; rm -f "$HOME/.gitconfig"').expect_success("its end")


MakeHostile = Callable[..., Hostile]


@contextmanager
def hostile_maker(stage: Gitmoat) -> Iterator[MakeHostile]:
    made: list[Hostile] = []

    def make(*words: str) -> Hostile:
        made.append(start_hostile(stage, *(words or ("--policy", "hostile"))))
        return made[-1]

    try:
        yield make
    finally:
        for each in made:
            each.session.close()
            each.box.remove()


def crafted(hostile: Hostile, kind: str) -> None:
    """One of `packs.py` is in the sandbox, and its commit is what the workspace is at."""
    hostile.plant("")
    make = f'python3 -c "$1" {kind} {CRAFTED}'
    commit = hostile.sh(make, (HERE / "packs.py").read_text()).expect_success("packing")
    if commit:
        # A file with the commit's name is all that git needs to say that it is there.
        path = f".git/objects/{commit[:2]}"
        own = ".git/objects/$(git rev-parse HEAD | sed 's,^..,&/,')"
        put = f"mkdir -p {path} && cp -f {own} {path}/{commit[2:]}"
        hostile.sh(f"cd {APP} && {put} && echo {commit} > .git/refs/heads/ci/work")
