"""hostctl starts fast: it imports only what the verb at hand needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.fakes.daemon import FakeDaemon

HEAVY = {"twisted", "docker", "nacl", "cryptography", "OpenSSL", "zope"}


def modules(*words: str) -> set[str]:
    script = (
        "import sys; from hostctl.__main__ import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('\\n' + ' '.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], env=environment(), capture_output=True, text=True
    )
    return set(done.stderr.splitlines()[-1].split())


def test_help_and_version_import_next_to_nothing() -> None:
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(' '.join(sys.modules))"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    for words in (["--help"], ["--version"]):
        more = {name for name in modules(*words) if name.partition(".")[0] != "hostctl"}
        known = {"__future__", "identity", "identity.version"}
        assert more - set(bare.stdout.split()) <= known


@pytest.mark.parametrize(
    "verb", ["ls", "status", "run", "exec", "git", "demo", "audit", "cred", "cp", "logs"]
)
def test_no_verb_imports_anything_heavy_to_show_its_help(verb: str) -> None:
    assert not {name.partition(".")[0] for name in modules(verb, "--help")} & HEAVY


@pytest.mark.parametrize("words", [["--root", "/nonexistent", "ls"], ["explain", "G101"]])
def test_everyday_verbs_import_nothing_heavy_at_all(words: list[str]) -> None:
    assert not {name.partition(".")[0] for name in modules(*words)} & HEAVY


def test_a_policy_is_sent_without_loading_what_reads_policies(root: Path) -> None:
    policy = root / "p.toml"
    policy.write_text('version = 1\nname = "p"\n')
    with FakeDaemon(root / "run/gitmoat/hostd.sock", {"run": {"ok": True, "exit": 0}}) as daemon:
        loaded = modules("--root", str(root), "run", "--policy", str(policy), "--", "true")
    assert daemon.requests[0]["policy"] == policy.read_text()
    assert not {name for name in loaded if name.partition(".")[0] in ("netpolicy", "tomllib")}
