"""hostd.toml: what it may say, and how it is told what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostd.config import differences, parse_config
from hostd.failures import Failed
from netpolicy.author import Author

PATH = Path("hostd.toml")
BASIC = """\
version = 1
host = "local"
[broker]
address = "127.0.0.1:8443"
key = "RusWKrbG35nGkTjPhGRJXAsC+CL9rNi/XLv1p7nMves="
"""


def test_the_watchdog_looks_every_fifteen_seconds_or_as_often_as_is_said() -> None:
    assert parse_config(PATH, BASIC).watchdog.interval == 15
    assert parse_config(PATH, BASIC + '[watchdog]\ninterval = "1s"\n').watchdog.interval == 1
    assert parse_config(PATH, BASIC + '[watchdog]\ninterval = "2m"\n').watchdog.interval == 120


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[watchdog]\ninterval = "0s"\n', "watchdog.interval"),
        ("[watchdog]\ninterval = 1\n", "watchdog.interval"),
        ("[watchdog]\ninterval = true\n", "watchdog.interval"),
        ('[watchdog]\nevery = "1s"\n', "watchdog.every"),
        ("[uids]\nbase = 1000\n", "uids.base"),
        ("[uids]\ncount = 2\n", "uids.count"),
        ("[uids]\nbase = 4294967000\n", "uids"),
        ('[runtime]\nshow = ["/"]\n', "runtime.show[0]"),
        ('[runtime]\nshow = ["/home/me"]\n', "runtime.show[0]"),
        ('[runtime]\nshow = ["/optional"]\n', "runtime.show[0]"),
        ('[runtime]\nshow = ["/opt/../etc"]\n', "runtime.show[0]"),
        ('[runtime]\nshow = ["/opt//x"]\n', "runtime.show[0]"),
        ('[runtime]\nshow = ["opt"]\n', "runtime.show[0]"),
        ('[runtime]\nshow = "/opt"\n', "runtime.show"),
        ("[surprise]\n", "surprise"),
    ],
)
def test_a_wrong_key_is_named(text: str, key: str) -> None:
    with pytest.raises(Failed) as refused:
        parse_config(PATH, BASIC + text)
    assert refused.value.code == "N104"
    assert refused.value.what.startswith(f"hostd.toml: {key}: ")


def test_two_keys_of_the_broker_are_taken_while_one_replaces_the_other() -> None:
    old, new = "A" * 43 + "=", "AQ" + "A" * 41 + "="
    text = BASIC.replace('"RusWKrbG35nGkTjPhGRJXAsC+CL9rNi/XLv1p7nMves="', f'["{old}", "{new}"]')
    assert parse_config(Path("hostd.toml"), text).broker.key == (old, new)
    for bad in ("[]", "[1]", "5", f'["{old}", "{new}", "{old}"]'):
        wrong = BASIC.replace('"RusWKrbG35nGkTjPhGRJXAsC+CL9rNi/XLv1p7nMves="', bad)
        with pytest.raises(Failed):
            parse_config(Path("hostd.toml"), wrong)


def test_the_author_of_commits_is_the_hosts_default() -> None:
    assert parse_config(PATH, BASIC).author == Author()
    text = BASIC + '[identity]\nname = "Zoë"\nemail = "z@mail.example"\n'
    assert parse_config(PATH, text).author == Author("Zoë", "z@mail.example")


@pytest.mark.parametrize("name", ["", "a <b>", "a\\nb", ".,"])
def test_a_name_that_git_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(Failed) as caught:
        parse_config(PATH, f'{BASIC}[identity]\nname = "{name}"\n')
    assert caught.value.what.startswith("hostd.toml: identity")


def test_the_keys_that_differ_are_named_in_full() -> None:
    before = parse_config(PATH, BASIC)
    assert differences(before, before) == []
    after = parse_config(PATH, BASIC + '[watchdog]\ninterval = "20s"\n[gate]\nwhole = "1h"\n')
    assert differences(before, after) == ["gate.whole", "watchdog.interval"]


@pytest.mark.parametrize("text", ["version = [", "version = " + "1" * 5000, "a = " + "[" * 9999])
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(Failed) as caught:
        parse_config(PATH, text)
    assert caught.value.code == "N104"
