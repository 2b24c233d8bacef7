"""What a command installs for its user is found by its name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.live import packages
from tests.stage.boxes import Box, MakeBox

WHEEL = "greeting-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def box(make_shared_box: MakeBox) -> Box:
    return make_shared_box(repo=None)


def copy(box: Box, source: Path, target: str) -> None:
    ran = box.stage.hostctl("cp", str(source), f"{box.name}:{target}")
    ran.expect_success("hostctl cp")


def test_a_program_in_the_users_own_directory_is_found(box: Box) -> None:
    script = "mkdir -p ~/.local/bin && printf '#!/bin/sh\\necho mine' > ~/.local/bin/of-mine"
    box.sh(f"{script} && chmod +x ~/.local/bin/of-mine").expect_success("writing it")
    assert box.run("of-mine").out == "mine\n"


def test_pip_installs_for_the_user(box: Box, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        info = "greeting-1.0.dist-info"
        archive.writestr("greeting.py", "def main():\n    print('hello')\n")
        about = "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"
        archive.writestr(f"{info}/METADATA", about)
        wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel)
        scripts = "[console_scripts]\ngreet = greeting:main\n"
        archive.writestr(f"{info}/entry_points.txt", scripts)
        archive.writestr(f"{info}/RECORD", "")
    packages.give_pip(tmp_path / "with-pip")
    copy(box, tmp_path, "/workspace/pip")
    install = f"/usr/bin/python3 -m pip install -q --user --no-index /workspace/pip/{WHEEL}"
    box.sh(f"PYTHONPATH=/workspace/pip/with-pip {install}").expect_success("pip install --user")
    assert box.run("greet").out == "hello\n"


def test_npm_installs_globally_below_home(box: Box, tmp_path: Path) -> None:
    (tmp_path / "greet.js").write_text("#!/usr/bin/env node\nconsole.log('hello')\n")
    package = {"name": "greet", "version": "1.0.0", "bin": {"greet-js": "greet.js"}}
    (tmp_path / "package.json").write_text(json.dumps(package))
    copy(box, tmp_path, "/workspace/npm")
    install = "npm install -g --offline --no-audit --no-fund /workspace/npm"
    box.sh(install).expect_success("npm install -g")
    assert box.run("greet-js").out == "hello\n"
