"""Every control has a test that fails without it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutations.runner import ROOT, Tree, Verdict, applied, copied
from tests.mutations.table import Mutation
from tests.mutations.verified import ALL


def named(mutation: Mutation) -> str:
    return mutation.name


@pytest.mark.parametrize("mutation", ALL, ids=named)
def test_a_mutation_still_fits_the_code_and_its_tests_exist(mutation: Mutation) -> None:
    text = applied(mutation, Path(ROOT, mutation.file).read_text(encoding="utf-8"))
    ast.parse(text)
    for test in mutation.tests:
        file, _, function = test.partition("::")
        source = Path(ROOT, file).read_text(encoding="utf-8")
        assert f"def {function.partition('[')[0]}(" in source or not function, test


def test_no_two_mutations_have_one_name() -> None:
    assert len({mutation.name for mutation in ALL}) == len(ALL)


@pytest.fixture(scope="module")
def tree() -> Iterator[Tree]:
    with copied() as copy:
        yield copy


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("mutation", ALL, ids=named)
def test_a_weakened_control_is_noticed(tree: Tree, mutation: Mutation) -> None:
    result = tree.run(mutation)
    assert result.verdict is Verdict.KILLED, result.output[-3000:]
