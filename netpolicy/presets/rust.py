"""cargo: the registries and the replacement of the default one; the default is compiled in."""

import tomllib
from collections.abc import Mapping

from netpolicy.presets.places import Answer, Files, answer

FILES = (
    ".cargo/config",
    ".cargo/config.toml",
    "root/.cargo/config",
    "root/.cargo/config.toml",
)
_COMPILED_IN = (
    "cargo: its default registry is compiled into it; configure a [source] replacement in "
    "/root/.cargo/config.toml, or name the hosts in an [[egress]] rule"
)


def read(files: Files) -> Answer:
    urls: list[tuple[str, str]] = []
    notes: list[str] = []
    replaced = False
    for path, text in files.items():
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError):
            notes.append(f"{path}: not understood")
            continue
        sources, registries = _tables(document, "source"), _tables(document, "registries")
        named = [source.get("registry") for source in sources.values()]
        named += [registry.get("index") for registry in registries.values()]
        urls += [(url.removeprefix("sparse+"), path) for url in named if isinstance(url, str)]
        replaced = replaced or any("replace-with" in source for source in sources.values())
    return answer(urls, notes if replaced else [*notes, _COMPILED_IN])


def _tables(document: Mapping[str, object], key: str) -> dict[str, Mapping[str, object]]:
    tables = document.get(key)
    found = tables if isinstance(tables, Mapping) else {}
    return {name: table for name, table in found.items() if isinstance(table, Mapping)}
