"""What a sandbox's repositories hold that was pushed nowhere, as they say themselves.

Their git runs in the sandbox, as its untrusted uid; what it answers steers nothing but a warning,
and the contents of files that are saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hostctl.copy.carry import carry
from hostctl.failure import Failure, plain

# A field ends with NUL, a repository with an empty field: its directory, how many commits are on
# its branches or stashed and on no remote-tracking branch, how many files differ from HEAD, and
# some subjects; "?" for both numbers where git ends with an error. The glob is the name of a ref
# that need not exist.
_LOOK = r"""
for d in /workspace "$HOME" /workspace/* "$HOME"/*; do
  [ -e "$d/.git" ] || continue
  command -v git >/dev/null || { echo "git is not installed in it" >&2; exit 3; }
  set -- --branches --glob='refs/stas[h]' --not --remotes
  git -C "$d" rev-parse -q --verify HEAD >/dev/null 2>&1 && set -- HEAD "$@"
  commits=$(git -C "$d" rev-list --count "$@" 2>/dev/null) &&
    changes=$(git -C "$d" status --porcelain 2>/dev/null) ||
    { printf '%s\0?\0?\0\0' "$d"; continue; }
  [ -z "$changes" ] || changes=$(printf '%s\n' "$changes" | wc -l)
  printf '%s\0%s\0%s\0' "$d" "$commits" "$((changes))"
  [ "$commits" = 0 ] || git -C "$d" log -z -n 5 --format='%h %s' "$@" 2>/dev/null
  printf '\0'
done
"""
_COMMITS = r"""
cd "$1" || exit 1
set -- --branches --glob='refs/stas[h]' --not --remotes
git rev-parse -q --verify HEAD >/dev/null 2>&1 && set -- HEAD "$@"
exec git bundle create --quiet - "$@"
"""
_CHANGES = r"""
cd "$1" || exit 1
GIT_INDEX_FILE=$(mktemp) || exit 1
export GIT_INDEX_FILE
trap 'rm -f "$GIT_INDEX_FILE"' EXIT
base=$(git rev-parse -q --verify HEAD || git hash-object -t tree /dev/null)
git read-tree "$base" && git add -A || exit
git diff --cached --binary --no-ext-diff --no-textconv "$base"
"""
_MOST = 1 << 20
_MOST_REPOSITORIES = 64


class Unpushed(NamedTuple):
    """`subjects`: of the latest commits, each behind its short name. `damaged`: git cannot say."""

    directory: str
    commits: int
    changes: int
    subjects: tuple[str, ...] = ()
    damaged: bool = False

    @property
    def summary(self) -> str:
        if self.damaged:
            return f"{plain(self.directory)}: its git cannot read it"
        parts = [
            _number(count, one)
            for count, one in ((self.commits, "commit"), (self.changes, "change"))
            if count
        ]
        return f"{plain(self.directory)}: {' and '.join(parts)}"

    def lines(self) -> Iterator[str]:
        yield self.summary
        yield from (f"  {plain(subject)}" for subject in self.subjects)


def _number(count: int, one: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {one}s"


def unpushed(socket: Path, sandbox: str) -> list[Unpushed]:
    """Of every repository at the usual places that has something. A Failure when it cannot say."""
    said = bytearray()

    def take(data: bytes) -> None:
        said.extend(data)
        if len(said) > _MOST:
            raise Failure(
                "R112", f"the repositories of {sandbox} say more than 1 MiB of themselves"
            )

    code, error = carry(socket, _sh(sandbox, _LOOK), iter(()), take)
    if code != 0:
        raise Failure("R112", f"{sandbox} cannot be asked for its work", error or f"sh: {code}")
    found = _parsed(sandbox, bytes(said))
    return [one for one in found if one.commits or one.changes or one.damaged]


def _parsed(sandbox: str, said: bytes) -> list[Unpushed]:
    """Refused as a whole if it is not what `_LOOK` prints."""
    records = said.decode(errors="replace").split("\0\0")
    if records.pop() or len(records) > _MOST_REPOSITORIES:
        raise _not_understood(sandbox)
    return [_record(sandbox, record.strip("\0").split("\0")) for record in records]


def _record(sandbox: str, fields: list[str]) -> Unpushed:
    match fields:
        case [directory, "?", "?"]:
            return Unpushed(directory, 0, 0, damaged=True)
        case [directory, commits, changes, *subjects] if _is_count(commits) and _is_count(changes):
            return Unpushed(directory, int(commits), int(changes), tuple(subjects[:5]))
        case _:
            raise _not_understood(sandbox)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _not_understood(sandbox: str) -> Failure:
    return Failure("R112", f"what {sandbox} says of its repositories was not understood")


def commits_of(sandbox: str, directory: str) -> dict[str, object]:
    """The request that prints a bundle of the commits that are on no remote-tracking branch."""
    return _sh(sandbox, _COMMITS, directory)


def changes_of(sandbox: str, directory: str) -> dict[str, object]:
    """The request that prints all that differs from HEAD as a patch, also files that are new."""
    return _sh(sandbox, _CHANGES, directory)


def _sh(sandbox: str, script: str, *words: str) -> dict[str, object]:
    argv = ["sh", "-c", script, "sh", *words]
    return {"op": "exec", "sandbox": sandbox, "as": "untrusted", "argv": argv}
