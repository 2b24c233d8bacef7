"""One strict reader and writer of typed messages.

A message is a frozen attrs class whose fields say, with `key`, how their value is read and written.
Both ends of a boundary use the same class. A mapping is read whole or refused: a key that no field
has, a key that is missing and a value of another type are errors that carry the path of the key.
Nothing is converted: `true` is no number, `1.0` is no `1`, and a number is no text. (The usual
libraries convert unless told otherwise, which makes two readers of one message differ.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Any, Generic, NoReturn, TypeVar, cast

from attrs import NOTHING, Attribute, field, fields, frozen

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_SHAPE = "gitmoat.shape"
MAX_ITEMS = 256


class Misshapen(Exception):
    """A value that is refused: the path of its key, what is wrong, and a hint how to mend it.

    The texts name keys and limits; they never quote a value, which may be a secret.
    """

    def __init__(self, path: str, what: str, hint: str = "") -> None:
        super().__init__(f"{path}: {what}" if path else what)
        self.path = path
        self.what = what
        self.hint = hint


def _as_it_is(value: Any) -> object:
    return value


@frozen
class Shape(Generic[T]):
    """How one kind of value is read (with the path for its errors) and written."""

    read: Callable[[object, str], T]
    write: Callable[[T], object] = _as_it_is


@frozen
class _Key:
    shape: Shape[Any]
    hint: str


class _Required:
    """The default of a key that has none."""


REQUIRED = _Required()


def key(shape: Shape[T], default: T | _Required = REQUIRED, *, hint: str = "") -> T:
    """A field of a message, given by name; without `default` the key must be there.

    A field that is not made here does not travel: it is of this end alone, and has a default.
    A key whose value is its default is left out when the message is written, unless it must be
    there: messages stay as small as their readers need them.
    """
    initial = NOTHING if isinstance(default, _Required) else default
    metadata = {_SHAPE: _Key(shape, hint)}
    # Typed as the value, so that mypy compares what is read with what the field is said to be.
    return cast(T, field(default=cast(Any, initial), metadata=metadata, kw_only=True))


# Reading and writing a whole message


_Keys = Mapping[str, "tuple[Attribute[Any], _Key]"]
_KEYS: dict[type[Any], _Keys] = {}


def _keys(message: type[Any]) -> _Keys:
    if message not in _KEYS:
        _KEYS[message] = {
            each.name: (each, each.metadata[_SHAPE])
            for each in fields(message)
            if _SHAPE in each.metadata
        }
    return _KEYS[message]


def read(message: type[T], value: object, path: str = "") -> T:
    """The message that this mapping is; Misshapen for anything else."""
    given = _mapping(value, path)
    keys = _keys(message)
    for name in given:
        if name not in keys:
            raise Misshapen(_at(path, name), "unknown key", _hint(name, keys))
    values = {}
    for name, (attribute, described) in keys.items():
        if name in given:
            values[name] = _value(described, given[name], _at(path, name))
        elif attribute.default is NOTHING:
            raise Misshapen(_at(path, name), "is missing", described.hint)
    try:
        return message(**values)
    except ValueError as error:  # what the message itself says of its fields taken together
        raise Misshapen(path, str(error)) from None


def _hint(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(sorted(known))}"


def _value(described: _Key, value: object, path: str) -> object:
    try:
        return described.shape.read(value, path)
    except Misshapen as error:
        if error.hint or not described.hint:
            raise
        raise Misshapen(error.path, error.what, described.hint) from None


def write(message: Any) -> dict[str, object]:
    """The mapping that `read` makes this message of."""
    mapping = {}
    for name, (attribute, described) in _keys(type(message)).items():
        value = getattr(message, name)
        if attribute.default is NOTHING or value != attribute.default:
            mapping[name] = described.shape.write(value)
    return mapping


def read_json(data: bytes | str, most: int) -> object:
    """JSON of a bounded length. NaN and a key that stands twice are refused: readers differ."""
    if len(data) > most:
        raise Misshapen("", f"must be at most {most} characters")
    try:
        return json.loads(data, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Misshapen("", "must be JSON") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key stands twice")
    return mapping


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise Misshapen(path, "must be a table")
    for name in value:
        if not isinstance(name, str):
            raise Misshapen(path, "has a key that is not text")
    return value


# The kinds of values


def text(most: int = 255, least: int = 1, *, printable: bool = True) -> Shape[str]:
    kind = "printable characters" if printable else "characters"

    def read_text(value: object, path: str) -> str:
        if not isinstance(value, str):
            raise Misshapen(path, "must be text")
        if not least <= len(value) <= most or (printable and not value.isprintable()):
            raise Misshapen(path, f"must be {least} to {most} {kind}")
        return value

    return Shape(read_text)


def number(low: int, high: int) -> Shape[int]:
    wanted = f"must be {low}" if low == high else f"must be a whole number from {low} to {high}"

    def read_number(value: object, path: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise Misshapen(path, wanted)
        return value

    return Shape(read_number)


def flag() -> Shape[bool]:
    def read_flag(value: object, path: str) -> bool:
        if not isinstance(value, bool):
            raise Misshapen(path, "must be true or false")
        return value

    return Shape(read_flag)


def choice(*choices: str) -> Shape[str]:
    def read_choice(value: object, path: str) -> str:
        if not isinstance(value, str) or value not in choices:
            raise Misshapen(path, "not one of: " + ", ".join(choices))
        return value

    return Shape(read_choice)


def member(enumeration: type[E]) -> Shape[E]:
    """One of an enumeration whose values are texts."""
    named = choice(*(str(each.value) for each in enumeration))
    return Shape(
        lambda value, path: enumeration(named.read(value, path)), lambda value: str(value.value)
    )


def parsed(
    parse: Callable[[str], T],
    write: Callable[[T], str],
    *errors: type[Exception],
    most: int = 255,
) -> Shape[T]:
    """Text that `parse` understands; what it raises says what is wrong, never the text itself."""
    raised = errors or (ValueError,)

    def read_parsed(value: object, path: str) -> T:
        if not isinstance(value, str) or len(value) > most:
            raise Misshapen(path, f"must be text of at most {most} characters")
        try:
            return parse(value)
        except raised as error:
            raise Misshapen(path, str(error), getattr(error, "hint", "")) from None

    return Shape(read_parsed, write)


def optional(shape: Shape[T]) -> Shape[T | None]:
    return Shape(
        lambda value, path: None if value is None else shape.read(value, path),
        lambda value: None if value is None else shape.write(value),
    )


def in_order(shape: Shape[T], least: int = 0, most: int = MAX_ITEMS) -> Shape[tuple[T, ...]]:
    """A list, in which a value may stand twice."""

    def read_each(value: object, path: str) -> tuple[T, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise Misshapen(path, "must be a list")
        if not least <= len(value) <= most:
            raise Misshapen(path, f"must have {least} to {most} entries")
        return tuple(shape.read(item, f"{path}[{index}]") for index, item in enumerate(value))

    return Shape(read_each, lambda values: [shape.write(each) for each in values])


def several(shape: Shape[T], least: int = 0, most: int = MAX_ITEMS) -> Shape[tuple[T, ...]]:
    """A list without repetition."""
    listed = in_order(shape, least, most)

    def read_once(value: object, path: str) -> tuple[T, ...]:
        found = listed.read(value, path)
        for index, item in enumerate(found):
            if item in found[:index]:
                raise Misshapen(f"{path}[{index}]", "is listed twice")
        return found

    return Shape(read_once, listed.write)


def by_name(shape: Shape[T]) -> Shape[Mapping[str, T]]:
    """A table whose keys are free."""

    def read_values(value: object, path: str) -> Mapping[str, T]:
        given = _mapping(value, path)
        return {name: shape.read(item, _at(path, name)) for name, item in given.items()}

    return Shape(
        read_values, lambda values: {name: shape.write(item) for name, item in values.items()}
    )


def collection(shape: Shape[T], least: int = 0, most: int = MAX_ITEMS) -> Shape[frozenset[T]]:
    """As `several`, where the order says nothing."""
    listed = several(shape, least, most)
    return Shape(
        lambda value, path: frozenset(listed.read(value, path)),
        lambda values: sorted(cast(Iterable[Any], map(shape.write, values))),
    )


def table(message: type[T]) -> Shape[T]:
    """A message inside a message."""
    return Shape(lambda value, path: read(message, value, path), write)


def tagged(tag: str, messages: Mapping[str, type[T]]) -> Shape[T]:
    """One of several messages, told apart by the text under the key `tag`."""
    names = {message: name for name, message in messages.items()}
    known = choice(*messages)

    def read_tagged(value: object, path: str) -> T:
        given = dict(_mapping(value, path))
        if tag not in given:
            raise Misshapen(_at(path, tag), "is missing", "one of: " + ", ".join(messages))
        return read(messages[known.read(given.pop(tag), _at(path, tag))], given, path)

    return Shape(read_tagged, lambda message: {tag: names[type(message)], **write(message)})
