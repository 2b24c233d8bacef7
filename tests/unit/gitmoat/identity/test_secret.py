"""A secret is not shown by anything that shows values."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable

import pytest
from attrs import asdict, frozen

from gitmoat.identity.secret import Secret

VALUE = b"ghp_marker0123456789"


@frozen
class Holder:
    password: Secret


def test_a_secret_gives_its_value_to_those_who_ask_by_name() -> None:
    assert Secret(VALUE).expose() == VALUE


@pytest.mark.parametrize(
    "show",
    [repr, str, format, lambda s: f"{s!r} {s!s} {s}", lambda s: "%s %r" % (s, s)],  # noqa: UP031
)
def test_no_way_of_printing_shows_it(show: Callable[[Secret], str]) -> None:
    assert "marker" not in show(Secret(VALUE))
    assert "marker" not in repr(Holder(Secret(VALUE)))
    assert "marker" not in repr(asdict(Holder(Secret(VALUE))))


@pytest.mark.parametrize(
    "store", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps, hash, bytes, len, vars]
)
def test_it_is_not_stored_copied_hashed_or_measured(store: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as refused:
        store(Secret(VALUE))
    assert "marker" not in str(refused.value)


def test_comparing_it_is_a_mistake() -> None:
    for other in (VALUE, Secret(VALUE), None):
        with pytest.raises(TypeError):
            Secret(VALUE) == other  # noqa: B015


def test_logs_and_tracebacks_do_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(VALUE)
    logging.getLogger().error("password %s", secret)
    try:
        raise RuntimeError(secret)
    except RuntimeError as problem:
        report = traceback.TracebackException.from_exception(problem, capture_locals=True)
    assert "marker" not in caplog.text
    assert "Secret(...)" in "".join(report.format())
    assert "marker" not in "".join(report.format())


def test_a_mutable_buffer_is_copied() -> None:
    buffer = bytearray(VALUE)
    secret = Secret(buffer)
    buffer[:] = b"x" * len(buffer)
    assert secret.expose() == VALUE
