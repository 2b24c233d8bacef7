"""One file per credential or upstream in broker.d, in force only if the broker takes it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from hostctl.client import ask
from hostctl.configfile import Value, create_file, toml
from hostctl.defaults import broker_uid
from hostctl.failure import NOT_FOUND, Failure, usage
from identity.paths import Paths

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def check_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise usage(f"{name!r} is not a name", "use a-z, 0-9 and -, at most 63 characters")
    return name


def file_of(paths: Paths, kind: str, name: str) -> Path:
    return paths.broker_d / f"{kind}-{name}.toml"


def add_file(paths: Paths, kind: str, name: str, values: Mapping[str, Value]) -> Path:
    """Writes the file and reloads; a refused file is taken back."""
    path = file_of(paths, kind, name)
    if name in configured(paths, kind):
        raise Failure("C109", f"the {kind} {name!r} exists already", fix=_other_name(path))
    text = toml({f"{kind}.{name}": values})
    try:
        if not create_file(path, text, 0o640, broker_uid(paths)):
            raise Failure("C109", f"{path} exists already", fix=_other_name(path))
    except (FileNotFoundError, NotADirectoryError):
        raise Failure("C103", f"{paths.broker_d} is not there", fix="hostctl up") from None
    try:
        reload_broker(paths)
    except BaseException:
        path.unlink()
        raise
    return path


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
        what = f"there is no {kind} {name!r}"
        why = "neither broker.toml nor a file in broker.d names it"
        return Failure("C105", what, why, f"hostctl {kind} ls", exit_code=NOT_FOUND)
    fix = f"remove it from {place[0]} and run `hostctl up`"
    return Failure("C105", f"{kind} {name!r} was not added by hostctl", f"it is in {place[0]}", fix)


def reload_broker(paths: Paths, on_progress: Callable[[str], None] = lambda text: None) -> None:
    ask(paths.broker_admin_socket, {"op": "reload"}, on_progress)


def configured(paths: Paths, kind: str) -> dict[str, tuple[Path, dict[str, object]]]:
    """Every [KIND.NAME] of the broker's files, with the file it is in."""
    found: dict[str, tuple[Path, dict[str, object]]] = {}
    for path in (paths.broker_toml, *sorted(paths.broker_d.glob("*.toml"))):
        tables = _document(path).get(kind)
        for name, values in tables.items() if isinstance(tables, dict) else ():
            found[name] = (path, values if isinstance(values, dict) else {})
    return found


def _document(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise Failure("C102", f"{path} is for root only", fix="use sudo") from None
    except (OSError, ValueError) as error:
        raise Failure("B104", f"{path} cannot be read", str(error), "correct the file") from None


def _other_name(path: Path) -> str:
    return f"choose another name, or remove {path} first"
