"""Where transcripts are played: nobody there, daemons that answer by script, or the real ones.

A transcript's first line begins with the name of its world. Those that run share one Gitmoat.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import Factory, define

from tests.cli.scripted import BROKER, HOSTD
from tests.fakes.daemon import FakeDaemon
from tests.stage.gitmoat import opened
from tests.stage.instance import Instance, make_instance
from tests.stage.owner import log_in
from tests.stage.repositories import create_repository

TRANSCRIPTS = Path(__file__).parent / "transcripts"
_NUMBERS = (
    "pid|netns|records|expires|created|issued|began|since|time|launcher|zygote|seq|ms|"
    "sidecar|helper|untrusted"
)
# What differs is shown as something of the same kind and width: transcripts stay readable.
_DIFFERS = (
    (r"\b[0-9a-f]{64}\b", "SHA256"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "2026-01-02T03:04:05"),
    (r"(\d\d:\d\d:\d\d)\.\d+", r"\1.678"),
    (r"[0-9A-Za-z+/_-]{43}=", "Rk1Yc3VwcG9zZWQgdG8gYmUgYSBwdWJsaWMga2V5ISE="),
    (r"\b[0-9a-f]{40}\b", "4debddd13a7b9bcec28a289997d14187a3800b4c"),
    (r"\b[0-9a-f]{24}\b", "9ecd2e12b7c102452b694b1c"),
    (r"\b[0-9a-f]{16}\b", "944db31ea2e65c95"),
    (r"\b[0-9a-f]{12}\b", "3f9a0c21b7de"),
    (r"\bpid \d+", "pid 605"),
    (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:8443"),
    (r"\b\d+ records", "56 records"),
    (rf'("(?:key_)?(?:{_NUMBERS})": )[\d.]+', r"\g<1>1"),
    (r"((?:pid|netns|uids\.\w+): +)\d+", r"\g<1>1"),
    (r"\b2000\d{6}\b", "2000000005"),
    (r'"(boot|kernel|machine|python)": "[^"]*"', r'"\1": "[...]"'),
    (r"\b\d+[sm](?= ago| +\d+h)", "9s"),
    (r"\b7h5\dm\b", "7h59m"),
)  # fmt: skip
_IN_SCRIPT = 1  # scripted answers have numbers that are meant


@define(eq=False)
class TypedIn:
    """A root, a directory to type in, and names for what differs from one time to the next."""

    root: Path
    directory: Path
    real: bool = False
    names: dict[str, str] = Factory(dict)

    def here(self, text: str) -> str:
        for shown, ours in self.names.items():
            text = text.replace(shown, ours)
        return text

    def shown(self, text: str) -> str:
        text = text.replace(str(self.root), "ROOT").replace(str(self.directory), "HERE")
        for name, ours in self.names.items():
            text = text.replace(ours, name)
        for pattern, name in _DIFFERS if self.real else _DIFFERS[:_IN_SCRIPT]:
            text = re.sub(pattern, name, text)
        return text


@contextmanager
def typing_place() -> Iterator[Path]:
    """A directory with the transcripts' policies, and a secret in a file."""
    path = Path(tempfile.mkdtemp(prefix="gmt-", dir="/tmp"))
    try:
        for file in TRANSCRIPTS.glob("*.toml"):
            shutil.copy(file, path)
        (path / "token.txt").write_text("not-a-secret\n")
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def quiet_world(text: str) -> Iterator[TypedIn]:
    """Without daemons, or with those that answer by script."""
    with ExitStack() as stack:
        directory = stack.enter_context(typing_place())
        root = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
        stack.callback(shutil.rmtree, root)
        (root / "etc" / "gitmoat" / "broker.d").mkdir(parents=True)
        (root / "etc" / "pip.conf").touch()  # else the host's own is read
        if not text.startswith("# daemons down"):
            run = root / "run" / "gitmoat"
            stack.enter_context(FakeDaemon(run / "hostd.sock", HOSTD))
            stack.enter_context(FakeDaemon(run / "broker-admin.sock", BROKER))
        yield TypedIn(root, directory)


@contextmanager
def fresh_world() -> Iterator[TypedIn]:
    """Configured, with a login to find, and not started."""
    instance: Instance = make_instance()
    config = '[credential "https://git.example.com"]\n\thelper = store\n'
    (instance.root / "etc" / "gitconfig").write_text(config)
    log_in(instance.root, "git.example.com")
    try:
        with typing_place() as directory:
            yield TypedIn(instance.root, directory, real=True)
    finally:
        instance.remove()


@contextmanager
def running_world() -> Iterator[TypedIn]:
    """Broker, hostd and a git server that wants a password."""
    with opened() as made, typing_place() as directory:
        files = {"notes": b"first\n", "test.sh": b"echo all tests pass\n"}
        create_repository(made.upstream.repositories, "acme/site", files)
        (directory / "password.txt").write_text(made.upstream.password + "\n")
        shutil.copy(made.upstream.ca_file, directory / "ca.pem")
        names = {"localhost:PORT": f"localhost:{made.upstream.port}"}
        yield TypedIn(made.root, directory, real=True, names=names)
