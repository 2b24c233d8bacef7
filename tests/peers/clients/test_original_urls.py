"""Clients that are not git, in a sandbox, on URLs as people write them.

Each works on the URL that git in a sandbox is led to; from the original one it must be led there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import frozen

from tests.stage.boxes import Box, start_box
from tests.stage.gitmoat import opened
from tests.stage.repositories import create_repository

POLICY = """\
version = 1
name = "clients"
[[git]]
id = "all"
repos = ["demo:peers/*"]
fetch = true
who = ["untrusted"]
"""
HOOKS = {
    ".pre-commit-hooks.yaml": b"- {id: seen, name: seen, entry: 'true', language: system}\n",
}
CRATE = {
    "Cargo.toml": b'[package]\nname = "crate-of-ours"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": b"pub fn answer() -> u32 { 42 }\n",
}
# `$1` is the URL of hooks or of a crate, `$2` the commit that is wanted of it.
CLIENTS = {
    "git": 'git clone -q "$1" c && test "$(git -C c rev-parse HEAD)" = "$2"',
    "libgit2": """
/usr/bin/python3 -I - "$1" "$2" <<'END'
import sys
import pygit2
assert str(pygit2.clone_repository(sys.argv[1], "c").head.target) == sys.argv[2]
END
""",
    "cargo": """
export CARGO_HOME="$PWD/cargo"
mkdir src && echo 'fn main() {}' > src/main.rs
cat > Cargo.toml <<END
[package]
name = "user"
version = "0.1.0"
edition = "2021"
[dependencies]
crate-of-ours = { git = "$1" }
END
/usr/bin/cargo fetch && grep "$2" Cargo.lock
""",
    "pre-commit": """
export PRE_COMMIT_HOME="$PWD/cache"
git init -q w && cd w
printf 'repos:\\n- repo: %s\\n  rev: %s\\n  hooks: [{id: seen}]\\n' "$1" "$2" \
  > .pre-commit-config.yaml
git add .pre-commit-config.yaml && /usr/bin/pre-commit run --all-files
""",
}
BEGIN = 'work=$(mktemp -d -p "$HOME")\ncd "$work" || exit 1\n'


@frozen
class Place:
    box: Box
    commits: dict[str, str]

    def run(self, client: str, base: str) -> tuple[bool, str]:
        name = "peers/hooks" if client == "pre-commit" else "peers/crate"
        ran = self.box.sh(BEGIN + CLIENTS[client], f"{base}/{name}.git", self.commits[name])
        return ran.code == 0, ran.text


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with opened() as stage:
        commits = {
            name: create_repository(stage.upstream.repositories, name, files)
            for name, files in {"peers/hooks": HOOKS, "peers/crate": CRATE}.items()
        }
        (stage.paths.policies / "clients.toml").write_text(POLICY)
        box = start_box(stage, "--policy", "clients", repo=None)
        try:
            yield Place(box, commits)
        finally:
            box.remove()


@pytest.mark.parametrize("client", CLIENTS)
def test_client_is_led_from_the_original_url(place: Place, client: str) -> None:
    upstream = place.box.stage.upstream
    worked, said = place.run(client, f"http://127.0.0.1:419/localhost:{upstream.port}")
    assert worked, said
    worked, said = place.run(client, upstream.url)
    assert worked, said
