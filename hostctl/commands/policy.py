"""`hostctl policy`: makes, checks, explains and compares policies."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module

from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.output import Output
from hostctl.terminal.quantities import duration

ABOUT = "Makes, checks, explains and compares policies."
_CHECK = """Parses a policy file, runs the tests in it, and warns of what is wider than it looks.

Exit 0: valid. Exit 8: not."""
_EXPLAIN = """Tells what a policy decides, by which rule, and what change would allow it.

  explain S fetch REPO             REPO: UPSTREAM:PATH, or a URL
  explain S push REPO REF          REF: refs/heads/main, or main
  explain S create|delete REPO REF
  explain S tunnel HOST[:PORT]     a host reached by TLS; the default port is 443
  explain S http HOST[:PORT]       by plain HTTP; the default port is 80

Exit 0: allowed. Exit 3: denied."""
_INIT = """Writes a new policy that allows what is named and nothing else.

The file has its own tests. On a terminal hostctl asks for what the options do not say."""
_DIFF = "Says in words where B allows more or less than A."
_RENDER = "Prints a policy as it takes effect, every default written out."
_PRESETS = """Shows what the package managers of this host are configured to fetch from.

A policy uses it with `[preset] use = ["pip"]`. Only configuration that root alone can write is
read, never run; no list of well-known hosts is kept here."""
_LEARN = """Groups the hosts a sandbox was refused and suggests presets and narrow rules.

Nothing is allowed in order to learn. Addresses, wildcards and git servers are never suggested.
The names were chosen by what ran in the sandbox: read them before you append the rules to a policy
(`hostctl policy learn S >> FILE`)."""
# Only the module of the action that is typed is imported: what reads policies is a lot of code.
ACTIONS = {
    "init": "hostctl.policies.new_policy",
    "check": "hostctl.policies.check",
    "explain": "hostctl.policies.explain_decision",
    "diff": "hostctl.policies.diff",
    "render": "hostctl.policies.render",
    "presets": "hostctl.policies.list_presets",
    "learn": "hostctl.policies.learn",
}
OPERATIONS = ("fetch", "push", "create", "delete", "tunnel", "http")
_WHICH = "a file, the name of an installed policy, or a sandbox"


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    _init(add("init", _INIT))
    check = add("check", _CHECK)
    check.add_argument("policy", metavar="FILE", help="a file, or the name of an installed policy")
    explain = add("explain", _EXPLAIN)
    explain.add_argument("policy", metavar="S|FILE", help=_WHICH)
    explain.add_argument("operation", metavar="OP", choices=OPERATIONS)
    explain.add_argument("subject", metavar="REPO|HOST")
    explain.add_argument("ref", nargs="?", metavar="REF")
    explain.add_argument("--as", dest="tier", choices=("helper", "untrusted"), default="helper")
    diff = add("diff", _DIFF)
    diff.add_argument("before", metavar="A", help=_WHICH)
    diff.add_argument("after", metavar="B", help="likewise")
    render = add("render", _RENDER)
    render.add_argument("policy", metavar="FILE", help=_WHICH)
    presets = add("presets", _PRESETS)
    presets.add_argument("names", nargs="*", metavar="NAME", help="only these presets")
    _learn(add("learn", _LEARN))


def _init(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="the policy's name (default: asked, or agents)")
    add(
        "--repo",
        action="append",
        default=[],
        metavar="REPO",
        help="UPSTREAM:PATH or URL; * is a wildcard",
    )
    add("--push", action="append", default=[], metavar="GLOB", help="branches that may be pushed")
    add("--agent", action="store_true", help="the command may use git by itself")
    add("--ttl", type=duration, metavar="8h", help="hard end of a session")
    add("--write", metavar="F", help="where to; - is stdout (default: etc/gitmoat/policies)")


def _learn(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("sandbox", metavar="S", help="id or name, also of a removed sandbox")
    add("--since", type=duration, default=24 * 3600, metavar="1h", help="default 24h")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    code: int = import_module(ACTIONS[args.action]).main(args, paths, out)
    return code
