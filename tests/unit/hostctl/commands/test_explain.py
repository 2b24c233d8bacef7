"""What is told of a request beside its records."""

from __future__ import annotations

import pytest

from hostctl.commands.explain import is_missing

ALLOWED = {"event": "git.decision", "decision": "allow", "rule": "a"}
DENIED = {"event": "git.decision", "decision": "deny", "code": "G101"}


@pytest.mark.parametrize(
    "events, missing",
    [
        ([ALLOWED, {"event": "git.outcome", "code": "G101"}], True),
        ([ALLOWED, {"event": "git.outcome"}], False),
        ([ALLOWED, {"event": "git.outcome", "code": "U102"}], False),
        ([DENIED], False),
        ([], False),
    ],
)
def test_a_repository_that_is_allowed_and_not_there_is_told(
    events: list[dict[str, object]], missing: bool
) -> None:
    assert is_missing(events) is missing
