"""`hostctl upstream`: the git servers the broker may connect to."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from urllib.parse import urlsplit

from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.output import Column, Output, need_root
from hostctl.setup.brokerfiles import add_file, check_name, configured, remove_file
from hostctl.setup.configfile import Value
from netpolicy.upstreams import fold_host

ABOUT = "Manages the git servers the broker may connect to."
_CASE = """whether ACME/App and acme/app are the same repository there (default: yes for
github.com, else no: only the spelling in the policy is allowed)"""
_SUFFIX = """what becomes of the .git behind a name before the server is asked (default: add for
gitlab.com, remove for dev.azure.com and git.sr.ht, which know one spelling only, else keep)"""
_ONE_SPELLING = {"gitlab.com": "add", "dev.azure.com": "remove", "git.sr.ht": "remove"}


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    new = add("add", "Adds a git server.")
    new.add_argument("name", metavar="NAME", help="its name here, as in NAME:PATH")
    new.add_argument("--url", required=True, metavar="URL", help="https://HOST[:PORT]")
    new.add_argument("--cred", required=True, metavar="NAME", help="a credential of `cred ls`")
    new.add_argument("--ca-file", metavar="F", help="trust this authority instead of the system's")
    new.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="H",
        help="another host name of the same server",
    )
    new.add_argument("--case-insensitive", choices=("yes", "no"), help=_CASE)
    new.add_argument("--git-suffix", choices=("keep", "add", "remove"), help=_SUFFIX)
    new.add_argument("--proxy", metavar="URL", help="http://HOST:PORT: reach it through this proxy")
    new.add_argument("--proxy-cred", metavar="NAME", help="the credential that the proxy wants")
    add("ls", "Lists the git servers; -q: names only.")
    gone = add("rm", "Removes a git server that was added here.")
    gone.add_argument("name", metavar="NAME")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl upstream`")
    actions = {"add": _add, "ls": _ls, "rm": _rm}
    return actions[args.action](args, out, paths)


def ignores_case(url: str) -> bool:
    """The default. A wrong yes would widen rules, a wrong no only narrows them."""
    return _host(url) == "github.com"


def spelling(url: str, chosen: str | None = None) -> dict[str, Value]:
    """`git_suffix`, where it is not the broker's own default."""
    suffix = chosen or _ONE_SPELLING.get(_host(url), "keep")
    return {} if suffix == "keep" else {"git_suffix": suffix}


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # the broker tells what is wrong with it
        return ""


def upstream_values(args: Namespace) -> dict[str, Value]:
    fold = args.case_insensitive or ("yes" if ignores_case(args.url) else "no")
    values: dict[str, Value] = {"url": fold_host(args.url), **spelling(args.url, args.git_suffix)}
    if args.also:
        values["also"] = [host.lower() for host in args.also]
    if args.ca_file:
        values["ca_file"] = os.path.abspath(args.ca_file)  # noqa: PTH100 -- symlinks stay symlinks
    if args.proxy:
        values["proxy"] = args.proxy
    if args.proxy_cred:
        values["proxy_provider"] = args.proxy_cred
    return {**values, "case_insensitive": fold == "yes", "provider": args.cred}


def _add(args: Namespace, out: Output, paths: Paths) -> int:
    name = check_name(args.name)
    values = upstream_values(args)
    path = add_file(paths, "upstream", name, values)
    fields = {"name": name, "file": str(path), **values}
    out.result(
        f"added upstream {name}: {values['url']}", {"schema": "gitmoat.upstream-add/1", **fields}
    )
    return 0


def _ls(args: Namespace, out: Output, paths: Paths) -> int:
    tables = configured(paths, "upstream")
    found = [{"name": name, **values} for name, (_, values) in tables.items()]
    columns: dict[str, Column] = {"NAME": "name", "URL": "url", "CREDENTIAL": "provider"}
    none = "there are no upstreams; `hostctl upstream add` adds one"
    return out.listing("gitmoat.upstream-ls/1", found, "name", columns, none)


def _rm(args: Namespace, out: Output, paths: Paths) -> int:
    name = check_name(args.name)
    remove_file(paths, "upstream", name)
    out.result(f"removed upstream {name}", {"schema": "gitmoat.upstream-rm/1", "name": name})
    return 0
