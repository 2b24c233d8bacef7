"""The broker's resolver where broker.toml names none: the system's, and what it must not do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
# The search list is a trap: a name that does not exist must not become another one.
FILES = {
    "resolv.conf": "nameserver 127.0.0.1\nsearch corp.example\noptions timeout:30 attempts:1\n",
    "hosts": "127.0.0.1 localhost\n10.1.2.3 mirror.example other\n2001:db8::3 mirror.example\n",
    "nsswitch.conf": "hosts: files dns\n",
}


def ask(directory: Path, *names: str) -> dict[str, Any]:
    lines = ["ip link set lo up"]
    for name, text in FILES.items():
        (directory / name).write_text(text)
        lines.append(f"mount --bind {directory / name} /etc/{name}")
    lines.append(f'exec {sys.executable} -P -m tests.live.resolver_probe "$@"')
    command = ["unshare", "-n", "-m", "sh", "-ec", "\n".join(lines), "sh", *names]
    done = subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_names_are_found_as_they_are_and_nowhere_else(tmp_path: Path) -> None:
    told = ask(tmp_path, "web.example", "both.example", "mirror.example", "nowhere.example")
    found = {name: sorted(addresses) for name, addresses in told["found"]}
    assert found == {
        "web.example": ["203.0.113.5"],
        "both.example": ["2001:db8::6", "203.0.113.6"],
        "mirror.example": ["10.1.2.3", "2001:db8::3"],
        "nowhere.example": [],
    }
    assert set(told["heard"]) == {"web.example", "both.example", "nowhere.example"}


def test_names_that_take_long_keep_nobody_waiting_who_dials_a_git_server(tmp_path: Path) -> None:
    slow = [f"slow{number}.example" for number in range(24)]
    told = ask(tmp_path, *slow, "@git.example")
    assert told["found"][0] == ["dialled", ["git.example"]]
    assert sorted(name for name, _ in told["found"][1:]) == sorted(slow)


def test_nor_another_session(tmp_path: Path) -> None:
    slow = [f"1/slow{number}.example" for number in range(24)]
    told = ask(tmp_path, *slow, "2/web.example")
    assert told["found"][0] == ["2/web.example", ["203.0.113.5"]]
    assert sorted(name for name, _ in told["found"][1:]) == sorted(slow)
