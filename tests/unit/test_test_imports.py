"""What tests share is in tests/stage and tests/fakes: not in the demo, not in other tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# They test the demo itself, or a page that lists what it shows.
OF_THE_DEMO = {
    "cli/test_demo_upstream.py",
    "docker/test_docker_demo.py",
    "unit/hostctl/test_demo.py",
    "unit/hostctl/test_demo_checks.py",
    "unit/test_reference_pages.py",
}
# Whose shared parts are still in conftest.py and in test files; no others may come.
NOT_MOVED_YET = ("wire/", "smuggling/")
NOT_MOVED_YET_EITHER = {
    ("adversary/test_hangs.py", "tests.adversary.test_pack_streams"),
    ("adversary/test_helper_processes.py", "tests.adversary.test_pack_streams"),
    ("cli/test_run_policy.py", "tests.cli.test_presets"),
    ("live/test_nft_source_ports.py", "tests.live.test_nft_ruleset_loads"),
    ("live/test_revocation.py", "tests.live.test_killed_processes"),
    ("live/test_starting_and_stopping.py", "tests.cli.test_not_root"),
}


def imported(source: str) -> Iterator[str]:
    """Every module that may be meant: `from a import b` is a, and a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{each.name}" for each in node.names)


def of_the_demo(module: str) -> bool:
    return module.startswith("hostctl.demo")


def file_of(module: str) -> str:
    """The test file that is meant, as a module; empty if there is none in it."""
    names = module.split(".")
    for end in range(2, len(names) + 1) if names[0] == "tests" else ():
        path = TESTS.joinpath(*names[1:end]).with_suffix(".py")
        if path.name == "conftest.py" or (path.name.startswith("test_") and path.exists()):
            return ".".join(names[:end])
    return ""


def files() -> dict[str, str]:
    found = {str(path.relative_to(TESTS)): path.read_text() for path in TESTS.rglob("*.py")}
    assert len(found) > 300
    return found


def test_only_tests_of_the_demo_use_the_demo() -> None:
    users = {name for name, source in files().items() if any(map(of_the_demo, imported(source)))}
    assert users == OF_THE_DEMO


def test_no_test_file_is_imported() -> None:
    assert {
        (name, file_of(module))
        for name, source in files().items()
        if not name.startswith(NOT_MOVED_YET)
        for module in imported(source)
        if file_of(module)
    } == NOT_MOVED_YET_EITHER


@pytest.mark.parametrize(
    "planted",
    [
        "from tests.live.conftest import LARGE",
        "import tests.cli.conftest",
        "from tests.unit import test_test_imports",
        "def late():\n    from tests.unit.test_docs import *",
    ],
)
def test_an_import_of_a_test_file_is_seen(planted: str) -> None:
    assert any(map(file_of, imported(planted)))


@pytest.mark.parametrize(
    "planted",
    ["from hostctl.demo_stage import Stage", "from hostctl import demo", "import hostctl.demo"],
)
def test_an_import_of_the_demo_is_seen(planted: str) -> None:
    assert any(map(of_the_demo, imported(planted)))


def test_what_is_shared_may_be_imported() -> None:
    allowed = (
        "from tests.stage.boxes import Box\nfrom tests.fakes.tls import End\nimport hostctl.up"
    )
    modules = list(imported(allowed))
    assert not any(file_of(each) or of_the_demo(each) for each in modules)
