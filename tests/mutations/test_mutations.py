"""Every control has a test that fails without it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutations.runner import ROOT, applied, run, run_unmutated
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


@pytest.mark.long
@pytest.mark.live
def test_without_a_mutation_the_tests_pass_in_a_copy() -> None:
    result = run_unmutated(ALL)
    assert result.code == 0, result.output[-3000:]


@pytest.mark.long
@pytest.mark.live
@pytest.mark.parametrize("mutation", ALL, ids=named)
def test_a_weakened_control_is_noticed(mutation: Mutation) -> None:
    result = run(mutation)
    assert result.killed, result.output[-3000:]
