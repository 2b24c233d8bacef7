"""`hostctl policy presets`: what the package managers of this host are configured to fetch from."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from hostctl.failure import usage
from hostctl.imagefiles import image_suggestions
from hostctl.output import Output, need_root
from hostctl.policies.writing import write_rules
from hostctl.presets import resolve
from hostctl.workspacefiles import suggestions
from identity.paths import Paths
from netpolicy.presets.places import Answer
from netpolicy.presets.table import PRESETS, preset_rules, rule_notes


def main(args: Namespace, out: Output) -> int:
    names = args.names or list(PRESETS)
    for name in names:
        if name not in PRESETS:
            raise usage(f"there is no preset {name!r}", f"there are: {', '.join(PRESETS)}")
    answers = _answers(args, names)
    if args.write:
        rules = [rule for name in names for rule in preset_rules(name, answers[name].places)]
        return write_rules(out, Path(args.write), rules, rule_notes(answers), "policy-presets")
    _show(out, answers, bool(args.suggest or args.image))
    return 0


def _answers(args: Namespace, names: list[str]) -> dict[str, Answer]:
    paths = Paths(args.root)
    if args.suggest:
        return suggestions(Path(args.suggest), names)
    if args.image:
        need_root("`hostctl policy presets --image`")
        return image_suggestions(paths.hostd_toml, args.image, names)
    return resolve(paths.root, names)


def _show(out: Output, answers: dict[str, Answer], suggested: bool) -> None:
    rows = [
        (name, place.to.host.text, place.to.port, place.scheme, place.source)
        for name, found in answers.items()
        for place in found.places
    ]
    notes = [note for found in answers.values() for note in found.notes]
    if out.json:
        keys = ("preset", "host", "port", "scheme", "from")
        items = [dict(zip(keys, row, strict=True)) for row in rows]
        fields = {"items": items, "suggested": suggested, "notes": notes}
        out.emit({"schema": "gitmoat.policy-presets/1", **fields})
        return
    if rows:
        out.table(("PRESET", "HOST", "PORT", "SCHEME", "FROM"), rows)
    else:
        out.progress("no package manager is configured here")
    for note in notes:
        out.progress(f"note: {note}")
    if suggested and rows:
        out.progress("these are suggestions: nothing is allowed until you --write them to a policy")
