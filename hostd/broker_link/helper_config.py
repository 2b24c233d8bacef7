"""Finds the credential helper of a provider in the broker's configuration, which is root's.

The broker only names the provider. It cannot say which program is run, nor as which user.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from gitmoat.paths import Paths
from hostd.failures import Failed
from hostd.process.requests import Command, HostUser
from hostd.sandbox.uids import UidRange
from netpolicy.format.reading import PolicyError, open_table
from netpolicy.owner_helper import OwnerHelper, owner_helper

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_KIND = "git-credential"
_LIMIT = 1 << 20
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@frozen
class HelperFiles:
    paths: Paths
    uids: UidRange

    def command(self, provider: str) -> Command:
        """Raises Failed, with the reason, where there is none."""
        helper = self._find(provider)
        try:
            account = pwd.getpwnam(helper.user)
        except KeyError:
            raise _cannot(f"there is no user {helper.user}") from None
        if account.pw_uid == 0 or self.uids.index_of(account.pw_uid) is not None:
            raise _cannot(f"it would run as uid {account.pw_uid}")
        groups = os.getgrouplist(helper.user, account.pw_gid)
        return Command(
            argv=(*helper.command, "get"),
            environment=_environment(account),
            uid=account.pw_uid,
            person=HostUser(gid=account.pw_gid, groups=tuple(groups)),
        )

    def _find(self, provider: str) -> OwnerHelper:
        if _NAME.fullmatch(provider) is None:
            raise _cannot("that is not a provider's name")
        for document in self._documents():
            named = document.get("provider")
            table = named.get(provider) if isinstance(named, dict) else None
            if isinstance(table, dict) and table.get("type") == _KIND:
                return _parse({key: value for key, value in table.items() if key != "type"})
        raise _cannot("no such provider is configured")

    def _documents(self) -> Iterator[dict[str, Any]]:
        yield _read(self.paths.broker_toml)
        for path in sorted(self.paths.broker_d.glob("*.toml")):
            yield _read(path)


def _parse(values: dict[str, Any]) -> OwnerHelper:
    table = open_table(values)
    try:
        helper = owner_helper(table)
        table.close()
    except PolicyError as error:
        raise _cannot(str(error)) from None
    return helper


def _read(path: Path) -> dict[str, Any]:
    """Reads only a file that root alone can write."""
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o022:
                raise _cannot(f"{path} is not root's alone")
            return tomllib.loads(file.read(_LIMIT).decode())
    except (OSError, ValueError):
        raise _cannot(f"{path} cannot be read") from None


def _environment(account: pwd.struct_passwd) -> dict[str, str]:
    """The environment of a login, without what only a shell reads."""
    runtime = f"/run/user/{account.pw_uid}"
    session = {
        "XDG_RUNTIME_DIR": runtime,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
    }
    return {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        **(session if Path(runtime).is_dir() else {}),
    }


def _cannot(why: str) -> Failed:
    return Failed("U105", f"was not run: {why}")
