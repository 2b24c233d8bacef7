"""Events: a closed set, published keys only, and no raw text of a sandbox."""

from __future__ import annotations

import hashlib
import inspect
import json

import pytest
from attrs import fields as attributes_of
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

import gitmoat.audit.events as events
from gitmoat.audit.events import KEYS, REFS_LIMIT, Event, RefChange
from gitmoat.audit.texts import TEXT_LIMIT, name, plain

PUBLISHED = {
    "v", "ts", "seq", "host", "sandbox", "session", "event", "decision", "op", "repo", "refs",
    "rule", "code", "peer_uid", "bytes_up", "bytes_down", "ms", "req", "prev",
}  # fmt: skip
OWN = {"v", "ts", "seq", "host", "event", "prev"}
ADDED = {
    "container",
    "pid",
    "started",
    "netns",
    "cgroup",
    "epoch",
    "tier",
    "name",
    "to",
    "count",
    "reason",
    "reported",
    "sha256",
}
ALL = [
    kind
    for _, kind in inspect.getmembers(events, inspect.isclass)
    if issubclass(kind, Event) and kind is not Event
]
REPORTED = {
    "EgressRefusedReported",
    "GitRefusedReported",
    "PeerRefusedReported",
    "CredentialGranted",
    "CredentialRefused",
}


def sample(kind: type[Event], text: str = "text") -> Event:
    given: dict[str, object] = {}
    for attribute in attributes_of(kind):
        if attribute.name == "decision":
            given["decision"] = "deny"
        elif attribute.name == "refs":
            given["refs"] = (RefChange(text, "0" * 40, "1" * 40),)
        elif "int" in str(attribute.type):
            given[attribute.name] = 7
        else:
            given[attribute.name] = text
    return kind(**given)


def test_the_keys_are_the_published_ones_and_ours() -> None:
    assert set(KEYS) == (PUBLISHED - OWN) | ADDED


@pytest.mark.parametrize("kind", ALL)
def test_every_event_writes_known_keys_only_and_all_it_holds(kind: type[Event]) -> None:
    written = sample(kind).fields()
    assert set(written) <= set(KEYS)
    assert set(written) >= {attribute.name for attribute in attributes_of(kind)}
    assert list(written) == [key for key in KEYS if key in written]


def test_event_names_are_distinct_but_for_reports_of_the_same() -> None:
    retold = {events.PeerRefusedReported, events.GitRefusedReported, events.EgressRefusedReported}
    names = [kind.event for kind in ALL if kind not in retold]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", ALL)
def test_what_a_sidecar_told_us_is_marked(kind: type[Event]) -> None:
    assert sample(kind).fields().get("reported") == (True if kind.__name__ in REPORTED else None)


@pytest.mark.parametrize("kind", ALL)
def test_an_event_says_nothing_of_itself_that_nobody_reads(kind: type[Event]) -> None:
    known = {"event", "verdict", "reported", "kept", "claim", "payer"}
    own = {each for each in vars(kind) if not each.startswith("_")}
    assert own <= known | {attribute.name for attribute in attributes_of(kind)}


@pytest.mark.parametrize("kind", ALL)
def test_events_do_not_change(kind: type[Event]) -> None:
    event = sample(kind)
    with pytest.raises(FrozenInstanceError):
        event.event = "other"  # type: ignore[misc]


def test_refusals_and_grants_say_so() -> None:
    assert sample(events.GrantRefused).fields()["decision"] == "deny"
    assert sample(events.PeerRefused).fields()["decision"] == "deny"
    assert sample(events.SessionActivated).fields()["decision"] == "allow"
    assert "decision" not in sample(events.SessionRevoked).fields()


def test_what_is_not_known_is_not_written() -> None:
    assert events.SessionRevoked(session="s", reason="asked").fields() == {
        "session": "s", "reason": "asked",
    }  # fmt: skip


@given(st.sampled_from(ALL), st.text())
def test_any_text_becomes_one_short_printable_line(kind: type[Event], text: str) -> None:
    line = json.dumps(sample(kind, text).fields())
    assert line.isascii() and line.isprintable()
    assert len(line) < 20 * 2 * (TEXT_LIMIT + 80)


@given(st.text())
def test_plain_text_is_printable_capped_and_keeps_short_texts_apart(text: str) -> None:
    shown = plain(text)
    assert shown.isascii() and (shown.isprintable() or not shown)
    assert len(shown) <= TEXT_LIMIT + 3
    if len(shown) < TEXT_LIMIT:
        assert shown.encode("ascii").decode("unicode_escape") == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("refs/heads/main", "refs/heads/main"), ("a\r\nb", "a\\r\\nb"), ("\x1b[2J", "\\x1b[2J"),
        ("a\0b", "a\\x00b"), ("\\x1b", "\\\\x1b"), ("é\u2028", "\\xe9\\u2028"), ("\x7f", "\\x7f"),
        ("\udcff", "\\udcff"), ("x" * 600, "x" * 512 + "..."), ("", ""),
    ],
)  # fmt: skip
def test_control_bytes_are_shown_not_kept(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_texts_that_come_again_are_shown_as_the_first_time() -> None:
    """More of them than are remembered, among them some that must not be."""

    def shown(text: str) -> tuple[object, object]:
        told = events.SessionRevoked(session=text, reason=text).fields()
        return told["session"], told["reason"]

    texts = [f"sb-{number}" for number in range(9000)]
    texts += [f"ghp_{number:036d}" for number in range(50)] + ["a\\b", "\x1b[2J", "x" * 128, '"']
    texts += ["x" * (TEXT_LIMIT + 1), "0123456789abcdef", "\u00e9", "", "ASIA0123456789ABCDEF"]
    first = [shown(text) for text in texts]
    assert first == [(name(text), plain(text)) for text in texts]
    assert first[:9000] == [(text, text) for text in texts[:9000]]
    assert not any("ghp_" in str(words) for _, words in first)
    assert [shown(text) for text in texts] == first


TOKENS = ["agent/secret=hunter2hunter2", "agent/secret=hunter3hunter3", "agent/ghp_" + "a" * 36]


@pytest.mark.parametrize("text", TOKENS)
def test_a_name_that_a_policy_decided_on_is_told_whatever_it_looks_like(text: str) -> None:
    """A sandbox that puts a token into a ref must not make the audit forget which ref it was."""
    push = events.PushDecision(
        sandbox="sb", session="s", decision="allow", tier="helper", repo=f"up:acme/{text}",
        refs=(RefChange(f"refs/heads/{text}", "0" * 40, "1" * 40),), rule="r",
    )  # fmt: skip
    told = push.fields()
    assert told["repo"] == f"up:acme/{text}"
    assert told["refs"] == [{"ref": f"refs/heads/{text}", "old": "0" * 40, "new": "1" * 40}]
    assert "sha256" not in told
    to = events.EgressDecision(sandbox="sb", session="s", decision="deny", op="tunnel", to=text)
    assert to.fields()["to"] == text


@given(st.text(min_size=500), st.text(max_size=40))
def test_names_that_are_cut_are_told_apart_by_a_hash_of_the_whole(text: str, more: str) -> None:
    one, other = RefChange(text, "", "").fields(), RefChange(text + more, "", "").fields()
    assert (one == other) == (more == "")


def test_words_that_lost_something_are_told_apart_by_a_hash_of_the_whole() -> None:
    def told(reason: str) -> dict[str, events.Value]:
        return events.SessionRevoked(session="s", reason=reason).fields()

    one, other = told("password=hunter2hunter2"), told("password=hunter3hunter3")
    assert one["reason"] == other["reason"] == "[redacted]"
    assert (
        one["sha256"] == {"reason": hashlib.sha256(b"password=hunter2hunter2").hexdigest()[:32]}
        and one["sha256"] != other["sha256"]
    )
    assert "sha256" in told("x" * 513) and "sha256" not in told("a\x1b \u00e9")


def test_more_refs_than_a_push_may_have_are_counted() -> None:
    push = events.PushDecision(
        sandbox="sb", session="s", decision="deny", tier="helper", repo="github:acme/app",
        refs=tuple(RefChange(f"refs/heads/{n}", "0" * 40, "1" * 40) for n in range(REFS_LIMIT + 3)),
    )  # fmt: skip
    refs = push.fields()["refs"]
    assert isinstance(refs, list)
    assert len(refs) == REFS_LIMIT + 1 and refs[-1] == {"ref": "and 3 more"}


def test_only_values_of_known_kinds_are_written() -> None:
    with pytest.raises(TypeError):
        events.SessionRevoked(session=b"bytes", reason="x").fields()  # type: ignore[arg-type]
