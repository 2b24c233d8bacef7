"""What starts a container gets every option that hostd names, in its own form; none is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from hostctl.failure import Failure
from hostctl.setup.container_options import compose, devcontainer, docker, env
from hostd.docker.attaching import SEALING
from hostd.sandbox.environment import PLACES
from tests.stage.sources import ROOT

VARIABLES = {
    "GITMOAT_NETWORK": "container:gitmoat-3f9a0c21b7de-net",
    "GITMOAT_UID": "2000000005",
    "GITMOAT_DIR": "/run/gitmoat/sb/3f9a0c21b7de",
    "GITMOAT_SECCOMP": "/etc/gitmoat/seccomp.json",
}
_UID = VARIABLES["GITMOAT_UID"]
OPTIONS = [
    ["--network", VARIABLES["GITMOAT_NETWORK"]],
    ["--user", f"{_UID}:{_UID}"],
    *(list(each) for each in SEALING),
    ["--security-opt", "seccomp=/etc/gitmoat/seccomp.json"],
    ["--tmpfs", f"/tmp:rw,exec,nosuid,nodev,uid={_UID},gid={_UID}"],
    ["--mount", f"type=bind,source={VARIABLES['GITMOAT_DIR']},target=/run/gitmoat,readonly"],
    ["--env", "HOME=/tmp"],
    *(["--env", f"{name}={value}"] for name, value in PLACES.items()),
]


def example(name: str, reference: str) -> Any:
    """The example with the variables of `--format env` put in."""
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    for key, value in VARIABLES.items():
        text = text.replace(reference % key, value)
    return yaml.safe_load(text)


def test_variables_are_those_that_the_examples_name() -> None:
    assert dict(line.split("=", 1) for line in env("app", OPTIONS).splitlines()) == VARIABLES


def test_the_compose_example_is_what_is_printed_for_compose() -> None:
    (service,) = json.loads(compose("app", OPTIONS))["services"].values()
    shown = example("compose/compose.yaml", "${%s:?}")["services"]["app"]
    variables = dict(each.split("=", 1) for each in service.pop("environment"))
    assert {key: str(value) for key, value in shown.pop("environment").items()} == variables
    assert {"image", "command"} < shown.keys()
    assert service == {key: each for key, each in shown.items() if key not in ("image", "command")}


def test_the_devcontainer_example_is_what_is_printed_for_devcontainers() -> None:
    shown = example("devcontainer/devcontainer.json", "${localEnv:%s}")
    printed = json.loads(devcontainer("app", OPTIONS))
    for key in ("overrideCommand", "updateRemoteUserUID", "containerUser", "containerEnv"):
        assert printed[key] == shown[key]
    assert pairs(printed["runArgs"]) == pairs(shown["runArgs"])


def pairs(words: list[str]) -> list[list[str]]:
    """Each option with its value; their order means nothing."""
    found: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            found.append([word])
        else:
            found[-1].append(word)
    return sorted(found)


def test_docker_gets_the_words_as_they_are() -> None:
    words = docker("app", OPTIONS).replace(" \\\n", " ").split(" ")
    assert words == [word for option in OPTIONS for word in option]


@pytest.mark.parametrize("option", [["--new", "x"], ["--cap-drop"], ["--read-only", "false"]])
def test_an_option_of_another_version_is_refused_and_never_left_out(option: list[str]) -> None:
    with pytest.raises(Failure) as caught:
        compose("app", [*OPTIONS, option])
    assert caught.value.code == "C107"
