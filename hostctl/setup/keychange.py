"""Replaces a key while everything runs: both keys are accepted before the old one is dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gitmoat.identity.keyfile import KeyFileUnsafe, load_or_create_key, public_text
from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import NOT_FOUND, Failure
from hostctl.output import Output
from hostctl.setup.brokerfiles import configured, reload_broker
from hostctl.setup.configfile import set_key


def next_key(path: Path, uid: int) -> str:
    """The public half of the next key, which is made if there is none yet."""
    try:
        return public_text(load_or_create_key(path, uid))
    except KeyFileUnsafe as error:
        raise Failure("C101", "the next key is not safe to use", str(error)) from None
    except FileNotFoundError:
        raise Failure(
            "C101", "the directory of the next key does not exist", f"no {path.parent}"
        ) from None


def pin(paths: Paths, keys: Sequence[str]) -> None:
    """Sets the keys that this host accepts as its broker's, in hostd.toml and in what runs."""
    set_key(paths.hostd_toml, "broker", keys)
    ask(paths.hostd_socket, {"op": "pins"})


def change_broker_key(paths: Paths, out: Output, prepare: bool, broker: int) -> tuple[str, bool]:
    """The new public key, and whether it is in force."""
    old = str(ask(paths.broker_admin_socket, {"op": "status"})["key"])
    new = next_key(paths.broker_key_next, broker)
    out.progress("hostd and its sidecars accept both keys ...")
    pin(paths, [old, new])
    if prepare:
        return new, False
    out.progress("the broker switches to the new key ...")
    ask(paths.broker_admin_socket, {"op": "key-switch"})
    pin(paths, [new])
    return new, True


def enrolled(paths: Paths, name: str) -> Path:
    found = configured(paths, "host").get(name)
    if found is None:
        what = f"host {name!r} is not enrolled at the broker of this machine"
        fix = "enrol its next key where the broker is, then `hostctl host rotate-key --switch`"
        raise Failure("R103", what, fix=fix, exit_code=NOT_FOUND)
    return found[0]


def change_host_key(paths: Paths, out: Output) -> Mapping[str, object]:
    status = ask(paths.hostd_socket, {"op": "status"})
    name, old = str(status["host"]), str(status["key"])
    file = enrolled(paths, name)
    new = next_key(paths.host_key_next, 0)
    out.progress("the broker accepts both keys ...")
    set_key(file, f"host.{name}", [old, new])
    reload_broker(paths)
    out.progress("hostd switches to the new key ...")
    answer = ask(paths.hostd_socket, {"op": "rotate-key"})
    set_key(file, f"host.{name}", [new])
    reload_broker(paths)
    return answer
