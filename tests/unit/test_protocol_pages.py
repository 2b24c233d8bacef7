"""The pages on our protocols name every operation there is, and none that is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from attrs import fields

from broker.api.admin_operations import AdminOperations
from broker.api.admin_socket import HELPERS
from broker.api.dispatch import TABLE
from gitmoat.messages.report import Event
from gitmoat.messages.sidecar import ORDERS, SidecarConfig
from hostd.api.operations import Operations
from hostd.process.requests import REQUESTS

PAGES = Path(__file__).parents[2] / "docs" / "protocol"


def part(page: str, title: str) -> str:
    """What stands under a heading, up to the next of the same rank."""
    text = (PAGES / page).read_text(encoding="utf-8")
    rank = "#" * (len(title) - len(title.lstrip("#")))
    begin = text.index(f"{title}\n") + len(title)
    end = re.search(rf"^#{{2,{len(rank)}}} ", text[begin:], re.MULTILINE)
    return text[begin : begin + end.start()] if end else text[begin:]


def rows(text: str) -> set[str]:
    """Words in code in the first column of its tables."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def table_of(kind: type) -> set[str]:
    """The operations in a class's own table; its other mappings have private values."""
    return set(re.findall(r'"([a-z-]+)": self\.[a-z]\w*,\n', inspect.getsource(kind)))


@pytest.mark.parametrize(
    ("page", "title", "operations"),
    [
        ("hostd.md", "## The control socket", table_of(Operations)),
        ("hostd.md", "## hostd → launcher and zygote", set(REQUESTS)),
        ("broker.md", "## The admin socket", table_of(AdminOperations) | {HELPERS}),
    ],
)
def test_operations(page: str, title: str, operations: set[str]) -> None:
    assert len(operations) >= 6
    assert rows(part(page, title)) == operations


def test_what_hostd_tells_a_sidecar() -> None:
    known = set(ORDERS)
    told = {row for row in rows(part("hostd.md", "## hostd ↔ sidecar")) if len(row) > 1}
    assert told == known


def test_requests_of_hosts_and_sidecars() -> None:
    text = part("broker.md", "## hostd → broker") + part("broker.md", "## Sidecar → broker")
    known = {f"{method.decode()} {target.decode()}" for method, target in TABLE}
    told = {row for row in rows(text) if " /host/" in row or row.endswith("/report")}
    assert told == known


def test_events_of_reports() -> None:
    text = part("broker.md", "### `POST /report`")
    named = text[text.index("`event` is") : text.index(";")]
    assert set(re.findall(r"`([a-z]+-[a-z]+)`", named)) == {event.value for event in Event}


def test_keys_of_a_sidecars_configuration() -> None:
    text = part("hostd.md", "## hostd ↔ sidecar")
    named = text[text.index("schema\n`gitmoat.sidecar/1`") : text.index("no key has a default")]
    found = set(re.findall(r"`([a-z_]+)`", named))
    assert found == {each.name for each in fields(SidecarConfig)} - {"schema"}
