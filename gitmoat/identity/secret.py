"""Bytes that must not be shown, compared, copied or stored by accident."""

from __future__ import annotations

import hmac
from typing import NoReturn, final


@final
class Secret:
    """Holds secret bytes; only `expose` gives them back, so every use can be found by name."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes | bytearray) -> None:
        self._value = bytes(value)

    def expose(self) -> bytes:
        return self._value

    def same_as(self, other: Secret) -> bool:
        return hmac.compare_digest(self._value, other._value)

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> NoReturn:
        # `==` on secrets leaks by its timing; `same_as` does not.
        raise TypeError("a secret is not compared with ==")

    __hash__ = None  # type: ignore[assignment]  # a hash is a fingerprint

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not copied or pickled")
