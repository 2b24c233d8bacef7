"""The git configuration of a sandbox: files of /run/gitmoat, which every client finds in one of
three ways.

git is told by GIT_CONFIG_SYSTEM. What drops that variable, as pre-commit does, or does not know it,
as libgit2 does, reads /etc/gitconfig, which leads to the same file. Some tools read a clone's own
configuration and no other: the git gate writes `include.path` there, and the file that it names
only rewrites URLs, because what a clone says goes before ~/.gitconfig.
"""

from __future__ import annotations

import re

from hostd.atomic_file import write_whole
from hostd.sandbox.bwrap import RUN, WORKSPACE
from hostd.sandbox.plan import Ours
from hostd.sandbox.sandbox import Sandbox
from netpolicy.nftables import GIT_UNTRUSTED
from netpolicy.upstreams import gitconfig_for, rewriting_for

SYSTEM = "/etc/gitconfig"
LEADING = "leading.gitconfig"  # what is mounted in an image at /etc/gitconfig; it never changes
_WHOLE = "gitconfig"
_URLS = "urls.gitconfig"
URLS = f"{RUN}/{_URLS}"
_OF_IMAGE = "image.gitconfig"
_OURS = frozenset(
    {b"url", b"include", b"includeif", b"credential", b"safe", b"core", b"http", b"protocol"}
)
# A section, with or without a subsection (git-config(1), Syntax); more may follow on the line.
_HEADER = re.compile(rb'\[([A-Za-z0-9.-]+)(?:[ \t]+"(?:[^"\\\n]|\\.)*")?\](.*)', re.DOTALL)


def write_gitconfig(sandbox: Sandbox) -> None:
    """Written anew at every start, and when the broker's upstreams have changed."""
    plan, run = sandbox.plan, sandbox.directories.run
    image = f"{RUN}/{_OF_IMAGE}" if isinstance(plan.ownership, Ours) else None
    whole = gitconfig_for(plan.upstreams, GIT_UNTRUSTED, WORKSPACE, plan.author, image)
    write_whole(run / _WHOLE, whole, 0o644)
    write_whole(run / _URLS, rewriting_for(plan.upstreams, GIT_UNTRUSTED), 0o644)


def write_leading(sandbox: Sandbox) -> None:
    """For a bind mount, which keeps to one file, while `gitconfig` is replaced whole."""
    leading = f"[include]\n\tpath = {RUN}/{_WHOLE}\n"
    write_whole(sandbox.directories.run / LEADING, leading, 0o644)


def write_image_gitconfig(sandbox: Sandbox, found: bytes) -> None:
    write_whole(sandbox.directories.run / _OF_IMAGE, without_ours(found), 0o644)


def without_ours(found: bytes) -> bytes:
    """An image's /etc/gitconfig without the sections that are ours in a sandbox: which URL leads
    where and how, credentials, hooks, the workspace, other files. Nothing of a file in another
    form is kept.

    A section begins at the beginning of a line, or directly behind another one's header, where it
    is not looked for.
    """
    kept: list[bytes] = []
    keeping = True
    for line in found.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text = line.strip()
        if text.startswith(b"["):
            header = _HEADER.fullmatch(text)
            if header is None or header[2].lstrip().startswith(b"["):
                return b""
            keeping = header[1].partition(b".")[0].lower() not in _OURS
        if keeping:
            kept.append(line)
    return b"\n".join(kept)
