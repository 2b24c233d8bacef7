"""Files we write: right TOML, whole or not at all, never over another."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostctl.failure import Failure
from hostctl.setup.configfile import Value, create_file, set_key, toml

printable = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp", "Cn", "Co", "Zs"])
)
values = st.dictionaries(
    st.from_regex(r"[a-z_]{1,9}", fullmatch=True),
    printable | st.booleans() | st.integers(-(2**60), 2**60) | st.lists(printable),
)


@given(values)
def test_what_is_written_is_what_is_read(table: dict[str, Value]) -> None:
    assert tomllib.loads(toml({"upstream.corp": table})) == {"upstream": {"corp": table}}


def test_the_top_level_comes_without_a_header() -> None:
    assert toml({"": {"version": 1}, "a": {"b": True}}) == "version = 1\n[a]\nb = true\n"


@pytest.mark.parametrize("text", ["a\nb", "\x7f", "\x1b[0m", "\0"])
def test_control_characters_are_refused(text: str) -> None:
    with pytest.raises(Failure):
        toml({"a": {"b": text}})


@pytest.mark.root
def test_a_new_file_has_its_mode_from_the_start_and_no_companions(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    assert create_file(path, "one\n", 0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["x.toml"]


@pytest.mark.root
def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("mine\n")
    assert not create_file(path, "other\n", 0o640)
    assert path.read_text() == "mine\n"
    assert [each.name for each in tmp_path.iterdir()] == ["x.toml"]


@pytest.mark.root
def test_a_symlink_in_its_place_is_not_followed(tmp_path: Path) -> None:
    path, target = tmp_path / "x.toml", tmp_path / "target"
    path.symlink_to(target)
    assert not create_file(path, "text\n", 0o640)
    assert not target.exists()


def test_a_key_is_written_anew_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    text = '# top\n[host.a]\nkey = "1"\n[broker]  # ours\nkey = "2"  # pinned\nx = 1\n'
    path.write_text(text)
    path.chmod(0o640)
    set_key(path, "broker", ["2", "3"])
    assert path.read_text() == text.replace('"2"', '["2", "3"]')
    set_key(path, "broker", ["3"])
    assert path.read_text() == text.replace('"2"', '"3"')
    assert path.stat().st_mode & 0o777 == 0o640
    for table in ("host", "host.b", "x"):
        with pytest.raises(Failure):
            set_key(path, table, ["4"])
    assert path.read_text() == text.replace('"2"', '"3"')
