"""`hostctl cred`: the credentials the broker uses at upstreams; they never pass argv or env."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hostctl.arguments import not_yet, sub_parsers
from hostctl.failure import Failure, usage
from hostctl.output import Output, need_root

if TYPE_CHECKING:
    from identity.paths import Paths

ABOUT = "Manages the credentials the broker uses at upstreams."
SECRET_LIMIT = 64 * 1024
_DEFAULT_USER = "x-access-token"


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    new = add("add", "Adds a credential; the secret comes from a file or from stdin.")
    new.add_argument("name", metavar="NAME")
    source = new.add_mutually_exclusive_group(required=True)
    source.add_argument("--file", metavar="F", help="read by the broker whenever it changes")
    source.add_argument("--stdin", action="store_true", help="sealed into the broker's vault")
    source.add_argument("--command", dest="later_command", metavar="CMD", help="not yet")
    source.add_argument("--github-app", dest="later_app", metavar="ID", help="not yet")
    new.add_argument("--username", default=_DEFAULT_USER, metavar="U", help=_DEFAULT_USER)
    add("ls", "Lists the credentials, never their values; -q: names only.")


def main(args: Namespace, out: Output) -> int:
    need_root("`hostctl cred`")
    from identity.paths import Paths

    paths = Paths(args.root)
    return _add(args, out, paths) if args.action == "add" else _ls(out, paths)


def _add(args: Namespace, out: Output, paths: Paths) -> int:
    from hostctl.brokerfiles import add_file, check_name

    name = check_name(args.name)
    if args.later_command or args.later_app:
        raise not_yet("this kind of credential")
    kind = "file" if args.file else "vault"
    if args.file:
        values = {"username": args.username, "password_file": _password_file(args.file)}
        path = add_file(paths, "provider", name, {"type": kind, **values})
    else:
        _refuse_known(paths, name)
        _seal(paths, name, args.username, read_secret())
        path = add_file(paths, "provider", name, {"type": kind})
    fields = {"name": name, "type": kind, "file": str(path)}
    out.result(f"added credential {name} ({kind})", {"schema": "gitmoat.cred-add/1", **fields})
    return 0


def _refuse_known(paths: Paths, name: str) -> None:
    """Before the vault is touched: a second `add` must not replace the sealed secret."""
    from hostctl.brokerfiles import configured

    if name in configured(paths, "provider"):
        fix = "choose another name"
        raise Failure("C109", f"there is a credential {name!r} already", fix=fix)


def read_secret(descriptor: int = 0) -> bytes:
    """The secret from stdin without its last newline; never echoed, never kept."""
    if os.isatty(descriptor):
        raise usage("stdin is a terminal", "pipe the secret in: hostctl cred add N --stdin < FILE")
    data = b""
    while len(data) <= SECRET_LIMIT and (piece := os.read(descriptor, SECRET_LIMIT + 1)):
        data += piece
    if len(data) > SECRET_LIMIT:
        raise usage("the secret is longer than 64 KiB", "is it the right file?")
    secret = data.removesuffix(b"\n")
    if not secret:
        raise usage("stdin is empty", "pipe the secret in: hostctl cred add N --stdin < FILE")
    return secret


def seal_request(name: str, username: str, secret: bytes) -> dict[str, object]:
    from base64 import b64encode

    encoded = b64encode(secret).decode("ascii")
    return {"op": "cred-add", "name": name, "username": username, "secret_b64": encoded}


def _seal(paths: Paths, name: str, username: str, secret: bytes) -> None:
    from hostctl.client import ask

    ask(paths.broker_admin_socket, seal_request(name, username, secret))


def _password_file(name: str) -> str:
    """Absolute, there, and a plain file; whether its owner and mode will do is the broker's say."""
    path = os.path.abspath(name)  # noqa: PTH100 -- resolve() would follow a symlink
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        fix = "give a file that is there: root:BROKER 0640, or the broker's own 0600"
        what = f"the credential file {path} cannot be read"
        raise Failure("U105", what, error.strerror or "", fix, exit_code=8) from None
    return path


def _ls(out: Output, paths: Paths) -> int:
    from hostctl.client import ask, items_of

    found = items_of(ask(paths.broker_admin_socket, {"op": "cred-ls"}, out.progress))
    if out.json:
        out.emit({"schema": "gitmoat.cred-ls/1", "items": found})
    elif out.quiet:
        for item in found:
            out.line(str(item.get("name", "")))
    elif found:
        keys = ("name", "type", "username")
        rows = [[item.get(key) or "-" for key in keys] for item in found]
        out.table(("NAME", "TYPE", "USERNAME"), rows)
    else:
        out.progress("no credentials; `hostctl cred add` adds one")
    return 0
