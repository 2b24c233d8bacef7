"""What is at /run/gitmoat of a policy is that of the policy in force."""

from __future__ import annotations

import json
from pathlib import Path

from hostd.sandbox.policies import write_policy
from netpolicy.format.document import parse_policy


def test_the_files_are_those_of_the_policy_in_force(tmp_path: Path) -> None:
    def write(index: str) -> None:
        write_policy(tmp_path, parse_policy(f'version = 1\nname = "p"\n[index]\n{index}\n'))

    write('pip = "https://old.example/"\nnpm = "https://old.example/"')
    assert (tmp_path / "npmrc").read_text() == "registry=https://old.example/\n"
    assert (tmp_path / "xdg/pip/pip.conf").stat().st_mode & 0o777 == 0o644
    write('pip = "https://new.example/"')
    assert not (tmp_path / "npmrc").exists()
    assert "new.example" in (tmp_path / "xdg/pip/pip.conf").read_text()
    assert "new.example" in (tmp_path / "xdg/uv/uv.toml").read_text()
    write("")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["policy.json"]
    assert json.loads((tmp_path / "policy.json").read_text())["name"] == "p"
