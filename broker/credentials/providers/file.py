"""A credential in a file. It is read for every use, so a rotation by `mv` needs no reload."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from attrs import define

from broker.config.tree import Tree
from broker.credentials.providers.credential import Credential, parse_password, unavailable

_LIMIT = 16 * 1024


def is_private(status: os.stat_result, uid: int, gid: int) -> bool:
    """Ours and closed to others, or root's and readable by our group only."""
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == uid:
        return mode in (0o400, 0o600)
    return status.st_uid == 0 and status.st_gid == gid and mode in (0o440, 0o640)


@define(eq=False)
class FileCredentials:
    tree: Tree
    path: Path
    username: str
    uid: int
    gid: int

    def credential(self) -> Credential:
        password = parse_password(self._read())
        if password is None:
            raise unavailable(
                f"{self.path} does not hold one line of printable ASCII",
                "write the token and nothing else into it",
            )
        return Credential(self.username, password)

    def _read(self) -> bytes:
        fix = f"chown {self.uid}:{self.gid} and chmod 0400, in a directory that uid may enter"
        try:
            data, status = self.tree.read(self.path, _LIMIT)
        except OSError as error:
            raise unavailable(f"{self.path}: {error.strerror}", fix) from None
        if not is_private(status, self.uid, self.gid):
            raise unavailable(f"{self.path} has an owner or mode that is too open", fix)
        return data
