"""Logins that a user of this host has already: git and gh are asked, as that user. Of answers that
hold a secret only the exit status is read."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from gitmoat.wire.git.repository_name import Place
from gitmoat.wire.malformed import Malformed

_SECONDS = 30.0
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"  # of hostd's helpers, too
_PLAIN = re.compile(r"[A-Za-z0-9/._=:@ -]+")  # what a shell does not change
_HELPERS = (
    "git",
    "config",
    "--null",
    "--show-origin",
    "--get-regexp",
    r"^credential\.(.*\.)?helper$",
)
_GH = ("gh", "auth", "git-credential")
_GITHUB = "github.com"

# A command and its stdin, run as the user; its stdout, or None where it fails. Without `reading`
# stdout goes nowhere, and what comes of it is "".
Run = Callable[[Sequence[str], str, bool], str | None]


class Login(NamedTuple):
    """`host` is empty for a helper that is asked for every host."""

    host: str
    command: tuple[str, ...]
    source: str


def runner(user: pwd.struct_passwd, root: Path, seconds: float = _SECONDS) -> Run:
    """Runs programs as the user, never as root: what they read is
    the user's, and a helper is any program. It does not get our terminal, which it could type into
    (TIOCSTI)."""
    home, settings = (_found(root, path) for path in (user.pw_dir, "/etc/gitconfig"))
    runtime = f"/run/user/{user.pw_uid}"
    session = {
        "XDG_RUNTIME_DIR": runtime,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
    }
    environment = {
        "HOME": str(home),
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "GIT_CONFIG_SYSTEM": str(settings),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "GH_PROMPT_DISABLED": "1",
        **(session if Path(runtime).is_dir() else {}),
    }

    def run(command: Sequence[str], given: str, reading: bool) -> str | None:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if reading else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
                start_new_session=True,
            )
        except OSError:
            return None  # it is not installed
        with process:
            try:
                told, _ = process.communicate(given.encode(), seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return None
        return (told or b"").decode(errors="replace") if process.returncode == 0 else None

    return run


def _found(root: Path, path: str) -> Path:
    """Below the root if it is there, else the host's: --root is where our own files are."""
    below = root / path.lstrip("/")
    return below if below.exists() else Path(path)


def logins(run: Run, host: str) -> list[Login]:
    """gh's for this host (GitHub where none is named), and git's helpers for any host."""
    found: list[Login] = []
    if run(("gh", "auth", "token", "--hostname", host or _GITHUB), "", False) is not None:
        found.append(Login(host or _GITHUB, _GH, "gh is logged in there"))
    found += git_logins(run(_HELPERS, "", True) or "")
    unique = {(login.host, login.command): login for login in reversed(found)}
    return list(reversed(unique.values()))


def has_login(run: Run, host: str, command: Sequence[str]) -> bool:
    """Whether a helper has a login for the host. Its secret goes nowhere."""
    # git runs what follows `!` by a shell; the words are plain (helper_command).
    only = ("-c", "credential.helper=", "-c", f"credential.helper=!{' '.join(command)}")
    wanted = f"protocol=https\nhost={host}\n\n"
    return run(("git", *only, "credential", "fill"), wanted, False) is not None


def git_logins(text: str) -> list[Login]:
    """What `git config` prints: origin, and then key and helper, each with a NUL behind it."""
    found: list[Login] = []
    for origin, url, helper in _entries(text):
        host = _host(url)
        command = helper_command(helper)
        if host is None:
            continue
        if not helper:  # an empty one takes back those before it, as git does
            found = [login for login in found if login.host != host]
        elif command:
            source = f"a credential helper in {origin.removeprefix('file:')}"
            found.append(Login(host, command, source))
    return found


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    parts = text.split("\0")
    for origin, entry in zip(parts[::2], parts[1::2], strict=False):
        key, _, helper = entry.partition("\n")
        yield (
            origin,
            key.removeprefix("credential.").removesuffix("helper").removesuffix("."),
            helper,
        )


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
