"""Entry point; also runs as a bare file under `python3 -IS`, where nothing is on the path."""

import posix
import sys

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, __file__.rpartition("/")[0].rpartition("/")[0] or "/")

from credential_helper.command import main

__all__ = ["main"]

if __name__ == "__main__":
    posix._exit(main())  # everything is written, so Python's clean-up is left out
