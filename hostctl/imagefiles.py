"""What an image says of package registries: only ever a suggestion to who uses the image.

Docker gives the files of a container that was made of the image and is never started. An image is
written by anybody: its files are read in memory, bounded, and only if they are plain.
"""

from __future__ import annotations

import io
import json
import re
import socket
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote

from attrs import evolve, frozen

from hostctl.failure import RUNTIME_FAILED, Failure
from hostctl.rootfiles import MOST_BYTES
from netpolicy.presets.places import Answer
from netpolicy.presets.table import PRESETS

_SOCKET = "/var/run/docker.sock"
_PATIENCE = 30.0
_MOST_FILES = 100
_ARCHIVE = MOST_BYTES + (64 << 10)  # a file at its largest, and what tar has around it
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,300}")
_CONTAINER = re.compile(r"[0-9a-f]{64}")


def image_suggestions(config: Path, image: str, names: Iterable[str]) -> dict[str, Answer]:
    """`config` is hostd.toml, which knows where Docker listens."""
    try:
        with _unstarted(_socket_in(config), image) as container:
            return {name: _answer(container, image, name) for name in names}
    except (OSError, HTTPException, ValueError) as error:
        raise Failure(
            "R113", "Docker does not answer as it should", type(error).__name__,
            "start Docker", RUNTIME_FAILED,
        ) from None  # fmt: skip


def _answer(container: _Container, image: str, name: str) -> Answer:
    texts: dict[str, str] = {}
    notes: list[str] = []
    for pattern in _patterns(name):
        folder, _, last = pattern.rpartition("/")
        asked = folder if "*" in last else pattern
        packed = container.archive(f"/{asked}")
        if packed is None:
            continue
        try:
            texts |= {f"{image}:/{path}": text for path, text in read_tar(packed, pattern)}
        except ValueError as error:
            notes.append(f"{image}:/{asked}: not read: {error}")
    found = PRESETS[name].read(texts)
    return evolve(found, notes=(*notes, *found.notes))


def _patterns(name: str) -> list[str]:
    """Files of fixed names and of fixed directories. Neither archives nor programs' sources: what
    is built into a tool is no configuration."""
    return [
        each
        for each in PRESETS[name].files
        if "!" not in each and "*" not in each.rpartition("/")[0] and not each.endswith(".py")
    ]


def read_tar(packed: bytes, pattern: str) -> list[tuple[str, str]]:
    """Path and text of the members that fit the pattern; ValueError for what is not plain text.

    Docker's archive of `/a/b` begins with `b`, and that of a directory has its members below.
    """
    if len(packed) > _ARCHIVE:
        raise ValueError("too large")
    above = pattern.split("/")[:-2] if "*" in pattern else pattern.split("/")[:-1]
    found: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= _MOST_FILES:
                    raise ValueError("too many files")
                path = "/".join([*above, member.name])
                if _fits(path, pattern) and not (member.isdir() and "*" in pattern):
                    found[path] = _text(archive, member)
    except (tarfile.TarError, EOFError, OverflowError) as error:
        raise ValueError(f"not an archive: {type(error).__name__}") from None
    return sorted(found.items())


def _fits(path: str, pattern: str) -> bool:
    """Also a name that can be shown: apt reads no other ones either."""
    same_depth = path.count("/") == pattern.count("/")
    return same_depth and fnmatchcase(path, pattern) and _NAME.fullmatch(path) is not None


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    """A link is not followed: whither it leads is the image's choice."""
    file = archive.extractfile(member) if member.isreg() and not member.issparse() else None
    if file is None:
        raise ValueError("not a plain file")
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError("too large")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("not text") from None


# Docker


@frozen
class _Container:
    """Made, never started."""

    socket: str
    id: str

    def archive(self, path: str) -> bytes | None:
        """A tar of what is there; one that is too long is cut, so that its reader sees it."""
        target = f"/containers/{self.id}/archive?path={quote(path, safe='')}"
        status, data = _ask(self.socket, "GET", target, most=_ARCHIVE + 1)
        return data if status == 200 else None


@contextmanager
def _unstarted(where: str, image: str) -> Iterator[_Container]:
    wanted = {"Image": image, "Entrypoint": ["-"], "Cmd": [], "NetworkDisabled": True}
    status, data = _ask(where, "POST", "/containers/create", json.dumps(wanted).encode())
    if status == 404:
        fix = f"docker pull {image}"
        why = "images are never pulled here"
        raise Failure("R114", f"Docker has no image {image} here", why, fix, RUNTIME_FAILED)
    answer = json.loads(data) if status == 201 else None
    made = str(answer.get("Id")) if isinstance(answer, dict) else ""
    if _CONTAINER.fullmatch(made) is None:
        raise ValueError(f"status {status}")
    try:
        yield _Container(where, made)
    finally:
        _ask(where, "DELETE", f"/containers/{made}?force=1&v=1")


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _ask(
    where: str, method: str, target: str, body: bytes | None = None, most: int = 1 << 20
) -> tuple[int, bytes]:
    connection = _UnixConnection(where)
    try:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(most)
    finally:
        connection.close()


def _socket_in(config: Path) -> str:
    try:
        told = tomllib.loads(config.read_text("utf-8")).get("docker", {}).get("socket", _SOCKET)
    except FileNotFoundError:
        return _SOCKET
    return str(told)
