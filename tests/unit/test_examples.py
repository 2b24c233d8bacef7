"""The examples name every option that `hostctl attach --prepare` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostd.docker.attaching import SEALING
from hostd.sandbox.environment import PLACES

EXAMPLES = Path(__file__).parents[2] / "examples"
COMPOSE = {
    "--cap-drop": "cap_drop: [ALL]",
    "--security-opt": "- no-new-privileges",
    "--ipc": "ipc: private",
    "--cgroupns": "cgroup: private",
    "--read-only": "read_only: true",
    "--memory": "mem_limit: 4g",
    "--pids-limit": "pids_limit: 4096",
    "--ulimit": "nproc: 4080",
    "--oom-score-adj": "oom_score_adj: 500",
}
BOTH = ("/etc/gitmoat/seccomp.json", "-net", "/run/gitmoat", "GIT_CONFIG_SYSTEM", "GITMOAT_UID")


@pytest.mark.parametrize("name", sorted(PLACES))
def test_both_files_say_where_the_sidecar_is(name: str) -> None:
    about = json.loads((EXAMPLES / "devcontainer" / "devcontainer.json").read_text())
    assert about["containerEnv"][name] == PLACES[name]
    compose = (EXAMPLES / "compose" / "compose.yaml").read_text().replace('"', "")
    assert f"      {name}: {PLACES[name]}\n" in compose


def test_the_devcontainer_is_json_and_has_every_option() -> None:
    text = (EXAMPLES / "devcontainer" / "devcontainer.json").read_text()
    words = json.loads(text)["runArgs"]
    for option in SEALING:
        place = words.index(option[0]) if option[0] != "--security-opt" else 0
        assert option[-1] in words[place:], option
    assert all(each in text for each in BOTH)


@pytest.mark.parametrize("option", SEALING, ids=lambda option: option[0])
def test_the_compose_file_has_every_option(option: tuple[str, ...]) -> None:
    text = (EXAMPLES / "compose" / "compose.yaml").read_text()
    assert COMPOSE[option[0]] in text
    assert all(each in text for each in BOTH)
