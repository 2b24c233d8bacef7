"""The capabilities a push asks for: known ones rewritten, unknown ones told apart from nonsense."""

import re
from typing import Final

from attrs import frozen

from gitmoat.wire.malformed import Malformed

AGENT: Final = "agent=gitmoat"
PUSH_OPTIONS: Final = "push-options"
HEX_DIGITS: Final = {"object-format=sha1": 40, "object-format=sha256": 64}

_PLAIN: Final = frozenset(
    {
        "report-status",
        "report-status-v2",
        "side-band",
        "side-band-64k",
        "delete-refs",
        "quiet",
        "atomic",
        "ofs-delta",
        PUSH_OPTIONS,
    }
)
_NAMES: Final = _PLAIN | {"agent", "session-id", "object-format"}
_VALUE = re.compile(r"[!-~]{1,256}")
_WORD = re.compile(r"[a-z0-9][a-z0-9-]{0,63}(?:=[!-~]{1,256})?")


@frozen
class Capabilities:
    """What goes upstream; `unknown` when the client wants something we have not heard of."""

    served: tuple[str, ...] = ()
    unknown: bool = False

    @property
    def hex_digits(self) -> int:
        return next((HEX_DIGITS[each] for each in self.served if each in HEX_DIGITS), 40)


def parse_capabilities(raw: bytes) -> Capabilities:
    try:
        # Git itself writes one space in front of the first capability.
        text = raw.decode("ascii").removeprefix(" ")
    except UnicodeDecodeError:
        raise Malformed("capabilities are not ASCII") from None
    words = text.split(" ") if text else []
    names = [word.partition("=")[0] for word in words]
    if len(names) != len(set(names)):
        raise Malformed("push repeats a capability")
    known = [word for word in words if not _is_unknown(word)]
    served = [_served(word) for word in known]
    return Capabilities(tuple(each for each in served if each), len(known) < len(words))


def _is_unknown(word: str) -> bool:
    """A word that a newer git might send; one that no git sends is malformed."""
    if word.partition("=")[0] in _NAMES:
        return False
    if _WORD.fullmatch(word) is None:
        raise Malformed("not a capability")
    return True


def _served(word: str) -> str:
    """What goes upstream for it: itself, our own value, or nothing."""
    if word in _PLAIN or word in HEX_DIGITS:
        return word
    name, _, value = word.partition("=")
    if name not in ("agent", "session-id") or _VALUE.fullmatch(value) is None:
        raise Malformed("capability has a value that it cannot have")
    return AGENT if name == "agent" else ""
