"""`hostctl init` says what it found and what it would write, and writes nothing unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Hostctl
from tests.stage.owner import home_of, log_in, own_gitconfig

CONFIG = '[credential "https://git.example.com"]\n\thelper = store\n'


@pytest.fixture(autouse=True)
def isolated(root: Path) -> None:
    own_gitconfig(root)


def configure(root: Path, text: str = CONFIG) -> None:
    log_in(root, "git.example.com", "git.corp.example", "git.example.com:8443")
    (home_of(root) / ".gitconfig").write_text(text)


def test_the_proposal_is_shown_and_nothing_is_written(root: Path, hostctl: Hostctl) -> None:
    configure(root)
    done = hostctl("init", "--user", "nobody")
    assert done.returncode == 2
    assert "upstream example: https://git.example.com\n" in done.stderr
    assert "credential example: from `git credential-store`, run as nobody\n" in done.stderr
    assert "error: nothing was written: there is no terminal to ask on [C105]" in done.stderr
    assert not (root / "etc/gitmoat").exists()


def test_without_a_login_the_other_way_is_named(hostctl: Hostctl) -> None:
    done = hostctl("init", "--user", "nobody", "--yes")
    assert done.returncode == 4
    assert "error: no login was found for the user nobody [U105]" in done.stderr
    assert "fix: log in as that user, or: hostctl up, hostctl cred add" in done.stderr


def test_a_helper_without_a_login_is_not_proposed(root: Path, hostctl: Hostctl) -> None:
    configure(root, CONFIG.replace("git.example.com", "git.other.example"))
    done = hostctl("init", "--user", "nobody", "--yes")
    assert done.returncode == 4
    assert "error: no login for git.other.example was found" in done.stderr
    assert "why: `git credential-store`, run as nobody, gives none" in done.stderr
    assert not (root / "etc/gitmoat").exists()


def test_several_servers_need_a_choice(root: Path, hostctl: Hostctl) -> None:
    configure(root, CONFIG + CONFIG.replace("git.example.com", "git.corp.example"))
    done = hostctl("init", "--user", "nobody", "--yes")
    assert done.returncode == 2
    assert "which git server? there is: git.example.com, git.corp.example" in done.stderr
    chosen = hostctl("init", "--user", "nobody", "--url", "https://git.corp.example")
    assert "upstream corp: https://git.corp.example\n" in chosen.stderr


def test_a_helper_for_every_host_needs_the_server(root: Path, hostctl: Hostctl) -> None:
    configure(root, "[credential]\n\thelper = store\n")
    assert hostctl("init", "--user", "nobody", "--yes").returncode == 2
    named = hostctl("init", "--user", "nobody", "--url", "git.example.com:8443", "--name", "my")
    assert "upstream my: https://git.example.com:8443\n" in named.stderr


def test_misuse_is_told(hostctl: Hostctl) -> None:
    for words, part in (
        (["--user", "root"], "a user who is not root"),
        (["--user", "no-such-user-here"], "there is no user 'no-such-user-here'"),
        (["--user", "nobody", "--url", "http://git.example.com"], "is not a git server"),
    ):
        done = hostctl("init", *words)
        assert done.returncode == 2
        assert part in done.stderr
