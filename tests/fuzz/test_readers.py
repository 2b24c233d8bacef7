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
OF_BROKER_TOML = {"broker/config/named_tables.py", "broker/config/values.py"}
NOT_HOSTILE = {
    "broker/kinds/git_stages.py:GitAnswer": "through `AnswerFilter`",
    "broker/kinds/git_stages.py:GzippedRequest": "through `GzipReader`",
    "broker/exchange/kind.py:Prefix": "the interface",
    "broker/kinds/push_commands.py:CommandsReader": "through `CommandReader`",
    "broker/exchange/decisions.py:read_sidecar_headers": "of `request_head`, two patterns",
    "broker/exchange/decisions.py:read_request_id": "the same",
    "broker/startup.py:read_config": "broker.toml",
    "broker/credentials/providers/credential.py:parse_password": "through `read_outcome`",
    "broker/credentials/providers/github_app.py:read_app_key": "a file of root's",
    "gitmoat/wire/http/bodies.py:BodyReader": "the interface",
    "gitmoat/wire/http/bodies.py:ChunkedReader": "through `body_reader`",
    "gitmoat/wire/http/bodies.py:LengthReader": "counts, and reads nothing",
    "gitmoat/wire/http/bodies.py:UntilCloseReader": "the same",
    "gitmoat/wire/http/framing.py:parse_length": "through `RequestReader`",
    "gitmoat/wire/hostname.py:parse_destination": "through `classify_proxy`",
    "gitmoat/wire/http/heads.py:_HeadReader": "through `RequestReader`",
    "gitmoat/wire/git/push_capabilities.py:parse_capabilities": "through `CommandReader`",
    "gitmoat/wire/git/push_certificate.py:PushCertificate": "through `CommandReader`",
    "gitmoat/control/lines.py:LineReader": "root, on control sockets",
    "hostctl/control_client.py:parse_message": "hostd",
    "hostctl/setup/configfile.py:read_document": "a file of root's",
    "hostctl/commands/cp.py:parse_place": "the command line",
    "hostctl/commands/cred.py:read_secret": "standard input",
    "hostctl/policies/policytext.py:read_text": "a file of root's",
    "hostd/process/cgroups.py:parse_mounts": "the kernel",
    "hostd/config.py:parse_config": "hostd.toml",
    "hostd/process/proc.py:parse_mountinfo": "the kernel",
    "hostd/process/proc.py:parse_status": "the kernel, which escapes names of processes",
    "hostd/sandbox/planning.py:parse_run": "root, through hostd.sock",
    "hostd/sandbox/planning.py:read_policy": "hostctl",
    "hostd/gate/refspecs.py:parse_gate": "the same",
    "hostd/gate/refspecs.py:parse_push": "the same",
    "hostd/sandbox/workdir.py:parse_workdir": "hostd's own file",
    "gitmoat/identity/keyfile.py:parse_public": "configuration",
    "gitmoat/shape.py:read": "through `parse_report`",
    "gitmoat/shape.py:read_json": "the same",
    "gitmoat/messages/sidecar.py:parse_config": "hostd",
    "gitmoat/messages/sidecar.py:parse_allowed": "hostd",
    "gitmoat/messages/sidecar.py:parse_order": "hostd",
}
READING = (
    *("broker", "credential_helper", "gitmoat", "gitmoat.identity", "gitmoat.wire"),
    *("hostctl", "hostd", "sidecar"),
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
