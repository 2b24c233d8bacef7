from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostd.failures import Failed
from hostd.refspecs import Push, parse_gate, parse_object, parse_objects, parse_push


def destination(push: Push) -> str | None:
    return push.destination.text if push.destination else None


@pytest.mark.parametrize(
    ("text", "source", "target", "force"),
    [
        ("agent/fix", "agent/fix", "refs/heads/agent/fix", False),
        ("+agent/fix", "agent/fix", "refs/heads/agent/fix", True),
        ("HEAD:agent/x", "HEAD", "refs/heads/agent/x", False),
        ("v1:refs/tags/v1", "v1", "refs/tags/v1", False),
        (":agent/old", None, "refs/heads/agent/old", False),
        ("HEAD", "HEAD", None, False),
        ("HEAD~2:agent/x", "HEAD~2", "refs/heads/agent/x", False),
    ],
)
def test_a_push_goes_where_the_admin_typed(
    text: str, source: str | None, target: str | None, force: bool
) -> None:
    push = parse_push(text)
    assert (push.source, destination(push), push.force) == (source, target, force)


@pytest.mark.parametrize(
    "text", ["", ":", "+", "-x", "a b", "x:", "x:..", "x:a..b", "--exec=x", "a\nb"]
)
def test_what_is_not_a_refspec_is_refused(text: str) -> None:
    with pytest.raises(Failed) as caught:
        parse_push(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["clone"],
        ["push", "--receive-pack=x"],
        ["fetch", "-u"],
        ["fetch", "origin", "main"],
        ["push", "origin", "-f"],
    ],
)
def test_the_gate_takes_three_operations_and_no_option(arguments: list[str]) -> None:
    with pytest.raises(Failed):
        parse_gate(arguments)


def test_a_push_without_a_ref_is_of_the_current_branch() -> None:
    request = parse_gate(["push"])
    assert request.remote == "origin"
    assert request.pushes == (Push("HEAD", None, False),)


@given(st.binary())
def test_object_ids_of_the_workspace_are_hex_or_nothing(output: bytes) -> None:
    parsed = parse_object(output)
    assert parsed is None or (len(parsed) in (40, 64) and set(parsed) <= set("0123456789abcdef"))
    assert all(len(oid) in (40, 64) for oid in parse_objects(output))


def test_missing_objects_are_not_counted_as_present() -> None:
    oid = "a" * 40
    assert parse_objects(f"{oid}\n{'b' * 40} missing\n".encode()) == [oid]
