"""`make help` and the targets say the same; hooks before a commit come from this checkout."""

from __future__ import annotations

import re

import pytest

from tests.stage.sources import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
# Steps of other targets, which nobody asks for by themselves.
STEPS = {"packages", "test-packages", "peer-packages", "checksums"}


def targets(text: str) -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", text, re.MULTILINE))


def helped(text: str) -> list[str]:
    return re.findall(r'^\t@echo "make ([a-z-]+) ', text, re.MULTILINE)


def unlike(text: str) -> set[str]:
    """Targets without a line of help, and lines of help without a target."""
    return (targets(text) - STEPS - {"help"}) ^ set(helped(text))


def test_every_target_has_one_line_of_help() -> None:
    assert len(helped(MAKEFILE)) == len(set(helped(MAKEFILE))) > 10
    assert unlike(MAKEFILE) == set()


def test_every_target_is_phony() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == targets(MAKEFILE)


@pytest.mark.parametrize(
    ("planted", "name"),
    [("sweep: setup\n\ttrue\n", "sweep"), ('\t@echo "make gold  of lead"\n', "gold")],
)
def test_what_only_one_of_them_has_is_seen(planted: str, name: str) -> None:
    assert unlike(MAKEFILE + planted) == {name}


def test_hooks_are_what_lint_runs_and_nothing_is_fetched_for_them() -> None:
    assert set(re.findall(r"^ *- repo: (.*)$", HOOKS, re.MULTILINE)) == {"local"}
    assert set(re.findall(r"^ *language: (.*)$", HOOKS, re.MULTILINE)) == {"system"}
    hooks = re.findall(r"^ *entry: \.venv/bin/(.*?)(?: --force-exclude| \.)?$", HOOKS, re.MULTILINE)
    (lint,) = re.findall(r"^lint: setup\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert hooks == re.findall(r"^\t\$\(VENV\)/bin/(.*) \.$", lint, re.MULTILINE)
