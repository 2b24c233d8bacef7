"""Package managers in a sandbox are told of the policy's indexes: texts and variables."""

from __future__ import annotations

import configparser
import tomllib

from netpolicy.policy import PackageIndexes
from netpolicy.presets.tool_files import files_for, variables_for

INDEX = PackageIndexes(
    pip="https://mirror.example:8443/simple",
    npm="https://mirror.example/npm/",
    go="https://go.example/",
)


def test_each_tool_reads_the_url_in_its_own_file() -> None:
    files = files_for(INDEX)
    pip = configparser.RawConfigParser()
    pip.read_string(files["xdg/pip/pip.conf"])
    assert dict(pip["global"]) == {"index-url": INDEX.pip}
    uv = tomllib.loads(files["xdg/uv/uv.toml"])
    assert uv == {"index": [{"url": INDEX.pip, "default": True}]}
    assert files["npmrc"] == "registry=https://mirror.example/npm/\n"
    assert variables_for(INDEX) == {"GOPROXY": "https://go.example/"}


def test_pip_is_told_that_plain_http_is_meant() -> None:
    text = files_for(PackageIndexes(pip="http://mirror.example:81/simple"))["xdg/pip/pip.conf"]
    assert text.endswith("trusted-host = mirror.example:81\n")


def test_without_an_index_a_tool_keeps_its_default() -> None:
    assert not any(files_for(PackageIndexes()).values())
    assert variables_for(PackageIndexes()) == {}
