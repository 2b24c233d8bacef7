"""A user of the host who is logged in to git servers: `nobody`, whose home is below the root."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

OWNER = pwd.getpwnam("nobody")


def home_of(root: Path) -> Path:
    return root / OWNER.pw_dir.lstrip("/")


def own_gitconfig(root: Path) -> None:
    """Where a root has none, the host's own is read."""
    file = root / "etc/gitconfig"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


def log_in(root: Path, *hosts: str) -> None:
    """git's `store` has a login for each of these hosts; nothing says yet that git shall ask it."""
    own_gitconfig(root)
    home = home_of(root)
    home.mkdir(parents=True, exist_ok=True)
    root.chmod(root.stat().st_mode | 0o011)  # the owner passes through
    stored = home / ".git-credentials"
    urls = (f"https://bot:secret@{host.replace(':', '%3a')}\n" for host in hosts)
    stored.write_text("".join(urls), encoding="ascii")
    stored.chmod(0o600)
    os.chown(stored, OWNER.pw_uid, OWNER.pw_gid)
