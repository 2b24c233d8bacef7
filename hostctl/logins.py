"""Logins that the owner of this host has already: read off configuration, nothing is run."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from gitwire.errors import Malformed
from gitwire.repository import Place
from hostctl.rootfiles import MOST_BYTES

_GH_HOST = re.compile(r"^([A-Za-z0-9.-]+):[ \t]*$", re.MULTILINE)
_SECTION = re.compile(r"^[ \t]*\[([^\]]*)\][ \t]*$")
_CREDENTIAL = re.compile(r'credential(?:[ \t]+"([^"]*)")?', re.IGNORECASE)
_HELPER = re.compile(r"^[ \t]*helper[ \t]*=[ \t]*(.*?)[ \t]*$", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9/._=:@ -]+")  # what a shell would leave as it is


class Login(NamedTuple):
    """`host` is empty for a helper that is asked for every host."""

    host: str
    command: tuple[str, ...]
    source: str


def logins(home: Path, system: Path, programs: Iterable[Path]) -> list[Login]:
    """`system` is the directory of the system's configuration, `programs` those of PATH."""
    found: list[Login] = []
    if any((folder / "gh").is_file() for folder in programs):
        found += gh_logins(text_below(home, ".config/gh/hosts.yml") or "")
    configs = ((system, "gitconfig"), (home, ".config/git/config"), (home, ".gitconfig"))
    for folder, name in configs:
        found += git_logins(text_below(folder, name) or "", str(folder / name))
    unique = {(login.host, login.command): login for login in reversed(found)}
    return list(reversed(unique.values()))


def gh_logins(text: str) -> list[Login]:
    """The hosts at the left margin of gh's file; the tokens below them are not looked at."""
    hosts = [host.lower() for host in _GH_HOST.findall(text)]
    return [
        Login(host, ("gh", "auth", "git-credential"), "gh is logged in there")
        for host in hosts
        if _is_host(host)
    ]


def git_logins(text: str, source: str) -> list[Login]:
    found: list[Login] = []
    for url, helper in _helpers(text):
        host = _host(url)
        command = helper_command(helper)
        if host is None:
            continue
        if not helper:  # an empty one takes back those before it, as git does
            found = [login for login in found if login.host != host]
        elif command:
            found.append(Login(host, command, f"a credential helper in {source}"))
    return found


def helper_command(helper: str) -> tuple[str, ...]:
    """A helper as git would run it, without a shell; empty where that needs one."""
    if not helper or _PLAIN.fullmatch(helper.removeprefix("!")) is None:
        return ()
    if helper.startswith("!"):
        return tuple(helper[1:].split())
    words = helper.split()
    return (
        tuple(words) if words[0].startswith("/") else ("git", f"credential-{words[0]}", *words[1:])
    )


def _helpers(text: str) -> Iterator[tuple[str, str]]:
    """URL (empty for every host) and helper, in the file's order."""
    url: str | None = None
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section is not None:
            matched = _CREDENTIAL.fullmatch(section[1].strip())
            url = None if matched is None else (matched[1] or "")
        elif url is not None and (helper := _HELPER.match(line)):
            yield url, helper[1].strip('"')


def _host(url: str) -> str | None:
    """None for a section that is of no use here: not https, or of one repository only."""
    if not url:
        return ""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
    except ValueError:
        return None
    usable = parts.scheme == "https" and parts.path in ("", "/") and "@" not in parts.netloc
    return parts.netloc.lower() if usable and _is_host(parts.netloc.lower()) else None


def _is_host(text: str) -> bool:
    try:
        Place(text)
    except Malformed:
        return False
    return "." in text


def text_below(directory: Path, name: str) -> str | None:
    """None for what is not there, not plain, not text, or too long; no link is followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    *folders, last = name.split("/")
    try:
        here = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for folder in folders:
            below = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        with os.fdopen(os.open(last, flags, dir_fd=here), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(MOST_BYTES + 1)
        return data.decode("utf-8") if len(data) <= MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(here)
