"""The environments that processes get: made from nothing, never from hostd's own."""

from __future__ import annotations

from collections.abc import Mapping

from hostd.runtimes.bwrap import GATE, HELPER, HOME, RUN

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"

UNTRUSTED: Mapping[str, str] = {
    "PATH": _PATH,
    "HOME": HOME,
    "TMPDIR": "/tmp",  # noqa: S108 - a tmpfs that only this room and uid have
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "LANG": "C.UTF-8",
    "GIT_CONFIG_SYSTEM": f"{RUN}/gitconfig",
    "GIT_TERMINAL_PROMPT": "0",
}

HELPER_SHELL: Mapping[str, str] = {"PATH": _PATH, "HOME": GATE, "LANG": "C.UTF-8"}

_GATE_GIT = {
    "PATH": "/usr/bin:/bin",
    "HOME": GATE,
    "XDG_CONFIG_HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "http",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "/bin/false",
    "GIT_PROXY_COMMAND": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "GIT_PAGER": "cat",
    "NO_PROXY": "*",
    "no_proxy": "*",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}

_GATE_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.logAllRefUpdates", "false"),
    ("core.attributesFile", "/dev/null"),
    ("credential.helper", ""),  # resets the list; ours is added below
    ("credential.useHttpPath", "true"),
    ("http.followRedirects", "false"),
    ("protocol.version", "2"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.gpgSign", "false"),
    ("transfer.bundleURI", "false"),
)


def gate_git(sidecar_uid: int) -> dict[str, str]:
    """The gate's git: no file of anybody's configuration, one credential helper, one protocol."""
    helper = (
        f"/usr/bin/python3 -IS {HELPER}/credential_helper/__main__.py --server-uid {sidecar_uid}"
    )
    settings = [*_GATE_SETTINGS, ("credential.helper", helper)]
    environment = dict(_GATE_GIT, GIT_CONFIG_COUNT=str(len(settings)))
    for number, (key, value) in enumerate(settings):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment
