"""Numbers as they are typed: durations, sizes, counts. argparse reports what each raises."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

from netpolicy.format.units import parse_duration

_SIZE = re.compile(r"([1-9][0-9]{0,14})([kmgt]?)(?:i?b)?")
_STEP = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is {error}") from None


def size(text: str) -> int:
    """Bytes of `512m`, `2g`, `2GiB`; a unit is 1024 of the one before."""
    matched = _SIZE.fullmatch(text.lower())
    if matched is None:
        raise ArgumentTypeError(f"{text!r} is not a size like 512m or 2g")
    return int(matched[1]) << _STEP[matched[2]]


def count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def cpus(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.01 <= number <= 4096:
        raise ArgumentTypeError(f"{text!r} is not a number of CPUs like 2 or 0.5")
    return number
