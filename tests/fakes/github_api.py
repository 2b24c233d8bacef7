"""GitHub in small: its API for Apps and its git, on one TLS port, as Enterprise has it."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from email.utils import formatdate
from functools import cache
from typing import Any

import jwt
from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.fake_upstream import FakeUpstream, Talk, ok

APP, INSTALLATION = 4711, 99
_REFS = {
    b"git-upload-pack": ok(
        Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH
    ),
    b"git-receive-pack": ok(
        Service.RECEIVE_PACK,
        "advertisement",
        format_data(b"# service=git-receive-pack\n") + FLUSH + FLUSH,
    ),
}
_REPORT = ok(Service.RECEIVE_PACK, "result", format_data(b"unpack ok\n") + FLUSH)


@cache
def app_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def app_pem() -> str:
    return (
        app_key()
        .private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        .decode()
    )


@define(eq=False)
class GitHub:
    """`minted` are the tokens it gave, with what was asked; `good` those that git accepts."""

    upstream: FakeUpstream
    skew: float = 0.0  # its clock, ahead of ours
    lifetime: int = 3600
    minted: list[dict[str, Any]] = field(factory=list)
    good: dict[str, dict[str, Any]] = field(factory=dict)
    used: list[str] = field(factory=list)
    refusal: bytes | None = None
    silent: bool = False
    forgetful: bool = False
    mints: int = 0

    def __attrs_post_init__(self) -> None:
        self.upstream.on_request = self._request

    @property
    def now(self) -> float:
        return time.time() + self.skew

    def forget_tokens(self) -> None:
        self.good.clear()

    def _request(self, talk: Talk) -> None:
        line, _, rest = talk.head.partition(b"\r\n")
        headers = dict(one.split(b": ", 1) for one in rest.split(b"\r\n"))
        if line.startswith(b"POST /api/v3/app/installations/%d/access_tokens " % INSTALLATION):
            self._mint(talk, headers)
        else:
            self._git(talk, line, headers)

    def _mint(self, talk: Talk, headers: dict[bytes, bytes]) -> None:
        self.mints += 1
        if self.silent:
            return
        if self.refusal is not None:
            talk.say(self.refusal)
        elif not self._believes(headers[b"Authorization"].removeprefix(b"Bearer ")):
            talk.say(self._answer(401, {"message": "bad credentials"}))
        else:
            asked = json.loads(self.upstream.bodies[-1])
            token = f"ghs_marker{len(self.minted)}"
            self.minted.append(asked)
            self.good[token] = asked
            talk.say(self._answer(201, self._token(token, asked)))

    def _believes(self, token: bytes) -> bool:
        """As GitHub does: issued in the past, for ten minutes at most, by this App's key."""
        public = app_key().public_key().public_bytes(Encoding.PEM, PublicFormat.PKCS1)
        check = {"verify_exp": False, "verify_iat": False}
        try:
            claims = jwt.decode(token, public, algorithms=["RS256"], options=check)  # type: ignore[arg-type]
        except jwt.PyJWTError:
            return False
        lasts = claims["exp"] - self.now
        on_time: bool = claims["iat"] <= self.now and 0 < lasts <= 600
        return on_time and claims["iss"] == str(APP)

    def _token(self, token: str, asked: dict[str, Any]) -> dict[str, Any]:
        expires = datetime.fromtimestamp(self.now + self.lifetime, UTC)
        return {
            "token": token,
            "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "permissions": asked["permissions"],
            "repositories": [{"full_name": f"acme/{name}"} for name in asked["repositories"]],
        }

    def _answer(self, status: int, body: dict[str, Any]) -> bytes:
        data = json.dumps(body).encode()
        date = formatdate(self.now, usegmt=True).encode()
        head = b"HTTP/1.1 %d X\r\nDate: %s\r\nContent-Length: %d\r\n\r\n"
        return head % (status, date, len(data)) + data

    def _git(self, talk: Talk, line: bytes, headers: dict[bytes, bytes]) -> None:
        basic = base64.b64decode(headers[b"Authorization"].removeprefix(b"Basic ")).decode()
        user, _, token = basic.partition(":")
        assert user == "x-access-token"
        self.used.append(token)
        service = b"git-receive-pack" if b"receive-pack" in line else b"git-upload-pack"
        wanted = "write" if service == b"git-receive-pack" else "read"
        asked = None if self.forgetful else self.good.get(token)
        if asked is None or (wanted == "write" and asked["permissions"]["contents"] != "write"):
            talk.say(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        else:
            talk.say(_REFS[service] if line.startswith(b"GET") else _REPORT)
