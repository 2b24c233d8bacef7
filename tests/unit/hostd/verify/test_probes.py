from __future__ import annotations

import json
import os

import pytest

from gitmoat.codes import CODES
from hostd.verify.attempts.reporting import ATTEMPTS, attempt, report
from hostd.verify.probes import ACTIVATION, Outcome, attempts_of, judge, read_outcomes

WORKS, FAILS = Outcome(True, "connected"), Outcome(False, "EPERM")


def good() -> list[Outcome]:
    return [WORKS if probe.allowed else FAILS for probe in ACTIVATION]


def test_expected_outcomes_pass() -> None:
    assert all(judged.ok for judged in judge(ACTIVATION, good()))


@pytest.mark.parametrize("number", range(len(ACTIVATION)))
def test_each_probe_can_fail(number: int) -> None:
    """A probe whose outcome is turned round is reported, and only that one."""
    probe, outcomes = ACTIVATION[number], good()
    outcomes[number] = FAILS if probe.allowed else WORKS
    wrong = [judged for judged in judge(ACTIVATION, outcomes) if not judged.ok]
    assert [each.probe for each in wrong] == [probe]
    assert probe.name in str(wrong[0])


def test_a_refusal_by_time_out_is_not_one() -> None:
    outcomes = good()
    outcomes[-1] = Outcome(False, "ETIMEDOUT")
    assert [judged.ok for judged in judge(ACTIVATION, outcomes)].count(False) == 1


def test_probes_that_did_not_run_do_not_pass() -> None:
    judged = judge(ACTIVATION, good()[:3])
    assert [each.ok for each in judged] == [True] * 3 + [False] * (len(ACTIVATION) - 3)
    assert judged[3].got == "not tried"


def test_every_code_is_explained_and_every_attempt_exists() -> None:
    assert {probe.code for probe in ACTIVATION} <= set(CODES)
    assert {probe.attempt for probe in ACTIVATION} <= set(ATTEMPTS)


def test_both_tiers_and_both_answers_are_tried() -> None:
    tried = {(probe.tier, probe.allowed) for probe in ACTIVATION}
    assert tried == {(tier, allowed) for tier in ("untrusted", "helper") for allowed in (1, 0)}


def test_a_report_has_one_line_for_each_attempt() -> None:
    asked = [["open", "/", "read"], ["open", "/nonexistent", "read"]]
    receiving, sending = os.pipe()
    with open(receiving, "rb") as pipe:
        report(asked, sending)
        os.close(sending)
        written = pipe.read()
    assert read_outcomes(written, 2) == [Outcome(True, "opened"), Outcome(False, "ENOENT")]


def test_what_a_killed_process_wrote_counts_up_to_its_last_whole_line() -> None:
    written = json.dumps([False, "EPERM"]).encode() + b'\n[true, "conn'
    assert read_outcomes(written, 2) == [Outcome(False, "EPERM")]


@pytest.mark.parametrize("odd", [b"5", b'["no", "x"]', b"[true]", b"{", b"[true, 7]", b"\xff"])
def test_a_line_that_is_not_ours_ends_the_report(odd: bytes) -> None:
    written = b'[false, "EPERM"]\n' + odd + b'\n[false, "EPERM"]\n'
    assert read_outcomes(written, 3) == [Outcome(False, "EPERM")]


def test_attempts_are_sent_as_names_and_targets() -> None:
    first = ACTIVATION[0]
    assert attempts_of(ACTIVATION)[0] == [first.attempt, *first.target]
    assert json.loads(json.dumps(attempts_of(ACTIVATION))) == attempts_of(ACTIVATION)


def test_an_error_from_behind_the_filter_is_not_a_refusal() -> None:
    """Without a filter the kernel looks at the arguments, and finds another fault in them."""
    worked, got = attempt("call", "setns", -1, 0)
    assert (worked, got) == (True, "EBADF")
