"""Which mutations `make mutations` runs in the time it has."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from tests.mutations.choosing import History, alone, history, in_order
from tests.mutations.runner import Tree, Verdict
from tests.mutations.table import Mutation

LOG = """commit ccc

broker/new.py
commit bbb
commit aaa

broker/new.py
tests/unit/test_old.py
"""


def mutation(name: str, file: str, *tests: str) -> Mutation:
    return Mutation(name, file, "before", "after", tests or ("tests/unit/test_x.py::test_y",))


def names(mutations: list[Mutation]) -> list[str]:
    return [each.name for each in mutations]


def test_the_newest_change_of_a_file_counts_and_what_is_not_committed_is_the_newest() -> None:
    known = history(LOG, " M broker/edited.py\nR  old.py -> moved.py\n?? made.py\n")
    assert known.commit == "ccc"
    assert known.changed == {
        "broker/edited.py": 0,
        "moved.py": 0,
        "made.py": 0,
        "broker/new.py": 1,
        "tests/unit/test_old.py": 3,
    }


def test_changed_controls_come_first_then_changed_tests_then_the_others() -> None:
    waiting = mutation("waiting", "a.py")
    test = mutation("test", "b.py", "tests/unit/test_z.py", "tests/unit/test_old.py::test_it")
    older = mutation("older", "c.py")
    edited = mutation("edited", "d.py")
    known = History("ccc", {"c.py": 2, "d.py": 0, "tests/unit/test_old.py": 1})
    assert in_order([waiting, test, older, edited], known) == [edited, older, test, waiting]


def test_every_commit_draws_another_order_of_those_that_did_not_change() -> None:
    table = [mutation(str(number), "a.py") for number in range(50)]
    orders = [names(in_order(table, History(commit))) for commit in ("aaa", "bbb")]
    assert orders[0] == names(in_order(table[::-1], History("aaa")))
    assert orders[0] != orders[1] != names(table)
    assert {*orders[0]} == {*orders[1]} == {*names(table)}


def test_without_a_history_the_order_is_the_tables() -> None:
    table = [mutation(str(number), "a.py") for number in range(50)]
    assert in_order(table, history("", "")) == table


def test_tests_that_need_the_machine_are_not_run_two_at_a_time() -> None:
    assert alone(mutation("live", "a.py", "tests/unit/test_a.py", "tests/live/test_b.py"))
    assert not alone(mutation("pure", "a.py", "tests/unit/test_a.py", "tests/wire/test_b.py::c"))


def tree(folder: Path, *lines: str) -> Tree:
    Path(folder, "control.py").write_text("ALLOWED = 1\n")
    Path(folder, "test_it.py").write_text("\n".join(lines) + "\n")
    return Tree(folder)


def test_what_a_test_says_with_and_without_the_mutation_decides(tmp_path: Path) -> None:
    copy = tree(
        tmp_path,
        "from control import ALLOWED",
        "def test_right() -> None: assert ALLOWED == 1",
        "def test_blind() -> None: pass",
        "def test_broken() -> None: assert False",
    )
    weakened = Mutation("it", "control.py", "= 1", "= 2", ("test_it.py::test_right",))
    assert copy.run(weakened).verdict is Verdict.KILLED
    blind = evolve(weakened, tests=("test_it.py::test_blind",))
    assert copy.run(blind).verdict is Verdict.SURVIVED
    broken = evolve(weakened, tests=("test_it.py::test_broken",))
    assert copy.run(broken).verdict is Verdict.NONE
    absent = evolve(weakened, tests=("test_it.py::test_absent",))
    assert copy.run(absent).verdict is Verdict.NONE
    assert Path(tmp_path, "control.py").read_text() == "ALLOWED = 1\n"
