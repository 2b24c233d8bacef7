"""How Sphinx builds this directory: `make docs` for the site, `make man` for the man pages.

Builds offline. Warnings are errors. Pages made from code are written next to the others at each
build and are not kept in the repository.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tools import cli_pages, reference  # noqa: E402

project = "Gitmoat"
author = "the Gitmoat developers"
copyright = author
version = release = installed_version("gitmoat")

extensions = ["myst_parser"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["reference/made/*"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
nitpicky = True
# Links out of docs/ (README, examples, tests) are for readers of the repository.
suppress_warnings = ["myst.xref_missing"]

html_theme = "furo"
html_title = f"Gitmoat {release}"
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
smartquotes = False

_MANUAL = [
    ("policy", "gitmoat-policy", "the policy file of a sandbox", 5),
    ("configuration", "gitmoat-configuration", "configuration and files of gitmoat", 5),
    ("codes", "gitmoat-codes", "codes of refusals and errors", 7),
]
man_show_urls = False


def _write(path: Path, text: str) -> None:
    """Only when it differs: Sphinx goes by the time of a file."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _write_pages() -> list[tuple[str, str, str, str, int]]:
    """The pages made from code; returns the list of man pages."""
    made = cli_pages.pages()
    for old in (HERE / "reference" / "cli").glob("*.md"):
        if old.stem not in made:
            old.unlink()
    for name, text in made.items():
        _write(HERE / "reference" / "cli" / f"{name}.md", text)
    for name, text in reference.made().items():
        _write(HERE / "reference" / "made" / name, text)
    commands = [
        (f"reference/cli/{name}", name, cli_pages.summary(name), author, 1) for name in made
    ]
    return [*commands, *((page, name, about, author, part) for page, name, about, part in _MANUAL)]


man_pages = _write_pages()


def setup(app: Any) -> dict[str, bool]:
    return {"parallel_read_safe": True}
