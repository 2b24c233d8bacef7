"""SHA256SUMS of what is published, for `sha256sum -c`: `python -m publish.checksums DIRECTORY`."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

NAME = "SHA256SUMS"


def checksums(directory: Path) -> str:
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name != NAME)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )


def main() -> None:
    directory = Path(sys.argv[1])
    (directory / NAME).write_text(checksums(directory), encoding="ascii")


if __name__ == "__main__":
    main()
