"""What runs is moved in memory, and does what it did."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from sidecar.layout import fill_holes, gather


def made(greeting: str) -> Callable[[str], str]:
    def greet(name: str = "you", *, times: int = 2) -> str:
        return ", ".join(f"{greeting} {each}" for each in [name] * times)

    return greet


def cold() -> int:
    return 4


def test_code_that_ran_is_in_a_new_place_and_does_the_same() -> None:
    greet = made("hello")
    before = greet.__code__
    said: list[str] = []
    gather(lambda: said.append(greet("you")))
    assert said == ["hello you, hello you"] * 2
    assert greet.__code__ is not before
    assert greet.__code__ == before
    assert greet("me") == "hello me, hello me"


def test_code_within_code_moves_with_it() -> None:
    greet = made("hello")
    inner = {id(each) for each in greet.__code__.co_consts}
    said: list[str] = []
    gather(lambda: said.append(greet("you")))
    (generator,) = (each for each in greet.__code__.co_consts if hasattr(each, "co_code"))
    assert id(generator) not in inner


def test_code_that_did_not_run_stays() -> None:
    before = cold.__code__
    gather(lambda: None)
    assert cold.__code__ is before


def test_without_holes_new_objects_are_neighbours() -> None:
    size = 272
    held = [bytes(size - 33) for _ in range(4000)]
    del held[::2]  # every other one: a hole between any two
    fill_holes()
    new = [bytes(size - 33) for _ in range(20)]
    apart = [id(right) - id(left) for left, right in pairwise(new)]
    assert sum(each != size for each in apart) <= 1  # where one page's worth is full
