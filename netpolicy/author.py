"""Who the commits of a sandbox are by, unless something in it says otherwise."""

from __future__ import annotations

from attrs import field, frozen

_LONGEST = 200
# git takes these off both ends, so a name of nothing else is empty (crud() in git's ident.c).
_CRUD = "".join(map(chr, range(33))) + ".,:;<>\"\\'"


def _check(value: str, what: str) -> None:
    """Refuses what git drops, or ends with an error for, when it writes a commit (fmt_ident() in
    git's ident.c), and control characters, which its configuration file cannot hold."""
    if not value.strip(_CRUD):
        raise ValueError(f"the {what} is empty, or git would make it empty")
    if "<" in value or ">" in value or not value.isprintable():
        raise ValueError(f"the {what} has a character that git refuses: < > or a control character")
    if len(value) > _LONGEST:
        raise ValueError(f"the {what} is longer than {_LONGEST} characters")


@frozen
class Author:
    name: str = field(default="Gitmoat sandbox")
    email: str = field(default="sandbox@gitmoat.invalid")

    def __attrs_post_init__(self) -> None:
        _check(self.name, "name")
        _check(self.email, "e-mail address")
        if " " in self.email:
            raise ValueError("the e-mail address has a space in it")

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


def parse_author(text: str) -> Author:
    """`Name <mail>`, as `git commit --author` takes it; ValueError for anything else."""
    name, opening, rest = text.partition("<")
    if not opening or not rest.endswith(">"):
        raise ValueError('write "Name <mail@example.com>"')
    return Author(name.strip(), rest.removesuffix(">"))
