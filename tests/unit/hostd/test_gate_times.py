"""`[gate]` in hostd.toml: how long the git gate waits."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from hostd.config import GateTimes, parse_config
from hostd.failures import Failed

PATH = Path("/etc/gitmoat/hostd.toml")
KEY = base64.b64encode(bytes(32)).decode()
USUAL = f"""
version = 1
host = "here"
[broker]
address = "127.0.0.1:8443"
key = "{KEY}"
"""


def test_a_file_that_says_nothing_gives_the_usual_times() -> None:
    assert parse_config(PATH, USUAL).gate == GateTimes(answer=20, stall=60, whole=900)


def test_each_time_can_be_set_by_itself() -> None:
    config = parse_config(PATH, USUAL + '[gate]\nanswer = "5s"\nwhole = "2h"\n')
    assert config.gate == GateTimes(answer=5, stall=60, whole=7200)


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("answer = 5", "gate.answer"),
        ('answer = "0s"', "gate.answer"),
        ('stall = "soon"', "gate.stall"),
        ('whole = "-1s"', "gate.whole"),
        ('patience = "5s"', "gate.patience"),
    ],
)
def test_what_is_not_a_time_is_an_error_that_names_its_key(line: str, where: str) -> None:
    with pytest.raises(Failed) as caught:
        parse_config(PATH, f"{USUAL}[gate]\n{line}\n")
    assert where in caught.value.what
    assert caught.value.exit_code == 8
