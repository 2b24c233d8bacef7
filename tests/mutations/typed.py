"""Controls over what the owner types, and over what comes back from a workspace for it."""

from __future__ import annotations

from tests.mutations.table import Mutation

REFSPECS = ("tests/unit/hostd/gate/test_refspecs.py",)
REQUESTS = ("tests/unit/hostctl/test_requests.py",)
AUTHOR = ("tests/unit/netpolicy/test_author.py",)
DOWN = (
    "tests/live/test_restart_and_down.py"
    "::test_down_without_a_terminal_ends_nothing_while_a_sandbox_runs",
)

TYPED = (
    Mutation(
        "gate: the workspace names refs that nobody asked for",
        "hostd/gate/refspecs.py",
        "    return found.intersection(asked)\n",
        "    return found\n",
        REFSPECS,
    ),
    Mutation(
        "gate: of a branch and a tag with one name the first is pushed",
        "hostd/gate/refspecs.py",
        "    if len(found) > 1:\n",
        "    if False:\n",
        REFSPECS,
    ),
    Mutation(
        "terminal: TERM may be a path",
        "hostctl/run/stdio.py",
        "if _TERMINAL_NAME.fullmatch(value)}",
        "if value}",
        REQUESTS,
    ),
    Mutation(
        "author: a name may have control characters",
        "netpolicy/author.py",
        "or not value.isprintable():",
        "or False:",
        AUTHOR,
    ),
    Mutation(
        "down: running sandboxes are ended without a question",
        "hostctl/commands/down.py",
        "    if not args.force:\n",
        "    if False:\n",
        DOWN,
    ),
)
