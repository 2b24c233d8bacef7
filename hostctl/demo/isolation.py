"""Checks of isolation: no connection out, no password to be found, no token that works elsewhere.

What `hostctl verify` measures is taken from it; the scan for the password and the use of a stolen
token are the demo's own.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from typing import Any

from hostctl.demo.git_server import basic
from hostctl.demo.inside import CREDENTIAL, SCAN, spellings
from hostctl.demo.stage import AGENT, ALLOWED, SPLIT, CheckFailed, Stage
from hostctl.setup.defaults import broker_address

Row = dict[str, Any]


def enforced(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows of a report, all of them as they must be; it is a failure if there is none."""
    if not rows:
        raise CheckFailed("`hostctl verify` measured nothing of this")
    for row in rows:
        if not row["ok"]:
            raise CheckFailed(f"{row['probe']} (as {row['as']}): {row['got']} [{row['code']}]")
    return rows


def credential_socket_refuses(stage: Stage) -> str:
    rows = enforced(stage.verified(SPLIT, "credential"))
    return f"no token for the command, one repository's for the helper: {len(rows)} controls"


def helper_port_refuses(stage: Stage) -> str:
    rows = enforced(stage.verified(SPLIT, "ports"))
    (refused,) = (row["got"] for row in rows if row["probe"] == "untrusted reaches 418")
    return f"{refused}; the helper connects"


def no_way_out(stage: Stage) -> str:
    groups = ("network", "egress", "dns", "metadata", "proxy")
    rows = [row for each in (AGENT, SPLIT) for row in enforced(stage.verified(each, *groups))]
    return f"IPv4, IPv6, DNS, metadata address, proxy: all {len(rows)} controls are enforced"


def sidecar_cannot_connect(stage: Stage) -> str:
    rows = enforced(stage.verified(AGENT, "sidecar"))
    return f"denied: {', '.join(row['probe'] for row in rows if row['as'] == 'sidecar')}"


def password_is_nowhere(stage: Stage) -> str:
    patterns = spellings(stage.public)
    files = processes = 0
    for sandbox, tier in ((AGENT, "untrusted"), (SPLIT, "untrusted"), (SPLIT, "helper")):
        answer = stage.probe(sandbox, SCAN, {"patterns": patterns}, tier)
        if answer["found"]:
            raise CheckFailed(f"found as {tier} in {', '.join(answer['found'][:5])}")
        if not answer["seen"]["canary"]:
            raise CheckFailed("the scan did not even find its own canary")
        files += answer["seen"]["files"]
        processes += answer["seen"]["processes"]
    question = {"token": None, "ports": [419], "path": _path(stage)}
    answered = stage.probe(AGENT, CREDENTIAL, question)["ports"]["419"]
    if answered[0][0] != 200:
        raise CheckFailed(f"port 419 answered {answered[0][0]}")
    if any(pattern in str(answered) for pattern in patterns):
        raise CheckFailed("found in a response of port 419")
    return f"looked in {files} files, {processes} processes, git config, responses"


def token_is_worthless(stage: Stage) -> str:
    """The token is accepted on 418 from the helper, and nowhere else."""
    question: Row = {"ports": [418], "path": _path(stage)}
    helper = stage.probe(SPLIT, CREDENTIAL, question, "helper")
    (with_it, _), (without, _) = helper["ports"]["418"]
    if not helper["token"] or with_it != 200 or without != 401:
        raise CheckFailed(f"418 gave {with_it} with, {without} without it")
    stolen = {"token": helper["token"], "ports": [418, 419], "path": _path(stage)}
    stolen_use = stage.probe(SPLIT, CREDENTIAL, stolen)["ports"]
    on_418, on_419 = (stolen_use[port][0][0] for port in ("418", "419"))
    if on_418 != 0 or on_419 != 404:
        raise CheckFailed(f"the untrusted uid got {on_418} on 418, {on_419} on 419")
    at_broker, at_upstream = (
        _ask_broker(stage, stolen["token"]),
        _ask_upstream(stage, stolen["token"]),
    )
    if at_broker == 200 or at_upstream != 401:
        raise CheckFailed(f"broker answered {at_broker}, upstream {at_upstream}")
    return "200 on 418 for the helper; 404 on 419, no TLS at the broker, 401 upstream"


def _path(stage: Stage) -> str:
    return f"localhost:{stage.upstream.port}/{ALLOWED}.git"


def _ask_broker(stage: Stage, token: str) -> int:
    """Asks with the stolen token and a key that is no sidecar's; 0 when TLS refuses it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # an attacker does not check whom it talks to
    context.load_cert_chain(stage.upstream.certificate, stage.upstream.key)
    return _status(broker_address(stage.paths), context, f"/git/demo/{ALLOWED}.git", token)


def _ask_upstream(stage: Stage, token: str) -> int:
    context = ssl.create_default_context(cafile=str(stage.upstream.certificate))
    return _status(f"localhost:{stage.upstream.port}", context, f"/{ALLOWED}.git", token)


def _status(place: str, context: ssl.SSLContext, path: str, token: str) -> int:
    connection = http.client.HTTPSConnection(place, timeout=10, context=context)
    target = f"{path}/info/refs?service=git-upload-pack"
    try:
        connection.request("GET", target, headers={"Authorization": basic("gitmoat", token)})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
