"""What is sent of a policy file: what is written in it, unless only its reader can say."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostctl.failure import Failure
from hostctl.policyfile import load_policy
from hostctl.policytext import policy_as_written
from identity.paths import Paths
from netpolicy.document import policy_from_mapping

POLICY = """\
version = 1
name = "agents"
[[git]]
repos = ["hub:acme/**"]
push = { branches = ["agent/**"] }
[[egress]]
hosts = ["mirror.example"]
"""


def written(tmp_path: Path, text: str) -> dict[str, object]:
    file = tmp_path / "agents.toml"
    file.write_text(text)
    return policy_as_written(Paths(tmp_path), str(file))


def test_hostd_understands_it_as_hostctl_does(tmp_path: Path) -> None:
    sent = written(tmp_path, POLICY)
    assert sent["egress"] == [{"hosts": ["mirror.example"]}]
    assert policy_from_mapping(sent) == load_policy(tmp_path / "agents.toml")


@pytest.mark.parametrize(
    "text",
    [
        "version = ",
        "version = 1\nname = 'x'\nsince = 2020-01-01",
        "version = 1\nname = 'x'\nsince = nan",
        "x = " + "[" * 5000,
        "version = 1\nname = 'x'\n[preset]\nnosuch = true",
    ],
)
def test_what_cannot_be_sent_is_refused_by_the_reader_of_policies(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(Failure) as caught:
        written(tmp_path, text)
    assert caught.value.code.startswith("P")
    assert "agents.toml" in caught.value.what


def test_a_policy_that_is_not_there_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        policy_as_written(Paths(tmp_path), "nosuch")
    assert caught.value.code == "P102"
