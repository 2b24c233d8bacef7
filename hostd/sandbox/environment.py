"""The environments of processes. Nothing is taken from hostd's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostd.sandbox.bwrap import GATE, HELPER, HOME, RUN
from netpolicy.nftables import CONNECT
from netpolicy.presets import tool_files

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
# /usr/local has nothing in it, but for what `runtime.show` of hostd.toml names.
_TOOLS_PATH = f"/usr/local/bin:{_PATH}"

# What a user installs for himself goes below HOME, which is the only place of programs that the
# command can write.
_OWN = f"{HOME}/.local"
_OWN_PATH = f"{_OWN}/bin"

_PROXY = f"http://127.0.0.1:{CONNECT}"
_NO_PROXY = "127.0.0.1,localhost"
_TOOLS = tool_files.places(RUN)

UNTRUSTED: Mapping[str, str] = {
    "PATH": f"{_OWN_PATH}:{_TOOLS_PATH}",
    "HOME": HOME,
    "TMPDIR": "/tmp",  # noqa: S108 - a tmpfs of this sandbox and uid alone
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "LANG": "C.UTF-8",
    "NPM_CONFIG_PREFIX": _OWN,  # `npm install -g`
    # Debian's pip installs nothing without it (PEP 668); here it can change nothing of the system.
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "GIT_CONFIG_SYSTEM": f"{RUN}/gitconfig",
    "GIT_TERMINAL_PROMPT": "0",
    "HTTPS_PROXY": _PROXY,
    "https_proxy": _PROXY,
    "http_proxy": _PROXY,
    "NO_PROXY": _NO_PROXY,
    "no_proxy": _NO_PROXY,
    **_TOOLS,
}

# Where git and other tools find the sidecar; the rest of the list is about our own file system.
PLACES: Mapping[str, str] = {
    name: value
    for name, value in UNTRUSTED.items()
    if name.startswith("GIT_") or name.lower().endswith("_proxy") or name in _TOOLS
}

# An image sets where its programs are, their language and how its package managers are configured;
# it does not set what git does, where programs find a user's files, or which proxy they use.
_NOT_OF_AN_IMAGE = ("GIT_", "SSH_", "XDG_", "HOME", "USER", "LOGNAME", "TMPDIR")
_LEFT_TO_AN_IMAGE = (
    "PATH",
    "LANG",
    "NPM_CONFIG_GLOBALCONFIG",
    "NPM_CONFIG_PREFIX",
    "PIP_BREAK_SYSTEM_PACKAGES",
)
_UNDER_AN_IMAGE = {name: UNTRUSTED[name] for name in _LEFT_TO_AN_IMAGE}
_OVER_AN_IMAGE = {name: UNTRUSTED[name] for name in UNTRUSTED if name not in _LEFT_TO_AN_IMAGE}


def container_environment(image: Iterable[str]) -> dict[str, str]:
    """From the image's ENV, `NAME=value` each."""
    given = dict(each.partition("=")[::2] for each in image)
    kept = {
        name: value
        for name, value in given.items()
        if not name.startswith(_NOT_OF_AN_IMAGE) and not name.lower().endswith("_proxy")
    }
    found = {**_UNDER_AN_IMAGE, **kept, **_OVER_AN_IMAGE}
    return {**found, "PATH": f"{_OWN_PATH}:{kept.get('PATH') or _TOOLS_PATH}"}


def foreign_environment(image: Iterable[str]) -> dict[str, str]:
    """Of a container that somebody else started: it has its own /tmp and none of our HOME."""
    found = container_environment(image)
    path = found["PATH"].removeprefix(f"{_OWN_PATH}:")
    found |= {"HOME": "/tmp", "PATH": path}  # noqa: S108 - the container's own
    return {name: value for name, value in found.items() if value != _OWN}


HELPER_SHELL: Mapping[str, str] = {"PATH": _PATH, "HOME": GATE, "LANG": "C.UTF-8"}

_GATE_GIT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
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

# Only the gate writes its repository; these settings hold even if something else did
# (git-config(1)). The sizes keep git within the memory of its processes.
_GATE_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "/bin/false"),
    ("core.gitProxy", "/bin/false"),
    ("core.askPass", "/bin/false"),
    ("core.editor", "/bin/false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "/bin/true"),
    ("core.logAllRefUpdates", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.fsync", "none"),  # all of it can be fetched again
    ("core.bigFileThreshold", "64m"),
    ("core.packedGitWindowSize", "64m"),
    ("core.packedGitLimit", "512m"),
    ("credential.helper", ""),  # resets the list; ours is added below
    ("credential.useHttpPath", "true"),
    ("credential.protectProtocol", "true"),
    ("credential.sanitizePrompt", "true"),
    ("http.followRedirects", "false"),
    ("http.proxy", ""),
    ("http.saveCookies", "false"),
    ("http.emptyAuth", "false"),
    ("http.delegation", "none"),
    ("protocol.allow", "never"),
    ("protocol.http.allow", "always"),
    ("protocol.version", "2"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.gpgSign", "false"),
    ("push.followTags", "false"),
    ("push.negotiate", "false"),
    ("gpg.program", "/bin/false"),
    ("pack.threads", "4"),
    ("pack.writeReverseIndex", "false"),  # what is kept of a push is a pack and its index
    ("transfer.bundleURI", "false"),
)


def gate_git(sidecar_uid: int) -> dict[str, str]:
    """The gate's git reads no configuration file, and has one credential helper and protocol."""
    helper = (
        f"/usr/bin/python3 -IS {HELPER}/credential_helper/__main__.py --server-uid {sidecar_uid}"
    )
    settings = [*_GATE_SETTINGS, ("credential.helper", helper)]
    environment = dict(_GATE_GIT, GIT_CONFIG_COUNT=str(len(settings)))
    for number, (key, value) in enumerate(settings):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment
