"""Logins are what git and gh say, run as their user; no secret is among what is read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hostctl.setup.logins import (
    Login,
    _found,
    git_logins,
    has_login,
    helper_command,
    logins,
    runner,
)
from tests.stage.owner import OWNER, home_of, log_in
from tests.waiting import eventually

CONFIG = """
[user]
    name = x
    helper = not-this
[credential "https://git.example.com"]
    helper = store
[credential "http://plain.example.com"]
    helper = store
[credential "https://one.example.com/acme/app"]
    helper = store
[Credential]
    Helper = cache
[credential "https://reset.example.com"]
    helper = store
    helper =
"""


@pytest.mark.parametrize(
    ("helper", "command"),
    [
        ("store", ("git", "credential-store")),
        ("cache --timeout=300", ("git", "credential-cache", "--timeout=300")),
        ("/usr/bin/helper --x", ("/usr/bin/helper", "--x")),
        ("!gh auth git-credential", ("gh", "auth", "git-credential")),
        ("!f() { echo password=x; }; f", ()),
        ("!helper $(id)", ()),
        ("", ()),
    ],
)
def test_a_helper_is_run_as_git_would_but_never_in_a_shell(
    helper: str, command: tuple[str, ...]
) -> None:
    assert helper_command(helper) == command


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root whose one user is nobody, who can reach it."""
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    (tmp_path / "etc").mkdir()
    log_in(tmp_path, "git.example.com")
    return tmp_path


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.root
def test_git_names_hosts_and_helpers_of_the_system_the_user_and_what_they_include(
    root: Path,
) -> None:
    home = home_of(root)
    more = home / "more"
    write(home / ".gitconfig", f"{CONFIG}[include]\npath = {more}\n")
    write(more, '[credential "https://more.example.com"]\nhelper = store\n')
    write(root / "etc/gitconfig", '[credential "https://all.example.com"]\nhelper = store\n')
    store = ("git", "credential-store")
    assert logins(runner(OWNER, root), "") == [
        Login("all.example.com", store, f"a credential helper in {root}/etc/gitconfig"),
        Login("git.example.com", store, f"a credential helper in {home}/.gitconfig"),
        Login("", ("git", "credential-cache"), f"a credential helper in {home}/.gitconfig"),
        Login("more.example.com", store, f"a credential helper in {more}"),
    ]


@pytest.mark.root
def test_what_is_run_is_the_users_and_has_nothing_of_ours(root: Path) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    seen = runner(OWNER, root)(
        ("sh", "-c", "id -u; id -g; id -G; ls -A /proc/self/fd | wc -w; ps -o tty= -p $$; env"),
        "",
        True,
    )
    os.close(read_end)
    os.close(write_end)
    assert seen is not None
    uid, gid, groups, descriptors, terminal, *environment = seen.splitlines()
    assert (int(uid), int(gid)) == (OWNER.pw_uid, OWNER.pw_gid)
    assert set(map(int, groups.split())) == set(os.getgrouplist("nobody", OWNER.pw_gid))
    assert int(descriptors) == 4  # with the one by which they are listed
    assert terminal.strip() == "?"
    assert not {line.partition("=")[0] for line in environment} & {"SUDO_USER", "GITHUB_TOKEN"}


def test_a_file_of_roots_is_not_read_for_the_user(root: Path) -> None:
    secret = root / "secret"
    write(secret, '[credential "https://git.example.com"]\nhelper = store\n', 0o600)
    (home_of(root) / ".gitconfig").symlink_to(secret)
    assert logins(runner(OWNER, root), "") == []


@pytest.mark.root
def test_a_helper_has_a_login_or_has_none_and_only_that_is_known(root: Path) -> None:
    run = runner(OWNER, root)
    asked: list[str | None] = []

    def noting(command: Sequence[str], given: str, reading: bool) -> str | None:
        asked.append(run(command, given, reading))
        return asked[-1]

    assert has_login(noting, "git.example.com", ("git", "credential-store"))
    assert not has_login(noting, "git.corp.example", ("git", "credential-store"))
    assert asked == ["", None]


def test_a_helper_that_never_answers_is_ended(root: Path) -> None:
    marker = "86399.25"
    run = runner(OWNER, root, seconds=0.2)
    assert run(("sh", "-c", f"sleep {marker} & wait"), "", False) is None
    found = ["pgrep", "-f", f"sleep {marker}"]
    eventually(lambda: subprocess.run(found, capture_output=True).returncode == 1, "its end")


@pytest.mark.parametrize(
    ("named", "asked"), [("", "github.com"), ("ghe.corp.example", "ghe.corp.example")]
)
def test_gh_is_asked_for_the_host_that_is_named_or_for_github(named: str, asked: str) -> None:
    def gh(command: Sequence[str], given: str, reading: bool) -> str | None:
        known = command == ("gh", "auth", "token", "--hostname", asked)
        assert not (known and reading)  # it prints the token
        return "" if known else None

    expected = Login(asked, ("gh", "auth", "git-credential"), "gh is logged in there")
    assert logins(gh, named) == [expected]


def test_an_entry_that_is_cut_short_says_nothing() -> None:
    assert git_logins("file:/f\0") == []


def test_where_the_root_has_no_files_of_the_host_the_hosts_own_are_read(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert _found(tmp_path, "/etc/gitconfig") == Path("/etc/gitconfig")
    (tmp_path / "etc/gitconfig").touch()
    assert _found(tmp_path, "/etc/gitconfig") == tmp_path / "etc/gitconfig"
