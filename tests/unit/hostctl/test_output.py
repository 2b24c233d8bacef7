"""Results on stdout, the rest on stderr; colour and symbols only where they can be shown."""

from __future__ import annotations

import io
import json

import pytest

from hostctl.failure import Failure
from hostctl.output import Output, wants_colour


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def make(**settings: bool) -> tuple[Output, io.StringIO, io.StringIO]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return Output(stdout=stdout, stderr=stderr, **settings), stdout, stderr


def test_a_result_is_a_sentence_or_an_object() -> None:
    out, stdout, _ = make()
    out.result("done", {"schema": "x/1"})
    assert stdout.getvalue() == "done\n"
    out, stdout, _ = make(json=True)
    out.result("done", {"schema": "x/1"})
    assert json.loads(stdout.getvalue()) == {"schema": "x/1"}


def test_quiet_says_nothing_about_success_but_json_still_answers() -> None:
    out, stdout, stderr = make(quiet=True)
    out.result("done", {})
    out.progress("working")
    assert stdout.getvalue() + stderr.getvalue() == ""


def test_a_failure_is_on_stderr_and_with_json_also_an_object_on_stdout() -> None:
    out, stdout, stderr = make(json=True, quiet=True)
    out.failure(Failure("R103", "none"))
    assert stderr.getvalue().startswith("error: none [R103]\n")
    assert json.loads(stdout.getvalue())["error"]["exit"] == 4


def test_a_table_is_aligned_and_cannot_be_broken_by_its_cells() -> None:
    out, stdout, _ = make()
    out.table(("A", "B"), [["long\nname", 1], ["x", "\x1b[31m"]])
    assert stdout.getvalue() == "A          B\nlong name  1\nx          [31m\n"


@pytest.mark.parametrize(
    ("environ", "refused", "colour"),
    [
        ({"TERM": "xterm"}, False, True),
        ({"TERM": "xterm"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, False, True),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    environ: dict[str, str], refused: bool, colour: bool
) -> None:
    assert wants_colour(environ, refused, Screen()) is colour
    assert wants_colour(environ, refused, io.StringIO()) is False
