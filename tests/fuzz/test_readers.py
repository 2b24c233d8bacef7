"""The fuzz targets, for seconds: every seed, random bytes, mutated seeds, and a guided run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.examples import examples
from tests.fuzz.readers import READERS
from tests.fuzz.seeds import seeds
from tests.stage.sources import product_files
from tools.size import part_of

ROOT = Path(__file__).parents[2]
SECONDS = 10
SEEDS = seeds()


def test_every_reader_has_seeds() -> None:
    assert SEEDS.keys() == READERS.keys()
    assert all(SEEDS.values())


# Readers that hear nobody but the host's own root, its configuration or its kernel; and those that
# a target reaches through another reader.
OF_BROKER_TOML = {"broker/configtables.py", "broker/configvalues.py"}
NOT_HOSTILE = {
    "broker/git_stages.py:GitAnswer": "through `AnswerFilter`",
    "broker/git_stages.py:GzippedRequest": "through `GzipReader`",
    "broker/kind.py:Prefix": "the interface",
    "broker/push_commands.py:CommandsReader": "through `CommandReader`",
    "broker/gate.py:read_sidecar_headers": "headers of `request_head`, against two patterns",
    "broker/gate.py:read_request_id": "the same",
    "broker/opening.py:read_config": "broker.toml",
    "broker/providers/credential.py:parse_password": "through `read_outcome` and `read_answer`",
    "broker/providers/github_app.py:read_app_key": "a file of root's",
    "gitwire/bodies.py:BodyReader": "the interface",
    "gitwire/bodies.py:ChunkedReader": "through `body_reader`",
    "gitwire/bodies.py:LengthReader": "counts, and reads nothing",
    "gitwire/bodies.py:UntilCloseReader": "the same",
    "gitwire/framing.py:parse_length": "through `RequestReader`",
    "gitwire/hostname.py:parse_destination": "through `classify_proxy`",
    "gitwire/http.py:_HeadReader": "through `RequestReader`",
    "gitwire/pushcapabilities.py:parse_capabilities": "through `CommandReader`",
    "gitwire/pushcertificate.py:PushCertificate": "through `CommandReader`",
    "gitmoat/control/lines.py:LineReader": "root, on control sockets",
    "hostctl/client.py:parse_message": "hostd",
    "hostctl/configfile.py:read_document": "a file of root's",
    "hostctl/cp.py:parse_place": "the command line",
    "hostctl/cred.py:read_secret": "standard input",
    "hostctl/policytext.py:read_text": "a file of root's",
    "hostd/cgroups.py:parse_mounts": "the kernel",
    "hostd/config.py:parse_config": "hostd.toml",
    "hostd/proc.py:parse_mountinfo": "the kernel",
    "hostd/proc.py:parse_status": "the kernel, which escapes the name that a process gives itself",
    "hostd/planning.py:parse_run": "root, through hostd.sock",
    "hostd/planning.py:read_policy": "hostctl",
    "hostd/refspecs.py:parse_gate": "the same",
    "hostd/refspecs.py:parse_push": "the same",
    "hostd/workdir.py:parse_workdir": "hostd's own file",
    "identity/keyfile.py:parse_public": "configuration",
    "gitmoat/shape.py:read": "through `parse_report`",
    "gitmoat/shape.py:read_json": "the same",
    "gitmoat/messages/sidecar.py:parse_config": "hostd",
    "gitmoat/messages/sidecar.py:parse_policy": "hostd",
    "gitmoat/messages/sidecar.py:parse_order": "hostd",
}
READING = (
    *("broker", "credential_helper", "gitmoat", "gitwire", "hostctl", "hostd", "identity"),
    "sidecar",
)


def readers_of(path: Path) -> Iterator[str]:
    """What is named like a reader: parse_, read_, classify, and classes with `feed`."""
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef(name) if re.match(r"(parse|read|classify)(_|$)", name):
                yield name
            case ast.ClassDef(name, body=body) if any(map(_feeds, body)):
                yield name


def _feeds(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "feed"


def test_every_reader_of_the_code_has_a_target_or_hears_nobody_hostile() -> None:
    here = Path(__file__).parent
    used = (here / "readers.py").read_text() + (here / "readers_of_text.py").read_text()
    found = {
        f"{path.relative_to(ROOT)}:{name}": re.search(rf"\b{name}\b", used) is not None
        for path in product_files()
        if part_of(".".join(path.relative_to(ROOT).with_suffix("").parts)) in READING
        and str(path.relative_to(ROOT)) not in OF_BROKER_TOML
        for name in readers_of(path)
    }
    assert [
        place for place, fuzzed in found.items() if not fuzzed and place not in NOT_HOSTILE
    ] == []
    assert [place for place in NOT_HOSTILE if place not in found] == [], "gone"


@pytest.mark.parametrize("name", READERS)
def test_seeds_hold(name: str) -> None:
    for seed in SEEDS[name]:
        READERS[name](seed)


# pytest-twisted cannot wrap a property that is parametrised, so the reader is drawn.
@given(name=st.sampled_from(list(READERS)), data=st.data())
@settings(max_examples=examples(600))
def test_bytes_near_a_seed_hold(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[name]))
    at = data.draw(st.integers(0, len(seed)))
    cut = data.draw(st.integers(0, 4))
    READERS[name](seed[:at] + data.draw(st.binary(max_size=6)) + seed[at + cut :])


@given(name=st.sampled_from(list(READERS)), raw=st.binary(max_size=200))
@settings(max_examples=examples(600))
def test_any_bytes_hold(name: str, raw: bytes) -> None:
    READERS[name](raw)


@pytest.mark.long
def test_a_guided_run_finds_nothing(tmp_path: Path) -> None:
    """`make fuzz` is the same for longer. `make test-long` puts atheris where this looks for it."""
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", str(SECONDS), "--seed", "1"]
    done = subprocess.run(
        [*command, "--corpus", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".fuzz" / "lib")},
        capture_output=True,
        timeout=SECONDS * 10 + 60,
        check=False,
    )
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-3000:]
    assert not list(tmp_path.glob("crash-*"))
    assert len(list((tmp_path / "all").iterdir())) > sum(map(len, SEEDS.values()))
