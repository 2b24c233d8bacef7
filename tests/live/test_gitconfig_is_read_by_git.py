"""The git config mounted into a sandbox, read by the real git."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostd.sandbox.gitconfig import without_ours
from netpolicy.author import Author
from netpolicy.upstreams import Upstream, UpstreamTable, gitconfig_for

TABLE = UpstreamTable(
    (
        Upstream("github", ("github.com", "ssh.github.com"), True),
        Upstream("corp", ("git.corp.example:8443",), False),
    )
)
AUTHOR = Author('Zoë "Z" \\ O\'Neil #1; x', "zoe@mail.example")
WORKSPACE = '/work "space\\'


def git(tmp_path: Path, *argv: str) -> str:
    config = tmp_path / "gitconfig"
    config.write_text(gitconfig_for(TABLE, 419, WORKSPACE, AUTHOR))
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_SYSTEM": str(config),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CEILING_DIRECTORIES": str(tmp_path.parent),
    }
    command = ["git", *argv]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.removesuffix("\n")


def test_every_spelling_of_an_upstream_is_rewritten_to_the_sidecar(tmp_path: Path) -> None:
    for prefix, upstream in TABLE.spellings():
        rewritten = git(tmp_path, "ls-remote", "--get-url", f"{prefix}acme/app.git")
        assert rewritten == f"http://127.0.0.1:419/{upstream.hosts[0]}/acme/app.git"


@pytest.mark.parametrize("url", ["https://github.com.evil.test/a/b", "https://other.example/a/b"])
def test_other_urls_stay_what_they_are(tmp_path: Path, url: str) -> None:
    assert git(tmp_path, "ls-remote", "--get-url", url) == url


def test_helpers_workspace_and_author_are_as_written(tmp_path: Path) -> None:
    assert git(tmp_path, "config", "--get-all", "credential.helper") == ""
    assert git(tmp_path, "config", "safe.directory") == WORKSPACE
    assert git(tmp_path, "config", "user.name") == AUTHOR.name
    assert git(tmp_path, "config", "user.email") == AUTHOR.email


def listed(path: Path, text: bytes) -> set[bytes]:
    """The sections of all settings that git finds."""
    path.write_bytes(text)
    command = ["git", "config", "--file", str(path), "--null", "--name-only", "--list"]
    done = subprocess.run(command, capture_output=True, check=False)
    return {name.partition(b".")[0] for name in done.stdout.split(b"\0") if b"." in name}


_PIECES = [b"[url \"x\"]", b"[core]", b"[a]", b"[a \"b\"]", b"insteadOf = y", b"b = c", b"\\",
           b"\n", b"\n", b"\r", b" ", b"\t", b"\"", b"#", b";", b"[", b"]", b"url", b".",
           b"\x0b", b"\x0c", b"\xef\xbb\xbf", b"\0"]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map(b"".join))
def test_git_finds_nothing_of_ours_in_what_is_kept(
    tmp_path_factory: pytest.TempPathFactory, found: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "kept"
    assert not listed(path, without_ours(found)) & {b"url", b"core"}
