"""`hostctl host`: the hosts that may grant sessions, and this one's key."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.control_client import ask
from hostctl.failure import usage
from hostctl.output import Column, Item, Output, need_root
from hostctl.setup.brokerfiles import add_file, check_name, configured, remove_file
from hostctl.setup.configfile import Value
from hostctl.setup.keychange import change_host_key, next_key
from netpolicy.ceiling import ANY, allowed_kinds
from netpolicy.rule_kinds import KINDS

_KINDS = tuple(kind.name for kind in KINDS)
ABOUT = "Manages the hosts that may grant sessions, and this host's own key."


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    new = add("enrol", "Enrols a host; without a name, prints how to enrol this one elsewhere.")
    new.add_argument("name", metavar="NAME", nargs="?", help="its name at the broker")
    new.add_argument("--key", metavar="K", help="its public key")
    new.add_argument(
        "--repos",
        action="append",
        default=[],
        metavar="P",
        help="repositories its grants may name",
    )
    new.add_argument("--fetch-only", action="store_true", help="its grants may not push")
    new.add_argument(
        "--hosts",
        action="append",
        default=[],
        metavar="H",
        help="other hosts its grants may name, like '*.example.com'",
    )
    new.add_argument("--private", action="store_true", help="also at private addresses")
    new.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=[ANY, *_KINDS],
        help="a kind of rule without bound, or any; what is not named is not allowed",
    )
    new.add_argument(
        "--ttl", metavar="T", help="its sessions end after this time, whatever policies say"
    )
    add("ls", "Lists the enrolled hosts; -q: names only.")
    gone = add("rm", "Removes a host that was enrolled here; its sessions end.")
    gone.add_argument("name", metavar="NAME")
    rotate = add("rotate-key", "Replaces this host's key; sessions go on.")
    step = rotate.add_mutually_exclusive_group()
    step.add_argument("--prepare", action="store_true", help="only make it, and print it")
    step.add_argument(
        "--switch", action="store_true", help="use the prepared key, which the broker has enrolled"
    )


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl host`")
    actions = {"enrol": _enrol, "ls": _ls, "rm": _rm, "rotate-key": _rotate}
    return actions[args.action](args, out, paths)


def host_values(args: Namespace) -> dict[str, Value]:
    values: dict[str, Value] = {"key": args.key, "allow": _allowed(args)}
    if args.repos:
        values["repos"] = list(args.repos)
    if args.fetch_only:
        values["push"] = False
    if args.hosts:
        values["hosts"] = list(args.hosts)
    if args.private:
        values["private"] = True
    return {**values, "ttl": args.ttl} if args.ttl else values


def _allowed(args: Namespace) -> Value:
    """The kinds that were named, also by a bound."""
    if ANY in args.allow:
        return ANY
    named = set(args.allow)
    named |= {"git"} if args.repos or args.fetch_only else set()
    named |= {"egress"} if args.hosts or args.private else set()
    if not named:
        bounds = "--repos 'example:acme/*', --hosts '*.example.com' or --allow any"
        raise usage("the host could grant nothing", f"say what it may grant: {bounds}")
    return [kind for kind in _KINDS if kind in named]


def _enrol(args: Namespace, out: Output, paths: Paths) -> int:
    if args.name is None:
        return _introduce(out, paths)
    if args.key is None:
        raise usage("--key is missing", "`hostctl host enrol` on that host shows it")
    name = check_name(args.name)
    values = host_values(args)
    path = add_file(paths, "host", name, values)
    fields = {"schema": "gitmoat.host-enrol/1", "name": name, "file": str(path), **values}
    out.result(f"enrolled host {name}", fields)
    return 0


def _introduce(out: Output, paths: Paths) -> int:
    status = ask(paths.hostd_socket, {"op": "status"})
    name, key = status.get("host"), status.get("key")
    text = f"on the broker's machine: hostctl host enrol {name} --key {key} --allow git"
    out.result(text, {"schema": "gitmoat.host-enrol/1", "name": name, "key": key})
    return 0


def _ls(args: Namespace, out: Output, paths: Paths) -> int:
    tables = configured(paths, "host")
    found = [{"name": name, **values} for name, (_, values) in tables.items()]
    columns: dict[str, Column] = {"NAME": "name", "KEY": _keys, "CEILING": _ceiling}
    none = "there are no hosts; `hostctl host enrol` adds one"
    return out.listing("gitmoat.host-ls/1", found, "name", columns, none)


def _keys(item: Item) -> str:
    key = item.get("key")
    return " and ".join(map(str, key)) if isinstance(key, list) else str(key)


def _ceiling(item: Item) -> str:
    """For each kind of rule what is allowed of it; `none` where there is no ceiling."""
    repos, hosts, allow = item.get("repos"), item.get("hosts"), item.get("allow")
    parts = {
        "git": _bound(repos) + (" fetch only" if item.get("push") is False else ""),
        "egress": _bound(hosts) + (" not private" if item.get("private") is False else ""),
    }
    kinds = [f"{kind} {parts.get(kind, ANY)}" for kind in allowed_kinds(allow)]
    bounded = allow != ANY or any(part != ANY for part in parts.values())
    times = [f"at most {item['ttl']}"] if item.get("ttl") else []
    return ", ".join((kinds if bounded else []) + times) or "none"


def _bound(patterns: object) -> str:
    return " ".join(map(str, patterns)) if isinstance(patterns, list) and patterns else ANY


def _rm(args: Namespace, out: Output, paths: Paths) -> int:
    name = check_name(args.name)
    remove_file(paths, "host", name)
    out.result(f"removed host {name}", {"schema": "gitmoat.host-rm/1", "name": name})
    return 0


def _rotate(args: Namespace, out: Output, paths: Paths) -> int:
    if args.prepare:
        key = next_key(paths.host_key_next, 0)
        fields = {"schema": "gitmoat.host-rotate-key/1", "key": key, "in_force": False}
        out.result(f"this host's next key is {key}", fields)
        return 0
    if args.switch:
        answer = ask(paths.hostd_socket, {"op": "rotate-key"})
    else:
        answer = change_host_key(paths, out)
    key = str(answer.get("key"))
    fields = {"schema": "gitmoat.host-rotate-key/1", "key": key, "in_force": True}
    out.result(f"this host's key is now {key}", fields)
    return 0
