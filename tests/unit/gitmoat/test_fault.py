"""A failure is a value that can be raised, and raised again, as any other exception."""

from __future__ import annotations

import pytest
from twisted.python.failure import Failure

from gitmoat.fault import Fault
from hostd.failures import Failed
from netpolicy.codes import CODES


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
    assert Failed("R103", "there is none").answer()["fix"] == CODES["R103"].fix
    assert Failed("R103", "there is none", fix="make one").answer()["fix"] == "make one"
