"""Secrets planted in the words of any event do not reach the journal; names are facts."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitmoat.audit.events import Event, RefChange
from gitmoat.audit.journal import open_journal
from gitmoat.audit.redaction import SHOWN, redacted
from gitmoat.audit.schema import kinds
from gitmoat.audit.texts import plain
from tests.fakes.examples import examples

# Letters and digits alone: from this length on they may be a credential.
_SHORTEST = 20
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def word(least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(_WORD, min_size=least - 3, max_size=most - 3).map(lambda text: f"Zq7{text}")


_BASIC = word(6, 40).map(lambda text: base64.b64encode(f"bot:{text}".encode()).decode())
# What must vanish, and the text it stands in.
_PLANTED = st.one_of(
    word(36, 36).map(lambda text: (text, f"ghp_{text}")),
    word(36, 36).map(lambda text: (text, f"ghs_{text}")),
    word(60, 82).map(lambda text: (text, f"github_pat_{text}")),
    word(20, 30).map(lambda text: (text, f"glpat-{text}")),
    _BASIC.map(lambda text: (text, f"Authorization: Basic {text}")),
    _BASIC.map(lambda text: (text, f"basic {text}")),
    word(20, 200).map(lambda text: (text, f"Bearer {text}")),
    word(8, 60).map(lambda text: (text, f"https://bot:{text}@git.example.com/acme/app.git")),
    word(8, 60).map(lambda text: (text, f"password={text}")),
    word(20, 60).map(lambda text: (text, f"eyJ{text}.{text}.{text}")),
    word(40, 80).map(lambda text: (text, f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}")),
)
_AROUND = st.text(st.characters(exclude_characters="@", max_codepoint=0x2FF), max_size=600)


def filled(kind: type[Event], text: str) -> Event:
    """An event that says `text` in words, and something else as a name."""
    hints = get_type_hints(kind)
    given: dict[str, object] = {}
    for each in attrs.fields(kind):
        hint = hints[each.name]
        if hint in (int, int | None):
            given[each.name] = 1
        elif hint in (str, str | None):
            given[each.name] = text if each.name == "reason" else "name"
        elif each.name == "refs":
            given[each.name] = (RefChange("refs/heads/main", text, text),)
        else:
            given[each.name] = "deny"
    return kind(**given)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(kinds()), planted=_PLANTED, before=_AROUND, after=_AROUND)
def test_a_planted_secret_is_in_no_line(
    kind: type[Event], planted: tuple[str, str], before: str, after: str, tmp_path: Path
) -> None:
    secret, text = planted
    path = tmp_path / "audit.ndjson"
    path.unlink(missing_ok=True)
    journal = open_journal(path, "h", lambda: 1e9)
    journal.record(filled(kind, f"{before} {text} {after}"), durable=False)
    journal.close()
    written = path.read_bytes().decode("ascii")
    assert secret not in written
    # Not even the part of it that would fit in front of the cut.
    assert secret[:20] not in written or len(secret) < 20


@given(planted=_PLANTED, length=st.integers(400, 520))
def test_a_secret_across_the_cut_does_not_leave_its_beginning(
    planted: tuple[str, str], length: int
) -> None:
    secret, text = planted
    shown = plain("x" * length + " " + text)
    assert secret[:8] not in shown


@pytest.mark.parametrize(
    "text",
    [
        "refs/heads/agent/fix-token-handling",
        "github:acme/app",
        "refs/heads/basic-auth",
        "git.example.com:8443",
        "released: sandbox stopped",
        "over a limit, told to wait 30 s",
        "https://git.example.com/acme/app.git",
        "0" * 40,
        "user@host",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redacted(text) == text


def test_the_rest_of_a_url_is_still_told() -> None:
    assert redacted("https://me:pw@git.example.com/x") == f"https://{SHOWN}@git.example.com/x"


@given(st.text(_WORD, max_size=_SHORTEST - 1))
def test_letters_and_digits_alone_are_too_few_for_a_credential_below_that_length(text: str) -> None:
    assert redacted(text) == text
    assert redacted("AKIA" + "0" * (_SHORTEST - 4)) == SHOWN, "and at that length they are not"
