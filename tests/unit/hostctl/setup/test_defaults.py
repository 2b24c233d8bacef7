"""The embedded configuration is one that the daemons' own parsers take."""

from __future__ import annotations

import base64
import stat
import tomllib
from pathlib import Path

import pytest

from gitmoat.identity.keyfile import load_key, public_text
from gitmoat.paths import Paths
from hostctl.failure import Failure
from hostctl.setup.defaults import BROKER_UID, broker_toml, hostd_toml, write_defaults
from hostd.config import parse_config

KEY = base64.b64encode(bytes(32)).decode()


def test_hostd_takes_its_defaults() -> None:
    config = parse_config(Path("hostd.toml"), hostd_toml("127.0.0.1:8443", KEY))
    assert (config.host, config.broker.address) == ("local", ("127.0.0.1", 8443))
    assert (config.uids.base, config.uids.count) == (2000000000, 300000)


def test_the_brokers_defaults_say_what_is_documented() -> None:
    assert tomllib.loads(broker_toml("127.0.0.1:8443", KEY)) == {
        "version": 1,
        "listen": {"address": "127.0.0.1:8443"},
        "process": {"uid": 1999999999},
        "store": {"url": "sqlite:"},
        "host": {"local": {"key": KEY, "allow": "any"}},
    }


@pytest.mark.root
def test_each_side_is_told_the_others_key(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    write_defaults(paths, "127.0.0.1:9999")
    broker = tomllib.loads(paths.broker_toml.read_text())
    hostd = tomllib.loads(paths.hostd_toml.read_text())
    assert broker["host"]["local"]["key"] == public_text(load_key(paths.host_key))
    assert hostd["broker"]["key"] == public_text(load_key(paths.broker_key, BROKER_UID))
    assert hostd["broker"]["address"] == "127.0.0.1:9999"


@pytest.mark.root
def test_owners_and_modes_are_the_documented_ones(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    write_defaults(paths)
    expected = {
        paths.etc: (0o755, 0, 0),
        paths.broker_d: (0o750, 0, BROKER_UID),
        paths.policies: (0o755, 0, 0),
        paths.broker_toml: (0o640, 0, BROKER_UID),
        paths.hostd_toml: (0o640, 0, 0),
        paths.broker_state: (0o700, BROKER_UID, BROKER_UID),
        paths.hostd_state: (0o700, 0, 0),
        paths.run: (0o700, 0, 0),
        paths.log_dir: (0o700, 0, 0),
    }
    for path, wanted in expected.items():
        found = path.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == wanted, path
    assert list(paths.policies.iterdir()) == []


@pytest.mark.root
def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    write_defaults(paths)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    write_defaults(paths, "127.0.0.1:1")
    assert {path: path.read_bytes() for path in files} == before


@pytest.mark.root
def test_hostd_is_pointed_at_the_configured_broker(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    write_defaults(paths, "127.0.0.1:9000")
    paths.hostd_toml.unlink()
    write_defaults(paths)
    assert tomllib.loads(paths.hostd_toml.read_text())["broker"]["address"] == "127.0.0.1:9000"


def test_a_symlinked_directory_is_refused_and_nothing_is_made_behind_it(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "etc").mkdir()
    paths.etc.symlink_to(elsewhere)
    with pytest.raises(Failure) as caught:
        write_defaults(paths)
    assert caught.value.code == "C101"
    assert list(elsewhere.iterdir()) == []
