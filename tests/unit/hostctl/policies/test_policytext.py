"""What is sent of a policy file: what is written in it, unless it has presets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitmoat.paths import Paths
from hostctl.control_client import REQUEST_LIMITS, line_of
from hostctl.failure import Failure
from hostctl.policies.policytext import policy_as_written
from netpolicy.format.document import MAX_TEXT

POLICY = """\
version = 1
name = "agents"
[[git]]
repos = ["hub:acme/**"]
push = { branches = ["agent/**"] }
[[egress]]
hosts = ["mirror.example"]
"""


def written(tmp_path: Path, text: str) -> object:
    file = tmp_path / "agents.toml"
    file.write_text(text)
    return policy_as_written(Paths(tmp_path), str(file))


def test_the_text_is_sent_as_it_is(tmp_path: Path) -> None:
    assert written(tmp_path, POLICY) == POLICY
    assert written(tmp_path, "not TOML [") == "not TOML ["


def test_presets_are_resolved_before(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        written(tmp_path, "version = 1\nname = 'x'\n[preset]\nnosuch = true")
    assert caught.value.code.startswith("P")
    assert "agents.toml" in caught.value.what


@pytest.mark.parametrize("key", ["preset", "'preset'", '"pr\\u0065set"', '"\\U00000070reset"'])
def test_a_preset_is_one_however_its_key_is_spelled(tmp_path: Path, key: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/npmrc").touch()
    with pytest.raises(Failure) as caught:
        written(tmp_path, f"version = 1\nname = 'x'\n[{key}]\nuse = ['npm']\n")
    assert caught.value.code == "P105"


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, (POLICY + "# a preset\n").encode())
    os.close(writer)
    sent = policy_as_written(Paths(tmp_path), f"/dev/fd/{reader}")
    os.close(reader)
    assert isinstance(sent, dict) and sent["name"] == "agents"


@pytest.mark.parametrize("character", ["é", "\N{EUROPEAN CASTLE}", '"', "\t"])
def test_the_longest_policy_fits_into_a_request(tmp_path: Path, character: str) -> None:
    for room in (MAX_TEXT, MAX_TEXT // 2):
        sent = written(tmp_path, f"{POLICY}#".ljust(room, character))
        assert len(line_of({"policy": sent})) < REQUEST_LIMITS["hostd"] * 3 // 4


def test_a_policy_that_is_not_there_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        policy_as_written(Paths(tmp_path), "nosuch")
    assert caught.value.code == "P102"
