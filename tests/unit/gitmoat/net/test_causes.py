"""The words of each cause: the audit has them, so they stay as they are."""

import pytest

from gitmoat.net.causes import Cause, Why

WORDS = {
    Cause.NOT_TAKEN: "connection was closed before an answer",
    Cause.LOST_BEFORE_ANSWER: "connection was lost before an answer",
    Cause.LOST: "connection was lost",
    Cause.CLIENT_LOST: "client was lost",
    Cause.CLOSING: "connection is closing",
    Cause.CUT: "connection was cut",
    Cause.IDLE: "connection was idle too long",
    Cause.NO_ANSWER: "no answer in time",
    Cause.NO_REQUEST: "request stopped coming",
    Cause.ENDED_EARLY: "request ended early",
    Cause.TOO_FINE: "answer is cut too finely",
    Cause.NOT_OPENED: "no ClientHello in time",
    Cause.REQUEST_TOO_LARGE: "request is too large",
    Cause.ANSWER_TOO_LARGE: "answer is too large",
    Cause.QUOTA: "quota is used up",
    Cause.SLOW: "client is too slow",
    Cause.STOPPED: "stopped",
}


@pytest.mark.parametrize("cause", Cause)
def test_each_cause_has_the_words_that_journals_have(cause: Cause) -> None:
    # What is malformed or refused is told by its detail alone, which always comes with it.
    assert Why(cause).text == WORDS.get(cause, cause.name.lower())


def test_a_detail_is_told_instead() -> None:
    assert Why(Cause.MALFORMED, "header is repeated").text == "header is repeated"
