"""Audit records as people read them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hostctl.journals import Record, event_line, matches, sandbox_names

PUSH: Record = {
    "v": 1,
    "ts": "2026-01-02T03:04:05.678Z",
    "event": "push.decision",
    "decision": "deny",
    "sandbox": "3f9a0c21b7de",
    "op": "push",
    "tier": "untrusted",
    "repo": "corp:acme/app",
    "refs": [{"ref": "refs/heads/main", "old": "0", "new": "1"}],
    "code": "G201",
}


def test_a_record_is_one_line_with_what_matters() -> None:
    assert event_line(PUSH).split() == [
        "2026-01-02T03:04:05.678Z", "push.decision", "deny", "3f9a0c21b7de", "push",
        "corp:acme/app", "refs/heads/main", "tier=untrusted", "code=G201",
    ]  # fmt: skip


def test_many_refs_are_counted_not_listed() -> None:
    refs = [{"ref": f"refs/heads/{number}"} for number in range(9)]
    assert "and 4 more" in event_line({**PUSH, "refs": refs})


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.text())))
@example({"ts": [""], "event": [""], "decision": [""], "sandbox": [""], "refs": [[""]]})
@example({"ts": 10**30})
def test_any_record_is_one_printable_line(record: dict[str, object]) -> None:
    assert event_line(record).isprintable()
    assert not matches(record, frozenset({"no such sandbox"}), denied_only=False)


def test_records_are_chosen_by_sandbox_and_decision() -> None:
    assert matches(PUSH, frozenset(), denied_only=True)
    assert not matches({**PUSH, "decision": "allow"}, frozenset(), denied_only=True)
    assert not matches(PUSH, frozenset({"other"}), denied_only=False)


def test_a_name_stands_for_the_ids_it_was_given_to() -> None:
    created: Record = {"event": "sandbox.created", "sandbox": "3f9a0c21b7de", "name": "ci"}
    names = sandbox_names("ci", [created, PUSH])
    assert matches(PUSH, names, denied_only=False)
