"""Cases of one test, some of them in every run and all of them in the long one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def also_long(*always: object, long: Iterable[object]) -> list[Any]:
    return [*always, *map(_long, long)]


def one_in(number: int, cases: Iterable[object]) -> list[Any]:
    """The first of every `number` cases always; a table's neighbours are near relatives."""
    return [_long(each) if at % number else each for at, each in enumerate(cases)]


def _long(case: object) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, id=case.id, marks=pytest.mark.long)
    return pytest.param(case, marks=pytest.mark.long)
