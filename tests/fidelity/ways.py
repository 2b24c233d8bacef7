"""One script of git commands, run on three ways: without us, on port 419, and on port 418."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import uuid
from pathlib import Path
from typing import Protocol

from attrs import define, frozen

from hostctl.demo_repositories import git
from hostctl.demo_stage import Ran, Stage
from tests.live.boxes import Box

# Names and times are fixed: the same work has the same object ids on every way.
PRELUDE = """\
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='1700000100 +0000'
export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org GIT_COMMITTER_DATE='1700000100 +0000'
export LC_ALL=C GIT_TERMINAL_PROMPT=0 URL="$1" BASE="$2" WORK="$3"
mkdir -p "$WORK" && cd "$WORK" || exit 99
commit() { echo "$2" > "$1/$2" && git -C "$1" add "$2" && git -C "$1" commit -q -m "$2"; }
big() { head -c "$2" /dev/zero | openssl enc -aes-128-ctr -nosalt -pass pass:x -pbkdf2 > "$1" 2>&-; }
"""
# After the script, what it has left: refs and sound objects of every repository it made.
POSTLUDE = """
code=$?
echo "== state =="
for each in *; do
  test -d "$each" && git -C "$each" rev-parse --git-dir >/dev/null 2>&1 || continue
  echo "-- $each"
  git -C "$each" for-each-ref --format='%(refname) %(objectname)'
  git -C "$each" rev-parse -q --verify HEAD || echo "no HEAD"
  git -C "$each" fsck --full --strict --no-dangling 2>&1 || echo "fsck failed"
  git -C "$each" status --porcelain 2>/dev/null
done
cd / && rm -rf "$WORK"
exit $code
"""
_STATE = "== state ==\n"


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

    tier: str

    def run(self, script: str, repository: str) -> Ran: ...


@define(eq=False)
class Direct:
    """git on the host, with the upstream's own credential in a file of a throw-away HOME."""

    stage: Stage
    home: Path
    tier: str = "direct"

    def __attrs_post_init__(self) -> None:
        upstream = self.stage.upstream
        pair = base64.b64encode(f"{upstream.user}:{upstream.secret()}".encode()).decode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(self.home / ".gitconfig", flags, 0o600), "w") as file:
            file.write(
                f'[http "{upstream.url}/"]\n\textraHeader = Authorization: Basic {pair}\n'
                f"[http]\n\tsslCAInfo = {upstream.ca_file}\n"
                "[credential]\n\thelper =\n"
            )

    def run(self, script: str, repository: str) -> Ran:
        base = self.stage.upstream.url
        work = self.home / uuid.uuid4().hex
        done = subprocess.run(
            ["/bin/sh", "-c", PRELUDE + script, "fidelity", f"{base}/{repository}.git"]
            + [f"{base}/{self.tier}", str(work)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"},
            timeout=120,
            check=False,
        )
        out, err = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
        return Ran(done.returncode, out.replace(str(work), "WORK"), err.replace(str(work), "WORK"))


_HELPER_CONFIG = """\
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$HOME/fidelity.gitconfig"
cat > "$GIT_CONFIG_GLOBAL" <<END
[url "http://127.0.0.1:418/${4#https://}/"]
	insteadOf = $4/
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

    def run(self, script: str, repository: str) -> Ran:
        stage, helper = self.box.stage, self.tier == "helper"
        base = stage.upstream.url
        work = f"{'/gate' if helper else '/home/sandbox'}/{uuid.uuid4().hex}"
        ran = stage.hostctl(
            *("exec", "--as", "helper" if helper else "untrusted", self.box.name, "--"),
            *("/bin/sh", "-c", (_HELPER_CONFIG if helper else "") + PRELUDE + script, "fidelity"),
            *(f"{base}/{repository}.git", f"{base}/{self.tier}", work, base),
            timeout=120,
        )
        return Ran(ran.code, ran.out.replace(work, "WORK"), ran.err.replace(work, "WORK"))


def perform(way: Way, stage: Stage, script: str, name: str) -> Outcome:
    """Runs `script` against this way's copy of the repository `name`."""
    repository = f"{way.tier}/{name}"
    ran = way.run(f"({script}\n){POSTLUDE}", repository)
    out, _, state = ran.out.partition(_STATE)
    return Outcome(
        ran.code,
        _same(out, stage),
        _same(ran.err, stage),
        _same(state, stage),
        upstream_state(stage, repository),
    )


def upstream_state(stage: Stage, repository: str) -> str:
    path = str(stage.upstream.repositories / f"{repository}.git")
    refs = git("--git-dir", path, "for-each-ref", "--format=%(refname) %(objectname)")
    return refs + "\n" + git("--git-dir", path, "fsck", "--full", "--strict", "--no-dangling")


def _same(text: str, stage: Stage) -> str:
    """Without what must differ: the port in rewritten URLs, whose copy it is."""
    port = stage.upstream.port
    text = re.sub(rf"http://127\.0\.0\.1:41[89]/localhost:{port}/", f"{stage.upstream.url}/", text)
    text = text.replace(f":{port}/", ":PORT/")
    return re.sub(r"(?<=PORT/)(direct|agent|helper)/", "COPY/", text)
