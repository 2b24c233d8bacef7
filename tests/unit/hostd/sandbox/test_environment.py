"""What the processes of a sandbox find in their environment: a closed list, with reasons."""

from __future__ import annotations

import pytest

from hostd.sandbox.environment import (
    HELPER_SHELL,
    UNTRUSTED,
    container_environment,
    foreign_environment,
    gate_git,
)

SIDECAR = 2000000000
GATE = gate_git(SIDECAR)


def settings(environment: dict[str, str]) -> list[tuple[str, str]]:
    """The configuration at command scope, in git's own order."""
    count = int(environment["GIT_CONFIG_COUNT"])
    return [
        (environment[f"GIT_CONFIG_KEY_{n}"], environment[f"GIT_CONFIG_VALUE_{n}"])
        for n in range(count)
    ]


SETTINGS = settings(GATE)
# Every variable of the gate's git, and what it is there for.
VARIABLES = {
    "PATH": "git finds its own programs and nobody else's",
    "HOME": "no ~/.gitconfig, no ~/.netrc",
    "XDG_CONFIG_HOME": "no git/config there either",
    "LANG": "messages in one language",
    "GIT_CONFIG_NOSYSTEM": "no /etc/gitconfig",
    "GIT_CONFIG_GLOBAL": "no configuration of a user",
    "GIT_ATTR_NOSYSTEM": "no /etc/gitattributes",
    "GIT_ALLOW_PROTOCOL": "http, which is what the sidecar speaks; over any configuration",
    "GIT_PROTOCOL_FROM_USER": "a URL is never as good as typed by somebody",
    "GIT_TERMINAL_PROMPT": "askpass off",
    "GIT_ASKPASS": "askpass off",
    "SSH_ASKPASS": "askpass off",
    "GIT_SSH_COMMAND": "ssh off",
    "GIT_PROXY_COMMAND": "git:// off",
    "GIT_EDITOR": "editor off",
    "GIT_PAGER": "pager off",
    "NO_PROXY": "no proxy of any setting",
    "no_proxy": "the same, as curl reads it",
    "GIT_NO_LAZY_FETCH": "a missing object is an error",
    "GIT_NO_REPLACE_OBJECTS": "an object is what its name says",
    "GIT_OPTIONAL_LOCKS": "no writing beside the point",
    "GIT_CONFIG_COUNT": "the settings below",
}
# What interfaces.md promises of the gate's git → the variables and keys that keep the promise.
PROMISED = {
    "GIT_CONFIG_NOSYSTEM=1": [("GIT_CONFIG_NOSYSTEM", "1")],
    "GIT_CONFIG_GLOBAL=/dev/null": [("GIT_CONFIG_GLOBAL", "/dev/null")],
    "GIT_ALLOW_PROTOCOL=http": [
        ("GIT_ALLOW_PROTOCOL", "http"), ("protocol.allow", "never"),
        ("protocol.http.allow", "always"),
    ],
    "hooks off": [("core.hooksPath", "/dev/null")],
    "fsmonitor off": [("core.fsmonitor", "false")],
    "ssh off": [("GIT_SSH_COMMAND", "/bin/false"), ("core.sshCommand", "/bin/false")],
    "askpass off": [
        ("GIT_ASKPASS", "/bin/false"), ("SSH_ASKPASS", "/bin/false"),
        ("core.askPass", "/bin/false"), ("GIT_TERMINAL_PROMPT", "0"),
    ],
    "editor off": [("GIT_EDITOR", "/bin/false"), ("core.editor", "/bin/false")],
    "pager off": [("GIT_PAGER", "cat"), ("core.pager", "cat")],
    "gc off": [("gc.auto", "0"), ("maintenance.auto", "false")],
    "the credential helper, with useHttpPath": [("credential.useHttpPath", "true")],
    "no redirect is followed": [("http.followRedirects", "false")],
    "no proxy": [("http.proxy", ""), ("NO_PROXY", "*"), ("no_proxy", "*")],
    "no submodule": [
        ("fetch.recurseSubmodules", "false"), ("submodule.recurse", "false"),
        ("push.recurseSubmodules", "no"),
    ],
    "no reflog, no attributes": [
        ("core.logAllRefUpdates", "false"), ("core.attributesFile", "/dev/null"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("promise", sorted(PROMISED))
def test_the_gates_git_has_what_the_interfaces_promise(promise: str) -> None:
    for name, value in PROMISED[promise]:
        if name in VARIABLES:
            assert GATE[name] == value
        else:
            assert (name, value) in SETTINGS


def test_the_gates_git_has_no_variable_without_a_reason() -> None:
    counted = {f"GIT_CONFIG_{kind}_{n}" for n in range(len(SETTINGS)) for kind in ("KEY", "VALUE")}
    assert set(GATE) == set(VARIABLES) | counted


def test_no_setting_is_given_twice_but_the_helper_which_resets_the_list_first() -> None:
    helpers = [value for key, value in SETTINGS if key == "credential.helper"]
    assert helpers[0] == ""
    assert len(helpers) == 2
    assert f"--server-uid {SIDECAR}" in helpers[1]
    assert helpers[1].startswith("/usr/bin/python3 -IS /helper/")
    others = [key for key, _ in SETTINGS if key != "credential.helper"]
    assert len(others) == len(set(others))


def test_paths_are_the_systems_own() -> None:
    own, tools, *systems = UNTRUSTED["PATH"].split(":")
    assert (own, tools) == ("/home/sandbox/.local/bin", "/usr/local/bin")
    for path in (GATE["PATH"], HELPER_SHELL["PATH"], ":".join(systems)):
        assert set(path.split(":")) <= {"/usr/bin", "/bin", "/usr/sbin", "/sbin"}


def test_nothing_is_taken_from_hostds_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSH", "x")
    monkeypatch.setenv("LD_PRELOAD", "x")
    assert gate_git(SIDECAR) == GATE


def test_an_image_says_where_its_programs_are_but_not_what_git_does() -> None:
    made = container_environment(
        [
            "PATH=/opt/node/bin:/bin",
            "NODE_VERSION=22",
            "LANG=de_DE.UTF-8",
            "EMPTY=",
            "NPM_CONFIG_GLOBALCONFIG=/etc/npmrc",
            "XDG_CONFIG_DIRS=/evil",
            "HOME=/root",
            "USER=root",
            "GIT_CONFIG_NOSYSTEM=1",
            "GIT_SSH_COMMAND=evil",
            "XDG_CONFIG_HOME=/evil",
            "https_proxy=http://evil",
            "ALL_PROXY=http://evil",
        ]
    )
    image = {
        "PATH": "/home/sandbox/.local/bin:/opt/node/bin:/bin",
        "NODE_VERSION": "22",
        "LANG": "de_DE.UTF-8",
        "EMPTY": "",
        "NPM_CONFIG_GLOBALCONFIG": "/etc/npmrc",
    }
    ours = {name: value for name, value in UNTRUSTED.items() if name not in image}
    assert made == image | ours


def test_a_container_of_others_has_no_home_of_ours() -> None:
    made = foreign_environment(["PATH=/opt/bin:/bin"])
    assert made["PATH"] == "/opt/bin:/bin"
    assert not [name for name, value in made.items() if value.startswith("/home/sandbox")]


def test_an_image_without_a_path_gets_the_usual_one() -> None:
    assert container_environment([])["PATH"] == UNTRUSTED["PATH"]
