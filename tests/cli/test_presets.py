"""Presets are read from files that only root can have written; a workspace only suggests."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.cli.command import PIP_CONF, Hostctl, put


def policy(root: Path, use: str) -> Path:
    return put(root / "p.toml", f'version = 1\nname = "p"\n[preset]\nuse = [{use}]\n')


def hosts(hostctl: Hostctl, *words: str) -> list[str]:
    done = hostctl("policy", "presets", *words, "--json")
    return [item["host"] for item in json.loads(done.stdout)["items"]]


def test_a_mirror_of_the_company_is_what_the_preset_means(root: Path, hostctl: Hostctl) -> None:
    put(root / "etc/pip.conf", PIP_CONF)
    file = policy(root, '"pip"')
    shown = hostctl("policy", "render", str(file))
    assert "# pip.corp.example: from /etc/pip.conf\n[[egress]]\n" in shown.stdout
    asked = ("tunnel", "pip.corp.example")
    assert hostctl("policy", "explain", str(file), *asked).stdout == (
        "allowed: tunnel pip.corp.example:443: by rule preset-pip\n"
    )
    put(root / "etc/pip.conf", PIP_CONF.replace("pip.corp", "new.corp"))
    assert hostctl("policy", "explain", str(file), *asked).returncode == 3


def test_render_gives_the_same_policy_in_both_forms(root: Path, hostctl: Hostctl) -> None:
    put(root / "etc/pip.conf", PIP_CONF)
    file = policy(root, '"pip"')
    rendered = put(root / "rendered.toml", hostctl("policy", "render", str(file)).stdout)
    first, second = (
        json.loads(hostctl("policy", "render", str(each), "--json").stdout)
        for each in (file, rendered)
    )
    assert first["policy"] == second["policy"] and first["sha256"] == second["sha256"]
    assert rendered.read_text().startswith(f"# policy p, sha256 {first['sha256']}\n")
    assert hostctl("policy", "diff", str(file), str(rendered)).stdout == ""


def test_a_preset_without_configuration_is_an_error_with_a_way_out(
    root: Path, hostctl: Hostctl
) -> None:
    put(root / "etc/npmrc", "")
    done = hostctl("policy", "check", str(policy(root, '"npm"')))
    assert done.returncode == 8
    assert "error: the preset npm names no host here [P105]\n" in done.stderr


def test_an_installed_tools_default_is_read_from_its_archive(root: Path, hostctl: Hostctl) -> None:
    wheel = root / "usr/share/python-wheels/pip-1-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        text = 'PyPI = PackageIndex("https://index.example/", file_storage_domain="f.example")'
        archive.writestr("pip/_internal/models/index.py", text)
    assert hosts(hostctl, "pip") == ["index.example", "f.example"]
    wheel.write_bytes(b"PK\x03\x04 no archive")
    assert hosts(hostctl, "pip") == []


@pytest.mark.parametrize("spoiled", ["owner", "mode", "directory", "link", "fifo", "long"])
def test_what_others_can_write_opens_nothing(root: Path, hostctl: Hostctl, spoiled: str) -> None:
    conf = put(root / "etc/pip.conf", PIP_CONF)
    assert hosts(hostctl, "pip") == ["pip.corp.example"]
    match spoiled:
        case "owner":
            os.chown(conf, 1234, 1234)
        case "mode":
            conf.chmod(0o664)
        case "directory":
            conf.parent.chmod(0o777)
        case "link":
            os.chown(put(root / "home/pip.conf", PIP_CONF).parent, 1234, 1234)
            conf.unlink()
            conf.symlink_to("../home/pip.conf")
        case "fifo":
            conf.unlink()
            os.mkfifo(conf)
        case "long":
            conf.write_text(PIP_CONF + "#" * (1 << 20))
    done = hostctl("policy", "presets", "pip")
    assert "corp.example" not in done.stdout
    assert "note: /etc/pip.conf: not read: " in done.stderr


def test_an_unknown_preset_is_a_misuse(hostctl: Hostctl) -> None:
    done = hostctl("policy", "presets", "pop")
    assert done.returncode == 2
    assert "there are: pip, npm, cargo, go, maven, gem" in done.stderr


@pytest.mark.parametrize("name", ["apt", "apk"])
def test_what_no_sandbox_can_install_is_no_preset(root: Path, hostctl: Hostctl, name: str) -> None:
    done = hostctl("policy", "check", str(policy(root, f'"{name}"')))
    assert done.returncode == 8
    assert f"error: there is no preset {name} any more [P105]\n" in done.stderr
    assert "fix: put the packages into the image or on the host" in done.stderr
    assert hostctl("policy", "presets", name).returncode == 2


def test_a_root_without_such_files_has_those_of_the_host(root: Path, hostctl: Hostctl) -> None:
    """`--root` is where Gitmoat's own files are."""
    host, ours = (
        {each["host"] for each in json.loads(done.stdout)["items"]}
        for done in (
            hostctl("policy", "presets", "--root", "/", "--json"),
            hostctl("policy", "presets", "--json"),
        )
    )
    assert ours == host
