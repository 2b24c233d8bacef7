"""Checks of the walls: no way out, nothing to find, nothing worth stealing."""

from __future__ import annotations

import http.client
import ssl
import tempfile
from pathlib import Path
from typing import Any

from hostctl.client import ask
from hostctl.defaults import broker_address
from hostctl.demo_authority import self_signed_pem
from hostctl.demo_httpd import basic
from hostctl.demo_probes import CONNECT, CREDENTIAL, SCAN, spellings
from hostctl.demo_stage import AGENT, ALLOWED, SPLIT, CheckFailed, Stage

_AT_ONCE = 2.0
_OUTSIDE: list[list[str | int]] = [
    ["4", "203.0.113.5", 443],
    ["6", "2001:db8::5", 443],
    ["udp4", "203.0.113.53", 53],
    ["udp6", "2001:db8::53", 53],
    ["4", "203.0.113.53", 53],
    ["name", "example.com", 443],
    ["4", "169.254.169.254", 80],
    ["6", "fd00:ec2::254", 80],
]


def no_way_out(stage: Stage) -> str:
    open_port: list[str | int] = ["4", "127.0.0.1", 419]
    host_port: list[str | int] = ["4", "127.0.0.1", stage.upstream.port]
    for sandbox in (AGENT, SPLIT):
        question = {"targets": [open_port, host_port, *_OUTSIDE]}
        control, *results = stage.probe(sandbox, CONNECT, question)["results"]
        if control["error"] is not None:
            raise CheckFailed(f"even the sidecar cannot be reached: {control['error']}")
        for result in results:
            _must_fail_at_once(result)
    return "IPv4, IPv6, DNS, metadata address and the host's loopback: all fail at once"


def _must_fail_at_once(result: dict[str, Any]) -> None:
    target = " ".join(str(part) for part in result["target"])
    if result["error"] is None:
        raise CheckFailed(f"{target} is reachable")
    if result["seconds"] > _AT_ONCE:
        raise CheckFailed(f"{target} fails only after {result['seconds']} s")


def password_is_nowhere(stage: Stage) -> str:
    question = {"patterns": spellings(stage.public)}
    files = processes = 0
    for sandbox, tier in ((AGENT, "untrusted"), (SPLIT, "untrusted"), (SPLIT, "helper")):
        answer = stage.probe(sandbox, SCAN, question, tier)
        if answer["found"]:
            raise CheckFailed(f"found as {tier} in {', '.join(answer['found'][:5])}")
        if not answer["seen"]["canary"]:
            raise CheckFailed("the scan did not even find its own canary")
        files += answer["seen"]["files"]
        processes += answer["seen"]["processes"]
    _not_in_responses(stage)
    return f"looked in {files} files, {processes} processes, git config, responses"


def _not_in_responses(stage: Stage) -> None:
    question = {"ports": [419], "path": _path(stage)}
    answer = stage.probe(AGENT, CREDENTIAL, question)
    if answer["419 without"] != 200:
        raise CheckFailed(f"port 419 answered {answer['419 without']}")
    if any(pattern in str(answer) for pattern in spellings(stage.public)):
        raise CheckFailed("found in a response of port 419")


def token_is_worthless(stage: Stage) -> str:
    """Good on 418 for the helper, and nowhere else."""
    question = {"credential": _path(stage), "ports": [418], "path": _path(stage)}
    helper = stage.probe(SPLIT, CREDENTIAL, question, "helper")
    token = helper["credential"].get("password", "")
    if not token or helper["418"] != 200 or helper["418 without"] != 401:
        raise CheckFailed(f"418 gave {helper['418']} with, {helper['418 without']} without it")
    stolen = {"token": token, "ports": [418, 419], "path": _path(stage)}
    thief = stage.probe(SPLIT, CREDENTIAL, stolen)
    if thief["418"] != 0 or thief["419"] != 404:
        raise CheckFailed(f"the untrusted uid got {thief['418']} on 418, {thief['419']} on 419")
    at_broker, at_upstream = _ask_broker(stage, token), _ask_upstream(stage, token)
    if at_broker == 200 or at_upstream != 401:
        raise CheckFailed(f"broker answered {at_broker}, upstream {at_upstream}")
    return "200 on 418 for the helper; 404 on 419, no TLS at the broker, 401 upstream"


def sidecar_cannot_connect(stage: Stage) -> str:
    answer = ask(stage.paths.hostd_socket, {"op": "selftest", "sandbox": AGENT})
    results = answer.get("results")
    if not isinstance(results, list) or not results:
        raise CheckFailed("hostd gave no results")
    open_ones = [str(result.get("name")) for result in results if result.get("denied") is not True]
    if open_ones:
        raise CheckFailed(f"not denied: {', '.join(open_ones)}")
    names = [str(result.get("name")) for result in results]
    return f"denied: {', '.join(names)}"


def _path(stage: Stage) -> str:
    return f"localhost:{stage.upstream.port}/{ALLOWED}.git"


def _ask_broker(stage: Stage, token: str) -> int:
    """As somebody with a key of their own and the stolen token; 0 when TLS already refuses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # an intruder does not care whom it talks to
    certificate, key = self_signed_pem()
    with tempfile.NamedTemporaryFile(dir=stage.root) as file:
        Path(file.name).write_bytes(certificate + key)
        context.load_cert_chain(file.name)
    host, _, port = broker_address(stage.paths).rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=context)
    return _status(connection, f"/git/demo/{ALLOWED}.git", basic("gitmoat", token))


def _ask_upstream(stage: Stage, token: str) -> int:
    context = ssl.create_default_context(cafile=str(stage.upstream.ca_file))
    port = stage.upstream.port
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    return _status(connection, f"/{ALLOWED}.git", basic("gitmoat", token))


def _status(connection: http.client.HTTPSConnection, path: str, authorization: str) -> int:
    target = f"{path}/info/refs?service=git-upload-pack"
    try:
        connection.request("GET", target, headers={"Authorization": authorization})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
