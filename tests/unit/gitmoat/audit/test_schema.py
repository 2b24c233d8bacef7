"""Every line that can be written fits the published schema, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gitmoat.audit.chain import read_events
from gitmoat.audit.events import Decision, Event, PushDecision, RefChange
from gitmoat.audit.journal import open_journal
from gitmoat.audit.schema import journal_schema, kinds
from tests.fakes.examples import examples

VALIDATOR = Draft202012Validator(journal_schema())
_TEXTS = st.text(max_size=700)
_CHANGES = st.builds(RefChange, _TEXTS, st.just("0" * 40), st.just("1" * 40))


def values(hint: Any) -> st.SearchStrategy[Any]:
    if hint == Decision:
        return st.sampled_from(["allow", "deny"])
    if hint in (int, int | None):
        return st.integers(0, 2**40) | (st.none() if hint is not int else st.nothing())
    if hint in (str, str | None):
        return _TEXTS | (st.none() if hint is not str else st.nothing())
    return st.lists(_CHANGES, max_size=3).map(tuple)


def events(kind: type[Event]) -> st.SearchStrategy[Event]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: values(hints[each.name]) for each in attrs.fields(kind)})


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(journal_schema())


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_recorded_fits(data: st.DataObject, tmp_path: Path) -> None:
    drawn = [data.draw(events(kind)) for kind in kinds()]
    path = tmp_path / "audit.ndjson"
    path.unlink(missing_ok=True)
    journal = open_journal(path, "h", lambda: 1e9)
    for event in drawn:
        journal.record(event, durable=False)
    journal.close()
    for line in read_events(path):
        VALIDATOR.validate(line)


def test_a_push_with_more_refs_than_are_written_fits(tmp_path: Path) -> None:
    refs = tuple(RefChange(f"refs/heads/{n}", "0" * 40, "1" * 40) for n in range(1500))
    journal = open_journal(tmp_path / "audit.ndjson", "h", lambda: 1e9)
    journal.record(
        PushDecision(
            sandbox="a", session="b", decision="deny", tier="helper", repo="g:a", refs=refs
        )
    )
    journal.close()
    (line,) = read_events(tmp_path / "audit.ndjson")
    VALIDATOR.validate(line)


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2}, {"event": "other.thing"}, {"password": "x"}, {"prev": "short"}, {"seq": 0},
        {"decision": "maybe"}, {"reported": True}, {"session": "a\nb"}, {"ts": "yesterday"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_anything_else_does_not(change: dict[str, object]) -> None:
    line: dict[str, object] = {
        "v": 1, "ts": "2027-01-15T08:00:00.000Z", "seq": 1, "host": "h", "event": "grant.issued",
        "sandbox": "a", "session": "b", "prev": "0" * 64,
    }  # fmt: skip
    VALIDATOR.validate(line)
    assert not VALIDATOR.is_valid(line | change)
    assert not VALIDATOR.is_valid({key: line[key] for key in line if key != "session"})
