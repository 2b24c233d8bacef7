"""One file per credential, upstream or host in broker.d, in force only if the broker accepts it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import Failure, usage
from hostctl.setup.configfile import Value, create_file, read_document, toml
from hostctl.setup.defaults import broker_uid

_VERBS = {"provider": "cred", "upstream": "upstream", "host": "host"}
_NOUNS = {"provider": "credential", "upstream": "upstream", "host": "host"}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def check_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise usage(f"{name!r} is not a name", "use a-z, 0-9 and -, at most 63 characters")
    return name


def file_of(paths: Paths, kind: str, name: str) -> Path:
    return paths.broker_d / f"{kind}-{name}.toml"


def add_file(paths: Paths, kind: str, name: str, values: Mapping[str, Value]) -> Path:
    """Writes the file and reloads; a refused file is removed again."""
    path = file_of(paths, kind, name)
    refuse_known(paths, kind, name)
    text = toml({f"{kind}.{name}": values})
    try:
        if not create_file(path, text, 0o640, broker_uid(paths)):
            raise _taken(kind, name, path, path)
    except (FileNotFoundError, NotADirectoryError):
        raise Failure("C103", f"{paths.broker_d} does not exist", fix="hostctl up") from None
    try:
        reload_broker(paths)
    except BaseException:
        path.unlink()
        raise
    return path


def refuse_known(paths: Paths, kind: str, name: str) -> None:
    if (known := configured(paths, kind).get(name)) is not None:
        raise _taken(kind, name, known[0], file_of(paths, kind, name))


def remove_file(paths: Paths, kind: str, name: str) -> None:
    """Removes the file and reloads; put back when the broker still needs it."""
    path = file_of(paths, kind, name)
    aside = path.with_name(f".{path.name}.removed")
    try:
        path.rename(aside)
    except FileNotFoundError:
        raise _not_ours(paths, kind, name) from None
    try:
        reload_broker(paths)
    except BaseException:
        aside.rename(path)
        raise
    aside.unlink()


def _not_ours(paths: Paths, kind: str, name: str) -> Failure:
    place = configured(paths, kind).get(name)
    if place is None:
        what = f"there is no {_NOUNS[kind]} {name!r}"
        why = "neither broker.toml nor a file in broker.d names it"
        return Failure("C110", what, why, f"hostctl {_VERBS[kind]} ls")
    fix = f"remove it from {place[0]}, then `hostctl reload`"
    what = f"the {_NOUNS[kind]} {name!r} was not added by hostctl"
    return Failure("C105", what, f"it is in {place[0]}", fix)


def reload_broker(paths: Paths, on_progress: Callable[[str], None] = lambda text: None) -> None:
    ask(paths.broker_admin_socket, {"op": "reload"}, on_progress)


def configured(paths: Paths, kind: str) -> dict[str, tuple[Path, dict[str, object]]]:
    """Every [KIND.NAME] of the broker's files, with the file it is in."""
    found: dict[str, tuple[Path, dict[str, object]]] = {}
    for path in (paths.broker_toml, *sorted(paths.broker_d.glob("*.toml"))):
        tables = read_document(path).get(kind)
        for name, values in tables.items() if isinstance(tables, dict) else ():
            found[name] = (path, values if isinstance(values, dict) else {})
    return found


def _taken(kind: str, name: str, place: Path, ours: Path) -> Failure:
    """hostctl removes only files of its own; any other has to be edited by hand."""
    rm = f"`hostctl {_VERBS[kind]} rm {name}`" if place == ours else f"remove it from {place}"
    what = f"the {_NOUNS[kind]} {name!r} exists already"
    return Failure("C109", what, f"it is in {place}", f"choose another name, or {rm} first")
