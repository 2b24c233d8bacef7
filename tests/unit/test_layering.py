"""Who may import whom, and why not. The table is the architecture; this test keeps it true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from attrs import frozen

from tests.stage.sources import ROOT, files, product_files
from tools.size import PARTS, part_of

OURS = set(PARTS)
PROGRAMS = {"broker", "hostctl", "hostd", "sidecar"}
PURE = {"gitmoat.wire", "gitmoat.limits", "netpolicy"}

LEAVES = {"gitmoat.audit", "gitmoat.confine", "gitmoat.identity"}


@frozen
class Import:
    module: str
    target: str


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in product_files()}
IMPORTS = [
    Import(module, target) for module, path in MODULES.items() for target in imports_of(path)
]

# (who, may not import, unless the importing module is one of, because)
FORBIDDEN: list[tuple[set[str], set[str], set[str], str]] = [
    (
        PROGRAMS, PROGRAMS, {"hostd.zygote"},
        "programs meet through bytes, so that one can be replaced, moved to another host or "
        "compromised without the others; the zygote forks sidecars instead of starting them",
    ),
    (
        PURE,
        {"twisted", "OpenSSL", "nacl", "cryptography", "docker", "socket", "subprocess", "os"},
        set(), "pure code decides and never does; it must be testable without a world",
    ),
    (
        PURE, (OURS - PURE - {"gitmoat"}) | {"gitmoat.messages"}, set(),
        "a decision that depends on an edge cannot be shared by two hops",
    ),
    (
        OURS, {"bench", "tests", "tools"}, set(),
        "what measures, tests and publishes the product is not installed with it",
    ),
    (
        {"gitmoat.wire"}, {"netpolicy"}, set(),
        "what bytes mean does not depend on what is allowed",
    ),
    (
        {"gitmoat"},
        PROGRAMS | {"credential_helper", "gitmoat.net", "gitmoat.confine", "gitmoat.audit"},
        {"gitmoat.control.server"},
        "what the programs share knows none of them, and no connection but a control socket's",
    ),
    (
        {"gitmoat.limits"}, OURS - {"gitmoat.limits"}, set(),
        "counting depends on nothing that is counted",
    ),
    (
        {"credential_helper"}, OURS - {"credential_helper"}, set(),
        "it is started by git for every operation, from a directory of its own",
    ),
    (
        {"credential_helper"},
        {"twisted", "attrs", "json", "argparse", "logging", "typing", "os", "socket"}, set(),
        "every import is paid at every git operation",
    ),
    (
        LEAVES, OURS - LEAVES, set(),
        "leaves know nothing of the house",
    ),
    (
        {"gitmoat.net"}, OURS - {"gitmoat.net", "gitmoat.wire", "gitmoat.limits"}, set(),
        "a connection knows no policy and no key",
    ),
    (
        {"gitmoat", "gitmoat.audit", "gitmoat.confine", "gitmoat.wire", "hostctl", "netpolicy"},
        {"twisted"},
        {"gitmoat.control.server"},
        "a reactor belongs to daemons; hostctl must start fast",
    ),
    (
        OURS, {"docker"}, {"hostd.docker.engine"}, "one module talks to Docker",
    ),
    (
        OURS, {"subprocess"},
        {"hostd.process.fork_client", "hostctl.setup.daemons", "hostctl.demo.git_server",
         "hostctl.demo.stage", "hostctl.doctor.machine", "hostctl.setup.logins"},
        "processes are started by the zygote's one confining routine; hostd starts the zygote, "
        "and hostctl the daemons and its demo, asks programs for their versions, and as a user "
        "whether that user has a login",
    ),
    (
        {"sidecar", "hostd", "hostctl", "gitmoat.net"}, {"gitmoat.identity.secret"}, set(),
        "an upstream credential is the broker's alone",
    ),
    (
        {"broker"}, {"gitmoat.net.transport.dialling"}, {"broker.upstream.dialler"},
        "a connection is dialled for something that is registered: it asks for its entry",
    ),
    (
        OURS, {"sqlite3"}, {"broker.sessions.store.sqlite"},
        "what a store is made of is one module's; its errors are the store's own",
    ),
    (
        OURS, {"twisted.web"}, set(), "it spools whole bodies and is lenient; see docs/decisions",
    ),
    (
        OURS, {"pickle", "marshal", "shelve"}, set(), "reading them runs code",
    ),
]  # fmt: skip


def belongs(name: str, prefix: str) -> bool:
    """Whether it is that module or below it; what a part has inside it is a part of its own."""
    below = name == prefix or name.startswith(prefix + ".")
    return below and (prefix not in OURS or part_of(name) == prefix)


def breaks(found: Import, who: set[str], targets: set[str], unless: set[str]) -> bool:
    return (
        any(belongs(found.module, each) for each in who)
        and found.module not in unless
        and any(belongs(found.target, each) for each in targets)
        and (part_of(found.target) != part_of(found.module))
    )


@pytest.mark.parametrize(("who", "targets", "unless", "why"), FORBIDDEN, ids=lambda v: None)
def test_forbidden_imports_are_absent(
    who: set[str], targets: set[str], unless: set[str], why: str
) -> None:
    broken = [f"{i.module} imports {i.target}" for i in IMPORTS if breaks(i, who, targets, unless)]
    assert not broken, f"{broken}: {why}"


def test_the_exceptions_still_exist() -> None:
    """An exception that nobody needs any more is a hole waiting for somebody."""
    for who, targets, unless, _ in FORBIDDEN:
        for module in unless:
            assert any(i.module == module and breaks(i, who, targets, set()) for i in IMPORTS), (
                f"{module} no longer needs its exception for {sorted(targets)}"
            )


@pytest.mark.parametrize(("who", "targets", "unless", "why"), FORBIDDEN, ids=lambda v: None)
def test_every_row_is_about_modules_that_exist_and_notices_them(
    who: set[str], targets: set[str], unless: set[str], why: str
) -> None:
    """A prefix that matches nothing, after a move, would forbid nothing."""
    for part in who:
        modules = {each for each in MODULES if belongs(each, part)} - unless
        assert modules, f"{part} has no module: {why}"
        for target in targets:
            ours = target.partition(".")[0] in {each.partition(".")[0] for each in OURS}
            assert target in MODULES if ours else find_spec(target), f"there is no {target}: {why}"
            if part_of(target) != part_of(part):
                for planted in (target, f"{target}.planted"):
                    found = Import(min(modules), planted)
                    assert breaks(found, who, targets, unless), f"{found}: {why}"
    assert any(part_of(each) != part_of(part) for each in targets for part in who)


def test_every_module_is_in_a_part_and_every_part_has_modules() -> None:
    assert {part_of(module) for module in MODULES} == OURS


def test_what_a_part_has_inside_it_can_be_a_part_of_its_own() -> None:
    parts = ("sidecar", "sidecar.kinds")
    assert part_of("sidecar.kinds.git", parts) == part_of("sidecar.kinds", parts) == parts[1]
    assert part_of("sidecar.kindred", parts) == part_of("sidecar", parts) == parts[0]
    assert part_of("twisted.internet", parts) == part_of("sidecars", parts) == ""


@pytest.mark.parametrize("package", sorted(OURS))
def test_a_package_says_what_it_is_trusted_with_and_imports_nothing(package: str) -> None:
    tree = ast.parse(MODULES[package].read_text(encoding="utf-8"))
    text = ast.get_docstring(tree)
    assert text is not None
    assert len(text.splitlines()) >= 4
    assert len(tree.body) == 1


def exposes(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "expose"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_a_secret_becomes_bytes_in_two_modules_of_the_broker() -> None:
    """injection writes it into an upstream head, vault seals it for the disk."""
    found = {str(path.relative_to(ROOT)) for path in product_files() if exposes(path)}
    assert found == {"broker/credentials/injection.py", "broker/credentials/vault.py"}


def test_no_module_makes_a_reactor_by_being_imported() -> None:
    for path in product_files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            names = [a.name for a in node.names] if isinstance(node, ast.ImportFrom) else []
            assert not (
                isinstance(node, ast.ImportFrom)
                and node.module == "twisted.internet"
                and "reactor" in names
            ), path


def test_a_kind_of_request_is_decided_without_a_world() -> None:
    """`sidecar/exchange.py` acts; what it is told by a kind is pure."""
    edges = {"twisted", "OpenSSL", "socket", "select", "os", "gitmoat.net"}
    kinds = {"sidecar.kind", *map(module_of, files(ROOT / "sidecar" / "kinds"))}
    found = [each for each in IMPORTS if each.module in kinds]
    acts = {each.target for each in found if any(belongs(each.target, edge) for edge in edges)}
    assert found and acts <= {"gitmoat.net.causes", "gitmoat.net.causes.Cause"}


def test_the_architecture_page_says_of_each_part_which_kind_it_is() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)/` \| (\w+) \|", text, re.MULTILINE)
    kinds = {folder.replace("/", "."): kind for folder, kind in rows}
    assert {part for part, kind in kinds.items() if kind == "program"} == PROGRAMS
    assert {part for part, kind in kinds.items() if kind == "pure"} == PURE
    assert {part for part, kind in kinds.items() if kind == "helper"} == {"credential_helper"}
