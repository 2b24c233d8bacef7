"""Runs in a sandbox: one JSON line in is one script to run, one JSON line out is what it did."""

import json
import subprocess
import sys
from typing import BinaryIO


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        command = ["/bin/sh", "-c", asked["script"], "test", *asked["words"]]
        # A new session, and files instead of pipes: what a script leaves running holds nobody up.
        with open("/tmp/out", "w+b") as out, open("/tmp/err", "w+b") as err:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd="/workspace",
                timeout=asked["timeout"],
                start_new_session=True,
            )
            texts = [_text(file) for file in (out, err)]
        print(json.dumps([done.returncode, *texts]), flush=True)


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(1 << 20).decode(errors="replace")


if __name__ == "__main__":
    main()
