"""The demo's git server: real git over real TLS, and its password in nobody's sight."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostctl.demo.git_server import Upstream
from tests.waiting import PATIENCE

PASSWORD = "correct-horse-battery"


@pytest.fixture
def upstream(root: Path) -> Iterator[Upstream]:
    made = Upstream(root / "upstream", PASSWORD)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def git(upstream: Upstream, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_SSL_CAINFO": str(upstream.certificate),
        "GIT_TERMINAL_PROMPT": "0",
        **{
            f"GIT_{who}_{what}": "t"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    return subprocess.run(
        ["git", *words], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )


def with_password(upstream: Upstream) -> str:
    return upstream.url.replace("https://", f"https://{upstream.user}:{PASSWORD}@")


def test_clone_and_a_chunked_push_go_through(upstream: Upstream, root: Path) -> None:
    head = upstream.create_repository("acme/app", {"README.md": b"hello\n"})
    clone = root / "clone"
    assert (
        git(upstream, "clone", f"{with_password(upstream)}/acme/app.git", str(clone)).returncode
        == 0
    )
    assert git(upstream, "-C", str(clone), "rev-parse", "HEAD").stdout.strip() == head
    (clone / "large").write_bytes(os.urandom(5_000_000))  # above http.postBuffer: sent in chunks
    git(upstream, "-C", str(clone), "add", "large")
    git(upstream, "-C", str(clone), "commit", "-qm", "large")
    done = git(upstream, "-C", str(clone), "push", "origin", "HEAD:refs/heads/agent/x")
    assert done.returncode == 0, done.stderr
    commit = git(upstream, "-C", str(clone), "rev-parse", "HEAD").stdout.strip()
    assert upstream.ref("acme/app", "refs/heads/agent/x") == commit
    assert upstream.ref("acme/app", "refs/heads/none") is None


@pytest.mark.parametrize("password", ["", "wrong"])
def test_nothing_without_the_password(upstream: Upstream, password: str) -> None:
    upstream.create_repository("acme/app", {"README.md": b"hello\n"})
    url = upstream.url.replace("https://", f"https://{upstream.user}:{password}@")
    assert git(upstream, "ls-remote", f"{url}/acme/app.git").returncode != 0
    assert {line.split()[0] for line in upstream.log()} == {"401"}


def test_the_password_is_not_in_argv_environment_or_log(upstream: Upstream) -> None:
    upstream.create_repository("acme/app", {"README.md": b"hello\n"})
    git(upstream, "ls-remote", f"{with_password(upstream)}/acme/app.git")
    process = Path("/proc", str(upstream.pid))
    log = (upstream.directory / "access.log").read_bytes()
    for data in (
        process.joinpath("cmdline").read_bytes(),
        process.joinpath("environ").read_bytes(),
        log,
    ):
        assert PASSWORD.encode() not in data
        assert b"Basic" not in data
    assert any(line.startswith("200 authorized GET ") for line in upstream.log())


def test_its_certificate_passes_a_strict_look(upstream: Upstream) -> None:
    """Python 3.13 looks so by default."""
    context = ssl.create_default_context(cafile=str(upstream.certificate))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with socket.create_connection(("localhost", upstream.port), PATIENCE) as plain:
        context.wrap_socket(plain, server_hostname="localhost").close()


def test_it_ends_with_the_process_that_started_it(root: Path) -> None:
    upstream = Upstream(root / "upstream", PASSWORD)
    upstream.start()
    process = upstream._process
    assert process is not None and process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
