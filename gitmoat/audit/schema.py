"""The form of a journal line as a JSON Schema, made from the closed set of events."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs

from gitmoat.audit import events
from gitmoat.audit.events import REFS_LIMIT, Event
from gitmoat.audit.journal import VERSION
from gitmoat.audit.texts import DIGITS, TEXT_LIMIT

SCHEMA_ID = f"urn:gitmoat:audit:{VERSION}"
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
# Capped text may end in three dots.
_TEXT = {"type": "string", "maxLength": TEXT_LIMIT + 3, "pattern": "^[ -~]*$"}
_DIGEST = {"type": "string", "pattern": f"^[0-9a-f]{{{DIGITS}}}$"}
_OBJECT = {"type": "string", "maxLength": 67, "pattern": "^[ -~]*$"}
_REFS = {
    "type": "array",
    "maxItems": REFS_LIMIT + 1,
    "items": {
        "type": "object",
        "properties": {"ref": _TEXT, "old": _OBJECT, "new": _OBJECT, "sha256": _DIGEST},
        "required": ["ref"],
        "additionalProperties": False,
    },
}
_OWN = {
    "v": {"const": VERSION},
    "ts": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
    "seq": {"type": "integer", "minimum": 1},
    "host": {"type": "string"},
    "prev": _HASH,
}


def kinds() -> list[type[Event]]:
    """Every event there is, in the order they are written down."""
    found = [kind for kind in vars(events).values() if isinstance(kind, type)]
    return [kind for kind in found if issubclass(kind, Event) and kind is not Event]


def journal_schema() -> dict[str, Any]:
    """Of one line; each event by itself, so that a key in the wrong place is an error."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "One line of a gitmoat audit journal",
        "type": "object",
        "required": ["v", "ts", "seq", "host", "event", "prev"],
        "oneOf": [_of(kind) for kind in kinds()],
    }


def _of(kind: type[Event]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    members: dict[str, Any] = {**_OWN, "event": {"const": kind.event}}
    required = ["event"]
    for attribute in attrs.fields(kind):
        members[attribute.name] = _value(hints[attribute.name])
        if attribute.default is attrs.NOTHING:
            required.append(attribute.name)
    if kind.verdict is not None:
        members["decision"] = {"const": kind.verdict}
        required.append("decision")
    if kind.reported:
        members["reported"] = {"const": True}
        required.append("reported")
    texts = [key for key, value in members.items() if value is _TEXT]
    if texts:
        members["sha256"] = _digests(texts)
    description = (kind.__doc__ or "").partition("\n")[0]
    return {
        "title": kind.__name__,
        "description": description,
        "properties": members,
        "required": required,
        "additionalProperties": False,
    }


def _digests(texts: list[str]) -> dict[str, Any]:
    """Of those that were cut or from which something was left out."""
    found = {"type": "object", "minProperties": 1, "additionalProperties": False}
    return found | {"properties": dict.fromkeys(texts, _DIGEST)}


def _value(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    if hint in (str, str | None):
        return _TEXT
    if hint in (int, int | None):
        return {"type": "integer", "minimum": 0}
    if get_origin(hint) is tuple:
        return _REFS
    raise TypeError("an event holds text, numbers, verdicts and ref changes only")
