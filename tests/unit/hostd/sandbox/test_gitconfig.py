"""What is kept of an image's own git configuration."""

from __future__ import annotations

import pytest

from hostd.sandbox.gitconfig import without_ours


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (b"", b""),
        (b"[init]\n\tdefaultBranch = main\n", b"[init]\n\tdefaultBranch = main\n"),
        (b'[a]\nb=1\n[url "x"]\ninsteadOf=y\n[c]\nd=2\n', b"[a]\nb=1\n[c]\nd=2\n"),
        (b"[URL.x]\ninsteadOf = y\n", b""),
        (b' \t[Url "a\\"]b"] insteadOf = y\n', b""),
        (b'\xef\xbb\xbf[url "x"]\ninsteadOf = y\n', b""),
        (b'[include]\npath = /evil\n[includeIf "gitdir:/"]\npath = /evil\n', b""),
        (b'[credential "https://x"]\nhelper = !evil\n[HTTP]\nproxy = x\n', b""),
        (b"[core]\nhooksPath = /evil\n[safe]\ndirectory = *\n[protocol]\nallow = never\n", b""),
        (b'[a] [url "x"] insteadOf = y\n[b]\nc = 1\n', b""),
        (b"[a\n[b]\nc = 1\n", b""),
        (b'[ url "x"]\ninsteadOf = y\n[b]\nc = 1\n', b""),
        (b"[a] b = c\n", b"[a] b = c\n"),
    ],
)
def test_sections_that_are_ours_are_left_out(found: bytes, kept: bytes) -> None:
    assert without_ours(found).strip() == kept.strip()
