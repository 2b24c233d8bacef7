"""A policy, upstreams and request heads for tests of the sidecar."""

from __future__ import annotations

import base64
import json

from gitmoat.wire.http.heads import RequestHead, RequestReader
from netpolicy.format.document import parse_policy
from netpolicy.format.writing import policy_to_mapping
from netpolicy.policy import Policy
from netpolicy.upstreams import Upstream, UpstreamTable
from sidecar.kind import Scope

POLICY_TEXT = """
version = 1
name = "test"
[[git]]
id = "app"
repos = ["hub:acme/app", "hub:acme/web-*"]
fetch = true
push = { branches = ["agent/**"], create = true, update = true }
who = ["helper", "untrusted"]
[[git]]
id = "gate"
repos = ["hub:acme/gate", "corp:Team/Tool"]
fetch = true
push = { branches = ["agent/**"], create = true, update = true }
[[git]]
id = "drop"
repos = ["hub:acme/drop"]
push = { branches = ["agent/**"], create = true }
who = ["helper", "untrusted"]
[[git]]
id = "never"
effect = "deny"
repos = ["hub:acme/web-secrets"]
"""

POLICY: Policy = parse_policy(POLICY_TEXT)
UPSTREAMS = UpstreamTable(
    (
        Upstream("hub", ("hub.example", "www.hub.example"), True),
        Upstream("corp", ("git.corp.example:8443",), False),
    )
)
SCOPE = Scope(POLICY, UPSTREAMS)


def head(raw: bytes) -> RequestHead:
    found = RequestReader().feed(raw)
    assert found is not None
    return found


def get(path: str, *headers: str) -> RequestHead:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1:418", *headers, "", ""]
    return head("\r\n".join(lines).encode())


def info_refs(repository: str, *headers: str, service: str = "git-upload-pack") -> RequestHead:
    return get(f"/{repository}/info/refs?service={service}", *headers)


def post(repository: str, service: str, *headers: str) -> RequestHead:
    lines = [
        f"POST /{repository}/{service} HTTP/1.1",
        "Host: 127.0.0.1:418",
        f"Content-Type: application/x-{service}-request",
        "Content-Length: 4",
        *headers,
        "",
        "",
    ]
    return head("\r\n".join(lines).encode())


def basic(token: str, username: str = "gitmoat") -> str:
    value = base64.b64encode(f"{username}:{token}".encode()).decode()
    return f"Authorization: Basic {value}"


def config_mapping(**changes: object) -> dict[str, object]:
    mapping: dict[str, object] = {
        "schema": "gitmoat.sidecar/1",
        "sandbox": "sb1",
        "session": "s1",
        "uids": {"sidecar": 61001, "helper": 61002, "untrusted": 61003},
        "helper_cgroups": None,
        "peer": "info",
        "broker_keys": [base64.b64encode(bytes(32)).decode()],
        "policy": policy_to_mapping(POLICY),
        "upstreams": UPSTREAMS.to_mapping(),
        "dial_cap": 16,
        "egress_cap": 8,
    }
    return mapping | changes


def config_bytes(**changes: object) -> bytes:
    return json.dumps(config_mapping(**changes)).encode()
