"""`hostctl init`: the first real set-up, from a login that the host's owner has already."""

from __future__ import annotations

import os
import pwd
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from urllib.parse import urlsplit

from gitmoat.paths import Paths
from hostctl import control_client
from hostctl.commands.cred import lines_of_test
from hostctl.commands.up import start_missing
from hostctl.commands.upstream import ignores_case, spelling
from hostctl.failure import FAILED, NOT_FOUND, Failure, usage
from hostctl.output import Output, need_root
from hostctl.setup.brokerfiles import add_file, check_name, configured, remove_file
from hostctl.setup.configfile import Value
from hostctl.setup.defaults import need_directory, write_defaults
from hostctl.setup.logins import Login, has_login, logins, runner
from hostctl.terminal.interrupts import raise_on_signals
from hostctl.terminal.questions import ask, ask_yes, is_interactive
from netpolicy.upstreams import without_userinfo

ABOUT = """\
Sets up a first git server: finds a login you have, starts broker and hostd, and tries the login.

It asks `gh` and the git credential helpers of the user who called sudo, as that user, whether
there is a login, proposes an upstream and a credential, and asks before it writes anything. The
secret stays where it is: the helper is asked for it when it is needed, as that user, and only the
broker gets its answer."""
_NONE = "neither `gh` nor a git credential helper is configured for it"
_UNTRUSTED = "U106"
_NOT_NAMES = re.compile(r"[^a-z0-9-]")


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--user", metavar="U", help="whose login (default: who called sudo)")
    add("--url", metavar="URL", help="https://HOST[:PORT] of the git server, if there are several")
    add("--name", metavar="NAME", help="what to call upstream and credential here")
    add("--ca-file", metavar="F", help="trust this authority instead of the system's")
    add("--repo", metavar="R", help="PATH of a repository there, to try the login with")
    add("-y", "--yes", action="store_true", help="do not ask")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl init`")
    need_directory(paths)
    user = _user(args)
    run = runner(user, paths.root)
    url, login = _choose(args, user, logins(run, _host(args.url) if args.url else ""))
    if not has_login(run, urlsplit(url).netloc, login.command):
        why = f"`{' '.join(login.command)}`, run as {user.pw_name}, gives none"
        raise _no_login(user, urlsplit(url).netloc, why)
    name = _name(args, url)
    _confirm(args, out, user, url, name, login)
    raise_on_signals()
    write_defaults(paths)
    start_missing(paths, out)
    added = _configure(args, paths, name, url, login)
    try:
        tried = _try(args, paths, name)
    except Failure as failure:
        failure.what += _undo(paths, name, added)
        raise
    except BaseException:
        _undo(paths, name, added)
        raise
    return _report(out, name, url, added, tried)


def _user(args: Namespace) -> pwd.struct_passwd:
    name = args.user or os.environ.get("SUDO_USER")
    if not name or name == "root":
        raise usage("the login of a user who is not root is needed", "name the account: --user U")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise usage(
            f"there is no user {name!r} on this host", "name an account: --user U"
        ) from None


def _choose(args: Namespace, user: pwd.struct_passwd, found: list[Login]) -> tuple[str, Login]:
    """The server and the login for it. A helper that serves any host does not say which one."""
    host = _host(args.url) if args.url else ""
    fitting = [each for each in found if not host or each.host in ("", host)]
    if not fitting:
        raise _no_login(user, host)
    hosts = [host] if host else list(dict.fromkeys(each.host for each in fitting if each.host))
    if len(hosts) != 1:
        shown = ", ".join(hosts) or "a credential helper for any server"
        if not is_interactive():
            raise usage(f"which git server? there is: {shown}", "name it: --url https://HOST")
        default = hosts[0] if hosts else ""
        hosts = [_host(ask(f"which git server ({shown})", default, _host))]
    exact = [each for each in fitting if each.host == hosts[0]]
    usable = exact or [each for each in fitting if not each.host]
    if not usable:
        raise _no_login(user, hosts[0])
    return f"https://{hosts[0]}", usable[0]


def _host(url: str) -> str:
    text = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    bare = parts.netloc and "@" not in parts.netloc and parts.path in ("", "/")
    if parts.scheme != "https" or not bare:
        shown = without_userinfo(url)
        raise usage(f"{shown!r} is not a git server", "write https://HOST or https://HOST:PORT")
    return parts.netloc.lower()


def _no_login(user: pwd.struct_passwd, host: str, why: str = _NONE) -> Failure:
    where = f" for {host}" if host else ""
    what = f"no login{where} was found for the user {user.pw_name}"
    fix = "log in as that user, or: hostctl up, hostctl cred add, hostctl upstream add"
    return Failure("U105", what, why, fix, exit_code=NOT_FOUND)


def _name(args: Namespace, url: str) -> str:
    """`git.corp.example:8443` is called corp."""
    labels = (urlsplit(url).hostname or "").split(".")
    return check_name(
        args.name or _NOT_NAMES.sub("-", labels[-2] if len(labels) > 1 else labels[0])
    )


def _confirm(
    args: Namespace, out: Output, user: pwd.struct_passwd, url: str, name: str, login: Login
) -> None:
    out.progress(f"found: {login.source} ({user.pw_name})")
    out.progress(f"upstream {name}: {url}")
    out.progress(f"credential {name}: from `{' '.join(login.command)}`, run as {user.pw_name}")
    if args.yes:
        return
    if not is_interactive():
        raise usage("nothing was written: there is no terminal to ask on", "add --yes to go ahead")
    if not ask_yes("write this, and start broker and hostd?", default=True):
        raise usage("nothing was written", "--url, --user and --name choose something else")


def _configure(args: Namespace, paths: Paths, name: str, url: str, login: Login) -> bool:
    """Adds credential and upstream; returns False if the server is configured already."""
    ca_file = {"ca_file": os.path.abspath(args.ca_file)} if args.ca_file else {}  # noqa: PTH100
    for known, (_, values) in configured(paths, "upstream").items():
        if str(values.get("url", "")).rstrip("/") == url:
            _check_authority(known, values, ca_file)
            return False
    provider: dict[str, Value] = {"type": "git-credential", "user": _user(args).pw_name}
    add_file(paths, "provider", name, {**provider, "command": list(login.command)})
    try:
        fold: dict[str, Value] = {"case_insensitive": ignores_case(url), **spelling(url)}
        add_file(paths, "upstream", name, {"url": url, **ca_file, **fold, "provider": name})
    except BaseException:
        remove_file(paths, "provider", name)
        raise
    return True


def _check_authority(name: str, values: Mapping[str, object], wanted: Mapping[str, Value]) -> None:
    if wanted and values.get("ca_file") != wanted["ca_file"]:
        what = f"the upstream {name} is configured already, without this authority"
        raise Failure("C109", what, fix=f"hostctl upstream rm {name}, then hostctl init again")


def _undo(paths: Paths, name: str, added: bool) -> str:
    """What does not work is not kept: the next attempt would find it set up already."""
    if not added:
        return ""
    remove_file(paths, "upstream", name)
    remove_file(paths, "provider", name)
    return "; nothing of it was kept"


def _report(
    out: Output, name: str, url: str, added: bool, tried: Mapping[str, object] | None
) -> int:
    word = "is set up" if added else "was set up already"
    fields = {"upstream": name, "url": url, "added": added, "test": tried}
    out.result(f"gitmoat {word}: {name} is {url}", {"schema": "gitmoat.init/1", **fields})
    if tried is not None:
        for line in lines_of_test(tried):
            out.progress(line)
    out.progress(
        f"next: hostctl policy init --repo {name}:PATH, or hostctl run --repo {url}/PATH -- CMD"
    )
    return 0


def _try(args: Namespace, paths: Paths, name: str) -> dict[str, object] | None:
    if not args.repo:
        return None
    request = {"op": "cred-test", "name": name, "repo": f"{name}:{args.repo}"}
    tried = dict(control_client.ask(paths.broker_admin_socket, request))
    if tried.get("code") is not None:
        raise _refused(tried)
    return tried


def _refused(tried: Mapping[str, object]) -> Failure:
    code, place = str(tried.get("code")), f"{tried.get('upstream')}:{tried.get('repository')}"
    what = f"the login did not work at {place}"
    fix = "init again with --ca-file F, the authority that signed it" if code == _UNTRUSTED else ""
    return Failure(code, what, str(tried.get("what", "")), fix, exit_code=FAILED)
