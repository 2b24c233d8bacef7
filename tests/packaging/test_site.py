"""The documentation builds offline, without a warning, from the code it describes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from audit.events import KEYS
from hostctl.arguments import VERBS, verb_parser
from hostctl.demo import checks
from publish import audit_page, cli_pages, diagrams

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))
_SVG = "{http://www.w3.org/2000/svg}"


def build(kind: str, into: Path, source: Path = DOCS) -> subprocess.CompletedProcess[str]:
    words = ["-q", "-W", "--keep-going", "-b", kind, "-d", str(into / "trees"), str(source)]
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
    written = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    assert {path for path in written if "made" not in path.parts} <= made


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text('extensions = ["myst_parser"]\n')
    (tmp_path / "index.md").write_text("# Page\n\n[gone](gone.md)\n")
    assert build("html", tmp_path / "out", tmp_path).returncode != 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_names_every_option_of_its_verb(verb: str) -> None:
    page = cli_pages.verb_page(verb)
    shared = {"-h", "--help", "--root", "--json", "-q", "--quiet", "-v", "--no-color"}
    options = {each for action in verb_parser(verb)._actions for each in action.option_strings}
    for option in options - shared:
        assert re.search(rf"(^|[\s`\[]){re.escape(option)}\b", page), option


def test_every_verb_has_its_line_in_the_help_and_so_in_its_man_page() -> None:
    unnamed = cli_pages.summary("hostctl")
    assert [verb for verb in VERBS if cli_pages.summary(f"hostctl-{verb}") == unnamed] == []


def test_the_audit_page_has_every_event_and_every_key() -> None:
    table = audit_page.table()
    for kind in audit_page.kinds():
        assert f"| `{kind.event}` |" in table
    page = (DOCS / "reference" / "audit.md").read_text()
    assert [key for key in KEYS if f"`{key}`" not in page] == []


@pytest.mark.parametrize("name", diagrams.DRAWN)
def test_diagrams_are_as_they_would_be_drawn_now(name: str) -> None:
    kept = (DOCS / "pictures" / f"{name}.svg").read_text()
    assert kept == str(diagrams.DRAWN[name]()), "run `make pictures`"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_have_a_title_and_colours_for_dark_pages(path: Path) -> None:
    picture = ElementTree.parse(path).getroot()
    assert picture.findtext(f"{_SVG}title")
    assert "prefers-color-scheme:dark" in (picture.findtext(f"{_SVG}style") or "")


def test_the_picture_of_the_demo_shows_todays_checks_all_kept() -> None:
    texts = ElementTree.parse(DOCS / "pictures" / "demo.svg").getroot().iter(f"{_SVG}text")
    lines = [text.text or "" for text in texts]
    titles = [check.title for check in checks()]
    shown = [title for title in titles if any(f" {title} " in line for line in lines)]
    assert shown == titles, "run `make pictures`"
    assert (lines.count("✓"), lines.count("✗")) == (len(titles), 0)
