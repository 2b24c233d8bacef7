"""What hostd and the broker answer in the transcripts that are about hostctl alone."""

from __future__ import annotations

from tests.fakes.daemon import Message, Operation, run_locally

_INSPECTION: Message = {
    "ok": True,
    "schema": "gitmoat.inspect/1",
    "sandbox": "3f9a0c21b7de",
    "name": "ci",
    "runtime": "bwrap",
    "state": "running",
    "pid": 4711,
    "netns": 4026532480,
    "container": None,
    "epoch": 1,
    "uids": {"sidecar": 2000000000, "helper": 2000000001, "untrusted": 2000000002},
    "sidecar": {"pid": 4712},
    "session": {"id": "9d1f", "expires": 1900000000},
    "policy": {"name": "agents", "sha256": "ab12"},
    "workspace": "/workspace",
}
_ITEM = {"sandbox": "3f9a0c21b7de", "name": "ci", "runtime": "bwrap", "state": "running"}
_NOT_FOUND = {
    "code": "R103",
    "what": "there is no sandbox 'nobody'",
    "why": "no sandbox has this id or name",
    "fix": "`hostctl ls` lists the sandboxes",
    "exit": 4,
}
_NOT_SEALED = {
    "code": "R115",
    "what": "the container is not sealed",
    "why": "it has capabilities; it may get new privileges",
    "fix": "start it with the options of `hostctl attach --prepare`",
    "exit": 1,
}
_NO_CONTAINER = {"code": "R116", "what": "Docker has no such container", "why": "", "fix": ""}
HOSTD: dict[str, Operation | Message] = {
    "status": {"ok": True, "pid": 812, "version": "0.2.0", "sandboxes": 1},
    "ls": {"ok": True, "items": [{**_ITEM, "policy": "agents", "created": None}]},
    "inspect": lambda call: [
        _INSPECTION if call.request["sandbox"] == "ci" else {"error": _NOT_FOUND}
    ],
    "rm": lambda call: [
        {"ok": True, "sandbox": "3f9a0c21b7de"}
        if call.request["sandbox"] == "ci"
        else {"error": _NOT_FOUND}
    ],
    "start": {"ok": True, "sandbox": "3f9a0c21b7de"},
    "stop": lambda call: [
        {"ok": True} if call.request["sandbox"] == "ci" else {"error": _NOT_FOUND}
    ],
    "prepare": {
        "ok": True,
        "sandbox": "3f9a0c21b7de",
        "options": [
            ["--network", "container:gitmoat-3f9a0c21b7de-net"],
            ["--user", "2000000005:2000000005"],
            ["--cap-drop", "ALL"],
        ],
    },
    "attach": lambda call: [
        {"ok": True, "sandbox": "3f9a0c21b7de", "name": "app"}
        if call.request["container"] == "app-1"
        else {"error": _NO_CONTAINER if call.request["container"] == "ci" else _NOT_SEALED}
    ],
    "run": run_locally,
    "exec": run_locally,
    "pins": {"ok": True},
    "policies": {"ok": True, "replaced": [], "restart": []},
}
BROKER: dict[str, Operation | Message] = {
    "status": {"ok": True, "pid": 811, "address": "127.0.0.1:8443", "version": "0.2.0"},
    "session-ls": {
        "ok": True,
        "items": [{"session": "9d1f", "sandbox": "3f9a0c21b7de", "name": "ci", "state": "active"}],
    },
    "session-show": {"ok": True, "session": "9d1f", "name": "ci", "state": "active"},
    "session-revoke": {"ok": True, "revoked": ["9d1f"]},
    "cred-ls": {
        "ok": True,
        "items": [{"name": "gh", "type": "vault", "username": "x-access-token"}],
    },
    "cred-add": {"ok": True},
    "reload": {"ok": True},
}
