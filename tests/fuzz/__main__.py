"""Coverage-guided fuzzing of the readers: `python -m tests.fuzz [READER...] [--seconds N]`.

What it finds new stays in --corpus, and is where the next run starts. A crash is printed, and its
input written beside the corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=[
        *(
            "gitmoat.wire",
            "netpolicy",
            "credential_helper",
            "gitmoat.identity.grant",
            "hostctl.copy.tarstream",
        ),
        *(
            "broker.kinds.git_answers",
            "gitmoat.messages.report",
            "gitmoat.shape",
            "broker.credentials.providers",
            "hostd.gate.refspecs",
        ),
    ]
):
    from tests.fuzz.readers import READERS

from tests.fuzz.seeds import seeds


def main() -> None:
    args = _arguments()
    names = args.reader or list(READERS)
    corpus = args.corpus / "-".join(names if len(names) < len(READERS) else ["all"])
    _plant(corpus, names)
    words = [sys.argv[0], str(corpus), f"-artifact_prefix={args.corpus}/crash-"]
    words += [f"-max_total_time={args.seconds}", f"-seed={args.seed}", "-max_len=8192"]
    words += ["-verbosity=0", "-print_pcs=0", "-timeout=20"]
    atheris.Setup(words, _choosing(names))
    atheris.Fuzz()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("reader", nargs="*", choices=[*READERS, []], help="default: all of them")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="0: another one every time")
    parser.add_argument("--corpus", type=Path, default=Path(".fuzz"))
    return parser.parse_args()


def _plant(corpus: Path, names: Sequence[str]) -> None:
    """The seeds, with the byte in front that chooses among several readers."""
    corpus.mkdir(parents=True, exist_ok=True)
    planted = seeds()
    for number, name in enumerate(names):
        for seed in planted[name]:
            data = bytes([number]) + seed if len(names) > 1 else seed
            (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def _choosing(names: Sequence[str]) -> Callable[[bytes], None]:
    readers = [READERS[name] for name in names]
    if len(readers) == 1:
        return readers[0]

    def one_input(data: bytes) -> None:
        if data:
            readers[data[0] % len(readers)](data[1:])

    return one_input


if __name__ == "__main__":
    main()
