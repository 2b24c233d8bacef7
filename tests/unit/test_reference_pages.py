"""Pages that are made from code have all of it, and pictures show what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from broker.api.metrics import FAMILIES
from gitmoat.audit.events import KEYS
from gitmoat.audit.schema import journal_schema, kinds
from gitmoat.codes import CODES
from gitmoat.limits.table import GROUPS
from hostctl.arguments import VERBS, verb_parser
from hostctl.commands.demo import CHECKS
from tests.stage.sources import files
from tools import cli_pages, reference

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = files(DOCS / "pictures", "*.svg")
_SVG = "{http://www.w3.org/2000/svg}"


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
    table = reference.audit_events()
    for kind in kinds():
        assert f"| `{kind.event}` |" in table
    page = (DOCS / "reference" / "audit.md").read_text()
    assert [key for key in KEYS if f"`{key}`" not in page] == []


def test_the_metrics_page_has_every_family_and_every_label() -> None:
    table = reference.metrics()
    page = (DOCS / "reference" / "metrics.md").read_text()
    for family in FAMILIES:
        assert f"| `{family.name}" in table
        assert [label for label in family.labels if f"| `{label}` |" not in page] == []
    named = re.findall(r"`(gitmoat_\w+)", page)
    known = {family.name for family in FAMILIES}
    assert [name for name in named if name.removesuffix("_total") not in known] == []


def test_the_page_of_codes_has_every_code_once_and_each_family_a_heading() -> None:
    shown = reference.codes()
    assert sorted(re.findall(r"^\| ([A-Z]\d{3}) \|", shown, re.MULTILINE)) == sorted(CODES)
    families = re.findall(r"^## (.+)$", shown, re.MULTILINE)
    assert families == list(reference.CODE_FAMILIES.values())


def test_the_page_of_limits_has_every_row_and_its_own_heading_alone() -> None:
    shown = reference.limits()
    for group in GROUPS:
        assert f"## {group.title}\n" in shown
        assert [row.name for row in group.limits if f"| {row.what} |" not in shown] == []
    assert not re.search(r"^# ", shown, re.MULTILINE)


def test_the_schema_that_is_published_is_the_one_that_records_are_checked_with() -> None:
    assert json.loads(reference.made()["audit.schema.json"]) == journal_schema()


@pytest.mark.parametrize("page", sorted(reference.made()))
def test_what_is_made_at_a_build_is_shown_by_a_page(page: str) -> None:
    pages = [path for path in files(DOCS, "*.md") if path.parent.name != "made"]
    assert any(f"made/{page}" in path.read_text() for path in pages)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_have_a_title_and_colours_for_dark_pages(path: Path) -> None:
    picture = ElementTree.parse(path).getroot()
    assert picture.findtext(f"{_SVG}title")
    assert "prefers-color-scheme:dark" in (picture.findtext(f"{_SVG}style") or "")


def test_the_picture_of_the_demo_shows_todays_checks_all_kept() -> None:
    texts = ElementTree.parse(DOCS / "pictures" / "demo.svg").getroot().iter(f"{_SVG}text")
    lines = [text.text or "" for text in texts]
    titles = [check.title for check in CHECKS]
    shown = [title for title in titles if any(f" {title} " in line for line in lines)]
    assert shown == titles, "run `make pictures`"
    assert (lines.count("✓"), lines.count("✗")) == (len(titles), 0)
