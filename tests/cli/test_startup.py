"""hostctl starts fast: it imports only what the verb at hand needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import CHECKOUT, environment
from tests.fakes.daemon import FakeDaemon

OURS = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")}
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


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_import_what_is_small(word: str) -> None:
    ours = {name for name in modules(word) if name.partition(".")[0] in OURS}
    assert {name.partition(".")[0] for name in ours} == {"gitmoat", "hostctl"}
    assert not {name for name in ours if name.startswith("gitmoat.") and name.count(".") > 1}
    assert not modules(word) & (HEAVY | {"attr", "ssl", "asyncio", "subprocess"})


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
    assert "tomllib" not in loaded
    read = {name for name in loaded if name.startswith("netpolicy.")}
    assert read <= {"netpolicy.format", "netpolicy.format.units"}  # of --ttl
