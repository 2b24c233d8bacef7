"""Logins are read off configuration; nothing is run and no token is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostctl.logins import Login, gh_logins, git_logins, helper_command, logins

GH = """
git.example.com:
    oauth_token: gho_marker
    users:
        bot:
            oauth_token: gho_marker
    git_protocol: https
ghe.corp.example:
    user: bot
localhost:
"""


def test_gh_names_its_hosts() -> None:
    found = gh_logins(GH)
    assert [login.host for login in found] == ["git.example.com", "ghe.corp.example"]
    assert "marker" not in repr(found)


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


def test_git_configuration_names_hosts_and_helpers() -> None:
    text = """
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
[include]
    path = other
"""
    assert git_logins(text, "/f") == [
        Login("git.example.com", ("git", "credential-store"), "a credential helper in /f"),
        Login("", ("git", "credential-cache"), "a credential helper in /f"),
    ]


def test_gh_counts_only_where_it_is_installed(tmp_path: Path) -> None:
    home, programs = tmp_path / "home", tmp_path / "bin"
    (home / ".config/gh").mkdir(parents=True)
    (home / ".config/gh/hosts.yml").write_text(GH)
    programs.mkdir()
    assert logins(home, tmp_path, [programs]) == []
    (programs / "gh").touch()
    assert len(logins(home, tmp_path, [programs])) == 2


def test_a_link_in_a_users_home_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('[credential "https://git.example.com"]\nhelper = store\n')
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").symlink_to(secret)
    assert logins(home, tmp_path / "etc", []) == []
