from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostd.failures import Failed
from hostd.gate.refspecs import (
    GateRequest,
    Push,
    Target,
    is_tracking,
    parse_branch,
    parse_gate,
    parse_names,
    parse_objects,
    parse_push,
    parse_refs,
    parse_resolved,
    target,
    tracking,
)


@pytest.mark.parametrize(
    ("text", "source", "destination", "force"),
    [
        ("agent/fix", "agent/fix", "refs/heads/agent/fix", False),
        ("+agent/fix", "agent/fix", "refs/heads/agent/fix", True),
        ("refs/heads/fix", "refs/heads/fix", "refs/heads/fix", False),
        ("HEAD:agent/x", "HEAD", "refs/heads/agent/x", False),
        ("v1:refs/tags/v1", "v1", "refs/tags/v1", False),
        (":agent/old", None, "refs/heads/agent/old", False),
        ("HEAD", "HEAD", None, False),
        ("HEAD~2:agent/x", "HEAD~2", "refs/heads/agent/x", False),
        ("HEAD~2:refs/notes/x", "HEAD~2", "refs/notes/x", False),
    ],
)
def test_a_push_goes_where_the_admin_typed(
    text: str, source: str | None, destination: str | None, force: bool
) -> None:
    push = parse_push(text)
    assert target(push, (), ()) == Target(source, destination, force)


THERE = {"refs/heads/main", "refs/tags/v1", "refs/heads/both", "refs/tags/both", "refs/heads/a/b"}


@pytest.mark.parametrize(
    ("text", "source", "destination"),
    [
        ("main", "refs/heads/main", "refs/heads/main"),
        ("heads/main", "refs/heads/main", "refs/heads/main"),
        ("v1", "refs/tags/v1", "refs/tags/v1"),
        ("tags/v1", "refs/tags/v1", "refs/tags/v1"),
        ("refs/tags/v1", "refs/tags/v1", "refs/tags/v1"),
        ("refs/tags/both", "refs/tags/both", "refs/tags/both"),
        ("v1:v2", "refs/tags/v1", "refs/tags/v2"),
        ("v1:refs/heads/v1", "refs/tags/v1", "refs/heads/v1"),
        ("main:other", "refs/heads/main", "refs/heads/other"),
        ("v1^{}:other", "v1^{}", "refs/heads/other"),
        ("HEAD:v1", "HEAD", "refs/heads/v1"),
        (":v1", None, "refs/tags/v1"),
        (":main", None, "refs/heads/main"),
        ("a", "a", "refs/heads/a"),
    ],
)
def test_a_name_is_a_branch_or_a_tag_as_in_git(
    text: str, source: str | None, destination: str
) -> None:
    assert target(parse_push(text), THERE, THERE) == Target(source, destination, False)


@pytest.mark.parametrize("text", ["both", "both:x", ":both", "+both"])
def test_a_name_of_a_branch_and_a_tag_is_refused_with_both(text: str) -> None:
    with pytest.raises(Failed, match="branch and of a tag") as caught:
        target(parse_push(text), THERE, THERE)
    assert caught.value.fix == "name it whole: refs/heads/both or refs/tags/both"


@given(st.binary())
def test_the_workspace_names_no_ref_that_was_not_asked_for(output: bytes) -> None:
    asked = ["refs/heads/a", "refs/tags/a"]
    assert parse_names(output, asked) <= set(asked)
    assert parse_names(output + b"\nrefs/tags/a\nrefs/tags/ab\n", asked) >= {"refs/tags/a"}


@pytest.mark.parametrize(
    "text", ["", ":", "+", "-x", "a b", "a..b", "x~1", "x:", "x:..", "x:a..b", "--exec=x", "a\nb"]
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


@given(st.binary(), st.integers(0, 5))
def test_object_ids_of_the_workspace_are_hex_or_nothing(output: bytes, count: int) -> None:
    parsed = parse_resolved(output, count)
    assert len(parsed) == count
    for oid in (*parsed, *parse_objects(output, most=100)):
        assert oid is None or (len(oid) in (40, 64) and set(oid) <= set("0123456789abcdef"))


def test_each_revision_gets_the_answer_on_its_own_line() -> None:
    one, two = "a" * 40, "b" * 64
    answers = f"{one}\nci/x missing\n{two}\n".encode()
    assert parse_resolved(answers, 3) == [one, None, two]
    assert parse_resolved(answers, 4) == [one, None, two, None]
    assert parse_resolved(answers, 1) == [one]


@pytest.mark.parametrize(
    ("output", "branch"),
    [
        (b"refs/heads/ci/x\n", "refs/heads/ci/x"),
        (b"refs/heads/x:refs/heads/main\n", None),
        (b"refs/heads/x\nrefs/heads/main\n", None),
        (b"refs/heads/../../x\n", None),
        (b"refs/tags/x\n", None),
        (b"refs/heads/\x1b[2J\n", None),
        (b"refs/heads/" + b"x" * 4000 + b"\n", None),
        (b"+refs/heads/x\n", None),
        (b"\n", None),
        (b"", None),
    ],
)
def test_the_workspaces_branch_is_one_branch_or_none(output: bytes, branch: str | None) -> None:
    parsed = parse_branch(output)
    assert (parsed.text if parsed else None) == branch


def test_an_upstreams_branch_is_origins_and_its_tag_a_tag() -> None:
    assert tracking("refs/heads/a/b") == "refs/remotes/origin/a/b"
    assert tracking("refs/tags/v1") == "refs/tags/v1"


def test_missing_objects_are_not_counted_as_present() -> None:
    oid = "a" * 40
    output = f"{oid}\n{'b' * 40} missing\n{oid}\n".encode()
    assert parse_objects(output, most=2) == [oid]


def test_only_whole_lines_of_the_workspaces_listing_are_taken() -> None:
    one = "a" * 40
    listed = (
        f"{one} refs/remotes/origin/main\n{one} refs/tags/v1\n{one[:9]} refs/tags/short\n"
        f"{one} refs/remotes/origin/a b\n{one} refs/remotes/origin/../x\nrefs/tags/alone\n"
    )
    found = parse_refs(listed.encode() + b"\xff\n")
    assert found == {"refs/remotes/origin/main": one, "refs/tags/v1": one}
    assert (
        len(parse_refs(b"".join(b"%040d refs/tags/%d\n" % (n, n) for n in range(9)), most=3)) == 3
    )


@pytest.mark.parametrize(
    ("ref", "is_one"),
    [
        ("refs/remotes/origin/main", True),
        ("refs/remotes/origin/HEAD", False),
        ("refs/remotes/other/main", False),
        ("refs/tags/v1", False),
        ("refs/heads/main", False),
    ],
)
def test_only_branches_of_origin_are_the_upstreams_to_remove(ref: str, is_one: bool) -> None:
    assert is_tracking(ref) is is_one


def test_a_difference_is_of_the_working_tree_or_of_one_revision() -> None:
    assert parse_gate(["diff"]) == GateRequest("diff", "origin")
    assert parse_gate(["diff", "app", "v1^{}"]) == GateRequest("diff", "app", refs=("v1^{}",))
    for words in (["a", "b"], ["--output=x"], ["-O"], ["a b"], [""]):
        with pytest.raises(Failed) as refused:
            parse_gate(["diff", "origin", *words])
        assert refused.value.exit_code == 2
