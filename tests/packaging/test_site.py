"""The documentation builds offline, without a warning, from the code it describes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hostctl.arguments import VERBS
from tests.stage.sources import files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def build(kind: str, into: Path) -> subprocess.CompletedProcess[str]:
    words = ["-q", "-W", "--keep-going", "-b", kind, "-d", str(into / "trees"), str(DOCS)]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(into / kind)],
        capture_output=True,
        text=True,
        # No proxy leads anywhere: whatever wants the network fails here.
        env={"PATH": "/usr/bin:/bin", "https_proxy": "http://127.0.0.1:1", "LANG": "C.UTF-8"},
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site")
    for kind in ("html", "man"):
        done = build(kind, into)
        assert (done.returncode, done.stderr) == (0, "")
    return into


def test_every_verb_has_a_page_and_a_man_page(built: Path) -> None:
    for verb in VERBS:
        page = (built / "html" / "reference" / "cli" / f"hostctl-{verb}.html").read_text()
        assert f"hostctl {verb}" in page
        manual = (built / "man" / f"hostctl-{verb}.1").read_text()
        assert f".SH NAME\nhostctl-{verb} \\-" in manual
    for name in ("hostctl.1", "gitmoat-policy.5", "gitmoat-configuration.5", "gitmoat-codes.7"):
        assert (built / "man" / name).exists()


def test_every_page_of_the_documentation_is_reachable(built: Path) -> None:
    made = {path.relative_to(built / "html").with_suffix("") for path in built.rglob("*.html")}
    written = {path.relative_to(DOCS).with_suffix("") for path in files(DOCS, "*.md")}
    assert {path for path in written if "made" not in path.parts} <= made
