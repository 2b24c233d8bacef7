"""Who commits are by: what git would change or refuse is refused here."""

from __future__ import annotations

import pytest

from netpolicy.author import Author, parse_author


@pytest.mark.parametrize(
    ("text", "name", "email"),
    [
        ("Ada <ada@mail.example>", "Ada", "ada@mail.example"),
        ("  Zoë O'Neil, Jr.  <z+x@mail.example>", "Zoë O'Neil, Jr.", "z+x@mail.example"),
        ("A<b>", "A", "b"),
    ],
)
def test_a_name_and_an_address(text: str, name: str, email: str) -> None:
    author = parse_author(text)
    assert (author.name, author.email) == (name, email)
    assert parse_author(str(author)) == author


@pytest.mark.parametrize(
    "text",
    ["", "Ada", "ada@mail.example", "<ada@mail.example>", "Ada <>", "Ada <a@b", "Ada a@b>",
     "Ada <a@b> x", "A <b> <c>", "A> <b>", "., <a@b>", "Ada <.,>", "A\nB <a@b>", "A\0 <a@b>",
     "A\x1b[2J <a@b>", "A <a b>", "A <a\n@b>", "A" * 201 + " <a@b>", "A\u202eB <a@b>"],
)  # fmt: skip
def test_what_git_refuses_or_drops_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|empty|refuses|space|longer"):
        parse_author(text)


def test_without_one_it_is_the_sandbox() -> None:
    assert str(Author()) == "Gitmoat sandbox <sandbox@gitmoat.invalid>"
