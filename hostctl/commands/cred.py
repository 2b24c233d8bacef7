"""`hostctl cred`: the credentials the broker uses at upstreams; none is ever in argv or env."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from base64 import b64encode
from collections.abc import Mapping
from resource import RLIMIT_CORE, setrlimit
from shlex import split

from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.control_client import ask, items_of
from hostctl.failure import FAILED, Failure, plain, usage
from hostctl.output import Column, Output, need_root
from hostctl.setup.brokerfiles import (
    add_file,
    check_name,
    configured,
    refuse_known,
    reload_broker,
    remove_file,
)
from hostctl.setup.configfile import Value, replace_secret
from hostctl.setup.credplaces import first_repository
from hostctl.terminal.moments import until
from hostctl.terminal.questions import ask_secret

ABOUT = "Manages the credentials the broker uses at upstreams."
SECRET_LIMIT = 64 * 1024
_DEFAULT_USER = "x-access-token"
_REPO = "URL, or UPSTREAM:PATH (default: the first that a policy names)"
_STDIN = "read the secret from stdin; a terminal asks for it, which is the default there"
_HELPER = "a git credential helper you have: 'gh auth git-credential'"


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    new = add("add", "Adds a credential; its secret is never on the command line.")
    new.add_argument("name", metavar="NAME", help="its name at the broker")
    source = new.add_mutually_exclusive_group()
    source.add_argument(
        "--file", metavar="F", help="a file that the broker reads again when it changes"
    )
    source.add_argument("--stdin", action="store_true", help=_STDIN)
    source.add_argument("--command", dest="helper", metavar="CMD", help=_HELPER)
    source.add_argument("--github-app", dest="app", metavar="ID", help="an App's id, or client id")
    new.add_argument(
        "--username", metavar="U", help=f"with a secret, not a helper: {_DEFAULT_USER}"
    )
    new.add_argument("--user", metavar="U", help="with --command: whose login (default: sudo's)")
    new.add_argument("--private-key", metavar="F", help="with --github-app: the App's PEM file")
    new.add_argument("--installation", metavar="ID", type=int, help="with --github-app: its id")
    new.add_argument(
        "--api-url", metavar="URL", help="with --github-app: the API of a GitHub Enterprise Server"
    )
    add("ls", "Lists the credentials, never their values; -q: names only.")
    test = add("test", "Tries a credential at its server, reading one repository's refs.")
    test.add_argument("name", metavar="NAME")
    test.add_argument("--repo", metavar="R", help=_REPO)
    fresh = add("rotate", "Replaces the secret; the new one is used at once.")
    fresh.add_argument("name", metavar="NAME")
    source = fresh.add_mutually_exclusive_group()
    source.add_argument("--file", metavar="F", help="the new secret is in this file")
    source.add_argument("--stdin", action="store_true", help=_STDIN)
    gone = add("rm", "Removes a credential that was added here.")
    gone.add_argument("name", metavar="NAME")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl cred`")
    actions = {"add": _add, "ls": _ls, "test": _test, "rotate": _rotate, "rm": _rm}
    return actions[args.action](args, out, paths)


def _add(args: Namespace, out: Output, paths: Paths) -> int:
    name = check_name(args.name)
    _choose_source(args, args.file or args.helper or args.app)
    _check_options(args)
    values = provider_values(args, os.environ.get("SUDO_USER"))
    if args.stdin:
        refuse_known(paths, "provider", name)  # or a second `add` would replace what is sealed
        _seal(paths, name, args.username or _DEFAULT_USER, read_secret(name))
    path = add_file(paths, "provider", name, values)
    kind = values["type"]
    fields = {"name": name, "type": kind, "file": str(path)}
    out.result(f"added credential {name} ({kind})", {"schema": "gitmoat.cred-add/1", **fields})
    return 0


def _choose_source(args: Namespace, named: object) -> None:
    """A terminal is asked for the secret; nothing else is read that nobody named."""
    if named or args.stdin:
        return
    if not os.isatty(0):
        what = "nothing says where the secret is, and stdin is no terminal to ask on"
        raise usage(what, f"hostctl cred {args.action} {args.name} --stdin < FILE")
    args.stdin = True


def _check_options(args: Namespace) -> None:
    """Refuses the options of another kind of credential."""
    allowed = {
        "username": args.stdin or args.file,
        "user": args.helper,
        "private_key": args.app,
        "installation": args.app,
        "api_url": args.app,
    }
    for option, fits in allowed.items():
        if getattr(args, option) is not None and not fits:
            flag = "--" + option.replace("_", "-")
            raise usage(f"{flag} does not go with this kind", "hostctl cred add --help")


def provider_values(args: Namespace, caller: str | None) -> dict[str, Value]:
    """The table [provider.NAME]; the broker checks what it means."""
    if args.stdin:
        return {"type": "vault"}
    if args.file:
        file = _readable(args.file)
        username = args.username or _DEFAULT_USER
        return {"type": "file", "username": username, "password_file": file}
    if args.helper:
        return _helper_values(args, caller)
    if args.private_key is None or args.installation is None:
        fix = "hostctl cred add NAME --github-app ID --private-key F --installation ID"
        raise usage("an App needs its key and its installation", fix)
    values: dict[str, Value] = {
        "type": "github-app",
        "app_id": int(args.app) if args.app.isascii() and args.app.isdigit() else args.app,
        "installation_id": args.installation,
        "private_key_file": _readable(args.private_key),
    }
    return {**values, "api_url": args.api_url} if args.api_url else values


def _helper_values(args: Namespace, caller: str | None) -> dict[str, Value]:
    user = args.user or caller
    if not user or user == "root":
        fix = "name the account whose login it is: --user U"
        raise usage("the helper needs a user who is not root", fix)
    try:
        words = split(args.helper)
    except ValueError:
        raise usage("the command's quotes do not match", "hostctl cred add --help") from None
    return {"type": "git-credential", "user": user, "command": words}


def read_secret(name: str, descriptor: int = 0) -> bytes:
    """The secret without its last newline; never echoed, never kept, in no core file."""
    setrlimit(RLIMIT_CORE, (0, 0))
    if os.isatty(descriptor):
        return ask_secret(f"secret of {name} (it is not shown)", descriptor)
    data = b""
    while len(data) <= SECRET_LIMIT and (piece := os.read(descriptor, SECRET_LIMIT + 1)):
        data += piece
    if len(data) > SECRET_LIMIT:
        raise usage("the secret is longer than 64 KiB", "is it the right file?")
    secret = data.removesuffix(b"\n")
    if not secret:
        raise usage("the secret is empty", f"pipe it in: hostctl cred add {name} --stdin < FILE")
    return secret


def seal_request(name: str, username: str, secret: bytes) -> dict[str, object]:
    encoded = b64encode(secret).decode("ascii")
    return {"op": "cred-add", "name": name, "username": username, "secret_b64": encoded}


def _seal(paths: Paths, name: str, username: str, secret: bytes) -> None:
    ask(paths.broker_admin_socket, seal_request(name, username, secret))


def _readable(name: str) -> str:
    """An absolute path of a plain file; the broker checks its owner and mode."""
    path = os.path.abspath(name)  # noqa: PTH100 -- resolve() would follow a symlink
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        fix = "give a readable file: root:BROKER 0640, or the broker's own 0600"
        what = f"the credential file {path} cannot be read"
        raise Failure("U105", what, error.strerror or "", fix, exit_code=8) from None
    return path


def _ls(args: Namespace, out: Output, paths: Paths) -> int:
    found = items_of(ask(paths.broker_admin_socket, {"op": "cred-ls"}, out.progress))
    columns: dict[str, Column] = {"NAME": "name", "TYPE": "type", "USERNAME": "username"}
    none = "there are no credentials; `hostctl cred add` adds one"
    return out.listing("gitmoat.cred-ls/1", found, "name", columns, none)


def _known(paths: Paths, name: str) -> dict[str, object]:
    items = items_of(ask(paths.broker_admin_socket, {"op": "cred-ls"}))
    found = next((item for item in items if item.get("name") == name), None)
    if found is None:
        raise Failure("C110", f"there is no credential {name!r}", fix="hostctl cred ls")
    return found


def _test(args: Namespace, out: Output, paths: Paths) -> int:
    repo = args.repo or first_repository(paths, args.name)
    if repo is None:
        raise usage("no policy names a repository for it", "name one: --repo UPSTREAM:PATH")
    request = {"op": "cred-test", "name": args.name, "repo": repo}
    answer = ask(paths.broker_admin_socket, request)
    if out.json:
        out.emit({"schema": "gitmoat.cred-test/1", **answer})
    else:
        for line in lines_of_test(answer):
            out.line(line)
    return 0 if answer.get("code") is None else FAILED


def lines_of_test(answer: Mapping[str, object]) -> list[str]:
    """For people: the server's answer, the scope, the expiry and any warnings."""
    code = answer.get("code")
    place = f"{answer.get('upstream')}:{answer.get('repository')}"
    said = plain(answer.get("what", "")) + (f" [{code}]" if code else "")
    expires = answer.get("expires")
    lines = [
        f"{plain(answer.get('name', ''))} at {plain(place)}: {said}",
        f"scope:    {plain(answer.get('scope', ''))}",
        f"expires:  {'not known' if expires is None else until(expires)}",
    ]
    warnings = answer.get("warnings")
    told = warnings if isinstance(warnings, list) else []
    return lines + [f"warning:  {plain(one)}" for one in told]


def _rotate(args: Namespace, out: Output, paths: Paths) -> int:
    """The reload makes the broker forget kept tokens; vault and files are read at each use."""
    known = _known(paths, args.name)
    kind, file = known.get("type"), known.get("file")
    if kind == "git-credential":
        fix = f"log in again as {known.get('user')}; it is asked within five minutes"
        raise Failure("C105", "this credential is rotated by its helper", fix=fix)
    _choose_source(args, args.file)
    secret = _secret_of(args)
    if kind == "vault":
        _seal(paths, args.name, str(known.get("username") or _DEFAULT_USER), secret)
    elif isinstance(file, str):
        replace_secret(file, secret + b"\n")
    reload_broker(paths)
    fields = {"schema": "gitmoat.cred-rotate/1", "name": args.name, "type": kind}
    out.result(f"rotated {args.name}; `hostctl cred test {args.name}` tries it", fields)
    return 0


def _secret_of(args: Namespace) -> bytes:
    if args.stdin:
        return read_secret(args.name)
    descriptor = os.open(_readable(args.file), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_secret(args.name, descriptor)
    finally:
        os.close(descriptor)


def _refuse_needed(paths: Paths, name: str) -> None:
    """The broker would refuse it too, but as an error in its configuration."""
    for upstream, (_, values) in configured(paths, "upstream").items():
        if name in (values.get("provider"), values.get("proxy_provider")):
            what = f"the credential {name!r} is needed by the upstream {upstream!r}"
            raise Failure("C111", what, fix=f"hostctl upstream rm {upstream}")


def _rm(args: Namespace, out: Output, paths: Paths) -> int:
    """Removes the configuration first, so that nothing uses what is then removed from the vault."""
    name = check_name(args.name)
    known = _known(paths, name)
    _refuse_needed(paths, name)
    if name in configured(paths, "provider"):
        remove_file(paths, "provider", name)
    if known.get("type") == "vault":
        ask(paths.broker_admin_socket, {"op": "cred-rm", "name": name})
    left = f"; {known['file']} is still there" if known.get("file") else ""
    fields = {"schema": "gitmoat.cred-rm/1", "name": name, "file": known.get("file")}
    out.result(f"removed credential {name}{left}", fields)
    return 0
