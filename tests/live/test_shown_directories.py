"""`[runtime] show`: tools of the host that are not the system's own, for bubblewrap sandboxes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stage.instance import Instance, make_instance


@pytest.fixture
def tools() -> Iterator[Path]:
    """Two directories of /usr/local, one of them to be shown."""
    made = Path(tempfile.mkdtemp(prefix="gm-", dir="/usr/local"))
    made.chmod(0o755)
    for name in ("shown", "other"):
        (made / name).mkdir()
        program = made / name / "tool"
        program.write_text("#!/bin/sh\necho it works\n")
        program.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = make_instance()
    yield made
    made.remove()


def show(instance: Instance, *paths: Path) -> None:
    named = ", ".join(f'"{path}"' for path in paths)
    with instance.paths.hostd_toml.open("a") as file:
        file.write(f"[runtime]\nshow = [{named}]\n")
    instance.hostctl("up").expect_success("up")


def test_what_is_named_is_seen_and_cannot_be_written(instance: Instance, tools: Path) -> None:
    show(instance, tools / "shown")
    script = f"{tools}/shown/tool; touch {tools}/shown/x; ls {tools}; ls /usr/local"
    ran = instance.hostctl("run", "--rm", "--", "sh", "-c", script)
    assert ran.out.splitlines() == ["it works", "shown", tools.name]
    assert "Read-only file system" in ran.err
    missing = instance.hostctl("run", "--rm", "--", f"{tools}/other/tool")
    assert missing.code == 127
    assert "runtime.show" in missing.err and "/usr/local" in missing.err


def test_a_link_or_nothing_is_not_shown(instance: Instance, tools: Path) -> None:
    (tools / "link").symlink_to("/etc")
    show(instance, tools / "link")
    ran = instance.hostctl("run", "--rm", "--", "true")
    assert ran.code == 125 and f"names {tools}/link, which is no directory [N104]" in ran.err
