"""A strict reader of mappings: every key is asked for by name, and what nobody asked for is an
error that names its path."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from attrs import define, field

from netpolicy.patterns.matchers import BadPattern

T = TypeVar("T")
L = TypeVar("L", bound=str)
MAX_ITEMS = 256


class PolicyError(Exception):
    """A document that is refused: where (key path), what is wrong, and a hint."""

    code = "P101"

    def __init__(self, path: str, what: str, hint: str = "") -> None:
        super().__init__(f"{path}: {what}" if path else what)
        self.path = path
        self.what = what
        self.hint = hint


class UnknownKey(PolicyError):
    """A key that this program does not know: it is misspelt, or of a later version."""


@define(eq=False)
class Table:
    """One table of a document, being emptied. Call `close` when every key was asked for."""

    path: str
    _left: dict[str, object]
    _asked: list[str] = field(factory=list)

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str) -> object:
        """The value, or None where the key is missing."""
        self._asked.append(key)
        return self._left.pop(key, None)

    def close(self) -> None:
        for key in self._left:
            near = get_close_matches(key, self._asked, 1)
            known = ", ".join(sorted(self._asked))
            hint = f"did you mean `{near[0]}`?" if near else f"known here: {known}"
            raise UnknownKey(self.at(key), "unknown key", hint)

    def text(self, key: str, default: str | None = None) -> str:
        value = self.take(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self._wrong(key, value, "text")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self.take(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def number(self, key: str, default: int, limit: int) -> int:
        value = self.take(key)
        if value is None:
            return default
        if type(value) is not int or not 1 <= value <= limit:
            raise self._wrong(key, value, f"a whole number from 1 to {limit}")
        return value

    def choice(self, key: str, choices: Sequence[L], default: L | None = None) -> L:
        value = self.text(key, default)
        for choice in choices:
            if value == choice:
                return choice
        raise PolicyError(self.at(key), "not one of: " + ", ".join(choices))

    def quantity(self, key: str, parse: Callable[[str], int], default: int, limit: int) -> int:
        """A duration or a size: text with a unit, never a bare number."""
        given = self.take(key)
        if given is None:
            return default
        value = parse_at(self.at(key), given if isinstance(given, str) else "", parse)
        if value > limit:
            raise PolicyError(self.at(key), "too large")
        return value

    def parsed(self, key: str, parse: Callable[[str], T]) -> T:
        return parse_at(self.at(key), self.text(key), parse)

    def parsed_all(self, key: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """A list of texts without repetition; a missing key is an empty list."""
        parsed: list[T] = []
        for index, item in enumerate(self._list(key)):
            path = f"{self.at(key)}[{index}]"
            if not isinstance(item, str):
                raise PolicyError(path, "must be text")
            value = parse_at(path, item, parse)
            if value in parsed:
                raise PolicyError(path, "is listed twice")
            parsed.append(value)
        return tuple(parsed)

    def numbers(self, key: str, default: tuple[int, ...], limit: int) -> tuple[int, ...]:
        if not self.has(key):
            self.take(key)
            return default
        values = self._list(key)
        for index, value in enumerate(values):
            if type(value) is not int or not 1 <= value <= limit or value in values[:index]:
                path = f"{self.at(key)}[{index}]"
                raise PolicyError(path, f"must be a whole number from 1 to {limit}, listed once")
        return tuple(value for value in values if isinstance(value, int))

    def table(self, key: str) -> "Table":
        """A table below this one; a missing one is empty."""
        value = self.take(key)
        return open_table({} if value is None else value, self.at(key))

    def tables(self, key: str) -> list["Table"]:
        items = enumerate(self._list(key))
        return [open_table(item, f"{self.at(key)}[{index}]") for index, item in items]

    def _list(self, key: str) -> list[object]:
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self._wrong(key, value, "a list")
        if len(value) > MAX_ITEMS:
            raise PolicyError(self.at(key), f"more than {MAX_ITEMS} entries")
        return list(value)

    def _wrong(self, key: str, value: object, wanted: str) -> PolicyError:
        if value is None:
            return PolicyError(self.at(key), "is missing", f"must be {wanted}")
        return PolicyError(self.at(key), f"must be {wanted}")


def open_table(value: object, path: str = "") -> Table:
    if not isinstance(value, Mapping):
        raise PolicyError(path, "must be a table")
    for key in value:
        if not isinstance(key, str):
            raise PolicyError(path, "has a key that is not text")
    return Table(path, dict(value))


def parse_at(path: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except BadPattern as error:
        raise PolicyError(path, error.what, error.hint) from None
    except ValueError as error:
        raise PolicyError(path, str(error)) from None
