"""`hostctl policy presets`: what the package managers of this host are configured to fetch from."""

from __future__ import annotations

from argparse import Namespace

from gitmoat.paths import Paths
from hostctl.failure import usage
from hostctl.output import Output
from hostctl.policies.resolve_presets import resolve
from netpolicy.presets.known_presets import PRESETS
from netpolicy.presets.places import Answer


def main(args: Namespace, paths: Paths, out: Output) -> int:
    names = args.names or list(PRESETS)
    for name in names:
        if name not in PRESETS:
            raise usage(f"there is no preset {name!r}", f"there are: {', '.join(PRESETS)}")
    _show(out, resolve(paths.root, names))
    return 0


def _show(out: Output, answers: dict[str, Answer]) -> None:
    rows = [
        (name, place.to.host.text, place.to.port, place.scheme, place.source)
        for name, found in answers.items()
        for place in found.places
    ]
    notes = [note for found in answers.values() for note in found.notes]
    if out.json:
        keys = ("preset", "host", "port", "scheme", "from")
        items = [dict(zip(keys, row, strict=True)) for row in rows]
        fields = {"items": items, "suggested": False, "notes": notes}
        out.emit({"schema": "gitmoat.policy-presets/1", **fields})
        return
    if rows:
        out.table(("PRESET", "HOST", "PORT", "SCHEME", "FROM"), rows)
    else:
        out.progress("no package manager is configured here")
    for note in notes:
        out.progress(f"note: {note}")
