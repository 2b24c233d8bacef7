"""The demo's report: sixteen lines, one object, exit code 6 when one promise is not kept."""

from __future__ import annotations

import base64
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.paths import Paths
from hostctl.arguments import parse
from hostctl.commands.demo import CHECKS, Check, Outcome, line, main, report
from hostctl.demo.inside import CREDENTIAL, SCAN, spellings
from hostctl.failure import Failure
from hostctl.output import Output

CHECK = Check("agent-clone", "agent: git clone works", lambda stage: "")


def outcomes(*oks: bool) -> list[Outcome]:
    return [Outcome(CHECK, ok, "detail") for ok in oks]


def output(encoding: str = "utf-8", json: bool = False) -> tuple[Output, io.BytesIO]:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    return Output(json=json, stdout=stream, stderr=io.StringIO()), raw


def test_there_are_exactly_sixteen_checks_with_names_of_their_own() -> None:
    assert len(CHECKS) == 16
    assert len({check.name for check in CHECKS}) == 16
    assert all(len(check.title) <= 38 for check in CHECKS)


@pytest.mark.parametrize("words", [["--runtime", "docker"], ["--runtime", "bwrap", "--image", "a"]])
def test_a_runtime_without_its_image_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(Failure) as raised:
        main(parse(["demo", *words], "/"), Paths("/"), output()[0])
    assert raised.value.code == "C105"
    assert "image" in str(raised.value)


def test_every_promise_kept_is_exit_code_0() -> None:
    out, raw = output()
    assert report(outcomes(True, True), 3.2, out) == 0
    assert raw.getvalue() == b"all 2 checks passed in 3 s\n"


def test_one_promise_broken_is_exit_code_6() -> None:
    out, raw = output()
    assert report(outcomes(True, False), 3.2, out) == 6
    assert raw.getvalue() == b"1 of 2 checks failed\n"


def test_the_json_is_the_documented_object() -> None:
    out, raw = output(json=True)
    assert report(outcomes(True, False), 1, out) == 6
    good = {"name": "agent-clone", "ok": True, "detail": "detail"}
    assert json.loads(raw.getvalue()) == {
        "schema": "gitmoat.demo/1",
        "checks": [good, {**good, "ok": False}],
        "passed": 1,
        "failed": 1,
    }


def test_marks_are_ascii_where_the_terminal_has_no_others() -> None:
    utf, _ = output()
    ascii_only, _ = output("ascii")
    assert line(1, outcomes(True)[0], utf).startswith("✓  1  agent: git clone works")
    assert line(2, outcomes(False)[0], utf).startswith("✗  2")
    assert line(1, outcomes(True)[0], ascii_only).isascii()
    assert line(2, outcomes(False)[0], ascii_only).startswith("[FAIL]  2")


def test_the_probes_are_python() -> None:
    for source in (SCAN, CREDENTIAL):
        compile(source, "probe", "exec")


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_the_scan_knows_its_marker_inside_any_base64(before: bytes, behind: bytes) -> None:
    marker = "0123456789abcdef"
    encoded = base64.b64encode(before + marker.encode() + behind).decode()
    assert any(spelling in encoded for spelling in spellings(marker))
    assert all(len(spelling) >= 12 for spelling in spellings(marker))
