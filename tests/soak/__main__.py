"""python -m tests.soak [--minutes M] [--sandboxes N] [--seed S]: a long storm. Needs root."""

from __future__ import annotations

import argparse
import random
import sys

from tests.soak.run import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--sandboxes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = random.randrange(1 << 31) if args.seed is None else args.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    result = soak(
        seed,
        args.minutes * 60,
        args.sandboxes,
        lambda text: print(text, file=sys.stderr, flush=True),
    )
    print("\n".join(result.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
