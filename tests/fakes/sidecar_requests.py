"""What a client in a sandbox asks of the sidecar's ports, and answers of a fake broker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitmoat.net.http.incoming import Incoming
from gitmoat.wire.http.formatting import format_response

WEB_POLICY = 'version = 1\nname = "t"\n[[egress]]\nhosts = ["web.example", "*.cdn.example"]\n'

EGRESS = '[[egress]]\nid = "files"\nhosts = ["files.example"]\n'

APP = "hub.example/acme/app.git"

UPLOAD = b"application/x-git-upload-pack-result"
ADVERT = b"application/x-git-upload-pack-advertisement"


def info_refs(repository: str, *headers: str) -> bytes:
    target = f"/{repository}/info/refs?service=git-upload-pack"
    lines = [f"GET {target} HTTP/1.1", "Host: 127.0.0.1:418", *headers, "", ""]
    return "\r\n".join(lines).encode()


def upload(repository: str, body: bytes, *headers: str) -> bytes:
    lines = [
        f"POST /{repository}/git-upload-pack HTTP/1.1",
        "Host: 127.0.0.1:418",
        "Content-Type: application/x-git-upload-pack-request",
        f"Content-Length: {len(body)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def receive(repository: str, body: bytes) -> bytes:
    return upload(repository, body).replace(b"git-upload-pack", b"git-receive-pack")


def advertise(incoming: Incoming) -> None:
    incoming.reply(200, ((b"Content-Type", ADVERT),), b"refs\n")


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.fixture
def repositories(tmp_path: Path) -> Path:
    """acme/app with one commit on main; pushing is on."""
    root = tmp_path / "upstream"
    bare = root / "acme" / "app.git"
    bare.mkdir(parents=True)
    work = tmp_path / "seed"
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (
        ["git", "init", "-q", "--bare", "-b", "main", str(bare)],
        ["git", "-C", str(bare), "config", "http.receivepack", "true"],
        ["git", "init", "-q", "-b", "main", str(work)],
        ["git", "-C", str(work), *author, "commit", "-q", "--allow-empty", "-m", "one"],
        ["git", "-C", str(work), "push", "-q", str(bare), "main"],
    ):
        subprocess.run(command, check=True)
    return root


def opens(incoming: Incoming) -> None:
    incoming.tunnel(format_response(200, ()))


def question(number: int, name: str) -> bytes:
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    return number.to_bytes(2) + b"\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"
