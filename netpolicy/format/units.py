"""Durations and sizes as people write them in a policy: always with a unit."""

import re
from collections.abc import Mapping

_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"([1-9][0-9]{0,14})(B|KiB|MiB|GiB|TiB)")
_OCTETS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_duration(text: str) -> int:
    """Seconds of `90s`, `30m`, `8h`, `2d`; ValueError for anything else."""
    matched = _DURATION.fullmatch(text)
    if matched is None:
        raise ValueError("not a duration like 90s, 30m, 8h or 2d")
    return int(matched[1]) * _SECONDS[matched[2]]


def parse_size(text: str) -> int:
    """Octets of `512B`, `64KiB`, `200MiB`, `4GiB`; ValueError for anything else."""
    matched = _SIZE.fullmatch(text)
    if matched is None:
        raise ValueError("not a size like 64KiB, 200MiB or 4GiB")
    return int(matched[1]) * _OCTETS[matched[2]]


def format_duration(seconds: int) -> str:
    """In the largest unit that says it exactly."""
    return _format(seconds, _SECONDS)


def format_size(octets: int) -> str:
    return _format(octets, _OCTETS)


def _format(number: int, units: Mapping[str, int]) -> str:
    unit = max((unit for unit in units if number % units[unit] == 0), key=lambda u: units[u])
    return f"{number // units[unit]}{unit}"
