"""Verbs and options of earlier versions: for one release the error says what to type instead."""

from __future__ import annotations

from collections.abc import Sequence

from hostctl.failure import Failure

_SUGGESTED = "nothing is allowed because a workspace or an image names it, so this was only printed"
_BY_RULES = "hostctl policy learn S prints rules for the hosts that a build was refused"
# The verb and its action, and behind them an option: why it went, and what to type instead.
GONE = {
    "audit schema": (
        "an export has the schema beside the journals",
        "hostctl audit export DIR, which writes DIR/audit.schema.json",
    ),
    "audit tail": (
        "`audit query` shows the last records and follows too",
        "hostctl audit query -n 20, and -f to follow",
    ),
    "logs --raw": ("a pipe gets every byte as it is", "hostctl logs S | cat"),
    "policy learn --write": (
        "a policy file is changed by whoever is responsible for it",
        "hostctl policy learn S >> FILE, after you have read it",
    ),
    "policy presets --image": (_SUGGESTED, _BY_RULES),
    "policy presets --suggest": (_SUGGESTED, _BY_RULES),
    "policy presets --write": (
        "a policy file is changed by whoever is responsible for it",
        'hostctl policy render FILE, which writes out the rules of [preset] use = ["..."]',
    ),
    "policy render --dns": (
        "the names are the hosts of the rules",
        "hostctl policy render FILE, and read its [[egress]] rules",
    ),
    "policy render --git": (
        "git itself shows which configuration it reads",
        "hostctl exec S -- git config --list --show-origin",
    ),
    "policy render --nft": (
        "the kernel's rules are the same for every policy",
        "hostctl verify S, which measures what they enforce",
    ),
    "session extend": (
        "`session renew` does that, also after the end of a session",
        "hostctl session renew S --ttl T",
    ),
    "session ls": ("`hostctl ls` lists sessions too", "hostctl ls --fleet, which asks the broker"),
    "session show": (
        "`hostctl inspect` shows sessions too",
        "hostctl inspect --fleet S, which asks the broker",
    ),
    "top": (
        "`hostctl ls` shows it repeatedly",
        "hostctl ls --watch, which has --once and --interval too",
    ),
    "up --foreground": (
        "service managers start broker and hostd themselves",
        "hostctl up, and hostctl down to stop them",
    ),
    "verify --junit": (
        "--json has the same rows",
        "hostctl verify S --json, and read .probes",
    ),
    "version": ("there is an option for it", "hostctl --version"),
}


def refuse_gone(verb: str, rest: Sequence[str]) -> None:
    """`rest` are the words after the verb, without the command that a verb is to run."""
    named = [verb, *(word for word in rest if not word.startswith("-"))]
    options = {word.partition("=")[0] for word in rest if word.startswith("-")}
    for spelling, (why, instead) in GONE.items():
        words, dashes, option = spelling.partition(" --")
        known = words.split()
        if named[: len(known)] == known and (not dashes or f"--{option}" in options):
            raise Failure("C105", f"`hostctl {spelling}` was removed", why, instead)
