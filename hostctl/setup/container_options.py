"""The options of `docker run` that hostd names, in the forms of what else starts containers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence

from hostctl.failure import Failure

Options = Sequence[Sequence[str]]
Service = dict[str, object]
# Word for word; the rest is in `_into_service`.
_KEYS = {
    "--network": "network_mode",
    "--user": "user",
    "--ipc": "ipc",
    "--cgroupns": "cgroup",
    "--memory": "mem_limit",
}
_NUMBERS = {"--pids-limit": "pids_limit", "--oom-score-adj": "oom_score_adj"}
_LISTS = {"--cap-drop": "cap_drop", "--security-opt": "security_opt", "--tmpfs": "tmpfs"}
_TO_CONTAINER_ENV = "--env"


def docker(name: str, options: Options) -> str:
    """Words of a command line; each option is on a line of its own."""
    return " \\\n".join(shlex.join(option) for option in options)


def env(name: str, options: Options) -> str:
    """A file of variables, such as the `.env` that compose reads."""
    mount = _parts(_value(options, "--mount"))
    profile = next(each[1] for each in options if each[1:] and each[1].startswith("seccomp="))
    found = {
        "GITMOAT_NETWORK": _value(options, "--network"),
        "GITMOAT_UID": _value(options, "--user").partition(":")[0],
        "GITMOAT_DIR": mount["source"],
        "GITMOAT_SECCOMP": profile.removeprefix("seccomp="),
    }
    return "\n".join(f"{key}={value}" for key, value in found.items())


def compose(name: str, options: Options) -> str:
    """A compose file with one service of this name, to be named behind the one that has its image.
    It is JSON, which YAML includes."""
    service: Service = {"restart": "no"}
    for option in options:
        _into_service(service, option)
    return json.dumps({"services": {name: service}}, indent=2)


def devcontainer(name: str, options: Options) -> str:
    """What a devcontainer.json needs beside its image."""
    words = [word for option in options if option[0] != _TO_CONTAINER_ENV for word in option]
    about = {
        "overrideCommand": True,
        "updateRemoteUserUID": False,
        "containerUser": _value(options, "--user"),
        "runArgs": words,
        "containerEnv": _variables(options),
    }
    return json.dumps(about, indent=2)


FORMATS: dict[str, Callable[[str, Options], str]] = {
    "docker": docker,
    "env": env,
    "compose": compose,
    "devcontainer": devcontainer,
}


def _into_service(service: Service, option: Sequence[str]) -> None:
    match option:
        case [name, value] if name in _KEYS:
            service[_KEYS[name]] = value
        case [name, value] if name in _NUMBERS:
            service[_NUMBERS[name]] = int(value)
        case [name, value] if name in _LISTS:
            _append(service, _LISTS[name], value)
        case ["--read-only"]:
            service["read_only"] = True
        case ["--ulimit", value]:
            kind, _, limits = value.partition("=")
            service["ulimits"] = {kind: int(limits.partition(":")[0])}
        case ["--mount", value]:
            parts = _parts(value)
            volume = {key: parts[key] for key in ("type", "source", "target")}
            _append(service, "volumes", {**volume, "read_only": "readonly" in parts})
        case ["--env", value]:
            _append(service, "environment", value)
        case _:
            # Left out, it would be missing in a container that looks as if it were sealed.
            what = f"{option[0]} has no form for compose here"
            raise Failure("C107", what, "hostd is of another version", "--format docker")


def _append(service: Service, key: str, value: object) -> None:
    values = service.setdefault(key, [])
    if isinstance(values, list):
        values.append(value)


def _value(options: Options, name: str) -> str:
    return next(option[1] for option in options if option[0] == name)


def _parts(mount: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in mount.split(","))


def _variables(options: Options) -> dict[str, str]:
    given: Iterable[str] = (option[1] for option in options if option[0] == _TO_CONTAINER_ENV)
    return dict(each.partition("=")[::2] for each in given)
