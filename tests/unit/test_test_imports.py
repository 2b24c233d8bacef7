"""What tests share is in tests/stage and tests/fakes: not in the demo, not in other tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.stage import sources

TESTS = sources.ROOT / "tests"
# They test the demo itself, or a page that lists what it shows.
OF_THE_DEMO = {
    "tests/cli/test_demo_upstream.py",
    "tests/docker/test_docker_demo.py",
    "tests/unit/hostctl/commands/test_demo.py",
    "tests/unit/hostctl/demo/test_demo_checks.py",
    "tests/unit/test_page_facts.py",
    "tests/unit/test_reference_pages.py",
}
# The one, and two with an interpreter of their own: another version's, one with fewer capabilities.
SPELL_HOSTCTL = {
    "tests/packaging/test_systemd.py",
    "tests/stage/command.py",
    "tests/upgrade/older.py",
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
    return module.startswith(("hostctl.demo", "hostctl.commands.demo"))


def file_of(module: str) -> str:
    """The test file that is meant, as a module; empty if there is none in it."""
    names = module.split(".")
    for end in range(2, len(names) + 1) if names[0] == "tests" else ():
        path = TESTS.joinpath(*names[1:end]).with_suffix(".py")
        if path.name == "conftest.py" or (path.name.startswith("test_") and path.exists()):
            return ".".join(names[:end])
    return ""


def files() -> dict[str, str]:
    """Of tests and of bench, which uses what they share."""
    found = [*sources.files(TESTS), *sources.files(sources.ROOT / "bench")]
    return {str(path.relative_to(sources.ROOT)): path.read_text() for path in found}


def test_only_tests_of_the_demo_use_the_demo() -> None:
    users = {name for name, source in files().items() if any(map(of_the_demo, imported(source)))}
    assert users == OF_THE_DEMO


def test_no_test_file_is_imported() -> None:
    assert {
        (name, file_of(module))
        for name, source in files().items()
        for module in imported(source)
        if file_of(module)
    } == set()


@pytest.mark.parametrize(
    "planted",
    [
        "from tests.live.conftest import LARGE",
        "from tests.wire.broker.conftest import hasty",
        "from tests.wire.sidecar import test_confined",
        "import tests.cli.conftest",
        "from tests.unit import test_test_imports",
        "def late():\n    from tests.unit.test_docs import *",
    ],
)
def test_an_import_of_a_test_file_is_seen(planted: str) -> None:
    assert any(map(file_of, imported(planted)))


def spells_hostctl(source: str) -> bool:
    return re.search(r'"-m",\s*"hostctl",\s*"--root"', source) is not None


def test_hostctl_on_a_root_is_spelt_once() -> None:
    assert {name for name, source in files().items() if spells_hostctl(source)} == SPELL_HOSTCTL
    assert spells_hostctl('[sys.executable, "-m", {}, "--root", root]'.format('"hostctl"'))


@pytest.mark.parametrize(
    "planted",
    [
        "from hostctl.demo.stage import Stage",
        "from hostctl.commands import demo",
        "import hostctl.commands.demo",
    ],
)
def test_an_import_of_the_demo_is_seen(planted: str) -> None:
    assert any(map(of_the_demo, imported(planted)))


def test_what_is_shared_may_be_imported() -> None:
    allowed = (
        "from tests.stage.boxes import Box\nfrom tests.fakes.tls import End\nimport hostctl.output"
    )
    modules = list(imported(allowed))
    assert not any(file_of(each) or of_the_demo(each) for each in modules)
