"""Whether the git servers can be reached from here, and show a certificate that is trusted."""

from __future__ import annotations

import socket
import ssl
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gitmoat.paths import Paths
from hostctl.doctor.findings import Finding, good, note, problem
from hostctl.doctor.installation import broker_of
from hostctl.failure import Failure
from hostctl.setup.brokerfiles import configured

_SECONDS = 5


def upstreams(paths: Paths) -> Iterator[Finding]:
    try:
        tables = configured(paths, "upstream")
    except Failure as failure:
        yield problem("upstreams", failure.what, failure.fix or "correct the file")
        return
    if not tables:
        fix = "hostctl upstream add NAME --url https://HOST --cred NAME"
        yield note("upstreams", "no git server is configured", fix)
    for name, (_, values) in tables.items():
        yield _reach(name, values)


def _reach(name: str, values: Mapping[str, Any]) -> Finding:
    url = urlsplit(str(values.get("url", "")))
    host, port = url.hostname or "", url.port or 443
    try:
        context = ssl.create_default_context(cafile=values.get("ca_file"))
        with (
            socket.create_connection((host, port), _SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            return good("upstreams", f"{name}: {host}:{port} answers with {secure.version()}")
    except ssl.SSLCertVerificationError as error:
        fix = f"set ca_file of upstream {name} to the authority that signed its certificate"
        return problem("upstreams", f"{name}: {error.verify_message}", fix)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        fix = f"check the url of upstream {name} and this host's network: curl -v {url.geturl()}"
        return problem("upstreams", f"{name}: {host}:{port}: {why}", fix)


def credentials(paths: Paths) -> Iterator[Finding]:
    """Files that the broker would refuse to read; what is in them is not looked at."""
    try:
        tables = configured(paths, "provider")
    except Failure:
        return  # reported already
    broker = broker_of(paths)
    for name, (_, values) in tables.items():
        path = values.get("password_file")
        if isinstance(path, str):
            yield _judge(name, Path(path), broker)


def _judge(name: str, path: Path, broker: int) -> Finding:
    try:
        found = path.lstat()
    except OSError as error:
        what = f"{name}: {path}: {error.strerror}"
        return problem("credentials", what, f"put the token there, then chmod 0400 {path}")
    mode, owner = stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)
    own = owner[0] == broker and mode in (0o400, 0o600)
    shared = owner == (0, broker) and mode in (0o440, 0o640)
    if stat.S_ISREG(found.st_mode) and (own or shared):
        return good("credentials", f"{name}: only the broker can read {path}")
    fix = f"chown {broker}:{broker} {path} && chmod 0400 {path}"
    return problem("credentials", f"{name}: {path} has the wrong owner or mode", fix)
