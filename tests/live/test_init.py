"""From a login on the host to a configured, running instance; twice is the same as once."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.stage.instance import Instance, make_instance
from tests.stage.owner import log_in


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = make_instance()
    config = '[credential "https://git.example.com"]\n\thelper = store\n'
    (made.root / "etc" / "gitconfig").write_text(config)
    log_in(made.root, "git.example.com", "git.corp.example")
    yield made
    made.remove()


def test_init_configures_starts_and_is_idempotent(instance: Instance) -> None:
    first = instance.hostctl("init", "--user", "nobody", "--yes")
    assert first.code == 0, first
    assert first.out == "gitmoat is set up: example is https://git.example.com\n"
    status = instance.status()
    assert status["broker"]["healthy"] and status["hostd"]["healthy"]
    assert instance.hostctl("upstream", "ls", "-q").out == "example\n"
    (cred,) = json.loads(instance.hostctl("cred", "ls", "--json").out)["items"]
    assert (cred["name"], cred["type"], cred["user"]) == ("example", "git-credential", "nobody")
    before = instance.files()
    second = instance.hostctl("init", "--user", "nobody", "--yes", "--json")
    assert json.loads(second.out)["added"] is False
    assert instance.files() == before


def test_a_name_that_is_taken_leaves_everything_as_it_was(instance: Instance) -> None:
    instance.hostctl("init", "--user", "nobody", "--yes", "--name", "one")
    before = instance.files()
    other = '[credential "https://git.corp.example"]\n\thelper = store\n'
    (instance.root / "etc" / "gitconfig").write_text(other)
    second = instance.hostctl("init", "--user", "nobody", "--yes", "--name", "one")
    assert second.code == 1 and "[C109]" in second.err
    after = instance.files()
    assert {k: v for k, v in after.items() if k != "etc/gitconfig"} == {
        k: v for k, v in before.items() if k != "etc/gitconfig"
    }


def test_a_login_that_does_not_work_leaves_nothing_behind(instance: Instance) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # no git server listens there
        place = f"127.0.0.1:{nobody.getsockname()[1]}"
        config = f'[credential "https://{place}"]\n\thelper = store\n'
        (instance.root / "etc" / "gitconfig").write_text(config)
        log_in(instance.root, place)
        words = ("init", "--user", "nobody", "--yes", "--repo", "acme/app")
        ran = instance.hostctl(*words)
    assert ran.code != 0 and "; nothing of it was kept [U105]" in ran.err
    assert list(instance.paths.broker_d.iterdir()) == []
    assert json.loads(instance.hostctl("cred", "ls", "--json").out)["items"] == []


def authority(file: Path) -> Path:
    trustme.CA().cert_pem.write_to_path(str(file))
    return file


def test_an_authority_of_ones_own_is_configured_with_the_server(instance: Instance) -> None:
    own, other = (str(authority(instance.paths.etc / name)) for name in ("own.pem", "other.pem"))
    words = ("init", "--user", "nobody", "--yes", "--ca-file")
    instance.hostctl(*words, own).expect_success("init")
    (upstream,) = json.loads(instance.hostctl("upstream", "ls", "--json").out)["items"]
    assert upstream["ca_file"] == own
    assert json.loads(instance.hostctl("--json", *words, own).out)["added"] is False
    refused = instance.hostctl(*words, other)
    assert refused.code == 1 and "[C109]" in refused.err and "upstream rm example" in refused.err
