"""Completion offers what the parsers would take, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostctl.arguments import VERBS
from hostctl.help.candidates import FILES, candidates


def offered(root: Path, line: str) -> list[str]:
    return [word.partition("\t")[0] for word in candidates(line.split(" ")[1:], str(root))]


def test_verbs_come_first(tmp_path: Path) -> None:
    assert offered(tmp_path, "hostctl ") == list(VERBS)
    assert offered(tmp_path, "hostctl --json sta") == ["start", "status"]
    assert offered(tmp_path, "hostctl --root /x ins") == ["inspect"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hostctl session ", ["renew", "revoke"]),
        ("hostctl policy d", ["diff"]),
        ("hostctl run --po", ["--policy"]),
        ("hostctl run --runtime b", ["bwrap"]),
        ("hostctl policy explain x f", ["fetch"]),
        ("hostctl policy explain x fetch corp:a/b --as ", ["helper", "untrusted"]),
        ("hostctl completion z", ["zsh"]),
        ("hostctl explain G10", ["G101", "G102"]),
        ("hostctl cred add x --f", ["--file"]),
        ("hostctl cred add x --file ", [FILES]),
        ("hostctl run -- ", [FILES]),
        ("hostctl policy check ", ["agents", FILES]),
        ("hostctl policy diff a ", ["agents", FILES]),
        ("hostctl frobnicate ", []),
        ("hostctl session frobnicate ", []),
        ("hostctl run --name ", []),
    ],
)
def test_what_can_stand_there_is_offered(tmp_path: Path, line: str, expected: list[str]) -> None:
    (tmp_path / "etc/gitmoat/policies").mkdir(parents=True)
    (tmp_path / "etc/gitmoat/policies/agents.toml").touch()
    found = offered(tmp_path, line)
    assert found[: len(expected)] == expected
    assert bool(found) == bool(expected)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_offers_its_options(tmp_path: Path, verb: str) -> None:
    assert "--json" in offered(tmp_path, f"hostctl {verb} --")


def test_no_words_at_all_are_no_error(tmp_path: Path) -> None:
    assert len(candidates([], str(tmp_path))) == len(VERBS)
