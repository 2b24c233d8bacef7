"""A failure is a value that can be raised, and raised again, as any other exception."""

from __future__ import annotations

import json

import pytest
from twisted.python.failure import Failure

from gitmoat.codes import CODES
from gitmoat.fault import Fault, fault_of
from hostd.failures import Failed


def test_it_reads_as_one_line() -> None:
    assert str(Fault("R101", "it did not go")) == "R101: it did not go"
    assert str(Fault("R101", "it did not go", "no disk")) == "R101: it did not go (no disk)"


def test_it_passes_through_a_failure_with_its_cause() -> None:
    cause = OSError("no disk")
    with pytest.raises(Fault) as caught:
        try:
            raise cause
        except OSError as problem:
            raise Fault("R101", "it did not go") from problem
    assert caught.value.__cause__ is cause
    with pytest.raises(Fault) as again:
        Failure(caught.value).raiseException()
    assert again.value is caught.value


def test_what_to_do_is_the_codes_own_unless_it_is_said() -> None:
    assert Failed("R103", "there is none").fix == CODES["R103"].fix
    assert Failed("R103", "there is none", fix="make one").fix == "make one"


def test_another_program_reads_the_fault_that_was_told() -> None:
    told = fault_of(json.loads(json.dumps(Fault("R101", "it did not go", "w", "f").mapping())))
    assert told is not None
    assert (told.code, told.what, told.why, told.fix) == ("R101", "it did not go", "w", "f")


def test_why_and_what_to_do_may_be_left_out() -> None:
    told = fault_of({"code": "S101", "what": "this session has ended"})
    assert told is not None
    assert (told.why, told.fix) == ("", "")


@pytest.mark.parametrize(
    "told",
    [
        None, "R101", ["R101"], {}, {"code": "R101"}, {"what": "x"}, {"code": "", "what": "x"},
        {"code": 1, "what": "x"}, {"code": "R101", "what": {}},
        {"code": "R101", "what": "x", "why": None}, {"code": "R101", "what": "x", "fix": 1},
    ],
)  # fmt: skip
def test_what_has_no_code_or_no_text_is_no_fault(told: object) -> None:
    assert fault_of(told) is None
