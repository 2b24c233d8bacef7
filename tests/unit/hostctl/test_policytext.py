"""What is sent of a policy file: what is written in it, unless it has presets."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostctl.failure import Failure
from hostctl.policytext import policy_as_written
from identity.paths import Paths

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


def test_a_policy_that_is_not_there_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        policy_as_written(Paths(tmp_path), "nosuch")
    assert caught.value.code == "P102"
